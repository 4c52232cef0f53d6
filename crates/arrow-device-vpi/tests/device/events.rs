//! Events, queues, and what waits for them.

use std::time::Duration;

use arrow_device::async_stream::block_on;
use arrow_device::{Device, ErrorKind, Queue};
use arrow_device_vpi::Job;

use crate::support::{self, assert_numbers, numbers, top};

/// Submits a job that completes after so many clocks.
fn late(device: &Device, queue: &Queue, clocks: u64) {
    let job = Job::new(top("late_start"), top("late_done")).register(top("delay"), clocks);
    // SAFETY: UNS-15 and UNS-16: the unit touches no memory.
    unsafe { support::simulator(device).submit(queue, job) }.unwrap();
}

#[test]
fn an_event_passes_behind_a_job_and_not_before() {
    let Some(device) = support::with(&support::units()) else { return };
    let (queue, simulator) = (device.open_queue().unwrap(), support::simulator(&device));
    let hold = simulator.hold();
    late(&device, &queue, 2000);
    let event = queue.record().unwrap();
    assert!(!event.is_complete().unwrap());
    assert!(!event.wait_timeout(Duration::from_millis(1)).unwrap());
    assert!(!queue.is_idle().unwrap());
    drop(hold);
    event.synchronize().unwrap();
    assert!(event.is_complete().unwrap());
    assert!(queue.is_idle().unwrap());
    assert_eq!(simulator.value(&top("late_done")).unwrap(), 1);
    assert!(simulator.time() >= 20_000);
}

/// A job ends some thousand clocks after it was begun, and the process of the simulator says so.
#[test]
fn a_task_that_awaits_an_event_is_woken() {
    let Some(device) = support::with(&support::units()) else { return };
    let queue = device.open_queue().unwrap();
    for _ in 0..20 {
        late(&device, &queue, 500);
        block_on(queue.record().unwrap()).unwrap();
    }
    let hold = support::simulator(&device).hold();
    late(&device, &queue, 500);
    let (event, is_over) = (queue.record().unwrap(), std::sync::mpsc::channel());
    let awaited = event.clone();
    let task = std::thread::spawn(move || {
        block_on(awaited).unwrap();
        is_over.0.send(()).unwrap();
    });
    assert!(!event.is_complete().unwrap());
    drop(hold);
    is_over.1.recv().unwrap();
    task.join().unwrap();
}

#[test]
fn a_queue_waits_for_another_one() {
    let Some(device) = support::with(&support::units()) else { return };
    let (one, other) = (device.open_queue().unwrap(), device.open_queue().unwrap());
    late(&device, &one, 1000);
    let there = numbers().copy_to(&one).unwrap();
    other.wait(&one.record().unwrap()).unwrap();
    drop(there.on(&other).unwrap());
    other.synchronize().unwrap();
    let done = support::simulator(&device).value(&top("late_done")).unwrap();
    assert_eq!(done, 1, "the second queue passed before the first one's job was done");
    assert_numbers(&there);
}

/// Behind work that has failed, nothing of the queue is done, and a queue that waits has failed
/// too.
// Requirement: DRV-27
#[test]
fn what_waits_for_failed_work_has_failed() {
    let Some(device) = support::with(&support::units()) else { return };
    let [one, other, third] = [(); 3].map(|()| device.open_queue().unwrap());
    let hold = support::simulator(&device).hold();
    // SAFETY: UNS-15 and UNS-16: the unit touches no memory.
    let job = Job::new(top("fault_start"), top("fault_done"));
    unsafe { support::simulator(&device).submit(&one, job) }.unwrap();
    late(&device, &one, 1);
    let event = one.record().unwrap();
    other.wait(&event).unwrap();
    late(&device, &other, 1);
    late(&device, &third, 1);
    let behind = other.record().unwrap();
    drop(hold);
    for answer in [event.synchronize(), behind.synchronize(), one.synchronize()] {
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::WorkFailed);
    }
    assert_eq!(other.is_idle().unwrap_err().kind(), ErrorKind::WorkFailed);
    third.synchronize().unwrap();
    // Of three jobs of the late unit, that of the queue without a failure was done.
    assert_eq!(support::simulator(&device).value(&top("late_done")).unwrap(), 1);
}

#[test]
fn work_of_a_closed_queue_is_done() {
    let Some(device) = support::with(&support::units()) else { return };
    let simulator = support::simulator(&device);
    for _ in 0..5 {
        late(&device, &device.open_queue().unwrap(), 100);
    }
    let queue = device.open_queue().unwrap();
    late(&device, &queue, 0);
    // The lanes have their turns by their numbers.
    queue.synchronize().unwrap();
    while simulator.value(&top("late_done")).unwrap() < 6 {
        std::thread::yield_now();
    }
}
