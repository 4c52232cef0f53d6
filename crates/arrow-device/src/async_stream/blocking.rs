//! From asynchronous to synchronous: a loop that waits.

use std::iter::FusedIterator;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_core::Stream;

use super::outlet::refused_polls;
use crate::device::waiter;
use crate::process::{self, MadeIn};
use crate::sync::lock;

/// An iterator over a stream. It blocks the thread that asks for the next item until the item is
/// there.
///
/// Over [`Arrays`](super::Arrays) it is an iterator of results of arrays, from which an
/// [`ArrayStream`](crate::ArrayStream) can be made. Do not use it on the thread of an executor that
/// has to drive the producer.
///
/// # Panics
/// * In a child of `fork`, where the iterator was made before the fork and the stream has no item
///   yet: the thread that would wake it is one of the parent's. The streams of this crate give an
///   error there instead.
/// * In a waker that a consumer's call wakes, if the stream polls a [`Drive`](super::Drive), which
///   does nothing there.
///
/// ```
/// use arrow_device::async_stream::{AsyncStream, Blocking, block_on};
/// use arrow_device::{ArrayStream, Result};
///
/// /// An asynchronous stream as a synchronous one, as soon as it has said what it is.
/// fn synchronous(mut stream: AsyncStream) -> Result<ArrayStream> {
///     let info = block_on(stream.opened())?;
///     Ok(ArrayStream::new(
///         info.schema.clone(),
///         info.device_type,
///         Blocking::new(stream.arrays()),
///     ))
/// }
/// ```
#[derive(Debug)]
pub struct Blocking<S> {
    /// The stream. `None` after the end.
    stream: Option<S>,
    sleeper: Sleeper,
}

impl<S: Stream + Unpin> Blocking<S> {
    /// Makes an iterator over this stream. Box a stream that is not `Unpin` first:
    /// `Box::pin(stream)`.
    pub fn new(stream: S) -> Self {
        Self { stream: Some(stream), sleeper: Sleeper::new() }
    }

    /// The stream, unless it is over.
    pub fn into_inner(self) -> Option<S> {
        self.stream
    }
}

impl<S: Stream + Unpin> Iterator for Blocking<S> {
    type Item = S::Item;

    fn next(&mut self) -> Option<S::Item> {
        let stream = self.stream.as_mut()?;
        let item = self.sleeper.wait(|context| Pin::new(&mut *stream).poll_next(context));
        if item.is_none() {
            self.stream = None;
        }
        item
    }
}

impl<S: Stream + Unpin> FusedIterator for Blocking<S> {}

/// Runs a future on this thread, and blocks the thread while the future has nothing to do.
///
/// # Panics
/// * Where the future forks the process and has nothing to do in the child: the thread that would
///   wake it is one of the parent's.
/// * In a waker that a consumer's call wakes, if the future waits for a [`Drive`](super::Drive). No
///   consumer is called from inside the call of any consumer, so the `Drive` cannot go on before
///   the waker returns.
///
/// ```
/// assert_eq!(arrow_device::async_stream::block_on(async { 7 }), 7);
/// ```
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    let mut future = pin!(future.into_future());
    Sleeper::new().wait(|context| future.as_mut().poll(context))
}

/// How often a thread looks whether it was woken before it sleeps. In a busy stream, the next item
/// comes from another thread within this time, and sleeping and waking would take longer.
const LOOKS: u32 = 50;

/// A thread that waits, and what wakes it. (Unparking would not do, because the thread may belong
/// to another language.)
#[derive(Debug)]
struct Sleeper {
    bell: Arc<Bell>,
    waker: Waker,
}

impl Sleeper {
    fn new() -> Self {
        let bell = Arc::new(Bell::new());
        Self { waker: Waker::from(bell.clone()), bell }
    }

    /// Polls until there is a result, and sleeps between the polls.
    ///
    /// # Panics
    /// Where this thread would wait for itself, and in a child of the process that made this value.
    fn wait<T>(&mut self, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
        let mut context = Context::from_waker(&self.waker);
        loop {
            let refused = refused_polls();
            if let Poll::Ready(outcome) = poll(&mut context) {
                return outcome;
            }
            assert!(
                refused == refused_polls(),
                "a waker waits for a `Drive`, which cannot go on before the waker has returned"
            );
            assert!(
                !waiter::is_waiter(),
                "a waker blocks the thread that wakes whoever awaits an event"
            );
            self.bell.wait();
        }
    }
}

#[derive(Debug)]
struct Bell {
    made_in: MadeIn,
    rang: AtomicBool,
    /// Whether a thread sleeps, or is about to.
    sleeps: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Bell {
    fn new() -> Self {
        Self {
            made_in: MadeIn::watched(),
            rang: AtomicBool::new(false),
            sleeps: AtomicBool::new(false),
            lock: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    /// Waits until the bell has rung since the last wait.
    ///
    /// # Panics
    /// In a child of the process that made the bell, unless it has rung already.
    fn wait(&self) {
        for _ in 0..LOOKS {
            // A load first, because it does not disturb the threads that ring.
            if self.rang.load(Ordering::Relaxed) && self.rang.swap(false, Ordering::Acquire) {
                return;
            }
            std::hint::spin_loop();
        }
        assert!(self.made_in.is_this(), "{}", process::of_the_parent());
        let mut locked = lock(&self.lock);
        // Sequentially consistent with `ring`: either this thread sees that it rang, or the ringing
        // thread sees that this one sleeps. The ringing thread then gets the lock only once this
        // one waits.
        self.sleeps.store(true, Ordering::SeqCst);
        while !self.rang.swap(false, Ordering::SeqCst) {
            locked = self.changed.wait(locked).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleeps.store(false, Ordering::Relaxed);
    }

    fn ring(&self) {
        let rang = self.rang.swap(true, Ordering::SeqCst);
        // A thread that slept at a fork sleeps only in the parent.
        if !rang && self.sleeps.load(Ordering::SeqCst) && self.made_in.is_this() {
            drop(lock(&self.lock));
            self.changed.notify_one();
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_is_woken_each_time() {
        let (here, there) = (Arc::new(Bell::new()), Arc::new(Bell::new()));
        let turns = if cfg!(miri) { 5 } else { 2000 };
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for _ in 0..turns {
                    there.wait();
                    here.ring();
                }
            });
            for _ in 0..turns {
                there.ring();
                here.wait();
            }
        });
        assert!(!here.rang.load(Ordering::Relaxed) && !there.rang.load(Ordering::Relaxed));
    }

    // Requirement: SAF-26
    #[test]
    fn a_ring_before_the_wait_counts_once() {
        let bell = Arc::new(Bell::new());
        bell.ring();
        bell.ring();
        bell.wait();
        assert!(!bell.rang.load(Ordering::Relaxed));
    }
}
