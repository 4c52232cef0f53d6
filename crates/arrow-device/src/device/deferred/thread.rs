//! [`ReleaseThread`].

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{is_in_release, release_finished};
use crate::process::{self, MadeIn};
use crate::{Error, ErrorKind, Result};

/// A thread that calls [`release_finished`] from time to time. Stops when dropped; the drop waits
/// for the thread, but for a drop by a destructor that is run by this module.
///
/// A program that keeps calling this crate does not need it.
#[derive(Debug)]
pub struct ReleaseThread {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    made_in: MadeIn,
}

impl ReleaseThread {
    /// Starts one that looks every `interval`.
    pub fn start(interval: Duration) -> Result<Self> {
        process::watch();
        let (stop, stopped) = mpsc::channel::<()>();
        let work = move || {
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                release_finished();
            }
        };
        let builder = std::thread::Builder::new().name("arrow-device-release".into());
        let thread = builder.spawn(work).map_err(|error| {
            Error::new(ErrorKind::OutOfMemory, format!("no thread to be had: {error}"))
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread), made_in: MadeIn::this() })
    }
}

impl Drop for ReleaseThread {
    fn drop(&mut self) {
        if !self.made_in.is_this() {
            // A child of `fork` has no such thread, and the channel may be in the middle of
            // anything.
            std::mem::forget((self.stop.take(), self.thread.take()));
            return;
        }
        drop(self.stop.take());
        let Some(thread) = self.thread.take() else { return };
        // A destructor that is run by the thread, or that another such thread may wait for, only
        // says that the thread is to stop.
        if thread.thread().id() != std::thread::current().id() && !is_in_release() {
            let _ = thread.join();
        }
    }
}
