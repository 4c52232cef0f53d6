//! What the tests share: the device, or the reason why there is none.

use arrow_device::Device;
use arrow_device_testkit::required::skip;

/// The first device; `None` where there is no WebGPU, which is a failure where it is required.
pub(crate) fn device() -> Option<Device> {
    is_there().then(|| arrow_device_webgpu::open(0).unwrap())
}

pub(crate) fn is_there() -> bool {
    match arrow_device_webgpu::is_available() {
        Ok(()) => true,
        Err(reason) => {
            skip("webgpu", &reason.to_string());
            false
        }
    }
}
