//! Errors that drivers of all kinds answer with.

use crate::{DeviceId, Error, ErrorKind};

/// The error of an operation that would have to wait for work on a thread that may not wait: see
/// the [module](super::driver#drivers-that-may-not-wait).
pub fn may_not_wait(device: DeviceId) -> Error {
    let message = "the work is not finished, and this thread may not wait for it; ask later, or \
                   copy with `copy_polled`";
    Error::new(ErrorKind::NotReady, message).on_device(device)
}

/// The error for memory that a device cannot touch.
pub fn not_reachable(device: DeviceId, memory: DeviceId) -> Error {
    Error::new(
        ErrorKind::NotReachable,
        format!("its queues cannot reach memory on {memory}; copy the data first"),
    )
    .on_device(device)
}
