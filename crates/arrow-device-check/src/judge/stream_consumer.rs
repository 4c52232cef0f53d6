//! Judges consumers of streams, by a producer that watches how it is called.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow_device::abi::ArrowDeviceArrayStream;
use arrow_device_testkit::kinds::Kind;
use arrow_device_testkit::plan::{Content, Nulls, Window};
use arrow_device_testkit::stream::{
    Books, ProducerFault, Script, Step, Watch, produce, produce_watched,
};

use super::array_consumer::OF_BOOKS;
use super::{RUNS, Scenario};
use crate::bench::{Bench, Where};
use crate::notes::{Notes, Words};
use crate::patience::patience;
use crate::peer::{Entry, Peer};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "a stream",
        place: Where::Host,
        run: |peer, bench, notes| judge(peer, bench, notes, script(), ExpectedEnd::Ends),
    },
    Scenario {
        name: "a stream without arrays",
        place: Where::Host,
        run: |peer, bench, notes| {
            judge(peer, bench, notes, Script { steps: Vec::new(), ..script() }, ExpectedEnd::Ends)
        },
    },
    Scenario {
        name: "a stream that fails",
        place: Where::Host,
        run: |peer, bench, notes| {
            judge(
                peer,
                bench,
                notes,
                script().then(Step::Error(libc::EIO, Some("the cable was pulled"))),
                ExpectedEnd::Fails("STR-5"),
            )
        },
    },
    Scenario {
        name: "a stream that fails without a word",
        place: Where::Host,
        run: |peer, bench, notes| {
            judge(
                peer,
                bench,
                notes,
                script().then(Step::Error(libc::EIO, None)),
                ExpectedEnd::Fails("STR-9"),
            )
        },
    },
    Scenario {
        name: "an array on another type of device",
        place: Where::Host,
        run: |peer, bench, notes| judge(peer, bench, notes, stray(), ExpectedEnd::Fails("STR-2")),
    },
    Scenario {
        name: "an array of the host in a stream on a device",
        place: Where::Host,
        run: |peer, bench, notes| {
            judge(peer, bench, notes, of_the_host(), ExpectedEnd::Fails("STR-2"))
        },
    },
];

/// The result that a right consumer reports.
enum ExpectedEnd {
    Ends,
    Fails(&'static str),
}

pub(super) const OF_STREAMS: &Words = &[
    ("two calls overlap", "STR-8"),
    ("get_last_error was called without an error", "STR-9"),
    ("was called after release", "STR-7"),
];

pub(super) fn columns() -> Kind {
    Kind::Struct(vec![Kind::Fixed("l", 8), Kind::Text("u", 4)])
}

pub(super) fn script() -> Script {
    // Batches without rows that are null as a whole, and without columns that are longer than the
    // batch.
    let batch = |length| {
        let window = Window { offset: 0, length, tail: 0, absent: false };
        let mut plan = columns().plan(window, Nulls::Counted);
        plan.null_count = 0;
        plan.buffers.fill(Content::Null);
        plan
    };
    let steps = (1..=3).map(|length| Step::Chunk(batch(length), -1)).collect();
    Script { schema: batch(0), device_type: 1, steps }
}

pub(super) fn stray() -> Script {
    let plan = script().schema;
    script().then(Step::Stray(plan, 2))
}

/// Returns a script with an array on the host in a stream that says that it is on a device.
pub(super) fn of_the_host() -> Script {
    let mut script = script();
    let plan = script.schema.clone();
    script.device_type = 2;
    script.steps = vec![Step::Stray(plan, 1)];
    script
}

/// How long a call waits for another one to overlap with it.
const WATCH: Watch = Watch(Duration::from_millis(20));

/// A script from which a peer may ask for further streams while it is tried, as a table gives a
/// stream to each caller.
struct Offered {
    script: Script,
    books: Books,
    /// How many streams were made.
    made: usize,
}

static OFFERED: Mutex<Option<Offered>> = Mutex::new(None);

fn offered() -> MutexGuard<'static, Option<Offered>> {
    OFFERED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Offered {
    fn another(&mut self) -> ArrowDeviceArrayStream {
        self.made += 1;
        produce_watched(&self.script, Some(ProducerFault::MixesTypes), &self.books, WATCH)
    }
}

/// Makes a stream of a few batches on the host, without books.
pub(crate) fn good() -> ArrowDeviceArrayStream {
    produce(&script(), None, &Books::default())
}

/// Makes another stream like the one with which a consumer is tried.
pub(crate) fn another() -> Option<ArrowDeviceArrayStream> {
    offered().as_mut().map(Offered::another)
}

/// Whether the stream with which a consumer is tried can be shown as a stream of plain arrays
/// without losing anything.
pub(crate) fn may_be_plain() -> bool {
    let is_stray = |step: &Step| matches!(step, Step::Stray(..));
    offered()
        .as_ref()
        .is_some_and(|it| it.script.device_type == 1 && !it.script.steps.iter().any(is_stray))
}

fn judge(peer: &Peer, bench: &Bench, notes: &Notes, script: Script, expected: ExpectedEnd) {
    let Entry::ConsumeStream(consume) = &peer.entry else { return };
    let books = Books::default();
    let mut first = Offered { script: script.clone(), books: books.clone(), made: 0 };
    let mut stream = first.another();
    *offered() = Some(first);
    match expected {
        ExpectedEnd::Ends => notes.now(RUNS, "consuming a stream"),
        ExpectedEnd::Fails(id) => notes.now(id, "consuming a stream that fails"),
    }
    let code = consume(bench, &raw mut stream);
    outcome(code, &expected, notes);
    let streams = offered().take().map_or(1, |offered| offered.made);
    settle(&stream, &books, &script, streams, notes);
}

fn outcome(code: i32, expected: &ExpectedEnd, notes: &Notes) {
    match expected {
        ExpectedEnd::Ends => {
            notes.check("SYS-1", code == 0, || format!("a good stream was refused with {code}"));
        }
        ExpectedEnd::Fails(id) => {
            let why = if *id == "STR-2" {
                "an array on another type of device was accepted"
            } else {
                "the error of the stream was taken for its end"
            };
            notes.check(id, code != 0, || why.into());
        }
    }
}

/// Waits until the library and threads of the peer have released `streams` streams.
fn released_soon(books: &Books, streams: usize) {
    let end = Instant::now() + patience();
    let is_open = || books.stream.complaints().is_ok() && books.stream.base_releases() < streams;
    let _ = books.stream.settle_soon(streams);
    while is_open() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Checks the books of `streams` streams in the end.
pub(super) fn settle(
    stream: &ArrowDeviceArrayStream,
    books: &Books,
    script: &Script,
    streams: usize,
    notes: &Notes,
) {
    notes.check("STR-7", stream.is_released(), || {
        "the source was not marked as released: it was copied and not moved".into()
    });
    if stream.is_released() {
        released_soon(books, streams);
    }
    let good = script.good_chunks();
    let strays = matches!(script.steps.get(good), Some(Step::Stray(..)));
    let _ = books.chunks.settle_soon(good + usize::from(strays));
    if notes.verdict(books.stream.complaints(), OF_STREAMS, "STR-7") {
        ["STR-8", "STR-9", "STR-7"].iter().for_each(|id| notes.pass(id));
    }
    let released = books.stream.base_releases();
    if stream.is_released() && released <= streams {
        notes.check("STR-7", released == streams, || match streams {
            1 => "the stream was never released".into(),
            _ => format!("{released} of {streams} streams were released"),
        });
    }
    notes.verdict(books.chunks.complaints(), OF_BOOKS, "ARR-13");
    let live = books.chunks.live();
    let id = if strays { "STR-2" } else { "STR-6" };
    notes.check(id, live == 0, || "an array of the stream was never released".into());
    notes.check("SCH-6", books.schemas.live() == 0, || "a schema was never released".into());
}
