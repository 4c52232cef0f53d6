//! Programs that do everything at once: threads that share queues of all sorts while copies fail,
//! many small arrays, and a process that ends in the middle.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_device::copy::Options;
use arrow_device::driver::Raw;
use arrow_device::{Array, DataType, Device, ErrorKind, Queue};
use arrow_device_oneapi::{Functions, Kind, open_from, use_functions};
use arrow_device_testkit::process::{self, Child};
use arrow_device_testkit::release_until;

use crate::support::{self, Gate, Handle, Runtime};
use crate::tables;

/// Places among [`queues`] between which data travels: all kinds of memory in one context, or
/// memory of devices in both contexts.
const GROUPS: [&[usize]; 2] = [&[0, 1, 2, 4, 5], &[0, 3, 4, 6, 7]];

fn array(first: i32) -> Array {
    Array::from_values(DataType::Int32, (first..first + 20).map(Some)).unwrap()
}

/// Queues of every sort: of this crate, of the application, out of order, of another context; on
/// memory of every kind. The raw ones are to be given back.
fn queues(runtime: &Runtime) -> (Vec<Device>, Vec<Queue>, Vec<Handle>) {
    let kinds = [Kind::Device, Kind::Host, Kind::Shared];
    let mut devices = kinds.map(|kind| arrow_device_oneapi::open_with(0, kind).unwrap()).to_vec();
    let sycl_device = runtime.device(0);
    let usual = runtime.default_context(sycl_device);
    let other = runtime.new_context(sycl_device);
    let raw = [
        runtime.new_queue(usual, sycl_device, support::IN_ORDER),
        runtime.new_queue(usual, sycl_device, 0),
        runtime.new_queue(other, sycl_device, support::IN_ORDER),
        runtime.new_queue(other, sycl_device, 0),
    ];
    let of_other = std::ptr::NonNull::new(raw[2]).unwrap();
    devices.push(unsafe { open_from(of_other, Kind::Device) }.unwrap());
    let mut queues: Vec<Queue> =
        devices.iter().map(|device| device.open_queue().unwrap()).collect();
    for (raw, device) in raw.iter().zip([0, 1, 3, 3]) {
        queues.push(unsafe { devices[device].adopt_queue(Raw::from_ptr(*raw)) });
    }
    for context in [usual, other] {
        runtime.delete("Context", context);
    }
    runtime.delete("Device", sycl_device);
    (devices, queues, raw.to_vec())
}

/// A generator of numbers that needs no crate.
fn next(state: &mut u64, bound: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize % bound
}

// Requirement: DRV-27, SAF-1, SAF-14, SAF-39
#[test]
fn threads_that_share_queues_read_right_values_or_are_told_of_failures() {
    process::alone(|| {
        let Some(runtime) = support::simulated() else { return };
        let given = Functions { event_status: tables::status, ..tables::table(runtime) };
        unsafe { use_functions(given) }.unwrap();
        let (devices, mut shared, raw) = queues(runtime);
        let (read, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        for round in 0..6 {
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let (shared, read, failed) = (&shared, &read, &failed);
                    scope.spawn(move || {
                        let state = &mut (round * 4 + thread + 1);
                        let first = i32::try_from(thread * 1000).unwrap();
                        let always = Options::new().always(true);
                        let group = &GROUPS[usize::try_from(thread).unwrap() % 2];
                        for _ in 0..25 {
                            let mut travels = array(first);
                            for _ in 0..1 + next(state, 4) {
                                if next(state, 60) == 0 {
                                    runtime.fail_next_alone();
                                }
                                let queue = &shared[group[next(state, group.len())]];
                                match travels.copy_with(queue, &always) {
                                    Ok(moved) => travels = moved,
                                    Err(error) => {
                                        assert_eq!(error.kind(), ErrorKind::WorkFailed, "{error}")
                                    }
                                }
                            }
                            let counted = match travels.to_host() {
                                Ok(back) => {
                                    assert!(back.equals(&array(first)).unwrap(), "{travels:?}");
                                    read
                                }
                                Err(error) => {
                                    assert_eq!(error.kind(), ErrorKind::WorkFailed, "{error}");
                                    failed
                                }
                            };
                            counted.fetch_add(1, Ordering::SeqCst);
                        }
                    });
                }
            });
            // A failed queue stays failed, so the program opens others.
            for (queue, device) in shared.iter_mut().zip(&devices) {
                *queue = device.open_queue().unwrap();
            }
        }
        assert_eq!(read.into_inner() + failed.into_inner(), 600);
        drop((shared, devices));
        assert!(release_until(|| runtime.live(0) == 0), "{}", runtime.live(0));
        for raw in raw {
            runtime.delete("Queue", raw);
        }
        runtime.assert_no_mistakes();
    });
}

#[test]
fn ten_thousand_small_arrays_leave_nothing_behind() {
    process::alone(|| {
        let Some(runtime) = support::simulated() else { return };
        let device = arrow_device_oneapi::open(1).unwrap();
        let queues = [(); 2].map(|()| device.open_queue().unwrap());
        let kept = Arc::new(());
        let source = Array::from_values(DataType::Int32, [Some(1), None]).unwrap();
        let mut last = source.copy_to(&queues[0]).unwrap();
        for round in 0..10_000 {
            let queue = &queues[round % 2];
            last = last.copy_with(queue, &Options::new().always(true)).unwrap();
            queue.keep_until_done(kept.clone());
            if round % 100 == 99 {
                queue.synchronize().unwrap();
            }
        }
        assert!(last.to_host().unwrap().equals(&source).unwrap());
        drop((last, queues));
        assert!(release_until(|| Arc::strong_count(&kept) == 1 && runtime.live(0) == 0));
        runtime.assert_no_mistakes();
    });
}

/// The process ends while work is held back, queues wait for each other, and a failed copy is told
/// to nobody.
#[test]
fn a_process_may_end_in_the_middle() {
    if process::is_child() {
        let Some(runtime) = support::simulated() else { return };
        let (devices, shared, _) = queues(runtime);
        let gate = Gate::before(&shared[0]);
        let mut arrays = vec![array(1).copy_to(&shared[0]).unwrap()];
        for queue in &shared[..3] {
            runtime.fail_next_alone();
            let moved = arrays[0].copy_with(queue, &Options::new().always(true)).unwrap();
            arrays.push(moved);
        }
        std::thread::spawn(move || (arrays.last().unwrap().to_host(), arrays, devices, shared));
        std::mem::forget(gate);
        println!("it ends");
        std::process::exit(0);
    }
    support::runtime();
    let text = Child::of_this_test().run().expect_success().stdout;
    if support::simulated().is_some() {
        assert!(text.contains("it ends"), "{text}");
    }
}
/// SYCL does not let the queues of a context use memory that was allocated in another context, not
/// even where the host can read that memory.
#[test]
fn host_memory_of_another_context_is_refused_by_an_error_value() {
    process::alone(|| {
        let Some(runtime) = support::simulated() else { return };
        let (devices, shared, raw) = queues(runtime);
        for kind in [1, 2] {
            let there = array(1).copy_to(&shared[kind]).unwrap();
            let refused = there.copy_with(&shared[3], &Options::new().always(true)).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Driver, "{refused}");
            // The way is by memory of the device.
            let back = there.copy_with(&shared[0], &Options::new().always(true)).unwrap();
            let moved = back.copy_to(&shared[3]).unwrap();
            assert!(moved.to_host().unwrap().equals(&array(1)).unwrap());
        }
        drop((devices, shared));
        assert!(release_until(|| runtime.live(0) == 0), "{}", runtime.live(0));
        for raw in raw {
            runtime.delete("Queue", raw);
        }
        runtime.assert_no_mistakes();
    });
}
