//! The thread of the registry: asks drivers about the first event of each lane, and wakes tasks.
//!
//! It is started when an awaited event or an announced one first needs it, and sleeps without a
//! limit while nobody waits. A round of the thread:
//!
//! 1. wakes the tasks of announced events, and those whose time is over;
//! 2. asks about the first event of each lane that no driver announces, and wakes the tasks of
//!    those that have passed;
//! 3. if nobody was woken, has drivers announce those events that they can announce;
//! 4. if there were none of these either, waits for one of the events in its driver, each in its
//!    turn. The wait takes from [`SHORTEST`] to [`LONGEST`], and gets longer as long as no event
//!    passes. It takes longer than [`LONGEST`] only where the questions of step 2 do: at least
//!    [`SHARE`] times their time, so that most of the time goes into waits and not into questions.
//!
//! A single event is therefore waited for as well as its driver can. A slow event delays the wake
//! of a quick one by the time of one such wait: a millisecond, or [`SHARE`] times what it takes to
//! ask about all events. Events that drivers announce are asked about now and then too, in case a
//! driver forgets one.

use std::cell::Cell;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use super::{Entry, LaneKey, REGISTRY, Registry, RegistryState, notice};
use crate::clock::Instant;
use crate::device::deferred;
use crate::process::{self, MadeIn};
use crate::sync::lock;
use crate::{Error, ErrorKind, Event, Result};

/// How long the thread waits for one event before it asks about the others: at first, and at most.
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(1);
/// The wait for one event takes at least so many times as long as it takes to ask about all.
const SHARE: u32 = 8;
/// How often the thread asks about events that drivers announce, in case an announcement is
/// missing.
const DOUBT: Duration = Duration::from_millis(250);

thread_local! {
    /// The process of which this is the thread. A waker may fork, and the child goes on with its
    /// copy.
    static IS_WAITER: Cell<Option<MadeIn>> = const { Cell::new(None) };
}

/// Whether this is the thread that wakes waiting tasks. While it waits for something itself, no
/// task is woken.
pub(crate) fn is_waiter() -> bool {
    IS_WAITER.get().is_some_and(MadeIn::is_this)
}

/// Calls a driver. On the library's own thread, the end of the process waits for the call (SAF-29).
pub(super) fn calling_drivers<R>(call: impl FnOnce() -> R) -> R {
    if is_waiter() { process::while_asking(call) } else { call() }
}

/// Drops shares of events, which may call a driver.
pub(super) fn let_go<T>(shares: T) {
    calling_drivers(|| drop(shares));
}

/// Starts the thread, unless it is running or another thread is about to start it. Whoever relies
/// on the thread looks at [`RegistryState::has_thread`] once more after it put down what it waits
/// for.
pub(super) fn start() -> Result<()> {
    let waiter = REGISTRY.get();
    if std::mem::replace(&mut lock(&waiter.state).has_thread, true) {
        return Ok(());
    }
    process::watch();
    let made_in = MadeIn::this();
    let work = move || {
        IS_WAITER.set(Some(made_in));
        Rounds::new(waiter, made_in).go_on();
    };
    let builder = std::thread::Builder::new().name("arrow-device-waiter".into());
    if let Err(error) = builder.spawn(work) {
        give_up(waiter);
        let message = format!("the thread that waits for events cannot be started: {error}");
        return Err(Error::new(ErrorKind::OutOfMemory, message).during("await an event"));
    }
    Ok(())
}

/// Wakes all who relied on the thread, which could not be started. They learn so when they are
/// polled.
fn give_up(waiter: &Registry) {
    let mut state = lock(&waiter.state);
    state.has_thread = false;
    let mut woken = std::mem::take(&mut state.announced);
    let lanes: Vec<LaneKey> = state.lanes.keys().copied().collect();
    for key in lanes {
        woken.extend(state.take_to(key, u64::MAX));
    }
    let timed = std::mem::take(&mut state.timers);
    drop(state);
    timed.into_values().for_each(process::OfProcess::wake);
    woken.into_iter().for_each(Entry::wake);
}

/// Tells the thread to look again.
pub(super) fn tell(state: &mut MutexGuard<'_, RegistryState>) {
    state.has_news = true;
    if std::mem::take(&mut state.is_asleep) {
        REGISTRY.get().changed.notify_one();
    }
}

/// An event that the thread asks about.
struct Asked {
    key: LaneKey,
    point: u64,
    event: Event,
    wants_notice: bool,
}

/// The loop of the thread.
struct Rounds {
    waiter: &'static Registry,
    made_in: MadeIn,
    /// How long the next wait for one event takes.
    slice: Duration,
    /// The number of the event to wait for next.
    next: usize,
    /// When the thread last asked about events that drivers announce.
    doubted: Instant,
}

/// What is to be done in a round.
struct Round {
    woken: Vec<Entry>,
    timed: Vec<process::OfProcess<std::task::Waker>>,
    asked: Vec<Asked>,
    next_timer: Option<Instant>,
}

impl Rounds {
    fn new(waiter: &'static Registry, made_in: MadeIn) -> Self {
        Self { waiter, made_in, slice: SHORTEST, next: 0, doubted: Instant::now() }
    }

    /// Runs rounds until the process begins to end. No task is woken after that.
    fn go_on(mut self) {
        while self.made_in.goes_on() {
            let Round { woken, timed, asked, next_timer } = self.next_round();
            let has_woken = !woken.is_empty() || !timed.is_empty();
            timed.into_iter().for_each(process::OfProcess::wake);
            woken.into_iter().for_each(Entry::wake);
            if !asked.is_empty() {
                self.ask(asked, next_timer, has_woken);
            }
        }
    }

    /// Sleeps until there is something to do.
    fn next_round(&mut self) -> Round {
        let mut state = lock(&self.waiter.state);
        loop {
            state.has_news = false;
            let now = Instant::now();
            let timed = take_timed(&mut state, now);
            let woken = std::mem::take(&mut state.announced);
            let doubts = now.saturating_duration_since(self.doubted) >= DOUBT;
            let mut expects = false;
            let mut asked = Vec::new();
            for (key, lane) in &state.lanes {
                let Some((point, event)) = lane.head() else { continue };
                let is_expected = lane.is_expected();
                expects |= is_expected;
                if !is_expected || doubts {
                    let (event, wants_notice) = (event.clone(), lane.wants_notice(*key));
                    asked.push(Asked { key: *key, point, event, wants_notice });
                }
            }
            if doubts {
                self.doubted = now;
            }
            let next_timer = state.timers.first_key_value().map(|((at, _), _)| *at);
            state.has_events_in_hand = !asked.is_empty();
            if !(woken.is_empty() && timed.is_empty() && asked.is_empty()) {
                return Round { woken, timed, asked, next_timer };
            }
            let timer = next_timer.map(|at| at.saturating_duration_since(now));
            let limit =
                if expects { Some(timer.map_or(DOUBT, |timer| timer.min(DOUBT))) } else { timer };
            if !expects {
                // Nothing is doubted until something is expected.
                self.doubted = now;
            }
            state = self.sleep(state, limit);
        }
    }

    /// Sleeps until the thread is told to look again, or the time is over.
    fn sleep<'a>(
        &self,
        mut state: MutexGuard<'a, RegistryState>,
        limit: Option<Duration>,
    ) -> MutexGuard<'a, RegistryState> {
        if state.has_news {
            return state;
        }
        state.is_asleep = true;
        let mut state = match limit {
            None => self.waiter.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(limit) => {
                let waited = self.waiter.changed.wait_timeout(state, limit);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.is_asleep = false;
        state
    }

    /// Asks about each of these events, and waits for one of them if none has passed.
    fn ask(&mut self, asked: Vec<Asked>, next_timer: Option<Instant>, has_woken: bool) {
        let began = Instant::now();
        let passed: Vec<(LaneKey, u64)> = asked
            .iter()
            .filter(|asked| {
                // An error is returned by the event itself, to the task that is woken.
                !matches!(process::while_asking(|| asked.event.is_complete()), Ok(false))
            })
            .map(|asked| (asked.key, asked.point))
            .collect();
        if passed.is_empty() && !has_woken {
            let mut is_announced = false;
            for Asked { key, point, event, .. } in asked.iter().filter(|asked| asked.wants_notice) {
                if expect(self.waiter, *key, *point) {
                    notice::ask(*key, *point, event);
                    is_announced = true;
                }
            }
            // Handles what was announced in these calls.
            super::go_on();
            if !is_announced {
                self.wait_for_one(&asked, began.elapsed(), next_timer);
            }
        } else {
            self.slice = SHORTEST;
        }
        // The shares are dropped before any task is woken.
        let_go(asked);
        let mut state = lock(&self.waiter.state);
        state.has_events_in_hand = false;
        let given_up = std::mem::take(&mut state.given_up);
        let woken: Vec<Entry> =
            passed.into_iter().flat_map(|(key, point)| state.take_to(key, point)).collect();
        drop(state);
        for event in given_up {
            let_go(event);
            deferred::count_nested_as_released(true);
        }
        woken.into_iter().for_each(Entry::wake);
    }

    /// Waits for one of these events, for a while.
    fn wait_for_one(&mut self, asked: &[Asked], cost: Duration, next_timer: Option<Instant>) {
        if lock(&self.waiter.state).has_news {
            self.slice = SHORTEST;
            return;
        }
        let began = Instant::now();
        // A single event keeps no other one from being asked about, except those that come
        // meanwhile.
        let shortest = if asked.len() == 1 { LONGEST } else { self.slice };
        let mut slice = shortest.max(cost.saturating_mul(SHARE));
        if let Some(at) = next_timer {
            slice = slice.min(at.saturating_duration_since(began)).max(SHORTEST);
        }
        self.slice = self.slice.saturating_mul(2).min(LONGEST);
        self.next = self.next.wrapping_add(1);
        let Some(one) = asked.get(self.next % asked.len()) else { return };
        let answer = process::while_asking(|| one.event.wait_timeout(slice));
        // A driver that may not wait, or that measures time in its own way, answers sooner.
        let left = slice.saturating_sub(began.elapsed());
        if !matches!(answer, Ok(true)) && left > slice / 2 {
            let state = lock(&self.waiter.state);
            drop(self.sleep(state, Some(left)));
        }
    }
}

/// Records that the driver is to announce this point. Returns false where nobody waits for it any
/// more.
fn expect(waiter: &Registry, key: LaneKey, point: u64) -> bool {
    let mut state = lock(&waiter.state);
    let Some(lane) = state.lanes.get_mut(&key) else { return false };
    lane.wants_notice(key)
        && lane.head().is_some_and(|(first, _)| first == point)
        && lane.expected.insert(point)
}

fn take_timed(
    state: &mut RegistryState,
    now: Instant,
) -> Vec<process::OfProcess<std::task::Waker>> {
    let mut over = Vec::new();
    while let Some(first) = state.timers.first_entry() {
        if first.key().0 > now {
            break;
        }
        over.push(first.remove());
    }
    over
}

#[cfg(all(test, unix, not(miri)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use arrow_device_testkit::process::alone;

    use super::*;

    /// Counts the drops that the end of the process waits for, and all.
    #[derive(Clone, Default)]
    struct Counts {
        waited_for: Arc<AtomicUsize>,
        all: Arc<AtomicUsize>,
    }

    impl Counts {
        fn told(&self) -> (usize, usize) {
            (self.waited_for.load(Ordering::Relaxed), self.all.load(Ordering::Relaxed))
        }
    }

    struct Dropped(Counts);

    impl Drop for Dropped {
        fn drop(&mut self) {
            // A call within this one ends before it.
            process::while_asking(|| ());
            self.0.all.fetch_add(1, Ordering::Relaxed);
            self.0.waited_for.fetch_add(usize::from(process::is_asking()), Ordering::Relaxed);
        }
    }

    // Requirement: SAF-29
    #[test]
    fn the_end_of_the_process_waits_for_what_the_thread_lets_go_of() {
        // In a process of its own, where there is no other such thread.
        alone(|| {
            let counts = Counts::default();
            let_go(Dropped(counts.clone()));
            assert_eq!(counts.told(), (0, 1), "on a thread of somebody else's");
            IS_WAITER.set(Some(MadeIn::this()));
            let_go(Dropped(counts.clone()));
            assert_eq!((counts.told(), process::is_asking()), ((1, 2), false));
        });
    }
}
