//! A machine without Metal: every way to ask gets an error value that says why.
//!
//! Each case runs this program again, as a child whose environment names another library.

use std::ptr::NonNull;

use arrow_device::ErrorKind;
use arrow_device_testkit::process::{self, Child};
use metal_stand_in::{StandIn, VARIABLE};

fn ask_everything(kind: ErrorKind) {
    let errors = [
        arrow_device_metal::is_available().unwrap_err(),
        arrow_device_metal::devices().unwrap_err(),
        arrow_device_metal::open(0).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), kind, "{error}");
        println!("said: {error}");
    }
}

#[test]
fn a_system_without_metal_says_so() {
    if process::is_child() {
        assert!(arrow_device_metal::buffer_of(NonNull::<u8>::dangling().as_ptr().cast()).is_none());
        return ask_everything(ErrorKind::DriverMissing);
    }
    let text = Child::of_this_test().env_remove(VARIABLE).run().expect_success().stdout;
    assert_eq!(text.matches("said: ").count(), 3, "{text}");
    assert!(text.contains("a part of macOS and iOS"), "{text}");
}

#[test]
fn a_library_that_is_not_there_is_named() {
    if process::is_child() {
        return ask_everything(ErrorKind::DriverMissing);
    }
    let child = Child::of_this_test().env(VARIABLE, "/nonexistent/Metal");
    let text = child.run().expect_success().stdout;
    assert!(text.contains("/nonexistent/Metal"), "{text}");
}

#[test]
fn a_library_that_is_not_metal_is_an_error() {
    if process::is_child() {
        return ask_everything(ErrorKind::DriverMissing);
    }
    let text = Child::of_this_test().env(VARIABLE, "libc.so.6").run().expect_success().stdout;
    assert!(text.contains("the library is not Metal: objc_msg_lookup"), "{text}");
}

#[test]
fn a_machine_without_a_device_says_so() {
    process::alone(|| {
        let Some(stand_in) = StandIn::load() else { return };
        stand_in.set_devices(0);
        ask_everything(ErrorKind::DeviceMissing);
        stand_in.set_devices(1);
        arrow_device_metal::is_available().unwrap();
        assert_eq!(arrow_device_metal::open(1).unwrap_err().kind(), ErrorKind::DeviceMissing);
    });
}
