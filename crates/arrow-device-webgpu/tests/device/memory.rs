//! Buffers: sizes, what the driver says of foreign ones, and errors that have WebGPU's words.

use arrow_device::driver::{Addressing, HostAccess, Raw, Readiness, Region, Route, Spot};
use arrow_device::{Array, Buffer, DataType, Device, DeviceType, ErrorKind, Queue};
use arrow_device_webgpu::{devices, handles_of, limits_of};

use crate::support;

const COPY_DST: u64 = 8;
const STORAGE: u64 = 0x80;

fn bench() -> Option<(Device, Queue)> {
    let device = support::device()?;
    let queue = device.open_queue().unwrap();
    Some((device, queue))
}

#[test]
fn a_device_says_what_it_is_like() {
    let Some((device, queue)) = bench() else { return };
    assert_eq!(device.id().device_type, DeviceType::WEBGPU);
    let properties = device.properties();
    assert_eq!((properties.addressing, properties.parts), (Addressing::Handle, false));
    assert_eq!((properties.copy_unit, properties.distinct_copies), (4, true));
    assert_eq!(properties.host_access, HostAccess::None);
    assert_eq!(properties.readiness, Readiness::QueueOrder);
    let listed = devices().unwrap();
    let first = listed.first().unwrap();
    assert_eq!(first.name, properties.name);
    assert_eq!(first.limits, limits_of(&device).unwrap());
    // What the specification guarantees.
    assert!(first.limits.max_buffer >= 256 << 20 && first.limits.max_binding >= 128 << 20);
    let (handle, wgpu_queue) = handles_of(&device).unwrap();
    assert_eq!(device.id().id, handle.as_ptr().addr() as i64);
    assert_eq!(queue.raw().as_ptr(), wgpu_queue.as_ptr());
    assert!(Device::find(device.id()).is_some());
    assert_eq!(arrow_device_webgpu::open_for(device.id().id).unwrap().id(), device.id());
    assert!(handles_of(&Device::host()).is_err());
}

#[test]
fn whoever_opens_a_device_gets_the_same_one() {
    let Some((device, queue)) = bench() else { return };
    let other = arrow_device_webgpu::open(0).unwrap();
    assert_eq!(device.driver().runtime(), other.driver().runtime());
    let array = Array::from_values(DataType::Int32, [Some(1)]).unwrap().copy_to(&queue).unwrap();
    array.on(&other.open_queue().unwrap()).unwrap();
}

#[test]
fn memory_has_whole_units() {
    let Some((device, queue)) = bench() else { return };
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
    let Some((device, queue)) = bench() else { return };
    for len in [1 << 50, u64::MAX, limits_of(&device).unwrap().max_buffer + 1] {
        let error = queue.allocate(len).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        assert_eq!(error.device(), Some(device.id()));
    }
    // And the device goes on.
    queue.allocate(64).unwrap();
}

#[test]
fn a_copy_outside_of_a_buffer_is_refused() {
    let Some((device, queue)) = bench() else { return };
    let mut memory = queue.allocate(64).unwrap();
    let from = memory.spot(&queue).unwrap();
    let mut bytes = [0_u8; 128];
    let to = Spot { base: Raw::from_ptr(bytes.as_mut_ptr().cast()), offset: 0 };
    for (route, from, to) in [(Route::ToHost, from, to), (Route::FromHost, to, from)] {
        // SAFETY: the library refuses the copy.
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

/// A buffer of the application's that lacks a usage is an error, and not the end of the process.
#[test]
fn a_buffer_that_cannot_be_copied_from_is_refused() {
    let Some((web, device)) = support::opened() else { return };
    let queue = device.open_queue().unwrap();
    let buffer = web.buffer(16, STORAGE | COPY_DST).unwrap();
    // SAFETY: the buffer is never released, and has 16 bytes.
    let foreign = unsafe { Buffer::foreign(device.id(), buffer.as_ptr(), 16, ()) };
    let array = Array::builder(DataType::Int32).len(4).buffers([None, Some(foreign)]);
    let array = array.finish_on(&queue).unwrap();
    let error = array.to_host().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

#[test]
fn a_buffer_of_no_bytes_is_the_data_of_no_elements() {
    let Some((web, device)) = support::opened() else { return };
    let queue = device.open_queue().unwrap();
    let buffer = web.buffer(0, STORAGE | COPY_DST | 4).unwrap();
    // SAFETY: the buffer is never released.
    let foreign = unsafe { Buffer::foreign(device.id(), buffer.as_ptr(), 0, ()) };
    let array = Array::builder(DataType::Int32).len(0).buffers([None, Some(foreign)]);
    let array = array.finish_on(&queue).unwrap();
    assert_eq!(array.to_host().unwrap().len(), 0);
    let empty = Array::from_values(DataType::Int32, std::iter::empty::<Option<i32>>()).unwrap();
    let there = empty.copy_to(&queue).unwrap();
    assert_eq!(there.to_host().unwrap().len(), 0);
}
