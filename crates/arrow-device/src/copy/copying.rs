//! [`Copying`]: a copy whose waits are left to an executor.
//!
//! 1. [`Plan::start`] hands the plan to the executor as a [`Job`] if running the plan would wait
//!    for a device, or is a copy that the host makes. Any other plan runs at once on the calling
//!    thread.
//! 2. The job has a `CopyPromise`. The promise stores the result, and wakes the thread or the task
//!    that waits. A promise that is dropped without a result stores an error.
//! 3. [`Copying`] gives the result away once, to `wait` or to a poll.
//!
//! What must stay true: wakers are cloned, called and dropped without the lock, because they run
//! code of the executor; and nobody waits in a child of `fork` for a thread of the parent.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::plan::piece::Piece;
use super::plan::transfer::Transfer;
use super::plan::walk::Walked;
use super::plan::{Plan, Planned};
use super::route::{CopyRoute, Pace};
use crate::device::driver::Readiness;
use crate::device::nesting;
use crate::pool::per_fork::PerFork;
use crate::process::{MadeIn, OfProcess};
use crate::{Array, Error, ErrorKind, Result, process};

/// Work for an [`Executor`].
pub type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs: a pool of threads, or a runtime's place for work that may block. A closure that takes
/// a [`Job`] is an executor.
pub trait Executor {
    /// Runs the job some time, on whatever thread. Dropping it instead cancels the copy.
    fn execute(&self, job: Job);
}

impl<F: Fn(Job)> Executor for F {
    fn execute(&self, job: Job) {
        self(job);
    }
}

/// A copy that was started, and can be waited for on the host or awaited. Dropping a `Copying`
/// gives the result up, but does not stop the work.
#[must_use = "the result of the copy comes from here"]
pub struct Copying(Arc<CopyState>);

struct CopyState {
    made_in: MadeIn,
    /// The outcome, which belongs to the process that started the copy. A child of `fork` makes
    /// none.
    state: PerFork<Mutex<CopyOutcome>>,
    changed: Condvar,
}

impl CopyState {
    fn new() -> Self {
        let state = PerFork::new();
        let _: &Mutex<CopyOutcome> = state.of_this_process();
        Self { made_in: MadeIn::this(), state, changed: Condvar::new() }
    }

    /// Locks the outcome. `None` in a child of `fork` where a thread of the parent holds the lock
    /// for ever.
    fn lock(&self) -> Option<MutexGuard<'_, CopyOutcome>> {
        self.state.all().next()?.lock(|state| state)
    }

    /// In a child of `fork`, an error that says that no thread may be left to do the work.
    fn refusal(&self) -> Option<Error> {
        (!self.made_in.is_this()).then(|| process::of_the_parent().during("copy"))
    }
}

#[derive(Default)]
struct CopyOutcome {
    result: Option<Result<Array>>,
    /// The result was taken, and no other result follows.
    is_taken: bool,
    waker: Option<OfProcess<Waker>>,
}

impl CopyOutcome {
    /// The result, or an error where the result was taken before. `None` while the copy goes on.
    fn take(&mut self) -> Option<Result<Array>> {
        let result = self.result.take();
        if result.is_none() && self.is_taken {
            let message = "the result was taken already";
            return Some(Err(Error::new(ErrorKind::InvalidArgument, message).during("copy")));
        }
        self.is_taken |= result.is_some();
        result
    }
}

/// Held by the job that does the work. When it is dropped without a result, the copy counts as
/// cancelled.
struct CopyPromise(Option<Arc<CopyState>>);

impl Plan {
    /// Copies as planned, without blocking this thread. The executor does what has to wait for a
    /// device:
    ///
    /// - a copy to the host, or through host memory;
    /// - a copy whose offsets the host has to change on the way, or that begins between two units
    ///   which a device copies;
    /// - a copy from the host in so many pieces that the first has to arrive before the last is
    ///   sent;
    /// - a copy to a device without events.
    ///
    /// Any other copy is submitted at once.
    ///
    /// ```
    /// use arrow_device::copy::{Job, Options};
    /// use arrow_device::{Array, DataType, Queue};
    ///
    /// let numbers = Array::from_values(DataType::Int8, [Some(1_i8), None])?;
    /// let plan = numbers.plan_copy(&Queue::host(), &Options::new().always(true))?;
    /// let copying = plan.start(&|job: Job| drop(std::thread::spawn(job)));
    /// assert!(copying.wait()?.equals(&numbers)?);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn start(self, executor: &dyn Executor) -> Copying {
        let shared = Arc::new(CopyState::new());
        let promise = CopyPromise(Some(shared.clone()));
        match self.0 {
            Planned::Shared(array, _) => promise.keep(Ok(array)),
            Planned::Moves(transfer, walked) if transfer.waits(&walked) => {
                executor.execute(Box::new(move || promise.keep(transfer.run(walked))));
            }
            Planned::Moves(transfer, walked) => {
                promise.keep(Transfer { pace: Pace::Started, ..transfer }.run(walked));
            }
        }
        Copying(shared)
    }
}

impl Transfer {
    /// Whether the copy waits for a device, or is made by the host.
    fn waits(&self, walked: &Walked) -> bool {
        let goes_by_the_host = |piece: &Piece| piece.has_source() && self.comes_by_the_host(piece);
        let waits_on_the_way = match self.route {
            CopyRoute::Staged | CopyRoute::ToHost | CopyRoute::Gather => true,
            CopyRoute::FromHost => self.waits_for_chunks(walked),
            CopyRoute::Within | CopyRoute::Peer(_) => {
                walked.pieces.list().iter().any(goes_by_the_host)
            }
        };
        waits_on_the_way || self.queue.device().properties().readiness == Readiness::HostWait
    }
}

impl Copying {
    /// Waits for the result. The result may itself be ready only after an event.
    ///
    /// In a child of `fork` a copy that has no result yet is [`ErrorKind::Unsupported`]: the thread
    /// that copies may be one of the parent's. A result that was taken by a poll is
    /// [`ErrorKind::InvalidArgument`].
    pub fn wait(self) -> Result<Array> {
        let mut state = self.0.lock();
        loop {
            if let Some(result) = state.as_mut().and_then(|state| state.take()) {
                return result;
            }
            state = match (state, self.0.refusal()) {
                (Some(state), None) => {
                    Some(self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner))
                }
                (_, refusal) => return Err(refusal.unwrap_or_else(process::of_the_parent)),
            };
        }
    }

    /// Whether there is a result. Never waits.
    pub fn is_done(&self) -> bool {
        self.0.lock().is_some_and(|state| state.result.is_some())
    }
}

impl Future for Copying {
    type Output = Result<Array>;

    /// In a child of `fork` a copy that has no result yet is [`ErrorKind::Unsupported`], as for
    /// [`wait`](Copying::wait).
    ///
    /// # Panics
    /// Never; a future that is polled again after its result was taken is an error.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Wakers are cloned and dropped without the lock, because both run code of the executor.
        let mut mine = Some(OfProcess::new(context.waker().clone()));
        let mut state = self.0.lock();
        let result = state.as_mut().and_then(|state| state.take());
        let outcome = match (result, self.0.refusal(), &mut state) {
            (Some(result), ..) => Poll::Ready(result),
            (None, None, Some(state)) => {
                mine = std::mem::replace(&mut state.waker, mine);
                Poll::Pending
            }
            (None, refusal, _) => Poll::Ready(Err(refusal.unwrap_or_else(process::of_the_parent))),
        };
        drop(state);
        drop(mine);
        outcome
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        // The waker is not needed any more. It may own another copy, whose waker may own a third
        // one.
        let waker = self.0.lock().and_then(|mut state| state.waker.take());
        nesting::drop_owned(waker);
    }
}

impl CopyPromise {
    fn keep(mut self, result: Result<Array>) {
        self.fulfil(result);
    }

    fn fulfil(&mut self, result: Result<Array>) {
        let Some(shared) = self.0.take() else { return };
        let waker = {
            // Without the lock, this is a child of `fork`, in which nobody waits.
            let Some(mut state) = shared.lock() else { return };
            state.result = Some(result);
            state.waker.take()
        };
        if shared.made_in.is_this() {
            shared.changed.notify_all();
        }
        // The result is stored by now, whatever the waker does. The waker may own the work of
        // another copy, whose waker may own a third one.
        if let Some(waker) = waker {
            nesting::drop_owned(waker.woken());
        }
    }
}

impl Drop for CopyPromise {
    fn drop(&mut self) {
        let message = "the executor dropped the copy without running it";
        self.fulfil(Err(Error::new(ErrorKind::Cancelled, message).during("copy")));
    }
}

impl fmt::Debug for Copying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Copying({})", if self.is_done() { "done" } else { "going on" })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::{RawWaker, RawWakerVTable};
    use std::time::Duration;

    use super::*;

    thread_local! {
        /// Runs, in an executor's own time, when that executor's waker is cloned.
        static WAITING: RefCell<Option<CopyPromise>> = const { RefCell::new(None) };
    }

    static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, |_| {}, |_| {}, |_| {});

    fn clone(data: *const ()) -> RawWaker {
        drop(WAITING.take());
        RawWaker::new(data, &VTABLE)
    }

    #[test]
    fn an_executor_may_finish_the_copy_while_its_waker_is_cloned() {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let shared = Arc::new(CopyState::new());
            WAITING.set(Some(CopyPromise(Some(shared.clone()))));
            let raw = RawWaker::new(std::ptr::null(), &VTABLE);
            // SAFETY: the functions of the table ignore the data, and what they use is the calling
            // thread's own, so the contract of `RawWakerVTable` is kept on all threads.
            let waker = unsafe { Waker::from_raw(raw) };
            let polled = pin!(Copying(shared)).poll(&mut Context::from_waker(&waker));
            let _ = sender.send(polled.map(|result| result.map(|_| ()).map_err(|e| e.kind())));
        });
        let polled = receiver.recv_timeout(Duration::from_secs(20));
        let polled = polled.expect("the poll returns, so the clone was made without the lock");
        assert_eq!(polled, Poll::Ready(Err(ErrorKind::Cancelled)), "and sees the result");
    }

    #[test]
    #[cfg(panic = "unwind")]
    fn a_waker_that_panics_does_no_harm_to_whoever_did_the_work() {
        struct Panics;
        impl std::task::Wake for Panics {
            fn wake(self: Arc<Self>) {
                panic!("planted");
            }
        }
        let shared = Arc::new(CopyState::new());
        let promise = CopyPromise(Some(shared.clone()));
        let mut copying = pin!(Copying(shared));
        let waker = Waker::from(Arc::new(Panics));
        assert!(copying.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(promise);
        assert!(copying.is_done());
    }

    /// A waker that owns something, and wakes nobody.
    struct Owning {
        _what: std::sync::Mutex<Box<dyn std::any::Any + Send>>,
    }

    impl std::task::Wake for Owning {
        fn wake(self: Arc<Self>) {}
    }

    fn owning(what: impl std::any::Any + Send) -> Waker {
        Waker::from(Arc::new(Owning { _what: std::sync::Mutex::new(Box::new(what)) }))
    }

    /// A copy that has begun, which waits with this waker, and whoever does the work.
    fn awaited(waker: &Waker) -> (CopyPromise, Pin<Box<Copying>>) {
        let shared = Arc::new(CopyState::new());
        let mut copying = Box::pin(Copying(shared.clone()));
        assert!(copying.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
        (CopyPromise(Some(shared)), copying)
    }

    // Requirement: SAF-40
    #[test]
    fn a_copy_that_is_dropped_leaves_no_waker_behind() {
        let counted = Arc::new(());
        let (promise, copying) = awaited(&owning(counted.clone()));
        assert_eq!(Arc::strong_count(&counted), 2);
        drop(copying);
        assert_eq!(Arc::strong_count(&counted), 1, "though the work is not done");
        drop(promise);
    }

    // Requirement: SAF-37
    #[test]
    fn copies_in_the_wakers_of_others_are_released() {
        let many = if cfg!(miri) { 30 } else { 30_000 };
        let counted = Arc::new(());
        let innermost = owning(counted.clone());
        let work = move || {
            let by_work = (0..many).fold(innermost.clone(), |waker, _| owning(awaited(&waker)));
            drop(by_work);
            let by_copy = (0..many).fold(innermost, |waker, _| {
                let (promise, copying) = awaited(&waker);
                owning((copying, promise))
            });
            drop(by_copy);
        };
        std::thread::Builder::new().stack_size(1 << 19).spawn(work).unwrap().join().unwrap();
        assert_eq!(Arc::strong_count(&counted), 1);
    }

    #[test]
    fn a_result_is_taken_once_and_nobody_waits_for_another_one() {
        let (promise, mut copying) = awaited(Waker::noop());
        promise.keep(Array::nulls(3));
        let mut context = Context::from_waker(Waker::noop());
        let mut poll = || match copying.as_mut().poll(&mut context) {
            Poll::Ready(result) => result.map(|array| array.len()).map_err(|error| error.kind()),
            Poll::Pending => panic!("it would never come back"),
        };
        assert_eq!([poll(), poll()], [Ok(3), Err(ErrorKind::InvalidArgument)]);
        let copying = *Pin::into_inner(copying);
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || sender.send(copying.wait().map_err(|error| error.kind())));
        let waited = receiver.recv_timeout(Duration::from_secs(20)).expect("it comes back");
        assert_eq!(waited.err(), Some(ErrorKind::InvalidArgument));
    }
}
