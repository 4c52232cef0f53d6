//! The consumer of asynchronous streams against a producer that is written by hand, as it should be
//! and with each fault, and the checks against consumers that do one thing wrong.

use std::ffi::c_int;
use std::pin::Pin;
use std::ptr;
use std::task::{Context, Poll, Waker};

use arrow_device::abi::{ArrowAsyncDeviceStreamHandler, ArrowAsyncTask};
use arrow_device::async_stream::{AsyncStream, StreamHandler, Task};
use arrow_device::{DeviceType, ErrorKind, Result};
use arrow_device_testkit::assert_complaint;
use arrow_device_testkit::pushed::{Outcome, Sink, SinkFault, Source, SourceFault};
use futures_core::Stream;
use futures_core::stream::FusedStream;

const TASKS: usize = if cfg!(miri) { 3 } else { 5 };
/// Of the moments to drop something at, every so many.
const STRIDE: usize = if cfg!(miri) { 3 } else { 1 };

fn poll(stream: &mut AsyncStream) -> Poll<Option<Result<Task>>> {
    Pin::new(stream).poll_next(&mut Context::from_waker(Waker::noop()))
}

/// How a stream of ours went: what its tasks gave, its error, and whether it ended.
#[derive(Debug, Default)]
struct Read {
    arrays: usize,
    failed_tasks: Vec<arrow_device::Error>,
    error: Option<arrow_device::Error>,
    ended: bool,
}

/// Lets the producer do all that it can, takes a task, and so on until neither can.
fn read_all(stream: &mut AsyncStream, source: &Source) -> Read {
    let mut read = Read::default();
    loop {
        source.run();
        match poll(stream) {
            Poll::Ready(Some(Ok(task))) => {
                assert_eq!(task.device_type(), DeviceType::CPU);
                match task.extract() {
                    Ok(array) => {
                        let first = array.host().unwrap().values::<i64>().unwrap().get(0).unwrap();
                        assert_eq!(first, read.arrays as i64, "arrays come in their order");
                        read.arrays += 1;
                    }
                    Err(error) => read.failed_tasks.push(error),
                }
            }
            Poll::Ready(Some(Err(error))) => read.error = Some(error),
            Poll::Ready(None) => {
                read.ended = true;
                source.run();
                return read;
            }
            Poll::Pending => return read,
        }
    }
}

fn start(window: usize, fault: Option<SourceFault>) -> (AsyncStream, Source) {
    let (stream, handler) = AsyncStream::new(window);
    (stream, Source::new(handler.into_raw(), TASKS, fault))
}

// Requirement: ASY-1, ASY-4, ASY-9, ASY-19
#[test]
fn a_stream_is_read_to_its_end_and_nothing_is_left() {
    for window in [0, 1, 2, TASKS, 100] {
        let (mut stream, source) = start(window, None);
        assert!(poll(&mut stream).is_pending());
        let read = read_all(&mut stream, &source);
        assert_eq!((read.arrays, read.ended, read.error.is_none()), (TASKS, true, true));
        assert_eq!(source.cancels(), 0);
        drop(stream);
        source.settle().unwrap();
    }
}

// Requirement: ASY-4
#[test]
fn nothing_is_asked_for_beyond_the_window() {
    let (mut stream, source) = start(2, None);
    source.run();
    assert_eq!((source.sent(), source.credits()), (2, 0), "the window is full, and stays so");
    let Poll::Ready(Some(Ok(task))) = poll(&mut stream) else { panic!("a task is there") };
    assert_eq!(source.credits(), 1, "taking one out makes room for one");
    source.run();
    assert_eq!(source.sent(), 3);
    drop((task, stream));
    source.run();
    source.settle().unwrap();
}

// Requirement: ASY-7, SAF-30
#[test]
#[cfg(panic = "unwind")]
fn a_producer_is_told_to_stop_where_the_drop_of_a_waker_panics() {
    struct Stubborn;

    impl std::task::Wake for Stubborn {
        fn wake(self: std::sync::Arc<Self>) {}
    }

    impl Drop for Stubborn {
        fn drop(&mut self) {
            panic!("planted");
        }
    }

    let (mut stream, source) = start(2, None);
    // The schema, so that there is somebody to tell.
    assert!(source.step());
    let waker = Waker::from(std::sync::Arc::new(Stubborn));
    assert!(Pin::new(&mut stream).poll_next(&mut Context::from_waker(&waker)).is_pending());
    // The last share is the stream's.
    drop(waker);
    drop(stream);
    source.run();
    assert_eq!(source.cancels(), 1);
    source.settle().unwrap();
}

#[test]
fn a_quarter_of_a_wide_window_is_asked_for_again_at_once() {
    for (window, batch) in [(7, 1), (8, 2), (12, 3)] {
        let (mut stream, handler) = AsyncStream::new(window);
        let source = Source::new(handler.into_raw(), 3 * window, None);
        source.run();
        assert_eq!((source.sent(), source.credits()), (window, 0));
        let mut taken = Vec::new();
        for count in 1..=window {
            let Poll::Ready(Some(Ok(task))) = poll(&mut stream) else { panic!("a task is there") };
            taken.push(task);
            let asked = count / batch * batch;
            assert_eq!(source.credits(), asked as i64, "window {window}, {count} are taken out");
        }
        drop(taken);
        let read = read_rest(&mut stream, &source);
        assert_eq!(read, 2 * window, "window {window}: nobody waits for the other for ever");
    }
}

/// How many tasks there are until neither side can go on, which is the end.
fn read_rest(stream: &mut AsyncStream, source: &Source) -> usize {
    let mut read = 0;
    loop {
        source.run();
        match poll(stream) {
            Poll::Ready(Some(task)) => drop(task.unwrap().extract().unwrap()),
            Poll::Ready(None) => {
                source.run();
                return read;
            }
            Poll::Pending => panic!("stuck after {read} tasks"),
        }
        read += 1;
    }
}

// Requirement: ASY-15
#[test]
fn what_a_producer_says_of_stream_task_and_error_is_there_to_read() {
    let (mut stream, source) = start(4, None);
    assert!(stream.info().is_none());
    source.step();
    source.step();
    let info = stream.info().unwrap();
    assert_eq!(info.metadata.get("rows"), Some(&b"many"[..]));
    assert_eq!(info.schema.data_type(), &arrow_device::DataType::Int64);
    let Poll::Ready(Some(Ok(task))) = poll(&mut stream) else { panic!("a task is there") };
    assert_eq!(task.metadata().get("number"), Some(&b"0"[..]));
    source.fail(libc::ENOSPC, Some("the disk is full"));
    source.run();
    let Poll::Ready(Some(Err(error))) = poll(&mut stream) else { panic!("an error is there") };
    assert_eq!((error.errno(), error.message()), (libc::ENOSPC, "the disk is full"));
    assert_eq!(stream.error_metadata().unwrap().get("where"), Some(&b"there"[..]));
    assert!(matches!(poll(&mut stream), Poll::Ready(None)));
    assert_eq!(task.extract().unwrap().len(), 3, "a task outlives the stream's error and release");
    source.settle().unwrap();
}

// Requirement: ASY-12
#[test]
fn the_text_of_an_error_is_copied() {
    let (mut stream, source) = start(4, None);
    // The producer overwrites the text when `on_error` has returned.
    source.fail(libc::EIO, Some("gone"));
    source.run();
    let Poll::Ready(Some(Err(error))) = poll(&mut stream) else { panic!("an error is there") };
    assert_eq!(error.message(), "gone");
    let sink = Sink::new(4, Some(SinkFault::KeepsText));
    let source = Source::new(sink.handler(), TASKS, None);
    source.fail(libc::EIO, Some("gone"));
    source.run();
    assert_ne!(sink.outcome(), Outcome::Failed(libc::EIO, Some("gone".into())));
    drop(source);
}

// Requirement: ASY-2, ASY-3, ASY-4, ASY-8, ASY-9, ASY-10, ASY-12, ASY-13, ASY-15, ASY-17, SAF-33
#[test]
fn a_producer_that_breaks_a_rule_ends_the_stream_with_an_error_and_leaves_nothing_behind() {
    use SourceFault as F;
    type Case = (SourceFault, usize, Option<(ErrorKind, &'static str)>);
    let cases: &[Case] = &[
        (F::NoProducer, 0, Some((ErrorKind::Malformed, "`producer` of the handler is null"))),
        (F::NoRequest, 0, Some((ErrorKind::Malformed, "`request` of the producer is null"))),
        (F::NoCancel, 0, Some((ErrorKind::Malformed, "`cancel` of the producer is null"))),
        (F::NoSchema, 0, Some((ErrorKind::Released, "the schema is released"))),
        (F::BadMetadata, 0, Some((ErrorKind::Malformed, "-1 pairs"))),
        (F::SchemaTwice, 0, Some((ErrorKind::Malformed, "second schema"))),
        (F::TaskBeforeSchema, 0, Some((ErrorKind::Malformed, "task before the schema"))),
        (F::EndBeforeSchema, 0, Some((ErrorKind::Malformed, "before it gave the schema"))),
        (F::TaskTooMany, 2, Some((ErrorKind::Malformed, "more tasks than it was asked for"))),
        (F::TaskAfterEnd, TASKS, Some((ErrorKind::Malformed, "task after the end"))),
        (F::EndTwice, TASKS, Some((ErrorKind::Malformed, "ended the stream twice"))),
        (F::ErrorAfterEnd, TASKS, Some((ErrorKind::Driver, "after the end"))),
        (F::NoExtract, 0, Some((ErrorKind::Malformed, "`extract_data` of the task is null"))),
        (F::BadTaskMetadata, 0, Some((ErrorKind::Malformed, "-1 pairs"))),
        (F::ReleasesAtOnce, 0, Some((ErrorKind::Malformed, "before it gave the schema"))),
        (F::ReleasesEarly, 1, Some((ErrorKind::Malformed, "before the end"))),
        (F::ReleasesTwice, TASKS, None),
        (F::TaskAfterRelease, TASKS, None),
        (F::SendsInsideRequest, TASKS, None),
        (F::Overlaps, TASKS, None),
        (F::NeverReleases, TASKS, None),
        (F::EndNeedsCredit, TASKS, None),
    ];
    for (fault, arrays, expected) in cases {
        let (mut stream, source) = start(2, Some(*fault));
        let read = read_all(&mut stream, &source);
        let seen = read.error.as_ref().map(|error| (error.kind(), error.message()));
        match (seen, expected) {
            (Some((kind, message)), Some((expected, part))) => {
                assert_eq!(kind, *expected, "{fault:?}: {message}");
                assert!(message.contains(part), "{fault:?}: {message}");
            }
            (None, None) => {}
            _ => panic!("{fault:?}: {seen:?} instead of {expected:?}"),
        }
        assert!(read.ended, "{fault:?}: the stream hangs");
        assert!(read.arrays >= *arrays, "{fault:?}: {} arrays", read.arrays);
        drop(stream);
        source.run();
        if *fault == F::NeverReleases {
            // Late, so that no test leaves a handler behind: it is the producer's until then.
            source.release();
        }
        source.settle().unwrap_or_else(|complaint| panic!("{fault:?}: {complaint}"));
    }
}

// Requirement: ASY-11, ASY-12
#[test]
fn what_comes_after_an_error_or_a_refusal_is_not_taken_and_does_no_harm() {
    let (mut stream, source) = start(2, Some(SourceFault::TaskAfterError));
    source.step();
    source.fail(libc::EIO, Some("first"));
    let read = read_all(&mut stream, &source);
    assert_eq!((read.arrays, read.error.unwrap().message()), (0, "first"));
    assert_eq!(source.refusal(), Some(libc::EINVAL), "the task is left to the producer");
    source.settle().unwrap();

    let (stream, source) = start(2, Some(SourceFault::ErrorAfterRefusal));
    drop(stream);
    source.run();
    assert_eq!(source.refusal(), Some(libc::ECANCELED));
    source.settle().unwrap();
}

// Requirement: ASY-10, ASY-17
#[test]
fn a_task_that_gives_nothing_good_is_an_error_and_the_stream_does_not_hang() {
    use SourceFault as F;
    let cases = [
        (F::ExtractFailsSilently, ErrorKind::Driver, true),
        (F::ExtractFailsAndReleases, ErrorKind::Driver, true),
        (F::ExtractFailsAndWrites, ErrorKind::Driver, true),
        (F::ExtractGivesNothing, ErrorKind::Released, false),
        (F::StrayArray, ErrorKind::SchemaMismatch, false),
        (F::OtherType, ErrorKind::SchemaMismatch, false),
    ];
    // With room for all of them, the end and the release come before the first is extracted.
    for (fault, kind, fails) in cases {
        for window in [2, 100] {
            let (mut stream, source) = start(window, Some(fault));
            let read = read_all_loosely(&mut stream, &source);
            let [failed] = &*read.failed_tasks else { panic!("{fault:?}: {read:?}") };
            assert_eq!((failed.kind(), read.ended), (kind, true), "{fault:?}: {failed}");
            assert_eq!(read.error.is_some(), fails, "{fault:?}, {window}: {:?}", read.error);
            drop(stream);
            source.run();
            source.settle().unwrap_or_else(|complaint| panic!("{fault:?}: {complaint}"));
        }
    }
}

// Requirement: ASY-10
#[test]
fn a_stream_of_arrays_ends_with_what_the_producer_says_of_the_one_that_it_cannot_give() {
    use SourceFault as F;
    let cases = [
        // The producer reports the error after the task has failed.
        (F::ExtractFailsAndWrites, "no data"),
        // These never say more than the number.
        (F::ExtractFailsSilently, "the producer returned 5 and no text"),
        (F::ExtractFailsAndReleases, "the producer returned 5 and no text"),
        // What the consumer itself finds is known at once.
        (F::ExtractGivesNothing, "released"),
    ];
    // Under Miri there are few tasks, and room for two is room for all of them.
    let windows: &[usize] = if cfg!(miri) { &[1, 100] } else { &[1, 2, 100] };
    for (fault, text) in cases {
        for &window in windows {
            let (stream, source) = start(window, Some(fault));
            let mut arrays = stream.arrays();
            let (mut good, mut error) = (0, None);
            for _ in 0..50 {
                source.run();
                match Pin::new(&mut arrays).poll_next(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(Some(Ok(_))) => good += 1,
                    Poll::Ready(Some(Err(told))) => error = Some(told),
                    Poll::Ready(None) => break,
                    Poll::Pending => {}
                }
            }
            let error = error.unwrap_or_else(|| panic!("{fault:?}, {window}: no error"));
            // With room for all tasks the producer is released before it learns of the failure.
            let silent = "the producer returned 5 and no text";
            let text = if window == 100 && text == "no data" { silent } else { text };
            assert!(error.message().contains(text), "{fault:?}, {window}: {error}");
            assert_eq!(good, 1, "{fault:?}, {window}");
            assert!(arrays.is_terminated() && arrays.into_tasks().is_none());
            source.run();
            source.settle().unwrap_or_else(|complaint| panic!("{fault:?}: {complaint}"));
        }
    }
}

/// [`read_all`], where an array is missing.
fn read_all_loosely(stream: &mut AsyncStream, source: &Source) -> Read {
    let mut read = Read::default();
    loop {
        source.run();
        match poll(stream) {
            Poll::Ready(Some(Ok(task))) => match task.extract() {
                Ok(_) => read.arrays += 1,
                Err(error) => read.failed_tasks.push(error),
            },
            Poll::Ready(Some(Err(error))) => read.error = Some(error),
            Poll::Ready(None) => {
                read.ended = true;
                return read;
            }
            Poll::Pending => return read,
        }
    }
}

// Requirement: ASY-7, ASY-9, ASY-14, ASY-18, ASY-20
#[test]
fn a_stream_may_be_dropped_at_any_moment() {
    use SourceFault as F;
    let faults = [
        None,
        Some(F::ErrorOnCancel),
        Some(F::ReleaseInsideCancel),
        Some(F::RequestAfterCancelCounts),
        Some(F::TaskAfterRelease),
        Some(F::ReleasesTwice),
    ];
    for fault in faults {
        // The number of steps of the producer, and of tasks taken, before the drop.
        for steps in (0..=TASKS + 3).step_by(STRIDE) {
            for taken in (0..=3).step_by(STRIDE) {
                let (mut stream, source) = start(3, fault);
                (0..steps).for_each(|_| {
                    source.step();
                });
                let mut tasks = Vec::new();
                for _ in 0..taken {
                    if let Poll::Ready(Some(Ok(task))) = poll(&mut stream) {
                        tasks.push(task);
                    }
                }
                drop(stream);
                source.run();
                for task in tasks {
                    assert_eq!(task.extract().unwrap().len(), 3, "what was taken stays good");
                }
                let when = format!("{fault:?} after {steps} steps and {taken} tasks");
                source.settle().unwrap_or_else(|complaint| panic!("{when}: {complaint}"));
            }
        }
    }
}

// Requirement: ASY-20
#[test]
fn tasks_that_come_after_the_drop_are_taken_and_thrown_away() {
    let (stream, source) = start(3, None);
    source.step();
    drop(stream);
    assert_eq!((source.sent(), source.cancels()), (0, 1));
    source.run();
    assert_eq!(source.sent(), 3, "those that were asked for still come");
    assert_eq!(source.refusal(), None, "and none is refused");
    source.settle().unwrap();
}

// Requirement: ASY-14
#[test]
fn a_stream_that_is_dropped_before_the_schema_is_refused_with_it() {
    let (stream, source) = start(3, None);
    drop(stream);
    source.run();
    assert_eq!((source.refusal(), source.sent(), source.cancels()), (Some(libc::ECANCELED), 0, 0));
    source.settle().unwrap();
}

#[test]
fn a_task_may_be_dropped_instead_of_extracted() {
    let (mut stream, source) = start(1, None);
    let mut count = 0;
    loop {
        source.run();
        match poll(&mut stream) {
            Poll::Ready(Some(task)) => drop(task.unwrap()),
            Poll::Ready(None) => break,
            Poll::Pending => panic!("the stream hangs"),
        }
        count += 1;
    }
    assert_eq!(count, TASKS);
    source.run();
    source.settle().unwrap();
}

#[test]
fn a_handler_that_nobody_gets_ends_its_stream() {
    let (mut stream, handler) = AsyncStream::new(1);
    drop(handler);
    let mut opened = std::pin::pin!(stream.opened());
    let Poll::Ready(Err(error)) = opened.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    else {
        panic!("there is no schema");
    };
    assert!(error.message().contains("before it gave the schema"), "{error}");
    assert!(matches!(poll(&mut stream), Poll::Ready(None)));
}

// Requirement: ASY-13, SAF-33
#[test]
fn callbacks_after_the_release_find_nothing_to_do() {
    let (stream, handler) = AsyncStream::new(1);
    let handler = handler.into_raw();
    let callbacks = unsafe { handler.read() };
    unsafe { callbacks.release.unwrap()(handler) };
    assert!(unsafe { (*handler).is_released() });
    drop(stream);
    // Streams that come and go meanwhile do not get the same place at once.
    for _ in 0..3 {
        drop(AsyncStream::new(1));
    }
    unsafe extern "C" fn never(
        _: *mut ArrowAsyncTask,
        _: *mut arrow_device::abi::ArrowDeviceArray,
    ) -> c_int {
        unreachable!("a task that was refused is the producer's")
    }
    let mut task = ArrowAsyncTask { extract_data: Some(never), ..ArrowAsyncTask::empty() };
    unsafe {
        let next = callbacks.on_next_task.unwrap();
        assert_ne!(next(handler, &raw mut task, ptr::null()), 0);
        assert_ne!(next(handler, ptr::null_mut(), ptr::null()), 0);
        assert_ne!(callbacks.on_schema.unwrap()(handler, ptr::null_mut()), 0);
        callbacks.on_error.unwrap()(handler, 5, ptr::null(), ptr::null());
        callbacks.release.unwrap()(handler);
        let nobody: *mut ArrowAsyncDeviceStreamHandler = ptr::null_mut();
        assert_ne!(next(nobody, ptr::null_mut(), ptr::null()), 0);
        callbacks.release.unwrap()(nobody);
    }
}

// Requirement: ASY-14
#[test]
fn a_release_on_another_thread_may_fall_into_any_call_of_ours() {
    for _ in 0..if cfg!(miri) { 3 } else { 200 } {
        let (mut stream, source) = start(2, None);
        source.run();
        std::thread::scope(|threads| {
            threads.spawn(|| source.release());
            while let Poll::Ready(Some(Ok(task))) = poll(&mut stream) {
                drop(task);
            }
        });
        drop(stream);
        source.settle().unwrap();
    }
}

/// Moves both on until neither can.
fn play(source: &Source, sink: &Sink) {
    loop {
        source.run();
        if sink.take().is_none() && !source.step() {
            return;
        }
    }
}

#[test]
fn a_producer_and_a_consumer_by_hand_have_nothing_against_each_other() {
    let sink = Sink::new(2, None);
    let source = Source::new(sink.handler(), TASKS, None);
    play(&source, &sink);
    assert_eq!(sink.outcome(), Outcome::Ended);
    sink.settle().unwrap();
    source.settle().unwrap();

    let sink = Sink::new(2, None);
    let source = Source::new(sink.handler(), TASKS, None);
    source.step();
    sink.cancel();
    play(&source, &sink);
    assert_eq!((sink.outcome(), source.sent()), (Outcome::Released, 2));
    sink.settle().unwrap();
    source.settle().unwrap();
}

// Requirement: ASY-1, ASY-6, ASY-9, ASY-11, ASY-14, ASY-18, ASY-19, ASY-20
#[test]
fn a_consumer_that_breaks_a_rule_is_found_out() {
    use SinkFault as F;
    let cases = [
        (F::NoOnSchema, "lacks a callback"),
        (F::NoOnNextTask, "lacks a callback"),
        (F::NoOnError, "lacks a callback"),
        (F::NoRelease, "lacks a callback"),
        (F::ExtractsTwice, "extracted 2 times"),
        (F::NeverExtracts, "was never extracted"),
        (F::ExtractsThenRefuses, "extracted, and then refused"),
        (F::LeavesSchema, "was not moved out"),
        (F::RequestsAfterRelease, "`request` was called after the release"),
        (F::CancelsAfterRelease, "`cancel` was called after the release"),
        (F::RequestsInsideError, "`request` was called from inside `on_error`"),
        (F::CancelsInsideRelease, "`cancel` was called from inside `release`"),
        (F::ForgetsAfterCancel, "was never extracted"),
    ];
    for (fault, complaint) in cases {
        let sink = Sink::new(2, Some(fault));
        let source = Source::new(sink.handler(), TASKS, None);
        match fault {
            F::NoOnSchema | F::NoOnNextTask | F::NoOnError | F::NoRelease => {}
            F::ExtractsThenRefuses => {
                sink.refuse_task(1, libc::EINVAL);
                play(&source, &sink);
            }
            F::RequestsInsideError => {
                source.step();
                source.fail(libc::EIO, None);
                play(&source, &sink);
            }
            F::ForgetsAfterCancel => {
                source.step();
                sink.cancel();
                play(&source, &sink);
            }
            _ => play(&source, &sink),
        }
        drop(sink);
        assert_complaint(source.settle(), complaint);
    }

    let sink = Sink::new(2, None);
    let source = Source::new(sink.handler(), TASKS, None);
    source.step();
    sink.request(0);
    play(&source, &sink);
    assert_complaint(source.settle(), "0 tasks were requested");
    assert_eq!(sink.outcome().clone(), {
        Outcome::Failed(libc::EINVAL, Some("at least one must be requested".into()))
    });
}

#[test]
fn everything_may_go_to_another_thread() {
    fn check<T: Send + Sync>() {}
    check::<AsyncStream>();
    check::<StreamHandler>();
    check::<Task>();
    check::<arrow_device::async_stream::Arrays>();
}
