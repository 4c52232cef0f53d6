//! What each queue was given, so that failed work is told to whoever comes behind it.
//!
//! SYCL leaves open whether work behind failed work fails as well: behind a copy that failed, a
//! barrier may say that it is complete. So a barrier alone does not tell whether the work before it
//! went well, and this crate asks the events of the work itself.
//!
//! A [`Lane`] stands for one queue. It numbers the pieces of work that this crate submits to the
//! queue, and keeps the event of each until the event has answered. The algorithm:
//!
//! * A [`Mark`] stands for what a queue was given up to a number. Each recorded event has a mark,
//!   made of the event of the barrier and of the last number that the lane had given before the
//!   barrier was submitted. The mark has passed when the barrier is over and all work up to the
//!   number is over. It has failed if any of that work failed. Work with higher numbers does not
//!   matter to the mark.
//! * Work is asked in the order of the numbers, and no further than the first piece that is not
//!   over. What is over leaves the lane. Of failed work, the lane keeps the lowest number.
//! * A queue that is told to wait for a mark takes over what the lane of the mark still has up to
//!   its number, in front of the barrier that waits. The lane of the waiting queue remembers up to
//!   which number it has taken from which lane, and does not take a piece that it has. So a piece
//!   of work is taken once by each lane, however often queues wait for each other. A foreign event
//!   is one piece of work.
//! * A lane that has grown to twice its size since it was last looked at is looked at again. So the
//!   work for each piece is constant on average, also where nobody asks for marks.
//!
//! A lane is found by the runtime's hash of the queue. The lane has a copy of the queue, so another
//! queue cannot get the same hash meanwhile. The lane of a queue of the application's goes when it
//! has nothing to tell any more, because nobody says when such a queue is closed.
//!
//! Locks: that of the table of lanes may be held when that of a lane is taken, and no two locks of
//! lanes are held at once. The runtime is asked about events under the lock of a lane; no such
//! question waits.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::events::{Answer, ask};
use crate::functions::{COMPLETE, FAILED, Functions, Object};
use crate::objects::Owned;

/// How much work a lane has before it is looked at by itself.
const FIRST_LOOK: usize = 64;
/// From how many lanes a lane remembers what it has taken.
const MOST_TAKEN: usize = 64;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The event of a piece of work, with its last answer.
pub(crate) struct Work {
    event: Owned,
    /// [`COMPLETE`] or [`FAILED`] once the event has said so.
    settled: AtomicI32,
}

impl Work {
    pub(crate) fn new(event: Owned) -> Arc<Self> {
        Arc::new(Self { event, settled: AtomicI32::new(0) })
    }

    pub(crate) fn event(&self) -> Object {
        self.event.object()
    }

    fn known(&self) -> Option<Answer> {
        match self.settled.load(Ordering::Relaxed) {
            COMPLETE => Some(Answer::Over),
            FAILED => Some(Answer::Failed),
            _ => None,
        }
    }

    fn answer(&self, functions: &Functions) -> Answer {
        if let Some(known) = self.known() {
            return known;
        }
        // SAFETY: UNS-31: the table is the one that made the event, which is alive in its owner.
        let answer = unsafe { ask(functions, self.event()) };
        match answer {
            Answer::Over => self.settled.store(COMPLETE, Ordering::Relaxed),
            Answer::Failed => self.settled.store(FAILED, Ordering::Relaxed),
            Answer::Pending | Answer::Unknown => {}
        }
        answer
    }
}

/// What this crate knows of a queue.
pub(crate) struct Lane {
    /// Tells lanes apart, also lanes that came and went.
    number: u64,
    /// The hash of the queue.
    hash: usize,
    state: Mutex<LaneState>,
}

#[derive(Default)]
struct LaneState {
    /// The work that has not answered, by its number. The numbers follow each other.
    pending: VecDeque<(u64, Arc<Work>)>,
    /// The addresses of the work that is pending.
    members: HashSet<usize>,
    /// The last number that was given.
    count: u64,
    /// The lowest number of work that has failed.
    failed_at: Option<u64>,
    /// Up to which number work was taken from which other lane.
    taken: HashMap<u64, u64>,
    /// How much work may be pending before it is looked at.
    next_look: usize,
}

impl LaneState {
    fn push(&mut self, work: Arc<Work>) {
        if self.members.insert(Arc::as_ptr(&work).addr()) {
            self.count += 1;
            self.pending.push_back((self.count, work));
        }
    }

    fn fail(&mut self, number: u64) {
        let lowest = self.failed_at.map_or(number, |failed| failed.min(number));
        self.failed_at = Some(lowest);
    }

    /// Asks the work up to a number, and lets go of what is over.
    fn settle(&mut self, functions: &Functions, up_to: u64) -> Answer {
        while let Some((number, work)) = self.pending.front() {
            let number = *number;
            let answer = match number <= up_to {
                true => work.answer(functions),
                false => work.known().unwrap_or(Answer::Pending),
            };
            match answer {
                Answer::Over => {}
                Answer::Failed => self.fail(number),
                Answer::Pending | Answer::Unknown if number <= up_to => return answer,
                Answer::Pending | Answer::Unknown => break,
            }
            if let Some((_, work)) = self.pending.pop_front() {
                self.members.remove(&Arc::as_ptr(&work).addr());
            }
        }
        match self.failed_at {
            Some(failed) if failed <= up_to => Answer::Failed,
            _ => Answer::Over,
        }
    }

    fn look_at_times(&mut self, functions: &Functions) {
        if self.pending.len() >= self.next_look.max(FIRST_LOOK) {
            self.settle(functions, u64::MAX);
            self.next_look = self.pending.len() * 2;
        }
    }
}

impl Lane {
    /// The last number that was given.
    pub(crate) fn count(&self) -> u64 {
        lock(&self.state).count
    }

    /// Adds work that was submitted.
    pub(crate) fn add(&self, functions: &Functions, work: Arc<Work>) {
        let mut state = lock(&self.state);
        state.push(work);
        state.look_at_times(functions);
    }

    /// Adds a barrier that waits for foreign work.
    pub(crate) fn add_behind(&self, functions: &Functions, foreign: Arc<Work>, barrier: Arc<Work>) {
        let mut state = lock(&self.state);
        state.push(foreign);
        state.push(barrier);
        state.look_at_times(functions);
    }

    /// Adds a barrier that waits for a mark, behind what the mark stands for.
    pub(crate) fn follow(&self, functions: &Functions, mark: &Mark, barrier: Arc<Work>) {
        let from = lock(&self.state).taken.get(&mark.lane.number).copied().unwrap_or(0);
        let (works, has_failed) = {
            let other = lock(&mark.lane.state);
            let first = other.pending.front().map_or(0, |(number, _)| *number);
            let place = |number: u64| {
                let place = usize::try_from((number + 1).saturating_sub(first));
                place.unwrap_or(usize::MAX).min(other.pending.len())
            };
            let (start, end) = (place(from), place(mark.behind));
            let works = other.pending.range(start.min(end)..end);
            let works: Vec<_> = works.map(|(_, work)| work.clone()).collect();
            (works, other.failed_at.is_some_and(|failed| failed <= mark.behind))
        };
        let mut state = lock(&self.state);
        for work in works.into_iter().chain([mark.work.clone()]) {
            match work.known() {
                Some(Answer::Over) => {}
                _ => state.push(work),
            }
        }
        state.push(barrier);
        if has_failed {
            let number = state.count;
            state.fail(number);
        }
        if state.taken.len() >= MOST_TAKEN {
            state.taken.clear();
        }
        let taken = state.taken.entry(mark.lane.number).or_default();
        *taken = mark.behind.max(*taken);
        state.look_at_times(functions);
    }

    fn has_nothing_to_tell(&self) -> bool {
        let state = lock(&self.state);
        state.pending.is_empty() && state.failed_at.is_none()
    }
}

/// What a queue was given up to an event.
#[derive(Clone)]
pub(crate) struct Mark {
    work: Arc<Work>,
    lane: Arc<Lane>,
    /// The last number of the lane before the barrier was submitted.
    behind: u64,
}

impl Mark {
    pub(crate) fn new(work: Arc<Work>, lane: Arc<Lane>, behind: u64) -> Self {
        Self { work, lane, behind }
    }

    pub(crate) fn answer(&self, functions: &Functions) -> Answer {
        // A barrier that has failed may be over before the work in front of the barrier is.
        match self.work.answer(functions) {
            answer @ (Answer::Pending | Answer::Unknown) => answer,
            own => match lock(&self.lane.state).settle(functions, self.behind) {
                Answer::Over => own,
                others => others,
            },
        }
    }
}

/// The lanes of the queues of a context, and the marks of the events that were recorded there.
pub(crate) struct Lanes {
    functions: &'static Functions,
    known: Mutex<KnownLanes>,
}

#[derive(Default)]
struct KnownLanes {
    /// By the hash of the queue; with a copy of the queue.
    lanes: HashMap<usize, (Owned, Arc<Lane>)>,
    /// By the address of the event.
    marks: HashMap<usize, Mark>,
    count: u64,
}

impl Lanes {
    pub(crate) fn new(functions: &'static Functions) -> Self {
        Self { functions, known: Mutex::default() }
    }

    /// The lane of a queue. `None` where the runtime makes no copy of the queue.
    ///
    /// # Safety
    /// UNS-31 of the table, and the queue is alive.
    pub(crate) unsafe fn of(&self, queue: Object) -> Option<Arc<Lane>> {
        // SAFETY: UNS-31, and the queue is alive, as the caller promises.
        let hash = unsafe { (self.functions.queue_hash)(queue) };
        let mut known = lock(&self.known);
        if let Some((_, lane)) = known.lanes.get(&hash) {
            return Some(lane.clone());
        }
        // SAFETY: UNS-31, and the queue is alive, as the caller promises.
        let copy = unsafe { (self.functions.queue_copy)(queue) };
        // SAFETY: UNS-31: the copy was just made; `queue_delete` is for queues.
        let copy = unsafe { Owned::new(copy, self.functions.queue_delete) }?;
        known.count += 1;
        let lane = Arc::new(Lane { number: known.count, hash, state: Mutex::default() });
        known.lanes.insert(hash, (copy, lane.clone()));
        Some(lane)
    }

    /// Forgets the lane of a queue that is about to be closed.
    ///
    /// # Safety
    /// UNS-31 of the table, and the queue is alive.
    pub(crate) unsafe fn forget(&self, queue: Object) {
        // SAFETY: UNS-31, and the queue is alive, as the caller promises.
        let hash = unsafe { (self.functions.queue_hash)(queue) };
        let gone = lock(&self.known).lanes.remove(&hash);
        // The copy of the queue is given back without the lock.
        drop(gone);
    }

    /// Keeps a mark for a barrier that was submitted to the queue of the lane after the lane had
    /// given this number. Returns the event of the barrier.
    pub(crate) fn record(&self, lane: Arc<Lane>, behind: u64, event: Owned) -> Object {
        let work = Work::new(event);
        let object = work.event();
        lane.add(self.functions, work.clone());
        lock(&self.known).marks.insert(object.addr(), Mark { work, lane, behind });
        object
    }

    /// The mark of an event. `None` for a foreign event.
    pub(crate) fn mark(&self, event: Object) -> Option<Mark> {
        lock(&self.known).marks.get(&event.addr()).cloned()
    }

    /// Forgets a mark, and its lane where that has nothing to tell any more.
    pub(crate) fn forget_mark(&self, event: Object) {
        let mut known = lock(&self.known);
        let Some(Mark { work, lane, .. }) = known.marks.remove(&event.addr()) else { return };
        let (hash, number) = (lane.hash, lane.number);
        drop(lane);
        let goes = |(_, lane): &(Owned, Arc<Lane>)| lane.number == number && is_idle(lane);
        let gone = match known.lanes.get(&hash).is_some_and(goes) {
            true => known.lanes.remove(&hash),
            false => None,
        };
        // The runtime's objects are given back without the lock.
        drop(known);
        drop((gone, work));
    }
}

/// Whether nobody but the table has the lane, and the lane has nothing to tell. The caller holds
/// the lock of the table, so nobody else can get the lane meanwhile.
fn is_idle(lane: &Arc<Lane>) -> bool {
    Arc::strong_count(lane) == 1 && lane.has_nothing_to_tell()
}
