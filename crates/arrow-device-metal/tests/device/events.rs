//! Events of the library and of others, and who waits for them.

use std::time::Duration;

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::copy::Options;
use arrow_device::driver::{Raw, SyncEvent, Waiting};
use arrow_device::{Array, DataType, ErrorKind, Event, Queue};
use metal_stand_in::{Gate, Id};

use crate::support::Bench;

fn array_on(queue: &Queue) -> Array {
    let array = Array::from_values(DataType::Int32, (0..100).map(Some)).unwrap();
    array.copy_to(queue).unwrap()
}

// Requirement: DRV-22
#[test]
fn an_array_shows_its_event_as_the_object() {
    let Some(bench) = Bench::new() else { return };
    let application = bench.stand_in.application();
    let queue = bench.open_queue().unwrap();
    let mut gate = Gate::new();
    unsafe { gate.before(queue.raw().as_ptr()) };
    let event = queue.record().unwrap();
    let SyncEvent::Address(object) = event.sync_event().unwrap() else { panic!() };
    assert_eq!(object.as_ptr(), event.raw().as_ptr());
    let value = || unsafe { application.send::<u64>(object.as_ptr(), "signaledValue") };
    assert_eq!(value(), 0);
    gate.open();
    event.synchronize().unwrap();
    assert_eq!(value(), 1);
}

/// An array whose data is there, and which is said to be ready after an event of another party.
fn behind(event: Id, queue: &Queue) -> Array {
    let array = array_on(queue);
    array.wait().unwrap();
    let mut c_array = ArrowDeviceArray::empty();
    array.export_settled(&mut c_array).unwrap();
    assert!(c_array.sync_event.is_null());
    c_array.sync_event = event;
    unsafe { Array::import(&mut c_array, &array.schema().unwrap()) }.unwrap()
}

// Requirement: ARR-20, DRV-19, DRV-20
#[test]
fn a_foreign_event_is_waited_for() {
    let Some(bench) = Bench::new() else { return };
    let queue = bench.open_queue().unwrap();
    let mut gate = Gate::new();
    let again = behind(gate.event(), &queue);
    let consumer = bench.open_queue().unwrap();
    assert!(!again.is_ready().unwrap());
    drop(again.on(&consumer).unwrap());
    assert!(!consumer.is_idle().unwrap());
    let event = consumer.record().unwrap();
    assert!(!event.wait_timeout(Duration::from_millis(5)).unwrap());
    gate.open();
    event.synchronize().unwrap();
    assert!(again.is_ready().unwrap());
    drop(again);
}

#[test]
fn an_event_that_the_host_cannot_ask_is_refused() {
    let Some(bench) = Bench::new() else { return };
    let application = bench.stand_in.application();
    let queue = bench.open_queue().unwrap();
    let device = application.default_device();
    let event: Id = unsafe { application.send(device, "newEvent") };
    for object in [event, device] {
        let again = behind(object, &queue);
        assert_eq!(again.on(&queue).unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(again.to_host().unwrap_err().kind(), ErrorKind::Unsupported);
    }
    unsafe { application.release(event) };
    unsafe { application.release(device) };
}

// Requirement: DRV-7
#[test]
fn events_of_another_device_are_waited_for_by_the_host() {
    let Some(bench) = Bench::new() else { return };
    let second = arrow_device_metal::open(1).unwrap();
    assert_eq!(second.driver().runtime(), bench.driver().runtime());
    let (queue, other) = (bench.open_queue().unwrap(), second.open_queue().unwrap());
    let event = other.record().unwrap();
    let waited = unsafe { bench.driver().wait(queue.raw(), event.raw()) }.unwrap();
    assert_eq!(waited, Waiting::HostMustWait);
    queue.wait(&event).unwrap();
    assert!(event.is_complete().unwrap());
    // A foreign one.
    let application = bench.stand_in.application();
    let mut gate = Gate::new();
    let foreign = unsafe { Event::adopt(&second, Raw::from_ptr(gate.event())) };
    let waited = unsafe { second.driver().wait(other.raw(), foreign.raw()) }.unwrap();
    assert_eq!(waited, Waiting::HostMustWait);
    gate.open();
    assert!(foreign.is_complete().unwrap());
    drop((foreign, application));
    let array = array_on(&queue);
    assert_eq!(array.on(&other).unwrap_err().kind(), ErrorKind::NotReachable);
    assert!(array.copy_to(&other).unwrap().to_host().unwrap().equals(&array).unwrap());
}

/// A consumer in another library waits for the object that it is shown, by its own queue.
// Requirement: SAF-10
#[test]
fn the_application_waits_for_what_it_is_shown() {
    let Some(bench) = Bench::new() else { return };
    let application = bench.stand_in.application();
    let queue = bench.open_queue().unwrap();
    let there = array_on(&queue);
    there.wait().unwrap();
    let mut gate = Gate::new();
    unsafe { gate.before(queue.raw().as_ptr()) };
    let array = there.copy_with(&queue, &Options::new().always(true)).unwrap();
    let mut c_array = ArrowDeviceArray::empty();
    array.export(&mut c_array).unwrap();
    assert!(!c_array.sync_event.is_null());
    let device = application.default_device();
    let own: Id = unsafe { application.send(device, "newCommandQueue") };
    let done: Id = unsafe { application.send(device, "newSharedEvent") };
    unsafe { application.commit_wait(own, c_array.sync_event) };
    unsafe { application.commit_signal(own, done) };
    let wait = |milliseconds: u64| unsafe {
        let name = "waitUntilSignaledValue:timeoutMS:";
        application.send_2::<u8, _, _>(done, name, 1_u64, milliseconds) != 0
    };
    assert!(!wait(5));
    gate.open();
    assert!(wait(60_000));
    drop(unsafe { Array::import(&mut c_array, &array.schema().unwrap()) }.unwrap());
    for object in [own, done, device] {
        unsafe { application.release(object) };
    }
}

/// Waits in both directions, again and again, without a question in between.
#[test]
fn queues_that_wait_for_each_other_many_times_are_done_at_last() {
    let Some(bench) = Bench::new() else { return };
    let queues = [bench.open_queue().unwrap(), bench.open_queue().unwrap()];
    let mut gate = Gate::new();
    unsafe { gate.before(queues[0].raw().as_ptr()) };
    let mut last = queues[0].record().unwrap();
    for round in 0..1300 {
        let queue = &queues[(round + 1) % 2];
        queue.wait(&last).unwrap();
        last = queue.record().unwrap();
    }
    assert!(!last.is_complete().unwrap());
    gate.open();
    last.synchronize().unwrap();
}
