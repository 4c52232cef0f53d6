//! The errors of calls that SYCL did not do.
//!
//! dpctl catches the exceptions of the runtime and returns null, so there is no code of the
//! vendor's: only the operation tells what went wrong.

use arrow_device::{DeviceId, Error, ErrorKind};

/// The error of a call that returned null.
pub(crate) fn refused(operation: &'static str, device: DeviceId) -> Error {
    let message = "SYCL refused it; with DPCTL_VERBOSITY=error in the environment, dpctl prints the runtime's reason";
    Error::new(ErrorKind::Driver, message).during(operation).on_device(device)
}

/// The error of an event that the runtime does not answer about. Nothing is known of the work, so
/// memory that waits for it stays (SAF-16).
pub(crate) fn unanswered(operation: &'static str, device: DeviceId) -> Error {
    let message =
        "SYCL does not tell whether the work behind the event has finished; it may have failed";
    Error::new(ErrorKind::Driver, message).during(operation).on_device(device)
}

/// The error of work that is over and has failed.
pub(crate) fn failed(operation: &'static str, device: DeviceId) -> Error {
    let message = "the work behind the event failed; its results are not there";
    Error::new(ErrorKind::WorkFailed, message).during(operation).on_device(device)
}

/// The error of an index that no device has.
pub(crate) fn no_device(index: usize) -> Error {
    let message = format!(
        "SYCL has no device {index}: `devices()` lists what there is; a runtime of devices is installed by itself \
         (for processors: intel-opencl-rt with pip, and its library named in a file of OCL_ICD_VENDORS)"
    );
    Error::new(ErrorKind::DeviceMissing, message).during("open")
}
