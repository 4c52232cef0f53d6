//! A table that a compute shader makes, handed over before the shader has run.
//!
//! The application makes one Vulkan device and gives it to both halves. The producer submits a
//! shader that computes two columns, and exports the table with a `VkEvent` instead of waiting. The
//! consumer knows only the two C structs: it finds the device by the number in them, and reads the
//! right values, because it waits for the event. So that this cannot come out right by luck, the
//! producer's work is held back until the consumer is at it.
//!
//! `cargo run -p arrow-device-vulkan --example shader`

pub(crate) mod pipeline;
pub(crate) mod spirv;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, Batch, DataType, Device, Field, Memory, Schema};
use arrow_device_testkit::application::Attempt;
use arrow_device_testkit::application::vulkan::{HostEventGate, Vulkan};
use arrow_device_vulkan::{Handles, Placement, SubmitLock, open_for, open_from};
use ash::vk::Handle;
use pipeline::Squares;

pub(crate) const ROWS: usize = 1000;
const SIZE: u64 = (ROWS * size_of::<i32>()) as u64;

pub(crate) fn main() -> Attempt<()> {
    if let Err(why) = arrow_device_vulkan::is_available() {
        println!("skipped: {why}");
        return Ok(());
    }
    let vulkan = Vulkan::new(false)?;
    // SAFETY: the handles are kept alive by `vulkan`, which goes with them; whoever submits holds
    // its lock.
    let device = unsafe { open_from(handles(&vulkan), Placement::HostVisible) }?;
    println!("opened {device:?}");
    let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    let mut producer = produce(&vulkan, &device, &mut c_schema, &mut c_array)?;
    println!("the producer has exported a table that is not computed yet");

    let squares = Consumer::start(&mut c_schema, &mut c_array)?;
    assert!(!squares.is_there_within(Duration::from_millis(50))?);
    println!("the consumer waits");

    producer.gate.open()?;
    let squares = squares.finish()?;
    println!("the squares are {:?}, ...", squares.iter().take(5).collect::<Vec<_>>());
    assert!(squares == expected());
    Ok(())
}

/// What everybody who is to use the device has to be given.
pub(crate) fn handles(vulkan: &Arc<Vulkan>) -> Handles {
    let (instance, physical) = (vulkan.instance.handle().as_raw(), vulkan.physical.as_raw());
    let lock: Arc<dyn SubmitLock> = vulkan.lock.clone();
    // The device was made with this queue and no other.
    Handles::new(instance, physical, vulkan.device.handle().as_raw())
        .with_queue(vulkan.queue.as_raw(), vulkan.family, lock)
        .with_all_queues()
        .kept_by(vulkan.clone())
}

pub(crate) fn expected() -> Vec<i32> {
    (0..ROWS as i32).map(|row| row * row).collect()
}

/// What the producer has submitted, and what holds it back.
pub(crate) struct Producer {
    /// Dropped first, so that the rest can come to its end.
    pub(crate) gate: HostEventGate,
    _shader: Squares,
}

/// Submits the shader behind a gate and exports the table without waiting.
pub(crate) fn produce(
    vulkan: &Arc<Vulkan>,
    device: &Device,
    c_schema: &mut ArrowSchema,
    c_array: &mut ArrowDeviceArray,
) -> Attempt<Producer> {
    let queue = device.open_queue()?;
    let column = || -> Attempt<(Memory, u64)> {
        let mut memory = queue.allocate(SIZE)?;
        // What is there as long as the shader has not run.
        memory.write(&queue, &[0xff; SIZE as usize])?;
        let buffer = memory.spot(&queue)?.base.bits() as u64;
        Ok((memory, buffer))
    };
    let (numbers, numbers_buffer) = column()?;
    let (squares, squares_buffer) = column()?;

    let shader = Squares::new(vulkan, [numbers_buffer, squares_buffer], ROWS as u32)?;
    let gate = HostEventGate::before(vulkan)?;
    // On the `VkQueue` that the library's queue is, so that its event comes behind it.
    shader.submit()?;

    let array = |memory: Memory| {
        let buffers = [None, Some(memory.into_buffer())];
        Array::builder(DataType::Int32).len(ROWS).buffers(buffers).finish_on(&queue)
    };
    let schema =
        Schema::batch(["number", "square"].map(|name| Field::new(name, DataType::Int32, false)))?;
    let batch = Batch::new(schema, [array(numbers)?, array(squares)?])?;
    batch.schema()?.export(c_schema)?;
    batch.export_on(&queue, c_array)?;
    Ok(Producer { gate, _shader: shader })
}

/// A consumer that reads the second column on the host, on a thread of its own.
///
/// (On a device with a single queue, work that it submitted there would come after the producer's
/// anyway.)
pub(crate) struct Consumer {
    squares: Receiver<std::result::Result<Vec<i32>, String>>,
    early: std::cell::OnceCell<Vec<i32>>,
}

impl Consumer {
    /// Takes the table over and has it read.
    pub(crate) fn start(
        c_schema: &mut ArrowSchema,
        c_array: &mut ArrowDeviceArray,
    ) -> Attempt<Self> {
        // By the convention for Vulkan's device type the number is the `VkDevice`, which the
        // application gave to everybody.
        let device = open_for(c_array.device_id)?;
        // SAFETY: both structs were filled by a producer that keeps to the interface.
        let schema = unsafe { Schema::import(c_schema) }?;
        // SAFETY: both structs were filled by a producer that keeps to the interface.
        let batch = unsafe { Batch::import(c_array, &schema) }?;
        let (sender, squares) = channel();
        std::thread::spawn(move || {
            let read = squares_of(&batch).map_err(|error| error.to_string());
            // The table is let go of before anybody hears of its values.
            drop((batch, device));
            let _ = sender.send(read);
        });
        Ok(Self { squares, early: std::cell::OnceCell::new() })
    }

    pub(crate) fn is_there_within(&self, time: Duration) -> Attempt<bool> {
        match self.squares.recv_timeout(time) {
            Ok(squares) => Ok(self.early.set(squares?).is_ok()),
            Err(RecvTimeoutError::Timeout) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn finish(self) -> Attempt<Vec<i32>> {
        match self.early.into_inner() {
            Some(squares) => Ok(squares),
            None => Ok(self.squares.recv()??),
        }
    }
}

/// Waits for the table's event and reads its second column.
fn squares_of(batch: &Batch) -> Attempt<Vec<i32>> {
    let table = batch.as_array().to_host()?;
    let host = table.host()?;
    let bytes = host.child(1)?.buffer(1)?.to_vec();
    let values = bytes.chunks_exact(size_of::<i32>()).take(ROWS);
    Ok(values.map(|value| i32::from_ne_bytes(value.try_into().unwrap_or_default())).collect())
}
