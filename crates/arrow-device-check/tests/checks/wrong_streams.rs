//! All wrong peers of the testkit that exchange streams and asynchronous streams, for the table of
//! pairs. And those who are right are not blamed.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};

use arrow_device::ArrayStream;
use arrow_device::abi::{ArrowAsyncDeviceStreamHandler, ArrowDeviceArray, ArrowDeviceArrayStream};
use arrow_device_check::{Advance, Entry, Kind, Peer, Side, child_with, usual_places};
use arrow_device_testkit::kinds;
use arrow_device_testkit::pushed::{Outcome, Sink, SinkFault, Source, SourceFault};
use arrow_device_testkit::stream::{Books, ConsumerFault, ProducerFault, Script, Step, produce};

use crate::pairs::Pair;
use crate::support;

#[test]
fn the_child_of_the_other_tests() {
    child_with(peer);
}

// ---- the faults, and whose rule each breaks

const STREAM_PRODUCERS: [(ProducerFault, &str); 16] = {
    use ProducerFault::*;
    [
        (NamesTypeLate, "STR-1"),
        (MixesTypes, "STR-2"),
        (GivesSchemaOnce, "STR-3"),
        (ChangesSchema, "STR-3"),
        (EndsWithError, "STR-4"),
        (BeginsAgain, "STR-4"),
        (HidesError, "STR-5"),
        (ForgetsError, "STR-5"),
        (GarblesText, "STR-5"),
        (LosesCode, "STR-5"),
        (HandsOutWithError, "STR-5"),
        (TakesSchemasAlong, "STR-6"),
        (TakesArraysAlong, "STR-6"),
        (LeavesReleaseSet, "STR-7"),
        (KeepsAddress, "STR-7"),
        // Nothing of it is forgotten but a number in its books.
        (Leaks, "nothing"),
    ]
};

const STREAM_CONSUMERS: [(ConsumerFault, &str); 10] = {
    use ConsumerFault::*;
    [
        (AsksWithoutError, "STR-9"),
        // What it reads too late is not seen; that it reads a text that is not there is.
        (KeepsText, "STR-9"),
        (NeedsText, "STR-9"),
        (ReleasesTwice, "STR-7"),
        (CallsAfterRelease, "STR-7"),
        (Leaks, "STR-7"),
        (LeavesSourceUnreleased, "STR-7"),
        (AcceptsAnyDevice, "STR-2"),
        (LeaksRefused, "STR-2"),
        (CallsOverlap, "STR-8"),
    ]
};

const SOURCES: [(SourceFault, &str); 36] = {
    use SourceFault::*;
    [
        (NoProducer, "ASY-2"),
        (NoRequest, "ASY-2"),
        (NoCancel, "ASY-2"),
        (SchemaTwice, "ASY-3"),
        (NoSchema, "ASY-3"),
        (TaskBeforeSchema, "ASY-3"),
        (EndBeforeSchema, "ASY-3"),
        (TaskTooMany, "ASY-4"),
        (SendsInsideRequest, "ASY-5"),
        (TakesAnyCount, "ASY-6"),
        (RequestAfterCancelCounts, "ASY-6"),
        (ErrorOnCancel, "ASY-7"),
        (ReleaseInsideCancel, "ASY-18"),
        (EndNeedsCredit, "ASY-8"),
        (TaskAfterEnd, "ASY-8"),
        (EndTwice, "ASY-8"),
        (ErrorAfterEnd, "ASY-8"),
        (NoExtract, "ASY-9"),
        (ExtractFailsSilently, "ASY-10"),
        (ExtractFailsAndReleases, "ASY-10"),
        (ExtractFailsAndWrites, "ASY-10"),
        (ExtractGivesNothing, "ASY-10"),
        (ErrorAfterRefusal, "ASY-11"),
        (EndAfterRefusal, "ASY-11"),
        (FreesRefusedTaskTwice, "SYS-2"),
        (TaskAfterError, "ASY-12"),
        (ReleasesAtOnce, "ASY-8"),
        (ReleasesEarly, "ASY-8"),
        (ReleasesTwice, "ASY-13"),
        (NeverReleases, "ASY-13"),
        (TaskAfterRelease, "ASY-13"),
        (Overlaps, "ASY-13"),
        (BadMetadata, "ASY-15"),
        (BadTaskMetadata, "ASY-15"),
        (StrayArray, "ASY-17"),
        // Nothing of it is forgotten but a number in its books.
        (RefusedTaskLeaks, "nothing"),
    ]
};

const SINKS: [(SinkFault, &str); 15] = {
    use SinkFault::*;
    [
        (NoOnSchema, "ASY-1"),
        (NoOnNextTask, "ASY-1"),
        (NoOnError, "ASY-1"),
        (NoRelease, "ASY-1"),
        (ExtractsTwice, "ASY-9"),
        (NeverExtracts, "ASY-9"),
        (ExtractsThenRefuses, "ASY-11"),
        (LeavesSchema, "ASY-19"),
        (RequestsAfterRelease, "ASY-14"),
        (CancelsAfterRelease, "ASY-14"),
        (RequestsInsideError, "ASY-18"),
        (CancelsInsideRelease, "ASY-18"),
        (ForgetsAfterCancel, "ASY-20"),
        (NeedsProducer, "SYS-2"),
        // Whoever asks for nothing gets nothing, which is allowed.
        (RequestsNothing, "nothing"),
    ]
};

/// What is done to each array that is handed on.
#[derive(Clone, Copy, Debug)]
enum Change {
    LosesEvent,
    CountsNulls,
    SaysHost,
}

impl Change {
    fn make(self, array: &mut ArrowDeviceArray) {
        match self {
            Self::LosesEvent => array.sync_event = std::ptr::null_mut(),
            Self::CountsNulls => count_nulls_on_host(array),
            Self::SaysHost => array.device_type = 1,
        }
    }
}

const STREAM_RELAYS: [(Change, &str); 3] =
    [(Change::LosesEvent, "ARR-5"), (Change::CountsNulls, "ARR-2"), (Change::SaysHost, "STR-2")];

fn count_nulls_on_host(array: &mut ArrowDeviceArray) {
    let column = unsafe { &**array.array.children };
    if column.null_count == -1 {
        let bitmap = unsafe { *column.buffers }.cast::<u8>();
        println!("{}", unsafe { bitmap.read_volatile() });
    }
}

// ---- the peers

fn script() -> Script {
    Script::of(&kinds::Kind::Fixed("l", 8), 1, 3)
}

fn stream_producer(fault: Option<ProducerFault>) -> Peer {
    let with = move |script: Script| {
        Entry::ProduceStream(Box::new(move |_, out: *mut ArrowDeviceArrayStream| {
            let mut stream = produce(&script, fault, &Books::default());
            // The testkit's leave garbage there for consumers to ignore.
            stream.get_next = Some(with_reserved_zero);
            unsafe { out.write(stream) };
            0
        }))
    };
    let failing = match fault {
        Some(ProducerFault::MixesTypes) => {
            let stray = script().schema;
            script().then(Step::Stray(stray, 2))
        }
        _ => script().then(Step::Error(5, Some("the cable was pulled"))),
    };
    // What it makes is kept for ever, to see who calls too late.
    Peer::new(with(script()), usual_places(true, false))
        .with_failing(with(failing))
        .without_counting()
}

/// Calls what such a stream had in this place.
unsafe extern "C" fn with_reserved_zero(
    stream: *mut ArrowDeviceArrayStream,
    out: *mut ArrowDeviceArray,
) -> i32 {
    let original = produce(&script(), None, &Books::default()).get_next.unwrap();
    let code = unsafe { original(stream, out) };
    unsafe { (*out).reserved = [0; 3] };
    code
}

/// Ours, which is right, with something done to what it hands on.
fn stream_relay(number: Option<usize>) -> Peer {
    let entry = Entry::RelayStream(Box::new(move |_, stream, out: *mut ArrowDeviceArrayStream| {
        let Ok(arrays) = (unsafe { ArrayStream::import(stream) }) else { return 22 };
        let out = unsafe { &mut *out };
        arrays.export(out);
        if let Some(number) = number {
            CHANGED.get_or_init(|| (out.get_next.unwrap(), STREAM_RELAYS[number].0));
            out.get_next = Some(changed);
        }
        0
    }));
    Peer::new(entry, usual_places(false, true))
}

type GetNext =
    unsafe extern "C" fn(*mut ArrowDeviceArrayStream, *mut ArrowDeviceArray) -> std::ffi::c_int;
static CHANGED: OnceLock<(GetNext, Change)> = OnceLock::new();

unsafe extern "C" fn changed(
    stream: *mut ArrowDeviceArrayStream,
    out: *mut ArrowDeviceArray,
) -> std::ffi::c_int {
    let (get_next, change) = CHANGED.get().unwrap();
    let code = unsafe { get_next(stream, out) };
    let out = unsafe { &mut *out };
    if code == 0 && !out.is_released() {
        change.make(out);
    }
    code
}

fn stream_consumer(fault: Option<ConsumerFault>) -> Peer {
    let entry = Entry::ConsumeStream(Box::new(move |_, stream| {
        let outcome = ConsumerFault::consume(fault)(unsafe { &mut *stream });
        outcome.error.map_or(0, |(code, _)| code)
    }));
    Peer::new(entry, usual_places(false, false))
}

fn async_producer(fault: Option<SourceFault>) -> Peer {
    let with = move |fails: bool| {
        Entry::ProduceAsync(Box::new(move |_, handler: *mut ArrowAsyncDeviceStreamHandler| {
            let source = Arc::new(Source::new(handler, 4, fault));
            if fails {
                source.fail(5, Some("the cable was pulled"));
            }
            std::mem::forget(source.clone());
            (0, Box::new(move || Some(source.step())) as Advance)
        }))
    };
    Peer::new(with(false), usual_places(true, false)).with_failing(with(true))
}

/// Has two threads, or one after the other, for what one would do.
fn two_threads(at_once: bool) -> Peer {
    let entry =
        Entry::ProduceAsync(Box::new(move |_, handler: *mut ArrowAsyncDeviceStreamHandler| {
            let source = Arc::new(Source::new(handler, 4, None));
            std::mem::forget(source.clone());
            let advance = move || {
                let step = || source.step();
                Some(std::thread::scope(|scope| {
                    let first = scope.spawn(step);
                    // Whether the first has ended before the second begins is all the difference.
                    let first = if at_once { Err(first) } else { Ok(first.join().unwrap()) };
                    let second = scope.spawn(step).join().unwrap();
                    second | first.unwrap_or_else(|first| first.join().unwrap())
                }))
            };
            (0, Box::new(advance) as Advance)
        }));
    Peer::new(entry, usual_places(true, false))
}

#[test]
fn a_producer_whose_threads_call_at_once_is_found_and_one_whose_threads_take_turns_is_not_blamed() {
    let names = ["a consumer that takes its time"];
    for (peer, expected) in [("two threads at once", &["ASY-13"][..]), ("two threads in turn", &[])]
    {
        let report = support::report_of(peer, Kind::Async, Side::Producer, &names);
        let failed = report.failed();
        let is_found = expected.iter().all(|id| failed.contains(id));
        assert!(is_found && failed.is_empty() == expected.is_empty(), "{peer}: {report}");
    }
}

fn async_consumer(fault: Option<SinkFault>) -> Peer {
    let entry = Entry::ConsumeAsync(Box::new(move |_, out| {
        let sink = Sink::new(2, fault);
        if fault == Some(SinkFault::ExtractsThenRefuses) {
            sink.refuse_task(0, 7);
        }
        unsafe { out.write(sink.handler()) };
        let has_cancelled = Cell::new(false);
        let advance = move || {
            if has_cancelled.get() {
                return Some(false);
            }
            if fault == Some(SinkFault::ForgetsAfterCancel) && sink.arrived() == 1 {
                has_cancelled.set(true);
                sink.cancel();
                sink.discard();
                return Some(true);
            }
            Some(sink.take().is_some())
        };
        (0, Box::new(advance) as Advance)
    }));
    Peer::new(entry, usual_places(false, false))
}

/// A producer that gives the thread of its caller back when it is asked for more, which is never.
fn blocking_producer() -> Peer {
    let entry = Entry::ProduceAsync(Box::new(|_, handler: *mut ArrowAsyncDeviceStreamHandler| {
        let source = Source::new(handler, 4, None);
        source.run();
        while source.sent() == 0 {
            std::thread::park();
        }
        (0, Box::new(|| None) as Advance)
    }));
    Peer::new(entry, usual_places(true, false))
}

/// A consumer that lets go of its stream on a thread of its own, or never.
fn threaded_consumer(is_released: bool) -> Peer {
    let entry = Entry::ConsumeStream(Box::new(move |_, stream| {
        let Ok(arrays) = (unsafe { ArrayStream::import(stream) }) else { return 22 };
        let later = move || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            drop(arrays);
        };
        if is_released {
            std::thread::spawn(later);
        } else {
            std::mem::forget(later);
        }
        0
    }));
    Peer::new(entry, usual_places(false, false))
}

/// A consumer that waits for the end, whatever becomes of the stream.
fn waiting_consumer() -> Peer {
    let entry = Entry::ConsumeAsync(Box::new(|_, out| {
        let sink = Sink::new(2, None);
        unsafe { out.write(sink.handler()) };
        let advance = move || match sink.outcome() {
            Outcome::Ended => Some(false),
            _ => sink.take().map(|_| true),
        };
        (0, Box::new(advance) as Advance)
    }));
    Peer { tells_end: true, ..Peer::new(entry, usual_places(false, false)) }
}

pub(crate) fn peer(name: &str) -> Option<Peer> {
    match name {
        "blocking producer" => return Some(blocking_producer()),
        "two threads at once" => return Some(two_threads(true)),
        "two threads in turn" => return Some(two_threads(false)),
        "waiting consumer" => return Some(waiting_consumer()),
        "stream that is let go later" => return Some(threaded_consumer(true)),
        "stream that is never let go" => return Some(threaded_consumer(false)),
        _ => {}
    }
    let (kind, number) = name.split_once(' ')?;
    let number = number.parse::<usize>().ok();
    Some(match kind {
        "stream-producer" => stream_producer(number.map(|number| STREAM_PRODUCERS[number].0)),
        "stream-relay" => stream_relay(number),
        "stream-consumer" => stream_consumer(number.map(|number| STREAM_CONSUMERS[number].0)),
        "async-producer" => async_producer(number.map(|number| SOURCES[number].0)),
        "async-consumer" => async_consumer(number.map(|number| SINKS[number].0)),
        _ => return None,
    })
}

/// The rows of the table of pairs.
pub(crate) fn pairs() -> Vec<Pair> {
    fn of<F: std::fmt::Debug>(
        name: &'static str,
        faults: &'static [(F, &str)],
        kind: Kind,
        side: Side,
    ) -> impl Iterator<Item = Pair> {
        faults.iter().enumerate().filter(|(_, (_, id))| *id != "nothing").map(
            move |(number, (fault, id))| {
                let faulty = format!("streams@{name} {number}");
                let right = format!("streams@{name} right");
                Pair::of_rust(kind, side, faulty, right, format!("{fault:?}"), id)
            },
        )
    }
    let two_threads = Pair::of_rust(
        Kind::Async,
        Side::Producer,
        "streams@two threads at once".into(),
        "streams@two threads in turn".into(),
        "two threads at once",
        "ASY-13",
    );
    let two_threads = two_threads.only("a consumer that takes its time");
    let blocking = Pair::of_rust(
        Kind::Async,
        Side::Producer,
        "streams@blocking producer".into(),
        "streams@async-producer right".into(),
        "blocking producer",
        "ASY-16",
    );
    let blocking = blocking.only("a consumer that asks for nothing");
    let never = Pair::of_rust(
        Kind::Stream,
        Side::Consumer,
        "streams@stream that is never let go".into(),
        "streams@stream that is let go later".into(),
        "never lets go of its stream",
        "STR-7",
    );
    let never = never.only("a stream");
    let waiting = Pair::of_rust(
        Kind::Async,
        Side::Consumer,
        "streams@waiting consumer".into(),
        "streams@async-consumer right".into(),
        "waiting consumer",
        "SYS-2",
    );
    let waiting = waiting.only("a stream that is released before its end");
    of("stream-producer", &STREAM_PRODUCERS, Kind::Stream, Side::Producer)
        .chain(of("stream-consumer", &STREAM_CONSUMERS, Kind::Stream, Side::Consumer))
        .chain(of("stream-relay", &STREAM_RELAYS, Kind::Stream, Side::Relay))
        .chain(of("async-producer", &SOURCES, Kind::Async, Side::Producer))
        .chain(of("async-consumer", &SINKS, Kind::Async, Side::Consumer))
        .chain([two_threads, blocking, waiting, never])
        .collect()
}

#[test]
fn what_shows_in_nothing_but_the_books_of_a_peer_is_not_blamed() {
    for (peer, kind, side) in [
        ("stream-producer 15", Kind::Stream, Side::Producer),
        ("async-producer 35", Kind::Async, Side::Producer),
        ("async-consumer 14", Kind::Async, Side::Consumer),
    ] {
        support::assert_right(peer, kind, side);
    }
}
