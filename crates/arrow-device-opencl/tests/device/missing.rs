//! A machine without OpenCL: every way to ask gets an error value that says what to install.
//!
//! Each case runs this program again, as a child whose environment hides the loader or the drivers.

use arrow_device::ErrorKind;
use arrow_device_testkit::process::{self, Child};

use crate::support;

fn ask_everything() {
    let errors = [
        arrow_device_opencl::is_available().unwrap_err(),
        arrow_device_opencl::devices().unwrap_err(),
        arrow_device_opencl::open(0).unwrap_err(),
        arrow_device_opencl::open_with(1, arrow_device_opencl::Kind::Svm).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::DriverMissing, "{error}");
        println!("said: {error}");
    }
}

#[test]
fn without_a_loader_the_error_says_what_to_install() {
    if process::is_child() {
        return ask_everything();
    }
    let text = Child::of_this_test()
        .env("ARROW_DEVICE_OPENCL_LIBRARY", "/nonexistent/libOpenCL.so.1")
        .run()
        .expect_success()
        .stdout;
    assert_eq!(text.matches("said: ").count(), 4, "{text}");
    assert!(text.contains("ocl-icd-libopencl1"), "{text}");
}

#[test]
fn a_library_that_is_not_opencl_is_an_error() {
    if process::is_child() {
        return ask_everything();
    }
    let text = Child::of_this_test()
        .env("ARROW_DEVICE_OPENCL_LIBRARY", "libc.so.6")
        .run()
        .expect_success()
        .stdout;
    assert!(text.contains("clGetPlatformIDs"), "{text}");
}

#[test]
fn without_a_driver_the_error_has_the_code_of_the_loader() {
    if process::is_child() {
        return ask_everything();
    }
    if !support::is_there() {
        return;
    }
    let text =
        Child::of_this_test().env("OCL_ICD_VENDORS", "/nonexistent").run().expect_success().stdout;
    assert!(text.contains("-1001: CL_PLATFORM_NOT_FOUND_KHR"), "{text}");
    assert!(text.contains("pocl-opencl-icd"), "{text}");
}

#[test]
fn a_device_that_is_not_there_is_missing() {
    if process::is_child() || !support::is_there() {
        return;
    }
    let error = arrow_device_opencl::open(1000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceMissing, "{error}");
}
