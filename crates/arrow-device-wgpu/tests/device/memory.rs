//! Buffers: sizes, limits, and errors that have the words of wgpu.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use arrow_device::driver::{Addressing, HostAccess, Raw, Readiness, Region, Route, Spot};
use arrow_device::{Array, DataType, Device, DeviceId, DeviceType, ErrorKind};
use arrow_device_wgpu::{bound, device_of, handles_of, limits_of, open_from};

use crate::support;

#[test]
fn a_device_says_what_it_is_like() {
    let Some((application, device)) = support::opened() else { return };
    assert_eq!(device.id().device_type, DeviceType::WEBGPU);
    let properties = device.properties();
    assert_eq!((properties.addressing, properties.parts), (Addressing::Handle, true));
    assert_eq!((properties.copy_unit, properties.distinct_copies), (4, false));
    assert_eq!(properties.host_access, HostAccess::None);
    assert_eq!(properties.readiness, Readiness::QueueOrder);
    assert_eq!(properties.name, application.device.adapter_info().name);
    let limits = limits_of(&device).unwrap();
    // What the specification guarantees.
    assert!(limits.max_buffer >= 256 << 20 && limits.max_binding >= 128 << 20);
    assert!((properties.alignment as u64).is_multiple_of(limits.offset_alignment));
    assert_eq!(handles_of(&device).unwrap(), (application.device, application.queue));
    assert_eq!(device_of(device.id().id).unwrap().id(), device.id());
    assert!(handles_of(&Device::host()).is_err());
}

/// wgpu calls devices of several instances equal; here each opening has a number of its own.
#[test]
fn openings_are_kept_apart() {
    let Some((first, one)) = support::opened() else { return };
    let Some((second, two)) = support::opened() else { return };
    // The first devices of two instances are equal to wgpu, whose identity is per instance.
    assert!(first.device == second.device);
    let three = open_from(&first.device, &first.queue).unwrap();
    let ids = [one.id(), two.id(), three.id()];
    assert!(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2], "{ids:?}");
    let array = Array::from_values(DataType::Int32, [Some(1), None]).unwrap();
    let there = array.copy_to(&one.open_queue().unwrap()).unwrap();
    for other in [&two, &three] {
        let queue = other.open_queue().unwrap();
        let error = there.on(&queue).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotReachable, "{error}");
        // A copy goes through the host.
        let copied = there.copy_to(&queue).unwrap();
        assert_eq!(copied.device(), other.id());
        assert!(copied.to_host().unwrap().equals(&array).unwrap());
    }
}

/// A queue of another device would write to the buffers of that device that have the same numbers,
/// among them those of arrays.
// Requirement: SAF-3
#[test]
fn the_queue_of_another_device_is_refused() {
    let Some((first, device)) = support::opened() else { return };
    let array = Array::from_values(DataType::Int32, [Some(1), None]).unwrap();
    let there: Vec<Array> =
        (0..20).map(|_| array.copy_to(&device.open_queue().unwrap()).unwrap()).collect();
    let Some(second) = support::application() else { return };
    for (one, two) in [(&first, &second), (&second, &first)] {
        let error = open_from(&one.device, &two.queue).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("another device"), "{error}");
        open_from(&one.device, &one.queue).unwrap();
    }
    for there in there {
        assert!(there.to_host().unwrap().equals(&array).unwrap());
    }
}

/// Within one instance, wgpu tells the mistake to the handler of the queue's own device.
#[test]
fn the_queue_of_another_device_of_one_instance_is_refused() {
    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }

    if support::application().is_none() {
        return;
    }
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = wgpu::Backends::VULKAN;
    let instance = wgpu::Instance::new(descriptor);
    let adapter = now(instance.request_adapter(&wgpu::RequestAdapterOptions::default()));
    let adapter = adapter.unwrap().unwrap();
    let made = || now(adapter.request_device(&wgpu::DeviceDescriptor::default())).unwrap().unwrap();
    let ((one, one_queue), (two, two_queue)) = (made(), made());
    let told = Arc::new(AtomicUsize::new(0));
    let counted = told.clone();
    two.on_uncaptured_error(Arc::new(move |_| _ = counted.fetch_add(1, Ordering::SeqCst)));
    let error = open_from(&one, &two_queue).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(told.load(Ordering::SeqCst), 1);
    // This device has no handler.
    let error = open_from(&two, &one_queue).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    open_from(&one, &one_queue).unwrap();
    open_from(&two, &two_queue).unwrap();
}

#[test]
fn a_handle_of_another_opening_is_refused() {
    let Some((_, one)) = support::opened() else { return };
    let Some((_, two)) = support::opened() else { return };
    let (one_queue, two_queue) = (one.open_queue().unwrap(), two.open_queue().unwrap());
    let mut memory = one_queue.allocate(64).unwrap();
    let spot = memory.spot(&one_queue).unwrap();
    // SAFETY: nothing is done with what comes back.
    let error = unsafe { bound(&two, spot, 64) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let mut bytes = [0_u8; 64];
    let to = Spot { base: Raw::from_ptr(bytes.as_mut_ptr().cast()), offset: 0 };
    for base in [spot.base, Raw::from_bits(64), Raw::from_bits(usize::MAX)] {
        let region = Region { from: Spot { base, offset: 0 }, to, len: 64 };
        // SAFETY: the driver refuses the handle.
        let error = unsafe { two_queue.copy(Route::ToHost, &[region]) }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        // SAFETY: a number that names nothing is only looked up.
        assert_eq!(unsafe { two.driver().holds(base) }, Some(false));
    }
}

#[test]
fn a_number_that_is_not_open_is_missing() {
    let error = device_of(64).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceMissing, "{error}");
    assert!(error.to_string().contains("0x40 is open here"), "{error}");
    assert_eq!(error.device(), Some(DeviceId::new(DeviceType::WEBGPU, 64)));
}

#[test]
fn memory_has_whole_units() {
    let Some((device, queue)) = support::bench() else { return };
    for (len, whole) in [(1, 4), (4, 4), (1001, 1004)] {
        let mut memory = queue.allocate(len).unwrap();
        let base = memory.spot(&queue).unwrap().base;
        // SAFETY: the buffer is alive.
        let found = unsafe { device.driver().locate(base) }.unwrap().unwrap();
        assert_eq!((found.device, found.remaining), (device.id(), whole));
    }
}

#[test]
fn more_than_a_buffer_can_have_is_out_of_memory() {
    let Some((device, queue)) = support::bench() else { return };
    for len in [1 << 50, u64::MAX, limits_of(&device).unwrap().max_buffer + 1] {
        let error = queue.allocate(len).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        assert_eq!(error.device(), Some(device.id()));
    }
    // And the device goes on.
    queue.allocate(64).unwrap();
}

#[test]
fn a_copy_outside_of_a_buffer_is_refused_in_the_words_of_wgpu() {
    let Some((device, queue)) = support::bench() else { return };
    let mut memory = queue.allocate(64).unwrap();
    let from = memory.spot(&queue).unwrap();
    let mut bytes = [0_u8; 128];
    let to = Spot { base: Raw::from_ptr(bytes.as_mut_ptr().cast()), offset: 0 };
    for (route, from, to) in [(Route::ToHost, from, to), (Route::FromHost, to, from)] {
        // SAFETY: wgpu refuses the copy.
        let error = unsafe { queue.copy(route, &[Region { from, to, len: 128 }]) }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        let vendor = error.vendor().unwrap();
        assert_eq!(vendor.code, 2);
        assert!(vendor.text.contains("64"), "{}", vendor.text);
        assert_eq!(error.device(), Some(device.id()));
    }
    // And the device goes on.
    queue.synchronize().unwrap();
    Array::from_values(DataType::Int32, [Some(1)]).unwrap().copy_to(&queue).unwrap();
}
