//! The registry of awaited events, behind [`AwaitedEvent`](super::AwaitedEvent). A task that awaits
//! an event blocks no thread.
//!
//! 1. Events stand in lanes, one for each queue, in the order in which the queue passes them. An
//!    event that was recorded outside of the library has a lane of its own.
//! 2. Only the first event of a lane matters: the library's thread asks about it ([`thread`]), or
//!    its driver announces it ([`notice`]).
//! 3. Once it has passed, or cannot pass any more, all tasks that wait for it are woken, and ask
//!    the event themselves.
//! 4. Entries to be woken and lanes whose first event nobody watches are put in two lists. Each
//!    thread that adds to the lists also [empties them](go_on), in a loop. A driver may announce
//!    the next event of a lane within the call that asks for the announcement: such an announcement
//!    only fills the lists, so that calls of drivers do not nest. A waker may await further events:
//!    then `go_on` nests, up to [`MOST_WITHIN`] levels, and the library's thread wakes the rest.
//!
//! Many waiting tasks therefore cost one question for each queue. What must stay true: no foreign
//! code is called under the lock, so wakers and events are dropped, and wakers called, after it
//! (SAF-23). A child of `fork` has a fresh registry without a thread (SAF-27).

mod notice;
mod thread;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::task::Waker;
use std::time::Duration;

pub use notice::EventNotice;
pub(crate) use thread::is_waiter;

use super::driver::EventNotices;
use crate::clock::Instant;
use crate::device::deferred::{self, EventPoint};
use crate::device::nesting;
use crate::process::{MadeIn, OfProcess, PerProcess};
use crate::sync::lock;
use crate::{Event, Result};

static REGISTRY: PerProcess<Registry> = PerProcess::new(Registry::new());

/// The registry of one process, and the condition that its thread sleeps on.
struct Registry {
    state: Mutex<RegistryState>,
    changed: Condvar,
}

impl Registry {
    const fn new() -> Self {
        Self { state: Mutex::new(RegistryState::new()), changed: Condvar::new() }
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

struct RegistryState {
    /// Whether the thread was started, or some thread is about to start it. It never ends.
    has_thread: bool,
    /// Whether the thread sleeps, or is about to.
    is_asleep: bool,
    /// Whether something came that the thread has not seen.
    has_news: bool,
    /// Whether the thread has shares of events in hand, about which it asks.
    has_events_in_hand: bool,
    lanes: BTreeMap<LaneKey, EventLane>,
    /// The wakers that are to be woken at a time.
    timers: BTreeMap<(Instant, u64), OfProcess<Waker>>,
    /// Announced where nothing foreign may be called. The thread wakes these.
    announced: Vec<Entry>,
    /// Announced where anything may be called. The threads that are in [`go_on`] wake these.
    due: VecDeque<Entry>,
    /// The lanes whose first event nobody watches yet.
    untended: VecDeque<LaneKey>,
    /// Events that were given up while the thread had a share of them.
    given_up: Vec<Event>,
}

/// The queue's timeline, or the event that stands alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LaneKey {
    Queue(u64),
    Alone(u64),
}

#[derive(Default)]
struct EventLane {
    /// The waiting tasks, by point and number.
    entries: BTreeMap<(u64, u64), Entry>,
    /// The points that the driver was asked to announce and has not announced yet.
    expected: BTreeSet<u64>,
    /// Whether the driver refused to announce an event of this lane.
    is_refused: bool,
}

/// A task that waits for an event.
struct Entry {
    event: Event,
    waker: OfProcess<Waker>,
}

impl Entry {
    /// Drops the share of the event, and then wakes the task, so that the task finds no share left
    /// here. The entry was taken out by [`RegistryState::take_to`].
    fn wake(self) {
        thread::let_go(self.event);
        deferred::count_nested_as_released(true);
        self.waker.wake();
    }
}

impl EventLane {
    /// The first event, and its point.
    fn head(&self) -> Option<(u64, &Event)> {
        let ((point, _), entry) = self.entries.first_key_value()?;
        Some((*point, &entry.event))
    }

    /// Takes out the entries that wait for this point or an earlier one.
    fn take_to(&mut self, point: u64) -> Vec<Entry> {
        match point.checked_add(1) {
            None => std::mem::take(&mut self.entries).into_values().collect(),
            Some(next) => {
                let later = self.entries.split_off(&(next, 0));
                std::mem::replace(&mut self.entries, later).into_values().collect()
            }
        }
    }

    fn is_over(&self) -> bool {
        self.entries.is_empty() && self.expected.is_empty()
    }

    /// Whether the driver is to be asked to announce the first event.
    fn wants_notice(&self, key: LaneKey) -> bool {
        self.head().is_some_and(|(point, event)| {
            matches!(key, LaneKey::Queue(_))
                && !self.is_refused
                && !self.expected.contains(&point)
                && notices(event) != EventNotices::None
        })
    }

    /// Whether the driver is to announce the first event.
    fn is_expected(&self) -> bool {
        self.head().is_some_and(|(point, _)| self.expected.contains(&point))
    }
}

impl RegistryState {
    const fn new() -> Self {
        Self {
            has_thread: false,
            is_asleep: false,
            has_news: false,
            has_events_in_hand: false,
            lanes: BTreeMap::new(),
            timers: BTreeMap::new(),
            announced: Vec::new(),
            due: VecDeque::new(),
            untended: VecDeque::new(),
            given_up: Vec::new(),
        }
    }

    /// Takes out the entries that wait for this point of a lane or an earlier one, to be woken.
    /// Their shares of events count as being released until then: the waiting task may ask the
    /// event meanwhile, see that it has passed, and drop all other shares.
    fn take_to(&mut self, key: LaneKey, point: u64) -> Vec<Entry> {
        let Some(lane) = self.lanes.get_mut(&key) else { return Vec::new() };
        let taken = lane.take_to(point);
        self.forget(key);
        for entry in &taken {
            deferred::count_nested();
            // The thread also has a share of some of these events, which may become the last one.
            if self.has_events_in_hand {
                deferred::count_nested();
                self.given_up.push(entry.event.clone());
            }
        }
        taken
    }

    /// Forgets a lane for which nobody waits and no announcement is expected.
    fn forget(&mut self, key: LaneKey) {
        if self.lanes.get(&key).is_some_and(EventLane::is_over) {
            self.lanes.remove(&key);
        }
    }
}

/// What the driver of an event's device says of announcements.
fn notices(event: &Event) -> EventNotices {
    event.device().properties().event_notices
}

/// A number that no other entry has, in a child of `fork` either.
fn new_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A place in the registry. Dropping the ticket gives it up.
#[derive(Debug)]
pub(crate) struct Ticket {
    made_in: MadeIn,
    place: Place,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Lane(LaneKey, u64, u64),
    Timer(Instant, u64),
}

/// Has the waker woken once the event has passed, or cannot pass any more.
///
/// A task that asks the event before this call, and is woken after it, misses nothing: after the
/// place was taken, the event is asked about again, or announced.
pub(crate) fn when_passed(event: &Event, waker: &Waker) -> Result<Ticket> {
    let number = new_number();
    let (key, point) = match event.point() {
        EventPoint::OnQueue(timeline, point) => (LaneKey::Queue(timeline.number()), *point),
        EventPoint::Alone(_) => (LaneKey::Alone(number), 1),
    };
    // A driver that announces where anything may be called needs no thread.
    let is_announced = matches!(key, LaneKey::Queue(_)) && notices(event) == EventNotices::Anywhere;
    if !is_announced {
        thread::start()?;
    }
    let entry = Entry { event: event.clone(), waker: OfProcess::new(waker.clone()) };
    let ticket = Ticket { made_in: MadeIn::this(), place: Place::Lane(key, point, number) };
    let is_without_thread = {
        let mut state = lock(&REGISTRY.get().state);
        let lane = state.lanes.entry(key).or_default();
        lane.entries.insert((point, number), entry);
        (!is_announced || lane.is_refused) && !state.has_thread
    };
    // Another task may have begun to start the thread, and failed meanwhile.
    if is_without_thread {
        thread::start()?;
    }
    tend(key);
    Ok(ticket)
}

/// Has the waker woken after this time.
pub(crate) fn when_over(time: Duration, waker: &Waker) -> Result<Ticket> {
    thread::start()?;
    let number = new_number();
    let now = Instant::now();
    let at = now.checked_add(time).unwrap_or(now);
    let waker = OfProcess::new(waker.clone());
    let ticket = Ticket { made_in: MadeIn::this(), place: Place::Timer(at, number) };
    let has_thread = {
        let mut state = lock(&REGISTRY.get().state);
        state.timers.insert((at, number), waker);
        thread::tell(&mut state);
        state.has_thread
    };
    if !has_thread {
        thread::start()?;
    }
    Ok(ticket)
}

/// Has the first event of a lane watched, by its driver or by the thread.
fn tend(key: LaneKey) {
    lock(&REGISTRY.get().state).untended.push_back(key);
    go_on();
}

/// How deep calls of [`go_on`] may nest on one thread before the library's thread takes over.
const MOST_WITHIN: usize = 8;

thread_local! {
    /// How many calls of [`go_on`] this thread is in.
    static WITHIN: Cell<usize> = const { Cell::new(0) };
}

/// One more call of [`go_on`], until this is dropped.
struct Within;

impl Within {
    fn begin() -> Self {
        WITHIN.set(WITHIN.get() + 1);
        Self
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        WITHIN.set(WITHIN.get().saturating_sub(1));
    }
}

/// Wakes all due entries, and has all untended lanes watched, whichever thread put them there.
///
/// Does nothing within a call of a driver that is asked to announce an event: the caller of the
/// driver goes on when that call is over. Each thread takes one entry at a time, so that a waker
/// that blocks keeps nothing from other threads. Wakers may poll their tasks, which await again, so
/// calls of this function may nest. A few levels deep, the library's thread wakes the rest.
fn go_on() {
    if notice::is_within_notify() {
        return;
    }
    let is_deep = WITHIN.get() >= MOST_WITHIN && thread::start().is_ok();
    let _within = Within::begin();
    loop {
        let mut state = lock(&REGISTRY.get().state);
        if is_deep && state.has_thread && !state.due.is_empty() {
            let due = std::mem::take(&mut state.due);
            state.announced.extend(due);
            thread::tell(&mut state);
        } else if let Some(entry) = state.due.pop_front() {
            drop(state);
            entry.wake();
            continue;
        }
        let Some(key) = state.untended.pop_front() else { return };
        let Some(lane) = state.lanes.get_mut(&key) else { continue };
        let Some((point, event)) = lane.head() else { continue };
        if lane.expected.contains(&point) {
            continue;
        }
        if !lane.wants_notice(key) {
            thread::tell(&mut state);
            continue;
        }
        // The event may belong to another task, which is woken meanwhile and drops all other
        // shares. So this share counts as being released.
        let event = event.clone();
        deferred::count_nested();
        lane.expected.insert(point);
        drop(state);
        notice::ask(key, point, &event);
        thread::let_go(event);
        deferred::count_nested_as_released(true);
    }
}

impl Ticket {
    /// Replaces the waker of this place. Returns false where the former waker was woken already.
    pub(crate) fn renew(&self, waker: &Waker) -> bool {
        if !self.made_in.is_this() {
            return false;
        }
        let waker = OfProcess::new(waker.clone());
        let mut state = lock(&REGISTRY.get().state);
        let known = match self.place {
            Place::Lane(key, point, number) => {
                let lane = state.lanes.get_mut(&key);
                let entry = lane.and_then(|lane| lane.entries.get_mut(&(point, number)));
                entry.map(|entry| &mut entry.waker)
            }
            Place::Timer(at, number) => state.timers.get_mut(&(at, number)),
        };
        // Either waker is foreign code. The one that goes is dropped after the lock.
        let (is_known, goes) = match known {
            Some(known) => (true, std::mem::replace(known, waker)),
            None => (false, waker),
        };
        drop(state);
        drop(goes);
        is_known
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // A child of `fork` has another registry.
        if !self.made_in.is_this() {
            return;
        }
        let mut state = lock(&REGISTRY.get().state);
        match self.place {
            Place::Timer(at, number) => {
                let waker = state.timers.remove(&(at, number));
                drop(state);
                // The waker may own a future that has a waker in the registry, and so on.
                nesting::drop_owned(waker);
            }
            Place::Lane(key, point, number) => {
                let Some(lane) = state.lanes.get_mut(&key) else { return };
                let Some(entry) = lane.entries.remove(&(point, number)) else { return };
                let was_first = lane.head().is_none_or(|(first, _)| first > point);
                state.forget(key);
                let Entry { event, waker } = entry;
                // The thread may have the last share of the event by now. That share counts as
                // being released.
                let event = if state.has_events_in_hand {
                    deferred::count_nested();
                    state.given_up.push(event);
                    None
                } else {
                    Some(event)
                };
                drop(state);
                drop(event);
                nesting::drop_owned(waker);
                if was_first {
                    tend(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_gives_out_who_waits_for_a_point_or_an_earlier_one() {
        let mut lane = EventLane::default();
        // SAFETY: the host's events have no object (UNS-19).
        let event =
            || unsafe { Event::adopt(&crate::Device::host(), crate::device::driver::Raw::NULL) };
        for (point, number) in [(3, 0), (1, 1), (2, 2), (2, 3), (u64::MAX, 4)] {
            let waker = OfProcess::new(Waker::noop().clone());
            lane.entries.insert((point, number), Entry { event: event(), waker });
        }
        assert_eq!(lane.head().map(|(point, _)| point), Some(1));
        assert_eq!(lane.take_to(2).len(), 3);
        assert_eq!(lane.head().map(|(point, _)| point), Some(3));
        assert_eq!(lane.take_to(u64::MAX).len(), 2);
        assert!(lane.is_over());
        lane.expected.insert(7);
        assert!(!lane.is_over(), "an announcement is on its way");
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    struct Woken(std::sync::mpsc::Sender<()>);

    #[cfg(all(target_os = "linux", not(miri)))]
    impl std::task::Wake for Woken {
        fn wake(self: std::sync::Arc<Self>) {
            let _ = self.0.send(());
        }
    }

    /// Has the thread of the registry fail to start, until this is dropped: there is no room for
    /// its stack.
    #[cfg(all(target_os = "linux", not(miri)))]
    struct WithoutThreads(libc::rlimit);

    #[cfg(all(target_os = "linux", not(miri)))]
    impl WithoutThreads {
        fn begin() -> Self {
            const PAGE: u64 = 4096;
            let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
            let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
            let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: POSIX: `getrlimit` writes the struct that it is given.
            let _ = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut before) };
            let room = pages * PAGE + (1 << 20);
            Self::set(&libc::rlimit { rlim_cur: room as libc::rlim_t, ..before });
            Self(before)
        }

        fn set(limit: &libc::rlimit) {
            // SAFETY: POSIX: `setrlimit` reads the struct that it is given.
            let outcome = unsafe { libc::setrlimit(libc::RLIMIT_AS, limit) };
            assert_eq!(outcome, 0);
        }
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    impl Drop for WithoutThreads {
        fn drop(&mut self) {
            Self::set(&self.0);
        }
    }

    // Requirement: SAF-26
    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn a_task_that_relied_on_a_thread_that_another_task_failed_to_start_is_woken() {
        const ROUNDS: u64 = 20_000;
        arrow_device_testkit::process::alone(|| {
            // SAFETY: the host's events have no object (UNS-19).
            let event =
                unsafe { Event::adopt(&crate::Device::host(), crate::device::driver::Raw::NULL) };
            // The threads have to begin at the same time, which a lock is too slow for.
            let (arrived, begun) = (AtomicU64::new(0), AtomicU64::new(0));
            let meet = |number: u64| {
                arrived.fetch_add(1, Ordering::SeqCst);
                while arrived.load(Ordering::SeqCst) < 2 * number {
                    std::thread::yield_now();
                }
            };
            let task = &|is_timer: bool| {
                let (tell, told) = std::sync::mpsc::channel();
                let waker = Waker::from(std::sync::Arc::new(Woken(tell)));
                let mut refused = 0;
                // A thread needs room until it has begun, and the room is taken away after that.
                begun.fetch_add(1, Ordering::SeqCst);
                while begun.load(Ordering::SeqCst) < 3 {
                    std::thread::yield_now();
                }
                for round in 0..ROUNDS {
                    meet(round + 1);
                    let ticket = if is_timer {
                        when_over(Duration::from_secs(3600), &waker)
                    } else {
                        when_passed(&event, &waker)
                    };
                    refused += u64::from(ticket.is_err());
                    if ticket.is_ok() && told.recv_timeout(Duration::from_secs(20)).is_err() {
                        // The other threads wait for this one.
                        println!("round {round}: nobody woke the task");
                        std::process::exit(1);
                    }
                    drop(ticket);
                    while told.try_recv().is_ok() {}
                }
                // The stack of a thread that has ended would be room for the thread of the
                // registry.
                meet(ROUNDS + 1);
                refused
            };
            std::thread::scope(|scope| {
                let tasks = [false, true].map(|is_timer| scope.spawn(move || task(is_timer)));
                while begun.load(Ordering::SeqCst) < 2 {
                    std::thread::yield_now();
                }
                let _without = WithoutThreads::begin();
                begun.fetch_add(1, Ordering::SeqCst);
                let refused: u64 = tasks.map(|task| task.join().unwrap()).iter().sum();
                assert!(refused >= ROUNDS, "the thread was started");
            });
        });
    }

    static WAS_LOCKED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

    fn clone_raw(_: *const ()) -> std::task::RawWaker {
        raw_waker()
    }

    fn drop_raw(_: *const ()) {
        // Another test may hold the lock for a moment.
        let is_free = || REGISTRY.get().state.try_lock().is_ok();
        let began = Instant::now();
        while !is_free() {
            if began.elapsed() > Duration::from_secs(20) {
                WAS_LOCKED.store(true, Ordering::Relaxed);
                return;
            }
        }
    }

    /// A waker whose every clone is dropped by itself, and uses the registry then.
    fn raw_waker() -> std::task::RawWaker {
        static VTABLE: std::task::RawWakerVTable =
            std::task::RawWakerVTable::new(clone_raw, |_| {}, |_| {}, drop_raw);
        std::task::RawWaker::new(std::ptr::null(), &VTABLE)
    }

    // Requirement: SAF-23
    #[test]
    fn a_waker_that_is_not_needed_is_dropped_outside_of_the_lock() {
        let ticket =
            Ticket { made_in: MadeIn::this(), place: Place::Timer(Instant::now(), u64::MAX) };
        // SAFETY: `RawWaker`'s contract: all functions may be called on any thread, clones are
        // wakers of the same kind, and there is nothing to be freed.
        let waker = unsafe { Waker::from_raw(raw_waker()) };
        assert!(!ticket.renew(&waker), "nothing waits there");
        assert!(!WAS_LOCKED.load(Ordering::Relaxed));
    }
}
