//! The fuzz target `ipc`: any bytes as a stream or as a file, read in every way.
//!
//! The first byte says how the rest is read. Whatever is read without an error is written again,
//! which is an error or an end; where it is valid, packed and not, it is the same when that is
//! read, and a device that has it writes the bytes that the host does.

use std::io::Cursor;

use arrow_device::{Array, Batch, Buffer, Result, Schema};
use arrow_device_ipc::{
    Compression, FileReader, ReadOptions, StreamReader, StreamWriter, WriteOptions,
};
use arrow_device_sim::{Kind, Sim};

/// No input has more batches that are worth reading.
const MOST_BATCHES: usize = 20;

/// Reads the bytes, and panics where a promise is broken.
pub(crate) fn ipc(bytes: &[u8]) {
    let Some((how, bytes)) = bytes.split_first() else { return };
    let options = ReadOptions::new().max_unpacked(1 << 22).max_dictionaries(1 << 22);
    let options = options.validate(how & 1 != 0);
    let options = if how & 2 != 0 { options.columns([1, 0]) } else { options };
    // Behind an odd address, and behind an even one.
    let start = usize::from(how & 4 != 0);
    let moved = [&[0][..], bytes].concat();
    let in_memory = Buffer::from(moved).slice(start as u64, (bytes.len() + 1 - start) as u64);
    let Ok(in_memory) = in_memory else { return };
    let read = match how & 24 {
        0 => from_stream(StreamReader::new(Cursor::new(bytes.to_vec()), options)),
        8 => from_stream(StreamReader::in_memory(in_memory, options)),
        _ => from_file(FileReader::in_memory(in_memory, options)),
    };
    let Ok((schema, batches)) = read else { return };
    let packing = (how & 32 != 0).then_some(Compression::Lz4);
    for batch in &batches {
        let _ = StreamWriter::new(Vec::new(), &schema, WriteOptions::new())
            .and_then(|mut writer| writer.write(batch));
        if batch.as_array().validate().is_ok() {
            comes_back(&schema, batch, packing);
        }
    }
    if how & 64 != 0
        && let Some(batch) = batches.first()
    {
        let kind = if how & 128 != 0 { Kind::WholeUnits } else { Kind::Discrete };
        goes_through_a_device(&schema, batch, kind, packing);
    }
}

/// Repeated until a device does not copy it at once, where that can be done, and written there.
fn goes_through_a_device(schema: &Schema, batch: &Batch, kind: Kind, packing: Option<Compression>) {
    if batch.column_count() == 0 || batch.row_count() > 100_000 {
        return;
    }
    let times = 1 + 2000 / batch.row_count().max(10);
    let whole = Array::concat(&vec![batch.as_array().clone(); times]);
    let whole = whole.and_then(Batch::try_from).unwrap_or_else(|_| batch.clone());
    let sim = Sim::builder().kind(kind).backtraces(false).build();
    let written = || -> Result<[Vec<u8>; 2]> {
        let there = whole.copy_to(&sim.device().open_queue()?)?;
        let rows = there.row_count();
        let there = there.slice(rows / 7, rows - rows / 5)?;
        let options = WriteOptions::new().alignment(8).staging(4096).compression(packing);
        let write = |batch: &Batch| {
            let mut writer = StreamWriter::new(Vec::new(), schema, options)?;
            writer.write(batch)?;
            writer.finish()
        };
        Ok([write(&there)?, write(&there.to_host()?)?])
    };
    if let Ok([there, here]) = written() {
        assert!(there == here, "{} and {} bytes of {schema}", there.len(), here.len());
    }
    assert!(sim.finish().is_empty());
}

fn from_stream(reader: Result<StreamReader>) -> Result<(Schema, Vec<Batch>)> {
    let reader = reader?;
    let schema = reader.schema().clone();
    Ok((schema, reader.take(MOST_BATCHES).filter_map(Result::ok).collect()))
}

fn from_file(reader: Result<FileReader>) -> Result<(Schema, Vec<Batch>)> {
    let reader = reader?;
    let batches = reader.batches(0..reader.batch_count().min(MOST_BATCHES));
    Ok((reader.schema().clone(), batches.filter_map(Result::ok).collect()))
}

fn comes_back(schema: &Schema, batch: &Batch, packing: Option<Compression>) {
    // A column of a struct that has no column says nothing of its length.
    if batch.column_count() == 0 {
        return;
    }
    let options = WriteOptions::new().alignment(8).compression(packing);
    let mut writer = StreamWriter::new(Vec::new(), schema, options).unwrap();
    writer.write(batch).unwrap();
    let bytes = writer.finish().unwrap();
    let mut reader = StreamReader::new(Cursor::new(bytes), ReadOptions::new()).unwrap();
    let again = reader.next().unwrap().unwrap();
    assert!(again.as_array().equals(batch.as_array()).unwrap_or(true), "{again:?}");
}
