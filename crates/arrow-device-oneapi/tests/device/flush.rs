//! A GPU that is driven by OpenCL, whose queues keep what is submitted until they are flushed.

use std::time::Duration;

use arrow_device::{Array, DataType};
use arrow_device_testkit::process;

use crate::support;

/// The waits are bounded, since without a flush the work never starts.
#[test]
fn recorded_work_starts_without_a_wait_for_it() {
    process::alone(|| {
        if support::simulated().is_none() {
            return;
        }
        let device = arrow_device_oneapi::open(1).unwrap();
        let queues = [(); 2].map(|()| device.open_queue().unwrap());
        let array = Array::from_values(DataType::Int32, (0..100).map(Some)).unwrap();
        for round in 0..50 {
            let queue = &queues[round % 2];
            let there = array.copy_to(queue).unwrap();
            let event = queue.record().unwrap();
            let is_over = (0..200_000).any(|_| {
                std::thread::yield_now();
                event.is_complete().unwrap()
            });
            assert!(is_over, "round {round}");
            assert!(there.to_host().unwrap().equals(&array).unwrap());
            assert!(event.wait_timeout(Duration::ZERO).unwrap());
        }
        support::runtime().assert_no_mistakes();
    });
}

/// The maker of the event has not flushed the queue.
#[test]
fn a_foreign_event_is_flushed_by_whoever_waits() {
    process::alone(|| {
        let Some(runtime) = support::simulated() else { return };
        let device = arrow_device_oneapi::open(1).unwrap();
        let sycl_device = runtime.device(1);
        let context = runtime.default_context(sycl_device);
        let queue = runtime.new_queue(context, sycl_device, support::IN_ORDER);
        let raw = runtime.barrier(queue);
        let event = unsafe {
            arrow_device::Event::adopt(&device, arrow_device::driver::Raw::from_ptr(raw))
        };
        assert!(!event.is_complete().unwrap());
        assert!(event.wait_timeout(Duration::from_secs(20)).unwrap());
        drop(event);
        runtime.delete("Event", raw);
        runtime.delete("Queue", queue);
        runtime.delete("Context", context);
        runtime.delete("Device", sycl_device);
    });
}

/// A barrier for each wait would fill the queues of whoever polls with a limit.
#[test]
fn an_event_is_flushed_once_however_often_it_is_waited_for() {
    process::alone(|| {
        let Some(runtime) = support::simulated() else { return };
        let device = arrow_device_oneapi::open(1).unwrap();
        let sycl_device = runtime.device(1);
        let context = runtime.default_context(sycl_device);
        let foreign = runtime.new_queue(context, sycl_device, support::IN_ORDER);
        let queue = device.open_queue().unwrap();
        let wait = |event: &arrow_device::Event| {
            for _ in 0..100 {
                assert!(!event.wait_timeout(Duration::from_nanos(1)).unwrap());
            }
        };
        let mut gates = [support::Gate::before(&queue), support::Gate::before_raw(foreign)];

        let before = runtime.barriers();
        let own = queue.record().unwrap();
        wait(&own);
        // The event's own barrier, and one that flushes.
        assert_eq!(runtime.barriers() - before, 2);

        let before = runtime.barriers();
        let raw = [(); 2].map(|()| runtime.barrier(foreign));
        let adopted = raw.map(|raw| unsafe {
            arrow_device::Event::adopt(&device, arrow_device::driver::Raw::from_ptr(raw))
        });
        for event in adopted.iter().chain(&adopted) {
            wait(event);
        }
        // Two barriers of the application's, and one that flushes for each.
        assert_eq!(runtime.barriers() - before, 4);

        gates.iter_mut().for_each(support::Gate::open);
        for event in adopted.iter().chain([&own]) {
            assert!(event.wait_timeout(Duration::from_secs(20)).unwrap());
        }
        drop((adopted, own));
        raw.into_iter().for_each(|raw| runtime.delete("Event", raw));
        runtime.delete("Queue", foreign);
        runtime.delete("Context", context);
        runtime.delete("Device", sycl_device);
        runtime.assert_no_mistakes();
    });
}
