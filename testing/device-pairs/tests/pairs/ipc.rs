//! The Arrow project's golden streams as bytes: straight onto every device, from odd addresses, and
//! from there into the stream and the file format again.

use std::fs;

use arrow_device::{Batch, Buffer, Result};
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
