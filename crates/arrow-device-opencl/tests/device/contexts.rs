//! Contexts of an application's own. The test has a process of its own, because a device's number
//! does not tell its context.

use std::ptr::NonNull;
use std::time::Duration;

use arrow_device::copy::{Options, Way};
use arrow_device::driver::{Raw, Region, Route, Spot};
use arrow_device::{Array, DataType, ErrorKind, Queue};
use arrow_device_opencl::{Kind, open, open_for, open_from, open_with};
use arrow_device_testkit::application::opencl::{Cl, ClHandle, UserEventGate};
use arrow_device_testkit::process;
use arrow_device_testkit::required::skip;
use arrow_device_testkit::trips::imported;

use crate::support;

fn pointer(handle: ClHandle) -> NonNull<std::ffi::c_void> {
    NonNull::new(handle).unwrap()
}

/// One test, since all of it is about which device was opened last.
// Requirement: ARR-5, ARR-20, SAF-12
#[test]
fn two_contexts_of_one_device_are_kept_apart() {
    process::alone(|| {
        let Some(own) = support::device() else { return };
        let cl = Cl::load().unwrap();
        let queue = own.open_queue().unwrap();
        let (own_context, cl_device) = cl.home_of(queue.raw().as_ptr()).unwrap();
        let context = cl.create_context(cl_device).unwrap();

        // What is not a device of the context is refused.
        let refused = unsafe { open_from(pointer(context), pointer(own_context), Kind::Buffers) }
            .unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");

        let other =
            unsafe { open_from(pointer(context), pointer(cl_device), Kind::Buffers) }.unwrap();
        assert_eq!(own.id(), other.id());
        assert_ne!(own.driver().runtime(), other.driver().runtime());
        let elsewhere = other.open_queue().unwrap();
        assert_eq!(cl.home_of(elsewhere.raw().as_ptr()).unwrap().0, context);

        // The context is found by a handle.
        let mut memory = elsewhere.allocate(64).unwrap();
        memory.write(&elsewhere, &[1; 64]).unwrap();
        let from = memory.spot(&elsewhere).unwrap();
        let found = unsafe { open_for(pointer(from.base.as_ptr()), own.id().id) }.unwrap();
        assert_eq!(found.driver().runtime(), other.driver().runtime());
        let found = unsafe { open_for(pointer(from.base.as_ptr()), 4711) }.unwrap();
        assert_eq!(found.id(), other.id());
        let located = unsafe { own.driver().locate(from.base) }.unwrap().unwrap();
        assert_eq!((located.device, located.remaining), (own.id(), 64));

        // Its memory is out of reach for the queues of another one, and the driver says so.
        let bytes = [0_u8; 64];
        let to = Spot { base: Raw::from_ptr(bytes.as_ptr().cast_mut().cast()), offset: 0 };
        let region = Region { from, to, len: 64 };
        let error = unsafe { queue.copy(Route::ToHost, &[region]) }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotReachable, "{error}");
        assert_eq!(error.vendor().unwrap().text, "CL_INVALID_CONTEXT");

        // Its events are waited for by the host, whether they are the library's or foreign.
        let mut gate = UserEventGate::before(&cl, elsewhere.raw().as_ptr()).unwrap();
        let event = elsewhere.record().unwrap();
        assert!(!event.wait_timeout(Duration::from_millis(5)).unwrap());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| queue.wait(&event));
            assert!(!event.is_complete().unwrap());
            gate.open().unwrap();
            waiting.join().unwrap().unwrap();
        });
        assert!(event.is_complete().unwrap());
        let waiting = unsafe { own.driver().wait(queue.raw(), event.raw()) }.unwrap();
        assert_eq!(waiting, arrow_device::driver::Waiting::HostMustWait);

        // The device works like any other, and is the one that was opened last.
        drop((memory, found));
        let array = Array::from_values(DataType::Int32, (0..100).map(Some)).unwrap();
        let other =
            unsafe { open_from(pointer(context), pointer(cl_device), Kind::Buffers) }.unwrap();
        let there = array.copy_to(&other.open_queue().unwrap()).unwrap();
        there.to_host().unwrap().validate().unwrap();

        // Whose an array is, its handles tell: what only knows the C struct finds the context,
        // whichever was opened last.
        let elsewhere = other.open_queue().unwrap();
        let again = open(0).unwrap().open_queue().unwrap();
        for (home, away) in [(&queue, &elsewhere), (&elsewhere, &queue), (&again, &elsewhere)] {
            let made = array.copy_to(home).unwrap();
            let foreign = imported(&made);
            assert!(foreign.to_host().unwrap().equals(&array).unwrap());
            assert!(foreign.copy_to(home).unwrap().is_same(&foreign));
            // It is not there in the other context, although the number is the same.
            let error = foreign.on(away).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotReachable, "{error}");
            let plan = foreign.plan_copy(away, &Options::new()).unwrap();
            assert_eq!(plan.hops()[0].way, Way::FromHost, "{plan}");
            let moved = plan.run().unwrap();
            assert!(moved.on(home).is_err());
            assert!(imported(&moved).to_host().unwrap().equals(&array).unwrap());
        }

        // The application may let go of its context first.
        cl.call("clReleaseContext", context).unwrap();
        there.to_host().unwrap();
    });
}

/// Queues of devices 0 and 1, the second with this kind of memory, and both devices. `None` where
/// there are not as many.
fn two_devices(kind: Kind) -> Option<(Cl, [Queue; 2], [ClHandle; 2])> {
    // SAFETY: the process runs this test alone, and nobody has loaded the driver yet.
    unsafe { std::env::set_var("POCL_DEVICES", "basic basic") };
    if !support::is_there() {
        return None;
    }
    let listed = arrow_device_opencl::devices().unwrap();
    if !listed.get(1).is_some_and(|second| second.has_svm || kind == Kind::Buffers) {
        skip("opencl", "it has no second device with this kind of memory");
        return None;
    }
    let cl = Cl::load().unwrap();
    let queues = [open(0), open_with(1, kind)].map(|device| device.unwrap().open_queue().unwrap());
    let homes = [0, 1].map(|index| cl.home_of(queues[index].raw().as_ptr()).unwrap());
    Some((cl, queues, homes.map(|(_, device)| device)))
}

// Requirement: SAF-12
#[test]
fn a_context_does_not_reach_memory_of_another_kind() {
    process::alone(|| {
        let Some((cl, queues, devices)) = two_devices(Kind::Svm) else { return };
        drop(queues);
        let context = cl.create_context_of(&devices).unwrap();
        let [buffers, addresses] = [(0, Kind::Buffers), (1, Kind::Svm)].map(|(index, kind)| {
            let opened = unsafe { open_from(pointer(context), pointer(devices[index]), kind) };
            opened.unwrap().open_queue().unwrap()
        });
        let values = Array::from_values(DataType::Int32, (0..100).map(Some)).unwrap();
        for (from, to) in [(&buffers, &addresses), (&addresses, &buffers)] {
            assert!(to.reaches(from.device().id()).is_err());
            let moved = values.copy_to(from).unwrap().copy_to(to).unwrap();
            assert!(moved.to_host().unwrap().equals(&values).unwrap());
        }
        cl.call("clReleaseContext", context).unwrap();
    });
}

/// A context of devices 0 and 1, opened by 0, and another context of device 1.
// Requirement: SAF-12
#[test]
fn a_context_does_not_reach_the_memory_of_another_one() {
    process::alone(|| {
        let Some((cl, [own, other], devices)) = two_devices(Kind::Buffers) else { return };
        drop(own);
        let context = cl.create_context_of(&devices).unwrap();
        let shared =
            unsafe { open_from(pointer(context), pointer(devices[0]), Kind::Buffers) }.unwrap();
        let queue = shared.open_queue().unwrap();
        queue.reaches(other.device().id()).unwrap();
        let values = Array::from_values(DataType::Int32, (0..100).map(Some)).unwrap();
        let made = values.copy_to(&other).unwrap();
        for away in [made.clone(), imported(&made)] {
            let error = away.on(&queue).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotReachable, "{error}");
            let plan = away.plan_copy(&queue, &Options::new()).unwrap();
            assert!(plan.hops().iter().all(|hop| hop.way != Way::FromPeer), "{plan}");
            let moved = plan.run().unwrap();
            assert!(moved.to_host().unwrap().equals(&values).unwrap());
        }
        let mut memory = other.allocate(64).unwrap();
        assert_eq!(memory.spot(&queue).unwrap_err().kind(), ErrorKind::NotReachable);
        // Devices of one context are peers.
        let second =
            unsafe { open_from(pointer(context), pointer(devices[1]), Kind::Buffers) }.unwrap();
        let near = values.copy_to(&second.open_queue().unwrap()).unwrap();
        for near in [near.clone(), imported(&near)] {
            drop(near.on(&queue).unwrap());
            let plan = near.plan_copy(&queue, &Options::new()).unwrap();
            assert_eq!(plan.hops()[0].way, Way::FromPeer, "{plan}");
            assert!(plan.run().unwrap().to_host().unwrap().equals(&values).unwrap());
        }
        cl.call("clReleaseContext", context).unwrap();
    });
}
