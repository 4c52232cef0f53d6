//! A machine without ROCm, or without a GPU: every way to ask gets an error value that says what to
//! do.
//!
//! Each case runs this program again, as a child whose environment names another library.
#![allow(clippy::unwrap_used, clippy::panic)]

use arrow_device::ErrorKind;
use arrow_device_rocm::Kind;
use arrow_device_testkit::process::{self, Child};
use arrow_device_testkit::required::skip;

const LIBRARY: &str = "ARROW_DEVICE_HIP_LIBRARY";

fn ask_everything() {
    let errors = [
        arrow_device_rocm::is_available().unwrap_err(),
        arrow_device_rocm::devices().unwrap_err(),
        arrow_device_rocm::open(0).unwrap_err(),
        arrow_device_rocm::open_with(1, Kind::Host).unwrap_err(),
        arrow_device_rocm::open_with(usize::MAX, Kind::Device).unwrap_err(),
        arrow_device_rocm::diagnose().problem.unwrap(),
    ];
    for error in errors {
        let kind = error.kind();
        assert!(matches!(kind, ErrorKind::DriverMissing | ErrorKind::DeviceMissing), "{error}");
        println!("said: {error}");
    }
    println!("diagnosis: {}", arrow_device_rocm::diagnose());
}

#[test]
fn without_a_library_the_error_says_what_to_install() {
    if process::is_child() {
        return ask_everything();
    }
    let text = Child::of_this_test()
        .env(LIBRARY, "/nonexistent/libamdhip64.so.6")
        .run()
        .expect_success()
        .stdout;
    assert_eq!(text.matches("said: ").count(), 6, "{text}");
    assert_eq!(text.matches("driver missing").count(), 7, "{text}");
    assert!(text.contains("install ROCm"), "{text}");
    assert!(text.contains("library   not found"), "{text}");
}

#[test]
fn a_library_that_is_not_hips_is_an_error_that_names_the_function() {
    if process::is_child() {
        return ask_everything();
    }
    let text = Child::of_this_test().env(LIBRARY, "libc.so.6").run().expect_success().stdout;
    assert!(text.contains("libc.so.6 has no hipInit"), "{text}");
}

/// The vendor's own library, as Debian has it.
#[test]
fn the_real_library_without_a_gpu_says_that_there_is_none() {
    if process::is_child() {
        if arrow_device_rocm::is_available().is_ok() {
            println!("skipped: there is a GPU");
            return;
        }
        return ask_everything();
    }
    // SAFETY: the initialisers of HIP's library are run by whoever uses ROCm.
    let is_there = |name: &&&str| unsafe { libloading::Library::new(**name) }.is_ok();
    let names = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"];
    let Some(name) = names.iter().find(is_there) else {
        skip("rocm", "no libamdhip64 here (Debian: libamdhip64-5)");
        return;
    };
    let text = Child::of_this_test().env(LIBRARY, name).run().expect_success().stdout;
    if !text.contains("skipped: ") {
        assert_eq!(text.matches("no such device: the driver finds").count(), 7, "{text}");
        assert!(text.contains("version   HIP "), "{text}");
    }
    println!("{text}");
}
