//! The buffer protocol for arrays of numbers in host memory that have no nulls: read-only.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use arrow_device::{Array, DataType, HostArray};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::array::PyArray;
use crate::backends;
use crate::error::OrRaise;
use crate::interrupt;

/// The length and the stride, to which a buffer points. Freed when the buffer is released.
type Dims = [ffi::Py_ssize_t; 2];

/// Fills a buffer, which keeps the object alive.
pub(crate) fn fill(
    object: Bound<'_, PyArray>,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    let py = object.py();
    if view.is_null() {
        return Err(PyBufferError::new_err("there is no place for the buffer"));
    }
    // SAFETY: Python's documentation of `getbufferproc`: `view` is a struct to be filled, and
    // `view->obj` has to be null where that fails.
    unsafe { (*view).obj = ptr::null_mut() };
    if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
        return Err(PyBufferError::new_err("an array is not written to; its buffer is read-only"));
    }
    let array = object.get().array().clone();
    let (format, width) = format(&array)?;
    interrupt::wait(py, &array)?;
    let host = py.detach(|| array.host()).or_refuse()?;
    let (address, length) = place(&host, width)?;
    let dims = Box::into_raw(Box::new([length, width]));
    let has = |flag: c_int| flags & flag == flag;
    let numbers = dims.cast::<ffi::Py_ssize_t>();
    let filled = ffi::Py_buffer {
        buf: address.cast_mut().cast::<c_void>(),
        obj: object.into_ptr(),
        len: length * width,
        itemsize: width,
        readonly: 1,
        ndim: 1,
        format: if has(ffi::PyBUF_FORMAT) { format.as_ptr().cast_mut() } else { ptr::null_mut() },
        shape: if has(ffi::PyBUF_ND) { numbers } else { ptr::null_mut() },
        strides: if has(ffi::PyBUF_STRIDES) { numbers.wrapping_add(1) } else { ptr::null_mut() },
        suboffsets: ptr::null_mut(),
        internal: dims.cast::<c_void>(),
    };
    // SAFETY: Python's documentation of `getbufferproc`: `view` is a struct to be filled.
    unsafe { view.write(filled) };
    Ok(())
}

/// Frees what `fill` allocated.
///
/// # Safety
/// Called by Python, once, for a buffer that `fill` filled.
pub(crate) unsafe fn release(view: *mut ffi::Py_buffer) {
    // SAFETY: Python's documentation of `releasebufferproc`: the buffer is one that was filled.
    let dims = unsafe { (*view).internal }.cast::<Dims>();
    if !dims.is_null() {
        // SAFETY: the documentation of `Box::from_raw`: `fill` made this box, and a buffer is
        // released once.
        drop(unsafe { Box::from_raw(dims) });
    }
}

/// How Python's `struct` calls an element, and how many bytes it has.
fn format(array: &Array) -> PyResult<(&'static CStr, ffi::Py_ssize_t)> {
    let refuse = |why: &str| {
        let of = array.data_type();
        Err(PyBufferError::new_err(format!("the buffer protocol gets no {of}: {why}")))
    };
    if array.device().device_type != arrow_device::DeviceType::CPU {
        let on = backends::called(array.device());
        let message = format!("a buffer is host memory, and this lives on {on}; use to_host()");
        return Err(PyBufferError::new_err(message));
    }
    Ok(match array.data_type() {
        DataType::Int8 => (c"b", 1),
        DataType::Int16 => (c"h", 2),
        DataType::Int32 => (c"i", 4),
        DataType::Int64 => (if size_of::<std::ffi::c_long>() == 8 { c"l" } else { c"q" }, 8),
        DataType::UInt8 => (c"B", 1),
        DataType::UInt16 => (c"H", 2),
        DataType::UInt32 => (c"I", 4),
        DataType::UInt64 => (if size_of::<std::ffi::c_ulong>() == 8 { c"L" } else { c"Q" }, 8),
        DataType::Float16 => (c"e", 2),
        DataType::Float32 => (c"f", 4),
        DataType::Float64 => (c"d", 8),
        DataType::Boolean => return refuse("its elements are bits; to_tensor() has bytes"),
        other if other.is_temporal() || other.is_decimal() => {
            return refuse("it has no format for them; to_tensor(as_integers=True) has one");
        }
        _ => return refuse("it is for numbers"),
    })
}

/// Where the elements are, and how many.
fn place(host: &HostArray, width: ffi::Py_ssize_t) -> PyResult<(*const u8, ffi::Py_ssize_t)> {
    let nulls = match host.array().null_count() {
        Some(count) => count,
        None => (0..host.len()).filter(|index| host.is_null(*index).unwrap_or(true)).count(),
    };
    if nulls != 0 {
        return Err(PyBufferError::new_err(format!(
            "{nulls} elements are null, which a buffer cannot say; to_tensor(nulls=..) puts a number in their place"
        )));
    }
    let bytes = host.buffer(1).or_refuse()?;
    let start = host.array().offset().saturating_mul(width.unsigned_abs());
    let elements = bytes.get(start..).unwrap_or_default();
    let length = ffi::Py_ssize_t::try_from(host.len())?;
    Ok((elements.as_ptr(), length))
}
