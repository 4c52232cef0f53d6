//! The judges: the scenarios for each kind of peer, and what is noted about them.
//!
//! A judge runs in a child process. It trusts the peer as far as a consumer has to, which may end
//! the process. What it is about to do is noted before.

mod array_consumer;
mod array_producer;
mod array_relay;
mod async_consumer;
mod async_producer;
mod growth;
mod held;
mod hostile;
mod pages;
mod stream_consumer;
mod stream_producer;
mod stream_relay;
mod tensor_consumer;
mod tensor_producer;

pub(crate) use self::array_consumer::in_a_batch;
pub(crate) use self::stream_consumer::{
    another as another_stream, good as good_stream, may_be_plain,
};
use crate::bench::{Bench, Where};
use crate::notes::Notes;
use crate::peer::{Kind, Peer, Side};

/// A scenario, which runs in a process of its own.
#[derive(Clone, Copy)]
pub(crate) struct Scenario {
    /// The name, in a few words.
    pub(crate) name: &'static str,
    /// Where it takes place.
    pub(crate) place: Where,
    /// Runs the scenario.
    pub(crate) run: fn(&Peer, &Bench, &Notes),
}

/// The rule that a peer runs at all. Only the checker has it.
pub(crate) const RUNS: &str = "PEER";

/// Returns all scenarios for such a peer.
pub(crate) fn scenarios(kind: Kind, side: Side) -> Vec<Scenario> {
    let mut all = of_kind(kind, side);
    if !all.is_empty() {
        all.push(PROTOCOL);
    }
    all
}

/// A scenario that is always run, whatever is chosen, because others depend on its result.
pub(crate) const SHAPES: &str = "the shapes that it takes";

/// Checks what only the peer's language has.
const PROTOCOL: Scenario = Scenario {
    name: "the protocol of the language",
    place: Where::Anywhere,
    run: |peer, _, notes| {
        if let Some(protocol) = &peer.protocol {
            notes.now(RUNS, "using the protocol of the language");
            protocol.0(notes);
        }
    },
};

fn of_kind(kind: Kind, side: Side) -> Vec<Scenario> {
    match (kind, side) {
        (Kind::Array, Side::Producer) => [array_producer::SCENARIOS, held::SCENARIOS].concat(),
        (Kind::Array, Side::Consumer) => {
            let own = [array_consumer::FIRST, array_consumer::SCENARIOS].concat();
            [&own, hostile::IN_STRUCTS, hostile::IN_DATA].concat()
        }
        (Kind::Array, Side::Relay) => {
            [array_consumer::FIRST, array_relay::SCENARIOS, hostile::IN_STRUCTS].concat()
        }
        (Kind::Stream, Side::Producer) => stream_producer::SCENARIOS.to_vec(),
        (Kind::Stream, Side::Consumer) => stream_consumer::SCENARIOS.to_vec(),
        (Kind::Stream, Side::Relay) => stream_relay::SCENARIOS.to_vec(),
        (Kind::Async, Side::Producer) => async_producer::SCENARIOS.to_vec(),
        (Kind::Async, Side::Consumer) => async_consumer::SCENARIOS.to_vec(),
        (Kind::Dlpack | Kind::DlpackLegacy, Side::Producer) => tensor_producer::SCENARIOS.to_vec(),
        (Kind::Dlpack | Kind::DlpackLegacy, Side::Consumer) => tensor_consumer::SCENARIOS.to_vec(),
        (_, Side::Relay) => Vec::new(),
    }
}

/// Notes what a device that watches has seen. `of` returns the rule that a mistake breaks. Returns
/// whether there was a mistake.
fn note_reports(
    bench: &Bench,
    notes: &Notes,
    of: impl Fn(arrow_device_sim::Mistake) -> Option<&'static str>,
) -> bool {
    let Bench::Device(opened) = bench else { return false };
    let mut found = false;
    for report in opened.reports() {
        if let Some(id) = of(report.kind) {
            notes.fail(id, crate::bench::words_of(&report));
            found = true;
        }
    }
    found
}

/// Ends the bench, and notes what was left behind on it, unless a judge itself has left something
/// there.
pub(crate) fn look_at_leaks(bench: Bench, notes: &Notes) {
    let Bench::Device(opened) = bench else { return };
    let reports = opened.finish();
    if notes.has_left_something() {
        return;
    }
    for report in reports {
        let id = match report.kind {
            arrow_device_sim::Mistake::LeakedEvent => "ARR-9",
            kind if crate::bench::is_leak(kind) => "ARR-10",
            _ => continue,
        };
        notes.fail(id, crate::bench::words_of(&report));
    }
}
