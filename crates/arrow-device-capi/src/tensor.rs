//! Tensors.

use std::ffi::c_int;

use arrow_device::abi::dlpack::{DLDataType, DLManagedTensor, DLManagedTensorVersioned};
use arrow_device::dlpack::{Conversion, CopyPolicy, Form, Nulls, Order, Tensor};
use arrow_device::{Batch, DataType, Result};

use crate::array::ArdevArray;
use crate::call::{Out, free, get, invalid, run};
use crate::error::ArdevError;
use crate::queue::ArdevQueue;
use crate::sized::{self, OutGrows};

#[derive(Debug)]
pub struct ArdevTensor(Tensor);

pub const ARDEV_TENSOR_FROZEN: u32 = 1;

pub const ARDEV_COPYING_NEVER: i32 = 0;
pub const ARDEV_COPYING_IF_NEEDED: i32 = 1;
pub const ARDEV_COPYING_ALWAYS: i32 = 2;

pub const ARDEV_CONVERT_NULLS_TO_NAN: u32 = 1;
pub const ARDEV_CONVERT_AS_INTEGERS: u32 = 2;
pub const ARDEV_CONVERT_TRUST_BOOLS: u32 = 4;
pub const ARDEV_CONVERT_PACK_BOOLS: u32 = 8;
pub const ARDEV_CONVERT_AS_LISTS: u32 = 16;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArdevConversion {
    pub struct_size: usize,
    pub copying: i32,
    pub flags: u32,
    pub queue: *const ArdevQueue,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArdevTensorInfo {
    pub struct_size: usize,
    pub dtype: DLDataType,
    pub ndim: i32,
    pub shape: *const i64,
    pub strides: *const i64,
    pub device_id: i64,
    pub device_type: i32,
    pub is_frozen: i32,
}

/// # Safety
/// The pointers keep to rules 1, 2 and 3 of the header, and the tensor to UNS-23 to UNS-25.
unsafe fn import<F: Form>(
    c_tensor: *mut F,
    queue: *const ArdevQueue,
    flags: u32,
    out: *mut *mut ArdevTensor,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 1 of the header, which the caller keeps.
        let out = unsafe { Out::object(out) };
        // SAFETY: rule 2 of the header, which the caller keeps.
        let order = unsafe { queue.as_ref() }.map_or(Order::Host, |queue| Order::On(&queue.0));
        // SAFETY: UNS-23 to UNS-25, which the caller promises.
        let mut tensor = unsafe { Tensor::import(c_tensor, order) }?;
        if flags & !ARDEV_TENSOR_FROZEN != 0 {
            return Err(invalid(format!("`flags` is {flags:#x}, and the only flag is 1")));
        }
        if flags & ARDEV_TENSOR_FROZEN != 0 {
            // SAFETY: the flag is the caller's word that nobody writes to the memory.
            tensor = unsafe { tensor.assume_frozen() };
        }
        out?.give(ArdevTensor(tensor))
    };
    // SAFETY: rule 1 of the header, which the caller keeps.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_tensor_import(
    c_tensor: *mut DLManagedTensorVersioned,
    queue: *const ArdevQueue,
    flags: u32,
    out: *mut *mut ArdevTensor,
    error: *mut ArdevError,
) -> c_int {
    // SAFETY: rules 1, 2 and 3 of the header.
    unsafe { import(c_tensor, queue, flags, out, error) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_tensor_import_legacy(
    c_tensor: *mut DLManagedTensor,
    queue: *const ArdevQueue,
    flags: u32,
    out: *mut *mut ArdevTensor,
    error: *mut ArdevError,
) -> c_int {
    // SAFETY: rules 1, 2 and 3 of the header.
    unsafe { import(c_tensor, queue, flags, out, error) }
}

fn copying(number: i32) -> Result<CopyPolicy> {
    match number {
        ARDEV_COPYING_NEVER => Ok(CopyPolicy::Never),
        ARDEV_COPYING_IF_NEEDED => Ok(CopyPolicy::IfNeeded),
        ARDEV_COPYING_ALWAYS => Ok(CopyPolicy::Always),
        _ => Err(invalid(format!("`copying` is {number}, and there are 0, 1 and 2"))),
    }
}

/// # Safety
/// The pointers keep to rules 1 and 2 of the header.
unsafe fn export<F: Form>(
    tensor: *const ArdevTensor,
    queue: *const ArdevQueue,
    number: i32,
    out: *mut *mut F,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: the pointers keep to rules 1 and 2 of the header, as the caller promises.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: the pointers keep to rules 1 and 2 of the header, as the caller promises.
        let tensor = unsafe { get(tensor, "tensor") }?;
        // SAFETY: the pointers keep to rules 1 and 2 of the header, as the caller promises.
        let order = unsafe { queue.as_ref() }.map_or(Order::Host, |queue| Order::On(&queue.0));
        let managed = tensor.0.clone().export::<F>(order, copying(number)?)?;
        out.put(managed.into_raw())
    };
    // SAFETY: the pointers keep to rules 1 and 2 of the header, as the caller promises.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_tensor_export(
    tensor: *const ArdevTensor,
    queue: *const ArdevQueue,
    copying: i32,
    out: *mut *mut DLManagedTensorVersioned,
    error: *mut ArdevError,
) -> c_int {
    // SAFETY: rules 1 and 2 of the header.
    unsafe { export(tensor, queue, copying, out, error) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_tensor_export_legacy(
    tensor: *const ArdevTensor,
    queue: *const ArdevQueue,
    copying: i32,
    out: *mut *mut DLManagedTensor,
    error: *mut ArdevError,
) -> c_int {
    // SAFETY: rules 1 and 2 of the header.
    unsafe { export(tensor, queue, copying, out, error) }
}

/// # Safety
/// The conversion is null, or what the header says.
unsafe fn conversion(given: *const ArdevConversion) -> Result<Conversion> {
    if given.is_null() {
        return Ok(Conversion::new());
    }
    // SAFETY: the conversion is what the header says, as the caller promises.
    let given = unsafe { sized::read(given, "conversion") }?;
    let known = 2 * ARDEV_CONVERT_AS_LISTS - 1;
    if given.flags & !known != 0 {
        let message =
            format!("`conversion.flags` is {:#x}, and no flag is above {known:#x}", given.flags);
        return Err(invalid(message));
    }
    let has = |flag| given.flags & flag != 0;
    let nulls = if has(ARDEV_CONVERT_NULLS_TO_NAN) { Nulls::NaN } else { Nulls::Refused };
    let conversion = Conversion::new()
        .copying(copying(given.copying)?)
        .nulls(nulls)
        .as_integers(has(ARDEV_CONVERT_AS_INTEGERS))
        .trust_bools(has(ARDEV_CONVERT_TRUST_BOOLS))
        .pack_bools(has(ARDEV_CONVERT_PACK_BOOLS))
        .as_lists(has(ARDEV_CONVERT_AS_LISTS));
    // SAFETY: the conversion is null, or what the header says, as the caller promises.
    Ok(match unsafe { given.queue.as_ref() } {
        Some(queue) => conversion.on(&queue.0),
        None => conversion,
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_tensor_from_array(
    array: *const ArdevArray,
    conversion: *const ArdevConversion,
    out: *mut *mut ArdevTensor,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 2 of the header.
        let array = &unsafe { get(array, "array") }?.0;
        // SAFETY: the header asks for a conversion, or null.
        let conversion = unsafe { self::conversion(conversion) }?;
        out.give(ArdevTensor(match array.data_type() {
            DataType::Struct(_) => Batch::try_from(array.clone())?.to_tensor(&conversion)?,
            _ => array.to_tensor(&conversion)?,
        }))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_array_from_tensor(
    tensor: *const ArdevTensor,
    conversion: *const ArdevConversion,
    out: *mut *mut ArdevArray,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 2 of the header.
        let tensor = unsafe { get(tensor, "tensor") }?;
        // SAFETY: the header asks for a conversion, or null.
        let conversion = unsafe { self::conversion(conversion) }?;
        out.give(ArdevArray(tensor.0.to_array(&conversion)?))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_tensor_inspect(
    tensor: *const ArdevTensor,
    out: *mut ArdevTensorInfo,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { OutGrows::new(out, "out") }?;
        // SAFETY: rule 2 of the header.
        let tensor = &unsafe { get(tensor, "tensor") }?.0;
        let dtype = tensor.dtype();
        out.put(ArdevTensorInfo {
            struct_size: 0,
            dtype: DLDataType { code: dtype.code, bits: dtype.bits, lanes: dtype.lanes },
            // There are at most 64.
            ndim: tensor.shape().len() as i32,
            shape: tensor.shape().as_ptr(),
            strides: tensor.strides().as_ptr(),
            device_id: tensor.device().id,
            device_type: tensor.device().device_type.0,
            is_frozen: tensor.is_frozen().into(),
        })
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_tensor_free(tensor: *mut ArdevTensor) {
    // SAFETY: rule 2 of the header.
    unsafe { free(tensor) }
}
