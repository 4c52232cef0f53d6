//! Judges relays of streams. What is handed on is judged like the stream of a producer, and the
//! original stream watches how it is called.

use std::sync::Arc;

use arrow_device::abi::ArrowDeviceArrayStream;
use arrow_device::{Array, ArrayStream, Queue, Schema};
use arrow_device_sim::Mistake;
use arrow_device_testkit::deposit;
use arrow_device_testkit::kinds::Kind;
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::plan::{Nulls, Plan, Window};
use arrow_device_testkit::producer::{self, Manner};
use arrow_device_testkit::stream::{Books, ProducerFault, Script, Step, Watch, produce_watched};

use super::stream_consumer::{of_the_host, script, settle, stray};
use super::stream_producer::{self, Held};
use super::{RUNS, Scenario, array_producer};
use crate::bench::{Bench, Where};
use crate::notes::Notes;
use crate::peer::{Entry, Peer};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "a stream on the host", place: Where::Host, run: good },
    Scenario {
        name: "a stream on a device",
        place: Where::Device,
        run: |peer, bench, notes| on_device(peer, bench, notes, Nulls::Counted),
    },
    Scenario {
        name: "a stream on a device whose nulls nobody has counted",
        place: Where::Device,
        run: |peer, bench, notes| on_device(peer, bench, notes, Nulls::Unknown),
    },
    Scenario {
        name: "a stream that fails",
        place: Where::Host,
        run: |peer, bench, notes| {
            failing(
                peer,
                bench,
                notes,
                script().then(Step::Error(libc::EIO, Some("the cable was pulled"))),
                "STR-5",
            )
        },
    },
    Scenario {
        name: "an array on another type of device",
        place: Where::Host,
        run: |peer, bench, notes| failing(peer, bench, notes, stray(), "STR-2"),
    },
    Scenario {
        name: "an array of the host in a stream on a device",
        place: Where::Host,
        run: |peer, bench, notes| failing(peer, bench, notes, of_the_host(), "STR-2"),
    },
    Scenario {
        name: "a stream on a type of device that nobody has",
        place: Where::Host,
        run: unknown,
    },
];

struct Relayed {
    source: ArrowDeviceArrayStream,
    books: Books,
    script: Script,
}

fn relay(peer: &Peer, bench: &Bench, script: Script) -> (Relayed, Result<Held, i32>) {
    let books = Books::default();
    let fault = Some(ProducerFault::MixesTypes);
    let mut source = produce_watched(&script, fault, &books, Watch(std::time::Duration::ZERO));
    let held = hand_on(peer, bench, &mut source);
    (Relayed { source, books, script }, held)
}

fn hand_on(peer: &Peer, bench: &Bench, source: &mut ArrowDeviceArrayStream) -> Result<Held, i32> {
    let mut out = Box::new(ArrowDeviceArrayStream::empty());
    let code = match &peer.entry {
        Entry::RelayStream(relay) => relay(bench, source, &raw mut *out),
        _ => libc::ENOSYS,
    };
    if code == 0 && !out.is_released() { Ok(Held::new(out, false)) } else { Err(code) }
}

fn good(peer: &Peer, bench: &Bench, notes: &Notes) {
    notes.now(RUNS, "handing a stream on");
    let (relayed, held) = relay(peer, bench, script());
    match held {
        Ok(held) => drop(stream_producer::judge(held, bench, notes)),
        Err(code) => notes.fail("SYS-1", format!("a good stream was refused with {code}")),
    }
    settle(&relayed.source, &relayed.books, &relayed.script, 1, notes);
}

/// The number of arrays in a stream on a device.
const ARRAYS: usize = 3;

/// Offers batches of numbers whose data is still being written.
fn on_device(peer: &Peer, bench: &Bench, notes: &Notes, nulls: Nulls) {
    let Bench::Device(opened) = bench else { return };
    let (schemas, arrays) = (Ledger::new(), Ledger::new());
    let kind = Kind::Struct(vec![Kind::Fixed("l", 8)]);
    let mut plan = kind.plan(Window::WHOLE, Nulls::None);
    if let Some(column) = plan.children.first_mut() {
        let numbers = Kind::Fixed("l", 8).plan(Window::WHOLE, nulls);
        *column = Plan { name: column.name.clone(), ..numbers };
    }
    let made = (0..ARRAYS).map(|_| pending(&plan, &opened.queue, &arrays, &schemas));
    let Ok(made) = made.collect::<arrow_device::Result<Vec<Array>>>() else {
        return notes.skip("ARR-5", "the device failed");
    };
    let Some(known) = made.first().and_then(|array| array.schema().ok()) else { return };
    let device_type = opened.device.id().device_type;
    let stream = ArrayStream::new(known.clone(), device_type, made.into_iter().map(Ok));
    let mut source = ArrowDeviceArrayStream::empty();
    stream.export(&mut source);
    notes.now("ARR-2", &format!("handing on a stream on a device: {nulls}"));
    match hand_on(peer, bench, &mut source) {
        Err(code) => {
            notes.skip("ARR-5", format!("it refuses a stream on a device: it returned {code}"));
        }
        Ok(mut held) => {
            read_on_device(&mut held, &known, bench, notes);
            stream_producer::release(held, notes);
        }
    }
    notes.check("STR-7", source.is_released(), || {
        "the source was not marked as released: it was copied and not moved".into()
    });
    drop(known);
    let _ = arrays.settle_soon(ARRAYS);
    let live = arrays.live();
    notes.check("STR-6", live == 0, || "an array of the stream was never released".into());
    super::note_reports(bench, notes, |mistake| match mistake {
        Mistake::UnorderedRead => Some("ARR-5"),
        Mistake::FreedInUse => Some("ARR-20"),
        kind if crate::bench::is_leak(kind) => None,
        _ => Some("ARR-2"),
    });
}

/// Makes an array behind an event, with the library.
fn pending(
    plan: &Plan,
    queue: &Queue,
    arrays: &Arc<Ledger>,
    schemas: &Arc<Ledger>,
) -> arrow_device::Result<Array> {
    let mut array = deposit::pending(plan, queue, arrays, Manner::AllByTheBase)?;
    let mut schema = producer::schema(plan, schemas);
    // SAFETY: the schema was made just now, as the interface has it (UNS-1, UNS-2, UNS-6).
    let known = unsafe { Schema::import(&mut schema) }?;
    // SAFETY: the array was made just now, as the interface has it (UNS-1, UNS-3 to UNS-6).
    unsafe { Array::import(&mut array, &known) }
}

/// Checks that as many arrays come as were in the stream, behind their events.
fn read_on_device(held: &mut Held, known: &Schema, bench: &Bench, notes: &Notes) {
    let has_events = bench.has_events();
    for number in 0..=ARRAYS {
        match held.next(notes) {
            Ok(Some(_)) => {}
            Ok(None) => {
                notes.check("STR-4", number == ARRAYS, || {
                    format!("it ended after {number} arrays of {ARRAYS}")
                });
                return;
            }
            Err((code, _)) => {
                notes.fail("SYS-1", format!("a good stream on a device failed with {code}"));
                return;
            }
        }
        let (named, chunk) = (held.stream.device_type, held.chunks.last().map(|(chunk, _)| chunk));
        let Some(chunk) = chunk else { return };
        let found = chunk.device_type;
        if !notes.check("STR-2", found == named, || {
            format!("an array is on type of device {found}, and the stream said {named}")
        }) {
            return;
        }
        // An array that has lost its event would be read too early.
        let has_event = !has_events || !chunk.sync_event.is_null();
        if !notes.check("ARR-5", has_event, || format!("the event of array {number} is lost"))
            || !array_producer::structure(chunk, known, notes)
            || !array_producer::read_all(chunk, known, bench, notes)
        {
            return;
        }
    }
    notes.fail("STR-4", format!("there are more than the {ARRAYS} arrays that were given"));
}

fn failing(peer: &Peer, bench: &Bench, notes: &Notes, script: Script, id: &'static str) {
    notes.now(id, "handing a stream on that fails");
    let (relayed, held) = relay(peer, bench, script);
    if let Ok(mut held) = held {
        let failed = loop {
            match held.next(notes) {
                Ok(Some(_)) => {}
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        let strays =
            held.chunks.iter().any(|(chunk, _)| chunk.device_type != held.stream.device_type);
        notes.check(id, failed && !strays, || {
            let what =
                if id == "STR-2" { "an array on another type of device" } else { "an error" };
            format!("{what} was swallowed or handed on as if it were good")
        });
        stream_producer::release(held, notes);
    } else {
        notes.pass(id);
    }
    settle(&relayed.source, &relayed.books, &relayed.script, 1, notes);
}

fn unknown(peer: &Peer, bench: &Bench, notes: &Notes) {
    notes.now("STR-2", "handing a stream on whose type of device nobody has");
    let mut script = script();
    script.device_type = 12;
    script.steps.truncate(1);
    let (relayed, held) = relay(peer, bench, script);
    match held {
        Ok(mut held) => {
            while matches!(held.next(notes), Ok(Some(_))) {}
            let named = held.stream.device_type;
            notes.check("STR-1", named == 12, || {
                format!("the stream is on type of device {named} now")
            });
            stream_producer::release(held, notes);
        }
        Err(code) => {
            notes.skip("STR-1", format!("it refuses type of device 12: it returned {code}"))
        }
    }
    settle(&relayed.source, &relayed.books, &relayed.script, 1, notes);
}
