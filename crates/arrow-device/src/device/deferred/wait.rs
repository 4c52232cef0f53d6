//! A wait until queues have passed what they use.
//!
//! 1. A round goes over the timelines that are waited for. It waits a little for the oldest use of
//!    each one, and then releases what that queue has passed.
//! 2. The time for one timeline begins at `FIRST_TURN` and doubles with each round, up to
//!    `LONGEST_TURN`: a quick queue is noticed at once, and a slow one costs few questions.
//! 3. Where no answer gives hope, the thread sleeps for `PAUSE` if other threads are releasing
//!    something or drivers that cannot tell are to be asked again. Otherwise, and where a driver
//!    may not wait on this thread for something that is still in use, the wait ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::release::within_release;
use super::timeline::{AskDriver, DriverAnswer};
use super::uses::UseEnd;
use super::{Holdings, QueueTimeline};
use crate::clock::{self, Instant};
use crate::device::{nesting, waiting};
use crate::{ErrorKind, process};

/// How long one queue is waited for before the turn of the next one: at first, and at most.
const FIRST_TURN: Duration = Duration::from_millis(1);
const LONGEST_TURN: Duration = Duration::from_millis(100);
/// How long a thread sleeps where it waits only for other threads, or for a driver that fails.
const PAUSE: Duration = Duration::from_millis(1);

/// A wait for things to be released.
pub(super) struct Wait<'a> {
    pub(super) holdings: &'a Holdings,
    /// The timelines whose uses are waited for, each up to a point. Called before each round of
    /// turns.
    pub(super) wanted: &'a dyn Fn() -> Vec<(Arc<QueueTimeline>, u64)>,
    /// The end of the time to wait. Without a deadline there is no limit.
    pub(super) deadline: Option<Instant>,
    /// Whether a driver that cannot tell is asked again. Otherwise the wait gives up on it.
    pub(super) is_patient: bool,
}

impl Wait<'_> {
    /// Waits until `is_done`, which is asked after each turn, or until nothing is left to wait for.
    /// Returns whether it is done. Work that a driver may not wait for on this thread counts as
    /// nothing to wait for.
    pub(super) fn run(self, is_done: &dyn Fn() -> bool) -> bool {
        let mut turn = FIRST_TURN;
        loop {
            if process::is_exiting() {
                return is_done();
            }
            let (mut has_hope, mut is_refused) = (false, false);
            for (timeline, limit) in (self.wanted)() {
                let Some(patience) = self.time_left(turn) else { return is_done() };
                let wait_for_oldest = || {
                    let (point, end) = timeline.oldest(limit)?;
                    let waited = end.wait(patience);
                    Some((waited, timeline.ask(point, &end)))
                };
                let counts = &self.holdings.counts;
                let answer = within_release(|| counts.in_hand(wait_for_oldest));
                let Some((waited, answer)) = answer else { continue };
                is_refused |= waited == Waited::Refused;
                has_hope |= match answer {
                    DriverAnswer::Passed => true,
                    DriverAnswer::NotYet => waited != Waited::Refused,
                    DriverAnswer::Unknown => false,
                };
                self.holdings.release_passed([timeline]);
                if is_done() {
                    return true;
                }
            }
            if !has_hope {
                let counts = &self.holdings.counts;
                // On a thread that may not wait, asking again later is all that is left. Where
                // another thread has meanwhile begun to release what was waited for, no driver is
                // to be waited for any more.
                if is_done() || (is_refused && counts.in_use.load(Ordering::SeqCst) > 0) {
                    return is_done();
                }
                // Releases by other threads, unless these wait for what this thread has in hand.
                let has_others = !nesting::is_dropping_list()
                    && counts.being_released.load(Ordering::SeqCst) > 0
                    && !waiting::is_awaited_in_release();
                if !(has_others || self.is_patient) {
                    return false;
                }
                let Some(patience) = self.time_left(PAUSE) else { return is_done() };
                clock::pause(patience);
            }
            turn = (turn * 2).min(LONGEST_TURN);
        }
    }

    /// `of`, or the time that is left, if that is less. `None` when the time is over.
    fn time_left(&self, of: Duration) -> Option<Duration> {
        let Some(deadline) = self.deadline else { return Some(of) };
        let left = deadline.saturating_duration_since(Instant::now());
        (!left.is_zero()).then(|| left.min(of))
    }
}

/// The result of a wait for a use.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waited {
    AWhile,
    /// The driver may not wait on this thread.
    Refused,
}

impl UseEnd {
    /// Waits at most this long. Some devices only work while somebody waits. Whether the use has
    /// ended is asked after the wait.
    fn wait(&self, patience: Duration) -> Waited {
        let waited = match self {
            Self::Event(event) => event.wait_timeout(patience),
            // A queue itself can only be waited for without a time limit, so an event behind its
            // work is waited for.
            Self::WholeQueue(queue) => {
                queue.record().and_then(|event| event.wait_timeout(patience))
            }
        };
        match waited {
            Err(error) if error.kind() == ErrorKind::NotReady => return Waited::Refused,
            Err(_) if self.ask() == DriverAnswer::NotYet => {
                clock::pause(patience.min(PAUSE));
            }
            _ => {}
        }
        Waited::AWhile
    }
}
