//! The Arrow project's golden streams as bytes: straight onto every device, from odd addresses, and
//! from there into the stream and the file format again.

use std::fs;

use arrow_device::{Array, Batch, Buffer, DataType, Result};
use arrow_device_ipc::{
    Compression, FileReader, FileWriter, ReadOptions, StreamReader, StreamWriter, WriteOptions,
};
use arrow_device_testkit::golden;
use device_pairs::World;

/// A stream that lies one byte behind an aligned address.
fn reader(bytes: &[u8]) -> StreamReader {
    let moved = Buffer::from([&[0][..], bytes].concat());
    let bytes = moved.slice(1, bytes.len() as u64).unwrap();
    StreamReader::in_memory(bytes, ReadOptions::new()).unwrap()
}

fn assert_same(found: impl Iterator<Item = Result<Batch>>, expected: &[Batch], what: &str) {
    let found = found.map(|batch| batch.unwrap_or_else(|error| panic!("{what}: {error}")));
    let found: Vec<Batch> = found.collect();
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        let found = found.to_host().unwrap();
        assert!(found.as_array().equals(expected.as_array()).unwrap(), "{what}");
    }
}

#[test]
fn golden_streams_go_straight_onto_every_device_and_back() {
    let world = World::new(26);
    let packed = |compression| WriteOptions::new().alignment(8).compression(Some(compression));
    let options =
        [WriteOptions::new(), packed(Compression::Lz4), packed(Compression::Zstd { level: 1 })];
    for (number, path) in golden::streams().into_iter().enumerate() {
        let bytes = fs::read(&path).unwrap();
        let expected: Vec<Batch> = reader(&bytes).map(Result::unwrap).collect();
        let schema = reader(&bytes).schema().clone();
        for (place, row) in world.places.iter().enumerate() {
            let what = format!("{} on {row:?}", path.display());
            let there: Vec<Batch> =
                reader(&bytes).on(&row.queue).into_batches().collect::<Result<_>>().unwrap();
            assert_same(there.iter().cloned().map(Ok), &expected, &what);
            let options = options[(number + place) % options.len()];
            let mut stream = StreamWriter::new(Vec::new(), &schema, options).unwrap();
            there.iter().for_each(|batch| stream.write(batch).unwrap());
            let stream = stream.finish().unwrap();
            assert_same(reader(&stream), &expected, &what);
            // A file has no place for a dictionary that is replaced.
            let mut file = FileWriter::new(Vec::new(), &schema, options).unwrap();
            if there.iter().all(|batch| file.write(batch).is_ok()) {
                let file = Buffer::from(file.finish().unwrap());
                let file = FileReader::in_memory(file, ReadOptions::new()).unwrap();
                assert_same(file.on(&row.queue).into_batches(), &expected, &what);
            }
        }
    }
}

/// Columns of some hundred KiB that have to be changed where they are cut: bits, offsets, texts.
fn large() -> Batch {
    let rows = 20_000_i64;
    let texts: Vec<String> = (0..rows).map(|row| format!("row {row}")).collect();
    let flags = Array::from_bools((0..rows).map(|row| Some(row % 3 == 0)));
    let numbers = (0..rows).map(|row| (row % 7 > 0).then_some(row));
    let columns = [
        ("f", flags.unwrap()),
        ("n", Array::from_values(DataType::Int64, numbers).unwrap()),
        ("t", Array::from_texts(DataType::Utf8, texts.iter().map(|text| Some(&**text))).unwrap()),
    ];
    Batch::from_columns(columns).unwrap()
}

#[test]
fn large_batches_are_written_from_every_device_in_small_windows() {
    let (world, batch) = (World::new(27), large());
    let schema = batch.schema().unwrap();
    let write = |batch: &Batch, staging: u64| {
        let options = WriteOptions::new().staging(staging);
        let mut writer = StreamWriter::new(Vec::new(), &schema, options).unwrap();
        writer.write(batch).unwrap();
        writer.finish().unwrap()
    };
    for row in &world.places {
        let there = batch.copy_to(&row.queue).unwrap();
        for (start, rows) in [(0, 20_000), (1003, 17_501)] {
            let slice = |batch: &Batch| batch.slice(start, rows).unwrap();
            let expected = write(&slice(&batch), 1 << 20);
            for staging in [4 << 10, 64 << 10] {
                assert!(write(&slice(&there), staging) == expected, "{row:?} {start}+{rows}");
            }
        }
    }
}
