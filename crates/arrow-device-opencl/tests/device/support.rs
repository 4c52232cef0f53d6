//! What the tests share: the device, or the reason why there is none.
#![allow(dead_code)]

use arrow_device::{Device, ErrorKind};
use arrow_device_opencl::Kind;
use arrow_device_testkit::required::skip;

/// The first device; `None` where there is no OpenCL, which is a failure where it is required.
pub(crate) fn device() -> Option<Device> {
    device_with(Kind::Buffers)
}

/// The first device with this kind of memory; `None` also where the driver does not have the kind.
pub(crate) fn device_with(kind: Kind) -> Option<Device> {
    if !is_there() {
        return None;
    }
    let opened = arrow_device_opencl::open_with(0, kind);
    let has_svm = || arrow_device_opencl::devices().unwrap().first().unwrap().has_svm;
    if kind == Kind::Svm && !has_svm() {
        let refused = opened.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        println!("skipped: {refused}");
        return None;
    }
    Some(opened.unwrap())
}

/// The device of [`device_with`], with memory that other processes can open. `None` also where the
/// driver does not use such memory in place.
pub(crate) fn shareable_with(kind: Kind) -> Option<Device> {
    match device_with(kind)?.shareable() {
        Ok(device) => Some(device),
        Err(refused) => {
            assert_eq!(refused.kind(), ErrorKind::Unsupported);
            skip("opencl", &refused.to_string());
            None
        }
    }
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
