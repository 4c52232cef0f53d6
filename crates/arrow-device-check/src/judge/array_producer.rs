//! Judges producers of arrays, by a consumer that looks at everything it may look at.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::NonNull;

use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, DeviceId, DeviceType, ErrorKind, Schema, validate};
use arrow_device_sim::Mistake;
use arrow_device_testkit::consumer::{self, Order, SeenSchema};
use arrow_device_testkit::judge::Stage;
use arrow_device_testkit::manual::shown_event;

use super::held::Snapshot;
use super::{RUNS, Scenario, growth, note_reports};
use crate::bench::{Bench, Where};
use crate::notes::{Notes, Words};
use crate::peer::{Entry, Peer};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "an array on the host",
        place: Where::Host,
        run: |peer, bench, notes| judge(peer, bench, notes, Order::Whole),
    },
    Scenario {
        name: "an array on the host whose children are moved out",
        place: Where::Host,
        run: |peer, bench, notes| judge(peer, bench, notes, Order::ParentFirst),
    },
    Scenario {
        name: "an array on the host, one child in two moved out",
        place: Where::Host,
        run: |peer, bench, notes| judge(peer, bench, notes, Order::Half),
    },
    Scenario {
        name: "an array on a device",
        place: Where::Device,
        run: |peer, bench, notes| judge(peer, bench, notes, Order::Whole),
    },
    Scenario {
        name: "an array on a device whose children are moved out",
        place: Where::Device,
        run: |peer, bench, notes| judge(peer, bench, notes, Order::ParentFirst),
    },
    Scenario {
        name: "an array on a device without events",
        place: Where::WithoutEvents,
        run: |peer, bench, notes| judge(peer, bench, notes, Order::Whole),
    },
    Scenario { name: "an array that cannot be made", place: Where::Anywhere, run: failing },
    Scenario { name: "an array, many times", place: Where::Anywhere, run: many_times },
];

/// The word that fills the consumer's memory before the call.
const GARBAGE: i64 = -0x5555_5555_5555_5556;
const WORDS: usize = size_of::<ArrowDeviceArray>() / 8;
/// The word that is null in memory without a struct.
const RELEASE: usize = std::mem::offset_of!(ArrowArray, release) / 8;

/// The struct that a producer wrote, with the memory around it that it may not touch.
struct Given {
    memory: Vec<i64>,
    schema: ArrowSchema,
}

impl Given {
    /// Makes memory as a C program leaves it on its stack, except that the mark says that no struct
    /// is there.
    fn new() -> Self {
        let mut given = Self { memory: vec![GARBAGE; 3 * WORDS], schema: ArrowSchema::empty() };
        if let Some(release) = given.memory.get_mut(WORDS + RELEASE) {
            *release = 0;
        }
        given
    }

    fn out(&mut self) -> *mut ArrowDeviceArray {
        self.memory.as_mut_ptr().wrapping_add(WORDS).cast()
    }

    fn is_untouched_around(&self) -> bool {
        let before = self.memory.iter().take(WORDS);
        let behind = self.memory.iter().skip(2 * WORDS);
        before.chain(behind).all(|word| *word == GARBAGE)
    }

    /// Whether all of the memory is as it was before, as it has to be after an error.
    fn is_untouched(&self) -> bool {
        let memory = &self.memory;
        memory == &Self::new().memory && self.schema.is_released()
    }
}

/// Calls the producer. Returns `None` if the producer gives nothing.
pub(super) fn call(
    peer: &Peer,
    bench: &Bench,
    notes: &Notes,
) -> Option<(ArrowSchema, ArrowDeviceArray)> {
    let Entry::ProduceArray(produce) = &peer.entry else { return None };
    notes.now(RUNS, "producing an array");
    let mut given = Given::new();
    let out = given.out();
    let code = produce(bench, &raw mut given.schema, out);
    if !notes.check(RUNS, code == 0, || format!("the entry point returned {code}")) {
        return None;
    }
    notes.now("ARR-11", "looking at what was written");
    // SAFETY: the address of the second of three structs' worth of aligned words that `given` owns;
    // the bytes were initialised, and each of the struct's members takes any bytes.
    let array = unsafe { out.read() };
    let what = || "memory beside the struct was written to".into();
    notes.check("ARR-11", given.is_untouched_around(), what);
    let is_there = !given.schema.is_released() && !array.is_released();
    if !notes.check("ARR-11", is_there, || "it returned 0 and handed out nothing".into()) {
        return None;
    }
    Some((given.schema, array))
}

/// Checks that after an error the consumer's memory is as it was.
fn failing(peer: &Peer, bench: &Bench, notes: &Notes) {
    let Some(Entry::ProduceArray(produce)) = &peer.failing else {
        return notes.skip("ARR-11", "there is no function whose name ends with `_failing`");
    };
    notes.now(RUNS, "producing an array that cannot be made");
    let mut given = Given::new();
    let out = given.out();
    let code = produce(bench, &raw mut given.schema, out);
    if !notes.check(RUNS, code != 0, || "an array that was not to be made was made".into()) {
        return;
    }
    notes.check("ARR-11", given.is_untouched(), || {
        // SAFETY: the address of the second of three structs' worth of aligned words that `given`
        // owns; the bytes were initialised, and each of the struct's members takes any bytes.
        let array = unsafe { out.read() };
        let (device_type, device_id) = (array.device_type, array.device_id);
        let now = format!("it says device {device_type}:{device_id} now");
        format!("it returned {code}, and has written to the consumer's memory all the same: {now}")
    });
}

pub(super) fn reserved(array: &ArrowDeviceArray, notes: &Notes) {
    if array.reserved == [GARBAGE; 3] {
        notes.fail("ABI-1", "`reserved` holds what the memory held before: the struct that was written may be declared without it, with 104 bytes and not 128");
    } else {
        notes.pass("ABI-1");
    }
    notes.check("ABI-5", array.reserved == [0; 3], || {
        format!("`reserved` is {:x?}", array.reserved)
    });
}

/// Whether an array lies on the expected device, or on any known device if none is expected.
pub(super) fn device(array: &ArrowDeviceArray, expected: Option<DeviceId>, notes: &Notes) -> bool {
    let (found, number) = (array.device_type, array.device_id);
    let says = format!("it says that it lies on {found}:{number}");
    let is_known = matches!(found, 1..=4 | 7..=18);
    let Some(expected) = expected else {
        return notes
            .check("ABI-3", is_known, || format!("{says}, and no type of device has that value"));
    };
    let (right, right_number) = (expected.device_type.0, expected.id);
    if (found, number) == (right, right_number) {
        ["ABI-1", "ABI-2", "ABI-3", "ARR-3", "ARR-4"].iter().for_each(|id| notes.pass(id));
        return true;
    }
    let id = if number == i64::from(right) {
        "ABI-1"
    } else if found == right {
        "ARR-3"
    } else if right > 255 && found == right & 255 {
        "ABI-2"
    } else if is_known {
        "ARR-4"
    } else {
        "ABI-3"
    };
    notes.fail(id, format!("{says} and not on {right}:{right_number}"));
    false
}

/// The rules that errors of schemas are about.
const OF_SCHEMAS: &Words = &[
    ("there is a dictionary", "SCH-4"),
    ("its dictionary is null", "SCH-4"),
    ("metadata", "SCH-2"),
    ("name", "SCH-2"),
    ("format", "SCH-1"),
    ("type", "SCH-1"),
];

/// The rules that errors of structs are about, if they are not about numbers.
const OF_STRUCTS: &Words =
    &[("there is a dictionary", "SCH-4"), ("its dictionary is null", "SCH-4")];

/// Reads a schema without taking it over.
pub(super) fn schema(schema: &ArrowSchema, notes: &Notes) -> Option<Schema> {
    notes.now("SCH-1", "reading the schema");
    // SAFETY: the interface asks for a valid structure. One that is not ends this process, which is
    // the finding.
    let checked = unsafe { validate::schema_structure(schema) };
    let imported = checked.and_then(|_| {
        let mut copy = ArrowSchema { release: Some(keep_schema), ..consumer::copy_of(schema) };
        // SAFETY: UNS-2: the interface asks for a valid structure, and one that is not ends this
        // process, which is the finding. UNS-6: the callback of the copy is `keep_schema`, which
        // releases nothing.
        unsafe { Schema::import(&mut copy) }
    });
    match imported {
        Ok(known) => {
            ["SCH-1", "SCH-2", "SCH-4"].iter().for_each(|id| notes.pass(id));
            Some(known)
        }
        Err(error) => {
            notes.verdict(Err(error.to_string().replace("; ", ", ")), OF_SCHEMAS, "SCH-1");
            None
        }
    }
}

unsafe extern "C" fn keep_schema(schema: *mut ArrowSchema) {
    // SAFETY: a release callback is called with the structure that has it.
    unsafe { (*schema).release = None };
}

pub(super) unsafe extern "C" fn keep_array(array: *mut ArrowArray) {
    // SAFETY: a release callback is called with the structure that has it.
    unsafe { (*array).release = None };
}

/// Whether the structs fit the schema.
pub(super) fn structure(array: &ArrowDeviceArray, known: &Schema, notes: &Notes) -> bool {
    notes.now("ARR-17", "reading the structs");
    // SAFETY: the interface asks for a valid structure. One that is not ends this process, which is
    // the finding.
    let checked = unsafe { validate::structure(array) }.map(|_| ());
    // SAFETY: UNS-12: the interface asks for a valid structure. One that is not ends this process,
    // which is the finding.
    let layout = |()| unsafe { validate::layout(array, known) };
    let checked = checked.and_then(layout);
    let text = |error: arrow_device::Error| error.to_string().replace("; ", ", ");
    if !notes.verdict(checked.map_err(text), OF_STRUCTS, "ARR-17") {
        return false;
    }
    notes.pass("ARR-17");
    true
}

/// Whether an array has no event on a device type without events.
pub(super) fn event_where_there_is_none(array: &ArrowDeviceArray, notes: &Notes) -> bool {
    let type_without = matches!(array.device_type, 1 | 9 | 15 | 16);
    !type_without
        || notes.check("ARR-7", array.sync_event.is_null(), || {
            format!("`sync_event` is not null on type of device {}", array.device_type)
        })
}

fn judge(peer: &Peer, bench: &Bench, notes: &Notes, order: Order) {
    let Some((c_schema, array)) = call(peer, bench, notes) else { return };
    reserved(&array, notes);
    if let (Bench::Device(opened), 1) = (bench, array.device_type) {
        let first = first_buffer(&array.array);
        if first.and_then(|first| opened.owns(first)) == Some(false) {
            notes.skip("ARR-4", "it hands out host memory although it was given a device");
            let _ = consumer::release(array.array);
            let _ = consumer::release(c_schema);
            return;
        }
    }
    if is_good(&c_schema, &array, bench, notes) {
        release(c_schema, array, bench, notes, order);
    } else {
        notes.leave();
    }
}

/// Whether everything that can be checked before the release is right.
pub(super) fn is_good(
    c_schema: &ArrowSchema,
    array: &ArrowDeviceArray,
    bench: &Bench,
    notes: &Notes,
) -> bool {
    if !device(array, bench.expected(), notes) {
        return false;
    }
    let Some(known) = schema(c_schema, notes) else { return false };
    if !structure(array, &known, notes) {
        return false;
    }
    if !bench.has_events() && !matches!(bench, Bench::Host) {
        let none = notes.check("ARR-7", array.sync_event.is_null(), || {
            "`sync_event` is not null on a device that has no events".into()
        });
        if !none {
            return false;
        }
    } else if !event_where_there_is_none(array, notes) {
        return false;
    }
    match bench {
        Bench::Hand(stage) => event_by_hand(stage, array.sync_event, notes),
        _ => read_all(array, &known, bench, notes),
    }
}

fn first_buffer(array: &ArrowArray) -> Option<*const c_void> {
    // SAFETY: no child may be null by the interface: each is a structure of the tree that the
    // caller holds.
    let child = |child: *mut ArrowArray| unsafe { &*child };
    let below = || arrow_children(array).find_map(|pointer| first_buffer(child(pointer)));
    let slot = |index| array.buffers.wrapping_add(index);
    // SAFETY: `buffers` has `n_buffers` pointers.
    let own = (0..array.n_buffers as usize).map(|index| unsafe { slot(index).read() });
    own.into_iter().find(|buffer| !buffer.is_null()).or_else(below)
}

fn arrow_children(array: &ArrowArray) -> impl Iterator<Item = *mut ArrowArray> {
    let (table, count) = (array.children, array.n_children as usize);
    // SAFETY: `children` has `n_children` pointers.
    (0..count).map(move |index| unsafe { table.wrapping_add(index).read() })
}

/// Reads all data through the library, which waits for the event, and notes what the device
/// reports.
pub(super) fn read_all(
    array: &ArrowDeviceArray,
    known: &Schema,
    bench: &Bench,
    notes: &Notes,
) -> bool {
    let is_host = array.device_type == 1;
    if !is_host
        && Some(DeviceId::new(DeviceType(array.device_type), array.device_id)) != bench.expected()
    {
        notes.skip("ARR-5", "it lies on a device that is not open here, so its data was not read");
        return true;
    }
    if let (Bench::Device(opened), Some(shown)) = (bench, NonNull::new(array.sync_event)) {
        notes.now("ARR-5", "looking at the event");
        let driver = opened.device.driver();
        // SAFETY: what a peer shows as the event of this device. One that is none ends this
        // process, which is the finding.
        let event = unsafe { driver.read_sync_event(shown) };
        // SAFETY: UNS-22: what a peer shows as the event of this device. One that is none ends this
        // process, which is the finding.
        let event = event.map(|event| unsafe { driver.is_complete(event) });
        if let Err(error) = event {
            notes.fail("ARR-5", format!("`sync_event` is no event of the device: {error}"));
            return false;
        }
    }
    let id = if is_host || array.sync_event.is_null() { "ARR-17" } else { "ARR-5" };
    notes.now(id, "reading the data");
    let mut copy = consumer::copy_of(&array.array);
    copy.release = Some(keep_array);
    let mut copy = ArrowDeviceArray { array: copy, ..clone(array) };
    // SAFETY: the structs were checked by the caller; releasing the copy releases nothing, and the
    // original outlives it.
    let imported = unsafe { Array::import(&mut copy, known) };
    let read = imported.and_then(|array| array.to_host()).and_then(|host| host.validate());
    let has_event = !array.sync_event.is_null();
    let is_reported = note_reports(bench, notes, |mistake| match mistake {
        Mistake::UnorderedRead | Mistake::UnorderedWrite if has_event => Some("ARR-8"),
        Mistake::UnorderedRead | Mistake::UnorderedWrite => Some("ARR-6"),
        Mistake::EventDestroyed | Mistake::UnknownEvent => Some("ARR-9"),
        Mistake::EventNotRecorded | Mistake::EventRecordedTwice => Some("ARR-8"),
        Mistake::UnknownMemory | Mistake::DeviceAddressOnHost => Some("ARR-1"),
        Mistake::OutOfBounds => Some("ARR-17"),
        Mistake::UseAfterFree => Some("ARR-10"),
        _ => Some("ARR-15"),
    });
    if is_reported {
        // The report says more than the result of reading, and than any later check of such an
        // array.
        return false;
    }
    // Wrong numbers are the fault of their writer, wherever they lie and whatever was waited for.
    let id = match &read {
        Err(error) if error.kind() == ErrorKind::InvalidData => "ARR-17",
        _ => id,
    };
    let what = || read.as_ref().map_or_else(|error| error.to_string(), |()| String::new());
    if !notes.check(id, read.is_ok(), what) {
        return false;
    }
    if crate::under::is_on() {
        // Any number is valid. Copying shows whether each of their bytes is there.
        notes.now("ARR-17", "copying all elements");
        drop(Snapshot::of(&array.array, array, known));
    }
    true
}

/// Copies the bytes of a struct.
fn clone(array: &ArrowDeviceArray) -> ArrowDeviceArray {
    // SAFETY: a reference is valid for reads; the callers take one of the two to be the owner.
    unsafe { std::ptr::read(array) }
}

/// Checks that data that is shown as ready is ready, and that the event stands behind the work.
fn event_by_hand(stage: &Stage, sync_event: *mut c_void, notes: &Notes) -> bool {
    let Stage { manual, queue, .. } = stage;
    if sync_event.is_null() {
        return notes.check("ARR-6", manual.is_idle(queue), || {
            "there is no event, and the work that makes the data is pending".into()
        });
    }
    notes.now("ARR-5", "looking at the event");
    let event = shown_event(sync_event);
    let Some(has_passed) = manual.event(event) else {
        notes.fail("ARR-9", "the event is destroyed already, and the array is not released");
        return false;
    };
    let is_behind = has_passed == manual.is_idle(queue);
    if !notes.check("ARR-8", is_behind, || "the event passed before the work is complete".into()) {
        return false;
    }
    manual.complete(queue);
    notes.check("ARR-8", manual.event(event) == Some(true), || "the event never passes".into())
}

fn release(
    c_schema: ArrowSchema,
    array: ArrowDeviceArray,
    bench: &Bench,
    notes: &Notes,
    order: Order,
) {
    notes.now("SCH-6", "reading the schema again");
    let seen = SeenSchema::of(&c_schema);
    notes.now("ARR-19", "moving the struct");
    let array = consumer::move_and_scribble(array);
    let id = if order == Order::Whole { "ARR-13" } else { "ARR-12" };
    notes.now(id, "releasing what was moved");
    let words: &Words = &[("unreleased", "ARR-13")];
    if notes.verdict(consumer::release_in_order(array.array, order), words, "ARR-12") {
        notes.pass(id);
        notes.pass("ARR-13");
    }
    notes.now("SCH-6", "releasing the schema after its array");
    let same = SeenSchema::of(&c_schema) == seen;
    notes.check("SCH-6", same, || "the schema changed when its array was released".into());
    notes.verdict(consumer::release(c_schema), &[], "SCH-6");
    match bench {
        Bench::Hand(stage) => {
            let live = stage.manual.live_events();
            notes.check("ARR-9", live == 0, || "the event outlives the array".into());
        }
        Bench::Device(_) => {
            note_reports(bench, notes, |mistake| match mistake {
                Mistake::FreedInUse | Mistake::FreedTwice | Mistake::FreedWithWrongLength => {
                    Some("ARR-10")
                }
                Mistake::EventDestroyed => Some("ARR-9"),
                _ => Some("ARR-13"),
            });
        }
        Bench::Host => {}
    }
}

/// Checks whether memory comes back, both where the struct was left in place and where it was
/// moved.
fn many_times(peer: &Peer, bench: &Bench, notes: &Notes) {
    let Entry::ProduceArray(produce) = &peer.entry else { return };
    if !peer.can_count {
        return notes.skip("ARR-10", "its memory is not counted");
    }
    notes.now(RUNS, "producing an array many times");
    let refused = Cell::new(0);
    let cycle = |is_moved: bool| {
        let mut schema = ArrowSchema::empty();
        let mut array = Box::new(ArrowDeviceArray::empty());
        let code = produce(bench, &raw mut schema, &raw mut *array);
        if code != 0 || array.is_released() {
            return refused.set(code);
        }
        if let Bench::Hand(stage) = bench {
            stage.manual.complete(&stage.queue);
        }
        if is_moved {
            let mut moved = Box::new(consumer::move_out(&raw mut array.array));
            let release = moved.release;
            // SAFETY: the structure's own callback, called once and with it.
            let _ = release.map(|release| unsafe { release(&raw mut *moved) });
        } else {
            let release = array.array.release;
            // SAFETY: the structure's own callback, called once and with it.
            let _ = release.map(|release| unsafe { release(&raw mut array.array) });
        }
        let release = schema.release;
        // SAFETY: the schema's own callback, called once and with it.
        let _ = release.map(|release| unsafe { release(&raw mut schema) });
    };
    let in_place = growth::of(|| cycle(false));
    let code = refused.get();
    if !notes.check(RUNS, code == 0, || format!("called again, the entry point returned {code}")) {
        return;
    }
    let Some(in_place) = in_place else {
        return notes.skip("ARR-10", "the C library does not tell how much memory is in use");
    };
    let is_kept = |bytes: u64| format!("{bytes} bytes more are in use after each array");
    if !notes.check("ARR-10", in_place == 0, || is_kept(in_place)) {
        return;
    }
    let moved = growth::of(|| cycle(true)).unwrap_or(0);
    notes.check("ARR-19", moved == 0, || {
        format!("{} that was moved before its release", is_kept(moved))
    });
}
