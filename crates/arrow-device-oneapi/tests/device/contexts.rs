//! Contexts and queues of an application's own. Each test has a process of its own, because a
//! device's number does not tell its context.

use std::ptr::NonNull;

use arrow_device::copy::{Options, Way};
use arrow_device::driver::Raw;
use arrow_device::{Array, DataType, ErrorKind};
use arrow_device_oneapi::{Kind, open, open_from};
use arrow_device_testkit::process;
use arrow_device_testkit::trips::imported;

use crate::support::{self, Gate, Handle, runtime};

fn pointer(handle: Handle) -> NonNull<std::ffi::c_void> {
    NonNull::new(handle).unwrap()
}

fn numbers() -> Array {
    Array::from_values(DataType::Int32, (0..100).map(Some)).unwrap()
}

// Requirement: ARR-5, ARR-20, SAF-12
#[test]
fn two_contexts_of_one_device_are_kept_apart() {
    process::alone(|| {
        let Some(own) = support::device() else { return };
        let runtime = runtime();
        let queue = own.open_queue().unwrap();
        let sycl_device = runtime.device(0);
        let context = runtime.new_context(sycl_device);
        let raw = runtime.new_queue(context, sycl_device, support::IN_ORDER);
        let other = unsafe { open_from(pointer(raw), Kind::Device) }.unwrap();
        assert_eq!(own.id(), other.id());
        assert_ne!(own.driver().runtime(), other.driver().runtime());
        // Copies of a context are the same context.
        let again = unsafe { open_from(pointer(raw), Kind::Device) }.unwrap();
        assert_eq!(again.driver().runtime(), other.driver().runtime());

        // The library's queue, and the application's.
        let elsewhere = unsafe { other.adopt_queue(Raw::from_ptr(raw)) };
        let mine = open(0).unwrap().open_queue().unwrap();
        let array = numbers();
        for (home, away) in [(&queue, &elsewhere), (&elsewhere, &queue), (&mine, &elsewhere)] {
            let made = array.copy_to(home).unwrap();
            let foreign = imported(&made);
            assert!(foreign.to_host().unwrap().equals(&array).unwrap());
            assert!(foreign.copy_to(home).unwrap().is_same(&foreign));
            // It is not there in the other context, although the number is the same.
            let error = foreign.on(away).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotReachable, "{error}");
            let plan = foreign.plan_copy(away, &Options::new()).unwrap();
            let ways: Vec<Way> = plan.hops().iter().map(|hop| hop.way).collect();
            assert_eq!(ways, [Way::ToHost, Way::FromHost], "{plan}");
            let moved = plan.run().unwrap();
            assert!(moved.on(home).is_err());
            assert!(imported(&moved).to_host().unwrap().equals(&array).unwrap());
        }
        // The events of the other one are waited for by the host.
        if runtime.has_gates() {
            let mut gate = Gate::before(&elsewhere);
            let event = elsewhere.record().unwrap();
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| queue.wait(&event));
                assert!(!event.is_complete().unwrap());
                gate.open();
                waiting.join().unwrap().unwrap();
            });
            assert!(event.is_complete().unwrap());
        }
        // The application may let go of its context first.
        runtime.delete("Context", context);
        let there = array.copy_to(&elsewhere).unwrap();
        assert!(there.to_host().unwrap().equals(&array).unwrap());
        drop((there, elsewhere));
        runtime.delete_lent_queue(raw);
        runtime.delete("Device", sycl_device);
        runtime.assert_no_mistakes();
    });
}

/// dpctl, dpnp and PyTorch use it, too.
// Requirement: SAF-11
#[test]
fn a_device_is_opened_in_the_default_context_of_its_platform() {
    process::alone(|| {
        let Some(own) = support::device() else { return };
        let runtime = runtime();
        let sycl_device = runtime.device(0);
        let context = runtime.default_context(sycl_device);
        let raw = runtime.new_queue(context, sycl_device, support::IN_ORDER);
        let same = unsafe { open_from(pointer(raw), Kind::Device) }.unwrap();
        assert_eq!(own.driver().runtime(), same.driver().runtime());
        let adopted = unsafe { own.adopt_queue(Raw::from_ptr(raw)) };
        let there = numbers().copy_to(&own.open_queue().unwrap()).unwrap();
        drop(there.on(&adopted).unwrap());
        drop((adopted, there));
        runtime.delete_lent_queue(raw);
        runtime.delete("Context", context);
        runtime.delete("Device", sycl_device);
        runtime.assert_no_mistakes();
    });
}

#[test]
fn a_part_of_a_device_is_refused() {
    process::alone(|| {
        let Some(runtime) = support::simulated() else { return };
        let part: unsafe extern "C" fn() -> Handle =
            runtime.function("simulated_sycl_part_of_device");
        let part = unsafe { part() };
        let context = runtime.new_context(part);
        let raw = runtime.new_queue(context, part, support::IN_ORDER);
        let refused = unsafe { open_from(pointer(raw), Kind::Device) }.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        assert!(refused.message().contains("no root device"), "{refused}");
    });
}
