//! Deleters that are called while a queue of the consumer's still uses the memory.

use std::sync::Arc;

use arrow_device::abi::dlpack::DLManagedTensorVersioned;
use arrow_device::deferred::{held_back, release_finished};
use arrow_device::dlpack::{CopyPolicy, Dtype, Form, Managed, Order, Tensor};
use arrow_device::{Device, Queue};
use arrow_device_testkit::manual::{Manual, ManualCopies};
use arrow_device_testkit::process::alone;
#[cfg(all(unix, not(miri)))]
use arrow_device_testkit::process::forked;
use arrow_device_testkit::release_until;

fn on_device() -> (Manual, Device, Tensor) {
    let (manual, device) = Manual::open_for_tensors();
    let tensor = tensor_on(&manual, &device);
    (manual, device, tensor)
}

fn tensor_on(manual: &Manual, device: &Device) -> Tensor {
    manual.set_copies(ManualCopies::Submitted);
    let mut memory = device.allocate(64).unwrap();
    memory.write(&device.open_queue().unwrap(), &[1; 64]).unwrap();
    Tensor::from_buffer(memory.into_buffer(), Dtype::UINT8, &[64]).unwrap()
}

/// The memory is alive until the queue has passed what was submitted.
#[track_caller]
fn assert_kept_for(manual: &Manual, queue: &Queue, how: &str) {
    release_finished();
    assert!(!manual.is_idle(queue));
    assert_eq!(manual.live_memory(), 1, "{how}: freed while the consumer's queue reads");
    manual.complete(queue);
    assert!(release_until(|| manual.live_memory() == 0), "{how}: kept after the last use");
}

fn read_and_delete(tensor: Tensor, order: Order<'_>, submit: impl FnOnce()) {
    let managed: Managed<DLManagedTensorVersioned> =
        tensor.export(order, CopyPolicy::Never).unwrap();
    submit();
    delete(managed);
}

/// As a consumer's object that dies: nobody has waited.
fn delete<F: Form>(managed: Managed<F>) {
    std::thread::spawn(move || drop(managed)).join().unwrap();
}

// Requirement: SAF-13, SAF-35
#[test]
fn memory_is_kept_for_the_queue_that_a_consumer_named() {
    let (manual, device, tensor) = on_device();
    let queue = device.open_queue().unwrap();
    read_and_delete(tensor, Order::On(&queue), || manual.submit(&queue));
    assert_kept_for(&manual, &queue, "versioned");
    let (manual, device, tensor) = on_device();
    let queue = device.open_queue().unwrap();
    let legacy = unsafe { tensor.export_legacy_shared(Order::On(&queue)) }.unwrap();
    manual.submit(&queue);
    delete(legacy);
    assert_kept_for(&manual, &queue, "legacy");
}

// Requirement: SAF-13, SAF-35
#[test]
fn memory_of_another_producer_is_kept_for_the_queue_that_a_consumer_named() {
    let (manual, device, tensor) = on_device();
    let queue = device.open_queue().unwrap();
    let first: Managed<DLManagedTensorVersioned> =
        tensor.export(Order::Host, CopyPolicy::Never).unwrap();
    let passed_on = unsafe { Tensor::import(first.into_raw(), Order::Host) }.unwrap();
    let submit = || manual.submit(&queue);
    read_and_delete(passed_on, Order::On(&queue), submit);
    assert_kept_for(&manual, &queue, "passed on");
}

// Requirement: SAF-17, SAF-35
#[test]
fn memory_is_kept_until_the_queue_is_idle_where_no_event_can_be_recorded() {
    let (manual, device, tensor) = on_device();
    let queue = device.open_queue().unwrap();
    let submit = || {
        manual.submit(&queue);
        manual.refuse_to_record();
    };
    read_and_delete(tensor, Order::On(&queue), submit);
    assert_kept_for(&manual, &queue, "without an event");
}

// Requirement: SAF-16, SAF-35
#[test]
fn memory_is_kept_where_the_driver_knows_the_queue_no_more() {
    alone(|| {
        let (manual, device, tensor) = on_device();
        let queue = device.open_queue().unwrap();
        let submit = || {
            manual.submit(&queue);
            manual.refuse_to_record();
            manual.set_cannot_tell(true);
        };
        read_and_delete(tensor, Order::On(&queue), submit);
        manual.complete(&queue);
        release_finished();
        assert_eq!((manual.live_memory(), held_back().in_use), (1, 1));
    });
}

// Requirement: SAF-19, SAF-35
#[test]
fn a_queue_that_somebody_else_opened_is_kept_for_its_consumer() {
    let (manual, device, tensor) = on_device();
    let opened = device.open_queue().unwrap();
    let owner = Arc::new(());
    let queue = unsafe { device.adopt_queue_of(opened.raw(), owner.clone()) };
    let managed: Managed<DLManagedTensorVersioned> =
        tensor.export(Order::On(&queue), CopyPolicy::Never).unwrap();
    drop(queue);
    assert_eq!(Arc::strong_count(&owner), 2, "given back before the deleter");
    manual.submit(&opened);
    drop(managed);
    release_finished();
    assert_eq!(Arc::strong_count(&owner), 2, "given back before the end of the use");
    assert_kept_for(&manual, &opened, "on an adopted queue");
    assert!(release_until(|| Arc::strong_count(&owner) == 1), "kept after the last use");
}

// Requirement: SAF-13, SAF-25, SAF-35
#[test]
fn memory_is_kept_for_the_default_queue_which_is_asked_once_for_all() {
    alone(|| {
        let (manual, device) = Manual::open_with_default_queue();
        let tensors: Vec<_> = (0..50).map(|_| tensor_on(&manual, &device)).collect();
        let submit = || manual.submit(&device.default_queue().unwrap());
        tensors.into_iter().for_each(|tensor| read_and_delete(tensor, Order::Host, submit));
        let before = manual.questions();
        assert_eq!((release_finished(), manual.live_memory()), (0, 50));
        assert_eq!(manual.questions() - before, 1, "one question for all");
        manual.complete(&device.default_queue().unwrap());
        release_finished();
        assert_eq!((manual.live_memory(), held_back().in_use), (0, 0));
    });
}

#[test]
fn memory_is_released_at_once_where_no_queue_was_named_and_there_is_no_default() {
    for order in [Order::Host, Order::Unordered] {
        let (manual, _device, tensor) = on_device();
        read_and_delete(tensor, order, || {});
        assert_eq!(manual.live_memory(), 0);
    }
}

// Requirement: SAF-27, SAF-28
#[test]
#[cfg(all(unix, not(miri)))]
fn a_child_deletes_a_tensor_of_its_parent_and_calls_no_driver() {
    alone(|| {
        let (manual, device, tensor) = on_device();
        let queue = device.open_queue().unwrap();
        let managed: Managed<DLManagedTensorVersioned> =
            tensor.export(Order::On(&queue), CopyPolicy::Never).unwrap();
        manual.submit(&queue);
        let asked = manual.questions();
        forked(|| {
            // SAFETY: the share is the one of the parent, which this process does not have.
            drop(unsafe { std::ptr::read(&raw const managed) });
            release_finished();
            match (manual.live_memory(), manual.questions() - asked, held_back().in_use) {
                (1, 0, 0) if held_back().abandoned > 0 => Ok(()),
                found => Err(format!("memory, questions, things held back: {found:?}")),
            }
        });
        delete(managed);
        assert_kept_for(&manual, &queue, "after a fork");
    });
}
