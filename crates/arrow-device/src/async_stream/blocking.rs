//! From asynchronous to synchronous: a loop that waits.

use std::iter::FusedIterator;
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_core::Stream;

use crate::sync::lock;

/// An iterator over a stream, which blocks the thread that asks for the next item until it is there.
///
/// With [`Arrays`](super::Arrays) it is an iterator of results of arrays, as an [`ArrayStream`](crate::ArrayStream) wants one.
/// Do not use it on the thread of an executor that has to drive the producer.
///
/// ```
/// use arrow_device::async_stream::{AsyncStream, Blocking, block_on};
/// use arrow_device::{ArrayStream, Result};
///
/// /// An asynchronous stream as a synchronous one, as soon as it has said what it is.
/// fn synchronous(mut stream: AsyncStream) -> Result<ArrayStream> {
///     let info = block_on(stream.opened())?;
///     Ok(ArrayStream::new(info.schema.clone(), info.device_type, Blocking::new(stream.arrays())))
/// }
/// ```
#[derive(Debug)]
pub struct Blocking<S> {
    /// Nothing any more after the end.
    stream: Option<S>,
}

impl<S: Stream + Unpin> Blocking<S> {
    /// Reads this stream. One that is not `Unpin` is boxed first: `Box::pin(stream)`.
    pub fn new(stream: S) -> Self {
        Self { stream: Some(stream) }
    }

    /// The stream again, unless it is over.
    pub fn into_inner(self) -> Option<S> {
        self.stream
    }
}

impl<S: Stream + Unpin> Iterator for Blocking<S> {
    type Item = S::Item;

    fn next(&mut self) -> Option<S::Item> {
        let stream = self.stream.as_mut()?;
        let item = wait(|context| Pin::new(&mut *stream).poll_next(context));
        if item.is_none() {
            self.stream = None;
        }
        item
    }
}

impl<S: Stream + Unpin> FusedIterator for Blocking<S> {}

/// Runs a future on this thread, and blocks it where there is nothing to do.
///
/// ```
/// assert_eq!(arrow_device::async_stream::block_on(async { 7 }), 7);
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    wait(|context| future.as_mut().poll(context))
}

/// Polls until there is something, and sleeps in between.
fn wait<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let bell = Arc::new(Bell { rang: Mutex::new(false), changed: Condvar::new() });
    let waker = Waker::from(bell.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(outcome) = poll(&mut context) {
            return outcome;
        }
        let mut rang = lock(&bell.rang);
        // It may have rung since the poll.
        while !std::mem::take(&mut *rang) {
            rang = bell.changed.wait(rang).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Wakes the thread that waits. (Not by unparking it: the thread may be another language's.)
struct Bell {
    rang: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *lock(&self.rang) = true;
        self.changed.notify_one();
    }
}
