//! Streams keep to the rules of the interface, on both sides and in both C structs. Every rule has
//! a peer that breaks it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_device::abi::{ArrowArrayStream, ArrowDeviceArrayStream};
use arrow_device::{Array, ArrayStream, DeviceType, Error, ErrorKind, Result, Schema};
use arrow_device_testkit::kinds::Kind;
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::plan::Plan;
use arrow_device_testkit::stream::{
    Books, ConsumerFault, ProducerFault, Script, Step, StreamSeen, UNKNOWN_TYPE, Watch,
    check_consumer, check_producer, device_of, host_of, produce, produce_watched,
};
use arrow_device_testkit::{assert_complaint, producer};

const CPU: i32 = DeviceType::CPU.0;
/// Nobody waits for calls to overlap.
const AT_ONCE: Watch = Watch(Duration::ZERO);

// ---- the library as a producer

/// Alive as long as the iterator that holds it; its end is the end of the stream.
struct Counted(Arc<Ledger>);

impl Counted {
    fn new(ledger: &Arc<Ledger>) -> Self {
        ledger.opened();
        Self(ledger.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.base_released();
        self.0.closed();
    }
}

fn schema_of(plan: &Plan) -> Schema {
    unsafe { Schema::import(&mut producer::schema(plan, &Ledger::new())) }.unwrap()
}

/// The array of a step, which somebody else made.
fn array_of(step: &Step, device_type: i32, books: &Books) -> Result<Array> {
    let (plan, device_type, number) = match step {
        Step::Chunk(plan, number) => (plan, device_type, *number),
        Step::Stray(plan, stray) => (plan, *stray, 0),
        Step::Error(errno, text) => {
            let kind = ErrorKind::from_errno(*errno);
            return Err(Error::new(kind, text.unwrap_or_default()));
        }
    };
    let array = producer::array(plan, &books.chunks);
    let mut c_array = producer::on_device(array, device_type, number);
    unsafe { Array::import(&mut c_array, &schema_of(plan)) }
}

/// A stream of the library that gives what the script says.
fn stream_of(script: &Script, books: &Books) -> ArrayStream {
    let (device_type, steps) = (script.device_type, script.steps.clone());
    let (books, counted) = (books.clone(), Counted::new(&books.stream));
    let arrays = steps.into_iter().map(move |step| {
        let _alive = &counted;
        array_of(&step, device_type, &books)
    });
    ArrayStream::new(schema_of(&script.schema), DeviceType(device_type), arrays)
}

fn ours(script: &Script, books: &Books) -> ArrowDeviceArrayStream {
    let mut out = ArrowDeviceArrayStream::empty();
    stream_of(script, books).export(&mut out);
    out
}

/// Streams of plain arrays, seen as device streams.
fn ours_on_the_host(script: &Script, books: &Books) -> ArrowDeviceArrayStream {
    let mut out = ArrowArrayStream::empty();
    stream_of(script, books).export_host(&mut out).unwrap();
    device_of(out)
}

/// What was made by hand goes through the library and out again.
fn relayed(script: &Script, books: &Books) -> ArrowDeviceArrayStream {
    let mut made = produce(script, Some(ProducerFault::MixesTypes), books);
    let mut out = ArrowDeviceArrayStream::empty();
    unsafe { ArrayStream::import(&mut made) }.unwrap().export(&mut out);
    out
}

/// From one struct to the other and back.
fn relayed_twice(script: &Script, books: &Books) -> ArrowDeviceArrayStream {
    let mut made = host_of(relayed(script, books));
    let mut out = ArrowArrayStream::empty();
    unsafe { ArrayStream::import_host(&mut made) }.unwrap().export_host(&mut out).unwrap();
    let mut out_again = ArrowDeviceArrayStream::empty();
    unsafe { ArrayStream::import_host(&mut out) }.unwrap().export(&mut out_again);
    out_again
}

fn columns() -> Kind {
    Kind::Struct(vec![Kind::Fixed("l", 8), Kind::Dictionary("c", 1, Box::new(Kind::Text("u", 4)))])
}

/// An interpreter looks at one of them.
fn device_types() -> impl Iterator<Item = i32> {
    let all = [UNKNOWN_TYPE, CPU, DeviceType::CUDA.0, i32::MIN];
    all.into_iter().take(if cfg!(miri) { 1 } else { all.len() })
}

/// Streams that end, that fail, that are empty, and that give what they may not.
fn scripts(device_type: i32) -> Vec<Script> {
    let numbers = Script::of(&Kind::Fixed("i", 4), device_type, 3);
    let stray = if device_type == CPU { UNKNOWN_TYPE } else { CPU };
    vec![
        Script::of(&columns(), device_type, 4),
        Script::of(&Kind::Text("u", 4), device_type, 0),
        numbers.clone().then(Step::Error(libc::ETIMEDOUT, Some("the line went dead"))),
        numbers.clone().then(Step::Error(libc::ENOMEM, None)),
        Script::of(&columns(), device_type, 0).then(Step::Error(libc::ENODEV, Some("nothing"))),
        numbers.clone().then(Step::Stray(numbers.schema, stray)),
    ]
}

// Requirement: STR-1, STR-2, STR-3, STR-4, STR-5, STR-6, STR-7
#[test]
fn a_producer_keeps_to_the_rules() {
    for device_type in device_types() {
        for (index, script) in scripts(device_type).iter().enumerate() {
            let verdicts = [check_producer(&ours, script), check_producer(&relayed, script)];
            assert_eq!(verdicts, [Ok(()), Ok(())], "script {index} on {device_type}");
        }
    }
}

// Requirement: STR-2, STR-3, STR-4, STR-5, STR-6, STR-7
#[test]
fn a_producer_of_plain_arrays_keeps_to_the_rules() {
    for (index, script) in scripts(CPU).iter().enumerate() {
        let relayed = check_producer(&relayed_twice, script);
        let verdicts = [check_producer(&ours_on_the_host, script), relayed];
        assert_eq!(verdicts, [Ok(()), Ok(())], "script {index}");
    }
}

#[test]
fn a_handwritten_producer_without_a_fault_keeps_to_the_rules() {
    for script in scripts(UNKNOWN_TYPE) {
        let handwritten = |script: &Script, books: &Books| produce(script, None, books);
        assert_eq!(check_producer(&handwritten, &script), Ok(()));
    }
}

// Requirement: STR-1, STR-2, STR-3, STR-4, STR-5, STR-6, STR-7
#[test]
#[cfg_attr(miri, ignore = "one of the wrong producers leaks, as it is told to")]
fn every_wrong_producer_is_found_out() {
    use ProducerFault::*;
    let [whole, empty, failing, _, _, stray] = scripts(UNKNOWN_TYPE).try_into().unwrap();
    for (fault, script, complaint) in [
        (NamesTypeLate, &whole, "it names the type of device 0"),
        (MixesTypes, &stray, "an array on another type of device was handed out"),
        (GivesSchemaOnce, &whole, "no schema: 22"),
        (ChangesSchema, &whole, "the schema is"),
        (EndsWithError, &empty, "it failed with 22 and did not end"),
        (BeginsAgain, &whole, "there was more after the end"),
        (HidesError, &failing, "it ended and did not say that it failed"),
        (ForgetsError, &failing, "after an error it ended as if it were complete"),
        (GarblesText, &failing, "the text is not UTF-8"),
        (LosesText, &failing, "the text is Some(\"it failed\")"),
        (LosesCode, &failing, "-1 is no errno value"),
        (HandsOutWithError, &failing, "something was handed out with an error"),
        (TakesSchemasAlong, &whole, "a schema changed"),
        (TakesArraysAlong, &whole, "buffers moved"),
        (LeavesReleaseSet, &whole, "stream: the release left the struct unreleased"),
        (KeepsAddress, &whole, "it failed with 22"),
        (Leaks, &whole, "the stream: 1 allocations leaked"),
    ] {
        let wrong = |script: &Script, books: &Books| produce(script, Some(fault), books);
        println!("{fault:?}");
        assert_complaint(check_producer(&wrong, script), complaint);
    }
}

// ---- the library as a consumer

fn read(stream: &mut ArrowDeviceArrayStream) -> StreamSeen {
    outcome(unsafe { ArrayStream::import(stream) })
}

/// Through the struct for plain arrays.
fn read_on_the_host(stream: &mut ArrowDeviceArrayStream) -> StreamSeen {
    let mut host = host_of(std::mem::replace(stream, ArrowDeviceArrayStream::empty()));
    let outcome = outcome(unsafe { ArrayStream::import_host(&mut host) });
    assert!(host.is_released());
    outcome
}

/// Reads a stream to its end, and keeps the arrays until the stream is gone.
fn outcome(stream: Result<ArrayStream>) -> StreamSeen {
    let mut seen = StreamSeen::default();
    let told = |error: Error| Some((error.errno(), error.message().to_owned()));
    let mut stream = match stream {
        Ok(stream) => stream,
        Err(error) => return StreamSeen { error: told(error), ..seen },
    };
    seen.format = stream.schema().data_type().format().as_bytes().to_vec();
    let mut arrays = Vec::new();
    // More than any of them has, so that one without an end is seen.
    for array in stream.by_ref().take(100) {
        match array {
            Ok(array) => arrays.push(array),
            Err(error) => seen.error = told(error),
        }
    }
    assert!(stream.next().is_none() && stream.next().is_none(), "fused");
    drop(stream);
    seen.lengths = arrays.iter().map(|array| array.len() as i64).collect();
    seen
}

// Requirement: STR-1, STR-2, STR-4, STR-5, STR-6, STR-7, STR-9
#[test]
fn a_consumer_keeps_to_the_rules() {
    for device_type in device_types() {
        for (index, script) in scripts(device_type).iter().enumerate() {
            let verdict = check_consumer(&read, script, AT_ONCE);
            assert_eq!(verdict, Ok(()), "script {index} on {device_type}");
        }
    }
}

// Requirement: STR-4, STR-5, STR-6, STR-7, STR-9
#[test]
fn a_consumer_of_plain_arrays_keeps_to_the_rules() {
    // Without the last one: a plain array does not say where it lies.
    for (index, script) in scripts(CPU).iter().take(5).enumerate() {
        let verdict = check_consumer(&read_on_the_host, script, AT_ONCE);
        assert_eq!(verdict, Ok(()), "script {index}");
    }
}

/// What the library reads of a stream that it sent itself, through both structs.
#[test]
fn a_stream_that_goes_out_and_in_again_is_the_same() {
    for script in scripts(CPU) {
        let relay = |stream: &mut ArrowDeviceArrayStream| {
            let mut out = ArrowArrayStream::empty();
            unsafe { ArrayStream::import(stream) }.unwrap().export_host(&mut out).unwrap();
            outcome(unsafe { ArrayStream::import_host(&mut out) })
        };
        assert_eq!(check_consumer(&relay, &script, AT_ONCE), Ok(()));
    }
}

#[test]
fn a_handwritten_consumer_without_a_fault_keeps_to_the_rules() {
    for script in scripts(UNKNOWN_TYPE) {
        assert_eq!(check_consumer(&ConsumerFault::consume(None), &script, AT_ONCE), Ok(()));
    }
}

// Requirement: STR-2, STR-5, STR-7, STR-8, STR-9
#[test]
#[cfg_attr(miri, ignore = "some of the wrong consumers leak, as they are told to")]
fn every_wrong_consumer_is_found_out() {
    use ConsumerFault::*;
    let [whole, _, failing, without_text, _, stray] = scripts(UNKNOWN_TYPE).try_into().unwrap();
    for (fault, script, complaint) in [
        (AsksWithoutError, &whole, "get_last_error was called without an error"),
        (KeepsText, &failing, "it saw the error Some((110, \"?????"),
        (NeedsText, &without_text, "it saw the error None"),
        (ReleasesTwice, &whole, "release was called after release"),
        (CallsAfterRelease, &whole, "get_next was called after release"),
        (Leaks, &whole, "the stream: 0 releases of 1"),
        (LeavesSourceUnreleased, &whole, "the source was not marked as released"),
        (AcceptsAnyDevice, &stray, "it saw arrays of [0, 1, 2, 3]"),
        (LeaksRefused, &stray, "the arrays: 3 releases of 4"),
        (CallsOverlap, &whole, "two calls overlap"),
    ] {
        println!("{fault:?}");
        // The one whose calls overlap is waited for; the others are not held up.
        let patience = if fault == CallsOverlap { Duration::from_secs(20) } else { Duration::ZERO };
        let wrong = ConsumerFault::consume(Some(fault));
        assert_complaint(check_consumer(&wrong, script, Watch(patience)), complaint);
    }
}

// Requirement: STR-8
#[test]
fn a_stream_is_read_from_several_threads_and_no_calls_overlap() {
    let arrays = if cfg!(miri) { 6 } else { 24 };
    let script = Script::of(&columns(), UNKNOWN_TYPE, arrays);
    let books = Books::default();
    let patience = Watch(Duration::from_micros(500));
    let mut made = produce_watched(&script, None, &books, patience);
    let stream = Mutex::new(unsafe { ArrayStream::import(&mut made) }.unwrap());
    let mut lengths: Vec<usize> = std::thread::scope(|threads| {
        let read = || {
            let take = || stream.lock().unwrap().next();
            std::iter::from_fn(take).map(|array| array.unwrap().len()).collect::<Vec<_>>()
        };
        let threads = [(); 4].map(|()| threads.spawn(read));
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    lengths.sort_unstable();
    assert!(lengths.into_iter().eq(1..=arrays));
    drop(stream);
    assert_eq!(books.settle(arrays), Ok(()));
}

// Requirement: STR-7, STR-8
#[test]
fn a_stream_is_made_read_and_released_on_three_threads() {
    let script = Script::of(&columns(), UNKNOWN_TYPE, 3);
    let books = Books::default();
    let mut made = produce(&script, None, &books);
    let stream = unsafe { ArrayStream::import(&mut made) }.unwrap();
    let read = std::thread::spawn(|| {
        let mut stream = stream;
        let array = stream.next().unwrap().unwrap();
        (stream, array)
    });
    let (stream, array) = read.join().unwrap();
    std::thread::spawn(|| drop(stream)).join().unwrap();
    assert_eq!(books.stream.settle(1), Ok(()));
    assert_eq!((array.len(), books.chunks.base_releases()), (1, 0));
    drop(array);
    assert_eq!(books.settle(1), Ok(()));
}
