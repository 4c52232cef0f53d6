//! Python's buffer protocol: `bytes`, `bytearray`, `array.array`, `memoryview`, `mmap`.
//!
//! A `memoryview` of the object holds the memory. It is dropped with the last use of the data, on
//! whatever thread, and given up by the next call that Python makes, so that a release never waits
//! for the interpreter.

use std::ffi::{CStr, CString, c_void};
use std::ptr;

use arrow_device::abi::dlpack::{
    DLDataType, DLDevice, DLManagedTensorVersioned, DLPACK_FLAG_BITMASK_READ_ONLY,
    DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION, DLPackVersion, DLTensor, kDLBool, kDLCPU,
    kDLComplex, kDLFloat, kDLInt, kDLUInt,
};
use arrow_device::dlpack::{Exported, Order, Tensor};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use pyo3::{PyTraverseError, PyVisit};

use crate::attach::Held;
use crate::error::{OrRaise, refused};

/// The memory of an object as a tensor, without a copy. The tensor holds a view of the object.
pub(crate) fn take(object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let view = PyMemoryView::from(object)?.into_any();
    let has_no_dimension = view.getattr(intern!(view.py(), "ndim"))?.extract::<usize>()? == 0;
    // PyO3 takes no buffer without a shape, which one of no dimension has not: the same memory as
    // bytes has one.
    let shaped = match has_no_dimension {
        true => view.call_method1(intern!(view.py(), "cast"), ("B",))?,
        false => view.clone(),
    };
    // Ends with this function; the memory is held by the view.
    let buffer = PyUntypedBuffer::get(&shaped)?;
    let (ndim, size, dtype) = if has_no_dimension {
        let format = view.getattr(intern!(view.py(), "format"))?.extract::<CString>()?;
        (0, buffer.len_bytes(), dtype(&format, buffer.len_bytes())?)
    } else {
        let size = buffer.item_size();
        (buffer.dimensions(), size, dtype(buffer.format(), size)?)
    };
    if buffer.suboffsets().is_some() {
        return Err(refused(
            "the buffer leads from pointer to pointer, and a tensor is in one piece",
        ));
    }
    let mut dims: Vec<i64> = Vec::with_capacity(2 * ndim);
    for length in buffer.shape().iter().take(ndim) {
        dims.push(i64::try_from(*length)?);
    }
    let bytes = isize::try_from(size)?;
    for stride in buffer.strides().iter().take(ndim) {
        if stride.checked_rem(bytes) != Some(0) {
            let message = format!("elements of {size} bytes lie {stride} bytes apart, no multiple");
            return Err(refused(message));
        }
        dims.push(i64::try_from(stride / bytes)?);
    }
    let is_empty = dims.iter().take(ndim).any(|length| *length == 0);
    let block = Box::leak(Box::new(ViewedTensor {
        managed: DLManagedTensorVersioned {
            version: DLPackVersion { major: DLPACK_MAJOR_VERSION, minor: DLPACK_MINOR_VERSION },
            manager_ctx: ptr::null_mut(),
            deleter: Some(DELETE),
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
        view: Held::new(view),
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

/// Shows Python's collector of cycles the views that one value of the library alone holds, which is
/// the only share of the value that the object of Python's has: `each` calls what it gets with all
/// imported tensors that are this value's alone, as `for_each_sole_import` does.
///
/// The collector asks twice, and meanwhile no thread runs Python's code. It takes what it was shown
/// for held by nobody else, so that what was a value's alone has to stay so until the second time.
/// It does: a share is made of a share, and while Python is detached this package makes shares of a
/// share of its own only, never of that of an object of Python's.
pub(crate) fn visit_held(
    visit: &PyVisit<'_>,
    each: impl FnOnce(&mut dyn FnMut(&Exported)),
) -> Result<(), PyTraverseError> {
    let mut outcome = Ok(());
    each(&mut |tensor| {
        if let (Some(view), Ok(())) = (held_by(tensor), &outcome) {
            outcome = view.visit(visit);
        }
    });
    outcome
}

/// The view that a tensor holds, where `take` made the tensor.
fn held_by(tensor: &Exported) -> Option<&Held> {
    let Exported::Versioned(managed) = tensor else { return None };
    let block = managed.context_of(DELETE)?.cast::<ViewedTensor>();
    // SAFETY: the documentation of `NonNull::as_ref`: `take` alone makes tensors with this deleter,
    // whose context is the block that `take` leaked. The deleter is called by the drop of `managed`
    // alone, which is borrowed, and nobody writes to the block before that.
    unsafe { block.as_ref() }.map(|block| &block.view)
}

/// A static, because each use of a function's name may give another address.
static DELETE: unsafe extern "C" fn(*mut DLManagedTensorVersioned) = delete;

/// A tensor over memory that a view holds.
struct ViewedTensor {
    managed: DLManagedTensorVersioned,
    /// Lengths, then strides.
    dims: Vec<i64>,
    view: Held,
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
