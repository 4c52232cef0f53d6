//! What an allocation waits for that finds no memory.
//!
//! 1. It collects the timelines whose releases may help: those of queues of the same runtime, and
//!    for memory of the host those on which something with host memory waits.
//! 2. For each timeline it notes the highest point that something waits for at the start, and waits
//!    for no higher point: things that other threads hold back later cannot keep it waiting. Only a
//!    polled copy, which does not wait here, collects the timelines anew after each failed attempt.
//! 3. It waits a little for each timeline in turn, and tries again after each release, until
//!    nothing is left that may help, or until [`allocation_timeout`] is over.
//!
//! What must stay true: a thing that another thread is just releasing has left its timeline, but
//! its memory is not back yet, so it still counts as help. A thread inside a release does not wait.

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

/// The timeout in microseconds.
static TIMEOUT: AtomicU64 = AtomicU64::new(10_000_000);

/// How long an allocation that finds no memory waits for memory that is held back. The default is
/// 10 seconds.
pub fn allocation_timeout() -> Duration {
    Duration::from_micros(TIMEOUT.load(Ordering::Relaxed))
}

/// Sets how long an allocation that finds no memory waits for memory that is held back, from now on
/// and on all devices. With [`Duration::ZERO`] it releases what has passed, and does not wait.
///
/// An allocation waits only for what may help it: for things that a queue of its own runtime uses,
/// or, on the host, for things that hold host memory. When the time is over, the error of the kind
/// [`OutOfMemory`](crate::ErrorKind::OutOfMemory) says how long the allocation waited.
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
    /// The largest number of timelines that there were.
    queues: usize,
    began: Instant,
    deadline: Option<Instant>,
    has_dropped: bool,
    has_looked: bool,
}

impl Shortage {
    /// The shortage of an allocation of `len` bytes on this device, which has just failed for the
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

    /// Called after another attempt failed. What is held back by now may help too, within the same
    /// time.
    pub(crate) fn look_again(&mut self, device: &Device, len: u64) {
        self.timelines = Self::that_may_help(device, len);
        self.queues = self.queues.max(self.timelines.len());
    }

    /// Whether there is time left to wait.
    pub(crate) fn has_time(&self) -> bool {
        self.deadline.is_none_or(|deadline| Instant::now() < deadline)
    }

    /// Whether waiting may still help: there is time left, there ever was a timeline that may help,
    /// and something is still held back on one of them or just being released.
    ///
    /// A thing that another thread is releasing stands on no timeline any more, but its memory is
    /// not back yet. So it does not matter whether a timeline is left.
    pub(crate) fn has_hope(&self) -> bool {
        let holds =
            |(timeline, limit): &(Arc<QueueTimeline>, u64)| timeline.oldest(*limit).is_some();
        // Asked in this order, because a thing counts as being released before it leaves its
        // timeline.
        let is_held = || {
            self.timelines.iter().any(holds)
                || super::counts().being_released.load(Ordering::SeqCst) > 0
        };
        self.queues > 0 && self.has_time() && is_held()
    }

    /// Waits until something was released. Returns whether to try again.
    pub(crate) fn wait(&mut self) -> bool {
        // This thread may have values to drop that hold memory. Done once only, because each
        // attempt to allocate may leave new values to drop.
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
            holdings.release_passed(self.timelines.iter().map(|(timeline, _)| timeline.clone()));
        }
        let is_helped = || done() != before;
        let (wanted, deadline) = (|| self.timelines.clone(), self.deadline);
        let wait = Wait { holdings, wanted: &wanted, deadline, is_patient: false };
        is_helped() || wait.run(&is_helped)
    }

    /// The error of the last attempt. It says how long the allocation waited, if it waited.
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
