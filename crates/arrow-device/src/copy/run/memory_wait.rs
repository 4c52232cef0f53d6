//! [`allocated`]: memory for the result of a polled copy.
//!
//! A copy that finds no memory tries again at later polls. A result of several allocations is
//! allocated as a whole or not at all: what was taken before there was no more is given back at
//! once, so that two copies which have a part each do not keep the rest from each other. What is
//! given back comes back when the queue has passed. The copy takes nothing meanwhile, and has
//! therefore never more than one result takes.
//!
//! A copy that took something takes it again only where something has changed: when something else
//! was released, and no copy of the device has memory coming back; and sometimes, in case somebody
//! frees memory that was not held back. Otherwise a copy that has no hope yet would take, again and
//! again, what is enough for another one.

use std::future::Future;
use std::time::Duration;

use super::target::{Target, Unallocated};
use crate::clock::Instant;
use crate::copy::plan::Plan;
use crate::copy::plan::walk::Walked;
use crate::copy::step;
use crate::device::MemoryOnReturn;
use crate::device::deferred::{self, Shortage};
use crate::{Device, ErrorKind, Queue, Result};

/// How long a copy that took something waits for a release, at first and at most, before it tries
/// again without one.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Memory for the result. Where there is none, whatever is held back that may help is waited for,
/// as long as an allocation would. `next_poll` comes back at the next poll.
pub(super) async fn allocated<P: Future<Output = Result<()>>>(
    plan: &mut Plan,
    walked: &Walked,
    next_poll: impl Fn() -> P,
) -> Result<Target> {
    let (queue, len) = (plan.queue.clone(), walked.pieces.total());
    let mut wait: Option<MemoryWait> = None;
    let mut had_hope = false;
    loop {
        let Unallocated { error, taken } = match plan.allocate_at_once(walked) {
            Ok(target) => return Ok(target),
            Err(failed) => failed,
        };
        let error = error.at_step(step::ALLOCATE);
        if error.kind() != ErrorKind::OutOfMemory {
            return Err(error);
        }
        // Before what was taken is given back, for which nobody hopes.
        if let Some(wait) = &mut wait {
            wait.shortage.look_again(queue.device(), len);
        }
        let wait = wait.get_or_insert_with(|| MemoryWait::on(queue.device(), len));
        let has_hope = wait.has_hope();
        wait.give_back(&queue, taken);
        if !had_hope && !has_hope {
            return Err(wait.shortage.explained(error));
        }
        had_hope = loop {
            next_poll().await?;
            match wait.next() {
                PollStep::NotYet => {}
                PollStep::Attempt { has_hope } => break has_hope,
                PollStep::End => return Err(wait.shortage.explained(error)),
            }
        };
    }
}

/// What a copy waits for that found no memory.
struct MemoryWait {
    device: Device,
    shortage: Shortage,
    /// What the last attempt took.
    given_back: Option<MemoryOnReturn>,
    /// How many releases there will have been when that is back, if there are no others.
    releases: u64,
    /// Nothing where the last attempt took nothing.
    pause: Option<Duration>,
    tried: Instant,
}

/// What to do at a poll.
enum PollStep {
    NotYet,
    /// An attempt, and whether there is something left that may help after it.
    Attempt {
        has_hope: bool,
    },
    /// There is no time left, and what the last attempt took is not back yet.
    End,
}

impl MemoryWait {
    fn on(device: &Device, len: u64) -> Self {
        let (device, shortage) = (device.clone(), Shortage::on(device, len));
        let (releases, tried) = (deferred::releases(), Instant::now());
        Self { device, shortage, given_back: None, releases, pause: None, tried }
    }

    /// Gives back what an attempt took.
    fn give_back(&mut self, queue: &Queue, taken: Vec<crate::Memory>) {
        let longer = |pause: Duration| (2 * pause).min(LONGEST_PAUSE);
        self.pause = match taken.is_empty() {
            true => None,
            false => Some(self.pause.map_or(FIRST_PAUSE, longer)),
        };
        self.tried = Instant::now();
        self.releases = deferred::releases();
        self.given_back = MemoryOnReturn::new(queue, taken);
        self.releases += u64::from(self.is_still_returning());
    }

    /// Whether what the last attempt took is not back yet.
    fn is_still_returning(&self) -> bool {
        self.given_back.as_ref().is_some_and(MemoryOnReturn::is_on_its_way)
    }

    fn has_hope(&self) -> bool {
        let is_coming_back = self.device.account().has_memory_coming_back();
        self.shortage.has_hope() || (is_coming_back && self.shortage.has_time())
    }

    fn next(&mut self) -> PollStep {
        deferred::release_finished();
        if !self.device.goes_on() {
            // Nothing comes back in a child of `fork`, and nothing once the process has begun to
            // end. The attempt is refused.
            return PollStep::Attempt { has_hope: false };
        }
        if self.is_still_returning() {
            return if self.shortage.has_time() { PollStep::NotYet } else { PollStep::End };
        }
        let has_hope = self.has_hope();
        let is_due = self.pause.is_none_or(|pause| {
            let is_coming_back = self.device.account().has_memory_coming_back();
            let has_changed = deferred::releases() > self.releases && !is_coming_back;
            has_changed || self.tried.elapsed() >= pause
        });
        if has_hope && !is_due { PollStep::NotYet } else { PollStep::Attempt { has_hope } }
    }
}
