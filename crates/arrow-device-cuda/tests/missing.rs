//! A machine without CUDA: every way to ask gets an error value that says what to do.
//!
//! Each case runs this program again, as a child whose environment names another library.
#![allow(clippy::unwrap_used, clippy::panic)]

use arrow_device::ErrorKind;
use arrow_device_cuda::Kind;
use arrow_device_testkit::process::{self, Child};

const LIBRARY: &str = "ARROW_DEVICE_CUDA_LIBRARY";

fn ask_everything() {
    let errors = [
        arrow_device_cuda::is_available().unwrap_err(),
        arrow_device_cuda::devices().unwrap_err(),
        arrow_device_cuda::open(0).unwrap_err(),
        arrow_device_cuda::open_with(1, Kind::Host).unwrap_err(),
        arrow_device_cuda::open_with(usize::MAX, Kind::Managed).unwrap_err(),
        arrow_device_cuda::diagnose().problem.unwrap(),
    ];
    for error in errors {
        let kind = error.kind();
        assert!(matches!(kind, ErrorKind::DriverMissing | ErrorKind::DeviceMissing), "{error}");
        println!("said: {error}");
    }
    println!("diagnosis: {}", arrow_device_cuda::diagnose());
}

#[test]
fn without_a_library_the_error_says_what_to_install() {
    if process::is_child() {
        return ask_everything();
    }
    let text = Child::of_this_test()
        .env(LIBRARY, "/nonexistent/libcuda.so.1")
        .run()
        .expect_success()
        .stdout;
    assert_eq!(text.matches("said: ").count(), 6, "{text}");
    assert_eq!(text.matches("driver missing").count(), 7, "{text}");
    assert!(text.contains("install the NVIDIA driver"), "{text}");
    assert!(text.contains("library   not found"), "{text}");
}

#[test]
fn a_library_that_is_not_cudas_is_an_error_that_names_the_function() {
    if process::is_child() {
        return ask_everything();
    }
    let text = Child::of_this_test().env(LIBRARY, "libc.so.6").run().expect_success().stdout;
    assert!(text.contains("libc.so.6 has no cuInit"), "{text}");
}

/// Debian's `libcuda1` is in its non-free part; where it is installed and there is no GPU, this is
/// the real thing.
#[test]
fn the_real_library_without_a_gpu_says_that_there_is_none() {
    if process::is_child() {
        if arrow_device_cuda::is_available().is_ok() {
            println!("skipped: there is a GPU");
            return;
        }
        return ask_everything();
    }
    // SAFETY: the initialisers of the driver's library are run by whoever uses CUDA.
    if unsafe { libloading::Library::new("libcuda.so.1") }.is_err() {
        println!("skipped: no libcuda.so.1 here (Debian: libcuda1, in non-free)");
        return;
    }
    let text = Child::of_this_test().env(LIBRARY, "libcuda.so.1").run().expect_success().stdout;
    assert!(text.contains("skipped: ") || text.contains("diagnosis: "), "{text}");
}
