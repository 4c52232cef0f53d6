//! Readers of record batches, as C streams and back.

use std::sync::Arc;

use arrow_device::abi::{ArrowArrayStream, ArrowDeviceArrayStream};
use arrow_device::{
    Array, ArrayStream, Batch, DataType, DeviceType, Error, ErrorKind, Field, Schema,
};

use super::arrow::array::{
    Int32Array, RecordBatch, RecordBatchIterator, RecordBatchReader, StringArray,
};
use super::arrow::schema::{
    ArrowError, DataType as Theirs, Field as TheirField, Schema as TheirSchema, SchemaRef,
};
use super::ours::{FromArrow as _, Reader};

fn schema() -> SchemaRef {
    let fields = vec![
        TheirField::new("id", Theirs::Int32, false),
        TheirField::new("word", Theirs::Utf8, true),
    ];
    Arc::new(TheirSchema::new(fields))
}

fn batch(rows: i32) -> RecordBatch {
    let words = StringArray::from_iter((0..rows).map(|row| (row % 3 > 0).then(|| row.to_string())));
    let id = Int32Array::from_iter_values(0..rows);
    RecordBatch::try_new(schema(), vec![Arc::new(id), Arc::new(words)]).unwrap()
}

fn reader(
    batches: Vec<Result<RecordBatch, ArrowError>>,
) -> impl RecordBatchReader + Send + 'static {
    RecordBatchIterator::new(batches, schema())
}

#[test]
fn a_reader_goes_through_a_c_stream_and_is_a_reader_again() {
    let sent = [0, 5, 1, 100].map(batch);
    let stream = ArrayStream::from_arrow(reader(sent.clone().map(Ok).into())).unwrap();
    let mut c_stream = ArrowDeviceArrayStream::empty();
    stream.export(&mut c_stream);
    let stream = unsafe { ArrayStream::import(&mut c_stream) }.unwrap();
    let mut received = Reader::new(stream).unwrap();
    assert_eq!(received.schema(), schema());
    let batches: Vec<_> = received.by_ref().collect::<Result<_, _>>().unwrap();
    assert_eq!(batches, sent);
    assert!(received.next().is_none());

    let stream = ArrayStream::from_arrow(reader(vec![Ok(batch(3))])).unwrap();
    let mut c_stream = ArrowArrayStream::empty();
    stream.export_host(&mut c_stream).unwrap();
    let stream = unsafe { ArrayStream::import_host(&mut c_stream) }.unwrap();
    let mut trusting = unsafe { Reader::new_unchecked(stream) }.unwrap();
    assert_eq!(trusting.next().unwrap().unwrap(), batch(3));
}

#[test]
fn an_error_of_a_reader_reaches_the_other_end_and_is_the_last_thing() {
    let fails = || Err(ArrowError::ParseError("line 7".into()));
    let stream =
        ArrayStream::from_arrow(reader(vec![Ok(batch(2)), fails(), Ok(batch(2))])).unwrap();
    let mut reader = Reader::new(stream).unwrap();
    assert!(reader.next().unwrap().is_ok());
    let error = reader.next().unwrap().unwrap_err();
    assert!(error.to_string().contains("line 7"), "{error}");
    let ArrowError::ExternalError(inner) = error else { panic!("it has our error in it") };
    assert_eq!(inner.downcast_ref::<Error>().unwrap().kind(), ErrorKind::Peer);
    assert!(reader.next().is_none());
}

#[test]
fn a_batch_of_wrong_data_ends_the_reader() {
    let field = || Field::new("word", DataType::Utf8, true);
    let schema = Schema::batch([field()]).unwrap();
    let of_batches = schema.clone();
    let batches = [[0, 1, 2], [0, 2, 1]].map(move |offsets| {
        let buffers = [None, Some(offsets.to_vec().into()), Some(vec![b'a'; 2].into())];
        let words = Array::builder(DataType::Utf8).len(2).buffers(buffers).finish_ready()?;
        Batch::new(of_batches.clone(), [words])
    });
    let stream = ArrayStream::new(schema, DeviceType::CPU, batches);
    let mut reader = Reader::new(stream).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().num_rows(), 2);
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}

#[test]
fn a_stream_that_is_no_reader_is_refused_at_once() {
    let nothing = || std::iter::empty::<Result<Array, Error>>();
    let structs = Schema::batch([]).unwrap();
    let on_device = ArrayStream::new(structs, DeviceType::CUDA, nothing());
    let error = Reader::new(on_device).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let numbers = Schema::try_from(DataType::Int8).unwrap();
    let error = Reader::new(ArrayStream::new(numbers, DeviceType::CPU, nothing())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
}
