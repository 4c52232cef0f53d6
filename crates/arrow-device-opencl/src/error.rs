//! Converts OpenCL's error codes to errors.

use arrow_device::{DeviceId, Error, ErrorKind, Result};

use crate::api::Code;

/// The loader's code for having found no platform.
const PLATFORM_NOT_FOUND: Code = -1001;

/// Checks a code. The error has OpenCL's code and its name.
pub(crate) fn check(code: Code, operation: &'static str) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(error(code, operation)) }
}

/// Checks a code. The error also has the device.
pub(crate) fn check_on(code: Code, operation: &'static str, device: DeviceId) -> Result<()> {
    check(code, operation).map_err(|error| error.on_device(device))
}

/// Returns the error for a code that is not success.
pub(crate) fn error(code: Code, operation: &'static str) -> Error {
    let (kind, message) = meaning(code);
    Error::new(kind, message).during(operation).from_vendor(code.into(), name(code))
}

/// Returns the error of work that ended with this negative status.
pub(crate) fn failed(status: Code, operation: &'static str) -> Error {
    let message = "the work behind the event failed; its results are not there";
    let kind = if status == -2 { ErrorKind::DeviceLost } else { ErrorKind::WorkFailed };
    Error::new(kind, message).during(operation).from_vendor(status.into(), name(status))
}

fn meaning(code: Code) -> (ErrorKind, &'static str) {
    match code {
        PLATFORM_NOT_FOUND => (
            ErrorKind::DriverMissing,
            "no OpenCL driver is installed: install the vendor's (Debian: pocl-opencl-icd for the processor)",
        ),
        -1 | -33 => (ErrorKind::DeviceMissing, "there is no such OpenCL device"),
        -2 => (ErrorKind::DeviceLost, "the device is not available any more"),
        -6..=-4 => (ErrorKind::OutOfMemory, "the device or the driver has no memory left"),
        -61 => (ErrorKind::OutOfMemory, "it is more than the device can allocate at once"),
        -34 => (
            ErrorKind::NotReachable,
            "the memory or the event belongs to another OpenCL context; copy the data through the host",
        ),
        -30 | -36 | -37 | -38 | -57 | -58 => {
            (ErrorKind::InvalidArgument, "OpenCL refused what it was given")
        }
        -13 => (
            ErrorKind::InvalidArgument,
            "a part of a buffer has to begin at a multiple of the device's alignment",
        ),
        _ => (ErrorKind::Driver, "OpenCL reported an error"),
    }
}

/// Returns the name that a code has in the OpenCL headers.
fn name(code: Code) -> &'static str {
    let found = NAMES.iter().find(|(known, _)| *known == code);
    found.map_or("a code of the vendor's", |(_, name)| name)
}

const NAMES: &[(Code, &str)] = &[
    (-1, "CL_DEVICE_NOT_FOUND"),
    (-2, "CL_DEVICE_NOT_AVAILABLE"),
    (-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"),
    (-5, "CL_OUT_OF_RESOURCES"),
    (-6, "CL_OUT_OF_HOST_MEMORY"),
    (-8, "CL_MEM_COPY_OVERLAP"),
    (-12, "CL_MAP_FAILURE"),
    (-13, "CL_MISALIGNED_SUB_BUFFER_OFFSET"),
    (-14, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"),
    (-30, "CL_INVALID_VALUE"),
    (-31, "CL_INVALID_DEVICE_TYPE"),
    (-32, "CL_INVALID_PLATFORM"),
    (-33, "CL_INVALID_DEVICE"),
    (-34, "CL_INVALID_CONTEXT"),
    (-35, "CL_INVALID_QUEUE_PROPERTIES"),
    (-36, "CL_INVALID_COMMAND_QUEUE"),
    (-37, "CL_INVALID_HOST_PTR"),
    (-38, "CL_INVALID_MEM_OBJECT"),
    (-57, "CL_INVALID_EVENT_WAIT_LIST"),
    (-58, "CL_INVALID_EVENT"),
    (-59, "CL_INVALID_OPERATION"),
    (-61, "CL_INVALID_BUFFER_SIZE"),
    (PLATFORM_NOT_FOUND, "CL_PLATFORM_NOT_FOUND_KHR"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_code_its_name_and_a_kind() {
        for (code, kind) in [
            (-1, ErrorKind::DeviceMissing),
            (-2, ErrorKind::DeviceLost),
            (-4, ErrorKind::OutOfMemory),
            (-5, ErrorKind::OutOfMemory),
            (-34, ErrorKind::NotReachable),
            (-38, ErrorKind::InvalidArgument),
            (-9999, ErrorKind::Driver),
            (PLATFORM_NOT_FOUND, ErrorKind::DriverMissing),
        ] {
            let error = check(code, "do").unwrap_err();
            assert_eq!(error.kind(), kind, "{code}");
            assert_eq!(error.vendor().unwrap().code, i64::from(code));
        }
        let error = error(-61, "allocate").to_string();
        assert!(error.contains("-61: CL_INVALID_BUFFER_SIZE"), "{error}");
        assert!(check(0, "do").is_ok());
    }
}
