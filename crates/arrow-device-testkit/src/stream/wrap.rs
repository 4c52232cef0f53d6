//! Converts streams of plain arrays to device streams and back, in the few lines that a program in
//! C would write.

use std::ffi::{c_char, c_int};
use std::ptr;

use arrow_device::abi::{
    ArrowArray, ArrowArrayStream, ArrowDeviceArray, ArrowDeviceArrayStream, ArrowSchema,
};

/// Converts a stream of plain arrays to a device stream.
pub fn device_of(host: ArrowArrayStream) -> ArrowDeviceArrayStream {
    ArrowDeviceArrayStream {
        device_type: 1,
        get_schema: Some(device_schema),
        get_next: Some(device_next),
        get_last_error: Some(device_last_error),
        release: Some(device_release),
        private_data: Box::into_raw(Box::new(host)).cast(),
    }
}

/// Converts a device stream on the host to a stream of plain arrays.
pub fn host_of(device: ArrowDeviceArrayStream) -> ArrowArrayStream {
    ArrowArrayStream {
        get_schema: Some(host_schema),
        get_next: Some(host_next),
        get_last_error: Some(host_last_error),
        release: Some(host_release),
        private_data: Box::into_raw(Box::new(device)).cast(),
    }
}

unsafe fn inner_host(stream: *mut ArrowDeviceArrayStream) -> *mut ArrowArrayStream {
    unsafe { (*stream).private_data.cast() }
}

unsafe extern "C" fn device_schema(
    stream: *mut ArrowDeviceArrayStream,
    out: *mut ArrowSchema,
) -> c_int {
    let inner = unsafe { inner_host(stream) };
    unsafe { (*inner).get_schema.unwrap()(inner, out) }
}

unsafe extern "C" fn device_next(
    stream: *mut ArrowDeviceArrayStream,
    out: *mut ArrowDeviceArray,
) -> c_int {
    let inner = unsafe { inner_host(stream) };
    unsafe { (*out).device_type = 1 };
    unsafe { (*out).device_id = -1 };
    unsafe { (*out).sync_event = ptr::null_mut() };
    unsafe { (*out).reserved = [0; 3] };
    unsafe { (*inner).get_next.unwrap()(inner, &raw mut (*out).array) }
}

unsafe extern "C" fn device_last_error(stream: *mut ArrowDeviceArrayStream) -> *const c_char {
    let inner = unsafe { inner_host(stream) };
    unsafe { (*inner).get_last_error.unwrap()(inner) }
}

unsafe extern "C" fn device_release(stream: *mut ArrowDeviceArrayStream) {
    let inner = unsafe { inner_host(stream) };
    unsafe { (*inner).release.unwrap()(inner) };
    drop(unsafe { Box::from_raw(inner) });
    unsafe { (*stream).release = None };
}

unsafe fn inner_device(stream: *mut ArrowArrayStream) -> *mut ArrowDeviceArrayStream {
    unsafe { (*stream).private_data.cast() }
}

unsafe extern "C" fn host_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    let inner = unsafe { inner_device(stream) };
    unsafe { (*inner).get_schema.unwrap()(inner, out) }
}

unsafe extern "C" fn host_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    let inner = unsafe { inner_device(stream) };
    let mut chunk = ArrowDeviceArray::empty();
    let errno = unsafe { (*inner).get_next.unwrap()(inner, &raw mut chunk) };
    unsafe { out.write(chunk.array) };
    errno
}

unsafe extern "C" fn host_last_error(stream: *mut ArrowArrayStream) -> *const c_char {
    let inner = unsafe { inner_device(stream) };
    unsafe { (*inner).get_last_error.unwrap()(inner) }
}

unsafe extern "C" fn host_release(stream: *mut ArrowArrayStream) {
    let inner = unsafe { inner_device(stream) };
    unsafe { (*inner).release.unwrap()(inner) };
    drop(unsafe { Box::from_raw(inner) });
    unsafe { (*stream).release = None };
}
