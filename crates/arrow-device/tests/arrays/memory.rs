//! Memory that is filled and shared: only what was written is shared, a queue that is given the
//! place comes behind the queue that the memory was allocated on, and an array is ready after all
//! that was submitted for its memory.

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::driver::{Raw, Readiness};
use arrow_device::{
    Array, Buffer, DataType, Device, DeviceId, DeviceType, ErrorKind, Extent, Memory, Queue, Ready,
    Recycler, Result,
};
use arrow_device_testkit::manual::{Manual, shown_event};

fn numbers(buffer: Buffer, len: usize) -> Result<Array> {
    Array::builder(DataType::Int64).len(len).buffers([None, Some(buffer)]).finish_ready()
}

// Requirement: SAF-1
#[test]
fn memory_that_nobody_wrote_shares_no_byte() {
    drop(vec![0x5a_u8; 64]);
    let buffer = Device::host().allocate(64).unwrap().into_buffer();
    assert_eq!(buffer.extent(), Extent::Exact(0));
    let refused = numbers(buffer, 8).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
}

// Requirement: SAF-1
#[test]
fn memory_shares_what_was_written_and_no_more() {
    let mut memory = Device::host().allocate(64).unwrap();
    memory.write(&Queue::host(), &[7; 24]).unwrap();
    memory.write(&Queue::host(), &[8; 8]).unwrap();
    let buffer = memory.into_buffer();
    assert_eq!(buffer.extent(), Extent::Exact(24));
    assert!(numbers(buffer.clone(), 4).is_err());
    let array = numbers(buffer, 3).unwrap();
    let bytes = array.host().unwrap().buffer(1).unwrap().to_vec();
    assert_eq!(bytes, [[8; 8], [7; 8], [7; 8]].concat());
}

// Requirement: SAF-1
#[test]
fn recycled_memory_shares_nothing_of_its_last_user() {
    let device = Device::host().with_allocator(Recycler::new(1 << 16));
    let mut memory = device.allocate(64).unwrap();
    memory.write(&Queue::host(), &[0x5a; 64]).unwrap();
    drop(memory.into_buffer());
    let mut again = device.allocate(64).unwrap();
    again.write(&Queue::host(), &[1; 8]).unwrap();
    assert_eq!(again.into_buffer().extent(), Extent::Exact(8));
}

// Requirement: SAF-1
#[test]
fn memory_of_somebody_else_shares_nothing_that_was_not_written_here() {
    let mut bytes = vec![0x5a_u8; 64];
    let base = Raw::from_ptr(bytes.as_mut_ptr().cast());
    let memory = unsafe { Memory::adopt(&Device::host(), base, 64, bytes) };
    assert_eq!(memory.into_buffer().extent(), Extent::Exact(0));
}

// Requirement: SAF-8
#[test]
fn a_queue_waits_for_the_queue_that_memory_was_allocated_on() {
    let (manual, device) = Manual::open();
    let (one, other) = (device.open_queue().unwrap(), device.open_queue().unwrap());
    manual.submit(&one);
    let mut memory = one.allocate(64).unwrap();
    memory.spot(&one).unwrap();
    assert_eq!(manual.wait_count(), 0);
    for _ in 0..2 {
        memory.spot(&other).unwrap();
        assert_eq!(manual.wait_count(), 1, "once for each queue");
    }
    let mut memory = one.allocate(64).unwrap();
    // The device has no copies; what counts comes before them.
    memory.write(&other, &[1; 64]).unwrap_err();
    assert_eq!(manual.wait_count(), 2);
    // Memory that was allocated in no queue's order is there for all.
    device.allocate(64).unwrap().spot(&other).unwrap();
    assert_eq!(manual.wait_count(), 2);
}

/// Memory whose bytes a queue still writes.
fn in_flight(manual: &Manual, queue: &Queue) -> Buffer {
    let mut memory = queue.device().allocate(64).unwrap();
    memory.spot(queue).unwrap();
    manual.submit(queue);
    unsafe { memory.assume_written(64) };
    memory.into_buffer()
}

// Requirement: SAF-9
#[test]
fn an_array_is_not_ready_before_what_was_submitted_for_its_memory() {
    let (manual, device) = Manual::open();
    let (one, other) = (device.open_queue().unwrap(), device.open_queue().unwrap());
    let array = numbers(in_flight(&manual, &one), 8).unwrap();
    assert_eq!(array.ready(), Ready::AfterEvent);
    assert!(!array.is_ready().unwrap());
    manual.complete(&one);
    assert!(array.is_ready().unwrap());

    // One event where one queue wrote all buffers.
    let buffers = [Some(in_flight(&manual, &one)), Some(in_flight(&manual, &one))];
    let array = Array::builder(DataType::Int64).len(8).buffers(buffers).finish_ready().unwrap();
    assert_eq!(array.ready(), Ready::AfterEvent);

    let waits = manual.wait_count();
    let buffers = [Some(in_flight(&manual, &one)), Some(in_flight(&manual, &other))];
    let array = Array::builder(DataType::Int64).len(8).buffers(buffers).finish_on(&one).unwrap();
    assert_eq!(array.ready(), Ready::AfterEvent);
    assert_eq!(manual.wait_count(), waits + 1, "the queue comes behind the other one");
}

// Requirement: SAF-9
#[test]
fn without_events_the_host_waits_for_what_was_submitted_for_memory() {
    let (manual, device) = Manual::open_with(Readiness::HostWait);
    let queue = device.open_queue().unwrap();
    let array = numbers(in_flight(&manual, &queue), 8).unwrap();
    assert_eq!(array.ready(), Ready::Now);
    assert!(manual.is_idle(&queue));
}

/// Eight numbers on a device that is not there.
fn foreign(device: DeviceId) -> arrow_device::ArrayBuilder {
    let address = std::ptr::without_provenance(0x2000);
    let buffer = unsafe { Buffer::foreign(device, address, 64, ()) };
    Array::builder(DataType::Int64).len(8).buffers([None, Some(buffer)])
}

// Requirement: SAF-11
#[test]
fn an_array_is_not_finished_on_a_queue_that_does_not_reach_it() {
    for readiness in [Readiness::Event, Readiness::QueueOrder, Readiness::HostWait] {
        let (manual, device) = Manual::open_with(readiness);
        let queue = device.open_queue().unwrap();
        manual.submit(&queue);
        let refused = foreign(DeviceId::new(DeviceType::CUDA, 0)).finish_on(&queue).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotReachable, "{readiness:?}");
    }
}

// Requirement: SAF-9
#[test]
fn a_host_array_is_ready_when_the_queue_of_a_device_is_done_with_it() {
    for readiness in [Readiness::Event, Readiness::QueueOrder, Readiness::HostWait] {
        let (manual, device) = Manual::open_with(readiness);
        let queue = device.open_queue().unwrap();
        manual.submit(&queue);
        let array = foreign(DeviceId::CPU).finish_on(&queue).unwrap();
        array.wait().unwrap();
        assert!(manual.is_idle(&queue), "{readiness:?}");
    }
}

// Requirement: SAF-10, SAF-11
#[test]
fn an_event_of_another_runtime_is_waited_for_and_not_shown() {
    let (manual, device) = Manual::open();
    let queue = device.open_queue().unwrap();
    let cuda = DeviceId::new(DeviceType::CUDA, 0);
    manual.submit(&queue);
    let event = queue.record().unwrap();
    let array = unsafe { foreign(cuda).finish_after(event.clone()) }.unwrap();
    assert_eq!(array.ready(), Ready::AfterEvent);
    assert!(!array.is_ready().unwrap());
    let mut c_array = ArrowDeviceArray::empty();
    assert_eq!(array.export(&mut c_array).unwrap_err().kind(), ErrorKind::NotReady);
    array.export_settled(&mut c_array).unwrap();
    assert!(c_array.sync_event.is_null() && manual.is_idle(&queue));
    drop(unsafe { Array::import(&mut c_array, &array.schema().unwrap()) }.unwrap());

    // The device's own goes out as it is.
    let array = unsafe { foreign(device.id()).finish_after(event.clone()) }.unwrap();
    array.export(&mut c_array).unwrap();
    assert_eq!(shown_event(c_array.sync_event), event.raw().bits());
    drop(unsafe { Array::import(&mut c_array, &array.schema().unwrap()) }.unwrap());
}

// Requirement: SAF-2
#[test]
fn no_part_is_made_of_what_may_be_a_handle() {
    let part_on = |device_type| {
        let device = DeviceId::new(device_type, 4_000_000);
        let base = std::ptr::without_provenance(0x10_000);
        // SAFETY: nobody reads there.
        let buffer = unsafe { Buffer::foreign(device, base, 4096, ()) };
        let part = buffer.slice(1024, 64).unwrap();
        Array::builder(DataType::UInt8).len(64).buffers([None, Some(part)]).finish_ready()
    };
    // No device is open by these ids.
    for device_type in [DeviceType::OPENCL, DeviceType::VULKAN, DeviceType::EXT_DEV] {
        assert_eq!(part_on(device_type).unwrap_err().kind(), ErrorKind::Unsupported);
    }
    part_on(DeviceType::CUDA).unwrap();
}
