//! Errors of streams, both ways.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use arrow_device::async_stream::{ArraysExt, Blocking};
use arrow_device::{
    Array, ArrayStream, DataType, Error, ErrorKind, Field, Metadata, NodePath, Schema, Step,
};
use arrow_device_sim::Sim;
use futures_core::Stream as _;
use futures_core::stream::FusedStream as _;

use super::arrow::array::{RecordBatch, RecordBatchIterator, new_null_array};
use super::arrow::schema::{self as rs, ArrowError};
use super::batches::{Given, batch, no_columns, schema};
use super::ours::{AsyncArrays, AsyncReader, ErrorExt, FromArrow as _, Reader};

/// The error in one of arrow-rs.
fn inner(error: ArrowError) -> Error {
    let ArrowError::ExternalError(inner) = error else { panic!("{error} is none of ours") };
    *inner.downcast().unwrap()
}

#[test]
fn each_error_of_arrow_rs_has_its_kind_and_keeps_its_text() {
    let text = || "what went wrong".to_owned();
    let lost = std::io::Error::from_raw_os_error(12);
    let table = [
        (ArrowError::NotYetImplemented(text()), ErrorKind::Unsupported),
        (ArrowError::MemoryError(text()), ErrorKind::OutOfMemory),
        (ArrowError::SchemaError(text()), ErrorKind::SchemaMismatch),
        (ArrowError::InvalidArgumentError(text()), ErrorKind::InvalidArgument),
        (ArrowError::DictionaryKeyOverflowError, ErrorKind::LimitExceeded),
        (ArrowError::RunEndIndexOverflowError, ErrorKind::LimitExceeded),
        (ArrowError::OffsetOverflowError(7), ErrorKind::LimitExceeded),
        (ArrowError::ComputeError(text()), ErrorKind::Peer),
        (ArrowError::DivideByZero, ErrorKind::Peer),
        (ArrowError::ParseError(text()), ErrorKind::Peer),
        #[cfg(unix)]
        (ArrowError::IoError(text(), lost), ErrorKind::OutOfMemory),
    ];
    for (theirs, kind) in table {
        let said = theirs.to_string();
        let ours = Error::from_arrow_error(theirs);
        assert_eq!((ours.kind(), ours.message()), (kind, &*said));
        // And from there as any error of ours.
        assert_eq!(inner(ours.into_arrow_error()).kind(), kind);
    }
    let io = ArrowError::IoError(text(), std::io::Error::other("the disk"));
    assert_eq!(Error::from_arrow_error(io).source().unwrap().to_string(), "the disk");
}

#[test]
fn an_error_of_ours_comes_back_as_it_was() {
    let there = Error::new(ErrorKind::DeviceLost, "pulled out").during("copy").from_vendor(7, "x");
    let there = there.at(NodePath::ROOT);
    let said = there.to_string();
    let theirs = there.into_arrow_error();
    assert_eq!(theirs.source().unwrap().to_string(), said);
    let back = Error::from_arrow_error(theirs);
    assert_eq!((back.kind(), back.operation()), (ErrorKind::DeviceLost, Some("copy")));
    assert_eq!((back.to_string(), back.vendor().unwrap().code), (said, 7));
    // Also inside of another one of arrow-rs.
    let twice = ArrowError::ExternalError(Box::new(back.into_arrow_error()));
    assert_eq!(Error::from_arrow_error(twice).vendor().unwrap().code, 7);
}

/// An engine's error, made of one of arrow-rs.
#[derive(Debug)]
struct Engine(ArrowError);

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the engine stopped")
    }
}

impl StdError for Engine {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

impl From<ArrowError> for Engine {
    fn from(error: ArrowError) -> Self {
        Self(error)
    }
}

#[test]
fn an_error_in_the_middle_is_told_and_is_the_last_thing() {
    let fails = || Err(ArrowError::MemoryError("no more".into()));
    let sent = || vec![Ok(batch(2)), fails(), Ok(batch(2))];
    let given = Given::new(sent());
    let asked = given.asked();
    let arrays = AsyncArrays::from_arrow((schema(), given)).unwrap();
    assert!(!arrays.is_terminated());
    let mut arrays = Blocking::new(arrays);
    assert_eq!(arrays.next().unwrap().unwrap().len(), 2);
    assert_eq!(Arc::strong_count(&asked), 2);
    let error = arrays.next().unwrap().unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::OutOfMemory, "Memory error: no more"));
    assert_eq!(Arc::strong_count(&asked), 1, "the stream is dropped at once");
    let mut arrays = arrays.into_inner().unwrap();
    assert!(arrays.is_terminated());
    let end = Pin::new(&mut arrays).poll_next(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(end, Poll::Ready(None)));

    let given = Given::new(sent());
    let asked = given.asked();
    let arrays = AsyncArrays::from_arrow((schema(), given)).unwrap();
    let ours = arrays.schema().clone();
    let mut reader = Blocking::new(AsyncReader::new(ours, arrays.to_host().prefetch(5)).unwrap());
    assert_eq!(reader.next().unwrap().unwrap(), batch(2));
    assert_eq!(inner(reader.next().unwrap().unwrap_err()).kind(), ErrorKind::OutOfMemory);
    assert_eq!(Arc::strong_count(&asked), 1);
    assert!(reader.next().is_none());

    let reader = RecordBatchIterator::new(sent(), schema());
    let mut reader = Reader::new(ArrayStream::from_arrow(reader).unwrap()).unwrap();
    assert!(reader.next().unwrap().is_ok());
    assert_eq!(inner(reader.next().unwrap().unwrap_err()).kind(), ErrorKind::OutOfMemory);
    assert!(reader.next().is_none());
}

#[test]
fn an_engine_has_its_own_errors_in_both_directions() {
    let lost = || Error::new(ErrorKind::DeviceLost, "pulled out").into_arrow_error();
    let sent = vec![Ok(batch(1)), Err(Engine(lost()))];
    let arrays = AsyncArrays::from_arrow((schema(), Given::new(sent))).unwrap();
    let reader = AsyncReader::new(arrays.schema().clone(), arrays).unwrap();
    let mut reader = Blocking::new(reader.with_errors::<Engine>());
    assert_eq!(reader.next().unwrap().unwrap(), batch(1));
    let Engine(error) = reader.next().unwrap().unwrap_err();
    let error = inner(error);
    assert_eq!((error.kind(), error.message()), (ErrorKind::DeviceLost, "the engine stopped"));
    assert!(error.source().unwrap().to_string().contains("pulled out"));
    assert!(reader.next().is_none());
}

/// Reads a first batch of so many rows, and returns the kind of the error that the second one is.
/// Then the stream is over.
fn refusal_of_the_second<const N: usize>(
    schema: Schema,
    batches: [arrow_device::Result<arrow_device::Batch>; N],
    rows: usize,
) -> ErrorKind {
    let mut reader = Blocking::new(AsyncReader::new(schema, Given::new(batches)).unwrap());
    assert_eq!(reader.next().unwrap().unwrap().num_rows(), rows);
    let error = inner(reader.next().unwrap().unwrap_err());
    assert!(reader.next().is_none());
    error.kind()
}

#[test]
fn a_batch_of_another_type_ends_the_stream() {
    let sent = || vec![Ok::<_, ArrowError>(batch(2)), Ok(no_columns(2)), Ok(batch(2))];
    let mut arrays =
        Blocking::new(AsyncArrays::from_arrow((schema(), Given::new(sent()))).unwrap());
    assert!(arrays.next().unwrap().is_ok());
    let error = arrays.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
    assert!(arrays.next().is_none());

    // Arrays that are not what the reader was told.
    let numbers = Array::from_values(DataType::Int64, [Some(1_i64)]);
    let texts = Array::from_texts(DataType::Utf8, [Some("one")]);
    let batches =
        [numbers, texts].map(|column| arrow_device::Batch::from_columns([("x", column.unwrap())]));
    let ours = Schema::batch([Field::new("x", DataType::Int64, true)]).unwrap();
    assert_eq!(refusal_of_the_second(ours, batches, 1), ErrorKind::SchemaMismatch);
}

#[test]
fn columns_of_the_same_types_and_of_other_names_are_not_taken_for_those_of_the_schema() {
    let numbers = |names: [&str; 2]| {
        let columns = [1_i64, 2].map(|n| Array::from_values(DataType::Int64, [Some(n)]).unwrap());
        arrow_device::Batch::from_columns(names.into_iter().zip(columns))
    };
    let ours = numbers(["one", "two"]).unwrap().schema().unwrap();
    for names in [["two", "one"], ["one", "three"]] {
        let batches = [numbers(["one", "two"]), numbers(names)];
        let kind = refusal_of_the_second(ours.clone(), batches, 1);
        assert_eq!(kind, ErrorKind::SchemaMismatch, "{names:?}");
    }
}

/// A record batch of arrow-rs with a column of each of these types, two rows long.
fn of_nulls<const N: usize>(columns: [(&str, rs::DataType); N]) -> RecordBatch {
    let nulls = columns.each_ref().map(|(_, data_type)| new_null_array(data_type, 2));
    let fields = columns.map(|(name, data_type)| rs::Field::new(name, data_type, true));
    RecordBatch::try_new(Arc::new(rs::Schema::new(fields.to_vec())), nulls.to_vec()).unwrap()
}

/// What becomes of a record batch where another schema is expected, in each conversion that is
/// given a schema.
fn under(schema: &rs::SchemaRef, batch: &RecordBatch) -> [arrow_device::Result<Array>; 3] {
    let ours = Schema::from_arrow(&**schema).unwrap();
    let sent = || vec![Ok::<_, ArrowError>(batch.clone())];
    let reader = RecordBatchIterator::new(sent(), schema.clone());
    let mut stream = ArrayStream::from_arrow(reader).unwrap();
    let arrays = AsyncArrays::from_arrow((schema.clone(), Given::new(sent()))).unwrap();
    let mut arrays = Blocking::new(arrays);
    let all = [
        stream.next().unwrap(),
        arrays.next().unwrap(),
        arrow_device::Batch::from_arrow((&ours, batch.clone())).map(Array::from),
    ];
    assert!(stream.next().is_none() && arrays.next().is_none());
    all
}

fn item(name: &str, data_type: rs::DataType) -> Arc<rs::Field> {
    Arc::new(rs::Field::new(name, data_type, true))
}

fn structs(names: [&str; 2]) -> rs::DataType {
    rs::DataType::Struct(names.map(|name| item(name, rs::DataType::Int64)).to_vec().into())
}

fn maps(names: [&str; 3], values: rs::DataType) -> rs::DataType {
    let [entries, key, value] = names;
    let key = Arc::new(rs::Field::new(key, rs::DataType::Utf8, false));
    let fields = rs::DataType::Struct(vec![key, item(value, values)].into());
    rs::DataType::Map(Arc::new(rs::Field::new(entries, fields, false)), false)
}

fn runs(names: [&str; 2], values: rs::DataType) -> rs::DataType {
    let [ends, of_values] = names;
    let ends = Arc::new(rs::Field::new(ends, rs::DataType::Int32, false));
    rs::DataType::RunEndEncoded(ends, item(of_values, values))
}

#[test]
fn record_batches_are_not_read_under_the_names_of_other_columns() {
    let two = |names: [&'static str; 2]| of_nulls(names.map(|name| (name, rs::DataType::Int64)));
    let expected = two(["one", "two"]).schema();
    for names in [["two", "one"], ["three", "two"], ["one", "three"]] {
        let index = usize::from(names[0] == "one");
        for refused in under(&expected, &two(names)) {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
            let ours = ["one", "two"][index];
            let said = format!("the column is named {:?}, not {ours:?}", names[index]);
            assert_eq!((error.message(), error.operation()), (&*said, Some("from_arrow")));
            assert_eq!(error.place(), Some(&NodePath::new([Step::Child(index)])));
        }
    }

    let (ab, ba) = (structs(["a", "b"]), structs(["b", "a"]));
    let of = |members: [(i8, &str); 2]| {
        let members = members.map(|(id, name)| (id, item(name, rs::DataType::Int64)));
        rs::DataType::Union(members.into_iter().collect(), rs::UnionMode::Dense)
    };
    let list = |inner: &rs::DataType| rs::DataType::List(item("item", inner.clone()));
    let map = |inner: &rs::DataType| maps(["entries", "key", "value"], inner.clone());
    let run = |inner: &rs::DataType| runs(["run_ends", "values"], inner.clone());
    let keys = |inner: &rs::DataType| {
        rs::DataType::Dictionary(Box::new(rs::DataType::Int8), Box::new(inner.clone()))
    };
    let child = Step::Child;
    for (expected, given, place) in [
        (ab.clone(), ba.clone(), vec![child(0)]),
        (list(&ab), list(&ba), vec![child(0), child(0)]),
        (list(&list(&ab)), list(&list(&ba)), vec![child(0); 3]),
        (map(&ab), map(&ba), vec![child(0), child(1), child(0)]),
        (run(&ab), run(&ba), vec![child(1), child(0)]),
        (keys(&ab), keys(&ba), vec![Step::Dictionary, child(0)]),
        (of([(3, "a"), (5, "b")]), of([(3, "b"), (5, "a")]), vec![child(0)]),
    ] {
        let batch = of_nulls([("x", given.clone())]);
        let place = NodePath::new([child(0)].into_iter().chain(place));
        for refused in under(&of_nulls([("x", expected.clone())]).schema(), &batch) {
            let error = refused.unwrap_err();
            assert_eq!((error.kind(), error.place()), (ErrorKind::SchemaMismatch, Some(&place)));
            assert_eq!(error.message(), "the column is named \"b\", not \"a\"");
        }
        let field = rs::Field::new("x", expected.clone(), true);
        let error = Array::from_arrow((&field, batch.column(0).clone())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");

        // In the other direction.
        let schema = of_nulls([("x", expected)]).schema();
        let schema = Schema::from_arrow(&*schema).unwrap();
        let given = arrow_device::Batch::from_arrow(batch);
        let reader = AsyncReader::new(schema, Given::new([given])).unwrap();
        let error = inner(Blocking::new(reader).next().unwrap().unwrap_err());
        assert_eq!((error.kind(), error.place()), (ErrorKind::SchemaMismatch, Some(&place)));
        assert_eq!(error.message(), "the column is named \"b\", not \"a\"");
    }
}

#[test]
fn names_that_libraries_choose_are_those_of_the_schema() {
    let int64 = || rs::DataType::Int64;
    let unit = |unit: &str| {
        let metadata = HashMap::from([("unit".to_owned(), unit.to_owned())]);
        rs::DataType::List(Arc::new(rs::Field::new("item", int64(), true).with_metadata(metadata)))
    };
    for (expected, given) in [
        (rs::DataType::List(item("item", int64())), rs::DataType::List(item("element", int64()))),
        (
            rs::DataType::FixedSizeList(item("item", int64()), 3),
            rs::DataType::FixedSizeList(item("element", int64()), 3),
        ),
        (
            maps(["entries", "key", "value"], int64()),
            maps(["key_value", "keys", "values"], int64()),
        ),
        (runs(["run_ends", "values"], int64()), runs(["ends", "items"], int64())),
        (unit("metres"), unit("feet")),
    ] {
        let schema = of_nulls([("x", expected)]).schema();
        let ours = Schema::from_arrow(&*schema).unwrap();
        let given = of_nulls([("x", given)]);
        for array in under(&schema, &given) {
            let array = array.unwrap();
            assert_eq!((array.data_type(), array.len()), (ours.data_type(), 2));
            array.validate().unwrap();
        }

        // In the other direction.
        let given = arrow_device::Batch::from_arrow(given);
        let reader = AsyncReader::new(ours, Given::new([given])).unwrap();
        let batch = Blocking::new(reader).next().unwrap().unwrap();
        assert_eq!((batch.schema(), batch.num_rows()), (schema.clone(), 2));
        assert_eq!(batch.column(0).data_type(), schema.field(0).data_type());
    }
}

#[test]
fn a_refused_batch_tells_types_apart_that_print_alike() {
    let batches = |has_nulls| {
        let key = Field::new("key", DataType::Utf8, false);
        let entries = DataType::struct_([key, Field::new("value", DataType::Int64, has_nulls)]);
        let entries = Arc::new(Field::new("entries", entries, false));
        let maps = DataType::Map { entries, keys_sorted: false };
        Schema::batch([Field::new("m", maps, true)]).unwrap()
    };
    let given = Array::empty(batches(true)).unwrap();
    let reader = AsyncReader::new(batches(false), Given::new([Ok(given)])).unwrap();
    let error = inner(Blocking::new(reader).next().unwrap().unwrap_err());
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    let message = error.message();
    assert!(message.contains("value: int64>") && message.contains("value: int64 not null>"));
}

#[test]
fn metadata_of_inner_fields_is_that_of_the_schema() {
    let batch = |metadata: &[(&str, &str)]| {
        let metadata = Metadata::from_pairs(metadata.iter().copied()).unwrap();
        let inner = Field::new("inner", DataType::Int64, true).with_metadata(metadata);
        let numbers = Array::from_values(DataType::Int64, [Some(7_i64)]).unwrap();
        let outer = Array::from_fields(DataType::struct_([inner]), [true], [numbers]).unwrap();
        arrow_device::Batch::from_columns([("outer", outer)])
    };
    let schema = batch(&[("of", "the schema")]).unwrap().schema().unwrap();
    let batches = [batch(&[("of", "the schema")]), batch(&[("of", "the batch")]), batch(&[])];
    let reader = AsyncReader::new(schema.clone(), Given::new(batches)).unwrap();
    let (expected, mut reader) = (reader.schema(), Blocking::new(reader));
    for _ in 0..3 {
        let batch = reader.next().unwrap().unwrap();
        assert_eq!((batch.schema(), batch.num_rows()), (expected.clone(), 1));
        assert_eq!(batch.column(0).data_type(), expected.field(0).data_type());
    }
    assert!(reader.next().is_none());
}

#[test]
fn arrays_on_a_device_are_refused_where_nobody_brings_them_to_the_host() {
    // No wait is possible here, and none is needed to refuse.
    let sim = Sim::builder().backtraces(false).may_wait(false).build();
    let queue = sim.device().open_queue().unwrap();
    let sent = vec![Ok::<_, ArrowError>(batch(2))];
    let arrays = AsyncArrays::from_arrow((schema(), Given::new(sent))).unwrap();
    let ours = arrays.schema().clone();
    let mut reader = AsyncReader::new(ours, arrays.copy_to(&queue)).unwrap();
    assert!(!reader.is_terminated());
    let mut poll = || Pin::new(&mut reader).poll_next(&mut Context::from_waker(Waker::noop()));
    let answers = std::iter::repeat_with(&mut poll).take(10);
    let refused = answers.filter_map(|answer| match answer {
        Poll::Ready(Some(Err(error))) => Some(inner(error)),
        _ => None,
    });
    let error = { refused }.next().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(error.device(), Some(queue.device().id()));
    assert!(matches!(poll(), Poll::Ready(None)));
    assert!(reader.is_terminated());
}

#[test]
fn wrong_data_ends_the_reader() {
    let ours = Schema::batch([Field::new("word", DataType::Utf8, true)]).unwrap();
    let of_batches = ours.clone();
    let batches = [[0, 1, 2], [0, 2, 1], [0, 1, 2]].map(|offsets| {
        let buffers = [None, Some(offsets.to_vec().into()), Some(vec![b'a'; 2].into())];
        let words = Array::builder(DataType::Utf8).len(2).buffers(buffers).finish_ready()?;
        arrow_device::Batch::new(of_batches.clone(), [words])
    });
    assert_eq!(refusal_of_the_second(ours, batches, 2), ErrorKind::InvalidData);
}

#[test]
fn an_error_of_the_device_reaches_the_engine() {
    let sim = Sim::builder().backtraces(false).build();
    let queue = sim.device().open_queue().unwrap();
    let sent: Vec<_> = (0..5).map(|_| Ok::<_, ArrowError>(batch(3))).collect();
    let arrays = AsyncArrays::from_arrow((schema(), Given::new(sent))).unwrap();
    let ours = arrays.schema().clone();
    let there = arrays.copy_to(&queue).to_host();
    let mut reader = Blocking::new(AsyncReader::new(ours, there).unwrap());
    assert_eq!(reader.next().unwrap().unwrap(), batch(3));
    sim.lose_device();
    assert_eq!(inner(reader.next().unwrap().unwrap_err()).kind(), ErrorKind::DeviceLost);
    assert!(reader.next().is_none());
}
