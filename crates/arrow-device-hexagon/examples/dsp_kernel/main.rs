//! A filter on a DSP over a column of integers, which two libraries exchange.
//!
//! The producer puts a column of 32-bit integers into memory that the DSP shares, and exports it.
//! The engine knows only the two C structs: it submits a command to the DSP that keeps the values
//! above a limit, and hands the result on as an array, in memory that the DSP has written. The
//! order of the engine's commands and of Arrow data is that of the engine's ring.
//!
//! The DSP is a stand-in: another process, with a program that does the commands of a ring in
//! shared memory. On a phone the ring is a `dspqueue` of Qualcomm's library.
//!
//! `cargo run -p arrow-device-hexagon --example dsp_kernel`
#![cfg(target_os = "linux")]

use std::error::Error;
use std::sync::Arc;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, DataType, Device, ErrorKind, Queue, Schema};
use arrow_device_hexagon::{Mapping, Opening, Ring, domain, open_with, place_of};
use simulated_hexagon::{Dsp, Work, memory};

pub(crate) const ROWS: i32 = 10_000;
pub(crate) const LIMIT: i32 = 990;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let dsp = match Dsp::start() {
        Ok(dsp) => dsp,
        Err(why) => {
            println!("skipped: {why}");
            return Ok(());
        }
    };
    // SAFETY: the functions are those of the stand-in, which is linked. An engine on a phone leaves
    // them out, and this crate loads the library.
    let opening = unsafe { Opening::new(domain::CDSP).with_functions(memory::functions()) };
    let opening = opening.with_ring(dsp.clone()).with_mapping(Mapping::WhileAllocated);
    let device = open_with(opening)?;
    println!("opened {device:?}");

    let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    produce(&device, &mut c_schema, &mut c_array)?;
    println!("the producer has exported {ROWS} integers");
    let kept = filter(&dsp, &device, &mut c_schema, &mut c_array)?;
    println!(
        "the DSP kept {} of them: {:?}, ...",
        kept.len(),
        kept.iter().take(5).collect::<Vec<_>>()
    );
    assert!(kept == expected());
    Ok(())
}

pub(crate) fn expected() -> Vec<i32> {
    (0..ROWS).map(|row| row % 1000).filter(|value| *value > LIMIT).collect()
}

/// Exports a column in memory of the DSP.
fn produce(
    device: &Device,
    c_schema: &mut ArrowSchema,
    c_array: &mut ArrowDeviceArray,
) -> arrow_device::Result<()> {
    let queue = device.open_queue()?;
    let values = (0..ROWS).map(|row| Some(row % 1000));
    let column = Array::from_values(DataType::Int32, values)?.copy_to(&queue)?;
    column.schema()?.export(c_schema)?;
    column.export(c_array)
}

/// Filters a column of which only the C structs are known, and reads the result.
fn filter(
    dsp: &Arc<Dsp>,
    device: &Device,
    c_schema: &mut ArrowSchema,
    c_array: &mut ArrowDeviceArray,
) -> arrow_device::Result<Vec<i32>> {
    // SAFETY: the structs were filled by a producer that keeps to the interface.
    let schema = unsafe { Schema::import(c_schema) }?;
    // SAFETY: the structs were filled by a producer that keeps to the interface.
    let column = unsafe { Array::import(c_array, &schema) }?;
    let (queue, rows) = (device.open_queue()?, column.len());
    let mut kept = queue.allocate(4 * rows as u64)?;
    let mut count = queue.allocate(4)?;

    // From here on to the end of the view, commands may read the column.
    let view = column.on(&queue)?;
    let from = place_of(view.buffer(1).location().spot()).ok_or_else(unknown)?;
    let to = place_of(kept.spot(&queue)?).ok_or_else(unknown)?;
    let how_many = place_of(count.spot(&queue)?).ok_or_else(unknown)?;
    let number = dsp.submit(Work::Filter(from, to, how_many, rows as u32, LIMIT));
    drop(view);
    println!("the engine has submitted command {number}: {:?}", dsp.progress(number));

    // SAFETY: UNS-33: the command writes the number.
    unsafe { count.assume_written(4) };
    // The number of rows is needed to make the array, so the engine waits for it.
    let count = of_integers(count, 1, &queue)?;
    let rows = integers(&count)?.first().copied().unwrap_or(0) as usize;
    // SAFETY: UNS-33: the command writes as many integers as it counts.
    unsafe { kept.assume_written(4 * rows as u64) };
    integers(&of_integers(kept, rows, &queue)?)
}

/// An array of integers that commands write.
fn of_integers(
    memory: arrow_device::Memory,
    len: usize,
    queue: &Queue,
) -> arrow_device::Result<Array> {
    let buffers = [None, Some(memory.into_buffer())];
    Array::builder(DataType::Int32).len(len).buffers(buffers).finish_on(queue)
}

/// Waits for an array, and reads it where it lies.
fn integers(array: &Array) -> arrow_device::Result<Vec<i32>> {
    array.wait()?;
    let view = array.host()?;
    let bytes = view.buffer(1)?;
    let (words, _) = bytes.as_chunks::<4>();
    Ok(words.iter().take(array.len()).map(|word| i32::from_ne_bytes(*word)).collect())
}

fn unknown() -> arrow_device::Error {
    arrow_device::Error::new(ErrorKind::NotReachable, "the DSP does not know this memory")
}
