//! Whether the driver may still be called: not after the process began to exit, and not in a child
//! of `fork`.
//!
//! Drivers take themselves down in handlers of the process's end, in an order that nobody knows,
//! and in a child of `fork` they have lost their threads and devices. Whatever is dropped then is
//! leaked.

use std::sync::Once;
use std::sync::atomic::{AtomicU8, Ordering};

use arrow_device::{Error, ErrorKind, Result};

static STATE: AtomicU8 = AtomicU8::new(RUNNING);
const RUNNING: u8 = 0;
const EXITING: u8 = 1;
const FORKED: u8 = 2;

extern "C" fn exiting() {
    STATE.store(EXITING, Ordering::Release);
}

#[cfg(unix)]
extern "C" fn forked() {
    STATE.store(FORKED, Ordering::Release);
}

/// Begins to watch. Called after the library was loaded, so that the handler runs before the
/// library's own.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: the handler stores a number and can be called at any time.
        let _ = unsafe { libc::atexit(exiting) };
        #[cfg(unix)]
        // SAFETY: the handler stores a number, which is safe in a child ("async-signal-safe").
        let _ = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
}

/// An error where the driver may not be called any more.
pub(crate) fn check() -> Result<()> {
    match STATE.load(Ordering::Acquire) {
        RUNNING => Ok(()),
        EXITING => Err(Error::new(ErrorKind::DeviceLost, "the process is about to end")),
        _ => {
            let message = "this is a child of `fork`, in which the driver does not work";
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}

/// Whether it may be called.
pub(crate) fn is_running() -> bool {
    STATE.load(Ordering::Acquire) == RUNNING
}
