//! Record batches: columns of one length under one schema, with metadata, a dictionary, and parts
//! that are handed on.
//!
//! `cargo run --example record_batch`

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, Batch, DataType, Field, IndexType, Metadata, Result, Schema};

pub(crate) fn main() -> Result<()> {
    // The schema says what the columns are. Its own metadata is that of the batch.
    let columns = [
        Field::new("time", DataType::Int64, false),
        Field::new("symbol", DataType::dictionary(IndexType::Int8, DataType::Utf8), false),
        Field::new("price", DataType::Float64, true),
    ];
    let metadata = Metadata::from_pairs([("source", "exchange 7")])?;
    let rows = Field::new("", DataType::struct_(columns), false).with_metadata(metadata);
    let schema = Schema::new(rows)?;
    println!("{schema}");

    let batch = Batch::new(schema, [times()?, symbols()?, prices()?])?;
    println!("made {batch:?}");
    assert_eq!((batch.row_count(), batch.column_count()), (4, 3));

    // A part of a batch is a batch. Its columns are parts of the columns; no byte is copied.
    let part = batch.slice(1, 2)?;
    assert_eq!(part.column_by_name("price")?.offset(), 1);

    // It travels as one struct, whatever its number of columns, and comes back as what it was. The
    // offset is that of the columns, because some consumers refuse a batch with one.
    let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    part.schema()?.export(&mut c_schema)?;
    part.export(&mut c_array)?;
    drop((batch, part));
    assert_eq!((c_array.array.length, c_array.array.offset, c_array.array.n_children), (2, 0, 3));
    // SAFETY: just exported.
    let schema = unsafe { Schema::import(&raw mut c_schema) }?;
    // SAFETY: just exported, for this schema.
    let again = unsafe { Batch::import(&raw mut c_array, &schema) }?;
    println!("came back as {again:?}");
    assert_eq!(schema.metadata().get("source"), Some("exchange 7".as_bytes()));

    // Reading one column: the keys of the two rows lead to values that all rows share.
    let symbols = again.column_by_name("symbol")?;
    let (first, rows) = (symbols.offset(), symbols.len());
    let symbols = symbols.host()?;
    let keys = symbols.buffer(1)?;
    let names = symbols.dictionary().map(|names| text(&names)).transpose()?.unwrap_or_default();
    let read = keys.iter().skip(first).take(rows);
    let read: Vec<_> = read.filter_map(|key| names.get(usize::from(*key)).cloned()).collect();
    println!("symbols of rows 1 and 2: {read:?}");
    assert_eq!(read, ["ARW", "DEV"]);
    Ok(())
}

fn times() -> Result<Array> {
    let values = vec![1_700_000_000_i64, 1_700_000_001, 1_700_000_002, 1_700_000_003];
    Array::builder(DataType::Int64).len(4).buffers([None, Some(values.into())]).finish_ready()
}

fn symbols() -> Result<Array> {
    let names = Array::builder(DataType::Utf8)
        .len(2)
        .buffers([None, Some(vec![0_i32, 3, 6].into()), Some(b"ARWDEV".to_vec().into())])
        .finish_ready()?;
    Array::builder(DataType::dictionary(IndexType::Int8, DataType::Utf8))
        .len(4)
        .buffers([None, Some(vec![1_i8, 0, 1, 1].into())])
        .dictionary(names)
        .finish_ready()
}

/// The third is null.
fn prices() -> Result<Array> {
    let values = vec![99.5_f64, 101.25, 0.0, 98.0];
    Array::builder(DataType::Float64)
        .len(4)
        .null_count(1)
        .buffers([Some(vec![0b1011_u8].into()), Some(values.into())])
        .finish_ready()
}

/// The elements of a text column.
fn text(column: &arrow_device::HostArray) -> Result<Vec<String>> {
    let (offsets, bytes) = (column.buffer(1)?, column.buffer(2)?);
    let (offsets, _) = offsets.as_chunks();
    let offsets: Vec<_> = offsets.iter().map(|end| i32::from_ne_bytes(*end) as usize).collect();
    let pairs = offsets.iter().zip(offsets.iter().skip(1));
    let elements = pairs.map(|(from, to)| bytes.get(*from..*to).unwrap_or_default());
    Ok(elements.map(|element| String::from_utf8_lossy(element).into_owned()).collect())
}
