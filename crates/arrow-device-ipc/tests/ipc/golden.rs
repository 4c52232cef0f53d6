//! The Arrow project's golden streams.

use std::fs;

use arrow_device::Batch;
use arrow_device_arrow::v60::ToArrow as _;
use arrow_device_ipc::{Compression, WriteOptions};
use arrow_device_testkit::golden;

use crate::support::{read, read_at, read_by_arrow, written};

/// How a stream is written again.
fn options() -> [WriteOptions; 4] {
    let packed = |compression| WriteOptions::new().compression(Some(compression));
    [
        WriteOptions::new(),
        WriteOptions::new().alignment(8),
        packed(Compression::Lz4),
        packed(Compression::Zstd { level: 3 }),
    ]
}

#[test]
fn golden_streams_are_what_arrow_rs_reads() {
    for path in golden::streams() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = fs::read(&path).unwrap();
        let (schema, expected) = read_by_arrow(&bytes);
        for shift in [0, 1, 3, 8] {
            let (ours, batches) = match shift {
                0 => read(&bytes).unwrap_or_else(|error| panic!("{name}: {error}")),
                _ => read_at(&bytes, shift).unwrap_or_else(|error| panic!("{name}: {error}")),
            };
            // Pairs of metadata have no order in arrow-rs.
            assert_eq!(ours.to_arrow().unwrap(), schema, "{name}");
            assert_eq!(batches.len(), expected.len(), "{name}");
            for (number, (batch, expected)) in batches.iter().zip(&expected).enumerate() {
                batch.as_array().validate().unwrap_or_else(|error| panic!("{name}: {error}"));
                let theirs = batch.to_arrow().unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(&theirs, expected, "{name}, batch {number}");
            }
        }
    }
}

#[test]
fn golden_streams_are_written_so_that_arrow_rs_reads_them_as_before() {
    for path in golden::streams() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = fs::read(&path).unwrap();
        let (schema, expected) = read_by_arrow(&bytes);
        let (ours, batches) = read(&bytes).unwrap();
        for options in options() {
            let again = written(&ours, &batches, options);
            let (theirs, found) = read_by_arrow(&again);
            assert_eq!(theirs, schema, "{name}");
            assert_eq!(found, expected, "{name} {options:?}");
            let (again, found) = read(&again).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(again, ours, "{name}");
            let same =
                |one: &Batch, other: &Batch| one.as_array().equals(other.as_array()).unwrap();
            assert!(found.iter().zip(&batches).all(|(one, other)| same(one, other)), "{name}");
        }
    }
}

#[test]
fn slices_of_golden_streams_are_cut_as_arrow_rs_reads_them() {
    for path in golden::streams() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let (schema, batches) = read(&fs::read(&path).unwrap()).unwrap();
        for batch in batches {
            let rows = batch.row_count();
            let windows = [(0, rows), (1, rows.saturating_sub(1)), (rows / 3, rows / 2), (rows, 0)];
            for (start, len) in windows.into_iter().filter(|(start, len)| start + len <= rows) {
                let slice = batch.slice(start, len).unwrap();
                let expected = batch.to_arrow().unwrap().slice(start, len);
                for cuts in [false, true] {
                    let options = WriteOptions::new().cut_views(cuts);
                    let bytes = written(&schema, std::slice::from_ref(&slice), options);
                    let (_, found) = read_by_arrow(&bytes);
                    assert_eq!(found, std::slice::from_ref(&expected), "{name} {start}+{len}");
                }
            }
        }
    }
}
