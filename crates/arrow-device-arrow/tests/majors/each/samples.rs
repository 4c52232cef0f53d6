//! An array of every type, long enough to be sliced in the middle of a byte, from a producer that
//! is written by hand.

use std::ops::Range;
use std::sync::Arc;

use arrow_device::abi::{ArrowArray, ArrowDeviceArray};
use arrow_device::{Array, Schema};
use arrow_device_testkit::consumer::Seen;
use arrow_device_testkit::kinds::types;
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::plan::{Content, Nulls, Plan, Window, metadata};
use arrow_device_testkit::{Verdict, producer};

/// An array, where its memory is, and the books of its producer.
pub struct Sample {
    pub name: String,
    pub array: Array,
    pub memory: Vec<Range<usize>>,
    pub ledger: Arc<Ledger>,
}

/// 21 elements of every type that arrow-rs has a place for, some of them null.
pub fn samples() -> impl Iterator<Item = Sample> {
    let window = Window { offset: 0, length: 21, tail: 0, absent: false };
    // Under the interpreter only some.
    let step = if cfg!(miri) { 13 } else { 1 };
    types()
        .into_iter()
        .step_by(step)
        .map(move |kind| Sample::new(kind.to_string(), kind.plan(window, Nulls::Counted)))
}

impl Sample {
    pub fn new(name: String, mut plan: Plan) -> Self {
        as_text(&mut plan);
        let ledger = Ledger::new();
        let mut c_array = producer::device_array(&plan, &ledger);
        let memory = memory(&Seen::of(&c_array.array), &plan);
        let schema = unsafe { Schema::import(&mut producer::schema(&plan, &ledger)) }.unwrap();
        let array = unsafe { Array::import(&mut c_array, &schema) }.unwrap();
        Self { name, array, memory, ledger }
    }

    pub fn holds(&self, address: usize) -> bool {
        self.memory.iter().any(|range| range.contains(&address))
    }

    /// That everything was released, once.
    pub fn settle(self) -> Verdict {
        drop(self.array);
        settle(&self.ledger)
    }
}

/// Another test's thread may be the one that releases what it finds on the list of pending arrays.
pub fn settle(ledger: &Ledger) -> Verdict {
    // The schema and the array.
    ledger.settle_soon(2)
}

/// The testkit's extension types have metadata that is not UTF-8, which arrow-rs cannot hold. It
/// keeps no order of its own, so that pairs come back sorted.
pub fn as_text(plan: &mut Plan) {
    let pairs: [(&[u8], &[u8]); 2] =
        [(b"ARROW:extension:metadata", b"{}"), (b"ARROW:extension:name", b"test.kind")];
    plan.metadata = plan.metadata.is_some().then(|| metadata(&pairs));
    plan.children.iter_mut().chain(plan.dictionary.as_deref_mut()).for_each(as_text);
}

/// All memory that a producer's array has, as its bounds.
pub fn memory(seen: &Seen, plan: &Plan) -> Vec<Range<usize>> {
    let lengths = plan.buffers.iter().map(|content| match content {
        Content::Bytes(bytes) => bytes.len(),
        _ => 0,
    });
    let own = seen.buffers.iter().zip(lengths).map(|(start, len)| *start..*start + len.max(1));
    let below = seen.children.iter().chain(seen.dictionary.as_deref());
    let plans = plan.children.iter().chain(plan.dictionary.as_deref());
    own.chain(below.zip(plans).flat_map(|(seen, plan)| memory(seen, plan))).collect()
}

/// What an array's C structs say.
pub fn seen(array: &Array) -> Seen {
    let mut c_array = ArrowDeviceArray::empty();
    array.export(&mut c_array).unwrap();
    let seen = Seen::of(&c_array.array);
    let release = c_array.array.release.unwrap();
    unsafe { release(&raw mut c_array.array) };
    let _: ArrowArray = c_array.array;
    seen
}
