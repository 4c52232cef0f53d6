//! The producer of asynchronous streams against a consumer that is written by hand, as it should be
//! and with each fault, and the checks against producers that do one thing wrong.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use arrow_device::abi::{ArrowAsyncDeviceStreamHandler, ArrowDeviceArrayStream};
use arrow_device::async_stream::{
    AsyncProducer, AsyncStream, Blocking, Drive, Ending, Failure, Outgoing, block_on, feed,
};
use arrow_device::{
    Array, ArrayStream, DataType, DeviceType, Error, ErrorKind, Metadata, Result, Schema,
};
use arrow_device_testkit::assert_complaint;
use arrow_device_testkit::pushed::{Outcome, Sink, SinkFault, Source, SourceFault};
use futures_core::Stream;

const TASKS: usize = if cfg!(miri) { 3 } else { 5 };

/// What counts as memory of ours: an array that is counted while it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn array(alive: &Arc<AtomicUsize>, first: i64) -> Array {
        alive.fetch_add(1, Ordering::SeqCst);
        let keep = Counted(alive.clone());
        let bytes: Vec<i64> = (first..first + 3).collect();
        let address = bytes.as_ptr().cast_mut().cast();
        let owner = Box::new((bytes, keep));
        let place = arrow_device::DeviceId::CPU;
        let buffer = unsafe { arrow_device::Buffer::foreign(place, address, 24, owner) };
        Array::builder(DataType::Int64).len(3).buffers([None, Some(buffer)]).finish_ready().unwrap()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A stream that gives what it was told to.
pub(crate) struct Scripted(std::collections::VecDeque<Item>);

pub(crate) enum Item {
    Good(Outgoing),
    Bad(Failure),
    Pending,
    Panic,
    /// Does this, and ends.
    EndAfter(Box<dyn FnOnce() + Send + Sync>),
}

impl Stream for Scripted {
    type Item = Result<Outgoing, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.0.pop_front() {
            Some(Item::Good(next)) => Poll::Ready(Some(Ok(next))),
            Some(Item::Bad(failure)) => Poll::Ready(Some(Err(failure))),
            Some(Item::Pending) => {
                self.0.push_front(Item::Pending);
                Poll::Pending
            }
            Some(Item::Panic) => panic!("planted"),
            Some(Item::EndAfter(what)) => {
                what();
                Poll::Ready(None)
            }
            None => Poll::Ready(None),
        }
    }
}

pub(crate) fn good(alive: &Arc<AtomicUsize>, count: usize) -> Vec<Item> {
    let item = |number: usize| Item::Good(Counted::array(alive, number as i64).into());
    (0..count).map(item).collect()
}

pub(crate) fn produce(
    items: Vec<Item>,
    handler: *mut ArrowAsyncDeviceStreamHandler,
) -> Result<Drive<Scripted>> {
    let schema = Schema::new(DataType::Int64)?;
    let producer = AsyncProducer::new(schema, DeviceType::CPU, Scripted(items.into()))
        .with_metadata(Metadata::from_pairs([("rows", "fifteen")])?);
    unsafe { producer.drive(handler) }
}

pub(crate) fn poll<S, T, E>(drive: &mut Drive<S>) -> Poll<Result<Ending>>
where
    S: Stream<Item = Result<T, E>> + 'static,
    T: Into<Outgoing>,
    E: Into<Failure>,
{
    Pin::new(drive).poll(&mut Context::from_waker(Waker::noop()))
}

/// Moves both on until neither can; says how the drive ended, if it did.
fn play(drive: &mut Drive<Scripted>, sink: &Sink) -> Option<Result<Ending>> {
    let mut ending = None;
    loop {
        if ending.is_none()
            && let Poll::Ready(done) = poll(drive)
        {
            ending = Some(done);
        }
        if sink.take().is_none() {
            return ending;
        }
    }
}

pub(crate) fn assert_nothing_left(alive: &AtomicUsize, when: &str) {
    assert_eq!(alive.load(Ordering::SeqCst), 0, "{when}: arrays are left");
}

// Requirement: ASY-2, ASY-3, ASY-4, ASY-8, ASY-9, ASY-13, ASY-17
#[test]
fn a_stream_is_produced_to_its_end_and_nothing_is_left() {
    for window in [1, 2, TASKS as i64, 100] {
        let alive = Arc::default();
        let sink = Sink::new(window, None);
        let mut drive = produce(good(&alive, TASKS), sink.handler()).unwrap();
        let ending = play(&mut drive, &sink).unwrap().unwrap();
        assert_eq!((ending, sink.outcome()), (Ending::Finished, Outcome::Ended));
        assert_eq!(sink.arrived(), TASKS as i64);
        sink.settle().unwrap();
        assert_eq!(
            poll(&mut drive).map(|done| done.unwrap_err().kind()),
            Poll::Ready(ErrorKind::InvalidArgument)
        );
        assert_nothing_left(&alive, "after the end");
    }
}

// Requirement: ASY-4, ASY-8, ASY-16
#[test]
fn nothing_is_sent_without_a_request_and_the_end_needs_none() {
    let alive = Arc::default();
    let sink = Sink::new(0, None);
    let mut drive = produce(good(&alive, 2), sink.handler()).unwrap();
    assert!(poll(&mut drive).is_pending());
    assert_eq!((sink.arrived(), sink.outcome()), (0, Outcome::Open), "the schema alone");
    sink.request(1);
    assert!(poll(&mut drive).is_pending());
    assert_eq!(sink.arrived(), 1);
    assert!(poll(&mut drive).is_pending());
    assert_eq!(sink.arrived(), 1);
    sink.request(1);
    assert!(matches!(poll(&mut drive), Poll::Ready(Ok(Ending::Finished))));
    assert_eq!((sink.arrived(), sink.outcome()), (2, Outcome::Ended));
    sink.discard();
    sink.settle().unwrap();
    assert_nothing_left(&alive, "discarded");
}

// Requirement: ASY-15
#[test]
fn what_is_said_of_stream_task_and_error_reaches_the_consumer() {
    let pairs = |pairs: [(&str, &str); 1]| Metadata::from_pairs(pairs).unwrap();
    let task = Outgoing::later(|| Array::from_values(DataType::Int64, [Some(1_i64)]))
        .with_metadata(pairs([("number", "0")]));
    let failure = Failure {
        error: Error::new(ErrorKind::DeviceLost, "pulled out"),
        metadata: pairs([("slot", "3")]),
    };
    let sink = Sink::new(4, None);
    let items = vec![Item::Good(task), Item::Bad(failure)];
    let mut drive = produce(items, sink.handler()).unwrap();
    assert!(matches!(poll(&mut drive), Poll::Ready(Err(_))));
    let expected = [("rows", "fifteen"), ("number", "0"), ("slot", "3")];
    let expected = expected.map(|pair| pairs([pair]).as_encoded_bytes().unwrap().to_vec());
    assert_eq!(sink.metadata(), expected);
    let text = "device lost: pulled out";
    assert_eq!(sink.outcome(), Outcome::Failed(libc::ENXIO, Some(text.into())));
    assert_eq!(sink.extract_only(), Some(Ok(1)), "a task outlives the release");
    sink.settle().unwrap();
}

// Requirement: ASY-6, ASY-7, ASY-13
#[test]
fn cancelling_at_any_moment_ends_with_a_release_and_no_error() {
    for taken in 0..=TASKS {
        for twice in [false, true] {
            let alive = Arc::default();
            let sink = Sink::new(1, None);
            let mut drive = produce(good(&alive, TASKS), sink.handler()).unwrap();
            assert!(poll(&mut drive).is_pending());
            for _ in 0..taken {
                sink.take();
                let _ = poll(&mut drive);
            }
            if sink.outcome() == Outcome::Open {
                sink.cancel();
                if twice {
                    sink.cancel();
                }
                // Neither is an error any more.
                sink.request(1);
                sink.request(-1);
                assert!(matches!(poll(&mut drive), Poll::Ready(Ok(Ending::Cancelled))));
                assert_eq!(sink.outcome(), Outcome::Released);
            }
            sink.discard();
            sink.settle().unwrap();
            drop(drive);
            assert_nothing_left(&alive, "cancelled");
        }
    }
}

// Requirement: ASY-6
#[test]
fn a_request_for_nothing_or_less_is_an_error() {
    for count in [0, -1, i64::MIN] {
        let alive = Arc::default();
        let sink = Sink::new(1, None);
        let mut drive = produce(good(&alive, TASKS), sink.handler()).unwrap();
        assert!(poll(&mut drive).is_pending());
        sink.request(count);
        let Poll::Ready(Err(error)) = poll(&mut drive) else { panic!("{count} was taken") };
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let Outcome::Failed(libc::EINVAL, Some(text)) = sink.outcome() else {
            panic!("{:?}", sink.outcome())
        };
        assert!(text.contains(&format!("{count} tasks were requested")), "{text}");
        sink.discard();
        sink.settle().unwrap();
        drop(drive);
        assert_nothing_left(&alive, "refused");
    }
}

// Requirement: ASY-11
#[test]
fn a_refusal_is_followed_by_the_release_alone_and_what_was_refused_is_cleaned_up() {
    let alive = Arc::default();
    let sink = Sink::new(2, None);
    sink.refuse_schema(libc::ENOTSUP);
    let mut drive = produce(good(&alive, TASKS), sink.handler()).unwrap();
    let Poll::Ready(Err(error)) = poll(&mut drive) else { panic!("the schema was refused") };
    assert_eq!((error.errno(), sink.outcome()), (libc::ENOTSUP, Outcome::Released));
    sink.settle().unwrap();
    assert_nothing_left(&alive, "schema refused");

    for fault in [None, Some(SinkFault::ExtractsThenRefuses)] {
        let sink = Sink::new(3, fault);
        sink.refuse_task(1, libc::ENOBUFS);
        let mut drive = produce(good(&alive, TASKS), sink.handler()).unwrap();
        let Poll::Ready(Err(error)) = poll(&mut drive) else { panic!("a task was refused") };
        assert_eq!((error.errno(), sink.outcome()), (libc::ENOBUFS, Outcome::Released));
        sink.discard();
        sink.settle().unwrap();
        assert_nothing_left(&alive, "task refused");
    }
}

// Requirement: ASY-10, ASY-13, SAF-30, SAF-31
#[test]
fn a_source_that_fails_or_panics_ends_in_one_error_and_the_release() {
    let stray = || {
        let device = arrow_device::DeviceId::new(DeviceType::CUDA, 0);
        let buffer = unsafe {
            arrow_device::Buffer::foreign(
                device,
                std::ptr::without_provenance_mut(64),
                8,
                Box::new(()),
            )
        };
        Array::builder(DataType::Int64).len(1).buffers([None, Some(buffer)]).finish_ready().unwrap()
    };
    let other = || Array::from_values(DataType::Int32, [Some(1)]).unwrap();
    let failing = || Outgoing::later(|| Err(Error::new(ErrorKind::DeviceLost, "pulled out")));
    let panicking = || Outgoing::later(|| panic!("planted"));
    let cases: Vec<(&str, Item, ErrorKind)> = vec![
        (
            "an error",
            Item::Bad(Error::new(ErrorKind::DeviceLost, "a\0b").into()),
            ErrorKind::DeviceLost,
        ),
        ("a panic", Item::Panic, ErrorKind::Panicked),
        ("an array elsewhere", Item::Good(stray().into()), ErrorKind::SchemaMismatch),
        ("an array of another type", Item::Good(other().into()), ErrorKind::SchemaMismatch),
        ("work that fails", Item::Good(failing()), ErrorKind::DeviceLost),
        ("work that panics", Item::Good(panicking()), ErrorKind::Panicked),
        (
            "work with another type",
            Item::Good(Outgoing::later(move || Ok(other()))),
            ErrorKind::SchemaMismatch,
        ),
        (
            "work elsewhere",
            Item::Good(Outgoing::later(move || Ok(stray()))),
            ErrorKind::SchemaMismatch,
        ),
    ];
    for (name, item, kind) in cases {
        if cfg!(not(panic = "unwind")) && kind == ErrorKind::Panicked {
            continue;
        }
        let alive = Arc::default();
        let mut items = good(&alive, 1);
        items.extend([item, Item::Pending]);
        let sink = Sink::new(4, None);
        let mut drive = produce(items, sink.handler()).unwrap();
        let error = play(&mut drive, &sink).expect(name).unwrap_err();
        assert_eq!(error.kind(), kind, "{name}: {error}");
        let Outcome::Failed(code, Some(_)) = sink.outcome() else {
            panic!("{name}: {:?}", sink.outcome())
        };
        assert_eq!(code, kind.errno(), "{name}");
        sink.settle().unwrap_or_else(|complaint| panic!("{name}: {complaint}"));
        drop(drive);
        assert_nothing_left(&alive, name);
    }
}

// Requirement: ASY-8, ASY-10
#[test]
fn a_task_that_fails_while_the_source_ends_is_reported_instead_of_the_end() {
    let sink = Arc::new(Sink::new(4, None));
    let extracting = sink.clone();
    let extract = move || assert_eq!(extracting.extract_only(), Some(Err(libc::ENXIO)));
    let failing = Outgoing::later(|| Err(Error::new(ErrorKind::DeviceLost, "pulled out")));
    let items = vec![Item::Good(failing), Item::EndAfter(Box::new(extract))];
    let mut drive = produce(items, sink.handler()).unwrap();
    assert!(matches!(poll(&mut drive), Poll::Ready(Err(_))));
    assert!(matches!(sink.outcome(), Outcome::Failed(libc::ENXIO, _)), "{:?}", sink.outcome());
    sink.settle().unwrap();
}

// Requirement: ASY-13
#[test]
fn a_future_that_is_dropped_releases_the_handler() {
    for polls in 0..3 {
        for cancelled in [false, true] {
            let alive = Arc::default();
            let sink = Sink::new(2, None);
            let mut items = good(&alive, TASKS);
            items.push(Item::Pending);
            let mut drive = produce(items, sink.handler()).unwrap();
            (0..polls).for_each(|_| assert!(poll(&mut drive).is_pending()));
            let cancelled = cancelled && polls > 0;
            if cancelled {
                sink.cancel();
            }
            drop(drive);
            match sink.outcome() {
                Outcome::Released => assert!(cancelled),
                Outcome::Failed(code, _) => assert_eq!((code, cancelled), (libc::ECANCELED, false)),
                other => panic!("{other:?}"),
            }
            sink.discard();
            sink.settle().unwrap();
            assert_nothing_left(&alive, "dropped");
        }
    }
}

// Requirement: ASY-1, ASY-9, ASY-14, ASY-18, SAF-33
#[test]
fn a_consumer_that_breaks_a_rule_does_no_harm() {
    use SinkFault as F;
    for fault in [F::NoOnSchema, F::NoOnNextTask, F::NoOnError, F::NoRelease] {
        let alive = Arc::default();
        let sink = Sink::new(2, Some(fault));
        let error = produce(good(&alive, 1), sink.handler()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{fault:?}");
        assert_eq!(sink.settle().is_ok(), fault != F::NoRelease, "{fault:?}: it is released");
        assert_nothing_left(&alive, "no callback");
    }
    let error = produce(Vec::new(), std::ptr::null_mut()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);

    for fault in [
        F::ExtractsTwice,
        F::LeavesSchema,
        F::RequestsAfterRelease,
        F::CancelsAfterRelease,
        F::RequestsInsideError,
        F::CancelsInsideRelease,
        F::RequestsNothing,
    ] {
        let alive = Arc::default();
        let sink = Sink::new(2, Some(fault));
        let mut items = good(&alive, TASKS);
        if fault == F::RequestsInsideError {
            items.push(Item::Bad(Error::new(ErrorKind::Driver, "planted").into()));
        }
        let mut drive = produce(items, sink.handler()).unwrap();
        let ending = play(&mut drive, &sink);
        assert_eq!(ending.is_some(), fault != F::RequestsNothing, "{fault:?}");
        drop(drive);
        sink.settle().unwrap_or_else(|complaint| panic!("{fault:?}: {complaint}"));
        // It calls what is released when it is dropped.
        drop(sink);
        assert_nothing_left(&alive, &format!("{fault:?}"));
    }
}

// Requirement: ASY-9
#[test]
fn a_task_that_is_never_extracted_is_kept_as_long_as_it_may_be() {
    let alive = Arc::default();
    let sink = Sink::new(1, None);
    let mut drive = produce(good(&alive, 1), sink.handler()).unwrap();
    let _ = poll(&mut drive);
    drop(drive);
    assert_eq!(alive.load(Ordering::SeqCst), 1, "the consumer may still want it");
    assert_eq!(sink.extract_only(), Some(Ok(3)));
    assert_nothing_left(&alive, "extracted after the release");
}

// Requirement: ASY-2, ASY-3, ASY-4, ASY-5, ASY-7, ASY-8

// Requirement: ASY-10, ASY-11, ASY-12, ASY-13, ASY-15, ASY-17, ASY-18
#[test]
fn a_producer_that_breaks_a_rule_is_found_out() {
    use SourceFault as F;
    #[derive(PartialEq)]
    enum Then {
        Plays,
        Cancels,
        Refuses,
        Fails,
    }
    let cases = [
        (F::NoProducer, Then::Plays, "before `producer` was set"),
        (F::NoRequest, Then::Plays, "lacks a callback"),
        (F::NoCancel, Then::Plays, "lacks a callback"),
        (F::NoSchema, Then::Plays, "no producer, or no schema"),
        (F::BadMetadata, Then::Plays, "metadata of the stream is malformed"),
        (F::BadTaskMetadata, Then::Plays, "metadata of a task is malformed"),
        (F::SchemaTwice, Then::Plays, "there was a schema already"),
        (F::TaskBeforeSchema, Then::Plays, "before `on_schema`"),
        (F::EndBeforeSchema, Then::Plays, "before `on_schema`"),
        (F::TaskTooMany, Then::Plays, "more tasks than were requested"),
        (F::SendsInsideRequest, Then::Plays, "`request` called `on_next_task`"),
        (F::ErrorOnCancel, Then::Cancels, "a cancel led to an error"),
        (F::ReleaseInsideCancel, Then::Cancels, "`cancel` called `release`"),
        (F::TaskAfterEnd, Then::Plays, "`on_next_task` was called after the end"),
        (F::EndTwice, Then::Plays, "`on_next_task` was called after the end"),
        (F::ErrorAfterEnd, Then::Plays, "`on_error` was called after the end"),
        (F::NoExtract, Then::Plays, "no `extract_data`"),
        (F::ExtractFailsSilently, Then::Plays, "although a task has failed"),
        (F::ExtractFailsAndWrites, Then::Plays, "failed and wrote something"),
        (F::ExtractGivesNothing, Then::Plays, "gave nothing and said nothing"),
        (F::ErrorAfterRefusal, Then::Refuses, "`on_error` was called after a refusal"),
        (F::TaskAfterError, Then::Fails, "`on_next_task` was called after `on_error`"),
        (F::ReleasesTwice, Then::Plays, "`release` was called after the release"),
        (F::NeverReleases, Then::Plays, "`release` was called 0 times"),
        (F::TaskAfterRelease, Then::Plays, "`on_next_task` was called after the release"),
        (F::Overlaps, Then::Plays, "while `on_schema` was running"),
        (F::StrayArray, Then::Plays, "another type of device"),
    ];
    for (fault, then, complaint) in cases {
        let sink = Sink::new(1, None);
        if then == Then::Refuses {
            sink.refuse_task(0, libc::EINVAL);
        }
        let source = Source::new(sink.handler(), TASKS, Some(fault));
        if then == Then::Fails || then == Then::Cancels {
            source.step();
        }
        match then {
            Then::Fails => source.fail(libc::EIO, None),
            Then::Cancels => sink.cancel(),
            Then::Plays | Then::Refuses => {}
        }
        while source.step() || sink.take().is_some() {}
        sink.discard();
        assert_complaint(sink.settle(), complaint);
    }
    let sink = Sink::new(1, None);
    sink.refuse_task(0, libc::EINVAL);
    let source = Source::new(sink.handler(), TASKS, Some(F::RefusedTaskLeaks));
    source.run();
    assert_complaint(source.settle(), "1 allocations leaked");

    // An error is missing where a request cannot be, and one is there after a cancel; the end is
    // missing without credit.
    let sink = Sink::new(1, None);
    let source = Source::new(sink.handler(), TASKS, Some(F::TakesAnyCount));
    source.step();
    sink.request(-1);
    while source.step() || sink.take().is_some() {}
    assert_eq!(sink.outcome(), Outcome::Ended, "a request for less than nothing went through");
    assert_complaint(sink.settle(), "more tasks than were requested");

    let sink = Sink::new(1, None);
    let source = Source::new(sink.handler(), TASKS, Some(F::RequestAfterCancelCounts));
    source.step();
    sink.cancel();
    sink.request(0);
    source.run();
    sink.discard();
    assert_complaint(sink.settle(), "a cancel led to an error");

    let sink = Sink::new(TASKS as i64, None);
    let source = Source::new(sink.handler(), TASKS, Some(F::EndNeedsCredit));
    source.run();
    assert_eq!(sink.outcome(), Outcome::Open, "the end waits for credit");
    sink.discard();
    source.release();
}

#[test]
fn an_iterator_becomes_a_stream_and_a_loop_again() {
    let count = if cfg!(miri) { 5 } else { 300 };
    let numbers = (0..count).map(|number: i64| Array::from_values(DataType::Int64, [Some(number)]));
    let (feeder, fed) = feed(numbers, 3);
    let (stream, handler) = AsyncStream::new(2);
    let producer = AsyncProducer::new(Schema::new(DataType::Int64).unwrap(), DeviceType::CPU, fed);
    let drive = unsafe { producer.drive(handler.into_raw()) }.unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| feeder.run());
        let driving = threads.spawn(|| block_on(drive));
        for (expected, array) in (0..count).zip(Blocking::new(stream.arrays())) {
            let host = array.unwrap().host().unwrap();
            assert_eq!(host.values::<i64>().unwrap().get(0).unwrap(), expected);
        }
        // The loop stopped before it saw the end, so the stream was cancelled or had ended.
        driving.join().unwrap().unwrap();
    });
}

#[test]
fn a_synchronous_stream_goes_through_an_asynchronous_one_and_comes_back() {
    let numbers = || (0..3_i64).map(|number| Array::from_values(DataType::Int64, [Some(number)]));
    let schema = Schema::new(DataType::Int64).unwrap();
    let mut c_stream = ArrowDeviceArrayStream::empty();
    ArrayStream::new(schema, DeviceType::CPU, numbers()).export(&mut c_stream);

    // From a C struct into a handler: the iterator runs on a thread of its own.
    let imported = unsafe { ArrayStream::import(&mut c_stream) }.unwrap();
    let (schema, device_type) = (imported.schema().clone(), imported.device_type());
    let (feeder, fed) = feed(imported, 1);
    let (mut stream, handler) = AsyncStream::new(1);
    let producer = AsyncProducer::new(schema, device_type, fed);
    let drive = unsafe { producer.drive(handler.into_raw()) }.unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| feeder.run());
        threads.spawn(|| block_on(drive).unwrap());

        // And from a handler into a C struct again.
        let info = block_on(stream.opened()).unwrap();
        let loops = Blocking::new(stream.arrays());
        let again = ArrayStream::new(info.schema.clone(), info.device_type, loops);
        let mut c_stream = ArrowDeviceArrayStream::empty();
        again.export(&mut c_stream);
        let stream = unsafe { ArrayStream::import(&mut c_stream) }.unwrap();
        let lengths: Vec<usize> = stream.map(|array| array.unwrap().len()).collect();
        assert_eq!(lengths, [1, 1, 1]);
    });
}

#[test]
fn a_feeder_is_never_further_ahead_than_its_bound() {
    let made = Arc::new(AtomicUsize::new(0));
    let counting = made.clone();
    let numbers = (0..20).map(move |number| {
        counting.fetch_add(1, Ordering::SeqCst);
        Ok(number)
    });
    let (feeder, fed) = feed(numbers, 3);
    let thread = std::thread::spawn(|| feeder.run());
    for (taken, number) in Blocking::new(fed).enumerate() {
        assert_eq!(number.unwrap(), taken);
        // Three wait, this one is taken, and one more may be in the iterator's hands.
        assert!(made.load(Ordering::SeqCst) <= taken + 5);
    }
    thread.join().unwrap();
}

#[test]
fn a_feeder_stops_where_nobody_listens_and_says_so_where_it_is_dropped() {
    let (feeder, fed) = feed((0..).map(Ok::<u64, Error>), 2);
    let thread = std::thread::spawn(|| feeder.run());
    assert_eq!(Blocking::new(fed).take(3).map(Result::unwrap).sum::<u64>(), 3);
    thread.join().unwrap();

    let (feeder, fed) = feed((0..).map(Ok::<u64, Error>), 2);
    drop(feeder);
    let items: Vec<_> = Blocking::new(fed).map(|item| item.unwrap_err().kind()).collect();
    assert_eq!(items, [ErrorKind::Cancelled]);

    let (feeder, fed) = feed([Ok(1), Err(Error::new(ErrorKind::Driver, "planted")), Ok(2)], 9);
    feeder.run();
    let items: Vec<_> = Blocking::new(fed).map(|item| item.map_err(|error| error.kind())).collect();
    assert_eq!(items, [Ok(1), Err(ErrorKind::Driver)], "an error is the last item");

    if cfg!(panic = "unwind") {
        let (feeder, fed) =
            feed(std::iter::from_fn(|| -> Option<Result<u64>> { panic!("planted") }), 1);
        feeder.run();
        let items: Vec<_> = Blocking::new(fed).map(|item| item.unwrap_err().kind()).collect();
        assert_eq!(items, [ErrorKind::Panicked]);
    }
}

#[test]
fn everything_may_go_to_another_thread() {
    fn check<T: Send + Sync>() {}
    check::<AsyncProducer<Vec<Array>>>();
    check::<Drive<arrow_device::async_stream::Arrays>>();
    check::<Outgoing>();
    check::<Drive<Scripted>>();
}
