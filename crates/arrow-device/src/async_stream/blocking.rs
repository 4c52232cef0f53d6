//! From asynchronous to synchronous: a loop that waits.

use std::iter::FusedIterator;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use futures_core::Stream;

/// An iterator over a stream, which blocks the thread that asks for the next item until it is there.
///
/// With [`Arrays`](super::Arrays) it is an iterator of results of arrays, as a synchronous stream wants one. Do not use it on
/// the thread of an executor that has to drive the producer.
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
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(outcome) = poll(&mut context) {
            return outcome;
        }
        // An `unpark` that came since the poll makes this return at once.
        std::thread::park();
    }
}
