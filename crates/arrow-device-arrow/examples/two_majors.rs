//! A library built with arrow-rs 58 hands a record batch to one built with arrow-rs 60, in one
//! process.
//!
//! To the compiler their types have nothing in common. What crosses is two C structs, and the
//! numbers stay where they are.

use std::sync::Arc;

use arrow_array_58::builder::{Float64Builder, StringDictionaryBuilder};
use arrow_array_58::types::Int32Type;
use arrow_array_60::cast::AsArray as _;
use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{Batch, Result, Schema};
use arrow_device_arrow::{v58, v60};

/// Measurements of two sensors, as the library with arrow-rs 58 keeps them.
fn measurements() -> Result<arrow_array_58::RecordBatch, arrow_schema_58::ArrowError> {
    let mut sensors = StringDictionaryBuilder::<Int32Type>::new();
    let mut values = Float64Builder::new();
    for (sensor, value) in [("roof", Some(21.5)), ("cellar", Some(11.25)), ("roof", None)] {
        sensors.append_value(sensor);
        values.append_option(value);
    }
    let columns: [(&str, arrow_array_58::ArrayRef); 2] =
        [("sensor", Arc::new(sensors.finish())), ("celsius", Arc::new(values.finish()))];
    arrow_array_58::RecordBatch::try_from_iter(columns)
}

/// The library with arrow-rs 58 fills the structs.
fn produce(
    batch: &arrow_array_58::RecordBatch,
    c_schema: &mut ArrowSchema,
    c_array: &mut ArrowDeviceArray,
) -> Result<()> {
    use v58::FromArrow as _;
    let batch = Batch::from_arrow(batch.clone())?;
    batch.schema()?.export(c_schema)?;
    batch.export(c_array)
}

/// The library with arrow-rs 60 takes them over.
///
/// # Safety
/// As for [`Batch::import`].
unsafe fn consume(
    c_schema: &mut ArrowSchema,
    c_array: &mut ArrowDeviceArray,
) -> Result<arrow_array_60::RecordBatch> {
    use v60::ToArrow as _;
    // SAFETY: what `Batch::import` asks for, which the caller promises.
    let schema = unsafe { Schema::import(c_schema) }?;
    // SAFETY: what `Batch::import` asks for, which the caller promises.
    let batch = unsafe { Batch::import(c_array, &schema) }?;
    batch.to_arrow()
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let produced = measurements()?;
    let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    produce(&produced, &mut c_schema, &mut c_array)?;
    // SAFETY: both structs were filled just now.
    let consumed = unsafe { consume(&mut c_schema, &mut c_array) }?;

    let sent = arrow_array_58::cast::AsArray::as_primitive::<arrow_array_58::types::Float64Type>(
        produced.column(1),
    );
    let received = consumed.column(1).as_primitive::<arrow_array_60::types::Float64Type>();
    assert_eq!(sent.values().as_ptr(), received.values().as_ptr(), "the numbers did not move");

    drop(produced);
    println!("{} rows of {:?}", consumed.num_rows(), consumed.schema().fields());
    println!("{received:?}");
    Ok(())
}
