//! Looks again at the contents of an array later: after its producer made another one, after its
//! parent is gone, on another thread.

use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema};
use arrow_device::copy::Options;
use arrow_device::{Array, Field, HostArray, Queue, Result, Schema};
use arrow_device_sim::Mistake;
use arrow_device_testkit::consumer;

use super::array_producer::{self, call, is_good, schema};
use super::{Scenario, note_reports};
use crate::bench::{Bench, Where};
use crate::notes::Notes;
use crate::peer::Peer;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "children that outlive their parent", place: Where::Host, run: children },
    Scenario {
        name: "children on a device that outlive their parent",
        place: Where::Device,
        run: children,
    },
    Scenario { name: "two arrays at a time", place: Where::Host, run: two },
    Scenario { name: "two arrays on a device at a time", place: Where::Device, run: two },
    Scenario {
        name: "an array that another thread releases",
        place: Where::Host,
        run: other_thread,
    },
    Scenario {
        name: "an array on a device that another thread releases",
        place: Where::Device,
        run: other_thread,
    },
    Scenario {
        name: "an array on a device that is released at once",
        place: Where::Device,
        run: at_once,
    },
];

/// Longer arrays are not copied.
const LONGEST: i64 = 1 << 20;

/// A copy in host memory of the contents of an array.
pub(super) struct Snapshot(Array);

impl Snapshot {
    /// Copies an array. `None` where it cannot be read, which other checks report.
    pub(super) fn of(array: &ArrowArray, place: &ArrowDeviceArray, known: &Schema) -> Option<Self> {
        if array.length > LONGEST && !crate::under::is_on() {
            return None;
        }
        let options = Options::new().always(true);
        let copied = shared(array, place, known)
            .and_then(|array| array.to_host())
            .and_then(|array| array.copy_with(&Queue::host(), &options));
        copied.ok().map(Self)
    }

    /// Returns an error if the contents have changed.
    pub(super) fn require_same(
        &self,
        array: &ArrowArray,
        place: &ArrowDeviceArray,
        known: &Schema,
    ) -> std::result::Result<(), String> {
        let now = shared(array, place, known).and_then(|array| array.to_host());
        match now.and_then(|now| self.0.equals(&now)) {
            Ok(true) => Ok(()),
            Ok(false) => Err("it holds other values than before".into()),
            Err(error) => Err(format!("it could be read before, and not any more: {error}")),
        }
    }

    /// Says where there are nulls although the type says that there are none.
    pub(super) fn nulls(&self, known: &Schema) -> Option<String> {
        nulls_in(&self.0.host().ok()?, known.field())
    }
}

/// Makes a second struct of an array, whose release releases nothing.
fn shared(array: &ArrowArray, place: &ArrowDeviceArray, known: &Schema) -> Result<Array> {
    let mut copy = ArrowDeviceArray {
        array: ArrowArray { release: Some(array_producer::keep_array), ..consumer::copy_of(array) },
        // The event was waited for when the array was looked at first.
        ..ArrowDeviceArray::empty()
    };
    (copy.device_type, copy.device_id) = (place.device_type, place.device_id);
    // SAFETY: the structs were checked by the caller; releasing the copy releases nothing, and
    // whether the original is still there is what is looked at.
    unsafe { Array::import(&mut copy, known) }
}

fn nulls_in(array: &HostArray, field: &Field) -> Option<String> {
    let nulls = match array.array().null_count() {
        Some(nulls) => nulls,
        None => count(array)?,
    };
    let data_type = field.data_type();
    // Nulls that dictionaries and unions have below them do not count as nulls of the field.
    let is_own = !matches!(field.name(), "") && !field.is_nullable();
    if is_own && nulls > 0 {
        let name = field.name();
        return Some(format!("by its schema `{name}` has no nulls, and it has {nulls}"));
    }
    // Elements below a null may be anything.
    if nulls > 0 || !matches!(data_type, arrow_device::DataType::Struct(_)) {
        return None;
    }
    let below = data_type.children().enumerate();
    below.into_iter().find_map(|(at, field)| nulls_in(&array.child(at).ok()?, field))
}

/// Counts the zeros of a validity bitmap.
fn count(array: &HostArray) -> Option<usize> {
    let bits = array.buffer(0).ok()?;
    let first = array.array().offset();
    let is_null = |at: usize| bits.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 0);
    Some((first..first + array.len()).filter(|at| is_null(*at)).count())
}

/// Produces a good array with its type, where it can be read. `None` where there is none.
fn good(
    peer: &Peer,
    bench: &Bench,
    notes: &Notes,
) -> Option<(ArrowSchema, ArrowDeviceArray, Schema)> {
    if matches!(bench, Bench::Hand(_)) {
        return None;
    }
    let (c_schema, array) = call(peer, bench, notes)?;
    let is_elsewhere = matches!(bench, Bench::Device(_)) && array.device_type == 1;
    let known = match is_elsewhere {
        true => None,
        false => is_good(&c_schema, &array, bench, notes).then(|| schema(&c_schema, notes)),
    };
    if let Some(Some(known)) = known {
        return Some((c_schema, array, known));
    }
    if is_elsewhere {
        let _ = consumer::release(array.array);
        let _ = consumer::release(c_schema);
    } else {
        notes.leave();
    }
    None
}

/// Returns a struct with the device of an array, without the array.
fn place_of(array: &ArrowDeviceArray) -> ArrowDeviceArray {
    let mut place = ArrowDeviceArray::empty();
    (place.device_type, place.device_id) = (array.device_type, array.device_id);
    place
}

fn children(peer: &Peer, bench: &Bench, notes: &Notes) {
    let Some((c_schema, array, known)) = good(peer, bench, notes) else { return };
    let place = place_of(&array);
    let data_type = known.data_type();
    let below: Vec<Schema> = data_type
        .children()
        .chain(data_type.dictionary_values())
        .filter_map(|field| Schema::new(field.clone()).ok())
        .collect();
    let moved = consumer::move_out_all(&array.array);
    let snapshots: Vec<_> =
        moved.iter().zip(&below).map(|(child, known)| Snapshot::of(child, &place, known)).collect();
    notes.now("ARR-12", "releasing an array whose children were moved out");
    notes.verdict(consumer::release(array.array), &[], "ARR-13");
    for (number, ((child, snapshot), known)) in
        moved.into_iter().zip(&snapshots).zip(&below).enumerate()
    {
        if let Some(snapshot) = snapshot {
            let doing = format!("reading child {number}, whose parent was released");
            notes.now("ARR-12", &doing);
            let same = snapshot.require_same(&child, &place, known);
            let is_reported = note_reports(bench, notes, |_| Some("ARR-12"));
            notes.check("ARR-12", same.is_ok() || is_reported, || {
                format!("child {number} outlived its parent: {}", same.err().unwrap_or_default())
            });
        }
        notes.verdict(consumer::release(child), &[], "ARR-12");
    }
    notes.verdict(consumer::release(c_schema), &[], "SCH-6");
}

fn two(peer: &Peer, bench: &Bench, notes: &Notes) {
    let Some((first_schema, first, known)) = good(peer, bench, notes) else { return };
    let held = Snapshot::of(&first.array, &first, &known);
    if let Some(nulls) = held.as_ref().and_then(|held| held.nulls(&known)) {
        notes.fail("ARR-17", nulls);
    }
    let Some((second_schema, second, other)) = good(peer, bench, notes) else { return };
    let words = "the array before, whose producer has made another";
    look_again(held.as_ref(), &first, &known, bench, notes, ["ARR-15", words]);
    let held = Snapshot::of(&second.array, &second, &other);
    notes.verdict(consumer::release(first.array), &[], "ARR-13");
    let words = "the later one of two arrays, the first of which is released";
    look_again(held.as_ref(), &second, &other, bench, notes, ["ARR-10", words]);
    notes.verdict(consumer::release(second.array), &[], "ARR-13");
    for c_schema in [first_schema, second_schema] {
        notes.verdict(consumer::release(c_schema), &[], "SCH-6");
    }
}

/// Whether an array still has the contents that it had.
fn look_again(
    held: Option<&Snapshot>,
    array: &ArrowDeviceArray,
    known: &Schema,
    bench: &Bench,
    notes: &Notes,
    [id, what]: [&'static str; 2],
) {
    let Some(held) = held else { return };
    notes.now(id, &format!("reading {what}"));
    let same = held.require_same(&array.array, array, known);
    let is_reported = note_reports(bench, notes, |_| Some(id));
    notes.check(id, same.is_ok() || is_reported, || {
        format!("{what}: {}", same.err().unwrap_or_default())
    });
}

/// A struct that goes to another thread, which the interface allows.
struct Sent(ArrowArray);

// SAFETY: ARR-13: a release may be called from any thread, which is what is looked at.
unsafe impl Send for Sent {}

fn other_thread(peer: &Peer, bench: &Bench, notes: &Notes) {
    let Some((c_schema, array, _)) = good(peer, bench, notes) else { return };
    notes.now("ARR-13", "releasing an array on another thread");
    let sent = Sent(array.array);
    let released = std::thread::spawn(move || {
        let sent = sent;
        consumer::release(sent.0)
    });
    let released = released.join().unwrap_or_else(|_| Err("the other thread panicked".into()));
    notes.check("ARR-13", released.is_ok(), || {
        format!("on another thread: {}", released.err().unwrap_or_default())
    });
    notes.verdict(consumer::release(c_schema), &[], "SCH-6");
}

/// Releases arrays although nobody has waited for the work that makes their data. The memory may
/// not go before that work is over.
fn at_once(peer: &Peer, bench: &Bench, notes: &Notes) {
    if matches!(bench, Bench::Hand(_)) {
        return;
    }
    let Some((c_schema, array)) = call(peer, bench, notes) else { return };
    notes.now("ARR-10", "releasing an array that nobody has waited for");
    notes.verdict(consumer::release(array.array), &[], "ARR-13");
    notes.verdict(consumer::release(c_schema), &[], "SCH-6");
    if let Bench::Device(opened) = bench {
        // Submitted work still runs.
        let _ = opened.queue.synchronize();
    }
    let is_reported = note_reports(bench, notes, |mistake| match mistake {
        Mistake::EventDestroyed => Some("ARR-9"),
        kind if crate::bench::is_leak(kind) => None,
        _ => Some("ARR-10"),
    });
    if !is_reported {
        notes.pass("ARR-10");
    }
}
