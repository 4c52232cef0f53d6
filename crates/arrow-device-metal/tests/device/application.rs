//! Devices and queues of the application's own.

use std::ptr::NonNull;

use arrow_device::driver::Raw;
use arrow_device::{Array, DataType, ErrorKind};
use arrow_device_metal::open_from;
use arrow_device_testkit::{process, release_until};
use metal_stand_in::{Gate, Id};

use crate::support::Bench;

pub(crate) fn pointer(object: Id) -> NonNull<std::ffi::c_void> {
    NonNull::new(object).unwrap()
}

#[test]
fn a_device_with_the_queue_of_the_application_has_one_order() {
    process::alone(|| {
        let Some(bench) = Bench::new() else { return };
        let application = bench.stand_in.application();
        let mtl_device = application.default_device();
        let mtl_queue: Id = unsafe { application.send(mtl_device, "newCommandQueue") };
        let device = unsafe { open_from(pointer(mtl_device), Some(pointer(mtl_queue))) }.unwrap();
        assert_eq!(device.id(), bench.id());
        let (queue, again) = (device.open_queue().unwrap(), device.open_queue().unwrap());
        assert_eq!((queue.raw(), again.raw().as_ptr()), (again.raw(), mtl_queue));
        // Work of the application, behind which the library's comes.
        let mut gate = Gate::new();
        unsafe { gate.before(mtl_queue) };
        let array = Array::from_values(DataType::Int32, (0..100).map(Some)).unwrap();
        let there = array.copy_to(&bench.open_queue().unwrap()).unwrap();
        let event = queue.record().unwrap();
        assert!(!event.is_complete().unwrap() && !queue.is_idle().unwrap());
        drop(queue);
        gate.open();
        event.synchronize().unwrap();
        again.synchronize().unwrap();
        // Both openings are one device.
        drop(there.on(&again).unwrap());
        // The application may let go first.
        unsafe { application.release(mtl_queue) };
        unsafe { application.release(mtl_device) };
        assert!(there.copy_to(&again).unwrap().to_host().unwrap().equals(&array).unwrap());
    });
}

#[test]
fn an_adopted_queue_is_used_and_let_go() {
    process::alone(|| {
        let Some(bench) = Bench::new() else { return };
        let application = bench.stand_in.application();
        let mtl_device = application.default_device();
        let before = bench.stand_in.objects();
        for round in 0..4 {
            let mtl_queue: Id = unsafe { application.send(mtl_device, "newCommandQueue") };
            let queue = unsafe { bench.adopt_queue(Raw::from_ptr(mtl_queue)) };
            let array = Array::from_values(DataType::Int32, (0..100).map(Some)).unwrap();
            let there = array.copy_to(&queue).unwrap();
            assert!(there.to_host().unwrap().equals(&array).unwrap(), "{round}");
            queue.synchronize().unwrap();
            drop((there, queue));
            unsafe { application.release(mtl_queue) };
        }
        // The queue that was adopted last is kept until another one comes.
        let few = || bench.stand_in.objects() <= before + 3;
        assert!(release_until(few), "{} and {before}", bench.stand_in.objects());
        unsafe { application.release(mtl_device) };
    });
}

#[test]
fn objects_of_another_kind_are_refused() {
    let Some(bench) = Bench::new() else { return };
    let application = bench.stand_in.application();
    let mtl_device = application.default_device();
    let mtl_queue: Id = unsafe { application.send(mtl_device, "newCommandQueue") };
    let second = arrow_device_metal::open(1).unwrap();
    let elsewhere = second.open_queue().unwrap();
    for (what, device, queue) in [
        ("a queue for a device", mtl_queue, None),
        ("a device for a queue", mtl_device, Some(mtl_device)),
        ("a queue of another device", mtl_device, Some(elsewhere.raw().as_ptr())),
    ] {
        let refused = unsafe { open_from(pointer(device), queue.map(pointer)) }.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{what}: {refused}");
    }
    let adopted = unsafe { bench.adopt_queue(Raw::from_ptr(mtl_device)) };
    assert_eq!(adopted.record().unwrap_err().kind(), ErrorKind::InvalidArgument);
    drop(adopted);
    unsafe { application.release(mtl_queue) };
    unsafe { application.release(mtl_device) };
}
