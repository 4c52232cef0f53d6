//! Timelines: in which order a queue passes the uses that were submitted to it.
//!
//! Every queue has a [`Timeline`]. A *point* of a timeline stands for all work that was submitted
//! to the queue before the point was taken. Points are numbers, and a queue that has passed a point
//! has passed every lower one. A [`Use`] is a point together with its *end*: what a driver is asked
//! to learn whether the queue has passed the point, which is an event, or the queue itself where no
//! event could be recorded.
//!
//! A thing that may not be released before several uses have ended is an *entry* with a count of
//! uses. On the timeline of each use stands a *waiter* with a share of the entry. Whoever learns
//! that a timeline has passed a point takes off all waiters up to that point and counts their
//! entries down; the thread that counts an entry to zero releases the entry. The timelines with
//! waiters are in one list, [`WaitingTimelines`].
//!
//! This is fast because the answer to one question, about one point, ends all waiters up to that
//! point, and because waiters stand in the order of their points: the next one to ask about is the
//! first.
//!
//! Nothing here knows what an event, a queue or an entry is, and nothing here waits. The same
//! source runs in the library under the locks of the standard library, and in
//! `testing/deferred-release` under those of loom and of shuttle.
//!
//! # The interleavings that matter
//!
//! 1. Two threads end a use of one queue at once. The second thread takes the higher point, and may
//!    record its event or note its use before the first thread does: the use with the higher point,
//!    which covers the work of both, is kept.
//! 2. A queue is asked whether it is idle while another thread submits and takes a point.
//! 3. The uses of an entry end while the entry's waiters are still being put on their timelines.
//! 4. Two threads look at one timeline at once: each entry is released once, and no waiter is
//!    overlooked because another thread had the timeline in its hands.
//! 5. A driver that is asked, an event that is destroyed, or an owner that is dropped calls back
//!    into the library.
//! 6. A timeline loses its last waiter and leaves the list while another thread adds a waiter.
//! 7. A driver cannot tell whether an event has passed.
//!
//! # The rules, and what happens without one
//!
//! Each rule is a constant of [`TimelineKinds`]. The library has them all; the tests of the model
//! take them away one by one, and require that the exploration finds the harm.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::locks::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering, lock};
use super::numbered_list::{NumberedEntry, NumberedList};

/// What is asked, what is released, and the rules. The library has one implementation, which keeps
/// all rules.
pub(crate) trait TimelineKinds: Sized + 'static {
    /// Whom a driver is asked about: an event, or a queue.
    type End: AskDriver;
    /// A share of a thing that is held back.
    type Entry: CountsUses + Clone;
    /// What is known of a timeline's queue.
    type About;

    /// A point is taken before its event is recorded (1). Otherwise the event of a higher point may
    /// be recorded before the work of a lower point is submitted.
    const POINT_BEFORE_RECORD: bool = true;
    /// Of two uses on one timeline the higher point is kept, whichever was noted last (1).
    const HIGHEST_POINT_IS_KEPT: bool = true;
    /// What an idle queue has passed is read before the queue is asked (2).
    const POINTS_BEFORE_IDLE: bool = true;
    /// All uses of an entry are counted before its first waiter can be seen (3).
    const USES_ARE_COUNTED_FIRST: bool = true;
    /// Waiters stay on their timeline while a driver is asked (4).
    const WAITERS_STAY: bool = true;
    /// No driver is asked under a lock, and no end is dropped under a lock (5).
    const ASKS_WITHOUT_LOCK: bool = true;
    /// A timeline leaves the list only after another look for waiters, under both locks (6).
    const LOOKS_BEFORE_LEAVING: bool = true;
    /// An unknown answer is not taken for a passed point (7).
    const UNKNOWN_HAS_NOT_PASSED: bool = true;
}

/// What a driver says of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DriverAnswer {
    /// All work before the point has finished, or can touch no memory any more.
    Passed,
    NotYet,
    /// The driver failed, so nothing is known.
    Unknown,
}

/// The end of a use, about which a driver is asked.
pub(crate) trait AskDriver: Clone {
    /// Whether the driver is asked about the whole queue, and not about an event.
    fn is_whole_queue(&self) -> bool;

    /// Asks the driver. Never waits.
    fn ask(&self) -> DriverAnswer;
}

/// A share of an entry.
pub(crate) trait CountsUses {
    fn uses_left(&self) -> &UsesLeft;
}

/// How many uses of an entry have not ended.
#[derive(Debug)]
pub(crate) struct UsesLeft(AtomicUsize);

impl UsesLeft {
    pub(crate) fn new(count: usize) -> Self {
        Self(AtomicUsize::new(count))
    }

    /// Counts one use down. Returns whether it was the last one.
    fn one_has_ended(&self) -> bool {
        // Acquire and release: the thread that counts to zero sees what the others did before.
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// The order in which a queue passes uses.
pub(crate) struct Timeline<K: TimelineKinds> {
    number: u64,
    about: K::About,
    /// The highest point that was taken.
    taken: AtomicU64,
    /// The highest point that is known to have passed.
    passed: AtomicU64,
    waiters: Mutex<Waiters<K>>,
}

struct Waiters<K: TimelineKinds> {
    /// The waiters for an event.
    of_events: ByPoint<K>,
    /// The waiters for an idle queue.
    of_queue: ByPoint<K>,
    /// The number of the next waiter.
    next: u64,
    /// Whether the timeline is in the list of timelines with waiters.
    is_listed: bool,
}

/// Waiters by point and by a number of their own, since several may wait for one point.
type ByPoint<K> = BTreeMap<(u64, u64), Waiter<K>>;

struct Waiter<K: TimelineKinds> {
    end: K::End,
    entry: K::Entry,
}

/// One queue's use of something, up to a point.
pub(crate) struct Use<K: TimelineKinds> {
    timeline: Arc<Timeline<K>>,
    point: u64,
    end: K::End,
}

/// The last use on each of several timelines.
pub(crate) struct LastUses<K: TimelineKinds> {
    /// The uses, by the numbers of their timelines.
    uses: NumberedList<Use<K>>,
    /// How many uses there may be before ended ones are taken out.
    most: usize,
}

/// A point of a timeline, and the end to ask about.
pub(crate) type Question<K> = (Arc<Timeline<K>>, u64, <K as TimelineKinds>::End);

/// How many uses are kept, at least, before the first look whether some of them have ended.
const FEW_USES: usize = 16;

/// The timelines that have waiters.
pub(crate) struct WaitingTimelines<K: TimelineKinds>(pub(crate) Mutex<ListedTimelines<K>>);

/// What [`WaitingTimelines`] guards.
pub(crate) struct ListedTimelines<K: TimelineKinds> {
    by_number: BTreeMap<u64, Arc<Timeline<K>>>,
    /// The number of the timeline whose turn was last.
    turn: u64,
}

impl<K: TimelineKinds> Timeline<K> {
    /// A timeline on which no point was taken. No other timeline has its number.
    pub(crate) fn new(number: u64, about: K::About) -> Self {
        Self {
            number,
            about,
            taken: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            waiters: Mutex::new(Waiters::new()),
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn about(&self) -> &K::About {
        &self.about
    }

    /// Takes a point, and then calls `record` to record the event that stands for it.
    ///
    /// A thread that takes a higher point records its event after every lower point was taken. The
    /// event of the higher point therefore covers the work of the lower one, in whatever order the
    /// events reach the driver.
    pub(crate) fn record<R>(&self, record: impl FnOnce() -> R) -> (u64, R) {
        if K::POINT_BEFORE_RECORD {
            (self.take_point(), record())
        } else {
            let recorded = record();
            (self.take_point(), recorded)
        }
    }

    /// The point for all work that was submitted so far.
    pub(crate) fn take_point(&self) -> u64 {
        // Release: a thread that sees this point sees that the work was submitted. Acquire: the
        // event of this point is recorded after the work of all lower points was submitted.
        self.taken.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Notes that the queue has passed a point.
    pub(crate) fn pass(&self, point: u64) {
        self.passed.fetch_max(point, Ordering::AcqRel);
    }

    /// The highest point that was taken so far: a queue that is idle after this has passed it.
    pub(crate) fn highest_point(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    fn has_passed(&self, point: u64) -> bool {
        self.passed.load(Ordering::Acquire) >= point
    }

    /// Asks a driver about a point, and notes what has passed.
    pub(crate) fn ask(&self, point: u64, end: &K::End) -> DriverAnswer {
        let before = self.highest_point();
        let answer = end.ask();
        if answer == DriverAnswer::Passed
            || (!K::UNKNOWN_HAS_NOT_PASSED && answer == DriverAnswer::Unknown)
        {
            let passed = match (end.is_whole_queue(), K::POINTS_BEFORE_IDLE) {
                (false, _) => point,
                (true, true) => before,
                (true, false) => self.highest_point(),
            };
            self.pass(passed);
            return DriverAnswer::Passed;
        }
        answer
    }

    /// The lowest point that something waits for, and its end. `None` where the point is above the
    /// limit.
    pub(crate) fn oldest(&self, limit: u64) -> Option<(u64, K::End)> {
        let waiters = lock(&self.waiters);
        let (point, waiter) = waiters.oldest()?;
        (point <= limit).then(|| (point, waiter.end.clone()))
    }

    /// The highest point that a wanted entry waits for.
    pub(crate) fn newest(&self, is_wanted: impl Fn(&K::Entry) -> bool) -> Option<u64> {
        let waiters = lock(&self.waiters);
        let newest_of = |waiters: &ByPoint<K>| {
            let mut from_above = waiters.iter().rev();
            from_above.find(|(_, waiter)| is_wanted(&waiter.entry)).map(|((point, _), _)| *point)
        };
        newest_of(&waiters.of_events).max(newest_of(&waiters.of_queue))
    }

    /// Asks about the oldest waiter, and goes on as long as the answer is that its point has
    /// passed. Adds the entries whose last use has ended to `over`, for the caller to release.
    ///
    /// Where the driver cannot tell about the oldest waiter, the newest one is asked about instead.
    /// Where the oldest waits for an idle queue that is not idle, the oldest event is asked about
    /// instead.
    pub(crate) fn look(&self, waiting: &WaitingTimelines<K>, over: &mut Vec<K::Entry>) {
        loop {
            let (passed, oldest, event, newest, is_listed) = {
                let mut waiters = lock(&self.waiters);
                let passed = waiters.take_up_to(self.passed.load(Ordering::Acquire));
                let end_of = |(point, waiter): (u64, &Waiter<K>)| (point, waiter.end.clone());
                let oldest = waiters.oldest().map(end_of);
                let is_of_queue = oldest.as_ref().is_some_and(|(_, end)| end.is_whole_queue());
                let event = is_of_queue.then(|| first_of(&waiters.of_events).map(end_of)).flatten();
                // A single waiter has no other one to be asked about instead.
                let newest = (waiters.len() > 1).then(|| waiters.newest().map(end_of)).flatten();
                if !K::ASKS_WITHOUT_LOCK
                    && let Some((point, end)) = &oldest
                {
                    self.ask(*point, end);
                }
                (passed, oldest, event, newest, waiters.is_listed)
            };
            count_down(passed, over);
            let Some((point, end)) = oldest else {
                if is_listed {
                    waiting.leave(self);
                }
                return;
            };
            let taken_off = if K::WAITERS_STAY { Vec::new() } else { self.take_all() };
            let stand_in = match self.ask(point, &end) {
                DriverAnswer::Unknown => newest,
                // A queue that is never idle may have passed the point nevertheless.
                DriverAnswer::NotYet if end.is_whole_queue() => event,
                DriverAnswer::NotYet => None,
                DriverAnswer::Passed => Some((point, end)),
            };
            let has_passed = |(point, end): (u64, K::End)| {
                self.has_passed(point) || self.ask(point, &end) == DriverAnswer::Passed
            };
            let goes_on = stand_in.is_some_and(has_passed);
            self.put_back(taken_off);
            if !goes_on {
                return;
            }
        }
    }

    /// Takes all waiters off. Called only in the tests of the model, which take a rule away.
    fn take_all(&self) -> Vec<((u64, u64), Waiter<K>)> {
        let mut waiters = lock(&self.waiters);
        let of_events = std::mem::take(&mut waiters.of_events);
        of_events.into_iter().chain(std::mem::take(&mut waiters.of_queue)).collect()
    }

    /// Puts the waiters of [`take_all`](Self::take_all) back. In the library there are none.
    fn put_back(&self, taken_off: Vec<((u64, u64), Waiter<K>)>) {
        if taken_off.is_empty() {
            return;
        }
        let mut waiters = lock(&self.waiters);
        taken_off.into_iter().for_each(|(place, waiter)| waiters.put(place, waiter));
    }
}

/// The waiter for the lowest point of several, and that point.
fn first_of<K: TimelineKinds>(waiters: &ByPoint<K>) -> Option<(u64, &Waiter<K>)> {
    waiters.first_key_value().map(|((point, _), waiter)| (*point, waiter))
}

impl<K: TimelineKinds> Waiters<K> {
    fn new() -> Self {
        let (of_events, of_queue) = (BTreeMap::new(), BTreeMap::new());
        Self { of_events, of_queue, next: 0, is_listed: false }
    }

    fn len(&self) -> usize {
        self.of_events.len() + self.of_queue.len()
    }

    fn put(&mut self, place: (u64, u64), waiter: Waiter<K>) {
        let waiters = match waiter.end.is_whole_queue() {
            true => &mut self.of_queue,
            false => &mut self.of_events,
        };
        waiters.insert(place, waiter);
    }

    /// The waiter for the lowest point.
    fn oldest(&self) -> Option<(u64, &Waiter<K>)> {
        let firsts = [&self.of_events, &self.of_queue].map(|waiters| waiters.first_key_value());
        let oldest = firsts.into_iter().flatten().min_by_key(|(place, _)| **place);
        oldest.map(|((point, _), waiter)| (*point, waiter))
    }

    /// The waiter for the highest point.
    fn newest(&self) -> Option<(u64, &Waiter<K>)> {
        let lasts = [&self.of_events, &self.of_queue].map(|waiters| waiters.last_key_value());
        let newest = lasts.into_iter().flatten().max_by_key(|(place, _)| **place);
        newest.map(|((point, _), waiter)| (*point, waiter))
    }

    /// Takes off all waiters for points up to this one, in the order of their points.
    fn take_up_to(&mut self, passed: u64) -> Vec<Waiter<K>> {
        let mut taken = Vec::new();
        loop {
            let (event, queue) = (self.of_events.first_entry(), self.of_queue.first_entry());
            let first = match (event, queue) {
                (Some(event), Some(queue)) if queue.key() < event.key() => queue,
                (Some(event), _) => event,
                (None, Some(queue)) => queue,
                (None, None) => return taken,
            };
            if first.key().0 > passed {
                return taken;
            }
            taken.push(first.remove());
        }
    }
}

/// Counts the entries of these waiters down, and destroys the waiters' ends. Called without a lock.
fn count_down<K: TimelineKinds>(waiters: Vec<Waiter<K>>, over: &mut Vec<K::Entry>) {
    for Waiter { end, entry } in waiters {
        // Counted before the end is destroyed, because that may take its time.
        if entry.uses_left().one_has_ended() {
            over.push(entry);
        }
        drop(end);
    }
}

impl<K: TimelineKinds> Use<K> {
    /// The use of a queue up to a point of its timeline.
    pub(crate) fn new(timeline: Arc<Timeline<K>>, point: u64, end: K::End) -> Self {
        Self { timeline, point, end }
    }

    pub(crate) fn timeline(&self) -> &Arc<Timeline<K>> {
        &self.timeline
    }

    /// Whether the use is known to have ended. Asks no driver.
    pub(crate) fn is_known_to_have_ended(&self) -> bool {
        self.timeline.has_passed(self.point)
    }

    /// Whether the use has ended, as far as is known or one question to the driver tells.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_known_to_have_ended()
            || self.timeline.ask(self.point, &self.end) == DriverAnswer::Passed
    }
}

impl<K: TimelineKinds> NumberedEntry for Use<K> {
    fn number(&self) -> u64 {
        self.timeline.number
    }
}

impl<K: TimelineKinds> LastUses<K> {
    pub(crate) fn is_empty(&self) -> bool {
        self.uses.as_slice().is_empty()
    }

    /// Notes a use. Of two uses on one timeline, the one with the higher point ends last and is
    /// kept. Returns the other one, for the caller to drop without a lock.
    pub(crate) fn note(&mut self, used: Use<K>) -> Option<Use<K>> {
        let Some(known) = self.uses.get_mut(used.number()) else {
            self.uses.add_new(used);
            return None;
        };
        if used.point < known.point && K::HIGHEST_POINT_IS_KEPT {
            return Some(used);
        }
        Some(std::mem::replace(known, used))
    }

    /// The questions about each use, once there are many uses.
    pub(crate) fn questions(&self) -> Option<Vec<Question<K>>> {
        let uses = self.uses.as_slice();
        if uses.len() <= self.most {
            return None;
        }
        let question = |used: &Use<K>| (used.timeline.clone(), used.point, used.end.clone());
        Some(uses.iter().map(question).collect())
    }

    /// Takes out the uses that are known to have ended, for the caller to drop without a lock. The
    /// next questions are due when there are twice as many uses as are left.
    pub(crate) fn take_ended(&mut self) -> Vec<Use<K>> {
        let uses = std::mem::take(&mut self.uses).into_vec();
        let (ended, left): (_, Vec<_>) = uses.into_iter().partition(Use::is_known_to_have_ended);
        self.most = FEW_USES.max(2 * left.len());
        self.uses = NumberedList::of(left);
        ended
    }

    pub(crate) fn into_uses(self) -> Vec<Use<K>> {
        self.uses.into_vec()
    }
}

impl<K: TimelineKinds> ListedTimelines<K> {
    /// An empty list. Constant, so that the library's list can be a static.
    pub(crate) const fn new() -> Self {
        Self { by_number: BTreeMap::new(), turn: 0 }
    }
}

impl<K: TimelineKinds> WaitingTimelines<K> {
    /// Puts a waiter for each use of an entry on the timeline of the use. The entry counts these
    /// uses already.
    pub(crate) fn hold(&self, uses: Vec<Use<K>>, entry: &K::Entry) {
        for Use { timeline, point, end } in uses {
            let entry = entry.clone();
            if !K::USES_ARE_COUNTED_FIRST {
                entry.uses_left().0.fetch_add(1, Ordering::AcqRel);
            }
            self.add(&timeline, point, Waiter { end, entry });
        }
    }

    /// Adds a waiter to a timeline, and the timeline to the list if it is not there.
    fn add(&self, timeline: &Arc<Timeline<K>>, point: u64, waiter: Waiter<K>) {
        let mut waiters = lock(&timeline.waiters);
        if !waiters.is_listed {
            drop(waiters);
            // The list is locked before a timeline is, here and in `leave`.
            let mut listed = lock(&self.0);
            waiters = lock(&timeline.waiters);
            if !waiters.is_listed {
                waiters.is_listed = true;
                listed.by_number.insert(timeline.number, timeline.clone());
            }
        }
        let number = waiters.next;
        waiters.next += 1;
        waiters.put((point, number), waiter);
    }

    /// Takes a timeline without waiters off the list.
    fn leave(&self, timeline: &Timeline<K>) {
        let mut listed = lock(&self.0);
        let mut waiters = lock(&timeline.waiters);
        let is_empty = waiters.len() == 0 || !K::LOOKS_BEFORE_LEAVING;
        if is_empty && waiters.is_listed {
            waiters.is_listed = false;
            listed.by_number.remove(&timeline.number);
        }
    }

    /// The next timelines in turn: each once, and at most `most` of them.
    pub(crate) fn in_turn(&self, most: usize) -> Vec<Arc<Timeline<K>>> {
        let mut listed = lock(&self.0);
        let later = (Bound::Excluded(listed.turn), Bound::Unbounded);
        let earlier = (Bound::Unbounded, Bound::Included(listed.turn));
        let (later, earlier) = (listed.by_number.range(later), listed.by_number.range(earlier));
        let next: Vec<_> = later.chain(earlier).take(most).collect();
        let turn = next.last().map(|(number, _)| **number);
        let timelines = next.into_iter().map(|(_, timeline)| timeline.clone()).collect();
        listed.turn = turn.unwrap_or(listed.turn);
        timelines
    }

    /// All timelines that have waiters at the moment.
    pub(crate) fn all(&self) -> Vec<Arc<Timeline<K>>> {
        lock(&self.0).by_number.values().cloned().collect()
    }
}

impl<K: TimelineKinds> Default for LastUses<K> {
    fn default() -> Self {
        Self { uses: NumberedList::new(), most: FEW_USES }
    }
}
