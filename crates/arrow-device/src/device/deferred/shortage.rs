//! What an allocation waits for that finds no memory.
//!
//! It waits for things whose release may help: those that a queue of the same runtime uses, and for
//! memory of the host those that hold host memory. It waits for none that came later than the
//! allocation began, so that others who hold things back meanwhile do not keep it, and not longer
//! than [`allocation_timeout`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::release::{self, HeldThing};
use super::wait::Wait;
use super::{HOLDINGS, QueueTimeline};
use crate::clock::Instant;
use crate::device::host::LARGEST_MEMORY;
use crate::device::nesting;
use crate::{Device, DeviceType, Error};

/// In microseconds.
static TIMEOUT: AtomicU64 = AtomicU64::new(10_000_000);

/// How long an allocation that finds no memory waits for memory that is held back: 10 seconds,
/// where nothing else was set.
pub fn allocation_timeout() -> Duration {
    Duration::from_micros(TIMEOUT.load(Ordering::Relaxed))
}

/// Says how long an allocation that finds no memory waits for memory that is held back, from now
/// on and on all devices. With [`Duration::ZERO`] it releases what has passed, and does not wait.
///
/// An allocation waits only for what may help it: for things that a queue of its own runtime uses,
/// or, on the host, for things that hold host memory. When the time is over, the error of the kind
/// [`OutOfMemory`](crate::ErrorKind::OutOfMemory) says how long was waited.
///
/// ```
/// use std::time::Duration;
/// arrow_device::deferred::set_allocation_timeout(Duration::from_millis(500));
/// assert_eq!(arrow_device::deferred::allocation_timeout(), Duration::from_millis(500));
/// ```
pub fn set_allocation_timeout(timeout: Duration) {
    TIMEOUT.store(u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// An allocation that found no memory, and what it waits for.
pub(crate) struct Shortage {
    /// The timelines that may help, each with the highest point to wait for.
    timelines: Vec<(Arc<QueueTimeline>, u64)>,
    /// How many there have been at most.
    queues: usize,
    began: Instant,
    deadline: Option<Instant>,
    has_dropped: bool,
    has_looked: bool,
}

impl Shortage {
    /// The shortage of an allocation of so many bytes on this device, which has just failed for the
    /// first time.
    pub(crate) fn on(device: &Device, len: u64) -> Self {
        let began = Instant::now();
        let timelines = Self::that_may_help(device, len);
        let deadline = began.checked_add(allocation_timeout());
        let (queues, has_dropped, has_looked) = (timelines.len(), false, false);
        Self { timelines, queues, began, deadline, has_dropped, has_looked }
    }

    /// The timelines of which a release may help, each with the highest point to wait for.
    fn that_may_help(device: &Device, len: u64) -> Vec<(Arc<QueueTimeline>, u64)> {
        // A destructor that allocates would wait for things that only its own thread releases.
        let may_wait = !release::is_releasing() && len <= LARGEST_MEMORY;
        let timelines = if may_wait { HOLDINGS.get().waiting.all() } else { Vec::new() };
        let runtime = device.driver().runtime();
        let is_host = device.id().device_type == DeviceType::CPU;
        let that_helps = |timeline: Arc<QueueTimeline>| {
            let is_of_runtime = is_host || timeline.about().runtime == runtime;
            let helps = |thing: &Arc<dyn HeldThing>| !is_host || thing.frees_host_memory();
            let newest = timeline.newest(helps).filter(|_| is_of_runtime)?;
            Some((timeline, newest))
        };
        timelines.into_iter().filter_map(that_helps).collect()
    }

    /// Another attempt has failed: also what is held back by now may help, within the same time.
    pub(crate) fn look_again(&mut self, device: &Device, len: u64) {
        self.timelines = Self::that_may_help(device, len);
        self.queues = self.queues.max(self.timelines.len());
    }

    /// Whether the time to wait is not over yet.
    pub(crate) fn has_time(&self) -> bool {
        self.deadline.is_none_or(|deadline| Instant::now() < deadline)
    }

    /// Whether something is still held back whose release may help, or something is just being
    /// released and a release may have helped before, and the time to wait is not over.
    ///
    /// A thing that another thread is releasing stands on no timeline any more, and its memory is
    /// not back yet. The question is therefore not whether there is a timeline left.
    pub(crate) fn has_hope(&self) -> bool {
        let holds =
            |(timeline, limit): &(Arc<QueueTimeline>, u64)| timeline.oldest(*limit).is_some();
        // In this order: what is taken off a timeline is counted as being released before that.
        let is_held = || {
            self.timelines.iter().any(holds)
                || super::counts().being_released.load(Ordering::SeqCst) > 0
        };
        self.queues > 0 && self.has_time() && is_held()
    }

    /// Waits until something was released. Returns whether it is worth to try again.
    pub(crate) fn wait(&mut self) -> bool {
        // Memory may be among what this thread has yet to drop. Once, because the attempt to
        // allocate may itself leave something to drop, each time.
        if !std::mem::replace(&mut self.has_dropped, true) && nesting::drop_waiting_now() {
            return true;
        }
        if self.timelines.is_empty() {
            return false;
        }
        let holdings = HOLDINGS.get();
        let done = || holdings.counts.done.load(Ordering::Acquire);
        let before = done();
        if !std::mem::replace(&mut self.has_looked, true) {
            holdings.look_at(self.timelines.iter().map(|(timeline, _)| timeline.clone()));
        }
        let is_helped = || done() != before;
        let (wanted, deadline) = (|| self.timelines.clone(), self.deadline);
        let wait = Wait { holdings, wanted: &wanted, deadline, is_patient: false };
        is_helped() || wait.run(&is_helped)
    }

    /// The error of the last attempt, which says how long was waited, if anything was waited for.
    pub(crate) fn explained(&self, error: Error) -> Error {
        match self.queues {
            0 => error,
            queues => error.with_note(format_args!(
                "after {:.1?} in which memory was waited for that {queues} queues use",
                self.began.elapsed()
            )),
        }
    }
}
