//! Arrow C++ of the pyarrow wheel, with the software device registered: its known faults are found, under their ids.
#![cfg(all(unix, not(miri)))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block
)]

mod support;

use std::cell::{Cell, OnceCell};
use std::ffi::{c_char, c_int};
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use arrow_device::Device;
use arrow_device::abi::{
    ArrowAsyncDeviceStreamHandler, ArrowAsyncTask, ArrowDeviceArray, ArrowDeviceArrayStream,
    ArrowSchema,
};
use arrow_device_check::{
    Advance, Bench, Entry, Kind, Limits, Peer, Report, Side, Subject, Where, check_some,
    child_with, usual_places,
};
use arrow_device_foreign_peers::Structs;
use arrow_device_foreign_peers::arrow_cpp::asynchronous::{Reader, SentHandler};
use arrow_device_foreign_peers::arrow_cpp::{ArrowCpp, Place, arrow_cpp};
use arrow_device_foreign_peers::nanoarrow::nanoarrow;

#[test]
fn the_child_of_the_other_tests() {
    let is_child = std::env::var("ARROW_DEVICE_CHECK_TASK");
    if !is_child.is_ok_and(|task| task.starts_with("sim ")) {
        child_with(peer);
        return;
    }
    // Arrow C++ has the software device registered meanwhile.
    let Some(cpp) = arrow_cpp() else { return };
    let address = std::ptr::from_ref(&*cpp);
    let outcome = cpp.on_sim(1, |shared, _| {
        child_with(|name| Some(on_sim(name, address, &shared.device())));
        Ok(())
    });
    println!("{outcome:?}");
}

/// A peer on the software device that Arrow C++ knows.
fn on_sim(name: &str, cpp: *const ArrowCpp, device: &Device) -> Peer {
    let device = device.clone();
    let open = move |place| match place {
        Where::Host | Where::Anywhere => Ok(Bench::Host),
        Where::Device => Bench::device(device.clone()).map_err(|error| error.to_string()),
        Where::WithoutEvents => support::nowhere(place),
    };
    assert_eq!(name, "sim slice");
    let entry = Entry::ProduceArray(Box::new(move |_, schema, array| {
        let mut structs = std::mem::ManuallyDrop::new(Structs::empty());
        let exported = unsafe { (*cpp).call("export_device_slice", &mut structs) };
        unsafe { schema.write(std::ptr::read(&structs.schema)) };
        unsafe { array.write(std::ptr::read(&structs.array)) };
        support::code(exported)
    }));
    Peer::new(entry, open)
}

fn relay_with(
    cpp: &ArrowCpp,
    [schema, out_schema]: [*mut ArrowSchema; 2],
    [array, out]: [*mut ArrowDeviceArray; 2],
) -> c_int {
    let moved = unsafe {
        Structs {
            schema: schema.replace(ArrowSchema::empty()),
            array: array.replace(ArrowDeviceArray::empty()),
        }
    };
    match unsafe { cpp.relay(moved) } {
        Ok(given) => {
            let given = std::mem::ManuallyDrop::new(given);
            unsafe { out_schema.write(std::ptr::read(&given.schema)) };
            unsafe { out.write(std::ptr::read(&given.array)) };
            0
        }
        Err(said) => {
            println!("{said}");
            22
        }
    }
}

/// What the library takes over, or leaves where it is.
fn with_structs(
    schema: *mut ArrowSchema,
    array: *mut ArrowDeviceArray,
    body: impl FnOnce(&mut Structs) -> Result<(), String>,
) -> c_int {
    let moved = unsafe { Structs { schema: schema.read(), array: array.read() } };
    let mut moved = std::mem::ManuallyDrop::new(moved);
    let outcome = body(&mut moved);
    // What it left unreleased is shown to whoever asked.
    unsafe { schema.write(std::ptr::read(&moved.schema)) };
    unsafe { array.write(std::ptr::read(&moved.array)) };
    if let Err(said) = &outcome {
        println!("{said}");
    }
    support::code(outcome)
}

/// A function of `cpp/arrow_cpp.h` that takes two structs.
fn call(name: &'static str) -> Peer {
    let entry = Entry::ConsumeArray(Box::new(move |_, schema, array| {
        let Some(cpp) = arrow_cpp() else { return 38 };
        with_structs(schema, array, |structs| unsafe { cpp.call(name, structs) })
    }));
    Peer::new(entry, usual_places(false, true))
}

fn relay() -> Peer {
    let entry = Entry::RelayArray(Box::new(|_, schema, array, out_schema, out| {
        let Some(cpp) = arrow_cpp() else { return 38 };
        relay_with(&cpp, [schema, out_schema], [array, out])
    }));
    Peer::new(entry, usual_places(false, true))
}

fn nanoarrow_copy() -> Peer {
    let entry = Entry::RelayArray(Box::new(|_, schema, array, out_schema, out| {
        let Some(nano) = nanoarrow() else { return 38 };
        let moved = unsafe {
            Structs {
                schema: schema.replace(ArrowSchema::empty()),
                array: array.replace(ArrowDeviceArray::empty()),
            }
        };
        match unsafe { nano.copy(moved) } {
            Ok(given) => {
                let given = std::mem::ManuallyDrop::new(given);
                unsafe { out_schema.write(std::ptr::read(&given.schema)) };
                unsafe { out.write(std::ptr::read(&given.array)) };
                0
            }
            Err(_) => 22,
        }
    }));
    Peer::new(entry, usual_places(false, false))
}

fn relay_stream(manner: &'static str) -> Peer {
    let entry = Entry::RelayStream(Box::new(
        move |_, stream: *mut ArrowDeviceArrayStream, out: *mut ArrowDeviceArrayStream| {
            let Some(cpp) = arrow_cpp() else { return 38 };
            let moved = unsafe { stream.replace(ArrowDeviceArrayStream::empty()) };
            match unsafe { cpp.relay_stream(manner, moved) } {
                Ok(given) => {
                    unsafe { out.write(given) };
                    0
                }
                Err(said) => {
                    println!("{said}");
                    22
                }
            }
        },
    ));
    Peer::new(entry, usual_places(false, true))
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

/// The same on the thread of its caller, which it does not give back; nor does it wait for ever, which is for this test alone.
fn blocking_producer() -> Peer {
    let entry = Entry::ProduceAsync(Box::new(|_: &Bench, handler| {
        let Some(cpp) = arrow_cpp() else { return (38, Box::new(|| None) as Advance) };
        let done = unsafe { cpp.produce(batches(&cpp), Place::Host, None, SentHandler(handler)) };
        (support::code(done), Box::new(|| None) as Advance)
    }));
    Peer::new(entry, usual_places(true, false))
}

/// One whose only batch cannot be exported.
fn broken_producer() -> Peer {
    let entry = Entry::ProduceAsync(Box::new(|_: &Bench, handler| {
        let sent = SentHandler(handler);
        thread::spawn(move || {
            let sent = sent;
            if let Some(cpp) = arrow_cpp() {
                let _ = unsafe { cpp.produce_broken(sent) };
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
        "import" => call("import"),
        "import_batch" => call("import_batch"),
        "relay" => relay(),
        "nanoarrow copy" => nanoarrow_copy(),
        "relay of chunks" => relay_stream("chunks"),
        "relay of batches" => relay_stream("batches"),
        "broken producer" => broken_producer(),
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

/// That all of this was found.
fn require_all(report: &Report, expected: &[(&str, &str)]) {
    println!("{report}");
    for (id, words) in expected {
        let found = report.findings().find(|finding| finding.rule.id == *id);
        let is_seen = found.is_some_and(|finding| {
            finding.verdict == arrow_device_check::Verdict::Fail
                && finding
                    .seen
                    .iter()
                    .any(|seen| seen.text.contains(words) || seen.scenario.contains(words))
        });
        assert!(is_seen, "{id} `{words}` is not in\n{report}");
    }
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
fn the_faults_that_it_has_on_a_device_are_found() {
    if !is_there() {
        return;
    }
    let tried = ["an array on a device"];
    let report = support::report_of("sim slice", Kind::Array, Side::Producer, &tried);
    require_all(&report, &[("PEER", "ended the process while producing an array")]);
    let tried = ["a stream that is read to its end"];
    let report = support::report_of("broken producer", Kind::Async, Side::Producer, &tried);
    require_all(&report, &[("ASY-10", "gave nothing and said nothing")]);
}

#[test]
fn that_it_blocks_its_thread_and_waits_for_ever_is_found() {
    if !is_there() {
        return;
    }
    // What hangs takes all the time that it gets. Nothing that is right is held to this.
    let limits = Limits { scenario: Duration::from_secs(20), patience: Duration::from_secs(3) };
    let subject = |peer: &str, side| Subject { peer: peer.to_owned(), kind: Kind::Async, side };
    let only = |wanted: &'static str| move |_: &Report, name: &str| Some(name == wanted);
    let (producer, consumer) =
        (subject("blocking producer", Side::Producer), subject("async consumer", Side::Consumer));
    let launcher = support::launcher();
    let asks = only("a consumer that asks for nothing");
    let report = check_some(&producer, &launcher, limits, asks).unwrap();
    require_all(&report, &[("ASY-16", "the process was stopped")]);
    let early = only("a stream that is released at once");
    let limits = Limits { scenario: Duration::from_secs(120), ..limits };
    let report = check_some(&consumer, &launcher, limits, early).unwrap();
    require_all(&report, &[("SYS-2", "still waits")]);
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
fn the_faults_of_the_copies_of_nanoarrow_are_found() {
    if nanoarrow().is_none() {
        return;
    }
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
