//! oneAPI devices of the application's queues, and the functions of its own SYCL runtime.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use crate::call::{Out, null, run};
use crate::device::ArdevDevice;
use crate::error::ArdevError;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_oneapi_use_functions(
    table: *const c_void,
    size: usize,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        let table = NonNull::new(table.cast_mut()).ok_or_else(|| null("table"))?;
        // SAFETY: the header asks for a table of so many bytes, with the functions of a runtime.
        unsafe { built::use_functions(table, size) }
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_device_open_oneapi(
    queue: *mut c_void,
    memory: i32,
    out: *mut *mut ArdevDevice,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        let queue = NonNull::new(queue).ok_or_else(|| null("queue"))?;
        // SAFETY: the header asks for a queue of the runtime that the process uses.
        out.give(ArdevDevice(unsafe { built::open(queue, memory) }?))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

/// With oneAPI.
#[cfg(feature = "oneapi")]
mod built {
    use arrow_device::{Device, Error, ErrorKind, Result};
    use arrow_device_oneapi::Functions;

    use super::*;
    use crate::backends::oneapi::kind;

    /// # Safety
    /// UNS-31, as [`use_functions`](arrow_device_oneapi::use_functions) has it, of a table of so
    /// many bytes.
    pub(super) unsafe fn use_functions(table: NonNull<c_void>, size: usize) -> Result<()> {
        if size != size_of::<Functions>() {
            let message = format!(
                "`size` is {size} and not {}: the table is that of another version of sycl.hpp",
                size_of::<Functions>()
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message).during("load SYCL"));
        }
        // SAFETY: the caller promises a table of this size, whose members are all functions.
        let functions = unsafe { table.cast::<Functions>().read_unaligned() };
        // SAFETY: UNS-31, which the caller promises.
        unsafe { arrow_device_oneapi::use_functions(functions) }
    }

    /// # Safety
    /// UNS-29, as [`open_from`](arrow_device_oneapi::open_from) has it.
    pub(super) unsafe fn open(queue: NonNull<c_void>, memory: i32) -> Result<Device> {
        let kind = kind(memory)?;
        // SAFETY: UNS-29, which the caller keeps.
        unsafe { arrow_device_oneapi::open_from(queue, kind) }
    }
}

/// Without oneAPI.
#[cfg(not(feature = "oneapi"))]
mod built {
    use arrow_device::{Device, DeviceType, Result};

    use super::*;
    use crate::backends::not_built_in;

    /// # Safety
    /// None is needed.
    pub(super) unsafe fn use_functions(_: NonNull<c_void>, _: usize) -> Result<()> {
        Err(not_built_in(DeviceType::ONEAPI))
    }

    /// # Safety
    /// None is needed.
    pub(super) unsafe fn open(_: NonNull<c_void>, _: i32) -> Result<Device> {
        Err(not_built_in(DeviceType::ONEAPI))
    }
}
