//! The same for tensors: see `c/dlpack_peer.h`.

use std::ffi::{c_char, c_int, c_void};

use arrow_device::abi::dlpack::{DLManagedTensor, DLManagedTensorVersioned};
use arrow_device::dlpack::{Conversion, CopyPolicy, Dtype, Form, Nulls, Order, Tensor};
use arrow_device::{Array, DataType, DeviceId, Error, ErrorKind, Result};

use crate::made::buffer;
use crate::{answer, guarded};

/// See `c/dlpack_peer.h`.
///
/// # Safety
/// `tensor` is as [`Tensor::import`] describes it, `out` may be written, and `message` is null or
/// has room for `message_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adp_dlpack_exchange(
    tensor: *mut DLManagedTensorVersioned,
    out: *mut *mut DLManagedTensorVersioned,
    message: *mut c_char,
    message_size: usize,
) -> c_int {
    // SAFETY: `tensor` is as `Tensor::import` describes it, `out` may be written, and `message` is
    // null or has room for `message_size` bytes, as the caller promises.
    let outcome = guarded(|| unsafe { exchange(tensor, out) });
    // SAFETY: `tensor` is as `Tensor::import` describes it, `out` may be written, and `message` is
    // null or has room for `message_size` bytes, as the caller promises.
    unsafe { answer(outcome, message, message_size) }
}

/// See `c/dlpack_peer.h`.
///
/// # Safety
/// As for [`adp_dlpack_exchange`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adp_dlpack_exchange_legacy(
    tensor: *mut DLManagedTensor,
    out: *mut *mut DLManagedTensor,
    message: *mut c_char,
    message_size: usize,
) -> c_int {
    // SAFETY: what `adp_dlpack_exchange` asks for, which the caller promises.
    let outcome = guarded(|| unsafe { exchange(tensor, out) });
    // SAFETY: what `adp_dlpack_exchange` asks for, which the caller promises.
    unsafe { answer(outcome, message, message_size) }
}

/// See `c/dlpack_peer.h`.
///
/// # Safety
/// `out` may be written, with a pointer to a tensor of the form that is asked for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn adp_dlpack_produce(
    kind: c_int,
    versioned: c_int,
    out: *mut *mut c_void,
) -> c_int {
    let outcome = guarded(|| {
        let tensor = made(kind)?;
        let raw: *mut c_void = if versioned != 0 {
            tensor
                .export::<DLManagedTensorVersioned>(Order::Host, CopyPolicy::Never)?
                .into_raw()
                .cast()
        } else {
            tensor.export::<DLManagedTensor>(Order::Host, CopyPolicy::IfNeeded)?.into_raw().cast()
        };
        // SAFETY: `out` may be written, with a pointer to a tensor of the form that is asked for,
        // as the caller promises.
        unsafe { out.write(raw) };
        Ok(())
    });
    outcome.map_or_else(|error| error.kind().errno(), |()| 0)
}

/// Takes a tensor over, reads every element, and hands it back, through an array where Arrow has
/// such elements.
///
/// # Safety
/// As for [`adp_dlpack_exchange`].
unsafe fn exchange<F: Form>(tensor: *mut F, out: *mut *mut F) -> Result<()> {
    // SAFETY: what `adp_dlpack_exchange` asks for, which the caller promises.
    let tensor = unsafe { Tensor::import(tensor, Order::Host) }?;
    // SAFETY: the C programs do not write to what they handed over.
    let tensor = unsafe { tensor.assume_frozen() };
    let bytes = tensor.host()?.to_bytes()?;
    std::hint::black_box(bytes.iter().fold(0_u8, |all, byte| all ^ byte));
    let conversion = Conversion::new().copying(CopyPolicy::IfNeeded).nulls(Nulls::NaN);
    let back = if tensor.shape().is_empty() {
        tensor
    } else {
        tensor.to_array(&conversion)?.to_tensor(&conversion)?
    };
    let managed = back.export::<F>(Order::Host, CopyPolicy::IfNeeded)?;
    // SAFETY: what `adp_dlpack_exchange` asks for, which the caller promises.
    unsafe { out.write(managed.into_raw()) };
    Ok(())
}

fn made(kind: c_int) -> Result<Tensor> {
    let matrix =
        || Tensor::from_buffer(buffer(&[0_f32, 1.0, 2.0, 3.0, 4.0, 5.0]), Dtype::FLOAT32, &[2, 3]);
    match kind {
        0 => matrix(),
        1 => matrix()?.permuted(&[1, 0]),
        2 => Tensor::from_buffer(buffer(&[42_i64]), Dtype::INT64, &[]),
        3 => Tensor::from_buffer(arrow_device::Buffer::null(DeviceId::CPU), Dtype::UINT8, &[4, 0]),
        4 => {
            let values = Some(buffer(&[10_i32, 20, 30, 40]));
            let column = Array::builder(DataType::Int32).len(4).buffers([None, values]);
            column.finish_ready()?.slice(1, 2)?.to_tensor(&Conversion::new())
        }
        _ => Err(Error::new(ErrorKind::InvalidArgument, format!("there is no kind {kind}"))),
    }
}
