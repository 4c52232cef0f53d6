//! What goes wrong inside an iterator reaches the consumer of its stream as a code and a text, and
//! nothing else of it does.

use std::ffi::CStr;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_device::abi::{ArrowArrayStream, ArrowDeviceArray, ArrowDeviceArrayStream, ArrowSchema};
use arrow_device::{
    Array, ArrayStream, Batch, DataType, DeviceType, Error, ErrorKind, Field, Metadata, Result,
    Schema,
};
use arrow_device_testkit::kinds::Kind;
use arrow_device_testkit::stream::{Books, ProducerFault, Script, Step, produce};

fn one() -> Array {
    Array::from_values(DataType::Int32, [Some(1)]).unwrap()
}

fn int32() -> Schema {
    DataType::Int32.try_into().unwrap()
}

/// A stream as C sees it. Released when dropped.
struct Seen(ArrowDeviceArrayStream);

impl Seen {
    fn of<I>(arrays: I) -> Self
    where
        I: IntoIterator<Item = Result<Array>, IntoIter: Send + 'static>,
    {
        let mut out = ArrowDeviceArrayStream::empty();
        ArrayStream::new(int32(), DeviceType::CPU, arrays).export(&mut out);
        Self(out)
    }

    /// The length of the next array, nothing at the end, or the code and the text of an error.
    fn next(&mut self) -> Result<Option<i64>, (i32, String)> {
        // The memory of a consumer holds anything.
        let mut out = std::mem::MaybeUninit::<ArrowDeviceArray>::uninit();
        unsafe { out.as_mut_ptr().write_bytes(0xaa, 1) };
        let errno = unsafe { self.0.get_next.unwrap()(&raw mut self.0, out.as_mut_ptr()) };
        let mut out = unsafe { out.assume_init() };
        if errno != 0 {
            assert!(out.is_released(), "nothing is handed out with an error");
            return Err((errno, self.last_error().unwrap()));
        }
        if out.is_released() {
            return Ok(None);
        }
        let length = out.array.length;
        unsafe { out.array.release.unwrap()(&raw mut out.array) };
        Ok(Some(length))
    }

    fn last_error(&mut self) -> Option<String> {
        let text = unsafe { self.0.get_last_error.unwrap()(&raw mut self.0) };
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned())
    }

    fn asks_for_schema(&mut self) {
        let mut out = ArrowSchema::empty();
        assert_eq!(unsafe { self.0.get_schema.unwrap()(&raw mut self.0, &raw mut out) }, 0);
        unsafe { out.release.unwrap()(&raw mut out) };
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        unsafe { self.0.release.unwrap()(&raw mut self.0) };
        assert!(self.0.is_released());
    }
}

/// An error of another library, with what caused it.
#[derive(Debug)]
struct Layer(&'static str, Option<Box<dyn std::error::Error + Send + Sync>>);

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Layer {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.1.as_ref().map(|cause| &**cause as _)
    }
}

// Requirement: STR-5
#[test]
fn an_error_and_its_causes_are_a_code_and_one_text() {
    let inner = Error::new(ErrorKind::DeviceLost, "pulled out").during("copy");
    let middle = Layer("page 7", Some(inner.into()));
    let outer = Error::other(Layer("reading the\0 file", Some(middle.into())));
    let mut stream = Seen::of([Ok(one()), Err(outer), Ok(one())]);
    assert_eq!(stream.next(), Ok(Some(1)));
    let expected = "device lost: reading the file: page 7: copy: device lost: pulled out";
    let failed = Err((libc::ENXIO, expected.to_owned()));
    assert_eq!(stream.next(), failed);
    assert_eq!(stream.last_error().as_deref(), Some(expected), "until the next call");
    stream.asks_for_schema();
    assert_eq!(stream.last_error(), None, "the last call did not fail");
    assert_eq!(stream.next(), failed, "a stream that has failed does not go on, and does not end");
    assert_eq!(stream.next(), failed);
}

// Requirement: STR-5
#[test]
fn every_kind_of_error_has_its_code_on_both_sides() {
    for kind in ErrorKind::ALL {
        let mut out = ArrowDeviceArrayStream::empty();
        let arrays = [Ok(one()), Err(Error::new(*kind, "so it is"))];
        ArrayStream::new(int32(), DeviceType::CPU, arrays).export(&mut out);
        let mut stream = unsafe { ArrayStream::import(&mut out) }.unwrap();
        assert!(stream.next().unwrap().is_ok());
        let error = stream.next().unwrap().unwrap_err();
        assert_eq!(error.errno(), kind.errno());
        assert_eq!(error.kind(), ErrorKind::from_errno(kind.errno()));
        assert!(error.message().contains("so it is"), "{error}");
    }
}

// Requirement: STR-5
#[test]
fn a_code_and_a_text_stay_what_they_are_however_often_they_are_handed_on() {
    let unknown = std::io::Error::from_raw_os_error(libc::ENOTEMPTY);
    let mut stream =
        ArrayStream::new(int32(), DeviceType::CPU, [Err::<Array, _>(Error::other(unknown))]);
    for _ in 0..3 {
        let mut device = ArrowDeviceArrayStream::empty();
        stream.export(&mut device);
        let mut host = ArrowArrayStream::empty();
        unsafe { ArrayStream::import(&mut device) }.unwrap().export_host(&mut host).unwrap();
        stream = unsafe { ArrayStream::import_host(&mut host) }.unwrap();
    }
    let error = stream.next().unwrap().unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::Peer, libc::ENOTEMPTY));
    let said = std::io::Error::from_raw_os_error(libc::ENOTEMPTY).to_string();
    assert_eq!(error.message(), format!("peer error: {said}"));
}

// Requirement: STR-5
#[test]
fn a_code_that_is_no_errno_value_is_one_when_it_is_handed_on() {
    let script = Script::of(&Kind::Fixed("l", 8), DeviceType::CPU.0, 0)
        .then(Step::Error(libc::EIO, Some("the cable was pulled")));
    let mut source = produce(&script, Some(ProducerFault::LosesCode), &Books::default());
    let mut out = ArrowDeviceArrayStream::empty();
    unsafe { ArrayStream::import(&mut source) }.unwrap().export(&mut out);
    let mut relayed = unsafe { ArrayStream::import(&mut out) }.unwrap();
    let error = relayed.next().unwrap().unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::Peer, libc::EPROTO));
    assert!(error.message().contains("the cable was pulled"), "{error}");
}

/// Counts how often it is dropped; panics where it is told to.
struct Fragile {
    drops: Arc<AtomicUsize>,
    panics_in_next: bool,
    panics_in_drop: bool,
}

impl Iterator for Fragile {
    type Item = Result<Array>;

    fn next(&mut self) -> Option<Result<Array>> {
        if self.panics_in_next {
            panic!("planted in next");
        }
        Some(Ok(one()))
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::SeqCst);
        if self.panics_in_drop {
            // Nothing is allocated for this one, so that what is left alone is no leak.
            std::panic::resume_unwind(Box::new(()));
        }
    }
}

// Requirement: STR-5, SAF-30, SAF-31
#[test]
#[cfg(panic = "unwind")]
fn a_panic_is_an_error_and_the_end_of_the_iterator() {
    for panics_in_drop in [false, true] {
        let drops = Arc::default();
        let fragile = Fragile { drops: Arc::clone(&drops), panics_in_next: true, panics_in_drop };
        let mut stream = Seen::of(fragile);
        let failed = Err((libc::EFAULT, "panicked: planted in next".to_owned()));
        assert_eq!(stream.next(), failed);
        assert_eq!(drops.load(Ordering::SeqCst), 1, "it is not asked again");
        stream.asks_for_schema();
        assert_eq!(stream.next(), failed);
        drop(stream);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    }
}

// Requirement: STR-7
#[test]
#[cfg(panic = "unwind")]
fn a_release_in_the_middle_drops_the_iterator_and_never_panics() {
    for panics_in_drop in [false, true] {
        let drops = Arc::default();
        let fragile = Fragile { drops: Arc::clone(&drops), panics_in_next: false, panics_in_drop };
        let mut stream = Seen::of(fragile);
        assert_eq!(stream.next(), Ok(Some(1)));
        drop(stream);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    }
}

#[test]
#[cfg(panic = "unwind")]
fn a_stream_whose_iterator_panicked_here_is_at_its_end() {
    let fragile = Fragile { drops: Arc::default(), panics_in_next: true, panics_in_drop: false };
    let mut stream = ArrayStream::new(int32(), DeviceType::CPU, fragile);
    let panicked =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stream.next().is_some()));
    assert!(panicked.is_err());
    assert!(stream.next().is_none());
}

// Requirement: STR-2
#[test]
fn an_array_that_is_not_of_the_schema_is_refused() {
    let text = Array::from_values(DataType::Int64, [Some(1_i64)]).unwrap();
    let mut stream = Seen::of([Ok(one()), Ok(text), Ok(one())]);
    assert_eq!(stream.next(), Ok(Some(1)));
    let (errno, message) = stream.next().unwrap_err();
    assert_eq!(errno, libc::EINVAL);
    assert!(
        message.contains("an array of the stream has the type int64, and the schema says int32"),
        "{message}"
    );
}

/// Maps with entries of this name. `Display` prints all of these types alike.
fn map(entries: &str) -> DataType {
    let key_and_value =
        [Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Int64, true)];
    let entries = Field::new(entries, DataType::struct_(key_and_value), false);
    DataType::Map { entries: Arc::new(entries), keys_sorted: false }
}

// Requirement: STR-2
#[test]
fn a_refusal_tells_types_apart_that_print_alike() {
    let (expected, given) = (map("entries"), map("key_value"));
    assert_eq!(expected.to_string(), given.to_string());
    let empty = |data_type: &DataType| Array::empty(data_type.clone()).unwrap();
    let of_stream = |schema, array| {
        ArrayStream::new(schema, DeviceType::CPU, [Ok(array)]).next().unwrap().unwrap_err()
    };
    let batches = Schema::batch([Field::new("m", expected.clone(), true)]).unwrap();
    let refusals = [
        of_stream(expected.clone().try_into().unwrap(), empty(&given)),
        Batch::new(batches, [empty(&given)]).unwrap_err(),
        Array::concat(&[empty(&expected), empty(&given)]).unwrap_err(),
    ];
    for refusal in refusals {
        let message = refusal.message();
        assert!(message.contains("map<entries: struct<"), "{message}");
        assert!(message.contains("map<key_value: struct<"), "{message}");
    }

    let named = |extension| {
        let metadata = Metadata::from_pairs([("ARROW:extension:name", extension)]).unwrap();
        Schema::new(Field::new("", DataType::Int32, true).with_metadata(metadata)).unwrap()
    };
    let refusal = of_stream(named("metres"), Array::empty(named("feet")).unwrap());
    let message = refusal.message();
    assert!(message.contains("metres") && message.contains("feet"), "{message}");
}

/// Names and nullability of columns are a part of a type; the root's own are not, and metadata is
/// not.
#[test]
fn what_of_a_schema_has_to_be_the_same() {
    let id = |name: &str, nullable| Field::new(name, DataType::Int32, nullable);
    let batch = |column: Field| Batch::new(Schema::batch([column]).unwrap(), [one()]).unwrap();
    let is_taken = |schema: Field, array: Array| {
        let schema = Schema::new(schema).unwrap();
        ArrayStream::new(schema, DeviceType::CPU, [Ok(array)]).next().unwrap().is_ok()
    };
    let columns = || DataType::struct_([id("a", false)]);
    assert!(is_taken(Field::new("", columns(), false), batch(id("a", false)).into()));
    assert!(is_taken(Field::new("rows", columns(), true), batch(id("a", false)).into()));
    let noted = id("a", false).with_metadata(Metadata::from_pairs([("unit", "m")]).unwrap());
    assert!(is_taken(Field::new("", columns(), false), batch(noted).into()));
    assert!(!is_taken(Field::new("", columns(), false), batch(id("b", false)).into()));
    assert!(!is_taken(Field::new("", columns(), false), batch(id("a", true)).into()));
    let uuid = id("a", false)
        .with_metadata(Metadata::from_pairs([("ARROW:extension:name", "id")]).unwrap());
    assert!(!is_taken(Field::new("", columns(), false), batch(uuid.clone()).into()));
    let of_uuids = DataType::struct_([uuid.clone()]);
    assert!(is_taken(Field::new("", of_uuids.clone(), false), batch(uuid).into()));
    assert!(!is_taken(Field::new("", of_uuids, false), batch(id("a", false)).into()));
    // A column that was picked out of a batch is an array like any other.
    let column = batch(id("a", false)).column(0).unwrap();
    assert!(is_taken(Field::new("x", DataType::Int32, true), column));
}

#[test]
fn batches_go_out_and_come_in() {
    let schema = Schema::batch([Field::new("a", DataType::Int32, false)]).unwrap();
    let batch = Batch::new(schema.clone(), [one()]).unwrap();
    let batches = [batch.clone(), batch].map(Ok);
    let mut out = ArrowDeviceArrayStream::empty();
    ArrayStream::new(schema.clone(), DeviceType::CPU, batches).export(&mut out);
    let stream = unsafe { ArrayStream::import(&mut out) }.unwrap();
    assert_eq!(stream.schema(), &schema);
    let rows = stream.into_batches().map(|batch| batch.unwrap().row_count());
    assert_eq!(rows.collect::<Vec<_>>(), [1, 1]);
    let mut no_batches = ArrayStream::new(int32(), DeviceType::CPU, [Ok(one())]).into_batches();
    assert_eq!(no_batches.next().unwrap().unwrap_err().kind(), ErrorKind::SchemaMismatch);
    assert!(no_batches.next().is_none());
}

/// A column has its name from the batch, and holds the batch's schema for that. Whoever loses it
/// here is found by Miri and valgrind.
#[test]
fn columns_that_were_picked_out_of_batches_go_out_and_leave_nothing() {
    let column = |_| Batch::from_columns([("a", one())])?.column(0);
    let stream = || ArrayStream::new(int32(), DeviceType::CPU, (0..3).map(column));
    let (mut out, mut host) = (ArrowDeviceArrayStream::empty(), ArrowArrayStream::empty());
    stream().export(&mut out);
    stream().export_host(&mut host).unwrap();
    let read = unsafe { [ArrayStream::import(&mut out), ArrayStream::import_host(&mut host)] };
    for stream in read {
        let values = stream
            .unwrap()
            .map(|array| array.unwrap().host().unwrap().values::<i32>().unwrap().get(0));
        assert_eq!(values.collect::<Vec<_>>(), [Some(1); 3]);
    }
}

#[test]
fn only_streams_on_the_host_are_handed_to_those_who_know_no_devices() {
    let stream = ArrayStream::new(int32(), DeviceType::CUDA, std::iter::empty::<Result<Array>>());
    let mut out = ArrowArrayStream::empty();
    let error = stream.export_host(&mut out).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(out.is_released());
}

/// An error whose parts panic where they are told to.
#[derive(Debug)]
struct BadError {
    cause: BadCause,
    panics_in_drop: bool,
}

/// The cause of an error, which panics when it is shown, or is its own cause.
#[derive(Debug)]
enum BadCause {
    Unshowable,
    Endless,
}

impl fmt::Display for BadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what went wrong")
    }
}

impl fmt::Display for BadCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unshowable => panic!("planted in a text"),
            Self::Endless => f.write_str("itself"),
        }
    }
}

impl std::error::Error for BadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

impl std::error::Error for BadCause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self)
    }
}

impl Drop for BadError {
    fn drop(&mut self) {
        if self.panics_in_drop {
            std::panic::resume_unwind(Box::new(()));
        }
    }
}

// Requirement: STR-5, SAF-30, SAF-31
#[test]
#[cfg(panic = "unwind")]
fn an_error_that_panics_when_it_is_told_or_dropped_is_an_error() {
    for panics_in_drop in [false, true] {
        let error = BadError { cause: BadCause::Unshowable, panics_in_drop };
        let mut stream = Seen::of([Err(Error::other(error))]);
        let failed = Err((libc::EFAULT, "panicked: planted in a text".to_owned()));
        assert_eq!(stream.next(), failed);
        assert_eq!(stream.next(), failed);
    }
}

// Requirement: STR-5, SAF-31
#[test]
fn an_error_that_is_its_own_cause_has_a_text_with_an_end() {
    let error = BadError { cause: BadCause::Endless, panics_in_drop: false };
    let mut stream = Seen::of([Err(Error::other(error))]);
    let (code, text) = stream.next().unwrap_err();
    assert_eq!(code, ErrorKind::Peer.errno());
    assert!(text.starts_with("peer error: what went wrong: itself: itself") && text.len() < 4096);
}
