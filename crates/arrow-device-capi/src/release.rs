//! What is held back until its last use has passed.

use std::ffi::c_int;
use std::panic::catch_unwind;
use std::time::Duration;

use arrow_device::deferred;

use crate::call::{dispose, run};
use crate::error::ArdevError;
use crate::queue::limit;

#[unsafe(no_mangle)]
pub extern "C" fn ardev_release_finished() -> usize {
    catch_unwind(deferred::release_finished).unwrap_or_else(|payload| {
        dispose(payload);
        0
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_wait_until_released(timeout: i64, error: *mut ArdevError) -> c_int {
    let body = || deferred::wait_until_released(limit(timeout).unwrap_or(Duration::MAX));
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub extern "C" fn ardev_held_back() -> usize {
    let held_back = deferred::held_back();
    held_back.in_use + held_back.being_released
}

#[unsafe(no_mangle)]
pub extern "C" fn ardev_abandoned() -> usize {
    deferred::held_back().abandoned
}

#[unsafe(no_mangle)]
pub extern "C" fn ardev_set_allocation_timeout(timeout: i64) {
    deferred::set_allocation_timeout(limit(timeout).unwrap_or(Duration::MAX));
}
