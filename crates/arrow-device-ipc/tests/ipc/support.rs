//! What several tests need.

use std::io::Cursor;

use arrow_array_60::RecordBatch;
use arrow_device::{Batch, Buffer, Result, Schema};
use arrow_device_ipc::{ReadOptions, StreamReader, StreamWriter, WriteOptions};
use arrow_device_testkit::consumer::require_buffers_of;

/// A stream of batches, as this crate writes it.
pub(crate) fn written(schema: &Schema, batches: &[Batch], options: WriteOptions) -> Vec<u8> {
    let mut writer = StreamWriter::new(Vec::new(), schema, options).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap()
}

/// The batches of a stream that is read.
pub(crate) fn read(bytes: &[u8]) -> Result<(Schema, Vec<Batch>)> {
    let reader = StreamReader::new(Cursor::new(bytes.to_vec()), ReadOptions::new())?;
    all_of(reader.schema().clone(), reader)
}

/// Schema and batches. Each batch is exported with the buffers that have bytes.
fn all_of(
    schema: Schema,
    batches: impl Iterator<Item = Result<Batch>>,
) -> Result<(Schema, Vec<Batch>)> {
    let batches: Vec<Batch> = batches.collect::<Result<_>>()?;
    for batch in &batches {
        require_buffers_of(batch.as_array()).unwrap();
    }
    Ok((schema, batches))
}

/// The batches of a stream that lies in memory, so many bytes behind an aligned address.
pub(crate) fn read_at(bytes: &[u8], shift: usize) -> Result<(Schema, Vec<Batch>)> {
    let moved: Vec<u8> = std::iter::repeat_n(0xee, shift).chain(bytes.iter().copied()).collect();
    let bytes = Buffer::from(moved).slice(shift as u64, bytes.len() as u64)?;
    let reader = StreamReader::in_memory(bytes, ReadOptions::new())?;
    all_of(reader.schema().clone(), reader)
}

/// The same, as arrow-rs reads a stream.
pub(crate) fn read_by_arrow(bytes: &[u8]) -> (arrow_schema_60::SchemaRef, Vec<RecordBatch>) {
    let reader = arrow_ipc::reader::StreamReader::try_new(Cursor::new(bytes), None).unwrap();
    (reader.schema(), reader.map(Result::unwrap).collect())
}
