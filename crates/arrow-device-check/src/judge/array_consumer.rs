//! Judges consumers of arrays, by a producer that looks at everything that is done to its structs.

use std::ffi::c_void;
use std::sync::Arc;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{Event, Queue};
use arrow_device_sim::Mistake;
use arrow_device_testkit::deposit;
use arrow_device_testkit::judge::Stage;
use arrow_device_testkit::kinds::{self, Kind};
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::manual::Manual;
use arrow_device_testkit::plan::{Content, Nulls, Plan, Window, metadata};
use arrow_device_testkit::producer::{self, Manner};

use super::{RUNS, Scenario};
use crate::bench::{Bench, Opened, Where, is_leak, words_of};
use crate::notes::{Aside, Notes, Words};
use crate::peer::{Entry, Peer};
use crate::shape;

/// The scenario that comes first for consumers and relays of arrays.
pub(super) const FIRST: &[Scenario] =
    &[Scenario { name: super::SHAPES, place: Where::Host, run: shapes }];

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "a batch on the host", place: Where::Host, run: on_host },
    Scenario {
        name: "a batch of numbers on a device",
        place: Where::Device,
        run: |peer, bench, notes| {
            on_device(peer, bench, notes, numbers_alone(), "a batch of numbers")
        },
    },
    Scenario {
        name: "a batch on a device",
        place: Where::Device,
        run: |peer, bench, notes| {
            on_device(peer, bench, notes, batch(), "a batch of numbers, text and keys")
        },
    },
    Scenario {
        name: "a batch on a device whose nulls nobody has counted",
        place: Where::Device,
        run: |peer, bench, notes| {
            on_device(peer, bench, notes, uncounted(), "a batch whose nulls nobody has counted")
        },
    },
    Scenario {
        name: "a batch on the host that goes when it is released",
        place: Where::Host,
        run: on_pages,
    },
    Scenario { name: "arrays of every type", place: Where::Host, run: every_type },
    Scenario {
        name: "an array of a type of device that nobody has",
        place: Where::Host,
        run: unknown,
    },
    Scenario { name: "arrays of every type of device", place: Where::Host, run: every_device },
];

/// The rules that complaints of the books are about.
pub(super) const OF_BOOKS: &Words = &[
    ("written to", "ARR-15"),
    ("of a child was called", "ARR-18"),
    ("still uses it", "ARR-20"),
    ("released twice", "ARR-13"),
];

/// Returns a batch of numbers, text, and keys into text, with names, metadata and nulls.
pub(super) fn batch() -> Plan {
    let text = || Kind::Text("u", 4);
    let columns = vec![Kind::Fixed("l", 8), text(), Kind::Dictionary("c", 1, Box::new(text()))];
    let mut plan = Kind::Struct(columns).plan(Window::WHOLE, Nulls::None);
    if let (Some(numbers), Some(with_nulls)) = (plan.children.first_mut(), numbers_with_nulls()) {
        *numbers = Plan { name: numbers.name.clone(), ..with_nulls };
    }
    Plan { name: Some(c"batch".into()), metadata: Some(metadata(&[(b"rows", b"5")])), ..plan }
}

/// Gives a plan values that are valid for its types: times within the day, decimals within their
/// precision.
pub(super) fn sound(mut plan: Plan) -> Plan {
    let format = plan.format.to_bytes();
    if [&b"tt"[..], b"td", b"d:"].iter().any(|beginning| format.starts_with(beginning)) {
        for buffer in plan.buffers.iter_mut().skip(1) {
            if let Content::Bytes(bytes) = buffer {
                bytes.fill(0);
            }
        }
    }
    plan.children = plan.children.into_iter().map(sound).collect();
    plan.dictionary = plan.dictionary.map(|values| Box::new(sound(*values)));
    plan
}

fn numbers_with_nulls() -> Option<Plan> {
    Some(Kind::Fixed("l", 8).plan(Window::WHOLE, Nulls::Counted))
}

/// Returns a batch whose data has only one possible length, which the struct says.
pub(super) fn numbers_alone() -> Plan {
    Kind::Struct(vec![Kind::Fixed("l", 8), Kind::Fixed("f", 4)]).plan(Window::WHOLE, Nulls::None)
}

/// Returns rows that may be null, and numbers. The nulls of neither have been counted.
fn uncounted() -> Plan {
    Kind::Struct(vec![Kind::Fixed("l", 8)]).plan(Window::WHOLE, Nulls::Unknown)
}

/// The structs that a consumer is given, and their books.
pub(super) struct Offer {
    pub(super) schema: ArrowSchema,
    pub(super) array: ArrowDeviceArray,
    pub(super) schemas: Arc<Ledger>,
    pub(super) arrays: Arc<Ledger>,
}

impl Offer {
    /// Makes structs in host memory.
    pub(super) fn of(plan: &Plan) -> Self {
        let (schemas, arrays) = (Ledger::new(), Ledger::new());
        let base = producer::array_in_manner(plan, &arrays, Manner::AllByTheBase);
        let array = ArrowDeviceArray { reserved: [0; 3], ..producer::on_device(base, 1, -1) };
        Self { schema: producer::schema(plan, &schemas), array, schemas, arrays }
    }

    /// Hands both structs over, and returns the consumer's answer.
    pub(super) fn to(&mut self, peer: &Peer, bench: &Bench) -> i32 {
        match &peer.entry {
            Entry::ConsumeArray(consume) => {
                consume(bench, &raw mut self.schema, &raw mut self.array)
            }
            Entry::RelayArray(relay) => {
                let mut schema = ArrowSchema::empty();
                let mut array = ArrowDeviceArray::empty();
                let (c_schema, c_array) = (&raw mut self.schema, &raw mut self.array);
                let code = relay(bench, c_schema, c_array, &raw mut schema, &raw mut array);
                release_handed_on(&mut schema, &mut array);
                code
            }
            _ => libc::ENOSYS,
        }
    }

    /// Checks whether the structs were taken, and given back once.
    pub(super) fn settle(&self, code: i32, notes: &Notes) {
        let is_taken = self.schema.is_released() && self.array.is_released();
        let id = if code == 0 { "ARR-12" } else { "SYS-2" };
        if !is_taken && code == 0 {
            notes.fail(id, "the source was not marked as released: it was copied and not moved");
        } else if !is_taken {
            let which = if self.array.is_released() { "schema" } else { "array" };
            notes.fail(id, format!("it returned {code} and left the {which} unreleased"));
        } else {
            notes.pass(id);
        }
        settle_soon(&self.arrays);
        settle_soon(&self.schemas);
        let kept = notes.verdict(self.arrays.complaints(), OF_BOOKS, "ARR-13");
        if kept {
            ["ARR-15", "ARR-18", "ARR-13"].iter().for_each(|id| notes.pass(id));
        }
        if is_taken {
            let (schemas, arrays) = (self.schemas.base_releases(), self.arrays.base_releases());
            notes.check("SCH-6", schemas == 1, || {
                format!("the schema was released {schemas} times")
            });
            if arrays < 2 {
                notes.check("SYS-2", arrays == 1, || "the array was never released".into());
            }
        }
    }
}

/// Releases what a relay handed on.
pub(super) fn release_handed_on(schema: &mut ArrowSchema, array: &mut ArrowDeviceArray) {
    if let Some(release) = array.array.release {
        // SAFETY: not released, and nobody else's.
        unsafe { release(&raw mut array.array) };
    }
    if let Some(release) = schema.release {
        // SAFETY: the schema is not released, and nobody else has it (UNS-14).
        unsafe { release(schema) };
    }
}

/// Lets the library release what waits for its last use, in case the peer is made with the library.
fn settle_soon(ledger: &Arc<Ledger>) {
    let _ = ledger.settle_soon(1);
}

/// Finds out whether the consumer refuses numbers and takes a batch of them.
fn shapes(peer: &Peer, bench: &Bench, notes: &Notes) {
    if shape::is_known() {
        return;
    }
    let numbers = Kind::Fixed("l", 8).plan(Window::WHOLE, Nulls::None);
    let code = |plan: &Plan| {
        notes.now("SYS-1", "consuming numbers, and then a batch of them");
        let mut offer = Offer::of(plan);
        let code = offer.to(peer, bench);
        release_handed_on(&mut offer.schema, &mut offer.array);
        code
    };
    if code(&numbers) != 0 && code(&in_a_batch(numbers.clone())) == 0 {
        notes.batches();
    }
}

/// Returns a batch with this column.
pub(crate) fn in_a_batch(column: Plan) -> Plan {
    let batch = Kind::Struct(Vec::new()).plan(Window::WHOLE, Nulls::None);
    let length = column.length;
    let column = Plan { name: Some(column.name.unwrap_or(c"column".into())), ..column };
    Plan { length, flags: 0, children: vec![column], ..batch }
}

/// Returns the array as it is, or in a batch for a consumer that takes batches only.
pub(super) fn shaped(plan: Plan) -> Plan {
    let is_batch = plan.format.to_bytes() == b"+s" && plan.offset == 0 && plan.null_count == 0;
    if shape::is_batches() && !is_batch { in_a_batch(plan) } else { plan }
}

fn on_host(peer: &Peer, bench: &Bench, notes: &Notes) {
    notes.now(RUNS, "consuming a batch on the host");
    let mut offer = Offer::of(&batch());
    let code = offer.to(peer, bench);
    notes.check("SYS-1", code == 0, || format!("a good batch on the host was refused with {code}"));
    offer.settle(code, notes);
}

/// Notes that the consumer has released an array, at the moment of the release.
struct Released(Aside);

impl Drop for Released {
    fn drop(&mut self) {
        self.0.now("ARR-18", "going on after it has released a batch");
    }
}

/// Offers memory that nobody can read once it is released, with nothing behind it.
fn on_pages(peer: &Peer, bench: &Bench, notes: &Notes) {
    let ledger = Ledger::new();
    let (plan, pages) = super::pages::on_pages(batch());
    let owned = (pages, Released(notes.aside()));
    let base = producer::array_owning(&plan, &ledger, Manner::AllByTheBase, owned);
    let array = ArrowDeviceArray { reserved: [0; 3], ..producer::on_device(base, 1, -1) };
    let schemas = Ledger::new();
    let schema = producer::schema(&plan, &schemas);
    let mut offer = Offer { schema, array, schemas, arrays: ledger };
    notes.now("ARR-14", "consuming a batch on the host, behind whose buffers there is nothing");
    let code = offer.to(peer, bench);
    ["ARR-14", "ARR-18"].iter().for_each(|id| notes.pass(id));
    offer.settle(code, notes);
}

fn on_device(peer: &Peer, bench: &Bench, notes: &Notes, plan: Plan, what: &str) {
    match bench {
        Bench::Host => {}
        Bench::Hand(stage) => by_hand(peer, bench, stage, notes, plan),
        Bench::Device(opened) => opened_device(peer, bench, opened, notes, plan, what),
    }
}

fn opened_device(
    peer: &Peer,
    bench: &Bench,
    opened: &Opened,
    notes: &Notes,
    plan: Plan,
    what: &str,
) {
    let (schemas, arrays) = (Ledger::new(), Ledger::new());
    let made = deposit::pending(&plan, &opened.queue, &arrays, Manner::AllByTheBase);
    let Ok(array) = made else {
        return notes.skip("ARR-2", "the device failed");
    };
    let array = ArrowDeviceArray { reserved: [0; 3], ..array };
    let mut offer = Offer { schema: producer::schema(&plan, &schemas), array, schemas, arrays };
    notes.now("ARR-2", &format!("consuming {what} on a device, which the host cannot read"));
    let code = offer.to(peer, bench);
    if code == 0 {
        ["ARR-1", "ARR-2"].iter().for_each(|id| notes.pass(id));
    } else {
        notes.skip("ARR-5", format!("it refuses data on this device: it returned {code}"));
    }
    let waits = opened.waits();
    offer.settle(code, notes);
    let reports = opened.reports();
    for report in &reports {
        let id = match report.kind {
            Mistake::UnorderedRead | Mistake::UnorderedWrite if waits > 0 => "ARR-5",
            Mistake::UnorderedRead | Mistake::UnorderedWrite => "ARR-2",
            Mistake::FreedInUse => "ARR-20",
            Mistake::UseAfterFree | Mistake::EventDestroyed => "ARR-18",
            Mistake::WriteToShared => "ARR-15",
            kind if is_leak(kind) => continue,
            _ => "ARR-5",
        };
        notes.fail(id, words_of(report));
    }
    if reports.is_empty() && code == 0 {
        ["ARR-5", "ARR-20"].iter().for_each(|id| notes.pass(id));
    }
}

fn by_hand(peer: &Peer, bench: &Bench, stage: &Stage, notes: &Notes, plan: Plan) {
    let Stage { manual, device, queue, ledger } = stage;
    let (Ok(writer), Entry::ConsumeArray(_)) = (device.open_queue(), &peer.entry) else { return };
    manual.submit(&writer);
    let Ok(event) = writer.record() else { return };
    let (number, handle) = (event.raw().bits(), Arc::new(Handle(event.raw().as_ptr())));
    let sync_event = Arc::as_ptr(&handle).cast_mut().cast();
    let watch = Watch { manual: manual.clone(), queue: queue.clone(), ledger: ledger.clone() };
    let owned = (Owned { _event: event, _handle: handle }, watch);
    let base = producer::array_owning(&plan, ledger, Manner::AllByTheBase, owned);
    let id = device.id();
    let array = producer::on_device(base, id.device_type.0, id.id);
    let array = ArrowDeviceArray { sync_event, reserved: [0; 3], ..array };
    let schemas = Ledger::new();
    let schema = producer::schema(&plan, &schemas);
    let mut offer = Offer { schema, array, schemas, arrays: ledger.clone() };
    notes.now("ARR-2", "consuming a batch on a device");
    let code = offer.to(peer, bench);
    notes.check("SYS-1", code == 0, || format!("a good batch was refused with {code}"));
    let used = manual.submitted(queue) > 0;
    let id = if manual.wait_count() > 0 { "ARR-5" } else { "ARR-2" };
    notes.check(id, !used || manual.waits_for(queue, number), || {
        "the data is used by a queue that does not wait for its event".into()
    });
    manual.complete(&writer);
    manual.complete(queue);
    offer.settle(code, notes);
}

struct Owned {
    _event: Event,
    _handle: Arc<Handle>,
}

struct Handle(#[expect(dead_code, reason = "a peer reads it")] *mut c_void);

// SAFETY: the handle of an event, which can be used on any thread.
unsafe impl Send for Handle {}
// SAFETY: the handle of an event, which can be used on several threads at once (DRV-1) and is not
// written to.
unsafe impl Sync for Handle {}

/// Sees whether the memory comes back while the consumer still uses it.
struct Watch {
    manual: Manual,
    queue: Queue,
    ledger: Arc<Ledger>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.manual.is_idle(&self.queue) {
            self.ledger.complain("released while the consumer's queue still uses it");
        }
    }
}

fn every_type(peer: &Peer, bench: &Bench, notes: &Notes) {
    let mut refused = Vec::new();
    for kind in kinds::types() {
        for (window, nulls) in [
            (Window::WHOLE, Nulls::Counted),
            (Window::SLICED, Nulls::Unknown),
            (Window::EMPTY, Nulls::None),
        ] {
            let name = format!("{kind}, {window}, {nulls}");
            notes.now("SYS-1", &format!("consuming an array of {name}"));
            let mut offer = Offer::of(&shaped(sound(kind.plan(window, nulls))));
            let code = offer.to(peer, bench);
            if code != 0 {
                refused.push(name);
            }
            offer.settle(code, notes);
        }
    }
    if refused.is_empty() {
        notes.pass("SYS-1");
    } else {
        // A consumer need not know all types, so refusing some is no fault.
        notes.skip("SYS-1", format!("it refuses: {}", refused.join("; ")));
    }
}

fn unknown(peer: &Peer, bench: &Bench, notes: &Notes) {
    let mut offer = Offer::of(&out_of_reach(batch()));
    (offer.array.device_type, offer.array.device_id) = (257, 0);
    let what = "consuming an array of type of device 257, whose lower eight bits are the host's, and which the host cannot read";
    notes.now("ABI-2", what);
    let code = offer.to(peer, bench);
    notes.pass("ABI-2");
    offer.settle(code, notes);
}

/// Offers arrays on all types of devices except the host. A consumer may refuse each of them.
fn every_device(peer: &Peer, bench: &Bench, notes: &Notes) {
    for device_type in [2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16] {
        let mut offer = Offer::of(&out_of_reach(numbers_alone()));
        (offer.array.device_type, offer.array.device_id) = (device_type, 0);
        let what = "whose buffers the host cannot read";
        notes.now("ABI-2", &format!("consuming an array of type of device {device_type}, {what}"));
        let code = offer.to(peer, bench);
        offer.settle(code, notes);
    }
    notes.pass("ABI-2");
}

/// Replaces the buffers by addresses that the host cannot read.
pub(super) fn out_of_reach(mut plan: Plan) -> Plan {
    plan.buffers.fill(Content::At(0x1000));
    plan.null_count = 0;
    plan.children = plan.children.into_iter().map(out_of_reach).collect();
    plan.dictionary = plan.dictionary.map(|values| Box::new(out_of_reach(*values)));
    plan
}
