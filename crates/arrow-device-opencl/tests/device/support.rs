//! What the tests share: the device, or the reason why there is none.
#![allow(dead_code)]

use arrow_device::Device;
use arrow_device_opencl::Kind;
use arrow_device_testkit::required::skip;

/// The first device; `None` where there is no OpenCL, which is a failure where it is required.
pub(crate) fn device() -> Option<Device> {
    device_with(Kind::Buffers)
}

pub(crate) fn device_with(kind: Kind) -> Option<Device> {
    if is_there() { Some(arrow_device_opencl::open_with(0, kind).unwrap()) } else { None }
}

pub(crate) fn is_there() -> bool {
    match arrow_device_opencl::is_available() {
        Ok(()) => true,
        Err(reason) => {
            skip("opencl", &reason.to_string());
            false
        }
    }
}
