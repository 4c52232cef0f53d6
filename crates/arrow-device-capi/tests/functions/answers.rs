//! What callbacks write is C's: any number, whatever Rust would have it be.

use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use arrow_device_capi::*;

use crate::support::face::{call, made};
use crate::support::lab::Lab;

/// What a function writes to a `bool` of the caller's, as a byte.
fn byte(function: impl FnOnce(*mut bool, *mut ArdevError) -> i32) -> u8 {
    let mut out = 77_u8;
    call(|error| function((&raw mut out).cast(), error)).unwrap();
    out
}

#[test]
fn whatever_number_says_yes_is_one() {
    let lab = Lab { says: AtomicI32::new(0), hook: Box::new(|_| ()) };
    let (device, lab) = lab.register(7001);
    let queue = made(|out, error| unsafe { ardev_queue_open(device, out, error) }).unwrap();
    for (says, expected) in [(0, 0), (1, 1), (2, 1), (255, 1), (256, 1), (-1, 1)] {
        lab.says.store(says, Ordering::SeqCst);
        let idle = byte(|out, error| unsafe { ardev_queue_is_idle(queue, out, error) });
        assert_eq!(idle, expected, "is_idle says {says}");
        // An event that has passed is not asked again.
        let event = made(|out, error| unsafe { ardev_queue_record(queue, out, error) }).unwrap();
        let passed = byte(|out, error| unsafe { ardev_event_is_complete(event, out, error) });
        assert_eq!(passed, expected, "is_complete says {says}");
        unsafe { ardev_event_free(event) };
    }
    lab.says.store(1, Ordering::SeqCst);
    unsafe { ardev_queue_free(queue) };
    unsafe { ardev_device_free(device) };
}

/// A type with this name and these flags, in words.
fn words(name: &str, flags: i64) -> String {
    let name = CString::new(name).unwrap();
    let schema = made(|out, error| unsafe {
        let format = c"l".as_ptr();
        ardev_schema_new(format, name.as_ptr(), flags, ptr::null(), 0, ptr::null(), out, error)
    })
    .unwrap();
    let (mut text, mut size) = ([0; 64], 0);
    call(|error| unsafe {
        ardev_schema_describe(schema, text.as_mut_ptr(), text.len(), &mut size, error)
    })
    .unwrap();
    unsafe { ardev_schema_free(schema) };
    let text = unsafe { CStr::from_ptr(text.as_ptr()) }.to_str().unwrap().to_owned();
    assert_eq!(size, text.len() + 1);
    text
}

#[test]
fn a_type_without_a_name_is_described_without_one() {
    assert_eq!(words("", 2), "int64");
    assert_eq!(words("", 0), "int64 not null");
    assert_eq!(words("id", 2), "id: int64");
    assert_eq!(words(": ", 2), ": : int64");
}
