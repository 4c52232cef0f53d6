//! Work that fails while the runtime says that what comes behind went well.

use std::sync::Arc;
use std::time::Duration;

use arrow_device::copy::Options;
use arrow_device::driver::{Raw, Region, Route, Spot};
use arrow_device::{Array, DataType, Device, ErrorKind, Event, Queue};
use arrow_device_oneapi::{Functions, use_functions};
use arrow_device_testkit::{process, release_until};

use crate::support::{self, Gate, Runtime};
use crate::tables;

/// The simulated runtime, which tells that work has failed, as the table of an engine does.
fn bench() -> Option<(&'static Runtime, Device)> {
    let runtime = support::simulated()?;
    let given = Functions { event_status: tables::status, ..tables::table(runtime) };
    unsafe { use_functions(given) }.unwrap();
    Some((runtime, arrow_device_oneapi::open(0).unwrap()))
}

fn numbers() -> Array {
    Array::from_values(DataType::Int32, (0..100).map(Some)).unwrap()
}

/// A copy of the array on the queue that fails.
fn failing_copy(runtime: &Runtime, array: &Array, queue: &Queue) -> Array {
    runtime.fail_next_alone();
    array.copy_with(queue, &Options::new().always(true)).unwrap()
}

#[track_caller]
fn assert_failed(event: &Event) {
    for _ in 0..3 {
        assert_eq!(event.synchronize().unwrap_err().kind(), ErrorKind::WorkFailed);
        assert_eq!(event.is_complete().unwrap_err().kind(), ErrorKind::WorkFailed);
        let timed = event.wait_timeout(Duration::from_secs(20));
        assert_eq!(timed.unwrap_err().kind(), ErrorKind::WorkFailed);
    }
}

// Requirement: DRV-27, SAF-39
#[test]
fn failed_copies_are_told_along_a_chain_of_queues() {
    process::alone(|| {
        let Some((runtime, device)) = bench() else { return };
        let queues: Vec<Queue> = (0..5).map(|_| device.open_queue().unwrap()).collect();
        let array = numbers();
        let good = array.copy_to(&queues[0]).unwrap();
        let before = queues[0].record().unwrap();
        let kept = Arc::new(());
        let mut gate = Gate::before(&queues[0]);
        let bad = failing_copy(runtime, &good, &queues[0]);
        // Each queue waits for the one before, round and round, and nothing has failed yet.
        let mut events = vec![queues[0].record().unwrap()];
        for round in 1..30 {
            let queue = &queues[round % queues.len()];
            queue.wait(events.last().unwrap()).unwrap();
            events.push(queue.record().unwrap());
            queue.keep_until_done(kept.clone());
        }
        let beside = device.open_queue().unwrap();
        beside.wait(&before).unwrap();
        gate.open();
        for event in &events {
            assert_failed(event);
        }
        for queue in &queues {
            assert_eq!(queue.synchronize().unwrap_err().kind(), ErrorKind::WorkFailed);
            // The runtime may need more time than the question does.
            let is_told =
                || queue.is_idle().is_err_and(|told| told.kind() == ErrorKind::WorkFailed);
            assert!(release_until(is_told));
        }
        assert_eq!(bad.to_host().unwrap_err().kind(), ErrorKind::WorkFailed);
        // What came before, and queues that waited for nothing else, are as good as ever.
        assert!(before.is_complete().unwrap());
        assert!(good.to_host().unwrap().equals(&array).unwrap());
        beside.synchronize().unwrap();
        drop((events, bad));
        assert!(release_until(|| Arc::strong_count(&kept) == 1));
        runtime.assert_no_mistakes();
    });
}

// Requirement: DRV-27
#[test]
fn a_failure_that_was_told_already_reaches_queues_that_wait_later() {
    process::alone(|| {
        let Some((runtime, device)) = bench() else { return };
        let queues = [(); 3].map(|()| device.open_queue().unwrap());
        let good = numbers().copy_to(&queues[0]).unwrap();
        queues[0].synchronize().unwrap();
        let bad = failing_copy(runtime, &good, &queues[0]);
        // The first event has been asked; the second one is still to pass.
        assert_failed(&queues[0].record().unwrap());
        let mut gate = Gate::before(&queues[0]);
        let second = queues[0].record().unwrap();
        assert!(!second.is_complete().unwrap());
        queues[1].wait(&second).unwrap();
        let third = queues[1].record().unwrap();
        queues[2].wait(&third).unwrap();
        assert!(!third.is_complete().unwrap());
        gate.open();
        assert_failed(&second);
        assert_failed(&third);
        assert_failed(&queues[2].record().unwrap());
        drop(bad);
        runtime.assert_no_mistakes();
    });
}

/// dpctl tells no more than that the status is unknown.
// Requirement: SAF-16
#[test]
fn a_barrier_that_went_well_hides_no_copy_of_which_nothing_is_known() {
    process::alone(|| {
        let Some(runtime) = support::simulated() else { return };
        let device = arrow_device_oneapi::open(0).unwrap();
        let [queue, other] = [(); 2].map(|()| device.open_queue().unwrap());
        let good = numbers().copy_to(&queue).unwrap();
        let mut gate = Gate::before(&queue);
        let bad = failing_copy(runtime, &good, &queue);
        let event = queue.record().unwrap();
        other.wait(&event).unwrap();
        let behind = other.record().unwrap();
        gate.open();
        for error in [
            event.synchronize().unwrap_err(),
            event.is_complete().unwrap_err(),
            behind.synchronize().unwrap_err(),
            other.synchronize().unwrap_err(),
            bad.to_host().unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Driver, "{error}");
            assert!(error.message().contains("it may have failed"), "{error}");
        }
        runtime.assert_no_mistakes();
    });
}

/// The failed event is the application's, whose queue is not this crate's.
// Requirement: DRV-27
#[test]
fn a_queue_behind_a_foreign_event_of_failed_work_fails() {
    process::alone(|| {
        let Some((runtime, device)) = bench() else { return };
        let sycl_device = runtime.device(0);
        let context = runtime.default_context(sycl_device);
        let own = runtime.new_queue(context, sycl_device, support::IN_ORDER);
        let mut gate = Gate::before_raw(own);
        runtime.fail_next_alone();
        let bytes = [1_u8; 64];
        let copy: unsafe extern "C" fn(
            support::Handle,
            *mut u8,
            *const u8,
            usize,
            *const support::Handle,
            usize,
        ) -> support::Handle = runtime.function("DPCTLQueue_MemcpyWithEvents");
        let mut to = [0_u8; 64];
        let raw = unsafe { copy(own, to.as_mut_ptr(), bytes.as_ptr(), 64, std::ptr::null(), 0) };
        let event = unsafe { Event::adopt(&device, Raw::from_ptr(raw)) };
        let [queue, other] = [(); 2].map(|()| device.open_queue().unwrap());
        queue.wait(&event).unwrap();
        let behind = queue.record().unwrap();
        other.wait(&behind).unwrap();
        // The application may let go of its event once the queue waits.
        drop(event);
        runtime.delete("Event", raw);
        gate.open();
        assert_failed(&behind);
        assert_failed(&other.record().unwrap());
        runtime.delete("Queue", own);
        runtime.delete("Context", context);
        runtime.delete("Device", sycl_device);
        runtime.assert_no_mistakes();
    });
}

// Requirement: DRV-27
#[test]
fn a_failed_copy_on_a_queue_out_of_order_is_told() {
    process::alone(|| {
        let Some((runtime, device)) = bench() else { return };
        let sycl_device = runtime.device(0);
        let context = runtime.default_context(sycl_device);
        let raw = runtime.new_queue(context, sycl_device, 0);
        let loose = unsafe { device.adopt_queue(Raw::from_ptr(raw)) };
        let good = numbers().copy_to(&loose).unwrap();
        loose.synchronize().unwrap();
        let bad = failing_copy(runtime, &good, &loose);
        let more = good.copy_with(&loose, &Options::new().always(true)).unwrap();
        assert_failed(&loose.record().unwrap());
        for array in [&bad, &more] {
            assert_eq!(array.to_host().unwrap_err().kind(), ErrorKind::WorkFailed);
        }
        drop((bad, more, good, loose));
        runtime.delete_lent_queue(raw);
        // Another queue of the application's, maybe at the same address, has not failed.
        for _ in 0..20 {
            let raw = runtime.new_queue(context, sycl_device, support::IN_ORDER);
            let fresh = unsafe { device.adopt_queue(Raw::from_ptr(raw)) };
            let there = numbers().copy_to(&fresh).unwrap();
            assert!(there.to_host().unwrap().equals(&numbers()).unwrap());
            drop((there, fresh));
            runtime.delete_lent_queue(raw);
        }
        runtime.delete("Context", context);
        runtime.delete("Device", sycl_device);
        runtime.assert_no_mistakes();
    });
}

/// Nobody says when the application closes a queue.
// Requirement: SAF-14
#[test]
fn nothing_is_kept_of_adopted_queues_whose_work_has_passed() {
    process::alone(|| {
        let Some(runtime) = support::simulated() else { return };
        let device = arrow_device_oneapi::open(0).unwrap();
        let sycl_device = runtime.device(0);
        let context = runtime.default_context(sycl_device);
        let before = [1, 2].map(|what| runtime.live(what));
        for _ in 0..10 {
            let raw = runtime.new_queue(context, sycl_device, support::IN_ORDER);
            let queue = unsafe { device.adopt_queue(Raw::from_ptr(raw)) };
            let there = numbers().copy_to(&queue).unwrap();
            there.wait().unwrap();
            drop((there, queue));
            runtime.delete_lent_queue(raw);
        }
        let left = || [1, 2].map(|what| runtime.live(what));
        assert!(release_until(|| left() == before), "{:?} of {before:?}", left());
        runtime.delete("Context", context);
        runtime.delete("Device", sycl_device);
    });
}

/// Two queues that wait for each other, with work that is gated, as a program with many small
/// arrays does.
#[test]
fn many_pieces_of_work_wait_for_each_other_and_are_let_go() {
    process::alone(|| {
        let Some((runtime, device)) = bench() else { return };
        let queues = [(); 2].map(|()| device.open_queue().unwrap());
        let array = Array::from_values(DataType::Int32, [Some(1), None]).unwrap();
        let mut gate = Gate::before(&queues[0]);
        let mut arrays = vec![array.copy_to(&queues[0]).unwrap()];
        for round in 1..400 {
            let queue = &queues[round % 2];
            let last = arrays.last().unwrap();
            let copied = last.copy_with(queue, &Options::new().always(true)).unwrap();
            arrays.push(copied);
        }
        gate.open();
        let last = arrays.last().unwrap().to_host().unwrap();
        assert!(last.equals(&array).unwrap());
        drop((arrays, last));
        for queue in &queues {
            queue.synchronize().unwrap();
        }
        // The last barriers are asked about by nobody.
        assert!(release_until(|| runtime.live(1) <= 4), "{}", runtime.live(1));
        runtime.assert_no_mistakes();
    });
}

/// A queue that only copies, and that nobody asks, keeps no event for each copy.
#[test]
fn the_events_of_work_that_is_over_do_not_pile_up() {
    process::alone(|| {
        let Some((runtime, device)) = bench() else { return };
        let queue = device.open_queue().unwrap();
        let mut memory = queue.allocate(64).unwrap();
        let to = memory.spot(&queue).unwrap();
        static SEVENS: [u8; 64] = [7; 64];
        let from = Raw::from_ptr(SEVENS.as_ptr().cast_mut().cast());
        let region = Region { from: Spot { base: from, offset: 0 }, to, len: 64 };
        for round in 0..4000 {
            unsafe { queue.copy(Route::FromHost, &[region]) }.unwrap();
            // Another queue's questions have the runtime do all work.
            if round % 500 == 499 {
                device.open_queue().unwrap().synchronize().unwrap();
            }
        }
        assert!(runtime.live(1) < 2000, "{}", runtime.live(1));
        queue.synchronize().unwrap();
    });
}

// Requirement: SAF-14
#[test]
fn nothing_is_kept_of_a_failed_queue_that_is_closed() {
    process::alone(|| {
        let Some((runtime, device)) = bench() else { return };
        let queues = || runtime.live(2);
        let before = queues();
        for _ in 0..10 {
            let queue = device.open_queue().unwrap();
            let good = numbers().copy_to(&queue).unwrap();
            let bad = failing_copy(runtime, &good, &queue);
            assert_failed(&queue.record().unwrap());
            drop((good, bad, queue));
        }
        assert!(release_until(|| queues() == before), "{} of {before}", queues());
        runtime.assert_no_mistakes();
    });
}
