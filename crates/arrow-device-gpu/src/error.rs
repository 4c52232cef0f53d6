//! Converts the vendors' codes to errors. Both vendors use the same numbers.

use arrow_device::{DeviceId, Error, ErrorKind};

use crate::code::{
    INVALID_DEVICE_POINTER, INVALID_VALUE, NO_DEVICE, NOT_READY, NOT_SUPPORTED, OPERATING_SYSTEM,
    OUT_OF_MEMORY, TOO_MANY_PEERS,
};
use crate::{Api, Code};

/// Returns the error for a code that is not success.
pub fn error(api: &impl Api, code: Code, operation: &'static str) -> Error {
    api.forget_error();
    let (kind, message) = api.meaning(code).unwrap_or_else(|| meaning(code));
    let message = match code {
        34..=36 => format!("{message}: {}", api.vendor().install).into(),
        _ => std::borrow::Cow::Borrowed(message),
    };
    let name = api.error_name(code).unwrap_or("a code that the driver has no name for".into());
    Error::new(kind, message).during(operation).from_vendor(code.into(), name)
}

/// Returns the error for a code that is not success, with the device in it.
pub(crate) fn error_on(
    api: &impl Api,
    code: Code,
    operation: &'static str,
    device: DeviceId,
) -> Error {
    error(api, code, operation).on_device(device)
}

/// Returns what a code means that both vendors have, and what to do about it.
fn meaning(code: Code) -> (ErrorKind, &'static str) {
    match code {
        INVALID_VALUE | INVALID_DEVICE_POINTER | 21 => (
            ErrorKind::InvalidArgument,
            "the driver refused what it was given: a size, an address, or a stream that belongs to another context",
        ),
        OUT_OF_MEMORY => (
            ErrorKind::OutOfMemory,
            "the device or the driver has no memory left: release arrays, or end other programs that use the device",
        ),
        3 => (
            ErrorKind::Driver,
            "the driver is not initialised, or its initialisation has failed: look in the system's log what its kernel module says",
        ),
        4 => (ErrorKind::ShutDown, "the driver has shut down, because the process is ending"),
        35 => (ErrorKind::DriverMissing, "the driver is older than the library on top needs"),
        NO_DEVICE => (
            ErrorKind::DeviceMissing,
            "the driver finds no device: look whether its kernel module is loaded, whether this user may open the device's files, and what the environment hides",
        ),
        101 => (
            ErrorKind::DeviceMissing,
            "the driver finds no such device: look what there is, whether its kernel module is loaded, and what the environment hides",
        ),
        201 => (
            ErrorKind::InvalidArgument,
            "the handle belongs to another context than this device's primary one, or the context was reset",
        ),
        217 | 705 | TOO_MANY_PEERS => {
            (ErrorKind::NotReachable, "the devices cannot reach each other's memory")
        }
        214 => (
            ErrorKind::DeviceLost,
            "the device's memory has a fault that cannot be corrected: start the process anew, and have the device reset or looked at where that comes again",
        ),
        709 => (
            ErrorKind::DeviceLost,
            "the device's context was destroyed, and with it all that was on the device",
        ),
        700 | 702 | 710 | 719 => (
            ErrorKind::DeviceLost,
            "the device's context is broken by a fault of work that ran on it, for this process and for good: find the faulty kernel, and start the process anew",
        ),
        OPERATING_SYSTEM => (
            ErrorKind::Driver,
            "the operating system refused what the driver asked for: look at the limits of the process or container (locked memory, open files) and at the system's log",
        ),
        400 => (
            ErrorKind::InvalidArgument,
            "a handle names nothing any more, or nothing of this context: a stream or an event was destroyed that is still used",
        ),
        500 => (ErrorKind::InvalidArgument, "there is nothing of that name or at that address"),
        NOT_READY => (ErrorKind::NotReady, "the work is not finished"),
        NOT_SUPPORTED => (ErrorKind::Unsupported, "the device or the driver cannot do this"),
        900..=908 => (
            ErrorKind::Unsupported,
            "a stream is capturing a graph, or the event was recorded in one; exchange data outside of the capture",
        ),
        999 => (
            ErrorKind::Driver,
            "the driver has failed and does not know why: look in the system's log what its kernel module says; loading the module anew often helps",
        ),
        _ => (ErrorKind::Driver, "the driver reported an error"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_kind_that_says_who_can_mend_it() {
        for (code, kind) in [
            (1, ErrorKind::InvalidArgument),
            (2, ErrorKind::OutOfMemory),
            (100, ErrorKind::DeviceMissing),
            (700, ErrorKind::DeviceLost),
            (719, ErrorKind::DeviceLost),
            (705, ErrorKind::NotReachable),
            (801, ErrorKind::Unsupported),
            (900, ErrorKind::Unsupported),
            (907, ErrorKind::Unsupported),
            (999, ErrorKind::Driver),
        ] {
            assert_eq!(meaning(code).0, kind, "{code}");
        }
    }

    // Everything on a lost device is released at once, so a code that only one vendor has may not
    // mean that a device is lost.
    #[test]
    fn only_what_breaks_a_context_for_good_is_a_lost_device() {
        let lost: Vec<Code> =
            (0..2000).filter(|code| meaning(*code).0 == ErrorKind::DeviceLost).collect();
        assert_eq!(lost, [214, 700, 702, 709, 710, 719]);
    }
}
