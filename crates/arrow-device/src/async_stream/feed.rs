//! From synchronous to asynchronous: an iterator that runs on a thread of the user's choice, with a
//! bound on what it is ahead.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;

use super::protocol::wake;
use crate::ffi::guard;
use crate::sync::lock;
use crate::{Error, ErrorKind, Result};

/// Makes an iterator a stream: [`Feeder::run`] calls the iterator, and [`Fed`] is the stream of
/// what it gave.
///
/// At most `in_flight` items wait between the two; a bound of 0 is one of 1. The feeder stops, and
/// its thread with it, after the end of the iterator, after an error, or when the stream is
/// dropped.
///
/// ```
/// use arrow_device::async_stream::{Blocking, feed};
///
/// let (feeder, fed) = feed((0..5).map(Ok), 2);
/// let thread = std::thread::spawn(|| feeder.run());
/// let squares: Vec<i32> =
///     Blocking::new(fed).map(|number| number.map(|n| n * n)).collect::<Result<_, _>>()?;
/// assert_eq!(squares, [0, 1, 4, 9, 16]);
/// thread.join().unwrap();
/// # Ok::<(), arrow_device::Error>(())
/// ```
///
/// A synchronous stream is such an iterator:
///
/// ```
/// use arrow_device::ArrayStream;
/// use arrow_device::async_stream::{AsyncProducer, Fed, feed};
///
/// fn asynchronous(stream: ArrayStream) -> AsyncProducer<Fed<arrow_device::Array>> {
///     let (schema, device_type) = (stream.schema().clone(), stream.device_type());
///     let (feeder, fed) = feed(stream, 4);
///     std::thread::spawn(|| feeder.run());
///     AsyncProducer::new(schema, device_type, fed)
/// }
/// ```
pub fn feed<I, T>(iterator: I, in_flight: usize) -> (Feeder<I::IntoIter, T>, Fed<T>)
where
    I: IntoIterator<Item = Result<T>>,
{
    let channel = Arc::new(Channel { state: Mutex::default(), room: Condvar::new() });
    let bound = in_flight.max(1);
    let iterator = iterator.into_iter();
    (Feeder { iterator, bound, channel: channel.clone() }, Fed { channel })
}

/// The end of [`feed`] that calls the iterator.
///
/// One that is dropped without having been run ends the stream with an error.
pub struct Feeder<I, T> {
    iterator: I,
    bound: usize,
    channel: Arc<Channel<T>>,
}

/// The end of [`feed`] that is a [`Stream`].
pub struct Fed<T> {
    channel: Arc<Channel<T>>,
}

struct Channel<T> {
    state: Mutex<FeedState<T>>,
    room: Condvar,
}

struct FeedState<T> {
    items: VecDeque<Result<T>>,
    finished: bool,
    unwanted: bool,
    waker: Option<Waker>,
}

impl<T> Default for FeedState<T> {
    fn default() -> Self {
        Self { items: VecDeque::new(), finished: false, unwanted: false, waker: None }
    }
}

impl<T, I: Iterator<Item = Result<T>>> Feeder<I, T> {
    /// Calls the iterator until it ends, and blocks this thread while enough is waiting. A panic of
    /// the iterator becomes an error of the stream.
    pub fn run(mut self) {
        loop {
            {
                let mut state = lock(&self.channel.state);
                while state.items.len() >= self.bound && !state.unwanted {
                    state = self.channel.room.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                if state.unwanted {
                    return;
                }
            }
            let next = guard::or_panicked(|| self.iterator.next().transpose());
            let is_last = !matches!(next, Ok(Some(_)));
            self.channel.push(next.transpose(), is_last);
            if is_last {
                return;
            }
        }
    }
}

impl<T> Channel<T> {
    fn push(&self, item: Option<Result<T>>, is_last: bool) {
        let mut state = lock(&self.state);
        state.finished |= is_last;
        let unwanted = if state.unwanted {
            item
        } else {
            state.items.extend(item);
            None
        };
        let waker = state.waker.take();
        drop(state);
        drop(unwanted);
        wake(waker);
    }
}

impl<I, T> Drop for Feeder<I, T> {
    fn drop(&mut self) {
        if !lock(&self.channel.state).finished {
            let message = "the iterator was dropped before its end";
            self.channel.push(Some(Err(Error::new(ErrorKind::Cancelled, message))), true);
        }
    }
}

impl<T> Stream for Fed<T> {
    type Item = Result<T>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<T>>> {
        let mut mine = Some(context.waker().clone());
        let mut state = lock(&self.channel.state);
        let outcome = match state.items.pop_front() {
            Some(item) => Poll::Ready(Some(item)),
            None if state.finished => Poll::Ready(None),
            None => {
                mine = std::mem::replace(&mut state.waker, mine);
                Poll::Pending
            }
        };
        drop(state);
        drop(mine);
        self.channel.room.notify_one();
        outcome
    }
}

impl<T> Drop for Fed<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.channel.state);
        state.unwanted = true;
        let items = std::mem::take(&mut state.items);
        let waker = state.waker.take();
        drop(state);
        self.channel.room.notify_one();
        drop(items);
        drop(waker);
    }
}

impl<I, T> fmt::Debug for Feeder<I, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feeder").field("bound", &self.bound).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Fed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fed")
    }
}
