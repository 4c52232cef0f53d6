//! Drivers that panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_device::deferred::{held_back, release_finished};
use arrow_device::{Array, Buffer, DataType, Device, ErrorKind, Queue};
use arrow_device_testkit::process::alone;
use arrow_device_testkit::release_what_has_passed;

use crate::trap::{Answer, Op, Payload, Trap, call};

/// An array on a device, ready, that holds `owner`.
fn owned_array(device: &Device, owner: &Arc<()>) -> Array {
    // SAFETY: nobody reads device memory here, and the address is not null.
    let address = std::ptr::without_provenance(0x1000);
    let buffer = unsafe { Buffer::foreign(device.id(), address, 64, owner.clone()) };
    let buffers = [None, Some(buffer)];
    Array::builder(DataType::Int64)
        .device(device.id())
        .len(4)
        .buffers(buffers)
        .finish_ready()
        .unwrap()
}

fn use_on(array: &Array, queue: &Queue, manual: &arrow_device_testkit::manual::Manual) {
    let view = array.on(queue).unwrap();
    manual.submit(queue);
    drop(view);
}

// Requirement: SAF-30
#[test]
fn a_panic_in_any_operation_of_a_driver_is_an_error_or_is_counted() {
    alone(|| {
        let (trap, _, device) = Trap::open();
        for payload in [Payload::Text, Payload::Stubborn] {
            for op in Op::ALL {
                trap.arm(op, payload);
                let (calls, before) = (trap.calls(), held_back().abandoned);
                let answer = catch_unwind(AssertUnwindSafe(|| call(&**device.driver(), op)));
                let answer = answer.unwrap_or_else(|payload| {
                    std::mem::forget(payload);
                    panic!("a panic in {op:?} came through")
                });
                assert_eq!(trap.calls(), calls + 1, "{op:?}");
                match answer {
                    Answer::Refused(error) => {
                        assert_eq!(error.kind(), ErrorKind::Panicked, "{op:?}: {error}");
                        assert_eq!(error.device(), Some(device.id()), "{op:?}");
                        assert!(error.operation().is_some(), "{op:?}");
                        assert_eq!(held_back().abandoned, before, "{op:?}");
                    }
                    Answer::Nothing => {
                        let abandoned = before + usize::from(op.abandons());
                        assert_eq!(held_back().abandoned, abandoned, "{op:?}");
                    }
                    Answer::Said(holds) => {
                        assert!(!holds, "{op:?}");
                        assert_eq!(held_back().abandoned, before, "{op:?}");
                    }
                    Answer::Done => panic!("{op:?} answered, though it panicked"),
                }
            }
        }
        // It is as usable as before.
        trap.disarm();
        let queue = device.open_queue().unwrap();
        queue.synchronize().unwrap();
    });
}

// Requirement: SAF-16, SAF-30
#[test]
fn nothing_in_use_is_freed_where_a_question_or_the_drop_of_its_error_panics() {
    alone(|| {
        let payloads = [Payload::Text, Payload::InError];
        let ops = [Op::IsComplete, Op::Record, Op::IsIdle];
        for (op, payload) in ops.into_iter().flat_map(|op| payloads.map(|payload| (op, payload))) {
            let (trap, manual, device) = Trap::open();
            let queue = device.open_queue().unwrap();
            let owners: [_; 3] = std::array::from_fn(|_| Arc::new(()));
            let arrays: Vec<_> = owners.iter().map(|owner| owned_array(&device, owner)).collect();
            trap.arm(op, payload);
            if op == Op::IsIdle {
                // The end of the use is then that the queue is idle.
                manual.refuse_to_record();
            }
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                for array in arrays {
                    use_on(&array, &queue, &manual);
                    drop(array);
                    release_finished();
                }
            }));
            assert!(outcome.is_ok(), "a panic in {op:?} {payload:?} came through");
            let held = owners.iter().filter(|owner| Arc::strong_count(owner) == 2).count();
            assert_eq!(held, 3, "freed in use after a panic in {op:?} {payload:?}");
            trap.disarm();
            release_finished();
            let held = owners.iter().filter(|owner| Arc::strong_count(owner) == 2).count();
            assert_eq!(
                held, 3,
                "freed in use when the driver works again after {op:?} {payload:?}"
            );
            manual.complete(&queue);
            release_what_has_passed();
            assert!(owners.iter().all(|owner| Arc::strong_count(owner) == 1), "{op:?} {payload:?}");
            assert_eq!(held_back().in_use, 0, "{op:?} {payload:?}");
        }
    });
}

// Requirement: SAF-30
#[test]
fn what_a_driver_does_not_free_is_counted_and_the_rest_goes_on() {
    alone(|| {
        let (trap, manual, device) = Trap::open();
        let queue = device.open_queue().unwrap();
        let mut memory = device.allocate(64).unwrap();
        memory.spot(&queue).unwrap();
        let buffer = memory.into_buffer();
        trap.arm(Op::Free, Payload::Stubborn);
        let before = held_back().abandoned;
        drop(buffer);
        release_what_has_passed();
        assert_eq!(
            (held_back().abandoned, held_back().in_use, manual.live_memory()),
            (before + 1, 0, 1)
        );
        trap.disarm();
        drop(device.allocate(64).unwrap());
        assert_eq!((held_back().abandoned, manual.live_memory()), (before + 1, 1));
    });
}

#[test]
fn a_driver_that_panics_at_its_end_is_counted() {
    alone(|| {
        for payload in [Payload::Text, Payload::Stubborn] {
            let (trap, _, device) = Trap::open();
            trap.arm(Op::Drop, payload);
            let before = held_back().abandoned;
            let outcome = catch_unwind(AssertUnwindSafe(|| drop(device)));
            assert!(outcome.map_err(std::mem::forget).is_ok(), "it came through");
            assert!(trap.is_gone());
            assert_eq!(held_back().abandoned, before + 1);
        }
    });
}

// Requirement: SAF-10, SAF-30
#[test]
fn an_event_that_cannot_be_shown_is_an_error_of_the_export() {
    alone(|| {
        let (trap, _, device) = Trap::open();
        let queue = device.open_queue().unwrap();
        let owner = Arc::new(());
        let address = std::ptr::without_provenance(0x1000);
        // SAFETY: nobody reads device memory here.
        let buffer = unsafe { Buffer::foreign(device.id(), address, 64, owner) };
        let array = Array::builder(DataType::Int64).device(device.id()).len(4);
        let array = array.buffers([None, Some(buffer)]).finish_on(&queue).unwrap();
        trap.arm(Op::SyncEvent, Payload::Text);
        let mut c_array = arrow_device::abi::ArrowDeviceArray::empty();
        let outcome = catch_unwind(AssertUnwindSafe(|| array.export(&mut c_array)));
        let outcome = outcome.expect("it came through");
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Panicked);
        assert!(c_array.array.release.is_none());
    });
}
