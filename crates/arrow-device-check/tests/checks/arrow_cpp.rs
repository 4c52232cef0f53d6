//! Arrow C++ of the pyarrow wheel, and nanoarrow: their known faults on the host are found, under
//! their ids.

use std::cell::{Cell, OnceCell};
use std::ffi::{c_char, c_int};
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use arrow_device::abi::{ArrowAsyncDeviceStreamHandler, ArrowAsyncTask, ArrowSchema};
use arrow_device_check::{
    Advance, Bench, Entry, Kind, Limits, Peer, Report, Side, Subject, check_some, child_with,
    usual_places,
};
use foreign_peers::Structs;
use foreign_peers::arrow_cpp::asynchronous::{Reader, SentHandler};
use foreign_peers::arrow_cpp::{ArrowCpp, Place, arrow_cpp};
use foreign_peers::nanoarrow::{Nanoarrow, nanoarrow};

use crate::support;
use crate::support::foreign::{MISSING, consumer, relay, relay_stream, relay_with, require_all};

#[test]
fn the_child_of_the_other_tests() {
    child_with(peer);
}

/// A relay that is made with nanoarrow.
fn nanoarrow_relay(relay: fn(&Nanoarrow, Structs) -> Result<Structs, String>) -> Peer {
    let entry = Entry::RelayArray(Box::new(move |_, schema, array, out_schema, out| {
        let Some(nano) = nanoarrow() else { return MISSING };
        relay_with([schema, out_schema], [array, out], |structs| relay(nano, structs))
    }));
    Peer::new(entry, usual_places(false, false))
}

fn move_elsewhere(nano: &Nanoarrow, mut structs: Structs) -> Result<Structs, String> {
    let schema = std::mem::replace(&mut structs.schema, ArrowSchema::empty());
    let (code, moved) = nano.move_to_other_device(structs);
    let moved = ManuallyDrop::new(moved);
    let array = unsafe { std::ptr::read(&moved.array) };
    if code == 0 { Ok(Structs { schema, array }) } else { Err(format!("{code}")) }
}

/// The number of a stream of batches.
fn batches(cpp: &ArrowCpp) -> usize {
    cpp.stream_counts().0
}

fn async_producer() -> Peer {
    let with = |good: Option<usize>| {
        Entry::ProduceAsync(Box::new(move |_: &Bench, handler| {
            let sent = SentHandler(handler);
            // It does not return before the stream is over, so that it gets a thread of its own.
            thread::spawn(move || {
                let sent = sent;
                if let Some(cpp) = arrow_cpp() {
                    let _ = unsafe { cpp.produce(batches(&cpp), Place::Host, good, sent) };
                }
            });
            (0, Box::new(|| None) as Advance)
        }))
    };
    Peer::new(with(None), usual_places(true, false)).with_failing(with(Some(1)))
}

/// The same on the thread of its caller, which it does not give back; nor does it wait for ever,
/// which is for this test alone.
fn blocking_producer() -> Peer {
    let entry = Entry::ProduceAsync(Box::new(|_: &Bench, handler| {
        let Some(cpp) = arrow_cpp() else { return (38, Box::new(|| None) as Advance) };
        let done = unsafe { cpp.produce(batches(&cpp), Place::Host, None, SentHandler(handler)) };
        (support::code(done), Box::new(|| None) as Advance)
    }));
    Peer::new(entry, usual_places(true, false))
}

/// One with a stream of its own, on a thread of its own.
fn producer_of(produce: fn(&ArrowCpp, SentHandler) -> Result<(), String>) -> Peer {
    let entry = Entry::ProduceAsync(Box::new(move |_: &Bench, handler| {
        let sent = SentHandler(handler);
        thread::spawn(move || {
            let sent = sent;
            if let Some(cpp) = arrow_cpp() {
                let _ = produce(&cpp, sent);
            }
        });
        (0, Box::new(|| None) as Advance)
    }));
    Peer::new(entry, usual_places(true, false))
}

static ARRIVED: AtomicUsize = AtomicUsize::new(0);
static RELEASED: AtomicUsize = AtomicUsize::new(0);
static ORIGINAL: OnceLock<(TakeTask, Release)> = OnceLock::new();

type TakeTask = unsafe extern "C" fn(
    *mut ArrowAsyncDeviceStreamHandler,
    *mut ArrowAsyncTask,
    *const c_char,
) -> c_int;
type Release = unsafe extern "C" fn(*mut ArrowAsyncDeviceStreamHandler);

/// Puts callbacks before those of the consumer.
fn watch(handler: &mut ArrowAsyncDeviceStreamHandler) {
    ORIGINAL.get_or_init(|| (handler.on_next_task.unwrap(), handler.release.unwrap()));
    handler.on_next_task = Some(count_task);
    handler.release = Some(count_release);
}

unsafe extern "C" fn count_task(
    handler: *mut ArrowAsyncDeviceStreamHandler,
    task: *mut ArrowAsyncTask,
    metadata: *const c_char,
) -> c_int {
    let code = unsafe { ORIGINAL.get().unwrap().0(handler, task, metadata) };
    ARRIVED.fetch_add(1, Ordering::SeqCst);
    code
}

unsafe extern "C" fn count_release(handler: *mut ArrowAsyncDeviceStreamHandler) {
    unsafe { ORIGINAL.get().unwrap().1(handler) };
    RELEASED.fetch_add(1, Ordering::SeqCst);
}

/// Reads a stream to its end on a thread of its own. The reader stays as long as the process.
fn read_all(reader: &Rc<Reader<'static>>) -> thread::JoinHandle<()> {
    let address = Rc::into_raw(reader.clone()).expose_provenance();
    thread::spawn(move || {
        let reader: *const Reader<'_> = std::ptr::with_exposed_provenance(address);
        println!("{:?}", unsafe { &*reader }.read(usize::MAX));
    })
}

fn async_consumer(drops: bool) -> Peer {
    let entry = Entry::ConsumeAsync(Box::new(move |_, out| {
        let Some(cpp) = arrow_cpp() else { return (38, Box::new(|| None) as Advance) };
        // It lives as long as this process.
        let cpp: &'static ArrowCpp = unsafe { &*std::ptr::from_ref(&*Box::leak(Box::new(cpp))) };
        let reader = Rc::new(cpp.reader(if drops { 2 } else { 100 }));
        unsafe { out.write(reader.handler().0) };
        std::mem::forget(reader.clone());
        watch(unsafe { &mut **out });
        let is_dropped = Cell::new(false);
        let reading: OnceCell<thread::JoinHandle<()>> = OnceCell::new();
        let advance = move || {
            if let Some(reading) = reading.get() {
                return reading.is_finished().then_some(false);
            }
            if is_dropped.get() {
                return Some(false);
            }
            // Both tasks that it asked for are in its queue.
            if drops && ARRIVED.load(Ordering::SeqCst) == 2 {
                reader.drop_stream();
                is_dropped.set(true);
            }
            // All is in its queue, and read only now.
            if !drops && RELEASED.load(Ordering::SeqCst) == 1 {
                reading.set(read_all(&reader)).unwrap();
            }
            None
        };
        (0, Box::new(advance) as Advance)
    }));
    Peer { tells_end: true, ..Peer::new(entry, usual_places(false, false)) }
}

fn peer(name: &str) -> Option<Peer> {
    Some(match name {
        "import" => consumer("import"),
        "relay" => relay("relay"),
        "nanoarrow copy" => nanoarrow_relay(|nano, structs| unsafe { nano.copy(structs) }),
        "nanoarrow move" => nanoarrow_relay(move_elsewhere),
        "relay of chunks" => relay_stream("chunks"),
        "relay of batches" => relay_stream("batches"),
        "broken producer" => producer_of(|cpp, sent| unsafe { cpp.produce_broken(sent) }),
        "empty producer" => producer_of(|cpp, sent| unsafe { cpp.produce_nothing(sent) }),
        "async producer" => async_producer(),
        "blocking producer" => blocking_producer(),
        "dropped consumer" => async_consumer(true),
        "async consumer" => async_consumer(false),
        _ => return None,
    })
}

/// That of a peer all of this is found: an id, and words of what was seen.
fn assert_all_found(peer: &str, kind: Kind, side: Side, expected: &[(&str, &str)]) {
    require_all(&support::report(peer, kind, side), expected);
}

fn is_there() -> bool {
    arrow_cpp().is_some()
}

#[test]
fn the_faults_of_its_import_are_found() {
    if !is_there() {
        return;
    }
    let expected = [
        ("SYS-2", "a length of -1 was accepted"),
        ("SYS-2", "a length of 2^63 - 1 was accepted"),
        ("SYS-2", "an offset of -5 was accepted"),
        ("SYS-2", "a null count of -7 was accepted"),
        ("SYS-2", "a null count above the length was accepted"),
        ("SYS-2", "a child that is shorter than its struct was accepted"),
        ("SYS-2", "a last offset that is negative was accepted"),
        ("SYS-2", "a negative size of a data buffer was accepted"),
        ("SYS-2", "ended the process while given a table of buffers that is null"),
        ("SYS-2", "ended the process while given a child that is null"),
        ("SYS-2", "ended the process while given sizes of data buffers that are null"),
        ("ARR-7", "an event on the host was accepted"),
        ("ABI-2", "ended the process while consuming an array of type of device 257"),
        ("SYS-2", "left the array unreleased"),
    ];
    assert_all_found("import", Kind::Array, Side::Consumer, &expected);
}

#[test]
fn the_faults_of_what_it_hands_on_are_found() {
    if !is_there() {
        return;
    }
    let expected = [("ABI-2", "and not on 257"), ("ABI-5", "`reserved` is")];
    assert_all_found("relay", Kind::Array, Side::Relay, &expected);
    let expected = [
        ("STR-2", "an array of the host in a stream on a device"),
        ("STR-6", "an array of the stream was never released"),
    ];
    assert_all_found("relay of batches", Kind::Stream, Side::Relay, &expected);
}

#[test]
fn the_faults_of_its_asynchronous_producer_are_found() {
    if !is_there() {
        return;
    }
    let expected = [
        ("ASY-6", "`request(-1)` led to no error"),
        ("ASY-7", "a cancel led to an error"),
        ("ASY-11", "after a refusal"),
    ];
    // Where it waits for ever is left out.
    let tried = [
        "a stream that is read to its end",
        "a request for less than nothing",
        "a consumer that cancels",
        "a consumer that refuses the schema",
    ];
    require_all(
        &support::report_of("async producer", Kind::Async, Side::Producer, &tried),
        &expected,
    );
}

#[test]
fn that_its_task_fails_and_says_nothing_is_found() {
    if !is_there() {
        return;
    }
    let tried = ["a stream that is read to its end"];
    let report = support::report_of("broken producer", Kind::Async, Side::Producer, &tried);
    require_all(&report, &[("ASY-10", "gave nothing and said nothing")]);
}

#[test]
fn what_its_asynchronous_producer_does_after_a_refusal_is_found() {
    if !is_there() {
        return;
    }
    // The consumer refuses with 7, and is told 1.
    let tried = ["a consumer that refuses a task"];
    let report = support::report_of("async producer", Kind::Async, Side::Producer, &tried);
    require_all(&report, &[("ASY-11", "`on_error` was called after a refusal"), ("ASY-11", "1")]);
    let tried = ["a consumer that refuses the schema"];
    let report = support::report_of("empty producer", Kind::Async, Side::Producer, &tried);
    require_all(&report, &[("ASY-11", "`on_next_task` was called after a refusal")]);
    // What is freed twice may hang as well as crash.
    let limits = Limits { scenario: Duration::from_secs(20), patience: Duration::from_secs(3) };
    let subject =
        Subject { peer: "async producer".to_owned(), kind: Kind::Async, side: Side::Producer };
    let only =
        |_: &Report, name: &str| Some(name == "a consumer that takes a task and then refuses it");
    let report = check_some(&subject, &support::launcher(), limits, only).unwrap();
    require_all(&report, &[("SYS-2", "while refusing a task that was extracted")]);
}

#[test]
fn that_it_blocks_its_thread_and_waits_for_ever_is_found() {
    if !is_there() {
        return;
    }
    // What hangs takes all the time that it gets. Nothing that is right is held to this.
    let limits = Limits { scenario: Duration::from_secs(5), patience: Duration::from_secs(3) };
    let subject = |peer: &str, side| Subject { peer: peer.to_owned(), kind: Kind::Async, side };
    let only = |wanted: &'static str| move |_: &Report, name: &str| Some(name == wanted);
    let (producer, consumer) =
        (subject("blocking producer", Side::Producer), subject("async consumer", Side::Consumer));
    let launcher = support::launcher();
    let asks = only("a consumer that asks for nothing");
    let report = check_some(&producer, &launcher, limits, asks).unwrap();
    require_all(&report, &[("ASY-16", "the process was stopped")]);
    let limits = Limits { scenario: Duration::from_secs(120), ..limits };
    for early in [
        "a stream that is released at once",
        "a stream that is released before its end",
        "a task that cannot be extracted",
    ] {
        let report = check_some(&consumer, &launcher, limits, only(early)).unwrap();
        require_all(&report, &[("SYS-2", "still waits")]);
    }
}

#[test]
fn the_faults_of_its_asynchronous_consumer_are_found() {
    if !is_there() {
        return;
    }
    let expected = [
        ("SYS-2", "a handler whose `producer` is null"),
        ("ASY-14", "`request` was called after the release"),
    ];
    let tried = ["a stream that ends", "a handler whose `producer` is null"];
    require_all(
        &support::report_of("async consumer", Kind::Async, Side::Consumer, &tried),
        &expected,
    );
}

#[test]
fn that_a_consumer_that_is_dropped_forgets_its_tasks_is_found() {
    if !is_there() {
        return;
    }
    let limits = Limits { scenario: Duration::from_secs(120), patience: Duration::from_secs(20) };
    let subject =
        Subject { peer: "dropped consumer".to_owned(), kind: Kind::Async, side: Side::Consumer };
    let only = |_: &Report, name: &str| Some(name == "a stream that ends");
    let report = check_some(&subject, &support::launcher(), limits, only).unwrap();
    require_all(&report, &[("ASY-9", "never extracted")]);
}

#[test]
fn the_faults_of_the_copies_and_moves_of_nanoarrow_are_found() {
    if nanoarrow().is_none() {
        return;
    }
    let tried = ["a batch on the host"];
    let report = support::report_of("nanoarrow move", Kind::Array, Side::Relay, &tried);
    require_all(&report, &[("ARR-11", "it returned 0 and handed out nothing")]);
    let tried = ["arrays of every type"];
    let report = support::report_of("nanoarrow copy", Kind::Array, Side::Relay, &tried);
    let expected = [
        ("ARR-16", "buffers of l, whole, nulls moved"),
        // The sizes of list views, and the data buffers of views.
        ("ARR-17", "buffer"),
        ("ARR-17", "view"),
    ];
    require_all(&report, &expected);
}
