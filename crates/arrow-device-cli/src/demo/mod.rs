//! The demonstration: a producer hands a record batch on a device to a consumer, which hands a part of one column back.
//!
//! The two know nothing of each other. All that passes between them is the C structs declared here, as it would between two
//! libraries in different languages. The device is made of software, so the demonstration runs everywhere; it watches what
//! both do, and complains of whatever a real device would punish by chance.

use std::io::Write;
use std::time::Duration;

use crate::consumer::Consumer;
use crate::producer::Producer;
use crate::{Outcome, consumer, producer};
use arrow_device::Queue;
use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device_sim::Sim;

/// Runs it, telling each step.
pub(crate) fn run(out: &mut dyn Write) -> Outcome {
    let sim = Sim::builder().build();
    exchange(&sim, out)?;
    arrow_device::drain(Duration::from_secs(10))?;
    match sim.finish().as_slice() {
        [] => Ok(writeln!(
            out,
            "   The software device watched all of it and has nothing to report."
        )?),
        [first, ..] => Err(format!("the software device reports: {first}").into()),
    }
}

fn exchange(sim: &Sim, out: &mut dyn Write) -> Outcome {
    let producer = Producer::default();
    let producers_queue = sim.device().open_queue()?;
    let (mut schema, mut array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    producer.hand_over(&producers_queue, &mut schema, &mut array)?;
    writeln!(
        out,
        "1. The producer built a record batch of {} rows in {} buffers on the host, and told a queue of the software device to\n   \
         copy it there. It exported it as one ArrowSchema and one ArrowDeviceArray of device type {}.\n   \
         The copy has not run yet: {}.",
        array.array.length,
        producer.buffers_alive(),
        array.device_type,
        if array.sync_event.is_null() { "it is ready" } else { "an event goes along" }
    )?;

    // SAFETY: the producer filled both structs as the interface asks.
    let consumer = unsafe { Consumer::take(&mut schema, &mut array) }?;
    writeln!(
        out,
        "2. The consumer imported both: nothing copied, nothing read, nothing waited for.\n   \
         The structs it took them from are released: {}. The data is ready: {}.",
        schema.is_released() && array.is_released(),
        consumer.batch().as_array().is_ready()?
    )?;
    let fetched = consumer.fetch()?;
    writeln!(
        out,
        "3. Its own queue waited for the event and copied the batch from {} to {}.",
        consumer.batch().device(),
        fetched.device()
    )?;
    let values = consumer::validate(&fetched)?;
    writeln!(
        out,
        "4. It validated the structure of {} columns and the data of all {values} values.",
        fetched.column_count()
    )?;

    writeln!(out, "\n5. This is what it got:\n\n{}", consumer.batch().as_array().describe())?;
    writeln!(out, "6. And this is what it says:\n\n{}", fetched.to_table(10)?)?;

    hand_back(&producer, &producers_queue, consumer, out)?;
    drop(fetched);
    drop(producers_queue);
    arrow_device::drain(Duration::from_secs(10))?;
    match producer.buffers_alive() as u64 + sim.allocated() + arrow_device::leaked() as u64 {
        0 => Ok(writeln!(
            out,
            "9. Everything was released once, on the host and on the device: nothing is left alive."
        )?),
        alive => Err(format!("{alive} things are still alive that nobody uses").into()),
    }
}

fn hand_back(
    producer: &Producer,
    queue: &Queue,
    consumer: Consumer,
    out: &mut dyn Write,
) -> Outcome {
    let (mut schema, mut part) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    let (column, rows) = (producer::RETURNED_COLUMN, producer::RETURNED_ROWS);
    consumer.hand_back(column, rows.clone(), &mut schema, &mut part)?;
    drop(consumer);
    writeln!(
        out,
        "7. The consumer exported rows {} to {} of column `{column}`, where they are on the device, and forgot all else.",
        rows.start,
        rows.end - 1
    )?;
    // SAFETY: the consumer filled both structs as the interface asks.
    unsafe { producer.take_back(queue, &mut schema, &mut part) }?;
    writeln!(out, "8. The producer imported them, found its own values, and released them.")?;
    Ok(())
}
