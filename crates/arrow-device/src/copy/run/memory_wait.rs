//! [`allocated`]: memory for the result of a polled copy.
//!
//! A copy that finds no memory tries again at later polls. The copy has hope as long as memory that
//! is held back, or that comes back from other copies, may help, and an allocation would still wait
//! for that memory. A copy that has lost hope tries once more, and ends with the error.
//!
//! 1. A result of several allocations is allocated as a whole or not at all. Allocations of an
//!    attempt that is not complete are given back at once, so that two copies with a part each do
//!    not keep the rest from each other.
//! 2. Memory that was given back becomes free when the queue has passed. The copy takes nothing
//!    until then, so it never has more memory than one result takes.
//! 3. A copy that took something tries again only after a change: something else was released, and
//!    no copy of the device has memory coming back. Otherwise a copy without hope would take, again
//!    and again, what is enough for another copy.
//! 4. After a pause the copy tries again without a change, in case somebody freed memory that was
//!    not held back. The pause doubles each time, up to a bound.
//!
//! What must stay true: whether there is hope is asked before an attempt's memory is given back, so
//! that a copy does not wait for its own memory.

use std::future::Future;
use std::time::Duration;

use super::target::{Target, Unallocated};
use crate::clock::Instant;
use crate::copy::plan::transfer::Transfer;
use crate::copy::plan::walk::Walked;
use crate::copy::step;
use crate::device::MemoryOnReturn;
use crate::device::deferred::{self, Shortage};
use crate::{Device, ErrorKind, Queue, Result};

/// How long a copy that took something waits for a release before it tries again without one: at
/// first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Memory for the result. Where there is none, this waits for memory that is held back and may
/// help, as long as an allocation would. `next_poll` makes a future that completes at the next
/// poll.
pub(super) async fn allocated<P: Future<Output = Result<()>>>(
    transfer: &mut Transfer,
    walked: &Walked,
    next_poll: impl Fn() -> P,
) -> Result<Target> {
    let (queue, len) = (transfer.queue.clone(), walked.pieces.total());
    let mut wait: Option<MemoryWait> = None;
    let mut had_hope = false;
    loop {
        let Unallocated { error, taken } = match transfer.allocate_at_once(walked) {
            Ok(target) => return Ok(target),
            Err(failed) => failed,
        };
        let error = error.at_step(step::ALLOCATE);
        if error.kind() != ErrorKind::OutOfMemory {
            return Err(error);
        }
        // Asked before the memory of this attempt is given back, which is no reason to hope.
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

/// The wait of a copy that found no memory.
struct MemoryWait {
    device: Device,
    shortage: Shortage,
    /// The memory that the last attempt took, on its way back.
    given_back: Option<MemoryOnReturn>,
    /// The number of releases after that memory came back, if nothing else is released.
    releases: u64,
    /// How long to wait before an attempt without a change. `None` where the last attempt took
    /// nothing.
    pause: Option<Duration>,
    tried: Instant,
}

/// What to do at a poll.
enum PollStep {
    NotYet,
    /// Try again. `has_hope` tells whether something may help if this attempt fails too.
    Attempt {
        has_hope: bool,
    },
    /// No time is left, and the memory of the last attempt is not back yet.
    End,
}

impl MemoryWait {
    fn on(device: &Device, len: u64) -> Self {
        let (device, shortage) = (device.clone(), Shortage::on(device, len));
        let (releases, tried) = (deferred::releases(), Instant::now());
        Self { device, shortage, given_back: None, releases, pause: None, tried }
    }

    /// Gives back the memory that an attempt took.
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

    /// Whether the memory of the last attempt is still on its way back.
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
