//! Memory of somebody else's allocator, which is there in the order of a queue.

use std::sync::Mutex;

use arrow_device::copy::Options;
use arrow_device::dlpack::{Conversion, CopyPolicy};
use arrow_device::driver::{Raw, Region, Route, Spot};
use arrow_device::{Array, Batch, DataType, Device, Memory, Queue, Recycler};

use crate::device::{self, Abilities};

/// An allocator that gives out one block, however long it is.
fn giving(block: Memory) -> impl Fn(&Device, u64, Option<&Queue>) -> arrow_device::Result<Memory> {
    let block = Mutex::new(Some(block));
    move |device, len, queue| {
        let next = || queue.map_or_else(|| device.allocate(len), |queue| queue.allocate(len));
        block.lock().unwrap().take().map_or_else(next, Ok)
    }
}

// Requirement: SAF-8
#[test]
fn the_host_does_not_write_to_memory_that_a_queue_still_reads() {
    let (device, state) = device::open_with(50, Abilities { fill: true, ..Abilities::default() });
    let queue = device.open_queue().unwrap();
    let mut block = device.allocate(64).unwrap();
    block.write(&queue, &[0x11; 64]).unwrap();
    let mut seen = vec![0_u8; 64];
    let from = block.spot(&queue).unwrap();
    let to = Spot { base: Raw::from_ptr(seen.as_mut_ptr().cast()), offset: 0 };
    unsafe { queue.copy(Route::ToHost, &[Region { from, to, len: 64 }]) }.unwrap();
    // In the order of the queue the block is free again.
    let adopted = unsafe { Memory::adopt(&device, from.base, 64, block) };
    let there = device.with_allocator(giving(adopted));
    let values = || Array::from_values(DataType::Int64, (0..8_i64).map(Some)).unwrap();
    let array = values().copy_to(&of(&there, &queue)).unwrap();
    queue.synchronize().unwrap();
    assert_eq!(seen, [0x11; 64], "the host wrote before the queue had read");
    assert!(array.to_host().unwrap().equals(&values()).unwrap());
    assert_eq!(state.lock().unwrap().fills, 0);
    // What the driver allocates, the host fills.
    values().copy_to(&queue).unwrap();
    assert_eq!(state.lock().unwrap().fills, 1);
}

// Requirement: SAF-8
#[test]
fn the_host_does_not_write_to_memory_that_its_allocator_still_uses() {
    let (device, state) = device::open_with(51, Abilities { fill: true, ..Abilities::default() });
    let queue = device.open_queue().unwrap();
    let work = queue.clone();
    // Of the driver, and filled with a pattern by whoever gives it out.
    let options = Options::new().allocator(move |_: &Device, len: u64, _: Option<&Queue>| {
        let mut memory = work.allocate(len)?;
        static PATTERN: [u8; 64] = [0x33; 64];
        let from = Spot { base: Raw::from_ptr(PATTERN.as_ptr().cast_mut().cast()), offset: 0 };
        let region = Region { from, to: memory.spot(&work)?, len };
        unsafe { work.copy(Route::FromHost, &[region]) }?;
        Ok(memory)
    });
    let values = Array::from_values(DataType::Int64, (0..8_i64).map(Some)).unwrap();
    let array = values.copy_with(&queue, &options).unwrap();
    assert!(array.to_host().unwrap().equals(&values).unwrap());
    assert_eq!(state.lock().unwrap().fills, 0);
}

// Requirement: SAF-1
#[test]
fn nothing_that_lies_between_the_columns_of_a_copy_is_shown() {
    let recycler = Recycler::new(1 << 16);
    let device = Device::host().with_allocator(recycler.clone());
    let mut last = device.allocate(88).unwrap();
    last.write(&Queue::host(), &[0x5a; 88]).unwrap();
    drop(last);
    let column = || Array::from_values(DataType::Int64, (0..3_i64).map(Some)).unwrap();
    let batch = Batch::from_columns([("a", column()), ("b", column())]).unwrap();
    let options = Options::new().always(true).allocator(recycler);
    let copied = batch.copy_with(&Queue::host(), &options).unwrap();
    // A matrix lies over both columns, and over what is between them.
    let shared = Conversion::new().copying(CopyPolicy::Never);
    let matrix = copied.to_tensor(&shared).unwrap();
    let numbers = matrix.host().unwrap().to_vec::<i64>().unwrap();
    assert_eq!(numbers, [0, 0, 1, 1, 2, 2]);
    let columns = matrix.to_batch(["a", "b"], &shared).unwrap();
    let host = columns.column(1).unwrap().host().unwrap();
    let bytes = host.buffer(1).unwrap().to_vec();
    assert_eq!(bytes, [0_i64, 1, 2].map(i64::to_ne_bytes).concat());
}

/// The same queue on a device with an allocator.
fn of(device: &Device, queue: &Queue) -> Queue {
    unsafe { device.adopt_queue_of(queue.raw(), queue.clone()) }
}
