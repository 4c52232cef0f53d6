//! The demonstration: a producer hands a record batch to a consumer, which hands a part of one column back.
//!
//! The two know nothing of each other. All that passes between them is the C structs declared here, as it would between two
//! libraries in different languages.

use std::io::Write;

use crate::consumer::Consumer;
use crate::producer::Producer;
use crate::{Outcome, consumer, producer};
use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};

/// Runs it, telling each step.
pub(crate) fn run(out: &mut dyn Write) -> Outcome {
    let producer = Producer::default();
    let (mut schema, mut array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    producer.hand_over(&mut schema, &mut array)?;
    writeln!(
        out,
        "1. The producer built a record batch of {} rows in {} buffers of its own and exported it as one ArrowSchema and one \
         ArrowDeviceArray on device type {}.",
        array.array.length,
        producer.buffers_alive(),
        array.device_type
    )?;

    // SAFETY: the producer filled both structs as the interface asks.
    let consumer = unsafe { Consumer::take(&mut schema, &mut array) }?;
    writeln!(
        out,
        "2. The consumer imported both without a copy; the structs it took them from are released: {}.",
        schema.is_released() && array.is_released()
    )?;
    let values = consumer::validate(consumer.batch())?;
    writeln!(
        out,
        "3. It validated the structure of {} columns and the data of all {values} values.",
        consumer.batch().column_count()
    )?;

    writeln!(out, "\n4. This is what it got:\n\n{}", consumer.batch().as_array().describe())?;
    writeln!(out, "5. And this is what it says:\n\n{}", consumer.batch().to_table(10)?)?;

    let (mut part_schema, mut part) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    let rows = producer::RETURNED_ROWS;
    consumer.hand_back(producer::RETURNED_COLUMN, rows.clone(), &mut part_schema, &mut part)?;
    drop(consumer);
    writeln!(
        out,
        "6. The consumer exported rows {} to {} of column `{}` and forgot everything else; {} of the producer's buffers are \
         still kept, because what was handed over at once is released at once.",
        rows.start,
        rows.end - 1,
        producer::RETURNED_COLUMN,
        producer.buffers_alive()
    )?;

    // SAFETY: the consumer filled both structs as the interface asks.
    let first = unsafe { producer.take_back(&mut part_schema, &mut part) }?;
    writeln!(
        out,
        "7. The producer imported them, found its own values from element {first} on in its own memory, and released them."
    )?;

    match producer.buffers_alive() + arrow_device::pending() + arrow_device::leaked() {
        0 => Ok(writeln!(out, "8. Everything was released once: nothing is left alive.")?),
        alive => Err(format!("{alive} things are still alive that nobody uses").into()),
    }
}
