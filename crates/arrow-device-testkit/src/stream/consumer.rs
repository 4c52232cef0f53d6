//! Consumers of device streams: one that asks for everything it may ask for, and one that makes a
//! mistake on demand.

use std::ffi::{CStr, c_int};
use std::sync::Barrier;

use arrow_device::abi::{ArrowDeviceArray, ArrowDeviceArrayStream, ArrowSchema};

use super::{Books, Script, Step, Watch, produce_watched};
use crate::consumer::{Releasable, Seen, SeenSchema, move_out, release};
use crate::ledger::Ledger;
use crate::{Verdict, producer, require};

/// Makes a stream that follows a script, out of schemas and arrays that these books count.
pub type ProduceStream<'a> = dyn Fn(&Script, &Books) -> ArrowDeviceArrayStream + 'a;

impl Releasable for ArrowDeviceArrayStream {
    const EMPTY: Self = ArrowDeviceArrayStream::empty();

    fn callback(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.release
    }
}

/// The result of a call: a value, or a code and the text that goes with it.
type Answer<T> = Result<T, (c_int, Option<Vec<u8>>)>;

/// A stream and everything that was taken out of it. If a check fails, all of it is released.
struct HeldStream {
    stream: Box<ArrowDeviceArrayStream>,
    /// The places where the stream was before. They are kept so that no other struct comes to lie
    /// there.
    #[expect(clippy::vec_box, reason = "these stay at their addresses")]
    left: Vec<Box<ArrowDeviceArrayStream>>,
    schemas: Vec<ArrowSchema>,
    chunks: Vec<ArrowDeviceArray>,
}

impl Drop for HeldStream {
    fn drop(&mut self) {
        let _ = release(move_out(&raw mut *self.stream));
        self.schemas.drain(..).for_each(|schema| drop(release(schema)));
        self.chunks.drain(..).for_each(|chunk| drop(release(chunk.array)));
    }
}

impl HeldStream {
    fn new(stream: ArrowDeviceArrayStream) -> Self {
        Self { stream: Box::new(stream), left: vec![], schemas: vec![], chunks: vec![] }
    }

    /// Copies the struct elsewhere and overwrites the place where it was.
    fn move_elsewhere(&mut self) {
        let moved = Box::new(move_out(&raw mut *self.stream));
        let mut left = std::mem::replace(&mut self.stream, moved);
        let size = size_of::<ArrowDeviceArrayStream>();
        unsafe { (&raw mut *left).cast::<u8>().write_bytes(0xaa, size) };
        self.left.push(left);
    }

    fn answer<T>(&mut self, errno: c_int, given: T) -> Answer<T> {
        if errno == 0 {
            return Ok(given);
        }
        let text = unsafe { self.stream.get_last_error.unwrap()(&raw mut *self.stream) };
        let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes().to_vec());
        Err((errno, text))
    }

    fn schema(&mut self) -> Answer<ArrowSchema> {
        let mut out = ArrowSchema::empty();
        let errno = unsafe { self.stream.get_schema.unwrap()(&raw mut *self.stream, &raw mut out) };
        self.answer(errno, out)
    }

    /// Asks for the next array. `None` is the end.
    fn next(&mut self) -> Answer<Option<ArrowDeviceArray>> {
        let mut out = ArrowDeviceArray { reserved: [-1; 3], ..ArrowDeviceArray::empty() };
        let errno = unsafe { self.stream.get_next.unwrap()(&raw mut *self.stream, &raw mut out) };
        if errno != 0 && !out.is_released() {
            self.chunks.push(out);
            return Err((errno, Some(b"something was handed out with an error".into())));
        }
        self.answer(errno, (!out.is_released()).then_some(out))
    }

    fn take_schema(&mut self, expected: &SeenSchema) -> Verdict {
        let schema = self.schema().map_err(|(errno, _)| format!("no schema: {errno}"))?;
        require(!schema.is_released(), || "the schema is a released one".into())?;
        let seen = SeenSchema::of(&schema);
        self.schemas.push(schema);
        require(seen == *expected, || format!("the schema is {seen:?}, not {expected:?}"))
    }
}

/// Checks that a producer keeps to the rules. It names its type of device at once and gives arrays
/// of no other type. Its schema can be had at any time and stays the same. It ends with a released
/// array, and goes on doing so. An error is a code with or without a text in UTF-8, has no other
/// result, and is no end. What it gave outlives it. It is freed once, wherever it lies.
pub fn check_producer(produce: &ProduceStream<'_>, script: &Script) -> Verdict {
    let books = Books::default();
    let schema_books = Ledger::new();
    let c_schema = producer::schema(&script.schema, &schema_books);
    let expected_schema = SeenSchema::of(&c_schema);
    release(c_schema)?;

    let stream = produce(script, &books);
    let mut held = HeldStream::new(stream);
    let named = held.stream.device_type;
    require(named == script.device_type, || format!("it names the type of device {named}"))?;
    held.take_schema(&expected_schema)?;
    let mut seen = Vec::new();
    let mut has_failed = false;
    for step in &script.steps {
        held.move_elsewhere();
        match (step, held.next()) {
            (Step::Chunk(plan, number), Ok(Some(chunk))) => {
                let (device_type, device_id) = (chunk.device_type, chunk.device_id);
                seen.push(Seen::of(&chunk.array));
                held.chunks.push(chunk);
                require((device_type, device_id) == (named, *number), || {
                    format!("an array lies on {device_type}:{device_id}")
                })?;
                let length = seen.last().map_or(-1, |seen| seen.length);
                require(length == plan.length, || format!("an array has {length} elements"))?;
            }
            (Step::Stray(..), Ok(Some(chunk))) => {
                held.chunks.push(chunk);
                return Err("an array on another type of device was handed out".into());
            }
            (Step::Stray(..), Err(answer)) => {
                check_error(&answer, None, None)?;
                has_failed = true;
            }
            (Step::Error(errno, text), Err(answer)) => {
                check_error(&answer, Some(*errno), *text)?;
                has_failed = true;
            }
            (Step::Chunk(..), Ok(None)) => return Err("it ended too early".into()),
            (Step::Chunk(..), Err((errno, _))) => return Err(format!("it failed with {errno}")),
            (_, Ok(None)) => return Err("it ended and did not say that it failed".into()),
            (_, Ok(Some(chunk))) => {
                held.chunks.push(chunk);
                return Err("it went on and did not say that it failed".into());
            }
        }
        held.take_schema(&expected_schema)?;
        if has_failed {
            break;
        }
    }
    for _ in 0..3 {
        match held.next() {
            Ok(None) if !has_failed => {}
            Err(_) if has_failed => {}
            Ok(None) => return Err("after an error it ended as if it were complete".into()),
            Ok(Some(chunk)) => {
                held.chunks.push(chunk);
                return Err("there was more after the end".into());
            }
            Err((errno, _)) => return Err(format!("it failed with {errno} and did not end")),
        }
    }
    held.take_schema(&expected_schema)?;
    held.move_elsewhere();
    release_all(held, &seen, &expected_schema)?;
    let chunks = books.chunks.base_releases();
    require(chunks >= seen.len(), || format!("{chunks} arrays were released"))?;
    books.settle(chunks)
}

/// Releases the stream first, and checks that everything that it gave is still there.
fn release_all(mut held: HeldStream, seen: &[Seen], expected_schema: &SeenSchema) -> Verdict {
    release(move_out(&raw mut *held.stream)).map_err(|complaint| format!("stream: {complaint}"))?;
    for (chunk, seen) in held.chunks.iter().zip(seen) {
        Seen::of(&chunk.array).require_same(seen)?;
    }
    for schema in &held.schemas {
        require(SeenSchema::of(schema) == *expected_schema, || "a schema changed".into())?;
    }
    held.chunks.drain(..).try_for_each(|chunk| release(chunk.array))?;
    held.schemas.drain(..).try_for_each(release)
}

fn check_error(
    (errno, text): &(c_int, Option<Vec<u8>>),
    expected: Option<c_int>,
    expected_text: Option<&str>,
) -> Verdict {
    require(*errno > 0, || format!("{errno} is no errno value"))?;
    require(expected.is_none_or(|expected| *errno == expected), || {
        format!("the code is {errno} and not {expected:?}")
    })?;
    let text = text.as_deref().map(std::str::from_utf8).transpose();
    let text = text.map_err(|_| "the text is not UTF-8")?;
    let is_there = |expected: &str| text.is_some_and(|text| text.contains(expected));
    require(expected_text.is_none_or(is_there), || {
        format!("the text is {text:?} and not {expected_text:?}")
    })
}

/// What a consumer saw of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamSeen {
    /// The format of the schema.
    pub format: Vec<u8>,
    /// The lengths of the arrays.
    pub lengths: Vec<i64>,
    /// The error that came instead of the end: the code, and a text that contains at least the
    /// producer's text.
    pub error: Option<(i32, String)>,
}

/// Takes a stream over, reads it to its end, and releases everything.
pub type ConsumeStream<'a> = dyn Fn(&mut ArrowDeviceArrayStream) -> StreamSeen + 'a;

/// Checks that a consumer keeps to the rules. It moves the struct, and calls one callback at a
/// time. It asks for the text of an error and of nothing else, and copies it. It sees every array
/// and every error. It refuses an array on another type of device. It releases the stream and each
/// array once, and calls nothing after that.
pub fn check_consumer(consume: &ConsumeStream<'_>, script: &Script, watch: Watch) -> Verdict {
    let books = Books::default();
    // If the script has an array on another type of device, this is the fault that lets the
    // producer give it.
    let fault = Some(super::ProducerFault::MixesTypes);
    let mut stream = produce_watched(script, fault, &books, watch);
    let outcome = consume(&mut stream);
    let is_released = stream.is_released();
    books.stream.complaints()?;
    require(is_released, || "the source was not marked as released".into())?;

    let good = script.good_chunks();
    let strays = matches!(script.steps.get(good), Some(Step::Stray(..)));
    let lengths = script.steps.iter().take(good).map(|step| match step {
        Step::Chunk(plan, _) => plan.length,
        _ => -1,
    });
    let lengths: Vec<i64> = lengths.collect();
    let mut found = outcome.lengths.clone();
    found.sort_unstable();
    require(found == lengths, || format!("it saw arrays of {found:?} and not of {lengths:?}"))?;
    let format = script.schema.format.as_bytes();
    require(outcome.format == format, || "it saw another schema".into())?;
    let is_right = match (script.steps.get(good), &outcome.error) {
        (None, None) | (Some(Step::Stray(..)), Some(_)) => true,
        (Some(Step::Error(errno, text)), Some((found, found_text))) => {
            errno == found && text.is_none_or(|text| found_text.contains(text))
        }
        _ => false,
    };
    require(is_right, || format!("it saw the error {:?}", outcome.error))?;
    books.settle(good + usize::from(strays))
}

/// A mistake of a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerFault {
    /// Asks for the text of an error where there was none.
    AsksWithoutError,
    /// Reads the text of an error after another call.
    KeepsText,
    /// Takes an error without a text for the end.
    NeedsText,
    /// Releases the stream twice.
    ReleasesTwice,
    /// Asks for another array after the release.
    CallsAfterRelease,
    /// Does not release the stream.
    Leaks,
    /// Does not mark the source as moved.
    LeavesSourceUnreleased,
    /// Does not check the device type of an array.
    AcceptsAnyDevice,
    /// Does not release an array that it refuses.
    LeaksRefused,
    /// Calls from two threads at once.
    CallsOverlap,
}

impl ConsumerFault {
    /// Returns a consumer with at most one fault.
    pub fn consume(fault: Option<Self>) -> impl Fn(&mut ArrowDeviceArrayStream) -> StreamSeen {
        move |source| consume(fault, source)
    }
}

fn consume(fault: Option<ConsumerFault>, source: &mut ArrowDeviceArrayStream) -> StreamSeen {
    let stream = unsafe { std::ptr::read(source) };
    if fault != Some(ConsumerFault::LeavesSourceUnreleased) {
        source.release = None;
    }
    let mut held = HeldStream::new(stream);
    let mut outcome = StreamSeen::default();
    match held.schema() {
        Ok(schema) => {
            outcome.format = SeenSchema::of(&schema).format;
            held.schemas.push(schema);
            if fault == Some(ConsumerFault::CallsOverlap) {
                call_twice_at_once(&held.stream);
            }
            while read_one(fault, &mut held, &mut outcome) {}
        }
        Err((errno, text)) => outcome.error = Some((errno, lossy(text))),
    }
    let copy = unsafe { std::ptr::read(&*held.stream) };
    match fault {
        Some(ConsumerFault::Leaks) => held.stream.release = None,
        Some(ConsumerFault::CallsAfterRelease | ConsumerFault::ReleasesTwice) => {
            let mut copy = copy;
            release(move_out(&raw mut *held.stream)).unwrap();
            if fault == Some(ConsumerFault::ReleasesTwice) {
                unsafe { copy.release.unwrap()(&raw mut copy) };
            } else {
                let mut out = ArrowDeviceArray::empty();
                unsafe { copy.get_next.unwrap()(&raw mut copy, &raw mut out) };
            }
        }
        _ => {}
    }
    outcome
}

fn lossy(text: Option<Vec<u8>>) -> String {
    String::from_utf8_lossy(&text.unwrap_or_default()).into_owned()
}

/// Reads one array. Returns whether there may be more.
fn read_one(fault: Option<ConsumerFault>, held: &mut HeldStream, outcome: &mut StreamSeen) -> bool {
    let kept_text = fault == Some(ConsumerFault::KeepsText);
    let next = if kept_text { next_with_stale_text(held) } else { held.next() };
    match next {
        Ok(None) => false,
        Ok(Some(chunk)) => {
            if fault == Some(ConsumerFault::AsksWithoutError) {
                unsafe { held.stream.get_last_error.unwrap()(&raw mut *held.stream) };
            }
            let is_ours = chunk.device_type == held.stream.device_type;
            if is_ours || fault == Some(ConsumerFault::AcceptsAnyDevice) {
                outcome.lengths.push(chunk.array.length);
                release(chunk.array).unwrap();
                return true;
            }
            outcome.error = Some((libc::EINVAL, "another type of device".into()));
            if fault != Some(ConsumerFault::LeaksRefused) {
                release(chunk.array).unwrap();
            }
            false
        }
        Err((_, None)) if fault == Some(ConsumerFault::NeedsText) => false,
        Err((errno, text)) => {
            outcome.error = Some((errno, lossy(text)));
            false
        }
    }
}

fn next_with_stale_text(held: &mut HeldStream) -> Answer<Option<ArrowDeviceArray>> {
    let mut out = ArrowDeviceArray::empty();
    let stream = &raw mut *held.stream;
    let errno = unsafe { held.stream.get_next.unwrap()(stream, &raw mut out) };
    if errno == 0 {
        return Ok((!out.is_released()).then_some(out));
    }
    let text = unsafe { held.stream.get_last_error.unwrap()(stream) };
    let schema = held.schema()?;
    held.schemas.push(schema);
    Err((errno, Some(unsafe { CStr::from_ptr(text) }.to_bytes().to_vec())))
}

/// Has two threads ask for the schema at the same time.
fn call_twice_at_once(stream: &ArrowDeviceArrayStream) {
    /// The stream and the target of a thread's call.
    struct Call(ArrowDeviceArrayStream, ArrowSchema);
    // SAFETY: the specification lets a stream be called on any thread. That the calls overlap is
    // the fault that is ordered.
    unsafe impl Send for Call {}

    let barrier = Barrier::new(2);
    std::thread::scope(|threads| {
        for _ in 0..2 {
            let call = Call(unsafe { std::ptr::read(stream) }, ArrowSchema::empty());
            let barrier = &barrier;
            threads.spawn(move || {
                let Call(stream, out) = &mut { call };
                barrier.wait();
                unsafe { stream.get_schema.unwrap()(stream, out) };
                let _ = release(move_out(&raw mut *out));
            });
        }
    });
}
