//! Judges producers, consumers and relays of C structs, whoever wrote them.
//!
//! A peer is put on a [`Stage`] and does its part there. The [`Verdict`] says which rule it broke,
//! if any. The device of the stage does nothing by itself, so a peer that does not wait, records
//! too early or releases too soon is seen at once. For each rule, [`wrong`](crate::wrong) has a
//! peer that breaks only that rule.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema};
use arrow_device::driver::Readiness;
use arrow_device::{Device, Event, Queue, Schema, validate};

use crate::consumer::{self, Order, SeenSchema};
use crate::kinds::Kind;
use crate::ledger::Ledger;
use crate::manual::{Manual, shown_event};
use crate::plan::{Content, Nulls, Plan, Window, metadata};
use crate::producer::{self, Manner};
use crate::relay::{On, Relay, check_relay};
use crate::{Verdict, require};

/// The means of a peer: a device, a queue on it, and books for what it keeps alive.
#[derive(Debug)]
pub struct Stage {
    /// The control of the device.
    pub manual: Manual,
    /// The device.
    pub device: Device,
    /// The queue that the peer uses.
    pub queue: Queue,
    /// The books.
    pub ledger: Arc<Ledger>,
}

impl Stage {
    /// Makes a stage with a device of its own.
    pub fn new(readiness: Readiness) -> Self {
        let (manual, device) = Manual::open_with(readiness);
        let queue = device.open_queue().unwrap();
        Self { manual, device, queue, ledger: Ledger::new() }
    }

    /// Whether arrays of the device carry events.
    pub fn has_events(&self) -> bool {
        self.device.properties().readiness == Readiness::Event
    }
}

/// Additional owner of an array that is made by hand from a plan: an event, and the handle that a
/// consumer is shown.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) event: Event,
    // Not a box, because while a box is moved nobody else may look into it.
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle(#[expect(dead_code, reason = "C reads it")] *mut c_void);

// SAFETY: the handle of an event, which can be used on any thread.
unsafe impl Send for Handle {}
// SAFETY: the handle of an event, which can be used on several threads at once (DRV-1) and is not
// written to.
unsafe impl Sync for Handle {}

impl Shown {
    pub(crate) fn new(event: Event) -> Self {
        let handle = Arc::new(Handle(event.raw().as_ptr()));
        Self { event, handle }
    }

    pub(crate) fn sync_event(&self) -> *mut c_void {
        Arc::as_ptr(&self.handle).cast_mut().cast()
    }
}

/// Returns a batch of numbers, text, and keys into text, with names, metadata and nulls.
pub(crate) fn batch() -> Plan {
    let text = || Kind::Text("u", 4);
    let columns = vec![Kind::Fixed("l", 8), text(), Kind::Dictionary("c", 1, Box::new(text()))];
    let name = Some(c"batch".into());
    let pairs = metadata(&[(b"rows", b"5")]);
    let plan = Kind::Struct(columns).plan(Window::WHOLE, Nulls::Counted);
    Plan { name, metadata: Some(pairs), ..plan }
}

// ---- producers

/// A producer: submits the work that makes the data to the queue of the stage, and fills the
/// structs.
pub type Produce<'a> = dyn Fn(&Stage, *mut ArrowSchema, *mut ArrowDeviceArray) + 'a;

/// Checks that what a producer hands out is right, ready when it says so, and gone after its
/// release, with its children moved out or not, on a device with events and on one without.
pub fn producer(produce: &Produce<'_>) -> Verdict {
    for readiness in [Readiness::Event, Readiness::HostWait] {
        for order in [Order::Whole, Order::ParentFirst] {
            judge_producer(produce, &Stage::new(readiness), order)?;
        }
    }
    Ok(())
}

fn judge_producer(produce: &Produce<'_>, stage: &Stage, order: Order) -> Verdict {
    let text = |error: arrow_device::Error| error.to_string();
    // The consumer's memory holds arbitrary bytes.
    let size = size_of::<ArrowDeviceArray>();
    // Words of 64 bits are aligned for the struct. Its size is a multiple of its alignment, which
    // may be less than 8.
    let mut memory = vec![GARBAGE; (3 * size).div_ceil(8)];
    let out = memory.as_mut_ptr().wrapping_byte_add(size).cast::<ArrowDeviceArray>();
    let mut schema = ArrowSchema::empty();
    produce(stage, &raw mut schema, out);
    // SAFETY: all of it was written, by the lines above and by the producer; any bytes are a struct
    // of numbers and pointers but for the callback, which every producer writes.
    let array = unsafe { out.read() };
    let around_it = [0..size, 2 * size..8 * memory.len()].map(|range| {
        let begin = memory.as_ptr().wrapping_byte_add(range.start).cast::<u8>();
        // SAFETY: bytes of the vector, which were written above. Those of the struct between them
        // may have padding, which nobody writes.
        unsafe { std::slice::from_raw_parts(begin, range.len()) }
    });
    let mut around = around_it.into_iter().flatten();
    require(around.all(|byte| *byte == GARBAGE_BYTE), || "wrote beside the struct".into())?;
    require(array.reserved == [0; 3], || "`reserved` is not zero".into())?;
    let id = stage.device.id();
    require((array.device_type, array.device_id) == (id.device_type.0, id.id), || {
        format!("it lies on {}:{}", array.device_type, array.device_id)
    })?;
    require(!schema.is_released() && !array.is_released(), || "there is nothing".into())?;

    // SAFETY: the peer vouches for its structs; the checks are those of hostile ones.
    unsafe { validate::schema_structure(&schema) }.map_err(text)?;
    // A copy whose release does nothing, so that the original can be compared with what it was.
    let mut copy = ArrowSchema { release: Some(keep), ..consumer::copy_of(&schema) };
    // SAFETY: UNS-2: the peer vouches for its structs; the checks are those of hostile ones. The
    // callback of the copy releases nothing.
    let known = unsafe { Schema::import(&mut copy) }.map_err(text)?;
    // The manual device has no events at all where it is opened without them.
    require(stage.has_events() || array.sync_event.is_null(), || {
        "an event on a device that has none".into()
    })?;
    // SAFETY: UNS-12: the peer vouches for its structs; the checks are those of hostile ones.
    unsafe { validate::structure(&array) }.map_err(text)?;
    // SAFETY: UNS-12: the peer vouches for its structs; the checks are those of hostile ones.
    unsafe { validate::layout(&array, &known) }.map_err(text)?;
    judge_event(stage, array.sync_event)?;

    let seen = SeenSchema::of(&schema);
    let array = consumer::move_and_scribble(array);
    consumer::release_in_order(array.array, order)?;
    require(SeenSchema::of(&schema) == seen, || "the schema changed with its array".into())?;
    consumer::release(schema)?;
    let live = stage.manual.live_events();
    require(live == 0, || "the event outlives the array".into())?;
    stage.ledger.complaints()?;
    require(stage.ledger.live() == 0, || format!("{} allocations leaked", stage.ledger.live()))
}

/// Checks that data that is shown as ready is ready, and that the event stands behind the work.
fn judge_event(stage: &Stage, sync_event: *mut c_void) -> Verdict {
    let Stage { manual, queue, .. } = stage;
    if sync_event.is_null() {
        return require(manual.is_idle(queue), || "no event, and the work is pending".into());
    }
    let event = shown_event(sync_event);
    let has_passed = manual.event(event).ok_or("the event is destroyed already")?;
    let is_behind = has_passed == manual.is_idle(queue);
    require(is_behind, || "the event passed before the work is complete".into())?;
    manual.complete(queue);
    require(manual.event(event) == Some(true), || "the event never passes".into())
}

const GARBAGE_BYTE: u8 = 0xaa;
const GARBAGE: u64 = u64::from_ne_bytes([GARBAGE_BYTE; 8]);

unsafe extern "C" fn keep(schema: *mut ArrowSchema) {
    // SAFETY: called with the struct that it was put into.
    unsafe { (*schema).release = None };
}

// ---- consumers

/// A consumer: takes the structs over, uses the data on the queue of the stage
/// ([`Manual::submit`]), and releases both. Work that it has not finished when it returns is
/// finished then.
pub type Consume<'a> = dyn Fn(&Stage, &mut ArrowSchema, &mut ArrowDeviceArray) + 'a;

/// Checks that a consumer takes the structs over by a move, orders its work behind the event,
/// writes to nothing, and releases each base once and nothing else, after its last use.
pub fn consumer(consume: &Consume<'_>) -> Verdict {
    let stage = Stage::new(Readiness::Event);
    let Stage { manual, device, queue, ledger } = &stage;
    let writer = device.open_queue().map_err(|error| error.to_string())?;
    manual.submit(&writer);
    let shown = Shown::new(writer.record().map_err(|error| error.to_string())?);
    let (event, sync_event) = (shown.event.raw().bits(), shown.sync_event());
    let watch =
        MemoryWatch { manual: manual.clone(), queue: queue.clone(), ledger: ledger.clone() };
    let plan = batch();
    let base = producer::array_owning(&plan, ledger, Manner::AllByTheBase, (shown, watch));
    let id = device.id();
    let array = producer::on_device(base, id.device_type.0, id.id);
    let mut array = ArrowDeviceArray { sync_event, ..array };
    let mut schema = producer::schema(&plan, ledger);

    consume(&stage, &mut schema, &mut array);
    require(schema.is_released() && array.is_released(), || {
        "the source was not marked as released".into()
    })?;
    let is_ordered = manual.submitted(queue) == 0 || manual.waits_for(queue, event);
    require(is_ordered, || "the data is used before its event".into())?;
    manual.complete(&writer);
    manual.complete(queue);
    ledger.settle_soon(2)
}

/// Sees whether the memory comes back while the consumer still uses it.
struct MemoryWatch {
    manual: Manual,
    queue: Queue,
    ledger: Arc<Ledger>,
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        if !self.manual.is_idle(&self.queue) {
            self.ledger.complain("released while the consumer's queue still uses it");
        }
    }
}

// ---- relays

/// Checks that a relay hands on what it was given, whatever that is and wherever it lies, and
/// refuses what nobody may accept.
pub fn relay(relay: &dyn Relay) -> Verdict {
    let mut handle: *mut c_void = ptr::without_provenance_mut(0x77);
    let sync_event = (&raw mut handle).cast();
    let places = [
        On::CPU,
        On { sync_event, ..On::device(2, 1 << 40) },
        // The lower 8 bits of the type are those of the host, and the lower 32 bits of the id those
        // of another device.
        On::device(257, (1 << 32) | 3),
    ];
    let list = Kind::List("+l", 4, Box::new(Kind::Fixed("l", 8)));
    let keys = Kind::Dictionary("c", 1, Box::new(Kind::Text("u", 4)));
    let plans = [
        Plan { flags: 2 | 1 << 40, ..batch() },
        list.plan(Window::SLICED, Nulls::Counted),
        Kind::Extension(Box::new(keys)).plan(Window::SLICED, Nulls::Unknown),
    ];
    for plan in &plans {
        for on in places {
            for order in Order::ALL {
                check_relay(relay, plan, on, Manner::AllByTheBase, order)?;
            }
        }
    }
    refuses_nonsense(relay)
}

/// Checks that a length of -1 is not handed on.
fn refuses_nonsense(relay: &dyn Relay) -> Verdict {
    let ledger = Ledger::new();
    let plan = Plan { length: -1, null_count: -1, ..batch() };
    let mut schema = producer::schema(&plan, &ledger);
    let mut array = producer::device_array(&plan, &ledger);
    if let Ok((schema, array)) = relay.relay(&mut schema, &mut array) {
        consumer::release(schema)?;
        consumer::release(array.array)?;
        return Err("a length of -1 is handed on".into());
    }
    ledger.settle(2)
}

/// Checks that a relay does not look at the data. A relay that does dies here in most cases.
pub fn relay_of_unreadable_data(relay: &dyn Relay) -> Verdict {
    let mut plan = batch();
    for child in &mut plan.children {
        child.buffers.iter_mut().for_each(|buffer| *buffer = Content::At(0x1000));
    }
    plan.buffers[0] = Content::At(0x1000);
    check_relay(relay, &plan, On::device(2, 0), Manner::AllByTheBase, Order::Whole)
}

/// Returns the children of an array.
pub(crate) fn children(array: &ArrowArray) -> impl Iterator<Item = *mut ArrowArray> {
    let (table, count) = (array.children, array.n_children as usize);
    // SAFETY: the table has `n_children` entries, by the interface.
    (0..count).map(move |index| unsafe { table.wrapping_add(index).read() })
}
