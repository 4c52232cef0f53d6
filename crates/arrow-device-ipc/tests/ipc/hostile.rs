//! Input that is cut, changed, or claims too much.

use std::io::Cursor;

use arrow_device::{Array, Batch, Buffer, DataType, ErrorKind, Result};
use arrow_device_ipc::{
    Compression, FileReader, FileWriter, ReadOptions, StreamReader, WriteOptions,
};
use arrow_device_testkit::allocations::{Counting, peak};
use arrow_device_testkit::samples::mixed_batch;

use crate::support::written;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn batches() -> Vec<Batch> {
    let batch = mixed_batch(&[Some("low"), Some("high")]);
    vec![batch.clone(), batch.slice(1, 2).unwrap()]
}

fn options() -> [WriteOptions; 3] {
    let packed = |compression| WriteOptions::new().alignment(8).compression(Some(compression));
    [
        WriteOptions::new().alignment(8),
        packed(Compression::Lz4),
        packed(Compression::Zstd { level: 1 }),
    ]
}

/// Reads all there is, and uses it.
fn use_up(reader: Result<StreamReader>) -> Result<usize> {
    let mut rows = 0;
    for batch in reader? {
        let batch = batch?;
        rows += batch.row_count();
        // Nonsense in the data is an error of these, or values.
        let _ = batch.as_array().validate();
        let _ = format!("{batch:?}");
        let _ = batch.slice(0, batch.row_count().min(1)).and_then(|part| part.to_host());
    }
    Ok(rows)
}

fn read_both(bytes: &[u8]) -> [Result<usize>; 2] {
    let limits = || ReadOptions::new().max_unpacked(1 << 20);
    [
        use_up(StreamReader::new(Cursor::new(bytes.to_vec()), limits())),
        use_up(StreamReader::in_memory(Buffer::from(bytes.to_vec()), limits())),
    ]
}

#[test]
fn a_stream_that_is_cut_anywhere_is_an_error_or_has_fewer_batches() {
    for options in options() {
        let batches = batches();
        let whole = written(&batches[0].schema().unwrap(), &batches, options);
        for end in 0..whole.len() {
            for read in read_both(&whole[..end]) {
                match read {
                    Ok(rows) => assert!([0, 3, 5].contains(&rows), "{end}: {rows}"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Malformed, "{end}: {error}"),
                }
            }
        }
        assert!(read_both(&whole).into_iter().all(|read| read.is_ok_and(|rows| rows == 5)));
    }
}

/// Inputs of the fuzz target `ipc`.
#[test]
fn the_fuzz_target_passes_its_corpus() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/ipc");
    let mut count = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let entry = entry.unwrap();
        let bytes = std::fs::read(entry.path()).unwrap();
        crate::target::ipc(&bytes);
        // Those that were not found by a fuzzer are good, and are read in each way.
        if entry.file_name().to_string_lossy().contains('-') {
            for how in 0..=255 {
                let mut bytes = bytes.clone();
                bytes[0] = how;
                crate::target::ipc(&bytes);
            }
        }
        count += 1;
    }
    assert!(count > 200, "{count}");
}

#[test]
fn a_stream_with_any_byte_changed_is_read_or_refused() {
    for options in options() {
        let batches = batches();
        let whole = written(&batches[0].schema().unwrap(), &batches, options);
        for place in 0..whole.len() {
            for flip in [0x01, 0x80] {
                let mut bytes = whole.clone();
                bytes[place] ^= flip;
                let limits = ReadOptions::new().max_unpacked(1 << 20);
                if let Err(error) = use_up(StreamReader::in_memory(Buffer::from(bytes), limits)) {
                    // What is wrong is never an argument of the caller's.
                    assert_ne!(error.kind(), ErrorKind::InvalidArgument, "{place}: {error}");
                }
            }
        }
    }
}

#[test]
fn a_file_with_any_byte_changed_is_read_or_refused() {
    let batches = batches();
    let schema = batches[0].schema().unwrap();
    let mut writer =
        FileWriter::new(Vec::new(), &schema, WriteOptions::new().alignment(8)).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    let whole = writer.finish().unwrap();
    let read = |bytes: Vec<u8>, columns: bool| -> Result<()> {
        let options = ReadOptions::new().max_unpacked(1 << 20);
        let options = if columns { options.columns([3, 1]) } else { options };
        let file = FileReader::in_memory(Buffer::from(bytes), options)?;
        for batch in file.batches(0..file.batch_count().min(10)) {
            let _ = batch?.as_array().validate();
        }
        Ok(())
    };
    read(whole.clone(), false).unwrap();
    for place in 0..whole.len() {
        for (flip, columns) in [(0x01, false), (0x80, true), (0xff, false)] {
            let mut bytes = whole.clone();
            bytes[place] ^= flip;
            let _ = read(bytes, columns);
        }
        let _ = read(whole[..place].to_vec(), false);
    }
}

#[test]
fn no_memory_is_taken_on_the_word_of_a_header() {
    // A header of 200 MB, of which nothing comes.
    let mut claim = vec![0xff; 4];
    claim.extend_from_slice(&200_000_000_i32.to_le_bytes());
    let (most, read) = peak(|| StreamReader::new(Cursor::new(claim), ReadOptions::new()).map(drop));
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Malformed);
    assert!(most < 20 << 20, "{most} bytes");
    let options = ReadOptions::new().max_header(1000);
    let mut claim = vec![0xff; 4];
    claim.extend_from_slice(&1001_i32.to_le_bytes());
    let error = StreamReader::new(Cursor::new(claim), options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
}

#[test]
fn what_a_compressed_body_may_become_is_bounded() {
    let zeros = Array::from_values(DataType::Int64, vec![Some(0_i64); 1 << 20]).unwrap();
    let batch = Batch::from_columns([("z", zeros)]).unwrap();
    for compression in [Compression::Lz4, Compression::Zstd { level: 3 }] {
        let options = WriteOptions::new().compression(Some(compression));
        let bytes = written(&batch.schema().unwrap(), std::slice::from_ref(&batch), options);
        assert!(bytes.len() < 1 << 20, "8 MiB became {} bytes", bytes.len());
        let read = |most: u64| {
            let options = ReadOptions::new().max_unpacked(most);
            use_up(StreamReader::new(Cursor::new(bytes.clone()), options))
        };
        assert_eq!(read(8 << 20).unwrap(), 1 << 20);
        let error = read((8 << 20) - 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
        assert!(error.to_string().contains("message 1: `z`: buffer 1: "), "{error}");
    }
}

#[test]
fn data_is_looked_at_where_that_is_asked() {
    let wrong = Array::builder(DataType::Utf8)
        .len(1)
        .buffers([None, Some(vec![0_i32, 2].into()), Some(vec![0xc3_u8, 0x28].into())])
        .finish_ready()
        .unwrap();
    let batch = Batch::from_columns([("w", wrong)]).unwrap();
    let bytes = written(&batch.schema().unwrap(), &[batch], WriteOptions::new());
    let read = |validates| {
        let options = ReadOptions::new().validate(validates);
        StreamReader::new(Cursor::new(bytes.clone()), options).unwrap().next().unwrap().map(drop)
    };
    read(false).unwrap();
    assert_eq!(read(true).unwrap_err().kind(), ErrorKind::InvalidData);
}
