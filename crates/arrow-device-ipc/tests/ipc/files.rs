//! The file format: places, columns, ranges.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use arrow_device::{Array, Batch, Buffer, DataType, ErrorKind, Metadata};
use arrow_device_arrow::v60::ToArrow as _;
use arrow_device_ipc::{Compression, FileReader, FileWriter, ReadAt, ReadOptions, WriteOptions};

/// A file in memory that notes what is read of it.
#[derive(Clone)]
struct Noted {
    bytes: Arc<Vec<u8>>,
    read: Arc<Mutex<Vec<Range<u64>>>>,
}

impl Noted {
    fn new(bytes: Vec<u8>) -> Self {
        Self { bytes: Arc::new(bytes), read: Arc::default() }
    }

    /// How many bytes were read since the last question.
    fn taken(&self) -> u64 {
        let read = std::mem::take(&mut *self.read.lock().unwrap());
        read.into_iter().map(|range| range.end - range.start).sum()
    }
}

impl ReadAt for Noted {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let start = offset as usize;
        let found = self.bytes.get(start..start + bytes.len());
        bytes.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        self.read.lock().unwrap().push(offset..offset + bytes.len() as u64);
        Ok(())
    }
}

/// Ten columns of 100,000 bytes.
pub(crate) fn wide(seed: i64) -> Batch {
    let column = |number: i64| {
        let values = (0..12_500).map(|row| Some(row * number + seed));
        (format!("c{number}"), Array::from_values(DataType::Int64, values).unwrap())
    };
    Batch::from_columns((0..10).map(column)).unwrap()
}

pub(crate) fn file(batches: &[Batch], options: WriteOptions) -> Vec<u8> {
    let schema = batches[0].schema().unwrap();
    let mut writer = FileWriter::new(Vec::new(), &schema, options).unwrap();
    writer.set_metadata(Metadata::from_pairs([("made", "here")]).unwrap());
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap()
}

#[test]
fn of_a_file_only_the_columns_that_are_asked_for_are_read() {
    let batches = [wide(0), wide(1)];
    let noted = Noted::new(file(&batches, WriteOptions::new()));
    let options = ReadOptions::new().columns([7, 2, 7]);
    let reader = FileReader::new(noted.clone(), options).unwrap();
    let opened = noted.taken();
    assert!(opened < 8 << 10, "{opened} bytes to open it");
    let batch = reader.batch(1).unwrap();
    let read = noted.taken();
    assert!((200_000..220_000).contains(&read), "{read} bytes for two of ten columns");
    for (found, expected) in [(0, 7), (1, 2), (2, 7)] {
        let expected = batches[1].column(expected).unwrap();
        assert!(batch.column(found).unwrap().equals(&expected).unwrap());
    }
    let all = FileReader::new(noted.clone(), ReadOptions::new()).unwrap();
    noted.taken();
    all.batch(0).unwrap();
    assert!(noted.taken() > 1_000_000);
}

#[test]
fn batches_are_read_in_any_order_and_by_ranges() {
    for options in [
        WriteOptions::new(),
        WriteOptions::new().alignment(8),
        WriteOptions::new().compression(Some(Compression::Zstd { level: 1 })),
    ] {
        let batches: Vec<Batch> = (0..5).map(wide).collect();
        let bytes = file(&batches, options);
        let in_memory = FileReader::in_memory(Buffer::from(bytes.clone()), ReadOptions::new());
        let at = FileReader::new(Noted::new(bytes.clone()), ReadOptions::new());
        for reader in [in_memory.unwrap(), at.unwrap()] {
            assert_eq!((reader.batch_count(), reader.row_count().unwrap()), (5, 62_500));
            assert_eq!(reader.metadata().get("made"), Some(&b"here"[..]));
            for number in [4, 0, 2] {
                let found = reader.batch(number).unwrap();
                assert!(found.as_array().equals(batches[number].as_array()).unwrap());
            }
            assert_eq!(reader.batches(3..9).map(Result::unwrap).count(), 2);
            assert_eq!(reader.batch(5).unwrap_err().kind(), ErrorKind::InvalidArgument);
            assert_eq!(reader.stream().into_batches().map(Result::unwrap).count(), 5);
        }
        let theirs = arrow_ipc::reader::FileReader::try_new(io::Cursor::new(bytes), None).unwrap();
        assert_eq!(theirs.custom_metadata()["made"], "here");
        let found: Vec<_> = theirs.map(Result::unwrap).collect();
        let expected: Vec<_> = batches.iter().map(|batch| batch.to_arrow().unwrap()).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn bodies_begin_at_multiples_of_the_alignment() {
    let batch = wide(3);
    let bytes = file(std::slice::from_ref(&batch), WriteOptions::new());
    let kept = Buffer::from(bytes);
    let reader = FileReader::in_memory(kept, ReadOptions::new()).unwrap();
    let found = reader.batch(0).unwrap().as_array().host().unwrap();
    let address = |index| found.child(index).unwrap().buffer(1).unwrap().as_ptr().addr();
    let first = address(0);
    assert!((1..10).all(|index| (address(index) - first) % 64 == 0));
}

#[test]
fn a_file_that_becomes_shorter_is_an_error() {
    let path = std::env::temp_dir().join(format!("arrow-device-ipc-{}.arrow", std::process::id()));
    std::fs::write(&path, file(&[wide(0), wide(1)], WriteOptions::new())).unwrap();
    let reader = FileReader::open(&path, ReadOptions::new()).unwrap();
    reader.batch(1).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(500_000).unwrap();
    let error = reader.batch(1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
    assert!(error.to_string().contains("batch 1: the file ends before"), "{error}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn no_file_is_told_from_a_broken_one() {
    let whole = file(&[wide(0)], WriteOptions::new());
    let open = |bytes: &[u8]| {
        let opened = FileReader::in_memory(Buffer::from(bytes.to_vec()), ReadOptions::new());
        opened.unwrap_err().to_string()
    };
    assert!(open(b"ARROW1").contains("6 bytes are no Arrow file"));
    assert!(open(&whole[..whole.len() - 1]).contains("begins and ends with `ARROW1`"));
    assert!(open(&whole[8..]).contains("begins and ends with `ARROW1`"));
}
