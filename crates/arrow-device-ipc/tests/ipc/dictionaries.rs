//! Dictionaries that are replaced, that grow, and that lie inside of others.

use arrow_device::{Array, Batch, Buffer, DataType, ErrorKind, IndexType, Schema};
use arrow_device_arrow::v60::ToArrow as _;
use arrow_device_ipc::{
    Decoded, Decoder, EncodedMessage, Encoder, FileReader, FileWriter, ReadOptions, StreamWriter,
    WriteOptions,
};

use crate::support::{read, read_by_arrow, written};

fn coded(words: &[&str], keys: &[i32]) -> Array {
    let values = Array::from_texts(DataType::Utf8, words.iter().map(|word| Some(*word))).unwrap();
    Array::builder(DataType::dictionary(IndexType::Int32, DataType::Utf8))
        .len(keys.len())
        .buffers([None, Some(keys.to_vec().into())])
        .dictionary(values)
        .finish_ready()
        .unwrap()
}

fn batch(words: &[&str], keys: &[i32]) -> Batch {
    Batch::from_columns([("w", coded(words, keys))]).unwrap()
}

fn growing() -> [Batch; 4] {
    [
        batch(&["a", "b"], &[0, 1, 1]),
        batch(&["a", "b"], &[1]),
        batch(&["a", "b", "c", "d"], &[3, 0]),
        batch(&["a", "b", "c", "d", "e"], &[4, 2]),
    ]
}

fn assert_same(found: &[Batch], expected: &[Batch]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        found.as_array().validate().unwrap();
        assert!(found.as_array().equals(expected.as_array()).unwrap(), "{found:?}");
    }
}

/// Which messages have dictionaries, for these batches.
fn kinds(batches: &[Batch], options: WriteOptions) -> Vec<bool> {
    let mut encoder = Encoder::new(&batches[0].schema().unwrap(), options).unwrap();
    let messages = batches.iter().flat_map(|batch| encoder.encode(batch).unwrap());
    messages.map(|message| message.is_dictionary()).collect()
}

#[test]
fn a_dictionary_that_grows_is_written_as_what_came_to_it() {
    let batches = growing();
    let schema = batches[0].schema().unwrap();
    let deltas = written(&schema, &batches, WriteOptions::new());
    let whole = written(&schema, &batches, WriteOptions::new().deltas(false));
    assert_same(&read(&deltas).unwrap().1, &batches);
    assert_same(&read(&whole).unwrap().1, &batches);
    // The second batch has the dictionary of the first.
    let expected = [true, false, false, true, false, true, false];
    assert_eq!(kinds(&batches, WriteOptions::new()), expected);
    let expected: Vec<_> = batches.iter().map(|batch| batch.to_arrow().unwrap()).collect();
    assert_eq!(read_by_arrow(&whole).1, expected);
    assert_eq!(read_by_arrow(&deltas).1, expected);
}

#[test]
fn arrays_keep_the_dictionary_that_they_were_read_with() {
    let batches = [batch(&["a", "b"], &[0, 1]), batch(&["x"], &[0, 0]), batch(&["a"], &[0])];
    let schema = batches[0].schema().unwrap();
    let bytes = written(&schema, &batches, WriteOptions::new());
    let (_, found) = read(&bytes).unwrap();
    assert_same(&found, &batches);
    assert_eq!(read_by_arrow(&bytes).1.len(), 3);
}

#[test]
fn a_file_has_one_dictionary_that_only_grows() {
    let batches = growing();
    let schema = batches[0].schema().unwrap();
    let mut writer = FileWriter::new(Vec::new(), &schema, WriteOptions::new()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    let other = writer.write(&batch(&["z"], &[0])).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Unsupported);
    let bytes = writer.finish().unwrap();
    let file = FileReader::in_memory(Buffer::from(bytes.clone()), ReadOptions::new()).unwrap();
    let found: Vec<Batch> = (0..4).rev().map(|number| file.batch(number).unwrap()).collect();
    let backwards: Vec<Batch> = batches.iter().rev().cloned().collect();
    assert_same(&found, &backwards);
    let theirs = arrow_ipc::reader::FileReader::try_new(std::io::Cursor::new(bytes), None).unwrap();
    assert_eq!(theirs.map(Result::unwrap).count(), 4);
}

#[test]
fn a_dictionary_inside_of_another_comes_first() {
    let inner = coded(&["p", "q", "r"], &[2, 0, 1, 2]);
    let lists = Array::builder(DataType::list(inner.field().clone()))
        .len(2)
        .buffers([None, Some(vec![0_i32, 3, 4].into())])
        .children([inner])
        .finish_ready()
        .unwrap();
    let outer = DataType::dictionary(IndexType::Int8, lists.data_type().clone());
    let column = Array::builder(outer)
        .len(3)
        .buffers([None, Some(vec![1_i8, 0, 1].into())])
        .dictionary(lists)
        .finish_ready()
        .unwrap();
    let batches = [Batch::from_columns([("x", column)]).unwrap()];
    let bytes = written(&batches[0].schema().unwrap(), &batches, WriteOptions::new());
    assert_same(&read(&bytes).unwrap().1, &batches);
    assert_eq!(kinds(&batches, WriteOptions::new()), [true, true, false]);
    assert_eq!(read_by_arrow(&bytes).1, [batches[0].to_arrow().unwrap()]);
}

#[test]
fn a_column_of_nulls_needs_no_dictionary() {
    let column = Array::builder(DataType::dictionary(IndexType::Int8, DataType::Utf8))
        .len(2)
        .null_count(2)
        .buffers([Some(vec![0_u8].into()), Some(vec![0_i8, 0].into())])
        .dictionary(Array::empty(DataType::Utf8).unwrap())
        .finish_ready()
        .unwrap();
    let batch = Batch::from_columns([("x", column)]).unwrap();
    let mut encoder = Encoder::new(&batch.schema().unwrap(), WriteOptions::new()).unwrap();
    let mut decoder = Decoder::new(ReadOptions::new());
    let nothing = || Buffer::from(Vec::<u8>::new());
    decoder.decode(&encoder.schema_message().unwrap(), nothing()).unwrap();
    let messages = encoder.encode(&batch).unwrap();
    let last = messages.last().unwrap();
    let body = Buffer::from(last.body_bytes().unwrap());
    let Decoded::Batch { batch: found, .. } = decoder.decode(last.header(), body).unwrap() else {
        panic!("no batch");
    };
    assert_same(&[found], &[batch]);
    // Where an element is not null, the values are missed.
    let mut decoder = Decoder::new(ReadOptions::new());
    decoder.decode(&encoder.schema_message().unwrap(), nothing()).unwrap();
    let messages = encoder.encode(&self::batch(&["a"], &[0])).unwrap_err();
    assert_eq!(messages.kind(), ErrorKind::SchemaMismatch);
}

#[test]
fn columns_of_which_one_is_asked_for_bring_their_dictionary_alone() {
    let columns = [("a", coded(&["1"], &[0, 0])), ("b", coded(&["2", "3"], &[1, 0]))];
    let batch = Batch::from_columns(columns).unwrap();
    let bytes =
        written(&batch.schema().unwrap(), std::slice::from_ref(&batch), WriteOptions::new());
    let options = ReadOptions::new().columns([1]);
    let reader = arrow_device_ipc::StreamReader::new(std::io::Cursor::new(bytes), options).unwrap();
    let expected = Schema::batch([batch.fields()[1].clone()]).unwrap();
    assert_eq!(reader.schema(), &expected);
    let found: Vec<Batch> = reader.map(Result::unwrap).collect();
    assert!(found[0].column(0).unwrap().equals(&batch.column(1).unwrap()).unwrap());
}

#[test]
fn what_came_to_a_dictionary_between_two_batches_is_put_together_once() {
    let batches = growing();
    let mut encoder = Encoder::new(&batches[0].schema().unwrap(), WriteOptions::new()).unwrap();
    let mut decoder = Decoder::new(ReadOptions::new());
    let nothing = Buffer::from(Vec::<u8>::new());
    decoder.decode(&encoder.schema_message().unwrap(), nothing).unwrap();
    let mut last = None;
    // Three messages of a dictionary, and then the batch that needs all of them.
    for batch in &batches {
        for message in encoder.encode(batch).unwrap() {
            if message.is_dictionary() {
                let body = Buffer::from(message.body_bytes().unwrap());
                decoder.decode(message.header(), body).unwrap();
            } else {
                last = Some(message);
            }
        }
    }
    let last = last.unwrap();
    let body = Buffer::from(last.body_bytes().unwrap());
    let Decoded::Batch { batch: found, .. } = decoder.decode(last.header(), body).unwrap() else {
        panic!("a batch");
    };
    assert_same(&[found], &batches[3..]);
}

/// Lists of words, one for each number; all of them lie over one array of words.
fn lists_of(words: &Array, count: usize) -> Array {
    let offsets: Vec<i32> = (0..=count as i32).collect();
    Array::builder(DataType::list(words.field().clone()))
        .len(count)
        .buffers([None, Some(offsets.into())])
        .children([words.slice(0, count).unwrap()])
        .finish_ready()
        .unwrap()
}

// Requirement: SAF-38
#[test]
fn what_lies_below_a_dictionary_that_grows_is_there_once() {
    let words = coded(&["p", "q", "r"], &[2, 0, 1, 2, 1, 0, 0, 1]);
    let batches: Vec<Batch> = (1..=8)
        .map(|count| {
            let lists = lists_of(&words, count);
            let keys = DataType::dictionary(IndexType::Int8, lists.data_type().clone());
            let keys = Array::builder(keys)
                .len(1)
                .buffers([None, Some(vec![count as i8 - 1].into())])
                .dictionary(lists);
            Batch::from_columns([("x", keys.finish_ready().unwrap())]).unwrap()
        })
        .collect();
    let bytes = written(&batches[0].schema().unwrap(), &batches, WriteOptions::new());
    let (_, found) = read(&bytes).unwrap();
    assert_same(&found, &batches);
    let lists = found.last().unwrap().column(0).unwrap().dictionary().unwrap();
    assert_eq!(lists.len(), 8);
    let words = lists.child(0).unwrap().dictionary().unwrap();
    assert_eq!(words.len(), 3, "the words came once");
}

/// A dictionary and, behind it, a list whose offsets lead outside.
fn with_lists(words: &[&str], keys: &[i32], last: i32) -> Batch {
    let items = Array::from_values(DataType::Int8, [Some(1_i8)]).unwrap();
    let mut offsets = vec![0_i32; keys.len()];
    offsets.push(last);
    let lists = Array::builder(DataType::list(items.field().clone())).len(keys.len());
    let lists = lists.buffers([None, Some(offsets.into())]).children([items]);
    Batch::from_columns([("w", coded(words, keys)), ("l", lists.finish_ready().unwrap())]).unwrap()
}

#[test]
fn a_batch_that_is_refused_leaves_its_dictionary_to_be_written() {
    let good = [with_lists(&["a", "b"], &[0, 1], 1), with_lists(&["x", "y"], &[0, 1], 1)];
    let schema = good[0].schema().unwrap();
    let mut writer = StreamWriter::new(Vec::new(), &schema, WriteOptions::new()).unwrap();
    writer.write(&good[0]).unwrap();
    // The dictionary comes before the lists, which are wrong.
    let wrong = writer.write(&with_lists(&["x", "y"], &[0, 1], 9)).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::InvalidData);
    writer.write(&good[1]).unwrap();
    assert_same(&read(&writer.finish().unwrap()).unwrap().1, &good);
}

#[test]
fn behind_a_dictionary_that_is_refused_nothing_is_read() {
    let batches = growing();
    let mut encoder = Encoder::new(&batches[0].schema().unwrap(), WriteOptions::new()).unwrap();
    let mut decoder = Decoder::new(ReadOptions::new());
    decoder.decode(&encoder.schema_message().unwrap(), Buffer::from(Vec::<u8>::new())).unwrap();
    let mut decode = |message: &EncodedMessage, body: Vec<u8>| {
        let decoded = decoder.decode(message.header(), Buffer::from(body));
        decoded.map(drop).map_err(|error| error.kind())
    };
    let body = |message: &EncodedMessage| message.body_bytes().unwrap();
    let [first, second, third, _] = batches.map(|batch| encoder.encode(&batch).unwrap());
    assert!(first.iter().all(|message| decode(message, body(message)).is_ok()));
    // A batch takes nothing from the next ones.
    assert_eq!(decode(&second[0], Vec::new()), Err(ErrorKind::Malformed));
    assert_eq!(decode(&second[0], body(&second[0])), Ok(()));
    assert_eq!(decode(&third[0], Vec::new()), Err(ErrorKind::Malformed));
    assert_eq!(decode(&third[1], body(&third[1])), Err(ErrorKind::Malformed), "values are missing");
    assert_eq!(decode(&third[0], body(&third[0])), Err(ErrorKind::Malformed));
}

#[test]
fn of_several_wrong_dictionaries_the_first_one_is_named() {
    let columns = |words: &[&str]| {
        let named = (0..12).map(|number| (format!("c{number}"), coded(words, &[0])));
        Batch::from_columns(named).unwrap()
    };
    for _ in 0..8 {
        let mut encoder =
            Encoder::new(&columns(&["a"]).schema().unwrap(), WriteOptions::new()).unwrap();
        let mut decoder = Decoder::new(ReadOptions::new());
        decoder.decode(&encoder.schema_message().unwrap(), Buffer::from(Vec::<u8>::new())).unwrap();
        let mut errors = Vec::new();
        for (batch, is_wrong) in [(columns(&["a"]), false), (columns(&["a", "b"]), true)] {
            for message in encoder.encode(&batch).unwrap() {
                let mut body = message.body_bytes().unwrap();
                if message.is_dictionary() && is_wrong {
                    // The end of the word that came.
                    body[4..8].copy_from_slice(&i32::MAX.to_ne_bytes());
                }
                let decoded = decoder.decode(message.header(), Buffer::from(body));
                errors.extend(decoded.err().map(|error| error.to_string()));
            }
        }
        assert_eq!(errors.len(), 1);
        assert!(errors[0].contains("dictionary 0"), "{errors:?}");
    }
}
