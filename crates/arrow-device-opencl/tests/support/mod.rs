//! What the tests share: the device, or the reason why there is none.
#![allow(dead_code)]

use arrow_device::Device;
use arrow_device_opencl::Kind;

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
            skip(&reason.to_string());
            false
        }
    }
}

/// Says that a test is left out, or fails where it may not be.
fn skip(reason: &str) {
    let listed = std::env::var("ARROW_DEVICE_REQUIRE").unwrap_or_default();
    let is_listed = listed.split(',').map(str::trim).any(|name| name == "opencl" || name == "all");
    let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(!is_listed && !is_ci, "opencl is required: {reason}");
    println!("skipped: {reason}");
}
