//! What the array interfaces of CUDA and SYCL have in common: a dictionary says where elements lie
//! and of which type they are, and an object keeps their memory.

use std::ffi::c_void;
use std::ptr;

use arrow_device::DeviceId;
use arrow_device::abi::dlpack::{
    DLDataType, DLManagedTensorVersioned, DLPACK_FLAG_BITMASK_READ_ONLY, DLPACK_MAJOR_VERSION,
    DLPACK_MINOR_VERSION, DLPackVersion, DLTensor, kDLBool, kDLComplex, kDLFloat, kDLInt, kDLUInt,
};
use arrow_device::dlpack::{Dtype, Tensor, dl_device};
use pyo3::prelude::*;

use crate::attach::Held;
use crate::error::{OrRaise, refused};
use crate::streams::Ordered;

/// Elements that a dictionary describes.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) on: DeviceId,
    /// The address of the first element.
    pub(crate) address: usize,
    pub(crate) is_read_only: bool,
    pub(crate) dtype: DLDataType,
    pub(crate) shape: Vec<i64>,
    /// In elements, as many as there are lengths.
    pub(crate) strides: Vec<i64>,
}

impl Described {
    /// The tensor over these elements, which keeps the object.
    pub(crate) fn tensor(self, object: &Bound<'_, PyAny>, order: &Ordered) -> PyResult<Tensor> {
        let Self { on, address, is_read_only, dtype, shape, strides } = self;
        let (is_empty, ndim) = (shape.contains(&0), shape.len());
        let data = match is_empty {
            true => ptr::null_mut(),
            false => ptr::with_exposed_provenance_mut(address),
        };
        let block = Box::leak(Box::new(Block {
            managed: DLManagedTensorVersioned {
                version: DLPackVersion { major: DLPACK_MAJOR_VERSION, minor: DLPACK_MINOR_VERSION },
                manager_ctx: ptr::null_mut(),
                deleter: Some(delete),
                flags: if is_read_only { DLPACK_FLAG_BITMASK_READ_ONLY } else { 0 },
                dl_tensor: DLTensor {
                    data,
                    device: dl_device(on).or_refuse()?,
                    ndim: i32::try_from(ndim)?,
                    dtype,
                    shape: ptr::null_mut(),
                    strides: ptr::null_mut(),
                    byte_offset: 0,
                },
            },
            dims: [shape, strides].concat(),
            _object: Held::new(object.clone()),
        }));
        let numbers = block.dims.as_mut_ptr();
        block.managed.dl_tensor.shape = numbers;
        block.managed.dl_tensor.strides = numbers.wrapping_add(ndim);
        let block = ptr::from_mut(block);
        // SAFETY: the Rust reference on places: the block was just leaked, and nobody else has it.
        unsafe { (*block).managed.manager_ctx = block.cast::<c_void>() };
        // SAFETY: the Rust reference on places: the block was just leaked; only the place is
        // computed.
        let managed = unsafe { &raw mut (*block).managed };
        // SAFETY: UNS-23 to UNS-25: the struct is new and its deleter drops it once; shape and
        // strides are the block's; the interfaces say that the elements they name lie at `data` as
        // long as the object lives, which the block holds.
        let tensor = unsafe { Tensor::import(managed, order.order()) }.or_refuse()?;
        // SAFETY: UNS-26: `array` tells its callers that nobody may write to memory that is shared
        // as long as it is.
        Ok(unsafe { tensor.assume_frozen() })
    }
}

/// A tensor over memory of an object.
struct Block {
    managed: DLManagedTensorVersioned,
    /// Lengths, then strides.
    dims: Vec<i64>,
    _object: Held,
}

unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: UNS-23: called once, by the tensor that `Described::tensor` imported, with the
    // pointer that it was given.
    let block = unsafe { (*managed).manager_ctx }.cast::<Block>();
    // SAFETY: the documentation of `Box::from_raw`: `Described::tensor` leaked this box.
    drop(unsafe { Box::from_raw(block) });
}

/// The type of the elements, as numpy writes it.
pub(crate) fn type_string(dtype: Dtype) -> PyResult<String> {
    if dtype == Dtype::BOOL {
        return Ok("|b1".to_owned());
    }
    let text = dtype.to_string();
    let digits = text.find(|letter: char| letter.is_ascii_digit()).unwrap_or(text.len());
    let (kind, bits) = text.split_at(digits);
    let unknown = || refused(format!("the array interfaces have no name for {text}"));
    // Such as four bits, or eight bits whose meaning the letters say.
    if !dtype.bits.is_multiple_of(8) || bits != dtype.bits.to_string() {
        return Err(unknown());
    }
    let bytes = usize::from(dtype.bits / 8);
    let letter = match kind {
        "int" => 'i',
        "uint" => 'u',
        "float" => 'f',
        "complex" => 'c',
        _ => return Err(unknown()),
    };
    let order = match (bytes, cfg!(target_endian = "little")) {
        (1, _) => '|',
        (_, true) => '<',
        (_, false) => '>',
    };
    Ok(format!("{order}{letter}{bytes}"))
}

/// The strides of elements that lie one after the other, in elements.
pub(crate) fn compact(shape: &[i64]) -> PyResult<Vec<i64>> {
    let mut strides = Vec::with_capacity(shape.len());
    let mut step = 1_i64;
    for length in shape.iter().rev() {
        strides.push(step);
        let next = step.checked_mul((*length).max(1));
        step = next.ok_or_else(|| refused("the shape has more elements than there is memory"))?;
    }
    strides.reverse();
    Ok(strides)
}

/// The type of elements that numpy writes so.
pub(crate) fn dtype(text: &str) -> PyResult<DLDataType> {
    let unknown = || refused(format!("a tensor has no elements of the type {text:?}"));
    let mut letters = text.chars();
    let (order, kind) = (letters.next().ok_or_else(unknown)?, letters.next().ok_or_else(unknown)?);
    let bytes = letters.as_str().parse::<u8>().map_err(|_| unknown())?;
    let foreign = if cfg!(target_endian = "little") { '>' } else { '<' };
    let code = match kind {
        'b' if bytes == 1 => kDLBool,
        'i' => kDLInt,
        'u' => kDLUInt,
        'f' => kDLFloat,
        'c' => kDLComplex,
        _ => return Err(unknown()),
    };
    if order == foreign && bytes > 1 || bytes == 0 {
        return Err(unknown());
    }
    let bits = bytes.checked_mul(8).ok_or_else(unknown)?;
    Ok(DLDataType { code, bits, lanes: 1 })
}
