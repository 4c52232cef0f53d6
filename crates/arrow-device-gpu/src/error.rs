//! The vendors' codes as this library's errors. The two use the same numbers.

use arrow_device::{DeviceId, Error, ErrorKind};

use crate::code::{INVALID_VALUE, NOT_READY, NOT_SUPPORTED, OUT_OF_MEMORY};
use crate::{Api, Code};

/// The error for a code that is not success.
pub fn error(api: &impl Api, code: Code, operation: &'static str) -> Error {
    api.forget_error();
    let (kind, message) = api.meaning(code).unwrap_or_else(|| meaning(code));
    let message = match kind {
        ErrorKind::DriverMissing => format!("{message}: {}", api.vendor().install).into(),
        _ => std::borrow::Cow::Borrowed(message),
    };
    let name = api.error_name(code).unwrap_or("a code that the driver has no name for".into());
    Error::new(kind, message).during(operation).from_vendor(code.into(), name)
}

/// The same, about a device.
pub(crate) fn error_on(
    api: &impl Api,
    code: Code,
    operation: &'static str,
    device: DeviceId,
) -> Error {
    error(api, code, operation).on_device(device)
}

fn meaning(code: Code) -> (ErrorKind, &'static str) {
    match code {
        INVALID_VALUE | 21 | 400 => {
            (ErrorKind::InvalidArgument, "the driver refused what it was given")
        }
        OUT_OF_MEMORY => (ErrorKind::OutOfMemory, "the device or the driver has no memory left"),
        4 => (ErrorKind::ShutDown, "the driver has shut down, because the process is ending"),
        34 | 35 | 802 | 803 => (
            ErrorKind::DriverMissing,
            "the driver is a stub, too old, or does not fit its kernel module",
        ),
        100 | 101 => (
            ErrorKind::DeviceMissing,
            "the driver finds no such device: look what there is, and whether its kernel module is loaded",
        ),
        201 => (
            ErrorKind::InvalidArgument,
            "the handle belongs to another context than this device's primary one",
        ),
        217 | 705 => (ErrorKind::NotReachable, "the devices cannot reach each other's memory"),
        46 | 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721 | 911 => (
            ErrorKind::DeviceLost,
            "the device's context is broken by a fault, for this process and for good",
        ),
        NOT_READY => (ErrorKind::NotReady, "the work is not finished"),
        NOT_SUPPORTED => (ErrorKind::Unsupported, "the device or the driver cannot do this"),
        900..=908 => (
            ErrorKind::Unsupported,
            "a stream is capturing a graph, or the event was recorded in one; exchange data outside of the capture",
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
}
