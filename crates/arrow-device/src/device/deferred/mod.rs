//! Things that the program dropped and that are not released yet, because a queue uses them.
//!
//! Dropping an array that was used on a queue, or memory that a queue was told of, waits for
//! nothing: the thing is held back until the queue has passed the work that was submitted before
//! the drop. A later call into this crate releases the thing: a drop, an import, an allocation, or
//! one of the functions of this module. No thread of this crate releases anything, unless the
//! program starts a [`ReleaseThread`]; a program that stops calling this crate keeps what is held
//! back at that time. What is held back when the process ends is left to the operating system.
//!
//! | to | use |
//! |---|---|
//! | have memory back now, without waiting | [`release_finished`] |
//! | be sure that nothing is held back, before a device is closed or a library is unloaded | [`wait_until_released`] |
//! | see how much is held back | [`held_back`] |
//! | release without calling this crate | [`ReleaseThread`] |
//! | refuse a wait of one's own that may wait for itself | [`require_no_release`] |
//! | say how long an allocation waits for memory that is held back | [`set_allocation_timeout`] |
//!
//! A destructor that is run here is foreign code: it runs without a lock of this crate, on any
//! thread, and may call this crate. A destructor that panics is stopped, and its thing is counted
//! as abandoned.
//!
//! # In a child of `fork`
//!
//! A child forgets what its parent's queues use: neither the driver nor the thing's destructor is
//! called, and the thing is counted as abandoned in the child.
//!
//! # When the process ends
//!
//! After the end has begun, drivers are not asked any more, and what a queue may still use is kept.

// How it works:
//
// 1. A thing that is held back has a waiter on the timeline of each queue that uses the thing.
// 2. To look at a timeline is to ask the driver about the oldest waiter, and about the next one as
//    long as the answer is that the queue has passed. The thing whose last waiter goes is released.
// 3. A drop looks at the timelines of what it holds back, and at `AT_ONCE` further timelines in
//    turn. Imports, allocations and other drops look at `AT_ONCE` timelines in turn. Each goes on
//    with the next `AT_ONCE` timelines as long as something is released.
//    A copy that takes a new block of host memory looks at `MOST_FOR_A_BLOCK` in turn.
// 4. `release_finished` and `wait_until_released` look at all timelines, and an allocation that
//    finds no memory looks at those whose releases may help.
//
// Why it is fast: where nothing is held back, one load tells so. A look asks one question at a
// time, or two where the first answer does not help, and goes on only if that took a waiter off. So
// n waiters cost O(n) questions in all, and each look costs one or two more.
//
// `timeline` has the order of uses and the list of timelines on which something waits. `uses` knows
// what drivers are asked, `release` drops what no queue uses any more, `wait` waits for queues, and
// `shortage` knows what an allocation without memory waits for.

mod locks;
#[cfg(test)]
mod order_tests;
mod release;
mod shortage;
mod thread;
mod timeline;
mod uses;
mod wait;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) use self::shortage::Shortage;
pub use self::shortage::{allocation_timeout, set_allocation_timeout};
pub use self::thread::ReleaseThread;
pub(crate) use self::timeline::Question;
pub(crate) use self::uses::{
    EventPoint, LastQueueUses, OfDrivers, QueueTimeline, QueueUse, failures, has_failed_since,
    timeline_on,
};

use self::release::{Counts, HeldThing, Thing};
use self::timeline::{ListedTimelines, UsesLeft, WaitingTimelines};
use self::wait::Wait;
// `timeline` takes the list from here: the model of `timeline` has a list at that place, too.
use super::numbered_list;
use crate::clock::Instant;
use crate::device::driver::Runtime;
use crate::device::{nesting, waiting};
use crate::process::{self, PerProcess};
use crate::{Error, ErrorKind, Result};

/// How many queues a drop, an import or an allocation asks at a time. Most programs have no more
/// queues than that, so memory comes back as soon as it can.
const AT_ONCE: usize = 4;

/// How many queues are asked, at most, before a new block of host memory is allocated for a copy.
const MOST_FOR_A_BLOCK: usize = 16;

/// What is held back in this process.
static HOLDINGS: PerProcess<Holdings> = PerProcess::new(Holdings::new());

struct Holdings {
    waiting: WaitingTimelines<OfDrivers>,
    counts: Counts,
}

impl Default for Holdings {
    fn default() -> Self {
        Self::new()
    }
}

impl Holdings {
    const fn new() -> Self {
        let waiting = WaitingTimelines(Mutex::new(ListedTimelines::new()));
        Self { waiting, counts: Counts::new() }
    }

    /// Asks about these timelines, and releases what no queue uses any more. Returns the number of
    /// releases.
    fn release_passed(&self, timelines: impl IntoIterator<Item = Arc<QueueTimeline>>) -> usize {
        let look = |timeline: Arc<QueueTimeline>| {
            // What no use on this timeline needs any more is dropped before the next driver is
            // asked, because that driver may take its time.
            release::within_release(|| {
                let mut over = Vec::new();
                self.counts.in_hand(|| {
                    timeline.look(&self.waiting, &mut over);
                    self.counts.begin_releases(over.len());
                });
                let count = over.len();
                release::release(over);
                count
            })
        };
        let count = timelines.into_iter().map(look).sum();
        // Values whose drops would have nested too deep were put on a list, and are dropped now.
        nesting::drop_waiting_now();
        count
    }

    /// Asks about these timelines, and about the next ones in turn as long as something is
    /// released. An event of another party has a timeline of its own, so there may be very many.
    fn release_passed_onwards(&self, mut timelines: Vec<Arc<QueueTimeline>>) {
        while self.release_passed(timelines) > 0 {
            timelines = self.waiting.in_turn(AT_ONCE);
        }
    }
}

/// Drops `what` after all the uses have ended, at once if they have. `frees_host_memory` says
/// whether an allocation on the host may succeed after that.
pub(crate) fn defer<T: Send + 'static>(what: T, uses: Vec<QueueUse>, frees_host_memory: bool) {
    let is_known = |used: &QueueUse| used.is_known_to_have_ended() || used.is_of_this_process();
    if !uses.iter().all(is_known) {
        abandon((what, uses));
        return;
    }
    let holdings = HOLDINGS.get();
    let (ended, open): (Vec<_>, Vec<_>) = uses.into_iter().partition(QueueUse::has_ended);
    // Ended uses are dropped together with `what`, because the owners of their events are foreign
    // code, too.
    let what = (what, ended);
    if open.is_empty() {
        release::release_now(what, &holdings.counts);
        tick();
        return;
    }
    let mut timelines: Vec<_> = open.iter().map(|used| used.timeline().clone()).collect();
    defer_unasked(what, open, frees_host_memory);
    for other in holdings.waiting.in_turn(AT_ONCE) {
        if !timelines.iter().any(|known| Arc::ptr_eq(known, &other)) {
            timelines.push(other);
        }
    }
    holdings.release_passed_onwards(timelines);
}

/// Drops `what` after all the uses have ended, without asking any queue now. For uses by work that
/// was submitted only just now.
pub(crate) fn defer_unasked<T: Send + 'static>(
    what: T,
    uses: Vec<QueueUse>,
    frees_host_memory: bool,
) {
    if uses.is_empty() || !uses.iter().all(QueueUse::is_of_this_process) {
        abandon((what, uses));
        return;
    }
    let holdings = HOLDINGS.get();
    holdings.counts.in_use.fetch_add(1, Ordering::SeqCst);
    let uses_left = UsesLeft::new(uses.len());
    let thing = Thing { uses_left, frees_host_memory, what: Mutex::new(Some(what)) };
    let entry: Arc<dyn HeldThing> = Arc::new(thing);
    holdings.waiting.hold(uses, &entry);
}

/// Counts `what` as abandoned, and never drops it.
#[cold]
fn abandon<T>(what: T) {
    std::mem::forget(what);
    count_abandoned();
}

/// Whether this thread is in a destructor that counts as being released. A wait for releases there
/// would wait for itself.
fn is_in_release() -> bool {
    release::is_releasing() || nesting::is_dropping_list()
}

/// An error in a destructor that this module runs, and in one that was put off because drops nest
/// too deep.
///
/// A wait for releases in such a destructor may wait for what the same thread would release next.
/// [`wait_until_released`] begins with this check. A library calls this function before a wait of
/// its own for something that a release brings about, such as memory that a peer gives back.
///
/// # Errors
/// [`InvalidArgument`](ErrorKind::InvalidArgument), during `operation`.
///
/// ```
/// arrow_device::deferred::require_no_release("wait for a peer")?;
/// # Ok::<(), arrow_device::Error>(())
/// ```
pub fn require_no_release(operation: &'static str) -> Result<()> {
    if is_in_release() {
        let message = "a destructor that is run by this library would wait for itself";
        return Err(Error::new(ErrorKind::InvalidArgument, message).during(operation));
    }
    Ok(())
}

/// Whether this thread has something that counts as being released.
pub(crate) fn has_releases_in_hand() -> bool {
    release::is_in_hand() || nesting::is_in_hand()
}

/// Does some work during which this thread holds shares of other threads' values, because it asks
/// drivers about them. What other threads drop meanwhile ends with this work, so the work counts as
/// a release.
pub(crate) fn in_hand<T>(work: impl FnOnce() -> T) -> T {
    release::within_release(|| counts().in_hand(work))
}

/// The counts of this process.
fn counts() -> &'static Counts {
    &HOLDINGS.get().counts
}

/// How many releases there have been of things that were held back.
pub(crate) fn releases() -> u64 {
    counts().done.load(Ordering::Acquire)
}

/// Counts a value that waits for the end of another drop as being released.
pub(crate) fn count_nested() {
    counts().being_released.fetch_add(1, Ordering::SeqCst);
}

/// Takes back one count of [`count_nested`] when the drop is over. `is_dropped` says whether the
/// drop came to its end without a panic.
pub(crate) fn count_nested_as_released(is_dropped: bool) {
    if !is_dropped {
        count_abandoned();
    }
    counts().being_released.fetch_sub(1, Ordering::SeqCst);
}

pub(crate) fn count_abandoned() {
    counts().abandoned.fetch_add(1, Ordering::Relaxed);
}

/// Asks a few queues about what they hold back, if anything is held back. Called where foreign code
/// may run: in drops, imports and allocations.
#[inline(always)]
pub(crate) fn tick() {
    // Relaxed: what another thread holds back at this moment can wait for the next call.
    if HOLDINGS.get().counts.in_use.load(Ordering::Relaxed) > 0 {
        look_in_turn();
    }
}

#[cold]
fn look_in_turn() {
    // A thread in the middle of a release asks when the release is done.
    if !release::is_releasing() {
        let holdings = HOLDINGS.get();
        holdings.release_passed_onwards(holdings.waiting.in_turn(AT_ONCE));
    }
}

/// Asks all queues of a runtime about what they hold back.
pub(crate) fn release_passed_of(runtime: Runtime) {
    let holdings = HOLDINGS.get();
    if holdings.counts.in_use.load(Ordering::Relaxed) > 0 && !release::is_releasing() {
        holdings.release_passed(of_runtime(runtime));
    }
}

/// Takes the next `MOST_FOR_A_BLOCK` queues of all runtimes, and asks those of this runtime about
/// what they hold back. In a program with no more queues, that asks all queues of the runtime.
pub(crate) fn release_some_of(runtime: Runtime) {
    let holdings = HOLDINGS.get();
    if holdings.counts.in_use.load(Ordering::Relaxed) > 0 && !release::is_releasing() {
        let mut timelines = holdings.waiting.in_turn(MOST_FOR_A_BLOCK);
        timelines.retain(|timeline| timeline.about().runtime == runtime);
        holdings.release_passed(timelines);
    }
}

/// The timelines on which things of a runtime wait.
fn of_runtime(runtime: Runtime) -> Vec<Arc<QueueTimeline>> {
    let mut timelines = HOLDINGS.get().waiting.all();
    timelines.retain(|timeline| timeline.about().runtime == runtime);
    timelines
}

/// Whether any queue of a runtime holds something back.
pub(crate) fn holds_back_on(runtime: Runtime) -> bool {
    !of_runtime(runtime).is_empty()
}

/// Waits until `is_done`, which is asked after each release. The wait ends sooner where queues of
/// the runtime hold nothing back any more, and after the time that an allocation waits. Does not
/// wait in a release.
pub(crate) fn wait_for_runtime(runtime: Runtime, is_done: &dyn Fn() -> bool) {
    if release::is_releasing() {
        return;
    }
    let wanted = || of_runtime(runtime).into_iter().map(|known| (known, u64::MAX)).collect();
    let deadline = Instant::now().checked_add(allocation_timeout());
    let wait = Wait { holdings: HOLDINGS.get(), wanted: &wanted, deadline, is_patient: false };
    wait.run(is_done);
}

/// Releases everything whose last use has passed. Returns how many things this call released.
///
/// Never waits. What has passed before this call is released when the call returns, or another
/// thread is just releasing it. Useful for a program that has stopped calling this crate and wants
/// memory back.
///
/// ```
/// assert_eq!(arrow_device::deferred::release_finished(), 0);
/// ```
pub fn release_finished() -> usize {
    let holdings = HOLDINGS.get();
    if release::is_releasing() {
        return 0;
    }
    holdings.release_passed(holdings.waiting.all())
}

/// Waits until everything has been released, by this thread or by others, but no longer than
/// `timeout`.
///
/// Call it before a device is closed by hand, or before a library is unloaded whose memory a queue
/// may still use. What another thread holds back in the meantime is waited for as well. Do not call
/// it while holding a lock that a destructor of a held-back value may want.
///
/// # Errors
/// * [`TimedOut`](ErrorKind::TimedOut): the time is over. The error says how much is left.
/// * [`NotReady`](ErrorKind::NotReady): a driver [may not
///   wait](crate::driver#drivers-that-may-not-wait) on this thread for what is left. This error
///   comes at once.
/// * [`ShutDown`](ErrorKind::ShutDown): the process has begun to end, and what is left stays.
/// * An error at once, where the wait would wait for itself: in a destructor that this module runs,
///   in a destructor that was put off because drops nest too deep, and on a thread that has a turn
///   for which a destructor on another thread waits.
///
/// ```
/// arrow_device::deferred::wait_until_released(std::time::Duration::from_secs(1))?;
/// # Ok::<(), arrow_device::Error>(())
/// ```
pub fn wait_until_released(timeout: Duration) -> Result<()> {
    const OPERATION: &str = "wait until released";
    let failed = |kind, message: String| Error::new(kind, message).during(OPERATION);
    require_no_release(OPERATION)?;
    let holdings = HOLDINGS.get();
    // No deadline where the clock cannot represent it.
    let deadline = Instant::now().checked_add(timeout);
    let is_done = || held_back().is_nothing();
    let wanted = || {
        let all = holdings.waiting.all();
        all.into_iter().map(|timeline| (timeline, u64::MAX)).collect()
    };
    holdings.release_passed(holdings.waiting.all());
    let wait = Wait { holdings, wanted: &wanted, deadline, is_patient: true };
    if is_done() {
        return Ok(());
    }
    let waited = waiting::while_waiting_for_releases(|| wait.run(&is_done));
    if waited.map_err(|error| error.during(OPERATION))? {
        return Ok(());
    }
    if process::is_exiting() {
        let message = "the process is about to end, and no driver tells what its queues use";
        return Err(failed(ErrorKind::ShutDown, message.into()));
    }
    let left = held_back();
    if deadline.is_none_or(|deadline| Instant::now() < deadline) {
        let message = format!(
            "queues still use {} things, and a driver may not wait on this thread; ask again later",
            left.in_use
        );
        return Err(failed(ErrorKind::NotReady, message));
    }
    let message = format!(
        "after {timeout:?} queues still use {} things, and {} are being released",
        left.in_use, left.being_released
    );
    Err(failed(ErrorKind::TimedOut, message))
}

/// How many things are held back at the moment, and how many will never be released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldBack {
    /// Things that a queue still uses, as far as is known.
    pub in_use: usize,
    /// Things that a thread is busy with at the moment: the thread releases them, asks a driver
    /// whether they may be released, or asks whose memory a device reaches.
    pub being_released: usize,
    /// Things that this process will never release, because releasing them would not be safe or
    /// went wrong: their destructor panicked, or they were used by a queue of the parent process.
    pub abandoned: usize,
}

impl HeldBack {
    /// Whether nothing is held back. What was abandoned is not counted.
    pub fn is_nothing(self) -> bool {
        self.in_use == 0 && self.being_released == 0
    }
}

/// How many things are held back in this process. Asks no driver.
///
/// ```
/// assert!(arrow_device::deferred::held_back().is_nothing());
/// ```
pub fn held_back() -> HeldBack {
    let counts = &HOLDINGS.get().counts;
    // Read in this order, because a thing counts as being released before it stops being in use.
    let in_use = counts.in_use.load(Ordering::SeqCst);
    let being_released = counts.being_released.load(Ordering::SeqCst);
    HeldBack { in_use, being_released, abandoned: counts.abandoned.load(Ordering::Relaxed) }
}
