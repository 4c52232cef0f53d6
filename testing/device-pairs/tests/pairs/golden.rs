//! The Arrow project's golden streams, as device streams, from every place to every other: arrow-rs
//! reads them, and gets equal ones back.

use std::fs::File;
use std::path::Path;

use arrow_array_60::RecordBatch;
use arrow_device::{ArrayStream, Batch, DeviceType, Schema};
use arrow_device_arrow::v60::{FromArrow as _, ToArrow as _};
use arrow_device_testkit::golden;
use arrow_ipc::reader::StreamReader;
use device_pairs::World;

use crate::streams::{exchange, through};

/// Nearly all files have a few rows in all.
const MANY: usize = 30;

/// What a reader found in a file.
struct Read {
    name: String,
    schema: Schema,
    batches: Vec<RecordBatch>,
}

fn read(path: &Path) -> Result<Read, String> {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let said = |error: &dyn std::fmt::Display| format!("{name}: {error}");
    let file = File::open(path).map_err(|error| said(&error))?;
    let reader = StreamReader::try_new_buffered(file, None).map_err(|error| said(&error))?;
    let schema = Schema::from_arrow(&*reader.schema()).map_err(|error| said(&error))?;
    let batches: Result<Vec<RecordBatch>, _> = reader.collect();
    let batches = batches.map_err(|error| said(&error))?;
    Ok(Read { name, schema, batches })
}

/// All of them, as arrow-rs reads them. Prints which it does not read, and why; of the known ones
/// it reads all.
fn read_all() -> Vec<Read> {
    let (mut streams, mut unread) = (Vec::new(), Vec::new());
    for path in golden::streams() {
        match read(&path) {
            Ok(read) => streams.push(read),
            Err(why) => unread.push(why),
        }
    }
    for why in &unread {
        println!("skipped: arrow-rs does not read {why}");
    }
    assert!(unread.is_empty(), "{unread:#?}");
    streams
}

impl Read {
    fn stream(&self) -> ArrayStream {
        let batches: Vec<RecordBatch> = self.batches.clone();
        let batches = batches.into_iter().map(Batch::from_arrow);
        exchange(ArrayStream::new(self.schema.clone(), DeviceType::CPU, batches))
    }

    /// That a stream gives these batches, wherever they are.
    fn assert_is(&self, stream: ArrayStream, what: &str) {
        let name = &self.name;
        assert_eq!(stream.schema(), &self.schema, "{name}, {what}");
        let mut count = 0;
        for (number, batch) in stream.into_batches().enumerate() {
            let batch = batch.unwrap_or_else(|error| panic!("{name}, {what}: {error}"));
            let back = batch.to_host().and_then(|batch| batch.to_arrow());
            let back = back.unwrap_or_else(|error| panic!("{name}, {what}: {error}"));
            assert_eq!(back.schema(), self.batches[number].schema(), "{name}, {what}");
            assert_eq!(back, self.batches[number], "{name}, {what}, batch {number}");
            count += 1;
        }
        assert_eq!(count, self.batches.len(), "{name}, {what}");
    }
}

#[test]
fn golden_streams_go_from_every_place_to_every_other() {
    let world = World::new(12);
    for (number, read) in read_all().into_iter().enumerate() {
        // A file of many rows takes a few of the pairs, each others.
        let rows: usize = read.batches.iter().map(RecordBatch::num_rows).sum();
        let step = if rows > MANY { 41 } else { 1 };
        for (from, to) in world.pairs().skip(number % step).step_by(step) {
            let stream = through(through(read.stream(), &from.queue), &to.queue);
            read.assert_is(stream, &format!("{from:?} -> {to:?}"));
        }
    }
}

#[test]
fn golden_streams_go_through_a_chain_of_all_places() {
    let world = World::new(13);
    for (number, read) in read_all().into_iter().enumerate() {
        let mut stream = read.stream();
        let count = world.places.len();
        for index in 0..count {
            stream = through(stream, &world.places[(number + index) % count].queue);
        }
        read.assert_is(stream, "through all of them");
    }
}
