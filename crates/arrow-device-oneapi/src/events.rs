//! Asks about `sycl::event`s and waits for them, whoever made them.
//!
//! Every wait asks again and again, by [`ask_until`](arrow_device::driver::ask_until), because
//! dpctl's own wait ends the process where the work has failed.

use arrow_device::{DeviceId, Result};

use crate::error::{failed, unanswered};
use crate::functions::{COMPLETE, FAILED, Functions, Object, UNKNOWN};

/// What is known of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It goes on, or has not begun.
    Pending,
    /// It is over and went well.
    Over,
    /// It is over and has failed.
    Failed,
    /// Nobody tells.
    Unknown,
}

impl Answer {
    /// Whether the work has passed. Failed work is an error.
    pub(crate) fn told(self, operation: &'static str, device: DeviceId) -> Result<bool> {
        match self {
            Self::Pending => Ok(false),
            Self::Over => Ok(true),
            Self::Failed => Err(failed(operation, device)),
            Self::Unknown => Err(unanswered(operation, device)),
        }
    }
}

/// What an event says.
///
/// # Safety
/// UNS-31 of the table, and the event is alive.
pub(crate) unsafe fn ask(functions: &Functions, event: Object) -> Answer {
    // SAFETY: UNS-31, and the event is alive, as the caller promises.
    match unsafe { (functions.event_status)(event) } {
        COMPLETE => Answer::Over,
        FAILED => Answer::Failed,
        UNKNOWN => Answer::Unknown,
        _ => Answer::Pending,
    }
}
