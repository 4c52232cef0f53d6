//! Producers that break one rule each: the right producer with one thing changed.

use std::ffi::c_void;
use std::fmt;
use std::ptr;

use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema};

use super::{Peer, Wrong};
use crate::judge::{Shown, Stage, batch};
use crate::kinds::Kind;
use crate::plan::{Content, Nulls, Plan, Window};
use crate::producer::{self, Manner};
use crate::{consumer, judge};

/// How a producer works.
struct Way {
    plan: Plan,
    /// Whether the event is recorded before the work is submitted.
    records_early: bool,
    /// Whether the event is destroyed before the array is handed out.
    destroys_event: bool,
    /// Whether no release destroys the event.
    keeps_event: bool,
    /// Whether the consumer is shown an event. `None` shows one if the device has events.
    shows_event: Option<bool>,
}

impl Way {
    fn right() -> Self {
        Self {
            plan: batch(),
            records_early: false,
            destroys_event: false,
            keeps_event: false,
            shows_event: None,
        }
    }

    fn make(self, stage: &Stage) -> (ArrowSchema, ArrowDeviceArray) {
        let Stage { manual, device, queue, ledger } = stage;
        if !self.records_early {
            manual.submit(queue);
        }
        let shown = Shown::new(queue.record().unwrap());
        if self.records_early {
            manual.submit(queue);
        }
        let mut sync_event = ptr::null_mut();
        if self.shows_event.unwrap_or(stage.has_events()) {
            sync_event = shown.sync_event();
        } else if self.shows_event.is_none() {
            queue.synchronize().unwrap();
        }
        if self.keeps_event {
            std::mem::forget(shown.event.clone());
        }
        let base = if self.destroys_event {
            let shown_still: *mut std::ffi::c_void = shown.event.raw().as_ptr();
            sync_event = Box::into_raw(Box::new(shown_still)).cast();
            drop(shown);
            producer::array_in_manner(&self.plan, ledger, Manner::NodeByNode)
        } else {
            producer::array_owning(&self.plan, ledger, Manner::NodeByNode, shown)
        };
        let id = device.id();
        let array = producer::on_device(base, id.device_type.0, id.id);
        let array = ArrowDeviceArray { sync_event, reserved: [0; 3], ..array };
        (producer::schema(&self.plan, ledger), array)
    }
}

/// A producer of a batch, behind an event if the device of the stage has events, with at most one
/// thing changed.
#[derive(Clone, Copy, Debug)]
pub struct Producer(Change);

#[derive(Clone, Copy)]
enum Change {
    Nothing,
    /// A change of the plan.
    Plan(fn(&mut Plan)),
    /// A change of how the array is made.
    Way(fn(&mut Way)),
    /// A change of the finished structs.
    Made(fn(&mut ArrowSchema, &mut ArrowDeviceArray)),
    /// A change of how the struct is written to the consumer's memory.
    Write(fn(ArrowDeviceArray, *mut ArrowDeviceArray)),
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing",
            Self::Plan(_) => "the plan",
            Self::Way(_) => "the way",
            Self::Made(_) => "what was made",
            Self::Write(_) => "how it is written",
        })
    }
}

impl Producer {
    /// The right producer.
    pub const RIGHT: Self = Self(Change::Nothing);

    /// Submits the work that makes the data, and fills the structs.
    pub fn produce(&self, stage: &Stage, schema: *mut ArrowSchema, out: *mut ArrowDeviceArray) {
        let mut way = Way::right();
        match self.0 {
            Change::Plan(change) => change(&mut way.plan),
            Change::Way(change) => change(&mut way),
            _ => {}
        }
        let (c_schema, c_array) = way.make(stage);
        unsafe { schema.write(c_schema) };
        match self.0 {
            Change::Write(write) => write(c_array, out),
            _ => unsafe { out.write(c_array) },
        }
        if let Change::Made(change) = self.0 {
            let (schema, out) = unsafe { (&mut *schema, &mut *out) };
            change(schema, out);
        }
    }
}

fn row(id: &'static str, name: &'static str, complaint: &'static str, change: Change) -> Wrong {
    let peer = Peer::Producer(Producer(change));
    Wrong { id, name, complaint, crashes: false, peer }
}

pub(super) fn all() -> Vec<Wrong> {
    use Change::{Made, Way, Write};
    vec![
        row("ABI-1", "writes a struct without `reserved`", "`reserved`", Write(without_reserved)),
        row("ABI-1", "puts the device's type before its number", "it lies on", Made(swapped)),
        row(
            "ABI-3",
            "numbers types of devices itself",
            "it lies on 5:",
            Made(|_, out| out.device_type = 5),
        ),
        row(
            "ABI-5",
            "leaves garbage in `reserved`",
            "`reserved`",
            Made(|_, out| out.reserved[1] = 7),
        ),
        row(
            "SCH-1",
            "makes up a format",
            "format",
            Change::Plan(|plan| plan.children[0].format = c"q".into()),
        ),
        row(
            "SCH-1",
            "gives no format",
            "the format is null",
            Made(|schema, _| schema.format = ptr::null()),
        ),
        row(
            "SCH-2",
            "counts its metadata wrongly",
            "-3",
            Change::Plan(|plan| plan.metadata = Some((-3_i32).to_ne_bytes().into())),
        ),
        row(
            "SCH-4",
            "gives a dictionary that its schema has not",
            "dictionary",
            Made(dictionary_in_the_array),
        ),
        row("SCH-4", "gives text as an index", "dictionary", Change::Plan(text_as_index)),
        row(
            "SCH-6",
            "lets the schema end with its array",
            "the schema changed",
            Made(schema_with_array),
        ),
        row(
            "ARR-3",
            "keeps 32 bits of its device's number",
            "it lies on 4711:",
            Made(|_, out| out.device_id = i64::from(out.device_id as i32)),
        ),
        row(
            "ARR-4",
            "says that its memory is the host's",
            "it lies on 1:",
            Made(|_, out| out.device_type = 1),
        ),
        row(
            "ARR-6",
            "says that pending work is complete",
            "no event, and",
            Way(|way| way.shows_event = Some(false)),
        ),
        row(
            "ARR-7",
            "shows an event of a device that has none",
            "an event on a device",
            Way(|way| way.shows_event = Some(true)),
        ),
        row(
            "ARR-8",
            "records its event before the work",
            "passed before the work",
            Way(|way| way.records_early = true),
        ),
        row(
            "ARR-9",
            "destroys the event when it has handed out",
            "destroyed already",
            Way(|way| way.destroys_event = true),
        ),
        row(
            "ARR-9",
            "never destroys its event",
            "outlives the array",
            Way(|way| way.keeps_event = true),
        ),
        row(
            "ARR-10",
            "frees no buffer",
            "allocations leaked",
            Made(|_, out| wrap(&mut out.array, forget_buffers)),
        ),
        row(
            "ARR-11",
            "writes more than the struct",
            "beside the struct",
            Write(more_than_the_struct),
        ),
        row(
            "ARR-12",
            "ends moved children with their parent",
            "buffers moved",
            Made(ends_children),
        ),
        row(
            "ARR-13",
            "does not mark what was released",
            "left the struct unreleased",
            Made(|_, out| wrap(&mut out.array, release_without_mark)),
        ),
        row(
            "ARR-17",
            "has a negative length",
            "length is -1",
            Change::Plan(|plan| plan.children[0].length = -1),
        ),
        row(
            "ARR-17",
            "has a negative offset",
            "offset is -5",
            Change::Plan(|plan| plan.offset = -5),
        ),
        row(
            "ARR-17",
            "has more nulls than elements",
            "null count is 6",
            Change::Plan(|plan| plan.children[1].null_count = 6),
        ),
        row("ARR-17", "has children that are too short", "child[0]", Change::Plan(too_short)),
        row(
            "ARR-17",
            "leaves a buffer out",
            "buffer 1",
            Change::Plan(|plan| plan.children[0].buffers[1] = Content::Null),
        ),
        row("ARR-19", "knows its struct by the address", "allocations leaked", Made(at_home)),
    ]
}

/// Writes the struct up to `reserved`, as a program does whose declarations lack that member.
fn without_reserved(array: ArrowDeviceArray, out: *mut ArrowDeviceArray) {
    let length = std::mem::offset_of!(ArrowDeviceArray, reserved);
    unsafe { ptr::copy_nonoverlapping((&raw const array).cast::<u8>(), out.cast::<u8>(), length) };
}

fn more_than_the_struct(array: ArrowDeviceArray, out: *mut ArrowDeviceArray) {
    unsafe {
        out.write(array);
        out.add(1).cast::<i64>().write(0);
    }
}

fn swapped(_: &mut ArrowSchema, out: &mut ArrowDeviceArray) {
    let (number, device_type) = (out.device_id, out.device_type);
    out.device_id = i64::from(device_type);
    out.device_type = number as i32;
}

/// Removes the dictionary from the schema only. The books of the schema still have it, and release
/// it.
fn dictionary_in_the_array(schema: &mut ArrowSchema, _: &mut ArrowDeviceArray) {
    unsafe { (**schema.children.add(2)).dictionary = ptr::null_mut() };
}

fn text_as_index(plan: &mut Plan) {
    plan.children[1].dictionary = Some(Box::new(text()));
}

fn too_short(plan: &mut Plan) {
    (plan.children[0].length, plan.children[0].null_count) = (4, -1);
}

fn text() -> Plan {
    Kind::Text("u", 4).plan(Window::WHOLE, Nulls::None)
}

/// The release that was replaced.
type ReleaseArray = unsafe extern "C" fn(*mut ArrowArray);

/// Replaces the release of an array. The new release finds the array as it was.
fn wrap(array: &mut ArrowArray, release: ReleaseArray) {
    array.private_data = Box::into_raw(Box::new(consumer::copy_of(array))).cast();
    array.release = Some(release);
}

fn schema_with_array(schema: &mut ArrowSchema, out: &mut ArrowDeviceArray) {
    let name: *mut [u8; 2] = Box::into_raw(Box::new(*b"a\0"));
    schema.name = name.cast();
    let private = Box::new((consumer::copy_of(&out.array), name));
    out.array.private_data = Box::into_raw(private).cast();
    out.array.release = Some(release_and_scribble);
}

type WithTables = (ArrowArray, Vec<*mut *const c_void>);

fn ends_children(_: &mut ArrowSchema, out: &mut ArrowDeviceArray) {
    let tables = judge::children(&out.array).map(|child| unsafe { (*child).buffers }).collect();
    let private: WithTables = (consumer::copy_of(&out.array), tables);
    out.array.private_data = Box::into_raw(Box::new(private)).cast();
    out.array.release = Some(end_children);
}

fn at_home(_: &mut ArrowSchema, out: &mut ArrowDeviceArray) {
    let home = (&raw const out.array).addr();
    let private = Box::new((consumer::copy_of(&out.array), home));
    out.array.private_data = Box::into_raw(private).cast();
    out.array.release = Some(release_at_home);
}

/// Frees the name of the schema together with the array.
unsafe extern "C" fn release_and_scribble(array: *mut ArrowArray) {
    let private =
        unsafe { Box::from_raw((*array).private_data.cast::<(ArrowArray, *mut [u8; 2])>()) };
    let (original, name) = *private;
    unsafe { (*name)[0] = b'?' };
    consumer::release(original).unwrap();
    unsafe { (*array).release = None };
}

/// Releases the children and the event, but none of the buffers of the struct itself.
unsafe extern "C" fn forget_buffers(array: *mut ArrowArray) {
    let original = unsafe { Box::from_raw((*array).private_data.cast::<ArrowArray>()) };
    for child in judge::children(&original) {
        if let Some(release) = unsafe { (*child).release } {
            unsafe { release(child) };
        }
    }
    producer::drop_owned(&original);
    unsafe { (*array).release = None };
}

/// Removes the second buffer of all children, wherever they are by now.
unsafe extern "C" fn end_children(array: *mut ArrowArray) {
    let (original, tables) = *unsafe { Box::from_raw((*array).private_data.cast::<WithTables>()) };
    for table in tables {
        // The tables of children that were not moved are still there too.
        unsafe { *table.add(1) = ptr::null() };
    }
    consumer::release(original).unwrap();
    unsafe { (*array).release = None };
}

unsafe extern "C" fn release_without_mark(array: *mut ArrowArray) {
    let original = unsafe { Box::from_raw((*array).private_data.cast::<ArrowArray>()) };
    consumer::release(*original).unwrap();
}

/// Releases the array only if it lies where it was made.
unsafe extern "C" fn release_at_home(array: *mut ArrowArray) {
    let private = unsafe { Box::from_raw((*array).private_data.cast::<(ArrowArray, usize)>()) };
    let (original, home) = *private;
    if array.addr() == home {
        consumer::release(original).unwrap();
    } else {
        producer::drop_owned(&original);
    }
    unsafe { (*array).release = None };
}
