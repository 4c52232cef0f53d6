//! Asks about `sycl::event`s and waits for them, whoever made them.
//!
//! Every wait asks again and again, because dpctl's own wait ends the process where the work has
//! failed. A wait asks without a pause at first. After that there is a pause before each question,
//! and each pause is longer than the one before, up to a bound.

use std::time::{Duration, Instant};

use arrow_device::{DeviceId, Result};

use crate::error::{failed, unanswered};
use crate::functions::{COMPLETE, FAILED, Functions, Object, UNKNOWN};

/// How often a wait asks without a pause, before it begins to pause.
const EAGER: u32 = 50;
const SHORTEST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_micros(500);

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

/// Asks until the answer is yes or the time is over. Returns the last answer.
pub(crate) fn ask_until(
    timeout: Option<Duration>,
    mut ask: impl FnMut() -> Result<bool>,
) -> Result<bool> {
    let start = Instant::now();
    let (mut asked, mut pause) = (0, SHORTEST_PAUSE);
    loop {
        if ask()? {
            return Ok(true);
        }
        let left = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
        if left == Some(Duration::ZERO) {
            return Ok(false);
        }
        if asked < EAGER {
            asked += 1;
            std::thread::yield_now();
        } else {
            std::thread::sleep(left.map_or(pause, |left| left.min(pause)));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}
