//! Memory of OpenCL in other processes.

use arrow_device::{Device, ErrorKind, Recycler};
use arrow_device_opencl::{Kind, open_with};
use arrow_device_share::{open, share, to_shareable};
use arrow_device_testkit::process::alone;
use arrow_device_testkit::required::skip;

use crate::devices;
use crate::support::{SOON, batch, connected};

/// The first device, if its memory can be shared.
fn device() -> Option<Device> {
    device_with(Kind::Buffers)
}

fn svm() -> Option<Device> {
    device_with(Kind::Svm)
}

fn device_with(kind: Kind) -> Option<Device> {
    if let Err(reason) = arrow_device_opencl::is_available() {
        skip("opencl", &reason.to_string());
        return None;
    }
    let has_svm = || arrow_device_opencl::devices().unwrap().first().unwrap().has_svm;
    if kind == Kind::Svm && !has_svm() {
        println!("skipped: the device has no shared virtual memory");
        return None;
    }
    let device = open_with(0, kind).unwrap();
    if device.sharing_domain().is_none() {
        skip("opencl", "memory of the device cannot be shared");
        return None;
    }
    Some(device)
}

/// Calls something with buffers, in a process of its own: everybody who opens the device there has
/// the same one.
fn with_buffers(body: impl Fn(&Device)) {
    alone(|| device().iter().for_each(body));
}

/// The same with shared virtual memory: a process opens a device with one kind of memory.
fn with_svm(body: impl Fn(&Device)) {
    alone(|| svm().iter().for_each(body));
}

#[test]
fn arrays_of_all_types_come_as_they_were() {
    with_buffers(|device| devices::arrays_of_all_types_come_as_they_were(device, device, 35));
}

#[test]
fn arrays_of_all_types_come_as_they_were_in_shared_virtual_memory() {
    with_svm(|device| devices::arrays_of_all_types_come_as_they_were(device, device, 36));
}

#[test]
fn a_thousand_columns_are_one_descriptor_and_no_byte_moves() {
    with_buffers(|device| {
        devices::a_thousand_columns_are_one_descriptor_and_no_byte_moves(device, device);
    });
}

#[test]
fn a_thousand_columns_of_shared_virtual_memory_are_one_descriptor_and_no_byte_moves() {
    with_svm(|device| {
        devices::a_thousand_columns_are_one_descriptor_and_no_byte_moves(device, device);
    });
}

#[test]
fn descriptors_of_other_things_are_refused() {
    with_buffers(|device| devices::descriptors_of_other_things_are_refused(device, device));
}

#[test]
fn descriptors_of_other_things_are_no_shared_virtual_memory() {
    with_svm(|device| devices::descriptors_of_other_things_are_refused(device, device));
}

#[test]
fn both_sides_have_the_same_pages() {
    with_buffers(|device| devices::both_sides_have_the_same_pages(device, device));
}

#[test]
fn any_bytes_are_an_array_or_an_error() {
    with_buffers(|device| devices::any_bytes_are_an_array_or_an_error(device, device));
}

#[test]
fn golden_batches_cross_to_another_process() {
    let test = "opencl::golden_batches_cross_to_another_process";
    with_buffers(|device| devices::golden_batches_cross(test, device));
}

#[test]
fn golden_batches_cross_to_another_process_in_shared_virtual_memory() {
    let test = "opencl::golden_batches_cross_to_another_process_in_shared_virtual_memory";
    with_svm(|device| devices::golden_batches_cross(test, device));
}

#[test]
fn a_receiver_that_is_killed_leaves_nothing_behind() {
    let test = "opencl::a_receiver_that_is_killed_leaves_nothing_behind";
    devices::a_receiver_that_is_killed_leaves_nothing_behind(test, device);
}

#[test]
fn a_receiver_that_is_killed_leaves_nothing_behind_in_shared_virtual_memory() {
    let test = "opencl::a_receiver_that_is_killed_leaves_nothing_behind_in_shared_virtual_memory";
    devices::a_receiver_that_is_killed_leaves_nothing_behind(test, svm);
}

#[test]
fn what_came_from_a_sender_that_was_killed_stays_usable() {
    let test = "opencl::what_came_from_a_sender_that_was_killed_stays_usable";
    devices::what_came_from_a_sender_that_was_killed_stays_usable(test, device);
}

/// The device of the tests is a processor, whose memory is fixed when it is sent.
#[test]
fn memory_that_is_used_again_is_taken_on_trust_only() {
    with_buffers(|device| {
        let again = device.with_allocator(Recycler::new(1 << 20));
        let array = to_shareable(batch(10).as_array(), &again).unwrap();
        let (ticket, sender) = share(&array).unwrap();
        let error = open(ticket, [device.clone()]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("the sender can still write to it"), "{error}");
        assert_eq!(sender.held().unwrap(), 0, "what is refused is released");

        let (sender, receiver) = connected([device.clone()]);
        // SAFETY: UNS-38: the test holds the array, and writes nowhere.
        let mut receiver = unsafe { receiver.trusting() };
        sender.send(&array).unwrap();
        let opened = receiver.receive().unwrap().unwrap();
        assert!(opened.to_host().unwrap().equals(batch(10).as_array()).unwrap());
    });
}

fn is_passed_on_to_a_third_process(device: &Device) {
    let (first, receiver) = connected([device.clone()]);
    first.send(&to_shareable(batch(10).as_array(), device).unwrap()).unwrap();
    let came = receiver.passing_on().receive().unwrap().unwrap();
    let (second, mut third) = connected([device.clone()]);
    // A column lies in a part of the allocation.
    let texts = came.child(1).unwrap();
    second.send(&came).unwrap();
    second.send(&texts).unwrap();
    drop((came, texts));
    let whole = third.receive().unwrap().unwrap();
    assert!(whole.to_host().unwrap().equals(batch(10).as_array()).unwrap());
    let texts = third.receive().unwrap().unwrap().to_host().unwrap();
    assert!(texts.equals(&batch(10).as_array().child(1).unwrap()).unwrap());
    assert_eq!(first.held().unwrap(), 1);
    drop(whole);
    assert!(second.wait_until_released(SOON).unwrap());
    assert_eq!(second.held().unwrap(), 0);
    assert!(first.wait_until_released(SOON).unwrap());
}

// Requirement: SAF-42
#[test]
fn what_came_is_passed_on_to_a_third_process() {
    with_buffers(is_passed_on_to_a_third_process);
}

// Requirement: SAF-42
#[test]
fn what_came_in_shared_virtual_memory_is_passed_on_to_a_third_process() {
    with_svm(is_passed_on_to_a_third_process);
}
