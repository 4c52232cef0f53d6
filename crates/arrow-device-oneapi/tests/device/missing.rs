//! A machine without SYCL: every way to ask gets an error value that says what to install.
//!
//! Each case runs this program again, as a child whose environment hides the library or the
//! devices.

use arrow_device::ErrorKind;
use arrow_device_oneapi::Kind;
use arrow_device_testkit::process::{self, Child};

use crate::support;

fn ask_everything(kind: ErrorKind) {
    let errors = [
        arrow_device_oneapi::is_available().unwrap_err(),
        arrow_device_oneapi::open(0).unwrap_err(),
        arrow_device_oneapi::open_with(1, Kind::Shared).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), kind, "{error}");
        println!("said: {error}");
    }
}

#[test]
fn without_dpctl_the_error_says_what_to_install() {
    if process::is_child() {
        assert_eq!(arrow_device_oneapi::devices().unwrap_err().kind(), ErrorKind::DriverMissing);
        return ask_everything(ErrorKind::DriverMissing);
    }
    let text = Child::of_this_test()
        .env("ARROW_DEVICE_ONEAPI_LIBRARY", "/nonexistent/libDPCTLSyclInterface.so")
        .run()
        .expect_success()
        .stdout;
    assert_eq!(text.matches("said: ").count(), 3, "{text}");
    assert!(text.contains("install dpctl 0.22 and intel-sycl-rt with pip"), "{text}");
}

#[test]
fn a_library_that_is_not_dpctls_is_an_error() {
    if process::is_child() {
        return ask_everything(ErrorKind::DriverMissing);
    }
    let text = Child::of_this_test()
        .env("ARROW_DEVICE_ONEAPI_LIBRARY", "libc.so.6")
        .run()
        .expect_success()
        .stdout;
    assert!(text.contains("DPCTLDeviceMgr_GetDevices"), "{text}");
}

#[test]
fn without_devices_the_error_says_so() {
    if process::is_child() {
        assert!(arrow_device_oneapi::devices().unwrap().is_empty());
        return ask_everything(ErrorKind::DeviceMissing);
    }
    support::runtime();
    let text = Child::of_this_test()
        .env("SIMULATED_SYCL", "none")
        .env("OCL_ICD_VENDORS", "/nonexistent")
        .run()
        .expect_success()
        .stdout;
    assert!(text.contains("intel-opencl-rt"), "{text}");
}

#[test]
fn a_device_that_is_not_there_is_missing() {
    if process::is_child() || !support::is_there() {
        return;
    }
    let error = arrow_device_oneapi::open(1000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceMissing, "{error}");
}
