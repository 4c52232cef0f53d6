//! A `VkDevice`, a queue and `VkBuffer`s that the application made with `ash`, shared with this
//! library: columns are made of the application's buffers, and the application's commands read
//! columns.
//!
//! `cargo run --package=example-ash`

mod engine;

use std::error::Error;
use std::sync::{Arc, Mutex};

use arrow_device::types::UInt32;
use arrow_device::{Array, Buffer, DataType};
use arrow_device_vulkan::{Handles, Placement, open_from};
use ash::vk::{self, Handle};
use engine::Engine;

const ROWS: usize = 1000;
const SIZE: u64 = (ROWS * size_of::<u32>()) as u64;

fn main() -> Result<(), Box<dyn Error>> {
    if let Err(why) = arrow_device_vulkan::is_available() {
        println!("skipped: {why}");
        return Ok(());
    }
    // The application's own: an instance, a device, a queue and its lock, two buffers.
    let engine = Engine::new()?;
    let (made, answer) = (engine.buffer(SIZE)?, engine.buffer(SIZE)?);

    // The library on the application's device, with its queue. Whoever submits holds the lock.
    let lock: Arc<Mutex<()>> = engine.lock.clone();
    let instance = engine.instance.handle().as_raw();
    let handles = Handles::new(instance, engine.physical.as_raw(), engine.device.handle().as_raw())
        .with_queue(engine.queue.as_raw(), engine.family, lock)
        .with_all_queues()
        .kept_by(engine.clone());
    // SAFETY: UNS-29 and UNS-30: the owner keeps the handles alive, the device was made for Vulkan
    // 1.2 with timeline semaphores, and `Engine::submit` holds the lock.
    let device = unsafe { open_from(handles, Placement::Automatic) }?;
    // The application gave one queue, so this is it.
    let queue = device.open_queue()?;
    assert_eq!(queue.raw().bits() as u64, engine.queue.as_raw());
    println!("opened {device:?} on the application's device");

    // A command of the application fills its buffer, and nobody waits for the command. The column
    // of the buffer comes behind what the queue was given by now.
    let handle = made.handle;
    let filled = engine.submit(|vulkan, commands| {
        // SAFETY: the commands are being recorded, and the buffer has this size.
        unsafe { vulkan.cmd_fill_buffer(commands, handle, 0, SIZE, 7) };
    })?;
    let base = std::ptr::without_provenance(handle.as_raw() as usize);
    // SAFETY: UNS-17: the buffer has this size, its owner keeps it, and nobody writes to it after
    // the command, which comes before the event of the array.
    let column = unsafe { Buffer::foreign(device.id(), base, SIZE, (made, filled)) };
    let sevens = Array::builder(DataType::UInt32)
        .len(ROWS)
        .buffers([None, Some(column)])
        .finish_on(&queue)?;
    let on_host = sevens.to_host()?;
    assert!(on_host.host()?.values::<u32>()?.iter().all(|value| value == Some(7)));

    // The other way round: a column that this library has copied to the device, for a command of
    // the application. The queue comes behind the column, and the view keeps it until the command
    // is done.
    let there = Array::of::<UInt32>((0..ROWS as u32).map(Some))?.copy_to(&queue)?;
    let view = there.on(&queue)?;
    let spot = view.buffer(1).location().spot();
    let column = vk::Buffer::from_raw(spot.base.bits() as u64);
    let copy = engine.submit(|vulkan, commands| {
        let all = [vk::BufferCopy { src_offset: spot.offset, dst_offset: 0, size: SIZE }];
        // SAFETY: the commands are being recorded, and both buffers have this size.
        unsafe { vulkan.cmd_copy_buffer(commands, column, answer.handle, &all) };
    })?;
    drop(view);
    copy.wait()?;
    let read: Vec<u32> = answer.read(ROWS)?;
    println!("the application's command has copied the column: {:?}, ...", read.get(..5));
    assert!(read.into_iter().eq(0..ROWS as u32));
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_example_runs() {
        if let Err(why) = arrow_device_vulkan::is_available() {
            return arrow_device_testkit::required::skip("vulkan", &why.to_string());
        }
        super::main().unwrap();
    }
}
