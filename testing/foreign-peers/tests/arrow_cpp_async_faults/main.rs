//! What the released Arrow C++ does wrong with asynchronous streams, each shown by a peer that is
//! written by hand, and what this library does with the same peer. What crashes does so in a child
//! process.
//!
//! Tests that use Arrow C++ take turns, and these have deadlines: that is why they are a program of
//! their own.
#![cfg(all(unix, not(miri)))]
#![allow(
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use arrow_device::async_stream::{AsyncProducer, AsyncStream, Drive, Ending, Fed, block_on, feed};
use arrow_device::{Array, Batch, DataType, DeviceType, ErrorKind, Result};
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::process::{self, End};
use arrow_device_testkit::pushed::{Outcome, Sink, SinkFault, Source, SourceFault};
use foreign_peers::arrow_cpp::asynchronous::SentHandler;
use foreign_peers::arrow_cpp::{ArrowCpp, Place, arrow_cpp};
use foreign_peers::table::{self, Table};
use futures_core::Stream;

/// How long Arrow C++ gets where it waits for ever.
const MOMENT: f64 = 0.5;

/// Writes the line of a fault that was seen.
fn seen(cpp: &ArrowCpp, fault: &str, how: &str, here: &str, test: &str) {
    table::check(Table::Faults, &[&cpp.name(), fault, how, here], test);
}

/// Runs a test on a thread of its own, and gives up when it takes too long.
fn bounded(body: impl FnOnce(&ArrowCpp) + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let running = thread::spawn(move || {
        if let Some(cpp) = arrow_cpp() {
            body(&cpp);
        }
        done.send(()).unwrap();
    });
    match is_done.recv_timeout(Duration::from_secs(20)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        // A panic shows itself in the join.
        _ => running.join().unwrap(),
    }
}

/// A stream of seven batches of Arrow C++.
fn stream(cpp: &ArrowCpp) -> usize {
    let (arrays, _) = cpp.stream_counts();
    arrays
}

fn record() -> Array {
    let numbers = Array::from_values(DataType::Int32, [Some(1_i32), None, Some(3)]).unwrap();
    Batch::from_columns([("n", numbers)]).unwrap().as_array().clone()
}

/// A producer of ours with so many batches, for this handler.
fn ours(count: usize, handler: SentHandler) -> Drive<Fed<Array>> {
    let (feeder, fed) = feed((0..count).map(|_| Ok(record())), count + 1);
    feeder.run();
    let producer = AsyncProducer::new(record().schema().unwrap(), DeviceType::CPU, fed);
    unsafe { producer.drive(handler.0) }.unwrap()
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// How a stream of ours ends, after so many arrays.
fn read_all(stream: AsyncStream, source: &Source) -> (usize, Result<(), ErrorKind>) {
    let (mut arrays, mut count) = (stream.arrays(), 0);
    loop {
        source.run();
        match Pin::new(&mut arrays).poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(Ok(_))) => count += 1,
            Poll::Ready(Some(Err(error))) => return (count, Err(error.kind())),
            Poll::Ready(None) => return (count, Ok(())),
            Poll::Pending => panic!("nothing is due"),
        }
    }
}

// Requirement: ASY-11
#[test]
fn its_producer_reports_an_error_after_a_refusal_and_loses_the_code() {
    const TEST: &str = "its_producer_reports_an_error_after_a_refusal_and_loses_the_code";
    bounded(|cpp| {
        let sinks = || {
            let sinks = [Sink::new(3, None), Sink::new(3, None)];
            sinks[0].refuse_schema(7);
            sinks[1].refuse_task(0, 7);
            sinks
        };
        for sink in sinks() {
            let handler = SentHandler(sink.handler());
            unsafe { cpp.produce(stream(cpp), Place::Host, None, handler) }.unwrap_err();
            let Outcome::Failed(code, text) = sink.outcome() else {
                panic!("{:?}", sink.outcome())
            };
            let text = text.unwrap();
            assert_ne!(code, 7, "{text}");
            assert!(text.contains('1') && !text.contains('7'), "{code}: {text}");
            let complaint = sink.complaints().unwrap_err();
            assert!(complaint.contains("`on_error` was called after a refusal"), "{complaint}");
        }
        for sink in sinks() {
            let error = block_on(ours(2, SentHandler(sink.handler()))).unwrap_err();
            assert_eq!(error.errno(), 7);
            sink.settle().unwrap();
        }
        let fault = "a consumer that refuses the schema or a task";
        let how = "its producer reports an error all the same, and says 1 whatever was answered";
        let here = "only released; `Drive` says what was answered";
        seen(cpp, fault, how, here, TEST);
    });
}

/// A consumer that extracts the first task and then refuses it.
fn extracts_then_refuses() -> Sink {
    let sink = Sink::new(3, Some(SinkFault::ExtractsThenRefuses));
    sink.refuse_task(0, 7);
    sink
}

#[test]
fn a_task_that_is_extracted_and_refused_crashes_its_producer() {
    const TEST: &str = "a_task_that_is_extracted_and_refused_crashes_its_producer";
    let Some(cpp) = arrow_cpp() else { return };
    let end = process::end_of(|| {
        // What is freed twice crashes, or waits for ever.
        unsafe { libc::alarm(5) };
        let sink = extracts_then_refuses();
        let handler = SentHandler(sink.handler());
        let _ = unsafe { cpp.produce(stream(&cpp), Place::Host, None, handler) };
    });
    let Some(end) = end else { return };
    assert_eq!(end, End::Crashed, "Arrow C++ no longer crashes");
    let sink = extracts_then_refuses();
    let error = block_on(ours(2, SentHandler(sink.handler()))).unwrap_err();
    assert_eq!(error.errno(), 7);
    sink.settle().unwrap();
    let (fault, how) =
        ("a task that is extracted, and then refused", "its producer frees it twice");
    seen(&cpp, fault, how, "freed once", TEST);
}

/// Lets Arrow C++ produce for this consumer, waits until its first task is there, and does
/// something then.
fn after_one_task(cpp: &ArrowCpp, sink: &Sink, then: impl FnOnce(&AtomicBool)) {
    let (handler, number) = (SentHandler(sink.handler()), stream(cpp));
    let returned = &AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(move || {
            let _ = unsafe { cpp.produce(number, Place::Host, None, handler) };
            returned.store(true, Ordering::SeqCst);
        });
        while sink.arrived() == 0 {
            thread::yield_now();
        }
        then(returned);
    });
    sink.discard();
}

// Requirement: ASY-7
#[test]
fn its_producer_blocks_its_thread_and_reports_a_cancel_as_an_error() {
    const TEST: &str = "its_producer_blocks_its_thread_and_reports_a_cancel_as_an_error";
    bounded(|cpp| {
        let sink = Sink::new(1, None);
        after_one_task(cpp, &sink, |returned| {
            assert!(!returned.load(Ordering::SeqCst), "it has learned to wait elsewhere");
            sink.cancel();
        });
        let complaint = sink.complaints().unwrap_err();
        assert!(complaint.contains("a cancel led to an error"), "{complaint}");
        assert!(matches!(sink.outcome(), Outcome::Failed(libc::EINVAL, _)));

        let sink = Sink::new(1, None);
        let mut drive = pin!(ours(4, SentHandler(sink.handler())));
        assert!(poll(drive.as_mut()).is_pending());
        assert_eq!(sink.arrived(), 1);
        sink.cancel();
        let Poll::Ready(ending) = poll(drive.as_mut()) else { panic!("cancelled") };
        assert_eq!(ending.unwrap(), Ending::Cancelled);
        sink.discard();
        sink.settle().unwrap();

        let fault = "a consumer that asks for nothing more";
        seen(cpp, fault, "its producer blocks the thread", "`Drive` is a future", TEST);
        let fault = "a consumer that cancels";
        let how = "is told an error (EINVAL)";
        seen(cpp, fault, how, "is told nothing; is not disturbed by the error", TEST);
    });
}

// Requirement: ASY-6
#[test]
fn its_producer_takes_a_request_for_less_than_nothing_for_one_for_all() {
    const TEST: &str = "its_producer_takes_a_request_for_less_than_nothing_for_one_for_all";
    bounded(|cpp| {
        let sink = Sink::new(1, None);
        after_one_task(cpp, &sink, |_| sink.request(-1));
        assert_eq!((sink.arrived(), sink.outcome()), (7, Outcome::Ended));
        let sink = Sink::new(1, None);
        let mut drive = pin!(ours(4, SentHandler(sink.handler())));
        assert!(poll(drive.as_mut()).is_pending());
        sink.request(-1);
        assert!(poll(drive.as_mut()).is_ready());
        assert!(matches!(sink.outcome(), Outcome::Failed(libc::EINVAL, _)));
        sink.discard();
        sink.settle().unwrap();
        let fault = "a request for -1 tasks";
        seen(cpp, fault, "is one for all of them", "ends the stream with EINVAL", TEST);
    });
}

#[test]
fn its_task_that_fails_says_nothing_and_gives_nothing() {
    const TEST: &str = "its_task_that_fails_says_nothing_and_gives_nothing";
    bounded(|cpp| {
        let sink = Sink::new(3, None);
        let _ = unsafe { cpp.produce_broken(SentHandler(sink.handler())) };
        assert!(matches!(sink.extract_only(), Some(Ok(_))), "it has learned to fail");
        let complaint = sink.complaints().unwrap_err();
        assert!(complaint.contains("gave nothing and said nothing"), "{complaint}");
        let (stream, handler) = AsyncStream::new(3);
        let _ = unsafe { cpp.produce_broken(SentHandler(handler.into_raw())) };
        let mut arrays = stream.arrays();
        let first = Pin::new(&mut arrays).poll_next(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Some(Err(error))) = first else { panic!("{first:?}") };
        assert_eq!(error.kind(), ErrorKind::Released, "{error}");
        let fault = "a task whose array cannot be exported";
        let how = "succeeds, and writes nothing";
        seen(cpp, fault, how, "an error (Released) from a peer; ours fail", TEST);
    });
}

// Requirement: ASY-9
#[test]
fn its_consumer_that_is_dropped_forgets_its_tasks_and_does_not_cancel() {
    const TEST: &str = "its_consumer_that_is_dropped_forgets_its_tasks_and_does_not_cancel";
    bounded(|cpp| {
        let reader = cpp.reader(3);
        let source = Source::of_batches(reader.handler().0, 9, None);
        source.run();
        assert_eq!(source.sent(), 3);
        reader.drop_stream();
        assert_eq!(source.cancels(), 0, "it has learned to cancel");
        source.release();
        let complaint = source.settle().unwrap_err();
        assert!(complaint.contains("never extracted"), "{complaint}");

        let (stream, handler) = AsyncStream::new(3);
        let source = Source::of_batches(handler.into_raw(), 9, None);
        source.run();
        drop(stream);
        source.run();
        assert_eq!(source.cancels(), 1);
        source.settle().unwrap();

        // Our producer is not told, and waits; what it has not sent goes when it is dropped.
        let (reader, ledger) = (cpp.reader(3), Ledger::new());
        let (feeder, fed) = feed(Watched::new(9, &ledger), 10);
        feeder.run();
        let schema = record().schema().unwrap();
        let producer = AsyncProducer::new(schema, DeviceType::CPU, fed);
        let mut drive = Box::pin(unsafe { producer.drive(reader.handler().0) }.unwrap());
        assert!(poll(drive.as_mut()).is_pending());
        reader.drop_stream();
        assert!(poll(drive.as_mut()).is_pending());
        drop(drive);
        ledger.settle(0).unwrap();
        let fault = "a consumer that is dropped with tasks in its queue";
        let how = "never extracts them, and does not cancel";
        let here = "cancels, and extracts with NULL; a producer waits until its future is dropped, \
                    and the tasks that were sent are lost";
        seen(cpp, fault, how, here, TEST);
    });
}

/// An iterator of so many batches that a ledger watches.
struct Watched(usize, Arc<Ledger>);

impl Watched {
    fn new(count: usize, ledger: &Arc<Ledger>) -> Self {
        ledger.opened();
        Self(count, ledger.clone())
    }
}

impl Iterator for Watched {
    type Item = Result<Array>;

    fn next(&mut self) -> Option<Result<Array>> {
        self.0 = self.0.checked_sub(1)?;
        Some(Ok(record()))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.1.closed();
    }
}

// Requirement: ASY-14
#[test]
fn its_consumer_asks_for_more_after_the_release() {
    const TEST: &str = "its_consumer_asks_for_more_after_the_release";
    bounded(|cpp| {
        let reader = cpp.reader(5);
        let source = Source::of_batches(reader.handler().0, 3, None);
        source.run();
        assert_eq!(reader.read(9), (3, Ok(())));
        let complaint = source.settle().unwrap_err();
        assert!(complaint.contains("`request` was called after the release"), "{complaint}");
        reader.drop_stream();
        unsafe { reader.free() };

        let (stream, handler) = AsyncStream::new(5);
        let source = Source::of_batches(handler.into_raw(), 3, None);
        source.run();
        assert_eq!(read_all(stream, &source), (3, Ok(())));
        source.settle().unwrap();

        // Our producer is gone when the consumer asks it for more.
        let reader = cpp.reader(5);
        assert_eq!(block_on(ours(3, reader.handler())).unwrap(), Ending::Finished);
        assert_eq!(reader.read(9), (3, Ok(())));
        reader.drop_stream();
        unsafe { reader.free() };
        let fault = "a batch that is read after the release of the handler";
        let how = "its consumer calls `request` of a producer that is gone";
        seen(cpp, fault, how, "asks nobody; finds nothing and does nothing", TEST);
    });
}

#[test]
fn its_consumer_waits_for_ever_after_an_early_release() {
    const TEST: &str = "its_consumer_waits_for_ever_after_an_early_release";
    bounded(|cpp| {
        for (early, count) in [(SourceFault::ReleasesAtOnce, 0), (SourceFault::ReleasesEarly, 1)] {
            // It is not freed: one of its threads waits.
            let reader = cpp.reader(5);
            let source = Source::of_batches(reader.handler().0, 3, Some(early));
            source.run();
            let (read, said) = reader.read_within(9, MOMENT);
            let said = said.unwrap_err();
            assert!(read == count && said.contains("timed out"), "{early:?}: {read}, {said}");
            // What its threads hold stays where it is.
            std::mem::forget(source);

            let (stream, handler) = AsyncStream::new(5);
            let source = Source::of_batches(handler.into_raw(), 3, Some(early));
            assert_eq!(read_all(stream, &source), (count, Err(ErrorKind::Malformed)));
            source.settle().unwrap();
        }
        let fault = "a release before the schema or the end";
        let how = "its consumer waits for ever";
        seen(cpp, fault, how, "the stream ends with an error (Malformed)", TEST);
    });
}

#[test]
fn a_null_producer_crashes_its_consumer() {
    const TEST: &str = "a_null_producer_crashes_its_consumer";
    let Some(cpp) = arrow_cpp() else { return };
    let end = process::end_of(|| {
        let reader = cpp.reader(5);
        Source::of_batches(reader.handler().0, 3, Some(SourceFault::NoProducer)).run();
    });
    let Some(end) = end else { return };
    assert_eq!(end, End::Crashed, "Arrow C++ no longer crashes");
    let (stream, handler) = AsyncStream::new(5);
    let source = Source::of_batches(handler.into_raw(), 3, Some(SourceFault::NoProducer));
    assert_eq!(read_all(stream, &source), (0, Err(ErrorKind::Malformed)));
    source.settle().unwrap();
    let (fault, how) = ("a handler whose `producer` is null", "its consumer crashes");
    seen(&cpp, fault, how, "refused with an error (Malformed)", TEST);
}

#[test]
fn its_release_of_a_handler_does_not_mark_it() {
    const TEST: &str = "its_release_of_a_handler_does_not_mark_it";
    bounded(|cpp| {
        let reader = cpp.reader(5);
        let source = Source::of_batches(reader.handler().0, 0, None);
        source.run();
        let is_marked = |handler: SentHandler| unsafe { (*handler.0).release.is_none() };
        assert!(!is_marked(reader.handler()), "it has learned to mark it");
        assert_eq!(reader.read(9), (0, Ok(())));
        reader.drop_stream();
        unsafe { reader.free() };
        let (stream, handler) = AsyncStream::new(5);
        let handler = SentHandler(handler.into_raw());
        let source = Source::of_batches(handler.0, 0, None);
        assert_eq!(read_all(stream, &source), (0, Ok(())));
        assert!(is_marked(handler));
        let fault = "the release of a handler";
        seen(cpp, fault, "leaves `release` as it was", "sets it to null", TEST);
    });
}
