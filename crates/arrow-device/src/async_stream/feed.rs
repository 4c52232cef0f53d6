//! From synchronous to asynchronous: an iterator that runs on a thread of the user's choice. A
//! bound limits how far it runs ahead.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;

use crate::device::{deferred, nesting};
use crate::ffi::guard;
use crate::process::{self, ForkMutex, MadeIn, OfProcess};
use crate::{Error, ErrorKind, Result};

/// Makes a stream of an iterator. [`Feeder::run`] calls the iterator, and [`Fed`] is the stream of
/// its items.
///
/// At most `in_flight` items wait between the feeder and the stream. A number of 0 counts as 1. The
/// feeder returns after the end of the iterator, after an error, or when the stream is dropped.
///
/// In a child of `fork` the other end may be a thread of the parent. There the stream gives the
/// items that were waiting at the fork, and then one error, [`ErrorKind::Unsupported`], instead of
/// the remaining items. The feeder returns at once in the child.
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
    let made_in = MadeIn::watched();
    let channel = Arc::new(Channel { made_in, state: ForkMutex::default(), room: Condvar::new() });
    let bound = in_flight.max(1);
    let iterator = iterator.into_iter();
    (Feeder { iterator, bound, channel: channel.clone() }, Fed { channel, is_over: false })
}

/// The end of [`feed`] that calls the iterator.
///
/// A feeder that is dropped without having been run ends the stream with an error.
pub struct Feeder<I, T> {
    iterator: I,
    bound: usize,
    channel: Arc<Channel<T>>,
}

/// The end of [`feed`] that is a [`Stream`].
pub struct Fed<T> {
    channel: Arc<Channel<T>>,
    /// Set in a child of `fork` once the error was given.
    is_over: bool,
}

struct Channel<T> {
    made_in: MadeIn,
    state: ForkMutex<FeedState<T>>,
    room: Condvar,
}

impl<T> Drop for Channel<T> {
    fn drop(&mut self) {
        if self.state.get_mut().is_none() {
            // This is a child of `fork`, and a thread of the parent holds the items for ever.
            deferred::count_abandoned();
        }
    }
}

struct FeedState<T> {
    items: VecDeque<Result<T>>,
    finished: bool,
    unwanted: bool,
    waker: Option<OfProcess<Waker>>,
}

impl<T> Default for FeedState<T> {
    fn default() -> Self {
        Self { items: VecDeque::new(), finished: false, unwanted: false, waker: None }
    }
}

impl<T, I: Iterator<Item = Result<T>>> Feeder<I, T> {
    /// Calls the iterator until it ends, and blocks this thread while `in_flight` items are
    /// waiting. A panic of the iterator becomes an error of the stream.
    ///
    /// Returns at once in a child of the process that has made the feeder.
    pub fn run(mut self) {
        loop {
            {
                let Some(mut state) = self.channel.lock_here() else { return };
                while state.items.len() >= self.bound && !state.unwanted {
                    state = self.channel.room.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                if state.unwanted {
                    return;
                }
            }
            let next = guard::or_panicked(|| self.iterator.next().transpose());
            let is_last = !matches!(next, Ok(Some(_)));
            if let Some(waker) = self.channel.push(next.transpose(), is_last) {
                waker.wake();
            }
            if is_last {
                return;
            }
        }
    }
}

impl<T> Channel<T> {
    /// Locks the state. `None` in a child of the process that made the channel.
    fn lock_here(&self) -> Option<MutexGuard<'_, FeedState<T>>> {
        if self.made_in.is_this() { self.state.lock().ok() } else { None }
    }

    /// Adds an item, and returns the waker that is to be woken.
    fn push(&self, item: Option<Result<T>>, is_last: bool) -> Option<OfProcess<Waker>> {
        let mut state = self.lock_here()?;
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
        waker
    }
}

impl<I, T> Drop for Feeder<I, T> {
    fn drop(&mut self) {
        if self.channel.lock_here().is_some_and(|state| !state.finished) {
            let message = "the iterator was dropped before its end";
            let error = Error::new(ErrorKind::Cancelled, message);
            if let Some(waker) = self.channel.push(Some(Err(error)), true) {
                // The waker may own another feeder, and so on.
                nesting::drop_owned(waker.woken());
            }
        }
    }
}

impl<T> Stream for Fed<T> {
    type Item = Result<T>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<T>>> {
        let mut mine = Some(OfProcess::new(context.waker().clone()));
        let Some(mut state) = self.channel.lock_here() else {
            return Poll::Ready(self.get_mut().next_in_a_child());
        };
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

impl<T> Fed<T> {
    /// In a child of `fork`: the next item that the parent's feeder had left, and then the error.
    #[cold]
    fn next_in_a_child(&mut self) -> Option<Result<T>> {
        if self.is_over {
            return None;
        }
        let refusal = match self.channel.state.lock() {
            Ok(mut state) => match state.items.pop_front() {
                None if !state.finished => process::of_the_parent(),
                item_or_end => return item_or_end,
            },
            Err(refusal) => refusal,
        };
        self.is_over = true;
        Some(Err(refusal))
    }
}

impl<T> Drop for Fed<T> {
    fn drop(&mut self) {
        let Ok(mut state) = self.channel.state.lock() else { return };
        state.unwanted = true;
        let items = std::mem::take(&mut state.items);
        let waker = state.waker.take();
        drop(state);
        self.channel.room.notify_one();
        drop(items);
        // The waker may own another stream, in which a task waits, and so on.
        nesting::drop_owned(waker);
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
