//! A machine without OpenCL: every way to ask gets an error value that says what to install.
//!
//! Each case runs this program again, as a child whose environment hides the loader or the drivers.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::process::Command;

use arrow_device::ErrorKind;

const CHILD: &str = "ARROW_DEVICE_OPENCL_TEST_CHILD";

/// Runs one test of this program in a child with this variable, and returns what it printed.
fn child(test: &str, name: &str, value: &str) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .env(name, value)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}: {text}", output.status);
    text
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

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
    if is_child() {
        return ask_everything();
    }
    let test = "without_a_loader_the_error_says_what_to_install";
    let text = child(test, "ARROW_DEVICE_OPENCL_LIBRARY", "/nonexistent/libOpenCL.so.1");
    assert_eq!(text.matches("said: ").count(), 4, "{text}");
    assert!(text.contains("ocl-icd-libopencl1"), "{text}");
}

#[test]
fn a_library_that_is_not_opencl_is_an_error() {
    if is_child() {
        return ask_everything();
    }
    let text = child(
        "a_library_that_is_not_opencl_is_an_error",
        "ARROW_DEVICE_OPENCL_LIBRARY",
        "libc.so.6",
    );
    assert!(text.contains("clGetPlatformIDs"), "{text}");
}

#[test]
fn without_a_driver_the_error_has_the_code_of_the_loader() {
    if is_child() {
        return ask_everything();
    }
    if !support::is_there() {
        return;
    }
    let test = "without_a_driver_the_error_has_the_code_of_the_loader";
    let text = child(test, "OCL_ICD_VENDORS", "/nonexistent");
    assert!(text.contains("-1001: CL_PLATFORM_NOT_FOUND_KHR"), "{text}");
    assert!(text.contains("pocl-opencl-icd"), "{text}");
}

#[test]
fn a_device_that_is_not_there_is_missing() {
    if is_child() || !support::is_there() {
        return;
    }
    let error = arrow_device_opencl::open(1000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceMissing, "{error}");
}
