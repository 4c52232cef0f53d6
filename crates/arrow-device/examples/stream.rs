//! Streams: one side reads a file piece by piece, the other side takes each piece as it comes, and
//! neither knows the other.
//!
//! `cargo run --example stream`

use arrow_device::abi::{ArrowArrayStream, ArrowDeviceArrayStream};
use arrow_device::{
    Array, ArrayStream, Batch, DataType, DeviceType, Error, ErrorKind, Field, Result, Schema,
};

pub(crate) fn main() -> Result<()> {
    // The producer hands out a struct. Nothing is read from the file yet.
    let mut c_stream = ArrowDeviceArrayStream::empty();
    readings("7 21.5\n8 22.0\n\n9 23.5\n")?.export(&mut c_stream);

    // The consumer takes it over. The schema and the type of device are known before the first
    // batch.
    // SAFETY: it was just filled by a producer that keeps to the interface.
    let stream = unsafe { ArrayStream::import(&raw mut c_stream) }?;
    println!("{} on {}", stream.schema(), stream.device_type());
    let mut sum = 0.0;
    for batch in stream.into_batches() {
        let batch = batch?;
        let celsius = batch.column_by_name("celsius")?.host()?;
        let values = celsius.values::<f64>()?;
        println!("  {} rows: {:?}", batch.row_count(), values.iter().collect::<Vec<_>>());
        sum += values.iter().flatten().sum::<f64>();
    }
    assert_eq!(sum, 67.0);

    // What goes wrong on the way comes after what was good, and ends the stream.
    let mut c_stream = ArrowDeviceArrayStream::empty();
    readings("7 21.5\n\nlast week it was warmer\n")?.export(&mut c_stream);
    // SAFETY: it was just filled by a producer that keeps to the interface.
    let mut stream = unsafe { ArrayStream::import(&raw mut c_stream) }?;
    assert_eq!(stream.next().map(|batch| batch.map(|batch| batch.len())).transpose()?, Some(1));
    let Some(Err(error)) = stream.next() else { unreachable!("`last` is no number") };
    println!("failed: {error}");
    assert_eq!(error.errno(), ErrorKind::InvalidData.errno());
    assert!(stream.next().is_none());

    // On the host a stream can go to those, too, who have never heard of devices.
    let mut c_stream = ArrowArrayStream::empty();
    readings("7 21.5\n")?.export_host(&mut c_stream)?;
    // SAFETY: it was just filled by a producer that keeps to the interface.
    let stream = unsafe { ArrayStream::import_host(&raw mut c_stream) }?;
    assert_eq!(stream.count(), 1);
    Ok(())
}

/// Stands for a reader of files: lines with an hour and a temperature; an empty line ends a batch.
fn readings(file: &'static str) -> Result<ArrayStream> {
    let schema = Schema::batch([
        Field::new("hour", DataType::Int32, false),
        Field::new("celsius", DataType::Float64, false),
    ])?;
    let pieces = file.trim_end().split("\n\n");
    let batches = pieces.map({
        let schema = schema.clone();
        move |piece| batch(&schema, piece)
    });
    Ok(ArrayStream::new(schema, DeviceType::CPU, batches))
}

fn batch(schema: &Schema, piece: &str) -> Result<Batch> {
    let (mut hours, mut degrees) = (Vec::new(), Vec::new());
    for line in piece.lines() {
        let (hour, celsius) = line.split_once(' ').unwrap_or((line, ""));
        hours.push(Some(hour.parse::<i32>().map_err(|error| wrong(line, &error))?));
        degrees.push(Some(celsius.parse::<f64>().map_err(|error| wrong(line, &error))?));
    }
    let columns = [
        Array::from_values(DataType::Int32, hours)?,
        Array::from_values(DataType::Float64, degrees)?,
    ];
    Batch::new(schema.clone(), columns)
}

fn wrong(line: &str, error: &dyn std::error::Error) -> Error {
    Error::new(ErrorKind::InvalidData, format!("`{line}`: {error}"))
}
