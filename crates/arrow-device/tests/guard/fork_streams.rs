//! Asynchronous streams in a child of `fork`: the threads at the other end are the parent's, so
//! nothing is waited for, and neither the other party nor a waker of the parent's is called.

use std::ffi::{c_char, c_int};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use arrow_device::abi::{ArrowAsyncDeviceStreamHandler, ArrowAsyncTask, ArrowSchema};
use arrow_device::async_stream::{
    AsyncProducer, AsyncStream, Blocking, Fed, StreamHandler, block_on, feed,
};
use arrow_device::copy::{Job, Options};
use arrow_device::{Array, DataType, DeviceType, Error, ErrorKind, Queue, Result, Schema};
use arrow_device_testkit::process::{alone, forked, while_threads_work};
use futures_core::Stream;

fn expect(is_so: bool, what: impl Into<String>) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(what.into()) }
}

fn refused<T>(outcome: Result<T>, what: &str) -> Result<(), String> {
    match outcome {
        Ok(_) => Err(format!("{what} went well")),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
        Err(error) => Err(format!("{what}: {error}")),
    }
}

/// A stream that gives an error and ends.
fn refused_once<T>(
    mut stream: Blocking<impl Stream<Item = Result<T>> + Unpin>,
) -> Result<(), String> {
    refused(stream.next().ok_or("it ended at once")?, "an item")?;
    expect(stream.next().is_none(), "it goes on after the error")
}

fn numbers() -> Array {
    Array::from_values(DataType::Int64, [Some(1_i64), None]).unwrap()
}

fn schema() -> Schema {
    Schema::new(DataType::Int64).unwrap()
}

/// Counts how often it was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

// Requirement: SAF-27
#[test]
fn what_a_thread_of_the_parent_feeds_is_refused_to_a_child() {
    alone(|| {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let items = [1, 2].into_iter().chain(std::iter::from_fn(move || {
            let _ = wait.recv();
            None
        }));
        let (feeder, fed) = feed(items.map(Ok), 2);
        let feeding = std::thread::spawn(|| feeder.run());
        let mut fed = Blocking::new(fed);
        assert_eq!(fed.next().unwrap().unwrap(), 1);
        forked(|| {
            let mut fed = Blocking::new(fed.into_inner().unwrap());
            // What came before the fork is there, if it came.
            let first = fed.next().ok_or("it ended at once")?;
            if first.is_ok_and(|second| second == 2) {
                refused(fed.next().ok_or("it ended at the fork")?, "an item")?;
            }
            expect(fed.next().is_none(), "it goes on after the error")
        });
        drop(go);
        feeding.join().unwrap();
    });
}

// Requirement: SAF-27
#[test]
fn a_feeder_of_the_parent_calls_and_wakes_nobody_in_a_child() {
    alone(|| {
        let calls = Arc::new(AtomicUsize::new(0));
        let make = || {
            let calls = calls.clone();
            feed(std::iter::repeat_with(move || Ok(calls.fetch_add(1, Ordering::SeqCst))), 1)
        };
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let polled = |mut fed: Fed<usize>| {
            let polled = Pin::new(&mut fed).poll_next(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
            fed
        };
        let ((run, of_run), (dropped, of_dropped)) = (make(), make());
        let (of_run, of_dropped) = (polled(of_run), polled(of_dropped));
        forked(|| {
            // Nobody takes anything out.
            run.run();
            drop(dropped);
            expect(calls.load(Ordering::SeqCst) == 0, "the iterator was called")?;
            expect(woken.0.load(Ordering::SeqCst) == 0, "a waker of the parent's was called")?;
            refused_once(Blocking::new(of_run))?;
            drop(of_dropped);
            expect(Arc::strong_count(&woken) > 1, "a waker of the parent's was dropped")
        });
    });
}

// Requirement: SAF-27
#[test]
fn an_asynchronous_stream_of_the_parent_is_refused_to_a_child() {
    alone(|| {
        let make = || AsyncStream::new(4);
        let [(mut opened, first), (read, second), (woken, third)] = [make(), make(), make()];
        let counter = Arc::new(Woken::default());
        let waker = Waker::from(counter.clone());
        let mut woken = woken.arrays();
        let polled = Pin::new(&mut woken).poll_next(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        forked(|| {
            refused(block_on(opened.opened()), "the schema")?;
            expect(Blocking::new(opened).next().is_none(), "it goes on after the error")?;
            refused_once(Blocking::new(read))?;
            // Released, as a producer releases a handler. The ends of the streams are in the
            // parent.
            drop((first, second, third));
            expect(counter.0.load(Ordering::SeqCst) == 0, "a waker of the parent's was called")?;
            refused_once(Blocking::new(woken))?;
            expect(Arc::strong_count(&counter) > 1, "a waker of the parent's was dropped")
        });
    });
}

static CALLS: AtomicUsize = AtomicUsize::new(0);

/// A consumer that counts how often it is called.
fn counting() -> ArrowAsyncDeviceStreamHandler {
    unsafe extern "C" fn on_schema(
        _: *mut ArrowAsyncDeviceStreamHandler,
        schema: *mut ArrowSchema,
    ) -> c_int {
        CALLS.fetch_add(1, Ordering::SeqCst);
        drop(unsafe { Schema::import(schema) });
        0
    }
    unsafe extern "C" fn on_next_task(
        _: *mut ArrowAsyncDeviceStreamHandler,
        _: *mut ArrowAsyncTask,
        _: *const c_char,
    ) -> c_int {
        CALLS.fetch_add(1, Ordering::SeqCst);
        0
    }
    unsafe extern "C" fn on_error(
        _: *mut ArrowAsyncDeviceStreamHandler,
        _: c_int,
        _: *const c_char,
        _: *const c_char,
    ) {
        CALLS.fetch_add(1, Ordering::SeqCst);
    }
    unsafe extern "C" fn release(_: *mut ArrowAsyncDeviceStreamHandler) {
        CALLS.fetch_add(1, Ordering::SeqCst);
    }
    ArrowAsyncDeviceStreamHandler {
        on_schema: Some(on_schema),
        on_next_task: Some(on_next_task),
        on_error: Some(on_error),
        release: Some(release),
        ..ArrowAsyncDeviceStreamHandler::empty()
    }
}

/// A stream that has nothing yet.
struct Never;

impl Stream for Never {
    type Item = Result<Array>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Array>>> {
        Poll::Pending
    }
}

// Requirement: SAF-27
#[test]
fn a_producer_of_the_parent_calls_no_consumer_in_a_child() {
    alone(|| {
        let [mut fresh, mut begun, mut dropped, mut asked] = [(); 4].map(|()| counting());
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        let mut drive = |handler: *mut ArrowAsyncDeviceStreamHandler, polls: usize| {
            let producer = AsyncProducer::new(schema(), DeviceType::CPU, Never);
            let mut drive = unsafe { producer.drive(handler) }.unwrap();
            for _ in 0..polls {
                assert!(Pin::new(&mut drive).poll(&mut context).is_pending());
            }
            drive
        };
        let fresh = drive(&raw mut fresh, 0);
        let begun = drive(&raw mut begun, 1);
        let dropped = drive(&raw mut dropped, 1);
        let kept = drive(&raw mut asked, 1);
        let before = CALLS.load(Ordering::SeqCst);
        assert_eq!(before, 3, "a schema each");
        forked(|| {
            refused(block_on(fresh), "a new stream")?;
            refused(block_on(begun), "one that was begun")?;
            drop(dropped);
            // SAFETY: the producer is the one that `kept` shows.
            let producer = asked.producer;
            let (request, cancel) = unsafe { ((*producer).request, (*producer).cancel) };
            unsafe { request.unwrap()(producer, 4) };
            unsafe { cancel.unwrap()(producer) };
            expect(woken.0.load(Ordering::SeqCst) == 0, "a waker of the parent's was called")?;
            expect(CALLS.load(Ordering::SeqCst) == before, "the consumer was called")
        });
        drop(kept);
        let calls = CALLS.load(Ordering::SeqCst) - before;
        assert_eq!(calls, 8, "an error and a release of each, in the parent");
    });
}

/// What a callback of the consumer forks into: 0 in the child.
static CHILD: AtomicI32 = AtomicI32::new(-1);

// Requirement: SAF-27
#[test]
fn a_child_that_begins_in_a_call_of_a_consumer_makes_no_more_calls() {
    unsafe extern "C" fn forks(
        _: *mut ArrowAsyncDeviceStreamHandler,
        schema: *mut ArrowSchema,
    ) -> c_int {
        drop(unsafe { Schema::import(schema) });
        // SAFETY: the child only looks at the outcome, and ends by `_exit` below.
        CHILD.store(unsafe { libc::fork() }, Ordering::SeqCst);
        0
    }
    alone(|| {
        let mut handler = ArrowAsyncDeviceStreamHandler { on_schema: Some(forks), ..counting() };
        let producer = AsyncProducer::new(schema(), DeviceType::CPU, Never);
        let mut drive = unsafe { producer.drive(&raw mut handler) }.unwrap();
        let polled = Pin::new(&mut drive).poll(&mut Context::from_waker(Waker::noop()));
        let child = CHILD.load(Ordering::SeqCst);
        if child == 0 {
            let kind = polled.map(|end| end.map_err(|error| error.kind()));
            drop(drive);
            let is_well = kind == Poll::Ready(Err(ErrorKind::Unsupported))
                && CALLS.load(Ordering::SeqCst) == 0;
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(if is_well { 42 } else { 1 }) }
        }
        let mut status = 0;
        // SAFETY: the child is this process's, and nobody else waits for it.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(libc::WEXITSTATUS(status), 42, "the child went on with the parent's consumer");
        assert!(polled.is_pending());
    });
}

// Requirement: SAF-27
#[test]
fn a_task_of_the_parents_is_refused_to_a_child() {
    alone(|| {
        let made = Arc::new(AtomicUsize::new(0));
        let (mut stream, handler) = AsyncStream::new(2);
        let source = std::iter::repeat_with(|| Ok(outgoing(&made))).take(2).collect::<Vec<_>>();
        let (feeder, fed) = feed(source, 4);
        feeder.run();
        let producer = AsyncProducer::new(schema(), DeviceType::CPU, fed);
        let mut drive = pin!(unsafe { producer.drive(handler.into_raw()) }.unwrap());
        let mut context = Context::from_waker(Waker::noop());
        let mut take = || loop {
            let _ = drive.as_mut().poll(&mut context);
            if let Poll::Ready(task) = Pin::new(&mut stream).poll_next(&mut context) {
                return task.unwrap().unwrap();
            }
        };
        let (first, second) = (take(), take());
        let shares = Arc::strong_count(&made);
        forked(|| {
            refused(first.extract(), "a task")?;
            drop(second);
            expect(made.load(Ordering::SeqCst) == 0, "the producer was called")?;
            expect(Arc::strong_count(&made) == shares, "what the producer keeps was dropped")
        });
    });
}

fn outgoing(made: &Arc<AtomicUsize>) -> arrow_device::async_stream::Outgoing {
    let made = made.clone();
    arrow_device::async_stream::Outgoing::later(move || {
        made.fetch_add(1, Ordering::SeqCst);
        Ok(numbers())
    })
}

// Requirement: SAF-27
#[test]
fn a_loop_of_the_parent_ends_with_a_panic_in_a_child() {
    alone(|| {
        let waits = Blocking::new(Never);
        forked(|| {
            let mut waits = waits;
            let next = std::panic::AssertUnwindSafe(move || drop(waits.next()));
            let panic = std::panic::catch_unwind(next).err().ok_or("it ended")?;
            let message = panic.downcast_ref::<String>().map_or("", String::as_str);
            expect(message.contains("fork"), format!("another panic: {message}"))
        });
    });
}

// Requirement: SAF-27
#[test]
fn a_copy_that_ends_in_a_child_wakes_nobody_of_the_parent() {
    alone(|| {
        let jobs = Mutex::new(Vec::new());
        let plan = numbers().plan_copy(&Queue::host(), &Options::new().always(true)).unwrap();
        let mut copying = plan.start(&|job: Job| jobs.lock().unwrap().push(job));
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let polled = Pin::new(&mut copying).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        forked(|| {
            for job in jobs.lock().unwrap().drain(..) {
                job();
            }
            expect(woken.0.load(Ordering::SeqCst) == 0, "a waker of the parent's was called")?;
            let copy = copying.wait().map_err(|error| error.to_string())?;
            expect(copy.len() == 2, "another array")?;
            expect(Arc::strong_count(&woken) > 1, "a waker of the parent's was dropped")
        });
    });
}

/// An array goes through an asynchronous stream.
fn through_a_stream() -> Result<usize> {
    let (stream, handler) = AsyncStream::new(1);
    let (feeder, fed) = feed([Ok(numbers())], 4);
    feeder.run();
    let producer = AsyncProducer::new(schema(), DeviceType::CPU, fed);
    let mut drive = pin!(unsafe { producer.drive(handler.into_raw()) }?);
    let mut context = Context::from_waker(Waker::noop());
    let mut arrays = pin!(stream.arrays());
    loop {
        let _ = drive.as_mut().poll(&mut context);
        match arrays.as_mut().poll_next(&mut context) {
            Poll::Ready(Some(array)) => return array.map(|array| array.len()),
            Poll::Ready(None) => return Err(Error::new(ErrorKind::Cancelled, "it ended")),
            Poll::Pending => {}
        }
    }
}

// Requirement: SAF-27
#[test]
fn a_child_makes_streams_while_threads_of_its_parent_make_some() {
    alone(|| {
        // Made and released: two locks of lists each.
        let work = || {
            for _ in 0..16 {
                let (stream, handler): (AsyncStream, StreamHandler) = AsyncStream::new(1);
                drop((stream, handler));
            }
        };
        while_threads_work(3, work, || {
            for _ in 0..200 {
                forked(|| {
                    let len = through_a_stream().map_err(|error| error.to_string())?;
                    expect(len == 2, "another array")
                });
            }
        });
    });
}

/// A waker that forks where it is woken, and whose child reads a stream of its own. The panic of a
/// waker ends in the library: that the child did well is noted here.
#[derive(Default)]
struct Forks {
    wakes: AtomicUsize,
    children_that_did_well: AtomicUsize,
}

impl Wake for Forks {
    fn wake(self: Arc<Self>) {
        if self.wakes.fetch_add(1, Ordering::SeqCst) > 0 {
            return;
        }
        forked(|| {
            let len = through_a_stream().map_err(|error| error.to_string())?;
            expect(len == 2, "another array")
        });
        self.children_that_did_well.fetch_add(1, Ordering::SeqCst);
    }
}

// Requirement: SAF-26, SAF-27
#[test]
fn a_child_that_begins_in_a_waker_polls_streams_of_its_own() {
    alone(|| {
        let (stream, handler) = AsyncStream::new(1);
        let (feeder, fed) = feed([Ok(numbers()), Ok(numbers())], 4);
        feeder.run();
        let producer = AsyncProducer::new(schema(), DeviceType::CPU, fed);
        let mut drive = unsafe { producer.drive(handler.into_raw()) }.unwrap();
        let task = Arc::new(Forks::default());
        let waker = Waker::from(task.clone());
        assert!(Pin::new(&mut drive).poll(&mut Context::from_waker(&waker)).is_pending());
        let mut arrays = stream.arrays();
        let asked = Pin::new(&mut arrays).poll_next(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(asked, Poll::Ready(Some(Ok(_)))), "{asked:?}");
        assert_eq!(task.children_that_did_well.load(Ordering::SeqCst), 1);
    });
}
