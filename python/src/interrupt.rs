//! Waits that Ctrl-C ends.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use arrow_device::deferred::{self, HeldBack};
use arrow_device::{Array, Error, ErrorKind, Result};
use pyo3::prelude::*;

use crate::error::{OrRaise, invalid};

/// How long a signal waits until somebody looks.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// A time limit as Python has it.
pub(crate) fn seconds(timeout: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(timeout).map_err(|_| {
        invalid(format!("a timeout is a number of seconds from 0 to 2**64, and not {timeout:?}"))
    })
}

/// Does something that may block on a thread of its own, and waits for it without the interpreter's
/// lock.
///
/// A signal handler that raises, as Ctrl-C's does, ends the wait and not the work: drivers know no
/// way to stop a wait. The thread ends when the work does, and what it holds is kept until then.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    run(py, work)?.or_raise()
}

/// Does the same where it may take long, and else without a thread, which takes longer to begin
/// than short work does. The outer error is the signal handler's exception.
pub(crate) fn run_if<T: Send + 'static>(
    py: Python<'_>,
    is_long: bool,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<Result<T>> {
    if is_long { run(py, work) } else { Ok(py.detach(work)) }
}

/// [`interruptible`], with the error of the work apart from the signal handler's exception.
fn run<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<Result<T>> {
    let (done, outcome) = mpsc::sync_channel(1);
    let run = move || {
        // Nobody listens any more after an interrupt.
        let _ = done.send(work());
    };
    let started = thread::Builder::new().name("arrow_device wait".into()).spawn(run);
    started.map_err(|error| Error::other(error).during("wait")).or_raise()?;
    let outcome = Mutex::new(outcome);
    loop {
        let received =
            py.detach(|| outcome.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LOOK));
        match received {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                let message = "the thread that waited panicked";
                return Ok(Err(Error::new(ErrorKind::Panicked, message)));
            }
        }
    }
}

/// Waits until an array's data may be used.
pub(crate) fn wait(py: Python<'_>, array: &Array) -> PyResult<()> {
    // Where nothing is pending no thread is needed, and neither is an open device.
    if array.ready() == arrow_device::Ready::Now {
        return Ok(());
    }
    let array = array.clone();
    if py.detach(|| array.is_ready()).or_raise()? {
        return Ok(());
    }
    interruptible(py, move || array.wait())
}

/// Waits until everything that was held back has been released, at most this long. Ctrl-C ends the
/// wait. The wait is on the thread of the caller: a destructor that waits for itself gets an error
/// there, and would hang if it waited on another thread.
pub(crate) fn wait_until_released(py: Python<'_>, timeout: Duration) -> PyResult<()> {
    let start = Instant::now();
    loop {
        let left = timeout.saturating_sub(start.elapsed());
        let error = match py.detach(|| deferred::wait_until_released(left.min(LOOK))) {
            Err(error) if error.kind() == ErrorKind::TimedOut => error,
            done => return done.or_raise(),
        };
        if left <= LOOK {
            // The error of the last look says how long that was.
            let HeldBack { in_use, being_released, .. } = deferred::held_back();
            let message = format!(
                "after {timeout:?} queues still use {in_use} things, and {being_released} are being released"
            );
            let during = error.operation().unwrap_or("wait");
            return Err(Error::new(ErrorKind::TimedOut, message).during(during)).or_raise();
        }
        py.check_signals()?;
    }
}
