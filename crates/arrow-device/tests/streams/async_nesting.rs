//! Asynchronous streams inside of asynchronous streams, deeper than any stack.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use arrow_device::async_stream::{Arrays, AsyncProducer, AsyncStream, Drive};
use arrow_device::{Array, DataType, DeviceType, ErrorKind, Result, Schema};
use futures_core::Stream;

/// More than any stack holds, and in any case more than a thread drops at once.
const MANY: usize = if cfg!(miri) { 30 } else { 100_000 };

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
