//! Memory of the device: what the driver says of addresses, and errors.

use arrow_device::driver::{Addressing, HostAccess, Raw};
use arrow_device::{Array, DataType, Device, DeviceType, ErrorKind, Queue};
use arrow_device_testkit::{process, release_until, trips};

use crate::support::{self, Gate, runtime};

fn bench() -> Option<(Device, Queue)> {
    let device = support::device()?;
    let queue = device.open_queue().unwrap();
    Some((device, queue))
}

#[test]
fn a_device_says_what_it_is_like() {
    let Some((device, _)) = bench() else { return };
    assert_eq!(device.id().device_type, DeviceType::ONEAPI);
    let properties = device.properties();
    assert_eq!(properties.addressing, Addressing::Address);
    assert_eq!(properties.host_access, HostAccess::None);
    assert!(properties.alignment >= 64 && properties.alignment.is_power_of_two());
    let listed = arrow_device_oneapi::devices().unwrap();
    let first = listed.first().unwrap();
    assert_eq!(first.name, properties.name);
    assert!(first.memory >= 1 << 20 && !first.driver_version.is_empty(), "{first:?}");
    assert!(Device::find(device.id()).is_some());
}

#[test]
fn whoever_opens_a_device_gets_the_same_context() {
    let Some((device, queue)) = bench() else { return };
    let other = arrow_device_oneapi::open(0).unwrap();
    assert_eq!(device.driver().runtime(), other.driver().runtime());
    let array = Array::from_values(DataType::Int32, [Some(1)]).unwrap().copy_to(&queue).unwrap();
    array.on(&other.open_queue().unwrap()).unwrap();
}

#[test]
fn the_driver_tells_where_its_own_allocations_end() {
    let Some((device, queue)) = bench() else { return };
    let mut memory = queue.allocate(1000).unwrap();
    let base = memory.spot(&queue).unwrap().base;
    let inside = base.as_ptr().wrapping_byte_add(600);
    for (address, remaining) in [(base.as_ptr(), 1000), (inside, 400)] {
        let found = unsafe { device.driver().locate(Raw::from_ptr(address)) }.unwrap().unwrap();
        assert_eq!((found.device, found.remaining), (device.id(), remaining));
        assert_eq!(unsafe { device.driver().holds(Raw::from_ptr(address)) }, Some(true));
    }
    let bytes = [0_u8; 64];
    let host = Raw::from_ptr(bytes.as_ptr().cast_mut().cast());
    assert_eq!(unsafe { device.driver().locate(host) }.unwrap(), None);
    assert_eq!(unsafe { device.driver().holds(host) }, Some(false));
    assert_eq!(unsafe { device.driver().holds(Raw::NULL) }, None);
}

#[test]
fn more_than_there_is_is_out_of_memory() {
    let Some((device, queue)) = bench() else { return };
    for error in [device.allocate(1 << 50).unwrap_err(), queue.allocate(u64::MAX).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        assert_eq!(error.device(), Some(device.id()));
    }
}

// Requirement: SAF-8
#[test]
fn the_host_does_not_fill_memory_that_a_queue_still_reads() {
    let Some((device, _)) = bench() else { return };
    if runtime().has_gates() {
        trips::an_allocator_gives_what_its_queue_still_reads(&device, Gate::before, |mut gate| {
            gate.open();
        });
    }
}

#[test]
fn parts_of_a_buffer_become_columns() {
    let Some((_device, queue)) = bench() else { return };
    trips::columns_in_one_allocation(&queue);
}

/// The default context stays.
// Requirement: SAF-14
#[test]
fn nothing_is_left_of_a_device() {
    process::alone(|| {
        let Some(runtime) = support::simulated() else { return };
        for index in [0, 1] {
            let device = arrow_device_oneapi::open(index).unwrap();
            let queue = device.open_queue().unwrap();
            let array = Array::from_values(DataType::Int32, (0..100).map(Some)).unwrap();
            let there = array.copy_to(&queue).unwrap();
            let event = queue.record().unwrap();
            event.synchronize().unwrap();
            assert!(runtime.live(0) >= 1 && runtime.live(1) >= 1 && runtime.live(2) >= 2);
            there.to_host().unwrap();
            drop((there, event, queue, device));
            let left = || [0, 1, 2, 3, 4].map(|what| runtime.live(what));
            assert!(release_until(|| left() == [0, 0, 0, 1, 0]), "{:?}", left());
        }
        runtime.assert_no_mistakes();
    });
}
