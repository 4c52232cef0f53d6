//! Asks about `sycl::event`s and waits for them, whoever made them.
//!
//! Every wait asks again and again, because dpctl's own wait ends the process where the work has
//! failed. A wait asks without a pause at first. After that there is a pause before each question,
//! and each pause is longer than the one before, up to a bound.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use arrow_device::{DeviceId, Result};

use crate::error::{failed, unanswered};
use crate::functions::{COMPLETE, FAILED, Functions, Object, UNKNOWN};

/// How often a wait asks without a pause, before it begins to pause.
const EAGER: u32 = 50;
const SHORTEST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_micros(500);

/// Whether the event has passed. Failed work is an error.
///
/// # Safety
/// UNS-31 of the table, and the event is alive.
pub(crate) unsafe fn is_over(
    functions: &Functions,
    event: Object,
    operation: &'static str,
    device: DeviceId,
) -> Result<bool> {
    // SAFETY: UNS-31, and the event is alive, as the caller promises.
    let status: c_int = unsafe { (functions.event_status)(event) };
    match status {
        COMPLETE => Ok(true),
        FAILED => Err(failed(operation, device)),
        UNKNOWN => Err(unanswered(operation, device)),
        _ => Ok(false),
    }
}

/// Waits until the event has passed or the time is over. Returns whether the event has passed.
///
/// # Safety
/// UNS-31 of the table, and the event is alive during the call.
pub(crate) unsafe fn await_event(
    functions: &Functions,
    event: Object,
    timeout: Option<Duration>,
    operation: &'static str,
    device: DeviceId,
) -> Result<bool> {
    let start = Instant::now();
    let (mut asked, mut pause) = (0, SHORTEST_PAUSE);
    loop {
        // SAFETY: UNS-31, and the event is alive, as the caller promises.
        if unsafe { is_over(functions, event, operation, device) }? {
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
