//! Structs with one mistake. Nobody may accept them, and nobody may crash.

use std::ptr;

use arrow_device_testkit::kinds::Kind;
use arrow_device_testkit::plan::{Content, Nulls, Plan, Window, integers};

use super::Scenario;
use super::array_consumer::{Offer, batch};
use crate::bench::{Bench, Where};
use crate::notes::Notes;
use crate::peer::Peer;

macro_rules! refused {
    ($($id:literal, $name:literal, $plan:expr, $change:expr;)*) => {
        &[$(Scenario {
            name: concat!("a struct that is wrong: ", $name),
            place: Where::Host,
            run: |peer, bench, notes| refused(peer, bench, notes, [$id, $name], $plan, $change),
        }),*]
    };
}

/// Mistakes that can be found from the structs alone.
pub(super) const IN_STRUCTS: &[Scenario] = refused! {
    "SYS-2", "a length of -1", numbers(), |it| it.array.array.length = -1;
    "SYS-2", "a length of 2^63 - 1", numbers(), |it| it.array.array.length = i64::MAX;
    "SYS-2", "an offset of -5", numbers(), |it| it.array.array.offset = -5;
    "SYS-2", "a null count of -7", numbers(), |it| it.array.array.null_count = -7;
    "SYS-2", "a null count above the length", numbers(), |it| it.array.array.null_count = 99;
    "SYS-2", "fewer buffers than the type has", numbers(), |it| it.array.array.n_buffers = 1;
    "SYS-2", "a table of buffers that is null", numbers(), |it| it.array.array.buffers = ptr::null_mut();
    "SYS-2", "a child that is null", batch(), |it| {
        // SAFETY: a table with several entries.
        unsafe { *it.array.array.children = ptr::null_mut() };
    };
    "SYS-2", "a table of children that is null", batch(), |it| it.array.array.children = ptr::null_mut();
    "SYS-2", "a child that is shorter than its struct", short_child(), |_| {};
    "SYS-2", "a child that is released", batch(), |it| {
        // SAFETY: a table with several entries.
        let first = unsafe { *it.array.array.children };
        // SAFETY: all of them are there.
        unsafe { (*first).release = None };
    };
    "SYS-2", "sizes of data buffers that are null", views(None), |_| {};
    "SYS-2", "a format that nobody has", Plan { format: c"q".into(), ..numbers() }, |_| {};
    "SYS-2", "a schema without a format", numbers(), |it| it.schema.format = ptr::null();
    "ARR-7", "an event on the host", numbers(), |it| {
        it.array.sync_event = (&raw const EVENT).cast_mut().cast();
    };
};

/// Mistakes that can only be found from the data.
pub(super) const IN_DATA: &[Scenario] = refused! {
    "SYS-2", "a last offset that is negative", text_with_offsets([0, 1, 2, 3, -9]), |_| {};
    "SYS-2", "a negative size of a data buffer", views(Some(-1)), |_| {};
};

static EVENT: u64 = 0;

fn numbers() -> Plan {
    Kind::Fixed("i", 4).plan(Window::WHOLE, Nulls::Counted)
}

fn short_child() -> Plan {
    let mut plan = batch();
    if let Some(child) = plan.children.first_mut() {
        (child.length, child.null_count) = (2, -1);
    }
    plan
}

fn text_with_offsets(offsets: [i64; 5]) -> Plan {
    let mut plan = Kind::Text("u", 4).plan(Window::WHOLE, Nulls::None);
    plan.length = offsets.len() as i64 - 1;
    if let Some(buffer) = plan.buffers.get_mut(1) {
        *buffer = Content::Bytes(integers(4, offsets));
    }
    plan
}

/// Returns views whose last buffer gives each data buffer this size, or is null.
fn views(size: Option<i64>) -> Plan {
    let mut plan = Kind::Views("vu").plan(Window::WHOLE, Nulls::None);
    let data = plan.buffers.len().saturating_sub(3);
    if let Some(last) = plan.buffers.last_mut() {
        *last = match size {
            Some(size) => Content::Bytes(integers(8, std::iter::repeat_n(size, data))),
            None => Content::Null,
        };
    }
    plan
}

fn refused(
    peer: &Peer,
    bench: &Bench,
    notes: &Notes,
    [id, name]: [&str; 2],
    plan: Plan,
    change: fn(&mut Offer),
) {
    let mut offer = Offer::of(&plan);
    change(&mut offer);
    notes.now(id, &format!("given {name}"));
    let code = offer.to(peer, bench);
    if !notes.check(id, code != 0, || format!("{name} was accepted")) {
        return;
    }
    // The release of spoiled structs is all that is asked for.
    let is_released = offer.schema.is_released() && offer.array.is_released();
    notes.check("SYS-2", is_released, || format!("{name} was refused, and not released"));
}
