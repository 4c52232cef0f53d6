//! Waits by asking again and again, for drivers whose runtime cannot wait as the library asks.
//!
//! 1. A wait asks, and between two questions lets other threads run. Work that is almost done is
//!    found without a sleep.
//! 2. After `EAGER` questions the wait sleeps between two questions, for an eighth of the time that
//!    has passed, within bounds. A long wait thus takes little of a processor, and ends at most an
//!    eighth of its length after the work.
//! 3. The question comes before the look at the clock, so that a wait without time asks once.

use std::time::Duration;

use crate::Result;
use crate::clock::{Instant, pause};

/// How often a wait asks before it sleeps between two questions.
const EAGER: u32 = 100;
/// The bounds of a sleep.
const SHORTEST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_micros(200);
/// How often [`ask_for_a_moment`] asks.
const MOMENT: u32 = 200;

/// Asks until the answer is yes, or an error, or the time is over. Returns the last answer.
///
/// For operations of a [`Driver`](super::driver::Driver) that may wait (DRV-5), where the runtime
/// has no wait with a limit of time, or none that can be trusted. At first other threads run
/// between two questions, and later the thread sleeps: for 50 microseconds, and in longer waits
/// for up to 200. At least one question is asked.
///
/// ```
/// use std::time::Duration;
/// use arrow_device::driver::ask_until;
///
/// let mut turns = 0;
/// let is_done = ask_until(None, || {
///     turns += 1;
///     Ok(turns == 3)
/// })?;
/// assert!(is_done && turns == 3);
/// assert!(!ask_until(Some(Duration::ZERO), || Ok(false))?);
/// # Ok::<(), arrow_device::Error>(())
/// ```
pub fn ask_until(timeout: Option<Duration>, mut ask: impl FnMut() -> Result<bool>) -> Result<bool> {
    let start = Instant::now();
    let mut asked = 0;
    while !ask()? {
        let passed = start.elapsed();
        let left = timeout.map(|timeout| timeout.saturating_sub(passed));
        if left == Some(Duration::ZERO) {
            return Ok(false);
        }
        if asked < EAGER {
            asked += 1;
            std::thread::yield_now();
        } else {
            let longest = left.map_or(LONGEST_PAUSE, |left| left.min(LONGEST_PAUSE));
            pause((passed / 8).max(SHORTEST_PAUSE).min(longest));
        }
    }
    Ok(true)
}

/// Asks some 200 times without a sleep, and ends at the first yes or error. Returns the last
/// answer.
///
/// For [`is_idle`](super::driver::Driver::is_idle) of a runtime that cannot be asked whether a
/// queue is idle. The driver submits something that does nothing, and asks about that. On an idle
/// queue the answer is yes as soon as the runtime gets to what was submitted, which is almost at
/// once.
pub fn ask_for_a_moment(mut ask: impl FnMut() -> Result<bool>) -> Result<bool> {
    for _ in 0..MOMENT {
        if ask()? {
            return Ok(true);
        }
        std::thread::yield_now();
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, ErrorKind};

    #[test]
    fn a_wait_ends_with_the_first_yes() {
        for wanted in [1, 2, EAGER + 3] {
            let mut asked = 0;
            let ask = || {
                asked += 1;
                Ok(asked == wanted)
            };
            assert!(ask_until(None, ask).unwrap());
            assert_eq!(asked, wanted);
        }
    }

    #[test]
    fn a_wait_without_time_asks_once() {
        for is_done in [true, false] {
            let mut asked = 0;
            let ask = || {
                asked += 1;
                Ok(is_done)
            };
            assert_eq!(ask_until(Some(Duration::ZERO), ask).unwrap(), is_done);
            assert_eq!(asked, 1);
        }
    }

    #[test]
    fn a_wait_whose_time_passes_says_no_and_not_before() {
        let (start, limit) = (Instant::now(), Duration::from_millis(1));
        assert!(!ask_until(Some(limit), || Ok(false)).unwrap());
        assert!(start.elapsed() >= limit);
    }

    #[test]
    fn an_error_ends_the_questions() {
        let lost = || Err(Error::new(ErrorKind::DeviceLost, "gone"));
        let mut asked = 0;
        let ask = || {
            asked += 1;
            if asked == 2 { lost() } else { Ok(false) }
        };
        assert_eq!(ask_until(None, ask).unwrap_err().kind(), ErrorKind::DeviceLost);
        assert_eq!(asked, 2);
        assert_eq!(ask_for_a_moment(lost).unwrap_err().kind(), ErrorKind::DeviceLost);
    }

    #[test]
    fn a_moment_ends_with_the_first_yes_or_after_a_bound() {
        let mut asked = 0;
        let third = || {
            asked += 1;
            Ok(asked == 3)
        };
        assert!(ask_for_a_moment(third).unwrap());
        assert_eq!(asked, 3);
        let mut asked = 0;
        let never = || {
            asked += 1;
            Ok(false)
        };
        assert!(!ask_for_a_moment(never).unwrap());
        assert_eq!(asked, MOMENT);
    }
}
