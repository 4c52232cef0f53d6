//! The bound for the dictionaries that readers keep.

use std::io::Cursor;
use std::ops::Range;

use arrow_device::{Array, Batch, Buffer, DataType, Error, ErrorKind, IndexType, Result};
use arrow_device_ipc::{
    Compression, Decoder, Encoder, FileReader, FileWriter, ReadOptions, StreamReader, WriteOptions,
};
use arrow_device_testkit::allocations::peak;
use arrow_device_testkit::samples::{growing_dictionaries, last_of};

use crate::support::written;

fn batch(words: Range<usize>) -> Batch {
    Batch::from_columns([("w", last_of(words))]).unwrap()
}

fn at_most(bytes: u64) -> ReadOptions {
    ReadOptions::new().max_dictionaries(bytes)
}

/// How many batches are read, and what ends that.
fn read(bytes: &[u8], options: ReadOptions) -> (usize, Option<Error>) {
    let mut count = 0;
    for batch in StreamReader::new(Cursor::new(bytes.to_vec()), options).unwrap() {
        match batch {
            Ok(_) => count += 1,
            Err(error) => return (count, Some(error)),
        }
    }
    (count, None)
}

#[track_caller]
fn assert_limited(error: &Error, words: &[&str]) {
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    let told = error.to_string();
    assert!(words.iter().all(|words| told.contains(words)), "{told}");
}

#[test]
fn a_dictionary_that_grows_beyond_the_bound_ends_the_stream_at_its_message() {
    let batches = growing_dictionaries();
    let bytes = written(&batches[0].schema().unwrap(), &batches, WriteOptions::new());
    // The words, 21 offsets, and what the last message has.
    let (count, error) = read(&bytes, at_most(22 << 10));
    assert!(error.is_none() && count == 20, "{error:?}");
    let (count, error) = read(&bytes, at_most(10 << 10));
    assert!((5..10).contains(&count), "{count}");
    // Behind the schema, each batch comes behind what its dictionary grows by.
    let place = format!("message {}: dictionary 0: ", 2 * count + 1);
    assert_limited(&error.unwrap(), &[&place, "all dictionaries may have "]);
}

#[test]
fn values_that_no_batch_has_put_together_count_each_by_its_message() {
    let batches = growing_dictionaries();
    let mut encoder = Encoder::new(&batches[0].schema().unwrap(), WriteOptions::new()).unwrap();
    let mut decoder = Decoder::new(at_most(10 << 10));
    decoder.decode(&encoder.schema_message().unwrap(), Buffer::from(Vec::<u8>::new())).unwrap();
    let (mut taken, mut refused) = (0, 0);
    for batch in &batches {
        let messages = encoder.encode(batch).unwrap();
        let dictionary = messages.iter().find(|message| message.is_dictionary()).unwrap();
        let kept = dictionary.body_len() + 256;
        let body = Buffer::from(dictionary.body_bytes().unwrap());
        match decoder.decode(dictionary.header(), body) {
            Ok(_) => taken += kept,
            Err(error) if refused == 0 => {
                assert_limited(&error, &["dictionary 0: values that keep"]);
                assert!(taken <= 10 << 10 && taken + kept > 10 << 10, "{taken} and {kept}");
                refused = 1;
            }
            // Values are missing.
            Err(error) => assert_eq!(error.kind(), ErrorKind::Malformed, "{error}"),
        }
    }
    assert_eq!(refused, 1);
}

#[test]
fn values_that_were_replaced_do_not_count() {
    let batches: Vec<Batch> = (0..50).map(|number| batch(number..number + 1)).collect();
    let schema = batches[0].schema().unwrap();
    let bytes = written(&schema, &batches, WriteOptions::new());
    let (count, error) = read(&bytes, at_most(2000));
    assert!(error.is_none() && count == 50, "{error:?}");
    let (count, error) = read(&bytes, at_most(1000));
    assert_eq!(count, 0);
    assert_limited(&error.unwrap(), &["message 1: dictionary 0: "]);
}

#[test]
fn the_bound_is_for_all_dictionaries_together_that_are_asked_for() {
    let columns = (0..8_usize).map(|number| (format!("c{number}"), last_of(number..number + 1)));
    let batch = Batch::from_columns(columns).unwrap();
    let bytes =
        written(&batch.schema().unwrap(), std::slice::from_ref(&batch), WriteOptions::new());
    assert!(read(&bytes, at_most(12 << 10)).1.is_none());
    let error = read(&bytes, at_most(6 << 10)).1;
    assert_limited(&error.unwrap(), &["message 5: dictionary 4: "]);
    assert!(read(&bytes, at_most(6 << 10).columns([7, 2])).1.is_none());
}

#[test]
fn no_memory_is_taken_for_packed_values_beyond_the_bound() {
    let values = Array::from_values(DataType::Int64, vec![Some(0_i64); 1 << 20]).unwrap();
    let keys = DataType::dictionary(IndexType::Int8, DataType::Int64);
    let column = Array::from_keys(keys, [Some(0)], values).unwrap();
    let batch = Batch::from_columns([("z", column)]).unwrap();
    for compression in [Compression::Lz4, Compression::Zstd { level: 3 }] {
        let options = WriteOptions::new().compression(Some(compression));
        let bytes = written(&batch.schema().unwrap(), std::slice::from_ref(&batch), options);
        assert!(read(&bytes, at_most(9 << 20)).1.is_none());
        let (taken, (_, error)) = peak(|| read(&bytes, at_most(1 << 20)));
        let words = ["message 1: dictionary 0, where all dictionaries may have ", "buffer 1: "];
        assert_limited(&error.unwrap(), &words);
        assert!(taken < 4 << 20, "{taken} bytes");
    }
}

#[test]
fn no_memory_is_taken_to_put_together_values_beyond_the_bound() {
    // Both messages name one text of a thousand bytes a thousand times.
    let views = |count: usize| {
        let text = "x".repeat(1000).into_bytes();
        let view = [&1000_i32.to_le_bytes()[..], b"xxxx", &[0; 8]].concat();
        Array::builder(DataType::Utf8View)
            .len(count)
            .buffers([None, Some(view.repeat(count).into()), Some(text.into())])
            .finish_ready()
            .unwrap()
    };
    let keys = DataType::dictionary(IndexType::Int32, DataType::Utf8View);
    let batches = [1000, 2000].map(|count| {
        let column = Array::from_keys(keys.clone(), [Some(0)], views(count)).unwrap();
        Batch::from_columns([("v", column)]).unwrap()
    });
    let bytes = written(&batches[0].schema().unwrap(), &batches, WriteOptions::new());
    assert!(read(&bytes, at_most(4 << 20)).1.is_none());
    let (taken, (count, error)) = peak(|| read(&bytes, at_most(1 << 20)));
    assert_eq!(count, 1);
    assert_limited(&error.unwrap(), &["message 4: dictionary 0: "]);
    assert!(taken < 1 << 20, "{taken} bytes");
}

#[test]
fn a_file_with_dictionaries_beyond_the_bound_is_not_opened() {
    let batches = growing_dictionaries();
    let schema = batches[0].schema().unwrap();
    let mut writer = FileWriter::new(Vec::new(), &schema, WriteOptions::new()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    let bytes = writer.finish().unwrap();
    let open = |most| -> Result<usize> {
        let file = FileReader::in_memory(Buffer::from(bytes.clone()), at_most(most))?;
        file.batches(0..20).try_fold(0, |rows, batch| Ok(rows + batch?.row_count()))
    };
    // Nothing is put together before all has come.
    assert_eq!(open(32 << 10).unwrap(), 20);
    let error = open(10 << 10).unwrap_err();
    assert_limited(&error, &["dictionary message ", ": dictionary 0: values that keep"]);
}
