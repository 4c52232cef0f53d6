//! The application's own SYCL queue, through the header's functions, on the simulated runtime: by
//! Rust, and by a program in C that is linked to the library. Each test has a process of its own,
//! because a device's number does not tell its context.

use std::ffi::{c_int, c_void};
use std::process::Command;
use std::ptr;

use arrow_device::{DeviceType, ErrorKind};
use arrow_device_capi::*;
use arrow_device_testkit::process;

use crate::support;
use crate::support::face::made;
use crate::support::objects::{copy, numbers, values_of};

#[test]
fn each_kind_of_memory_is_opened_by_its_number() {
    process::alone(|| {
        // SAFETY: the process runs this test alone.
        unsafe { std::env::set_var("ARROW_DEVICE_ONEAPI_LIBRARY", simulated_sycl::path()) };
        let device_type = DeviceType::ONEAPI.0;
        for (memory, flags) in [
            (ARDEV_MEMORY_AUTOMATIC, 0),
            (ARDEV_MEMORY_USM_HOST, ARDEV_DEVICE_HOST_READABLE),
            (ARDEV_MEMORY_USM_SHARED, ARDEV_DEVICE_HOST_READABLE),
        ] {
            let device = made(|out, error| unsafe {
                ardev_device_open_with(device_type, 0, memory, out, error)
            })
            .unwrap();
            let mut info = ArdevDeviceInfo {
                struct_size: size_of::<ArdevDeviceInfo>(),
                device_type: 0,
                status: 0,
                device_id: 0,
                alignment: 0,
                flags: 0,
                name: [0; 252],
            };
            let code = unsafe { ardev_device_inspect(device, &mut info, ptr::null_mut()) };
            assert_eq!((code, info.flags & ARDEV_DEVICE_HOST_READABLE), (0, flags));
            let queue = made(|out, error| unsafe { ardev_queue_open(device, out, error) }).unwrap();
            let there = copy(&numbers(3), queue, ptr::null()).unwrap();
            assert_eq!(values_of(&copy(&there, ptr::null(), queue).unwrap()), [3, 4, 5]);
            drop(there);
            unsafe { ardev_queue_free(queue) };
            unsafe { ardev_device_free(device) };
        }
        let refused = made(|out, error| unsafe {
            ardev_device_open_with(device_type, 0, ARDEV_MEMORY_SVM, out, error)
        });
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
        let place: *mut c_void = ptr::dangling_mut::<u64>().cast();
        let refused = made(|out, error| unsafe {
            ardev_device_open_in(device_type, place, place, 0, out, error)
        });
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        assert!(refused.message().contains("ardev_device_open_oneapi"), "{refused}");
        let table = [0_u8; 16];
        let code: c_int = unsafe {
            ardev_oneapi_use_functions(table.as_ptr().cast(), table.len(), ptr::null_mut())
        };
        assert_ne!(code, 0);
    });
}

#[test]
fn a_program_in_c_uses_a_queue_and_an_event_of_its_own() {
    let source = std::path::Path::new(support::ROOT).join("tests/c/oneapi.c");
    let program = support::c_compiler().build(&source, &["-ldl"]);
    let runtime = simulated_sycl::path();
    for way in ["library", "table"] {
        let mut command = Command::new(&program);
        command.arg(way).arg(&runtime);
        if way == "library" {
            command.env("ARROW_DEVICE_ONEAPI_LIBRARY", &runtime);
        } else {
            // The application gives the functions, and no library is looked for.
            command.env("ARROW_DEVICE_ONEAPI_LIBRARY", "/nonexistent");
        }
        let output = support::run(&mut command);
        support::assert_success(way, &output);
        assert!(support::text(&output).contains("all is well"), "{}", support::text(&output));
    }
}
