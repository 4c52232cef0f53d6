//! Converts what Metal says of failed commands to errors.

use arrow_device::{DeviceId, Error, ErrorKind};

/// The code of a command buffer whose device was removed.
pub(crate) const DEVICE_REMOVED: i64 = 11;

/// Returns the error of work that failed with this code of `MTLCommandBufferError`.
pub(crate) fn work_failed(code: i64, device: DeviceId) -> Error {
    let message = "commands that were submitted before failed; their results are not there";
    Error::new(ErrorKind::WorkFailed, message).from_vendor(code, name(code)).on_device(device)
}

pub(crate) fn device_lost(device: DeviceId) -> Error {
    let message = "the device was removed; nothing on it is to be had any more";
    Error::new(ErrorKind::DeviceLost, message)
        .from_vendor(DEVICE_REMOVED, name(DEVICE_REMOVED))
        .on_device(device)
}

/// The name of a code in Metal's headers.
fn name(code: i64) -> &'static str {
    match code {
        1 => "MTLCommandBufferErrorInternal",
        2 => "MTLCommandBufferErrorTimeout",
        3 => "MTLCommandBufferErrorPageFault",
        4 => "MTLCommandBufferErrorAccessRevoked",
        7 => "MTLCommandBufferErrorNotPermitted",
        8 => "MTLCommandBufferErrorOutOfMemory",
        9 => "MTLCommandBufferErrorInvalidResource",
        10 => "MTLCommandBufferErrorMemoryless",
        DEVICE_REMOVED => "MTLCommandBufferErrorDeviceRemoved",
        12 => "MTLCommandBufferErrorStackOverflow",
        _ => "a code of Metal's",
    }
}

#[cfg(test)]
mod tests {
    use arrow_device::DeviceType;

    use super::*;

    #[test]
    fn an_error_has_the_code_and_its_name() {
        let device = DeviceId::new(DeviceType::METAL, 7);
        let error = work_failed(3, device);
        assert_eq!((error.kind(), error.device()), (ErrorKind::WorkFailed, Some(device)));
        assert!(error.to_string().contains("3: MTLCommandBufferErrorPageFault"), "{error}");
        assert_eq!(device_lost(device).vendor().unwrap().code, 11);
        assert_eq!(work_failed(99, device).vendor().unwrap().text, "a code of Metal's");
    }
}
