//! Asynchronous streams inside of asynchronous streams, deeper than any stack: those that others
//! read from, those that wakers own, and those whose tasks own tasks of others.

use std::any::Any;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use arrow_device::async_stream::{
    Arrays, ArraysExt, AsyncProducer, AsyncStream, Drive, Outgoing, Task, feed,
};
use arrow_device::{Array, DataType, DeviceType, ErrorKind, Queue, Result, Schema};
use futures_core::Stream;

/// More than any stack holds, and in any case more than a thread drops at once.
const MANY: usize = if cfg!(miri) { 30 } else { 100_000 };

/// More than a stack of half a mebibyte holds.
const SOME: usize = if cfg!(miri) { 30 } else { 20_000 };

type Source = Pin<Box<dyn Stream<Item = Result<Array>> + Send>>;

fn schema() -> Schema {
    Schema::new(DataType::Int64).unwrap()
}

/// Both ends of a stream over a source.
fn connected(
    source: impl Stream<Item = Result<Array>> + Send + 'static,
) -> (Drive<Source>, AsyncStream) {
    let (stream, handler) = AsyncStream::new(1);
    let producer = AsyncProducer::new(schema(), DeviceType::CPU, Box::pin(source) as Source);
    // SAFETY: the handler is the stream's, and is given to nobody else (UNS-10).
    let drive = unsafe { producer.drive(handler.into_raw()) }.unwrap();
    (drive, stream)
}

/// A source with one array, which keeps an owner.
struct One {
    is_over: bool,
    _owner: Arc<()>,
}

impl One {
    fn new(owner: &Arc<()>) -> Self {
        Self { is_over: false, _owner: owner.clone() }
    }
}

impl Stream for One {
    type Item = Result<Array>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Array>>> {
        let array = || Array::from_values(DataType::Int64, [Some(1_i64)]);
        let is_over = std::mem::replace(&mut self.is_over, true);
        Poll::Ready((!is_over).then(array))
    }
}

/// A source that has both ends of another stream, and reads from it.
struct Relay {
    drive: Option<Drive<Source>>,
    arrays: Arrays,
}

impl Relay {
    fn over(source: impl Stream<Item = Result<Array>> + Send + 'static) -> Self {
        let (drive, stream) = connected(source);
        Self { drive: Some(drive), arrays: stream.arrays() }
    }

    /// Over so many others, the innermost of which has one array.
    fn nested(count: usize, owner: &Arc<()>) -> Self {
        (1..count).fold(Self::over(One::new(owner)), |relay, _| Self::over(relay))
    }
}

impl Stream for Relay {
    type Item = Result<Array>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Array>>> {
        // In turn: the consumer asks for an array in its first poll.
        for _ in 0..2 {
            if let Some(drive) = &mut self.drive
                && Pin::new(drive).poll(context).is_ready()
            {
                self.drive = None;
            }
            let asked = Pin::new(&mut self.arrays).poll_next(context);
            if asked.is_ready() {
                return asked;
            }
        }
        Poll::Pending
    }
}

// Requirement: SAF-37
#[test]
fn asynchronous_streams_that_own_one_another_are_released() {
    let owner = Arc::new(());
    drop(Relay::nested(MANY, &owner));
    assert_eq!(Arc::strong_count(&owner), 1);
}

// Requirement: SAF-37
#[test]
fn a_read_through_many_asynchronous_streams_gives_the_data_or_is_refused() {
    let owner = Arc::new(());
    let mut context = Context::from_waker(Waker::noop());
    // Interpreted, the last one takes minutes.
    let counts: &[_] =
        if cfg!(miri) { &[(1, true), (5, true)] } else { &[(1, true), (100, true), (MANY, false)] };
    for &(count, is_read) in counts {
        let mut relay = Relay::nested(count, &owner);
        let Poll::Ready(Some(answer)) = Pin::new(&mut relay).poll_next(&mut context) else {
            panic!("{count}: no answer");
        };
        match answer {
            Ok(array) => assert!(is_read && array.len() == 1, "{count}"),
            Err(error) => {
                assert!(!is_read && error.kind() == ErrorKind::LimitExceeded, "{count}: {error}");
            }
        }
        drop(relay);
        assert_eq!(Arc::strong_count(&owner), 1);
    }
}

/// A waker that owns something, and wakes nobody.
struct Owning {
    _what: Mutex<Box<dyn Any + Send>>,
}

impl Wake for Owning {
    fn wake(self: Arc<Self>) {}
}

/// A source that never has anything.
struct Idle;

impl Stream for Idle {
    type Item = Result<Array>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Array>>> {
        Poll::Pending
    }
}

/// Makes many of something, each of which waits with a waker that owns the one before, and drops
/// the last one, on a thread with little stack.
fn in_wakers<T: Any + Send>(make: impl Fn(&mut Context<'_>) -> T + Send + 'static) {
    let owner = Arc::new(());
    let innermost: Box<dyn Any + Send> = Box::new(owner.clone());
    let work = move || {
        let last = (0..SOME).fold(innermost, |inner, _| {
            let waker = Waker::from(Arc::new(Owning { _what: Mutex::new(inner) }));
            Box::new(make(&mut Context::from_waker(&waker)))
        });
        drop(last);
    };
    std::thread::Builder::new().stack_size(1 << 19).spawn(work).unwrap().join().unwrap();
    assert_eq!(Arc::strong_count(&owner), 1);
}

// Requirement: SAF-37
#[test]
fn feeds_in_the_wakers_of_others_are_released() {
    let nothing = std::iter::empty::<Result<Array>>;
    in_wakers(move |context| {
        let (feeder, mut fed) = feed(nothing(), 1);
        assert!(Pin::new(&mut fed).poll_next(context).is_pending());
        // The stream goes first, and does not wake.
        (fed, feeder)
    });
    in_wakers(move |context| {
        let (feeder, mut fed) = feed(nothing(), 1);
        assert!(Pin::new(&mut fed).poll_next(context).is_pending());
        // The feeder goes first, and wakes.
        (feeder, fed)
    });
}

// Requirement: SAF-37
#[test]
fn streams_in_the_wakers_of_others_are_released() {
    in_wakers(|context| {
        let (mut stream, handler) = AsyncStream::new(1);
        assert!(Pin::new(&mut stream).poll_next(context).is_pending());
        (stream, handler)
    });
    in_wakers(|context| {
        let (mut stream, handler) = AsyncStream::new(1);
        assert!(stream.poll_opened(context).is_pending());
        (handler, stream)
    });
    in_wakers(|context| {
        let (mut drive, stream) = connected(Idle);
        assert!(Pin::new(&mut drive).poll(context).is_pending());
        (drive, stream)
    });
}

/// A source of one task that is made when it is wanted.
struct Promised(Option<Outgoing>);

impl Stream for Promised {
    type Item = Result<Outgoing>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.take().map_or(Poll::Pending, |outgoing| Poll::Ready(Some(Ok(outgoing))))
    }
}

/// A task of a stream of its own, whose work owns something.
fn task_with(what: impl Any + Send) -> Task {
    let (mut stream, handler) = AsyncStream::new(1);
    let outgoing = Outgoing::later(move || {
        drop(what);
        Array::nulls(1)
    });
    let producer = AsyncProducer::new(schema(), DeviceType::CPU, Promised(Some(outgoing)));
    // SAFETY: the handler is the stream's, and is given to nobody else (UNS-10).
    let mut drive = unsafe { producer.drive(handler.into_raw()) }.unwrap();
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..2 {
        assert!(Pin::new(&mut drive).poll(&mut context).is_pending());
    }
    match Pin::new(&mut stream).poll_next(&mut context) {
        Poll::Ready(Some(task)) => task.unwrap(),
        _ => panic!("there is no task"),
    }
}

// Requirement: SAF-37
#[test]
fn tasks_whose_work_owns_tasks_are_released() {
    let owner = Arc::new(());
    let last = (1..SOME).fold(task_with(owner.clone()), |task, _| task_with(task));
    drop(last);
    // Of those that were not sent yet, too.
    let none = Outgoing::later(|| Array::nulls(1));
    let promised = |outgoing| Outgoing::later(move || Err(drop_and_fail(outgoing)));
    drop((0..SOME).fold(none, |outgoing, _| promised(outgoing)));
    assert_eq!(Arc::strong_count(&owner), 1);
}

fn drop_and_fail(outgoing: Outgoing) -> arrow_device::Error {
    drop(outgoing);
    arrow_device::Error::new(ErrorKind::Cancelled, "not made")
}

// Requirement: SAF-37
#[test]
fn a_read_through_many_streams_that_move_gives_the_data_or_is_refused() {
    let owner = Arc::new(());
    let mut context = Context::from_waker(Waker::noop());
    let copied = |source: Source| -> Source { Box::pin(source.copy_to(&Queue::host())) };
    let mapped = |source: Source| -> Source { Box::pin(source.map_arrays(Ok)) };
    for over in [&copied as &dyn Fn(Source) -> Source, &mapped] {
        for (count, is_read) in [(1, true), (100, true), (200, false)] {
            let innermost: Source = Box::pin(One::new(&owner));
            let mut stream = (0..count).fold(innermost, |source, _| over(source));
            let Poll::Ready(Some(answer)) = stream.as_mut().poll_next(&mut context) else {
                panic!("{count}: no answer");
            };
            match answer {
                Ok(array) => assert!(is_read && array.len() == 1, "{count}"),
                Err(error) => {
                    let is_right = !is_read && error.kind() == ErrorKind::LimitExceeded;
                    assert!(is_right, "{count}: {error}");
                }
            }
            drop(stream);
            assert_eq!(Arc::strong_count(&owner), 1);
        }
    }
}
