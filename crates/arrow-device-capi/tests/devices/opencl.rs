//! A context, a queue and events of the application's in OpenCL, through the header's functions.
//! The test has a process of its own, because a device's number does not tell its context.

use std::ptr;

use arrow_device::{DeviceType, ErrorKind};
use arrow_device_capi::*;
use arrow_device_testkit::application::opencl::Cl;
use arrow_device_testkit::required::skip;
use arrow_device_testkit::{process, release_until};

use crate::support::face::{Owned, call, made};
use crate::support::objects::{END, Ends, copy, numbers, values_of};

/// One test, since all of it is about which device was opened last.
#[test]
fn a_context_a_queue_and_an_event_of_the_application_are_used() {
    process::alone(|| {
        static ENDS: Ends = Ends::new();
        if let Err(reason) = arrow_device_opencl::is_available() {
            return skip("opencl", &reason.to_string());
        }
        let device_type = DeviceType::OPENCL.0;
        let cl = Cl::load().unwrap();
        let usual =
            made(|out, error| unsafe { ardev_device_open(device_type, 0, out, error) }).unwrap();
        let home = made(|out, error| unsafe { ardev_queue_open(usual, out, error) }).unwrap();
        let handle = made(|out, error| unsafe { ardev_queue_handle(home, out, error) }).unwrap();
        let (_, cl_device) = cl.home_of(handle).unwrap();
        let context = cl.create_context(cl_device).unwrap();

        // One number, one kind of memory; and none that OpenCL does not have.
        for (memory, kind) in [
            (ARDEV_MEMORY_SVM, ErrorKind::InvalidArgument),
            (ARDEV_MEMORY_DEVICE_ONLY, ErrorKind::Unsupported),
        ] {
            let refused = [
                made(|out, error| unsafe {
                    ardev_device_open_with(device_type, 0, memory, out, error)
                }),
                made(|out, error| unsafe {
                    ardev_device_open_in(device_type, context, cl_device, memory, out, error)
                }),
            ];
            assert_eq!(refused.map(|refused| refused.unwrap_err().kind()), [kind; 2]);
        }
        let device = made(|out, error| unsafe {
            ardev_device_open_in(device_type, context, cl_device, 0, out, error)
        })
        .unwrap();

        // A queue of the application's, in its context.
        let lane = cl.create_out_of_order_queue(context, cl_device).unwrap();
        let queue = made(|out, error| unsafe {
            ardev_queue_adopt(device, lane, ENDS.context(), END, out, error)
        })
        .unwrap();
        let there = copy(&numbers(3), queue, ptr::null()).unwrap();
        assert_eq!(values_of(&copy(&there, ptr::null(), queue).unwrap()), [3, 4, 5]);

        // The array's memory leads to its context, and a number alone does not.
        let view =
            made(|out, error| unsafe { ardev_view_open(there.0, queue, out, error) }).unwrap();
        let mut place = ArdevPlace { base: ptr::null(), offset: 0, size: 0 };
        call(|error| unsafe { ardev_view_buffer(view, 1, &mut place, error) }).unwrap();
        let found = made(|out, error| unsafe {
            ardev_device_open_for(device_type, place.base, 4711, out, error)
        })
        .unwrap();
        let of_found = made(|out, error| unsafe { ardev_queue_open(found, out, error) }).unwrap();
        let handle =
            made(|out, error| unsafe { ardev_queue_handle(of_found, out, error) }).unwrap();
        assert_eq!(cl.home_of(handle).unwrap().0, context);
        let refused = made(|out, error| unsafe {
            ardev_device_open_for(device_type, ptr::null(), 0, out, error)
        });
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
        unsafe { ardev_view_free(view) };

        // An event of the application's, which the queue waits for.
        let user = cl.create_user_event(context).unwrap();
        let event = made(|out, error| unsafe {
            ardev_event_adopt(device, user, ENDS.context(), END, out, error)
        })
        .unwrap();
        call(|error| unsafe { ardev_queue_wait(queue, event, error) }).unwrap();
        let behind = made(|out, error| unsafe { ardev_queue_record(queue, out, error) }).unwrap();
        let is_complete = |event| {
            let mut passed = false;
            call(|error| unsafe { ardev_event_is_complete(event, &mut passed, error) }).unwrap();
            passed
        };
        assert!(!is_complete(event) && !is_complete(behind));
        cl.set_status(user, 0).unwrap();
        call(|error| unsafe { ardev_event_wait(behind, -1, error) }).unwrap();
        assert!(is_complete(event));

        assert_eq!(ENDS.count(), 0);
        drop(there);
        for event in [event, behind] {
            unsafe { ardev_event_free(event) };
        }
        for queue in [queue, of_found, home] {
            unsafe { ardev_queue_free(queue) };
        }
        for device in [device, found, usual] {
            unsafe { ardev_device_free(device) };
        }
        assert!(release_until(|| ENDS.count() == 2), "{}", ENDS.count());
        cl.call("clReleaseEvent", user).unwrap();
        cl.call("clReleaseCommandQueue", lane).unwrap();
        cl.call("clReleaseContext", context).unwrap();
    });
}

/// An object that several threads use, as rule 4 of the header allows.
struct Shared<T>(*const T);

unsafe impl<T> Sync for Shared<T> {}

// PoCL's maps of one buffer by two threads at once end the process, though OpenCL promises that
// threads may: whoever calls through C is kept from that as whoever calls through Rust is.
#[test]
fn threads_read_one_array_at_once_although_the_driver_may_not() {
    process::alone(|| {
        if let Err(reason) = arrow_device_opencl::is_available() {
            return skip("opencl", &reason.to_string());
        }
        let device_type = DeviceType::OPENCL.0;
        let device =
            made(|out, error| unsafe { ardev_device_open(device_type, 0, out, error) }).unwrap();
        let queue = made(|out, error| unsafe { ardev_queue_open(device, out, error) }).unwrap();
        let there = copy(&numbers(3), queue, ptr::null()).unwrap();
        let shared = Shared(there.0.cast_const());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let array = &shared;
                    for _ in 0..200 {
                        let back = made(|out, error| unsafe {
                            ardev_array_copy(array.0, ptr::null(), ptr::null(), out, error)
                        });
                        assert_eq!(values_of(&Owned(back.unwrap())), [3, 4, 5]);
                    }
                });
            }
        });
        drop(there);
        unsafe { ardev_queue_free(queue) };
        unsafe { ardev_device_free(device) };
    });
}
