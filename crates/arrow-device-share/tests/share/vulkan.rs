//! Memory of Vulkan in other processes, and in another `VkDevice` of this one.

use std::sync::Arc;

use arrow_device::{Device, ErrorKind};
use arrow_device_share::{open, share, to_shareable};
use arrow_device_testkit::application::vulkan::Vulkan;
use arrow_device_testkit::process::alone;
use arrow_device_testkit::required::skip;
use arrow_device_vulkan::{Handles, Placement, SubmitLock, open_from, open_with};
use ash::vk::Handle;

use crate::devices;
use crate::support::{batch, connected};

/// The library's own device, if its memory can be shared.
fn device() -> Option<Device> {
    device_with(Placement::Automatic)
}

fn device_with(placement: Placement) -> Option<Device> {
    if let Err(reason) = arrow_device_vulkan::is_available() {
        skip("vulkan", &reason.to_string());
        return None;
    }
    let device = open_with(0, placement).unwrap();
    if device.sharing_domain().is_none() {
        skip("vulkan", "memory of the device cannot be shared");
        return None;
    }
    Some(device)
}

/// A device of an application's own, as it would be in another process, and the library's.
fn two(placement: Placement) -> Option<(Device, Device)> {
    let there = device_with(placement)?;
    let vulkan = Vulkan::new(false).unwrap();
    let lock: Arc<dyn SubmitLock> = vulkan.lock.clone();
    let (instance, physical) = (vulkan.instance.handle().as_raw(), vulkan.physical.as_raw());
    let handles = Handles::new(instance, physical, vulkan.device.handle().as_raw())
        .with_queue(vulkan.queue.as_raw(), vulkan.family, lock)
        .with_all_queues()
        .with_external_memory()
        .kept_by(vulkan);
    // SAFETY: the handles keep what they are the handles of, whose lock everybody takes.
    let here = unsafe { open_from(handles, placement) }.unwrap();
    assert_ne!(here.id(), there.id());
    assert_eq!(here.sharing_domain(), there.sharing_domain());
    Some((here, there))
}

#[test]
fn arrays_of_all_types_come_as_they_were() {
    for (seed, placement) in [(33, Placement::HostVisible), (34, Placement::DeviceOnly)] {
        let Some((here, there)) = two(placement) else { return };
        devices::arrays_of_all_types_come_as_they_were(&here, &there, seed);
    }
}

#[test]
fn a_thousand_columns_are_one_descriptor_and_no_byte_moves() {
    alone(|| {
        let Some((here, there)) = two(Placement::Automatic) else { return };
        devices::a_thousand_columns_are_one_descriptor_and_no_byte_moves(&here, &there);
    });
}

#[test]
fn descriptors_of_other_things_are_refused() {
    alone(|| {
        let Some((here, there)) = two(Placement::Automatic) else { return };
        devices::descriptors_of_other_things_are_refused(&here, &there);
    });
}

/// The memory of lavapipe is a file.
#[test]
fn both_sides_have_the_same_pages() {
    alone(|| {
        let Some((here, there)) = two(Placement::Automatic) else { return };
        if here.properties().name.contains("llvmpipe") {
            devices::both_sides_have_the_same_pages(&here, &there);
        }
    });
}

#[test]
fn arrays_come_before_their_data() {
    let Some((here, there)) = two(Placement::Automatic) else { return };
    crate::early::arrays_come_early(&here, &there);
}

#[test]
fn any_bytes_are_an_array_or_an_error() {
    let Some((here, there)) = two(Placement::Automatic) else { return };
    devices::any_bytes_are_an_array_or_an_error(&here, &there);
}

#[test]
fn golden_batches_cross_to_another_process() {
    let Some(device) = device() else { return };
    devices::golden_batches_cross("vulkan::golden_batches_cross_to_another_process", &device);
}

#[test]
fn a_receiver_that_is_killed_leaves_nothing_behind() {
    let test = "vulkan::a_receiver_that_is_killed_leaves_nothing_behind";
    devices::a_receiver_that_is_killed_leaves_nothing_behind(test, device);
}

#[test]
fn what_came_from_a_sender_that_was_killed_stays_usable() {
    let test = "vulkan::what_came_from_a_sender_that_was_killed_stays_usable";
    devices::what_came_from_a_sender_that_was_killed_stays_usable(test, device);
}

#[test]
fn without_trust_nothing_is_sent_and_nothing_is_opened() {
    for placement in [Placement::HostVisible, Placement::DeviceOnly] {
        let Some(device) = device_with(placement) else { return };
        let array = to_shareable(batch(10).as_array(), &device).unwrap();
        let error = share(&array).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("a sender that trusts its receiver"), "{error}");

        let (sender, mut receiver) = connected([device.clone()]);
        // SAFETY: UNS-38: the test writes to no memory that was sent.
        let sender = unsafe { sender.trusting() };
        sender.send(&array).unwrap();
        let error = receiver.receive().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("a receiver that trusts its sender"), "{error}");
        assert_eq!(sender.held().unwrap(), 0, "what is refused is released");
    }
}

#[test]
fn memory_that_was_not_made_for_it_is_refused_by_name() {
    let Some(device) = device() else { return };
    let array = batch(10).as_array().copy_to(&device.open_queue().unwrap()).unwrap();
    let error = share(&array).unwrap_err();
    assert!(error.to_string().contains("`n`: buffer 0 does not lie in memory"), "{error}");
}

#[test]
fn memory_of_the_host_is_no_memory_of_vulkan() {
    let Some(device) = device() else { return };
    let (ticket, _sender) = share(&crate::support::shareable(10)).unwrap();
    let error = open(ticket, [device]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceMissing, "{error}");
}
