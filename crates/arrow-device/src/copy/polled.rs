//! [`PolledCopy`]: a copy that nobody waits for.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::awaited::Mode;
use super::options::Options;
use super::run::polled;
use crate::{Array, Batch, Error, ErrorKind, Queue, Result};

/// A copy that goes on whenever it is polled, and never waits: for threads that may not block, such
/// as those of a browser's page, of a user interface, or of an executor.
///
/// Work is submitted as soon as it can be, by [`Array::copy_polled`] and by each poll. What a
/// device has to finish first is asked about and not waited for. A copy to the host has its result
/// when the bytes have arrived. A copy to a device has its result as soon as all work is submitted;
/// the result is ready after an event.
///
/// Dropping the copy before it is done gives it up. Submitted work goes on, and the memory that
/// this work uses is kept until its queue has passed it (see [`deferred`](crate::deferred)).
///
/// # Who polls
///
/// With an executor, await the copy: `copy.await` is woken when the copy can go on
/// ([`AwaitedCopy`](super::AwaitedCopy)). Without an executor, the application calls
/// [`poll`](Self::poll) from time to time, for example in each turn of its own loop. In a program
/// without threads, whose driver announces nothing
/// ([`Driver::notify`](crate::driver::Driver::notify)), [`woken_by`](Self::woken_by) makes a future
/// of the copy and says what wakes that future.
///
/// A poll usually asks about one event, and may be called as often as the program likes. Each level
/// of nesting of strings and lists takes one round trip to the device, which reads the lengths of
/// what travels. The bytes take one more round trip, or one for each chunk where they move in
/// chunks.
///
/// # What is different
///
/// A copy that is polled maps no memory, since mappings may wait: the device copies even memory
/// that the host could read in place. An allocation that finds no memory is tried again at the next
/// polls, as long as memory that is held back may help
/// ([`allocation_timeout`](crate::deferred::allocation_timeout)). A result of several allocations
/// takes all of them or none: an incomplete set goes back until the next attempt. An allocator of
/// one's own ([`Options::allocator`]) must not wait either. Where such an allocator hands out
/// memory that work still uses, the copy waits for that work. The host copies some bytes itself,
/// within a poll: from host memory, the offsets of strings and lists that have to change on their
/// way, and what begins between two [units](crate::driver::Properties::copy_unit) of a device.
///
/// ```
/// use arrow_device::copy::Options;
/// use arrow_device::{Array, DataType, Queue};
///
/// let words = Array::from_texts(DataType::Utf8, ["one", "two"].map(Some))?;
/// let mut copy = words.copy_polled(&Queue::host(), &Options::new().always(true))?;
/// let result = loop {
///     // In each turn of the program's own loop:
///     if let Some(result) = copy.poll()? {
///         break result;
///     }
/// };
/// assert!(result.equals(&words)?);
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[must_use = "a copy that is dropped is given up"]
pub struct PolledCopy(PolledState);

enum PolledState {
    GoingOn(Pin<Box<dyn Future<Output = Result<Array>> + Send>>),
    Done(Box<Array>),
    /// The copy could not begin.
    Failed(Error),
    /// The result was taken, or the copy failed.
    Over,
}

impl PolledCopy {
    fn begin(array: &Array, queue: &Queue, options: &Options) -> Result<Self> {
        let work = polled::copy(array.clone(), queue.clone(), options.clone());
        let mut copy = Self(PolledState::GoingOn(Box::pin(work)));
        if let Some(array) = copy.poll()? {
            copy.0 = PolledState::Done(Box::new(array));
        }
        Ok(copy)
    }

    /// A copy that has begun, or one that failed to begin with this error.
    pub(super) fn begun(copy: Result<Self>) -> Self {
        copy.unwrap_or_else(|error| Self(PolledState::Failed(error)))
    }

    /// Goes on until something has to be waited for. Returns the result once, as soon as there is
    /// one.
    ///
    /// # Errors
    /// As for [`Array::copy_to`], and [`InvalidArgument`](ErrorKind::InvalidArgument) after the
    /// result or an error was returned. An error ends the copy. In a child of `fork` a copy that
    /// waits for a device of the parent is [`Unsupported`](ErrorKind::Unsupported).
    pub fn poll(&mut self) -> Result<Option<Array>> {
        let _before = Mode::Polled.begin();
        self.poll_in(&mut Context::from_waker(Waker::noop()))
    }

    /// Waits for the result, as [`Array::copy_to`] does.
    ///
    /// # Errors
    /// As for [`poll`](Self::poll), and [`NotReady`](ErrorKind::NotReady) where a driver
    /// [may not wait](crate::driver#drivers-that-may-not-wait) on this thread.
    pub fn wait(mut self) -> Result<Array> {
        let _before = Mode::Blocking.begin();
        loop {
            if let Some(array) = self.poll_in(&mut Context::from_waker(Waker::noop()))? {
                return Ok(array);
            }
        }
    }

    /// Polls the copy with a waker, which is woken where the [`Mode`] says so.
    pub(super) fn poll_in(&mut self, context: &mut Context<'_>) -> Result<Option<Array>> {
        // The state is `Over` if a destructor or an allocator panics in the poll.
        match std::mem::replace(&mut self.0, PolledState::Over) {
            PolledState::GoingOn(mut work) => match work.as_mut().poll(context) {
                Poll::Ready(result) => result.map(Some),
                Poll::Pending => {
                    self.0 = PolledState::GoingOn(work);
                    Ok(None)
                }
            },
            PolledState::Done(array) => Ok(Some(*array)),
            PolledState::Failed(error) => Err(error),
            PolledState::Over => {
                let message = "the result was taken, or the copy has failed";
                Err(Error::new(ErrorKind::InvalidArgument, message).during("poll a copy"))
            }
        }
    }

    /// Makes a future of the copy. `again` arranges that the future is polled again.
    ///
    /// Whenever the copy cannot go on yet, the future calls `again` with its waker. `again` has the
    /// waker woken: in the next frame, after some time, or by a callback in which the runtime says
    /// that work is done. A waker that is woken at once makes the executor ask without a pause. A
    /// waker that is dropped unwoken leaves the future asleep.
    ///
    /// ```
    /// use std::task::Waker;
    /// use std::time::Duration;
    /// use arrow_device::{Array, DataType};
    ///
    /// let later = |waker: Waker| {
    ///     std::thread::spawn(move || {
    ///         std::thread::sleep(Duration::from_millis(4));
    ///         waker.wake();
    ///     });
    /// };
    /// let numbers = Array::from_values(DataType::Int8, [Some(1_i8), None])?;
    /// let fetched = numbers.fetch()?.woken_by(later);
    /// assert!(arrow_device::async_stream::block_on(fetched)?.equals(&numbers)?);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn woken_by<F: FnMut(Waker) + Unpin>(self, again: F) -> WokenCopy<F> {
        WokenCopy { copy: self, again }
    }
}

impl fmt::Debug for PolledCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.0 {
            PolledState::GoingOn(_) => "going on",
            PolledState::Done(_) => "done",
            PolledState::Failed(_) | PolledState::Over => "over",
        };
        write!(f, "PolledCopy({state})")
    }
}

/// A [`PolledCopy`] as a future. [`PolledCopy::woken_by`] makes it.
#[must_use = "a future does nothing unless it is polled"]
pub struct WokenCopy<F> {
    copy: PolledCopy,
    again: F,
}

impl<F: FnMut(Waker) + Unpin> Future for WokenCopy<F> {
    type Output = Result<Array>;

    /// Calls [`PolledCopy::poll`] once.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.copy.poll() {
            Ok(Some(array)) => Poll::Ready(Ok(array)),
            Err(error) => Poll::Ready(Err(error)),
            Ok(None) => {
                (self.again)(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<F> fmt::Debug for WokenCopy<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.copy, f)
    }
}

impl Array {
    /// [`to_host`](Self::to_host) without a wait: the copy goes on whenever it is polled.
    ///
    /// ```
    /// use arrow_device::{Array, DataType};
    ///
    /// let numbers = Array::from_values(DataType::Int8, [Some(1_i8), None])?;
    /// let mut fetched = numbers.fetch()?;
    /// // What is on the host already is there at once, and shared.
    /// assert!(fetched.poll()?.is_some_and(|array| array.is_same(&numbers)));
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn fetch(&self) -> Result<PolledCopy> {
        self.copy_polled(&Queue::host(), &Options::new())
    }

    /// [`copy_with`](Self::copy_with) without a wait, neither for lengths nor for the end: see
    /// [`PolledCopy`].
    pub fn copy_polled(&self, queue: &Queue, options: &Options) -> Result<PolledCopy> {
        PolledCopy::begin(self, queue, options)
    }
}

impl Batch {
    /// [`to_host`](Self::to_host) without a wait: see [`Array::fetch`]. The result is an array, of
    /// which `Batch::try_from` makes a batch.
    pub fn fetch(&self) -> Result<PolledCopy> {
        self.as_array().fetch()
    }

    /// [`copy_with`](Self::copy_with) without a wait: see [`PolledCopy`]. The result is an array,
    /// of which `Batch::try_from` makes a batch.
    pub fn copy_polled(&self, queue: &Queue, options: &Options) -> Result<PolledCopy> {
        self.as_array().copy_polled(queue, options)
    }
}
