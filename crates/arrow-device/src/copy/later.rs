//! [`Copying`]: a copy that goes on elsewhere.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use super::plan::Plan;
use super::route::CopyRoute;
use crate::sync::lock;
use crate::{Array, Error, ErrorKind, Result};

/// Work for an [`Executor`].
pub type Job = Box<dyn FnOnce() + Send>;

/// Somebody who runs jobs: a pool of threads, a runtime's place for work that may block. A closure
/// that takes a [`Job`] is one.
pub trait Executor {
    /// Runs the job some time, on whatever thread. Dropping it instead cancels the copy.
    fn execute(&self, job: Job);
}

impl<F: Fn(Job)> Executor for F {
    fn execute(&self, job: Job) {
        self(job);
    }
}

/// A copy that was started: to be waited for on the host, or awaited. Dropping it gives the result
/// up, not the work.
#[must_use = "the result of the copy comes from here"]
pub struct Copying(Arc<CopyState>);

struct CopyState {
    state: Mutex<CopyOutcome>,
    changed: Condvar,
}

#[derive(Default)]
struct CopyOutcome {
    result: Option<Result<Array>>,
    waker: Option<Waker>,
}

/// Whoever does the work. Dropped without a result it says that the work was cancelled.
struct CopyPromise(Option<Arc<CopyState>>);

impl Plan {
    /// Copies, as planned, and blocks nobody here: what has to wait, a copy through host memory and
    /// one to the host, is done by the executor. Any other copy is submitted at once.
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
        let shared = Arc::new(CopyState { state: Mutex::default(), changed: Condvar::new() });
        let promise = CopyPromise(Some(shared.clone()));
        match self.route {
            CopyRoute::Staged | CopyRoute::ToHost | CopyRoute::Gather => {
                executor.execute(Box::new(move || promise.keep(self.run())));
            }
            _ => promise.keep(self.run()),
        }
        Copying(shared)
    }
}

impl Copying {
    /// Waits for the result, which may in turn be ready after an event only.
    pub fn wait(self) -> Result<Array> {
        let mut state = lock(&self.0.state);
        loop {
            if let Some(result) = state.result.take() {
                return result;
            }
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether there is a result. Never waits.
    pub fn is_done(&self) -> bool {
        lock(&self.0.state).result.is_some()
    }
}

impl Future for Copying {
    type Output = Result<Array>;

    /// # Panics
    /// Never; a future that is polled again after its result was taken stays pending.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.0.state);
        match state.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                let earlier = state.waker.replace(context.waker().clone());
                drop(state);
                // Somebody else's code, so without the lock.
                drop(earlier);
                Poll::Pending
            }
        }
    }
}

impl CopyPromise {
    fn keep(mut self, result: Result<Array>) {
        self.fulfil(result);
    }

    fn fulfil(&mut self, result: Result<Array>) {
        let Some(shared) = self.0.take() else { return };
        let waker = {
            let mut state = lock(&shared.state);
            state.result = Some(result);
            state.waker.take()
        };
        shared.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
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
