//! Judges producers of streams, by a consumer that asks for everything it may ask for.

use std::ffi::{CStr, c_int};

use arrow_device::Schema;
use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowDeviceArrayStream, ArrowSchema};
use arrow_device_testkit::consumer::{self, Seen, SeenSchema, move_out};

use super::held::Snapshot;
use super::{RUNS, Scenario, array_producer, growth};
use crate::bench::{Bench, Where};
use crate::notes::Notes;
use crate::peer::{Entry, Peer};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "a stream on the host", place: Where::Host, run: in_place },
    Scenario { name: "a stream on a device", place: Where::Device, run: in_place },
    Scenario { name: "a stream whose struct is moved", place: Where::Anywhere, run: moved },
    Scenario { name: "a stream that fails", place: Where::Anywhere, run: failing },
    Scenario { name: "a stream that is left early", place: Where::Anywhere, run: left_early },
    Scenario { name: "a stream, many times", place: Where::Anywhere, run: many_times },
];

/// The number of arrays that are checked for changes later.
const KEPT: usize = 8;

/// The most arrays that are asked for.
const MOST: usize = 10_000;

/// A code that a call of a stream returned, and the text that goes with it.
type StreamFailure = (c_int, Option<Vec<u8>>);

/// A stream that is held, and everything that came out of it.
pub(super) struct Held {
    pub(super) stream: Box<ArrowDeviceArrayStream>,
    /// The places where the stream was. They are kept so that no other struct comes to lie there.
    #[expect(clippy::vec_box, reason = "these stay at their addresses")]
    left: Vec<Box<ArrowDeviceArrayStream>>,
    pub(super) chunks: Vec<(ArrowDeviceArray, Seen)>,
    pub(super) schemas: Vec<ArrowSchema>,
    /// The contents of the first arrays, with their numbers and their type.
    snapshots: Vec<(usize, Snapshot, Schema)>,
    moves: bool,
}

impl Held {
    pub(super) fn new(stream: Box<ArrowDeviceArrayStream>, moves: bool) -> Self {
        let (left, chunks, schemas, snapshots) = Default::default();
        Self { stream, left, chunks, schemas, snapshots, moves }
    }

    fn move_on(&mut self) {
        if !self.moves {
            return;
        }
        let moved = Box::new(move_out(&raw mut *self.stream));
        let mut left = std::mem::replace(&mut self.stream, moved);
        // SAFETY: the box is that long, and what it had was moved out; no member of the struct has
        // bytes it may not have.
        unsafe {
            (&raw mut *left).cast::<u8>().write_bytes(0xaa, size_of::<ArrowDeviceArrayStream>())
        };
        self.left.push(left);
    }

    fn failure(&mut self, code: c_int) -> StreamFailure {
        let stream = &raw mut *self.stream;
        // SAFETY: the stream's own callback, called with it while it is not released.
        let text = self.stream.get_last_error.map(|get| unsafe { get(stream) });
        let text = text.filter(|text| !text.is_null());
        // SAFETY: by the interface a text with a null byte at its end, which lasts until the next
        // call.
        let bytes = |text| unsafe { CStr::from_ptr(text) }.to_bytes().to_vec();
        (code, text.map(bytes))
    }

    pub(super) fn schema(&mut self) -> Result<SeenSchema, StreamFailure> {
        self.move_on();
        let stream = &raw mut *self.stream;
        let mut out = ArrowSchema::empty();
        // SAFETY: the stream's own callback, called with it and with room for a schema.
        let code =
            self.stream.get_schema.map_or(libc::ENOSYS, |get| unsafe { get(stream, &raw mut out) });
        if code != 0 {
            return Err(self.failure(code));
        }
        if out.is_released() {
            return Err((0, Some(b"it returned 0 and gave a released schema".to_vec())));
        }
        let seen = SeenSchema::of(&out);
        self.schemas.push(out);
        Ok(seen)
    }

    /// Asks for the next array. `None` is the end.
    pub(super) fn next(&mut self, notes: &Notes) -> Result<Option<Seen>, StreamFailure> {
        self.move_on();
        let stream = &raw mut *self.stream;
        let mut out = ArrowDeviceArray { reserved: [-1; 3], ..ArrowDeviceArray::empty() };
        // The caller's memory may hold anything, so an end is told only by a release that is set to
        // null.
        out.array.release = Some(untouched);
        // SAFETY: the stream's own callback, called with it and with room for an array.
        let code =
            self.stream.get_next.map_or(libc::ENOSYS, |get| unsafe { get(stream, &raw mut out) });
        let is_untouched = out.array.release.is_some_and(is_untouched);
        if code != 0 {
            notes.check("STR-5", is_untouched || out.is_released(), || {
                format!("`get_next` returned {code} and handed out an array all the same")
            });
            return Err(self.failure(code));
        }
        if is_untouched {
            notes.fail(
                "STR-4",
                "`get_next` returned 0 and left the struct as it was: an end is a release of NULL",
            );
            return Ok(None);
        }
        if out.is_released() {
            return Ok(None);
        }
        let seen = Seen::of(&out.array);
        self.chunks.push((out, seen.clone()));
        Ok(Some(seen))
    }
}

/// The release callback in the caller's memory before a producer writes to it.
unsafe extern "C" fn untouched(array: *mut ArrowArray) {
    // SAFETY: a release callback is called with the structure that has it.
    unsafe { (*array).release = None };
}

fn is_untouched(release: unsafe extern "C" fn(*mut ArrowArray)) -> bool {
    std::ptr::fn_addr_eq(release, untouched as unsafe extern "C" fn(*mut ArrowArray))
}

fn open(peer: &Peer, bench: &Bench, notes: &Notes) -> Option<Box<ArrowDeviceArrayStream>> {
    let Entry::ProduceStream(produce) = &peer.entry else { return None };
    open_with(produce, bench, notes)
}

type ProduceStream = dyn Fn(&Bench, *mut ArrowDeviceArrayStream) -> c_int;

fn open_with(
    produce: &ProduceStream,
    bench: &Bench,
    notes: &Notes,
) -> Option<Box<ArrowDeviceArrayStream>> {
    notes.now(RUNS, "producing a stream");
    let mut stream = Box::new(ArrowDeviceArrayStream::empty());
    let code = produce(bench, &raw mut *stream);
    if !notes.check(RUNS, code == 0, || format!("the entry point returned {code}")) {
        return None;
    }
    let is_there = !stream.is_released();
    notes.check("ARR-11", is_there, || "it returned 0 and handed out nothing".into());
    is_there.then_some(stream)
}

fn text_of((code, text): &StreamFailure) -> String {
    let text = text.as_deref().map_or("no text".into(), String::from_utf8_lossy);
    format!("{code} ({text})")
}

fn in_place(peer: &Peer, bench: &Bench, notes: &Notes) {
    let Some(stream) = open(peer, bench, notes) else { return };
    judge(Held::new(stream, false), bench, notes);
}

fn moved(peer: &Peer, bench: &Bench, notes: &Notes) {
    // Only a failure with this cause breaks this rule.
    let (Some(still), Some(stream)) = (open(peer, bench, notes), open(peer, bench, notes)) else {
        return;
    };
    let mut still = Held::new(still, false);
    let fine = read_quietly(&mut still, notes).is_ok();
    release(still, notes);
    if !fine {
        return;
    }
    notes.now("STR-7", "moving a stream");
    let mut held = Held::new(stream, true);
    let outcome = read_quietly(&mut held, notes);
    notes.check("STR-7", outcome.is_ok(), || {
        let failure = outcome.as_ref().map_or_else(text_of, |()| String::new());
        format!("once its struct was moved, the stream failed with {failure}")
    });
    release(held, notes);
}

/// Reads a stream to its end, and returns how that went.
fn read_quietly(held: &mut Held, notes: &Notes) -> Result<(), StreamFailure> {
    held.schema()?;
    for _ in 0..MOST {
        if held.next(notes)?.is_none() {
            break;
        }
    }
    Ok(())
}

/// Reads a stream to its end, asks again, and releases the stream before what it gave.
pub(super) fn judge(mut held: Held, bench: &Bench, notes: &Notes) -> Option<()> {
    let named = held.stream.device_type;
    let is_known = matches!(named, 1..=4 | 7..=18)
        || Some(named) == bench.expected().map(|id| id.device_type.0);
    if !notes.check("STR-1", is_known, || {
        format!("the stream begins with `device_type` {named}, which is no type of device")
    }) {
        release(held, notes);
        return None;
    }
    notes.now("STR-3", "asking for the schema");
    let schema = match held.schema() {
        Ok(schema) => schema,
        Err(failure) => {
            notes.fail("STR-3", format!("`get_schema` failed with {}", text_of(&failure)));
            release(held, notes);
            return None;
        }
    };
    let known = held.schemas.last().and_then(|schema| array_producer::schema(schema, notes));
    let is_over = read(&mut held, &schema, known.as_ref(), bench, notes);
    if is_over {
        for _ in 0..2 {
            notes.now("STR-4", "asking again after the end");
            match held.next(notes) {
                Ok(None) => notes.pass("STR-4"),
                Ok(Some(_)) => notes.fail("STR-4", "there was more after the end"),
                Err(failure) => {
                    notes.fail(
                        "STR-4",
                        format!("after the end it failed with {}", text_of(&failure)),
                    );
                }
            }
        }
        same_schema(&mut held, &schema, notes, "after the end");
    }
    release_before(held, notes);
    Some(())
}

fn same_schema(held: &mut Held, schema: &SeenSchema, notes: &Notes, when: &str) {
    notes.now("STR-3", "asking for the schema again");
    match held.schema() {
        Ok(again) => {
            notes.check("STR-3", again == *schema, || format!("the schema is another one {when}"));
        }
        Err(failure) => {
            notes.fail("STR-3", format!("`get_schema` failed {when} with {}", text_of(&failure)));
        }
    }
}

/// Whether the stream came to its end.
fn read(
    held: &mut Held,
    schema: &SeenSchema,
    known: Option<&Schema>,
    bench: &Bench,
    notes: &Notes,
) -> bool {
    for number in 0..MOST {
        if number < 3 {
            same_schema(
                held,
                schema,
                notes,
                if number == 0 { "the second time" } else { "between arrays" },
            );
        }
        notes.now("STR-4", "asking for the next array");
        match held.next(notes) {
            Ok(None) => return true,
            Err(failure) => {
                notes.fail(
                    "STR-4",
                    format!("array {number} failed with {}: a good stream ends", text_of(&failure)),
                );
                return false;
            }
            Ok(Some(_)) => {}
        }
        let Some((chunk, _)) = held.chunks.last() else { return false };
        if !look_at(chunk, held.stream.device_type, known, bench, notes) {
            return false;
        }
        if let Some(known) = known.filter(|_| number < KEPT && !matches!(bench, Bench::Hand(_))) {
            let snapshot = Snapshot::of(&chunk.array, chunk, known);
            held.snapshots.extend(snapshot.map(|it| (number, it, known.clone())));
        }
    }
    notes.skip("STR-4", format!("it has not ended after {MOST} arrays"));
    false
}

fn look_at(
    chunk: &ArrowDeviceArray,
    named: i32,
    known: Option<&Schema>,
    bench: &Bench,
    notes: &Notes,
) -> bool {
    let found = chunk.device_type;
    let same = notes.check("STR-2", found == named, || {
        format!("an array is on type of device {found}, and the stream said {named}")
    });
    notes.check("ABI-5", chunk.reserved == [0; 3], || {
        format!("`reserved` is {:x?}", chunk.reserved)
    });
    let Some(known) = known.filter(|_| same) else { return false };
    array_producer::structure(chunk, known, notes)
        && array_producer::event_where_there_is_none(chunk, notes)
        && (matches!(bench, Bench::Hand(_)) || array_producer::read_all(chunk, known, bench, notes))
}

/// Whether the arrays still have the contents that they had.
fn stay(held: &Held, notes: &Notes, [id, what]: [&str; 2]) -> bool {
    let mut all = true;
    for (number, snapshot, known) in &held.snapshots {
        let Some((chunk, _)) = held.chunks.get(*number) else { continue };
        notes.now(id, &format!("reading array {number} {what}"));
        let same = snapshot.require_same(&chunk.array, chunk, known);
        all &= notes.check(id, same.is_ok(), || {
            format!("array {number} {what}: {}", same.err().unwrap_or_default())
        });
    }
    all
}

/// Releases the stream first. What it gave has to stay.
fn release_before(mut held: Held, notes: &Notes) {
    let before: Vec<SeenSchema> = held.schemas.iter().map(SeenSchema::of).collect();
    let stayed = stay(&held, notes, ["ARR-15", "once more, after those that followed"]);
    notes.now("STR-7", "releasing the stream");
    let stream = &raw mut *held.stream;
    if let Some(release) = held.stream.release {
        // SAFETY: the stream's own callback, called once and with it.
        unsafe { release(stream) };
    }
    notes.check("STR-7", held.stream.is_released(), || {
        "the release left the stream unreleased".into()
    });
    held.stream.release = None;
    notes.now("STR-6", "looking at what outlives its stream");
    let arrays = held.chunks.iter().all(|(chunk, seen)| Seen::of(&chunk.array) == *seen);
    notes.check("STR-6", arrays, || "an array changed when its stream was released".into());
    if arrays && stayed {
        stay(&held, notes, ["STR-6", "when the stream is released"]);
    }
    let schemas =
        held.schemas.iter().zip(&before).all(|(kept, before)| SeenSchema::of(kept) == *before);
    notes.check("STR-6", schemas, || "a schema changed when its stream was released".into());
    release(held, notes);
}

/// Releases everything.
pub(super) fn release(mut held: Held, notes: &Notes) {
    notes.now("ARR-13", "releasing the arrays of a stream");
    for (chunk, _) in held.chunks.drain(..) {
        notes.verdict(consumer::release(chunk.array), &[], "ARR-13");
    }
    for schema in held.schemas.drain(..) {
        notes.verdict(consumer::release(schema), &[], "SCH-6");
    }
    let stream = &raw mut *held.stream;
    if let Some(release) = held.stream.release {
        // SAFETY: the stream's own callback, called once and with it.
        unsafe { release(stream) };
    }
}

fn failing(peer: &Peer, bench: &Bench, notes: &Notes) {
    let Some(Entry::ProduceStream(produce)) = &peer.failing else {
        return notes.skip("STR-5", "there is no function whose name ends with `_failing`");
    };
    let Some(stream) = open_with(produce, bench, notes) else { return };
    let mut held = Held::new(stream, false);
    notes.now("STR-5", "reading a stream that fails");
    if let Err(failure) = held.schema() {
        error(&failure, notes);
        return release(held, notes);
    }
    for _ in 0..MOST {
        match held.next(notes) {
            Ok(Some(_)) => {
                let (named, found) = (
                    held.stream.device_type,
                    held.chunks.last().map(|(chunk, _)| chunk.device_type),
                );
                if !notes.check("STR-2", found == Some(named), || {
                    format!("an array is on type of device {found:?}, and the stream said {named}")
                }) {
                    break;
                }
            }
            Ok(None) => {
                notes.fail("STR-5", "a stream that was to fail ended as if it were complete");
                break;
            }
            Err(failure) => {
                error(&failure, notes);
                if let Ok(None) = held.next(notes) {
                    notes.fail(
                        "STR-5",
                        "asked again after its error, it ended as if it were complete",
                    );
                }
                break;
            }
        }
    }
    release(held, notes);
}

fn error((code, text): &StreamFailure, notes: &Notes) {
    notes.check("STR-5", *code > 0, || format!("{code} is no errno value"));
    let is_text = text.as_deref().is_none_or(|text| std::str::from_utf8(text).is_ok());
    notes.check("STR-5", is_text, || "the text of the error is not UTF-8".into());
}

fn left_early(peer: &Peer, bench: &Bench, notes: &Notes) {
    let Some(stream) = open(peer, bench, notes) else { return };
    let mut held = Held::new(stream, false);
    notes.now("STR-7", "releasing a stream before its end");
    let _ = held.next(notes);
    let stream = &raw mut *held.stream;
    if let Some(release) = held.stream.release {
        // SAFETY: the stream's own callback, called once and with it.
        unsafe { release(stream) };
    }
    notes.check("STR-7", held.stream.is_released(), || {
        "the release left the stream unreleased".into()
    });
    held.stream.release = None;
    release(held, notes);
}

fn many_times(peer: &Peer, bench: &Bench, notes: &Notes) {
    let Entry::ProduceStream(produce) = &peer.entry else { return };
    if !peer.can_count {
        return notes.skip("ARR-10", "its memory is not counted");
    }
    notes.now(RUNS, "producing a stream many times");
    let silent = |reads: bool| {
        let mut stream = ArrowDeviceArrayStream::empty();
        if produce(bench, &raw mut stream) != 0 {
            return;
        }
        let mut held = Held::new(Box::new(stream), false);
        let _ = held.schema();
        while reads && matches!(held.next(notes), Ok(Some(_))) {}
        let stream = &raw mut *held.stream;
        let release = held.stream.release;
        // SAFETY: the stream's own callback, called once and with it.
        let _ = release.map(|release| unsafe { release(stream) });
        held.chunks.drain(..).for_each(|(chunk, _)| drop(consumer::release(chunk.array)));
        held.schemas.drain(..).for_each(|schema| drop(consumer::release(schema)));
    };
    let Some(unread) = growth::of(|| silent(false)) else {
        return notes.skip("STR-7", "the C library does not tell how much memory is in use");
    };
    if !notes
        .check("STR-7", unread == 0, || format!("{unread} bytes more are in use after each stream"))
    {
        return;
    }
    let read = growth::of(|| silent(true)).unwrap_or(0);
    notes.check("ARR-10", read == 0, || {
        format!("{read} bytes more are in use after each stream whose arrays were released")
    });
}
