//! Waits that Ctrl-C ends.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use arrow_device::{Array, Error, ErrorKind, Result};
use pyo3::prelude::*;

use crate::error::OrRaise;

/// How long a signal waits until somebody looks.
const LOOK: Duration = Duration::from_millis(50);

/// Does something that may block on a thread of its own, and waits for it without the interpreter's
/// lock.
///
/// A signal handler that raises, as Ctrl-C's does, ends the wait and not the work: drivers know no
/// way to stop a wait. The thread ends when the work does, and what it holds is kept until then.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
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
            Ok(result) => return result.or_raise(),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                let message = "the thread that waited panicked";
                return Err(Error::new(ErrorKind::Panicked, message)).or_raise();
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
