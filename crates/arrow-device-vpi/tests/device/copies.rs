//! Copies, tensors, threads, and two simulators in one process.

use arrow_device::driver::{Raw, Region, Route, Spot};
use arrow_device::{ErrorKind, Memory, Queue};
use arrow_device_testkit::tensors::{conversions, matrix};
use arrow_device_testkit::{process, trips};

use crate::support::{self, assert_numbers, numbers, top};

#[test]
fn threads_share_a_device() {
    let Some(device) = support::device() else { return };
    trips::threads_share_a_device(&device, 10);
}

// Requirement: SAF-21
#[test]
fn polled_copies_need_nobody_who_waits() {
    let Some(device) = support::device() else { return };
    trips::polled_copies_need_nobody_who_waits(&device.open_queue().unwrap(), 20);
}

// Requirement: DLP-4
#[test]
fn tensors_of_every_type_come_back_in_every_layout() {
    let Some(device) = support::device() else { return };
    let queue = device.open_queue().unwrap();
    // 20 types, 9 layouts, 2 forms.
    assert_eq!(matrix::run(&queue, &matrix::DTYPES), 360);
}

#[test]
fn tensors_and_arrays_are_made_of_each_other() {
    let Some(device) = support::device() else { return };
    conversions::run(&device.open_queue().unwrap());
}

#[test]
fn two_simulators_are_two_devices() {
    process::alone(|| {
        let Some(one) = support::device() else { return };
        let other = support::with(&support::words()).unwrap();
        assert_eq!([one.id().id, other.id().id], [0, 1]);
        let (first, second) = (one.open_queue().unwrap(), other.open_queue().unwrap());
        let refused = first.reaches(other.id()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotReachable);
        let there = numbers().copy_to(&first).unwrap();
        let elsewhere = there.copy_to(&second).unwrap();
        assert_eq!(elsewhere.device(), other.id());
        assert_numbers(&elsewhere);
        assert_numbers(&elsewhere.copy_to(&first).unwrap());
        // A queue of one simulator waits for an event of the other one, by a wait of the host.
        first.wait(&second.record().unwrap()).unwrap();
        // The loss of one is not the loss of the other.
        support::kill(&support::simulator(&one));
        assert_eq!(there.to_host().unwrap_err().kind(), ErrorKind::DeviceLost);
        assert_numbers(&elsewhere);
        // No other simulator gets the number.
        let third = support::device().unwrap();
        assert_eq!(third.id().id, 2);
        assert_numbers(&numbers().copy_to(&third.open_queue().unwrap()).unwrap());
    });
}

/// A copy of the engine takes simulated time, and host copies take none.
#[test]
fn only_the_engine_takes_simulated_time() {
    let Some(device) = support::device() else { return };
    let (queue, simulator) = (device.open_queue().unwrap(), support::simulator(&device));
    let mut memory = queue.allocate(4096).unwrap();
    memory.write(&queue, &[7; 2048]).unwrap();
    // Ends at an edge of the clock.
    within(&queue, &mut memory, 0, 2048, 64);
    queue.synchronize().unwrap();
    let before = simulator.time();
    memory.write(&queue, &[9; 2048]).unwrap();
    queue.synchronize().unwrap();
    assert_eq!(simulator.time(), before);
    within(&queue, &mut memory, 0, 2048, 1024);
    queue.synchronize().unwrap();
    // 16 words of 64 bytes, one a clock, and the clock in which the engine begins.
    assert_eq!(simulator.time() - before, 10 * 17);
}

fn within(queue: &Queue, memory: &mut Memory, from: u64, to: u64, len: u64) {
    let base = memory.spot(queue).unwrap().base;
    let (from, to) = (Spot { base, offset: from }, Spot { base, offset: to });
    // SAFETY: UNS-21: the caller names bytes inside the memory that do not overlap, and waits.
    unsafe { queue.copy(Route::Within, &[Region { from, to, len }]) }.unwrap();
}

#[test]
fn a_place_outside_of_the_memory_is_refused() {
    let Some(device) = support::device() else { return };
    let queue = device.open_queue().unwrap();
    let size = support::simulator(&device).memory_size();
    let mut bytes = [0_u8; 64];
    let host = Spot { base: Raw::from_ptr(bytes.as_mut_ptr().cast()), offset: 0 };
    for at in [0, size - 63, size, 1 << 40, u64::MAX - 7] {
        let there = Spot { base: Raw::from_bits(at as usize), offset: 0 };
        for (route, from, to) in [
            (Route::FromHost, host, there),
            (Route::ToHost, there, host),
            (Route::Within, there, there),
        ] {
            // SAFETY: no such place is read or written: that is what this is about. The bytes of
            // the host outlive the queue's work.
            let copied = unsafe { queue.copy(route, &[Region { from, to, len: 64 }]) };
            assert_eq!(copied.unwrap_err().kind(), ErrorKind::InvalidArgument, "{at} {route:?}");
        }
    }
    queue.synchronize().unwrap();
}

/// 2 MiB and a bit are three messages each way, at odd places.
#[test]
fn a_copy_that_is_longer_than_a_message_arrives() {
    let Some(device) = support::device() else { return };
    let queue = device.open_queue().unwrap();
    let len = (2 << 20) + 333;
    let bytes: Vec<u8> = (0..len).map(|at: u32| (at ^ at >> 8 ^ at >> 16) as u8).collect();
    let mut memory = queue.allocate(u64::from(len) * 2 + 100).unwrap();
    let spot = memory.spot(&queue).unwrap();
    let mut back = vec![0_u8; len as usize];
    let host = |bytes: *const u8| Spot { base: Raw::from_ptr(bytes.cast_mut().cast()), offset: 0 };
    let at = |offset| Spot { base: spot.base, offset };
    let (there, copied) = (at(13), at(13 + u64::from(len) + 22));
    for (route, from, to) in [
        (Route::FromHost, host(bytes.as_ptr()), there),
        (Route::Within, there, copied),
        (Route::ToHost, copied, host(back.as_mut_ptr())),
    ] {
        // SAFETY: UNS-21: all places have as many bytes, and the queue is waited for below.
        unsafe { queue.copy(route, &[Region { from, to, len: len.into() }]) }.unwrap();
    }
    queue.synchronize().unwrap();
    assert!(back == bytes);
}

#[test]
fn a_fault_of_the_design_is_the_failure_of_a_queue() {
    let Some(device) = support::with(&support::units()) else { return };
    let (queue, other) = (device.open_queue().unwrap(), device.open_queue().unwrap());
    let job = arrow_device_vpi::Job::new(top("fault_start"), top("fault_done"));
    // SAFETY: UNS-15 and UNS-16: the unit touches no memory.
    unsafe { support::simulator(&device).submit(&queue, job) }.unwrap();
    let failed = queue.synchronize().unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::WorkFailed);
    assert_eq!(failed.vendor().unwrap().code, 77);
    assert!(failed.to_string().contains("the design reports a fault, 77, at time "), "{failed}");
    // The engine of the design refuses a copy that leaves the memory, which is such a fault.
    other.synchronize().unwrap();
    assert_numbers(&numbers().copy_to(&other).unwrap());
}
