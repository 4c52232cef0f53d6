//! arrow-rs takes arrays and streams over by its own C interface, and gives them back; and what it
//! does wrong.

use std::ptr::null_mut;
use std::sync::Arc;

use arrow_array_60::{Array as _, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_device::abi::{ArrowArray, ArrowArrayStream};
use arrow_device::{
    Array, ArrayStream, Batch, DataType, DeviceType, Error, ErrorKind, Schema, validate,
};
use arrow_device_testkit::kinds::{Kind, cases, types};
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::plan::{Nulls, Plan, Window};
use arrow_device_testkit::process::{self, End};
use arrow_device_testkit::{Verdict, producer, require};
use arrow_schema_60::{
    ArrowError, DataType as ArrowType, Field as ArrowField, Schema as ArrowSchema,
};
use foreign_peers::table::{self, Found, Table};
use foreign_peers::{Structs, arrow_rs};

fn words(error: arrow_device::Error) -> String {
    error.to_string()
}

fn import(mut structs: Structs) -> Result<Array, String> {
    let Structs { schema, array } = &mut structs;
    unsafe { validate::schema_structure(schema) }.map_err(words)?;
    unsafe { validate::structure(array) }.map_err(words)?;
    let schema = unsafe { Schema::import(schema) }.map_err(words)?;
    let array = unsafe { Array::import(array, &schema) }.map_err(words)?;
    array.validate().map_err(words)?;
    Ok(array)
}

fn planned(plan: &Plan, ledger: &Arc<Ledger>) -> Structs {
    let (schema, array) = (producer::schema(plan, ledger), producer::device_array(plan, ledger));
    Structs { schema, array }
}

/// What it does not take or changes, by what is said then.
const KNOWN: [(&str, &str); 4] = [
    (
        "The external buffer at position 1 is null",
        "empty arrays whose offsets are null are refused",
    ),
    ("invalid utf-8 sequence", "metadata that is not UTF-8 is refused"),
    (DICTIONARY, "dictionaries are said to have no null values"),
    (VALUES, "metadata of the values of dictionaries is lost"),
];
const DICTIONARY: &str = "the dictionary has other flags";
const VALUES: &str = "the values of the dictionary are of no extension type";
const EXTENSION: &str = "ARROW:extension:name: test.kind";

/// That what came back has the values of what was sent, and its type.
fn compare(sent: &Array, mut back: Structs) -> Verdict {
    let schema = unsafe { Schema::import(&mut back.schema) }.map_err(words)?;
    // With the type that was sent, so that values are compared whatever became of the type.
    let array = unsafe { Array::import(&mut back.array, &sent.schema().map_err(words)?) };
    let array = array.map_err(words)?;
    array.validate().map_err(words)?;
    require(array.equals(sent).map_err(words)?, || "the values are others".into())?;
    if schema.field().data_type() == sent.data_type() {
        return Ok(());
    }
    let [ours, theirs] = [sent.data_type(), schema.field().data_type()].map(|of| format!("{of:?}"));
    let without_flags = |text: &str| text.replace(" not null", "");
    let is_dictionary = ours.contains("dictionary");
    Err(if is_dictionary && without_flags(&ours) == without_flags(&theirs) {
        DICTIONARY.into()
    } else if is_dictionary && ours.contains(EXTENSION) && !theirs.contains(EXTENSION) {
        VALUES.into()
    } else {
        format!("{ours}, {theirs}")
    })
}

#[test]
fn what_we_export_comes_back_from_arrow_rs() {
    let mut found = Found::default();
    for case in cases() {
        let ledger = Ledger::new();
        let ours = import(planned(&case.plan(), &ledger)).unwrap();
        let verdict = unsafe { arrow_rs::relay(Structs::of(&ours).unwrap()) }
            .and_then(|back| compare(&ours, back));
        drop(ours);
        found.count(&case, verdict, &KNOWN);
        ledger.settle_soon(2).unwrap();
    }
    found.settle(
        &arrow_rs::name(),
        "from us and back",
        "every type, every nesting of two",
        "what_we_export_comes_back_from_arrow_rs",
    );
}

/// Batches of one column of one type, whole and sliced in both ways.
fn batches(kind: &Kind, ledger: &Arc<Ledger>) -> Vec<Batch> {
    let mut batches = Vec::new();
    for window in [Window::WHOLE, Window::SLICED, Window::EMPTY] {
        for nulls in Nulls::ALL {
            let column = import(planned(&kind.plan(window, nulls), ledger)).unwrap();
            let batch = Batch::from_columns([("column", column)]).unwrap();
            batches.extend((window.length > 0).then(|| batch.slice(1, 2).unwrap()));
            batches.push(batch);
        }
    }
    batches
}

#[test]
fn streams_of_ours_come_back_from_arrow_rs() {
    let mut found = Found::default();
    for kind in types() {
        let ledger = Ledger::new();
        let sent = batches(&kind, &ledger);
        let schema = sent[0].schema().unwrap();
        let mut out = ArrowArrayStream::empty();
        let stream = ArrayStream::new(schema, DeviceType::CPU, sent.clone().into_iter().map(Ok));
        stream.export_host(&mut out).unwrap();
        let verdict = unsafe { arrow_rs::relay_stream(out) }.and_then(|mut back| {
            let back = unsafe { ArrayStream::import_host(&mut back) }.map_err(words)?;
            let back = back.collect::<Result<Vec<_>, _>>().map_err(words)?;
            require(back.len() == sent.len(), || format!("{} batches", back.len()))?;
            let mut pairs = sent.iter().zip(back);
            pairs.try_for_each(|(sent, back)| {
                compare(sent.as_array(), Structs::of(&back).map_err(words)?)
            })
        });
        drop(sent);
        found.count(&kind, verdict, &KNOWN);
        ledger.settle_soon(18).unwrap();
    }
    found.settle(
        &arrow_rs::name(),
        "streams, from us and back",
        "every type",
        "streams_of_ours_come_back_from_arrow_rs",
    );
}

#[test]
fn errors_of_ours_arrive_there_with_their_code_and_text() {
    let error = Error::new(ErrorKind::OutOfMemory, "there is none left");
    let stream =
        ArrayStream::new(batch().schema().unwrap(), DeviceType::CPU, [Ok(batch()), Err(error)]);
    let mut out = ArrowArrayStream::empty();
    stream.export_host(&mut out).unwrap();
    let mut reader = unsafe { arrow_rs::read_stream(out) }.unwrap();
    assert_eq!(reader.next().unwrap().unwrap().num_rows(), 4);
    let said = reader.next().unwrap().unwrap_err().to_string();
    assert!(said.contains("Error code: 12") && said.contains("there is none left"), "{said}");
}

#[test]
fn errors_of_its_readers_arrive_with_their_code_and_text() {
    let codes = [
        (ArrowError::MemoryError("of its memory".into()), ErrorKind::OutOfMemory),
        (ArrowError::NotYetImplemented("of its plans".into()), ErrorKind::Unsupported),
        (ArrowError::ComputeError("of its numbers".into()), ErrorKind::InvalidArgument),
    ];
    for (error, kind) in codes {
        let text = error.to_string();
        let reader = reader_of([Err(error)]);
        let mut stream = arrow_rs::export_stream(reader);
        let mut stream = unsafe { ArrayStream::import_host(&mut stream) }.unwrap();
        let found = stream.next().unwrap().unwrap_err();
        assert_eq!(found.kind(), kind, "{found}");
        assert!(found.to_string().contains(&text), "{found}");
        assert!(stream.next().is_none());
    }
}

fn numbers() -> Array {
    Array::from_values(DataType::Int32, [Some(1), None, Some(3), Some(4)]).unwrap()
}

fn batch() -> Batch {
    Batch::from_columns([("n", numbers())]).unwrap()
}

/// A reader of its own, with the schema of [`batch`].
fn reader_of<I>(items: I) -> impl RecordBatchReader + Send + 'static
where
    I: IntoIterator<Item = Result<RecordBatch, ArrowError>, IntoIter: Send + 'static>,
{
    let schema = Arc::new(ArrowSchema::new(vec![ArrowField::new("n", ArrowType::Int32, true)]));
    RecordBatchIterator::new(items.into_iter(), schema)
}

fn fault(what: &str, how: &str, here: &str, test: &str) {
    table::check(Table::Faults, &[&arrow_rs::name(), what, how, here], test);
}

/// Makes something of an export wrong.
type Change = fn(&mut ArrowArray);

/// Changes an export of ours before arrow-rs gets it, and returns what both say.
fn changed(array: &Array, change: Change) -> (Result<Structs, String>, Error) {
    let broken = || {
        let mut structs = Structs::of(array).unwrap();
        change(&mut structs.array.array);
        structs
    };
    let mut structs = broken();
    let schema = unsafe { Schema::import(&mut structs.schema) }.unwrap();
    let ours = unsafe { Array::import(&mut structs.array, &schema) }.unwrap_err();
    // What it lets pass it releases, and what it does not, leaks here: the change has hidden what
    // was to be released.
    (unsafe { arrow_rs::relay(broken()) }, ours)
}

#[test]
fn it_lets_pass_what_cannot_be() {
    const TEST: &str = "it_lets_pass_what_cannot_be";
    let (theirs, ours) = changed(&numbers(), |array| array.null_count = -7);
    assert!(theirs.is_ok(), "it looks at null counts now");
    let here = format!("the import is an error ({:?})", ours.kind());
    fault("a null count of -7", "taken for unknown", &here, TEST);
    let (theirs, ours) = changed(&numbers(), |array| array.release = None);
    assert!(theirs.is_ok(), "it looks at `release` now");
    let here = format!("the import is an error ({:?})", ours.kind());
    fault("an array that is released", "is imported and read", &here, TEST);
}

#[test]
fn it_panics_where_something_is_null() {
    const TEST: &str = "it_panics_where_something_is_null";
    let lists = || {
        let lens = [Some(1), Some(3)];
        Array::from_lists(DataType::list(DataType::Int32), lens, numbers()).unwrap()
    };
    let cases: [(&str, Change, Array); 4] = [
        ("a table of buffers that is null", |array| array.buffers = null_mut(), numbers()),
        ("a table of children that is null", |array| array.children = null_mut(), lists()),
        ("a child that is null", |array| unsafe { array.children.write(null_mut()) }, lists()),
        ("no children where there is one in the type", |array| array.n_children = 0, lists()),
    ];
    for (what, change, array) in cases {
        let (theirs, ours) = changed(&array, change);
        let Err(said) = theirs else { panic!("{what} is accepted") };
        assert!(said.starts_with("panic: "), "{what} is an error now: {said}");
        let here = format!("the import is an error ({:?})", ours.kind());
        fault(what, "its import panics", &here, TEST);
    }
}

#[test]
fn views_without_sizes_crash_it() {
    const TEST: &str = "views_without_sizes_crash_it";
    let views =
        || Array::from_texts(DataType::Utf8View, [Some("longer than a view can hold")]).unwrap();
    let change = |array: &mut ArrowArray| {
        let sizes = unsafe { array.buffers.add(array.n_buffers as usize - 1) };
        unsafe { sizes.write(std::ptr::null()) };
    };
    let Some(end) = process::end_of(|| drop(changed(&views(), change))) else { return };
    assert_eq!(end, End::Crashed, "it no longer crashes");
    fault(
        "sizes of data buffers that are null",
        "its import crashes",
        "the import is an error (Malformed)",
        TEST,
    );
}

#[test]
fn rows_that_are_null_are_not_null_after_its_stream() {
    const TEST: &str = "rows_that_are_null_are_not_null_after_its_stream";
    let rows = Array::builder(batch().schema().unwrap()).len(4).null_count(3);
    let rows = rows.buffers([Some(vec![0b0100_u8].into())]).children([numbers()]);
    let rows = rows.finish_ready().unwrap();
    let stream = || {
        let mut out = ArrowArrayStream::empty();
        let stream = ArrayStream::new(rows.schema().unwrap(), DeviceType::CPU, [Ok(rows.clone())]);
        stream.export_host(&mut out).unwrap();
        out
    };
    let mut reader = unsafe { arrow_rs::read_stream(stream()) }.unwrap();
    let read = reader.next().unwrap().expect("it refuses null rows now");
    assert_eq!((read.num_rows(), read.column(0).null_count()), (4, 1));
    let ours = unsafe { ArrayStream::import_host(&mut stream()) }.unwrap();
    let refused = ours.into_batches().next().unwrap().unwrap_err();
    let here = format!("an array with null rows; as a batch an error ({:?})", refused.kind());
    fault("rows of a stream that are null as a whole", "are read as if they were not", &here, TEST);
}

#[test]
fn a_panic_of_its_reader_ends_the_process() {
    const TEST: &str = "a_panic_of_its_reader_ends_the_process";
    let read = || {
        let items = std::iter::from_fn(|| panic!("in the reader"));
        let mut stream = arrow_rs::export_stream(reader_of(items));
        let stream = unsafe { ArrayStream::import_host(&mut stream) }.unwrap();
        drop(stream.collect::<Vec<_>>());
    };
    let Some(end) = process::end_of(read) else { return };
    assert_eq!(end, End::Crashed, "it no longer ends the process");
    let here = "a panic of ours is an error, and the end of the stream";
    fault("a reader that panics", "ends the process", here, TEST);
}

#[test]
fn an_error_with_a_null_byte_ends_the_process() {
    const TEST: &str = "an_error_with_a_null_byte_ends_the_process";
    let read = || {
        let error = ArrowError::ComputeError("before\0after".into());
        let mut stream = arrow_rs::export_stream(reader_of([Err(error)]));
        let stream = unsafe { ArrayStream::import_host(&mut stream) }.unwrap();
        drop(stream.collect::<Vec<_>>());
    };
    let Some(end) = process::end_of(read) else { return };
    assert_eq!(end, End::Crashed, "it no longer ends the process");
    let error = Error::new(ErrorKind::Driver, "before\0after");
    let failing = [Err::<Batch, _>(error)];
    let stream = ArrayStream::new(batch().schema().unwrap(), DeviceType::CPU, failing);
    let mut out = ArrowArrayStream::empty();
    stream.export_host(&mut out).unwrap();
    let mut ours = unsafe { ArrayStream::import_host(&mut out) }.unwrap();
    let said = ours.next().unwrap().unwrap_err().to_string();
    assert!(said.contains("before") && said.contains("after"), "{said}");
    fault("an error whose text has a null byte", "ends the process", "the text without it", TEST);
}
