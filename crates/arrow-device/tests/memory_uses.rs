//! What a safe caller does between two legal steps with memory: memory stays allocated, and an
//! array
//! of the memory is not ready, as long as a queue that was named may use it.
//!
//! A program of its own: these tests leave memory behind that is held back for ever.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block
)]

use arrow_device::deferred::{held_back, release_finished};
use std::sync::Arc;

use arrow_device::driver::Readiness;
use arrow_device::{Array, Buffer, DataType, Device, Field, Memory, Queue, Ready, Result};
use arrow_device_testkit::manual::{Manual, ManualCopies};
use arrow_device_testkit::{process, release_until};

/// A device with copies.
fn with_copies(copies: ManualCopies) -> (Manual, Device) {
    let (manual, device) = Manual::open();
    manual.set_copies(copies);
    (manual, device)
}

/// Memory that was written to through one queue, after the place was told for another one.
fn told_and_written(device: &Device, user: &Queue) -> Memory {
    let mut memory = device.allocate(64).unwrap();
    memory.spot(user).unwrap();
    memory.write(&device.open_queue().unwrap(), &[1; 64]).unwrap();
    memory
}

/// The memory is alive until the queue has passed what was submitted.
fn assert_kept_for(manual: &Manual, queue: &Queue) {
    assert!(!manual.is_idle(queue));
    assert_eq!(manual.live_memory(), 1, "freed while the queue writes");
    manual.complete(queue);
    assert!(release_until(|| manual.live_memory() == 0));
}

// Requirement: SAF-9, SAF-13
#[test]
fn an_array_waits_for_whoever_was_told_the_place_before_a_write() {
    let (manual, device) = with_copies(ManualCopies::Submitted);
    let user = device.open_queue().unwrap();
    let memory = told_and_written(&device, &user);
    manual.submit(&user);
    let buffers = [None, Some(memory.into_buffer())];
    let builder = Array::builder(DataType::Int64).len(8).buffers(buffers);
    let array = builder.finish_ready().unwrap();
    assert_eq!(array.ready(), Ready::AfterEvent);
    assert!(!array.is_ready().unwrap());
    drop(array);
    assert_kept_for(&manual, &user);
}

// Requirement: SAF-13
#[test]
fn memory_is_kept_for_whoever_was_told_the_place_before_a_write() {
    let (manual, device) = with_copies(ManualCopies::Submitted);
    let user = device.open_queue().unwrap();
    let memory = told_and_written(&device, &user);
    manual.submit(&user);
    drop(memory);
    assert_kept_for(&manual, &user);
}

// Requirement: SAF-13
#[test]
fn memory_is_kept_for_whoever_an_allocator_told_the_place() {
    let (manual, plain) = with_copies(ManualCopies::Submitted);
    let user = plain.open_queue().unwrap();
    let told = user.clone();
    let device = plain.with_allocator(move |plain: &Device, len, _: Option<&Queue>| {
        let mut memory = plain.allocate(len)?;
        memory.spot(&told)?;
        Ok(memory)
    });
    let queue = device.open_queue().unwrap();
    for in_order in [false, true] {
        let allocated = if in_order { queue.allocate(64) } else { device.allocate(64) };
        let mut memory = allocated.unwrap();
        memory.write(&queue, &[1; 64]).unwrap();
        manual.submit(&user);
        drop(memory);
        assert_kept_for(&manual, &user);
    }
}

// Requirement: SAF-13, SAF-30
#[test]
fn what_a_write_reads_is_kept_after_a_copy_that_failed() {
    process::alone(|| {
        for copies in [ManualCopies::Failing, ManualCopies::Panicking] {
            let (manual, device) = with_copies(copies);
            let before = held_back().in_use;
            let queue = device.open_queue().unwrap();
            let mut memory = device.allocate(64).unwrap();
            memory.write(&queue, &[1; 64]).unwrap_err();
            assert!(!manual.is_idle(&queue));
            assert_eq!(held_back().in_use, before + 1, "the source of the copy, {copies:?}");
            drop(memory);
            assert_eq!(
                held_back().in_use,
                before + 2,
                "the source and the destination, {copies:?}"
            );
            manual.complete(&queue);
            release_finished();
            assert_eq!(held_back().in_use, before);
        }
    });
}

/// Memory of somebody else's that a queue of a device writes.
struct Foreign {
    manual: Manual,
    device: Device,
    queue: Queue,
    owner: Arc<()>,
    buffer: Buffer,
}

impl Foreign {
    fn open(readiness: Readiness) -> Self {
        let (manual, device) = Manual::open_with(readiness);
        let queue = device.open_queue().unwrap();
        manual.submit(&queue);
        let owner = Arc::new(());
        let address = std::ptr::without_provenance(0x1000);
        let buffer = unsafe { Buffer::foreign(device.id(), address, 64, owner.clone()) };
        Self { manual, device, queue, owner, buffer }
    }

    /// What is done with the buffer leaves nothing of it to the caller, and the owner is kept for
    /// the queue.
    fn assert_kept_after(self, use_up: impl FnOnce(Buffer, &Device, &Queue)) {
        let Self { manual, device, queue, owner, buffer } = self;
        use_up(buffer, &device, &queue);
        assert!(!manual.is_idle(&queue));
        assert_eq!(Arc::strong_count(&owner), 2, "released while the queue writes");
        manual.complete(&queue);
        // Another test may have it in hand.
        assert!(release_until(|| Arc::strong_count(&owner) == 1));
    }
}

fn numbers_on(buffer: Buffer, len: usize, queue: &Queue) -> Result<Array> {
    Array::builder(DataType::Int64).len(len).buffers([None, Some(buffer)]).finish_on(queue)
}

// Requirement: SAF-13
#[test]
fn the_owner_of_a_buffer_is_kept_for_the_queue_that_writes_it() {
    Foreign::open(Readiness::Event).assert_kept_after(|buffer, _, queue| {
        drop(buffer.written_on(queue));
    });
    Foreign::open(Readiness::Event).assert_kept_after(|buffer, device, queue| {
        let idle = device.open_queue().unwrap();
        drop(buffer.written_on(queue).written_on(&idle).slice(8, 8).unwrap());
    });
}

// Requirement: SAF-13
#[test]
fn the_owner_of_an_array_in_the_order_of_a_queue_is_kept_for_the_queue() {
    Foreign::open(Readiness::QueueOrder).assert_kept_after(|buffer, _, queue| {
        let buffers = [None, Some(buffer.written_on(queue))];
        let builder = Array::builder(DataType::Int64).len(8).buffers(buffers);
        drop(builder.finish_ready().unwrap());
    });
    Foreign::open(Readiness::QueueOrder).assert_kept_after(|buffer, _, queue| {
        drop(numbers_on(buffer, 8, queue).unwrap());
    });
}

// Requirement: SAF-13, SAF-14
#[test]
fn the_owner_of_a_refused_array_is_kept_for_the_queue_that_was_named() {
    for readiness in [Readiness::Event, Readiness::QueueOrder, Readiness::HostWait] {
        Foreign::open(readiness).assert_kept_after(|buffer, _, queue| {
            numbers_on(buffer, 1000, queue).unwrap_err();
        });
    }
    let foreign = Foreign::open(Readiness::Event);
    let manual = foreign.manual.clone();
    foreign.assert_kept_after(|buffer, _, queue| {
        manual.refuse_to_record();
        numbers_on(buffer, 8, queue).unwrap_err();
    });
    Foreign::open(Readiness::Event).assert_kept_after(|buffer, _, queue| {
        let event = queue.record().unwrap();
        let builder = Array::builder(DataType::Int64).len(1000).buffers([None, Some(buffer)]);
        unsafe { builder.finish_after(event) }.unwrap_err();
    });
}

// Requirement: SAF-25
#[test]
fn a_queue_waits_once_for_each_event_of_children_that_share_them() {
    const COUNT: usize = if cfg!(miri) { 4 } else { 32 };
    let (manual, device) = Manual::open();
    let column = |_| {
        let queue = device.open_queue().unwrap();
        manual.submit(&queue);
        let address = std::ptr::without_provenance(0x1000);
        let buffer = unsafe { Buffer::foreign(device.id(), address, 64, ()) };
        numbers_on(buffer, 8, &queue).unwrap()
    };
    let structs = |of: DataType, children: Vec<Array>| {
        let field = |number| Field::new(format!("{number}"), of.clone(), false);
        let of = DataType::Struct((0..children.len()).map(field).collect::<Vec<_>>().into());
        Array::builder(of).buffers([None]).children(children)
    };
    let columns: Vec<_> = (0..COUNT).map(column).collect();
    let row = structs(DataType::Int64, columns).finish_ready().unwrap();
    assert_eq!(manual.wait_count(), 0);
    let rows = structs(row.data_type().clone(), vec![row; COUNT]);
    rows.finish_on(&device.open_queue().unwrap()).unwrap();
    assert_eq!(manual.wait_count(), COUNT);
}
