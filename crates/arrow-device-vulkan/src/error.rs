//! Converts Vulkan's results to errors.

use arrow_device::{DeviceId, Error, ErrorKind, Result};
use ash::vk;

/// Converts the error of a result of Vulkan.
pub(crate) fn check<T>(result: Result<T, vk::Result>, operation: &'static str) -> Result<T> {
    result.map_err(|code| error(code, operation))
}

/// Converts the error of a result of Vulkan, and adds the device.
pub(crate) fn check_on<T>(
    result: Result<T, vk::Result>,
    operation: &'static str,
    device: DeviceId,
) -> Result<T> {
    check(result, operation).map_err(|error| error.on_device(device))
}

/// Returns the error for a code that is not success.
pub(crate) fn error(code: vk::Result, operation: &'static str) -> Error {
    let (kind, message) = meaning(code);
    Error::new(kind, message).during(operation).from_vendor(code.as_raw().into(), name(code))
}

fn meaning(code: vk::Result) -> (ErrorKind, &'static str) {
    match code {
        vk::Result::ERROR_INCOMPATIBLE_DRIVER => (
            ErrorKind::DriverMissing,
            "no Vulkan driver is installed: install the vendor's (Debian: mesa-vulkan-drivers, which has one for the \
             processor, too)",
        ),
        vk::Result::ERROR_OUT_OF_HOST_MEMORY => {
            (ErrorKind::OutOfMemory, "the driver has no host memory left")
        }
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY => {
            (ErrorKind::OutOfMemory, "the device has no memory left")
        }
        vk::Result::ERROR_TOO_MANY_OBJECTS => (
            ErrorKind::OutOfMemory,
            "the driver makes no more allocations: their number is limited; allocate less often, or from a pool",
        ),
        vk::Result::ERROR_DEVICE_LOST => {
            (ErrorKind::DeviceLost, "the device is lost; nothing on it is to be had any more")
        }
        vk::Result::ERROR_INITIALIZATION_FAILED => {
            (ErrorKind::DeviceMissing, "the driver could not be started")
        }
        vk::Result::ERROR_FEATURE_NOT_PRESENT | vk::Result::ERROR_EXTENSION_NOT_PRESENT => {
            (ErrorKind::Unsupported, "the device does not have what is needed here")
        }
        _ => (ErrorKind::Driver, "Vulkan reported an error"),
    }
}

/// Returns the name that a code has in the Vulkan headers.
fn name(code: vk::Result) -> &'static str {
    let found = NAMES.iter().find(|(known, _)| *known == code);
    found.map_or("a code of the vendor's", |(_, name)| name)
}

const NAMES: &[(vk::Result, &str)] = &[
    (vk::Result::ERROR_OUT_OF_HOST_MEMORY, "VK_ERROR_OUT_OF_HOST_MEMORY"),
    (vk::Result::ERROR_OUT_OF_DEVICE_MEMORY, "VK_ERROR_OUT_OF_DEVICE_MEMORY"),
    (vk::Result::ERROR_INITIALIZATION_FAILED, "VK_ERROR_INITIALIZATION_FAILED"),
    (vk::Result::ERROR_DEVICE_LOST, "VK_ERROR_DEVICE_LOST"),
    (vk::Result::ERROR_MEMORY_MAP_FAILED, "VK_ERROR_MEMORY_MAP_FAILED"),
    (vk::Result::ERROR_LAYER_NOT_PRESENT, "VK_ERROR_LAYER_NOT_PRESENT"),
    (vk::Result::ERROR_EXTENSION_NOT_PRESENT, "VK_ERROR_EXTENSION_NOT_PRESENT"),
    (vk::Result::ERROR_FEATURE_NOT_PRESENT, "VK_ERROR_FEATURE_NOT_PRESENT"),
    (vk::Result::ERROR_INCOMPATIBLE_DRIVER, "VK_ERROR_INCOMPATIBLE_DRIVER"),
    (vk::Result::ERROR_TOO_MANY_OBJECTS, "VK_ERROR_TOO_MANY_OBJECTS"),
    (vk::Result::ERROR_FRAGMENTED_POOL, "VK_ERROR_FRAGMENTED_POOL"),
    (vk::Result::ERROR_UNKNOWN, "VK_ERROR_UNKNOWN"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_code_its_name_and_a_kind() {
        for (code, kind) in [
            (-1, ErrorKind::OutOfMemory),
            (-2, ErrorKind::OutOfMemory),
            (-3, ErrorKind::DeviceMissing),
            (-4, ErrorKind::DeviceLost),
            (-8, ErrorKind::Unsupported),
            (-9, ErrorKind::DriverMissing),
            (-10, ErrorKind::OutOfMemory),
            (-9999, ErrorKind::Driver),
        ] {
            let error = check::<()>(Err(vk::Result::from_raw(code)), "do").unwrap_err();
            assert_eq!(error.kind(), kind, "{code}");
            assert_eq!(error.vendor().unwrap().code, i64::from(code));
        }
        let error = error(vk::Result::ERROR_DEVICE_LOST, "submit").to_string();
        assert!(error.contains("-4: VK_ERROR_DEVICE_LOST"), "{error}");
    }
}
