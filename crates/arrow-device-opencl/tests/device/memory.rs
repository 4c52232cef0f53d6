//! Buffers: parts, what the driver says of foreign ones, mapping, and errors that have the vendor's
//! code.

use arrow_device::driver::{Addressing, HostAccess, Raw, Region, Route, Spot};
use arrow_device::{Array, DataType, Device, DeviceType, ErrorKind, Queue};
use arrow_device_testkit::application::opencl::{Cl, UserEventGate};
use arrow_device_testkit::trips;

use crate::support;

fn bench() -> Option<(Device, Queue)> {
    let device = support::device()?;
    let queue = device.open_queue().unwrap();
    Some((device, queue))
}

#[test]
fn a_device_says_what_it_is_like() {
    let Some((device, _)) = bench() else { return };
    assert_eq!(device.id().device_type, DeviceType::OPENCL);
    let properties = device.properties();
    assert_eq!((properties.addressing, properties.parts), (Addressing::Handle, true));
    assert!(properties.alignment >= 64 && properties.alignment.is_power_of_two());
    let listed = arrow_device_opencl::devices().unwrap();
    let first = listed.first().unwrap();
    assert_eq!(first.name, properties.name);
    assert!(first.memory >= 1 << 20 && !first.driver_version.is_empty(), "{first:?}");
    assert!(Device::find(device.id()).is_some());
}

#[test]
fn whoever_opens_a_device_gets_the_same_context() {
    let Some((device, queue)) = bench() else { return };
    let other = arrow_device_opencl::open(0).unwrap();
    assert_eq!(device.driver().runtime(), other.driver().runtime());
    let array = Array::from_values(DataType::Int32, [Some(1)]).unwrap().copy_to(&queue).unwrap();
    array.on(&other.open_queue().unwrap()).unwrap();
}

#[test]
fn the_driver_tells_how_large_a_foreign_buffer_is() {
    let Some((device, queue)) = bench() else { return };
    let mut memory = queue.allocate(1000).unwrap();
    let base = memory.spot(&queue).unwrap().base;
    let found = unsafe { device.driver().locate(base) }.unwrap().unwrap();
    assert_eq!((found.device, found.remaining), (device.id(), 1000));
}

#[test]
fn a_part_of_a_part_is_a_part_of_the_whole() {
    let Some((device, queue)) = bench() else { return };
    let (driver, step) = (device.driver(), device.properties().alignment as u64);
    let mut memory = queue.allocate(4 * step).unwrap();
    let bytes: Vec<u8> = (0..4 * step).map(|index| (index / step) as u8).collect();
    memory.write(&queue, &bytes).unwrap();
    let base = memory.spot(&queue).unwrap().base;
    let outer = unsafe { driver.part(base, step, 3 * step) }.unwrap();
    let inner = unsafe { driver.part(outer, step, step) }.unwrap();
    assert_eq!(unsafe { driver.locate(inner) }.unwrap().unwrap().remaining, step);
    let mut read = vec![0_u8; step as usize];
    let to = Spot { base: Raw::from_ptr(read.as_mut_ptr().cast()), offset: 0 };
    let region = Region { from: Spot { base: inner, offset: 0 }, to, len: step };
    unsafe { queue.copy(Route::ToHost, &[region]) }.unwrap();
    queue.synchronize().unwrap();
    assert!(read.iter().all(|byte| *byte == 2));
    let error = unsafe { driver.part(base, 1, step) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(error.vendor().unwrap().code, -13);
    unsafe { driver.free_part(inner) };
    unsafe { driver.free_part(outer) };
}

#[test]
fn more_than_there_is_is_out_of_memory_with_the_vendors_code() {
    let Some((device, queue)) = bench() else { return };
    for error in [device.allocate(1 << 50).unwrap_err(), queue.allocate(u64::MAX).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        assert!(error.vendor().unwrap().code < 0);
        assert_eq!(error.device(), Some(device.id()));
    }
}

#[test]
fn a_copy_outside_of_a_buffer_is_refused() {
    let Some((device, queue)) = bench() else { return };
    let mut memory = queue.allocate(64).unwrap();
    let from = memory.spot(&queue).unwrap();
    let mut bytes = [0_u8; 128];
    let to = Spot { base: Raw::from_ptr(bytes.as_mut_ptr().cast()), offset: 0 };
    let region = Region { from, to, len: 128 };
    let error = unsafe { queue.copy(Route::ToHost, &[region]) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(error.vendor().unwrap().text, "CL_INVALID_VALUE");
    assert_eq!(error.device(), Some(device.id()));
}

#[test]
fn an_array_is_read_in_place_where_host_and_device_share_memory() {
    let Some((device, queue)) = bench() else { return };
    let array = Array::from_values(DataType::Int32, [Some(5), None, Some(7)]).unwrap();
    let there = array.copy_to(&queue).unwrap();
    there.wait().unwrap();
    let read = there.host();
    if device.properties().host_access == HostAccess::None {
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Unsupported);
        return;
    }
    let read = read.unwrap();
    let bytes = read.buffer(1).unwrap();
    assert_eq!(bytes.get(8..12).unwrap(), 7_i32.to_ne_bytes());
}

// Requirement: SAF-8
#[test]
fn the_host_does_not_fill_memory_that_a_queue_still_reads() {
    let Some((device, _)) = bench() else { return };
    let cl = Cl::load().unwrap();
    trips::an_allocator_gives_what_its_queue_still_reads(
        &device,
        |queue| UserEventGate::before(&cl, queue.raw().as_ptr()).unwrap(),
        |mut gate| gate.open().unwrap(),
    );
}

#[test]
fn parts_of_a_buffer_become_columns() {
    let Some((_device, queue)) = bench() else { return };
    trips::columns_in_one_allocation(&queue);
}
