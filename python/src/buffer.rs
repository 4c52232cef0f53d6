//! Python's buffer protocol: `bytes`, `bytearray`, `array.array`, `memoryview`, `mmap`.
//!
//! A `memoryview` of the object holds the memory. It is dropped with the last use of the data, on
//! whatever thread, and given up by the next call that Python makes, so that a release never waits
//! for the interpreter.

use std::ffi::{CStr, c_void};
use std::ptr;

use arrow_device::abi::dlpack::{
    DLDataType, DLDevice, DLManagedTensorVersioned, DLPACK_FLAG_BITMASK_READ_ONLY,
    DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION, DLPackVersion, DLTensor, kDLBool, kDLCPU,
    kDLComplex, kDLFloat, kDLInt, kDLUInt,
};
use arrow_device::dlpack::{Order, Tensor};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

use crate::attach::Held;
use crate::error::{OrRaise, refused};

/// The memory of an object as a tensor, without a copy.
pub(crate) fn take(object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let view = PyMemoryView::from(object)?;
    // Ends with this function; the memory is held by the view.
    let buffer = PyUntypedBuffer::get(&view)?;
    let size = buffer.item_size();
    let dtype = dtype(buffer.format(), size)?;
    if buffer.suboffsets().is_some() {
        return Err(refused(
            "the buffer leads from pointer to pointer, and a tensor is in one piece",
        ));
    }
    let mut dims: Vec<i64> = Vec::with_capacity(2 * buffer.dimensions());
    for length in buffer.shape() {
        dims.push(i64::try_from(*length)?);
    }
    let bytes = isize::try_from(size)?;
    for stride in buffer.strides() {
        if stride.checked_rem(bytes) != Some(0) {
            let message = format!("elements of {size} bytes lie {stride} bytes apart, no multiple");
            return Err(refused(message));
        }
        dims.push(i64::try_from(stride / bytes)?);
    }
    let ndim = buffer.dimensions();
    let is_empty = dims.iter().take(ndim).any(|length| *length == 0);
    let block = Box::leak(Box::new(ViewedTensor {
        managed: DLManagedTensorVersioned {
            version: DLPackVersion { major: DLPACK_MAJOR_VERSION, minor: DLPACK_MINOR_VERSION },
            manager_ctx: ptr::null_mut(),
            deleter: Some(delete),
            flags: if buffer.readonly() { DLPACK_FLAG_BITMASK_READ_ONLY } else { 0 },
            dl_tensor: DLTensor {
                data: if is_empty { ptr::null_mut() } else { buffer.buf_ptr() },
                device: DLDevice { device_type: kDLCPU, device_id: 0 },
                ndim: i32::try_from(ndim)?,
                dtype,
                shape: ptr::null_mut(),
                strides: ptr::null_mut(),
                byte_offset: 0,
            },
        },
        dims,
        _view: Held::new(view.into_any()),
    }));
    let numbers = block.dims.as_mut_ptr();
    block.managed.dl_tensor.shape = numbers;
    block.managed.dl_tensor.strides = numbers.wrapping_add(ndim);
    let block = ptr::from_mut(block);
    // SAFETY: the block was just leaked, and nobody else has it.
    unsafe { (*block).managed.manager_ctx = block.cast::<c_void>() };
    // SAFETY: the block was just leaked, and nobody else has it; only the place is computed.
    let managed = unsafe { &raw mut (*block).managed };
    // SAFETY: shape and strides are the block's, and the buffer protocol says that the elements
    // they name are in memory that the view holds; the deleter drops both.
    let tensor = unsafe { Tensor::import(managed, Order::Host) }.or_refuse()?;
    // SAFETY: `array` tells its callers that nobody may write to memory that is shared as long as
    // it is.
    Ok(unsafe { tensor.assume_frozen() })
}

/// A tensor over memory that a view holds.
struct ViewedTensor {
    managed: DLManagedTensorVersioned,
    /// Lengths, then strides.
    dims: Vec<i64>,
    _view: Held,
}

unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: called once, by the tensor that `take` imported, with the pointer that it was given.
    let block = unsafe { (*managed).manager_ctx }.cast::<ViewedTensor>();
    // SAFETY: `take` leaked this box.
    drop(unsafe { Box::from_raw(block) });
}

/// The type of an element by its format in Python's `struct` notation.
fn dtype(format: &CStr, size: usize) -> PyResult<DLDataType> {
    let text = format.to_bytes();
    let foreign: &[u8] = if cfg!(target_endian = "little") { b">!" } else { b"<" };
    let code = match text {
        [order, ..] if size > 1 && foreign.contains(order) => None,
        [b'@' | b'=' | b'<' | b'>' | b'!', rest @ ..] => of_letters(rest),
        letters => of_letters(letters),
    };
    let bits = u8::try_from(size.saturating_mul(8)).ok();
    match (code, bits) {
        (Some(code), Some(bits)) => Ok(DLDataType { code, bits, lanes: 1 }),
        _ => {
            let format = format.to_string_lossy();
            Err(refused(format!("a buffer of the format '{format}' has no type that a tensor has")))
        }
    }
}

fn of_letters(letters: &[u8]) -> Option<u8> {
    match letters {
        [b'?'] => Some(kDLBool),
        [b'b' | b'h' | b'i' | b'l' | b'q' | b'n'] => Some(kDLInt),
        [b'B' | b'H' | b'I' | b'L' | b'Q' | b'N' | b'c'] => Some(kDLUInt),
        [b'e' | b'f' | b'd'] => Some(kDLFloat),
        [b'Z', b'f' | b'd'] => Some(kDLComplex),
        _ => None,
    }
}
