//! [`ReleaseThread`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{is_in_release, release_finished};
use crate::device::waiting;
use crate::process::{self, MadeIn};
use crate::{Error, ErrorKind, Result};

/// The shortest pause of the thread. Without a pause it would keep a processor, and drivers, busy.
const SHORTEST: Duration = Duration::from_millis(1);

/// A thread that calls [`release_finished`] from time to time. Dropping this value stops the
/// thread, and waits for its end. The drop does not wait inside a destructor that this module runs,
/// and not on a thread that has a turn for which a destructor waits.
///
/// A program that keeps calling this crate does not need such a thread.
#[derive(Debug)]
pub struct ReleaseThread {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// The number of the thread in `waiting`; 0 before the thread has begun.
    number: Arc<AtomicU32>,
    made_in: MadeIn,
}

impl ReleaseThread {
    /// Starts a thread that releases every `interval`, and at most once a millisecond.
    pub fn start(interval: Duration) -> Result<Self> {
        process::watch();
        let (stop, stopped) = mpsc::channel::<()>();
        let number = Arc::new(AtomicU32::new(0));
        let of_thread = number.clone();
        let work = move || {
            of_thread.store(waiting::this_thread(), Ordering::Relaxed);
            let interval = interval.max(SHORTEST);
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                release_finished();
            }
        };
        let builder = std::thread::Builder::new().name("arrow-device-release".into());
        let thread = builder.spawn(work).map_err(|error| {
            Error::new(
                ErrorKind::OutOfMemory,
                format!("the release thread cannot be started: {error}"),
            )
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread), number, made_in: MadeIn::this() })
    }
}

impl Drop for ReleaseThread {
    fn drop(&mut self) {
        if !self.made_in.is_this() {
            // A child of `fork` has no such thread, and the channel may be in any state.
            std::mem::forget((self.stop.take(), self.thread.take()));
            return;
        }
        drop(self.stop.take());
        let Some(thread) = self.thread.take() else { return };
        // The drop does not wait for the end of the thread in two cases: in a destructor, which the
        // thread itself may run or wait for, and on a thread for which the release thread waits.
        if thread.thread().id() != std::thread::current().id() && !is_in_release() {
            let number = self.number.load(Ordering::Relaxed);
            waiting::while_joining(number, || drop(thread.join()));
        }
    }
}
