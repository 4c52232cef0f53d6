//! What waits for its last use.

use std::ffi::c_int;
use std::panic::catch_unwind;
use std::time::Duration;

use crate::call::run;
use crate::error::ArdevError;
use crate::queue::limit;

#[unsafe(no_mangle)]
pub extern "C" fn ardev_reclaim() -> usize {
    catch_unwind(arrow_device::deferred::release_finished).unwrap_or_else(|payload| {
        // Its drop may panic as well.
        std::mem::forget(payload);
        0
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ardev_pending() -> usize {
    arrow_device::deferred::held_back().in_use
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_drain(timeout: i64, error: *mut ArdevError) -> c_int {
    let body =
        || arrow_device::deferred::wait_until_released(limit(timeout).unwrap_or(Duration::MAX));
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}
