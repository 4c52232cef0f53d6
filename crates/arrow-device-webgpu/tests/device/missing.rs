//! A machine without WebGPU: every way to ask gets an error value that says what to install.
//!
//! Each case runs this program again, as a child whose environment hides the library or the
//! drivers.

use std::ffi::c_void;
use std::ptr::NonNull;

use arrow_device::ErrorKind;
use arrow_device_testkit::process::{self, Child};
use arrow_device_webgpu::{Handles, load_library, open_from};

use crate::support;

const LIBRARY: &str = "ARROW_DEVICE_WEBGPU_LIBRARY";

fn ask_everything(kind: ErrorKind) {
    let errors = [
        arrow_device_webgpu::is_available().unwrap_err(),
        arrow_device_webgpu::devices().err().or(arrow_device_webgpu::open(0).err()).unwrap(),
        arrow_device_webgpu::open(1).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), kind, "{error}");
        println!("said: {error}");
    }
}

#[test]
fn without_a_library_the_error_says_what_to_install() {
    if process::is_child() {
        return ask_everything(ErrorKind::DriverMissing);
    }
    let child = Child::of_this_test().env(LIBRARY, "/nonexistent/libwgpu_native.so");
    let text = child.run().expect_success().stdout;
    assert_eq!(text.matches("said: ").count(), 3, "{text}");
    assert!(text.contains("install wgpu-native"), "{text}");
}

#[test]
fn a_library_that_is_not_webgpu_is_an_error() {
    if process::is_child() {
        return ask_everything(ErrorKind::DriverMissing);
    }
    let text = Child::of_this_test().env(LIBRARY, "libc.so.6").run().expect_success().stdout;
    assert!(text.contains("it has no wgpuCreateInstance"), "{text}");
}

#[test]
fn without_a_driver_there_is_no_device() {
    if process::is_child() {
        support_library();
        return ask_everything(ErrorKind::DeviceMissing);
    }
    if !support::is_there() {
        return;
    }
    let child = Child::of_this_test().env("VK_DRIVER_FILES", "/nonexistent");
    let text = child.env("VK_ICD_FILENAMES", "/nonexistent").run().expect_success().stdout;
    assert!(text.contains("mesa-vulkan-drivers"), "{text}");
}

fn support_library() {
    let file = arrow_device_testkit::application::webgpu::library_file().unwrap();
    // SAFETY: the file is a library for WebGPU.
    unsafe { load_library(file) }.unwrap();
}

#[test]
fn a_device_that_is_not_there_is_missing() {
    if process::is_child() || !support::is_there() {
        return;
    }
    let error = arrow_device_webgpu::open(1000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceMissing, "{error}");
    let error = arrow_device_webgpu::open_for(64).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceMissing, "{error}");
    assert!(error.to_string().contains("0x40 is not open here"), "{error}");
}

#[test]
fn one_process_loads_one_library() {
    process::alone(|| {
        // SAFETY: nothing is loaded from the first file, and nothing from the second.
        unsafe { load_library("/nonexistent/one.so") }.unwrap();
        let error = unsafe { load_library("/nonexistent/two.so") }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        let error = arrow_device_webgpu::is_available().unwrap_err();
        assert!(error.to_string().contains("/nonexistent/one.so"), "{error}");
    });
}

#[test]
fn a_lookup_that_finds_nothing_is_an_error() {
    let handle = NonNull::<c_void>::dangling();
    let handles = Handles::new(handle, handle).with_lookup(|_| None);
    // SAFETY: without functions the handles are not used.
    let error = unsafe { open_from(handles) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DriverMissing, "{error}");
}
