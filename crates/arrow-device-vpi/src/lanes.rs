//! What the queues of a simulator have to do, and which of them has its turn.
//!
//! A lane is the work of one queue, in order. Lanes have their turns by their numbers: the search
//! for the next work of the simulator begins behind the lane that had its turn last. Marks and
//! waits are no work of the simulator. Whatever lane has its turn, each search gives all marks
//! their verdicts that lie before the next work of their lanes.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::{Arc, OnceLock};

use arrow_device::driver::EventNotice;
use arrow_device::{DeviceId, Error, ErrorKind};
use arrow_device_vpi_protocol::{Done, Step};

use crate::memory::Parts;

/// Why work failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    /// The value of the design's register for faults.
    pub(crate) code: Option<u64>,
}

impl Failure {
    pub(crate) fn error(&self, device: DeviceId) -> Error {
        let error = Error::new(ErrorKind::WorkFailed, self.message.clone()).on_device(device);
        match self.code {
            Some(code) => error.from_vendor(code.cast_signed(), "the design's number of the fault"),
            None => error,
        }
    }
}

/// What became of the work before a mark.
pub(crate) type Verdict = std::result::Result<(), Arc<Failure>>;

/// A place in a lane.
#[derive(Debug, Default)]
pub(crate) struct Mark(pub(crate) OnceLock<Verdict>);

/// Where bytes of an answer go.
#[derive(Debug)]
pub(crate) struct Landing {
    place: *mut u8,
    pub(crate) len: usize,
}

// SAFETY: the place is a number until the engine's thread writes to it, which whoever made the
// landing has allowed from any thread (see `Landing::new`).
unsafe impl Send for Landing {}

impl Landing {
    /// # Safety
    /// The place holds `len` bytes that may be written, on any thread, until the queue has passed
    /// the work that the landing is part of (UNS-21).
    pub(crate) unsafe fn new(place: *mut u8, len: usize) -> Self {
        Self { place, len }
    }

    pub(crate) fn fill(&self, bytes: &[u8]) {
        let len = self.len.min(bytes.len());
        // SAFETY: what `Landing::new` was promised: the place holds `self.len` bytes until the
        // queue has passed this work, which it has not; the bytes are the engine's own and
        // elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.place, len) };
    }
}

/// One thing that a lane has to do.
#[derive(Debug)]
pub(crate) enum Work {
    /// Steps, and where the data of the answer goes.
    Steps(Vec<Step>, Vec<Landing>),
    /// A mark that gets its verdict here.
    Mark(Arc<Mark>),
    /// A wait for a mark.
    Wait(Arc<Mark>),
}

#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) work: VecDeque<Work>,
    /// Whether the thread has taken work of this lane that is not done.
    pub(crate) is_running: bool,
    pub(crate) failed: Option<Arc<Failure>>,
    /// Whether the queue was closed. The lane goes when it is empty.
    pub(crate) is_closed: bool,
}

/// A question of the application's, which goes before all work of queues.
pub(crate) type Question = (Vec<Step>, Arc<OnceLock<std::result::Result<Done, String>>>);

#[derive(Debug, Default)]
pub(crate) struct State {
    /// By the numbers of queues, so that each gets its turn.
    pub(crate) lanes: BTreeMap<u64, Lane>,
    /// The lane that had its turn last.
    last: u64,
    pub(crate) events: HashMap<u64, Arc<Mark>>,
    pub(crate) next_number: u64,
    pub(crate) questions: VecDeque<Question>,
    pub(crate) notices: Vec<(Arc<Mark>, EventNotice)>,
    pub(crate) parts: Option<Parts>,
    /// How many holds there are. No work of a lane begins meanwhile.
    pub(crate) holds: usize,
    /// Whether the driver is gone. The thread ends when all work is done.
    pub(crate) is_closing: bool,
    pub(crate) is_asleep: bool,
    pub(crate) lost: Option<String>,
    pub(crate) time: u64,
    pub(crate) unknown: u64,
}

/// What the thread does next.
pub(crate) enum Task {
    Work(u64, Vec<Step>, Vec<Landing>),
    Question(Question),
    Sleep,
    End,
}

impl State {
    pub(crate) fn new(parts: Parts) -> Self {
        Self { parts: Some(parts), ..Self::default() }
    }

    /// The next work of a lane that may run. Gives marks before the work of lanes their verdicts.
    pub(crate) fn next_work(&mut self) -> (Option<Task>, Vec<EventNotice>) {
        let mut has_passed = false;
        let mut task = None;
        let behind = (Excluded(self.last), Unbounded);
        let others = (Unbounded, Included(self.last));
        // A mark of one lane may let another one go on.
        loop {
            let mut goes_on = false;
            for (number, lane) in self.lanes.range_mut(behind) {
                goes_on |= lane.advance(*number, self.holds > 0, &mut task, &mut has_passed);
            }
            for (number, lane) in self.lanes.range_mut(others) {
                goes_on |= lane.advance(*number, self.holds > 0, &mut task, &mut has_passed);
            }
            if !goes_on {
                break;
            }
        }
        if let Some(Task::Work(number, ..)) = &task {
            self.last = *number;
        }
        self.lanes.retain(|_, lane| !lane.is_closed || lane.is_running || !lane.work.is_empty());
        let notices = if has_passed { self.due() } else { Vec::new() };
        (task, notices)
    }

    /// The notices of marks that have their verdicts.
    fn due(&mut self) -> Vec<EventNotice> {
        let is_due = |(mark, _): &mut (Arc<Mark>, _)| mark.0.get().is_some();
        self.notices.extract_if(.., is_due).map(|(_, notice)| notice).collect()
    }

    pub(crate) fn note(&mut self, time: u64, unknown: u64) {
        self.time = self.time.max(time);
        self.unknown = self.unknown.saturating_add(unknown);
    }
}

impl Lane {
    /// Does what comes before the next work of the simulator. Takes that work if nothing is taken
    /// yet and no work is held. Whether anything was done but that.
    fn advance(
        &mut self,
        number: u64,
        is_held: bool,
        task: &mut Option<Task>,
        has_passed: &mut bool,
    ) -> bool {
        let mut goes_on = false;
        while !self.is_running {
            match self.work.front() {
                Some(Work::Mark(mark)) => {
                    let verdict = self.failed.clone().map_or(Ok(()), Err);
                    let _ = mark.0.set(verdict);
                    *has_passed = true;
                }
                Some(Work::Wait(mark)) => match mark.0.get() {
                    None => break,
                    Some(Ok(())) => {}
                    Some(Err(failure)) => {
                        self.failed.get_or_insert_with(|| failure.clone());
                    }
                },
                Some(Work::Steps(..)) if self.failed.is_some() => {}
                Some(Work::Steps(..)) if is_held || task.is_some() => break,
                Some(Work::Steps(..)) => {
                    if let Some(Work::Steps(steps, landings)) = self.work.pop_front() {
                        self.is_running = true;
                        *task = Some(Task::Work(number, steps, landings));
                    }
                    break;
                }
                None => break,
            }
            self.work.pop_front();
            goes_on = true;
        }
        goes_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps() -> Work {
        Work::Steps(Vec::new(), Vec::new())
    }

    fn lane(work: impl IntoIterator<Item = Work>) -> Lane {
        Lane { work: work.into_iter().collect(), ..Lane::default() }
    }

    /// Takes the next work, and does it. The number of its lane.
    fn turn(state: &mut State) -> Option<u64> {
        let (task, _) = state.next_work();
        let Some(Task::Work(number, ..)) = task else { return None };
        if let Some(lane) = state.lanes.get_mut(&number) {
            lane.is_running = false;
        }
        Some(number)
    }

    fn has_passed(mark: &Mark) -> bool {
        mark.0.get().is_some()
    }

    #[test]
    fn lanes_have_their_turns_one_after_the_other() {
        let mut state = State::default();
        for (number, count) in [(3, 4), (5, 1), (8, 2)] {
            state.lanes.insert(number, lane((0..count).map(|_| steps())));
        }
        let turns: Vec<u64> = std::iter::from_fn(|| turn(&mut state)).collect();
        assert_eq!(turns, [3, 5, 8, 3, 8, 3, 3]);
        // A lane that is opened later has its turn, too.
        state.lanes.insert(9, lane([steps(), steps()]));
        state.lanes.insert(1, lane([steps()]));
        let turns: Vec<u64> = std::iter::from_fn(|| turn(&mut state)).collect();
        assert_eq!(turns, [9, 1, 9]);
    }

    #[test]
    fn a_mark_of_an_empty_lane_passes_while_another_lane_has_work() {
        for (busy, empty) in [(1, 2), (2, 1)] {
            let mut state = State::default();
            let mark = Arc::new(Mark::default());
            state.lanes.insert(busy, lane((0..10).map(|_| steps())));
            state.lanes.insert(empty, lane([Work::Mark(mark.clone())]));
            assert_eq!(turn(&mut state), Some(busy));
            assert!(has_passed(&mark), "lane {empty}");
        }
    }

    /// The mark that the first lane waits for comes before work of the second lane that the same
    /// search takes.
    #[test]
    fn a_wait_ends_in_the_search_in_which_its_mark_passes() {
        let mut state = State::default();
        let [first, last] = [(); 2].map(|()| Arc::new(Mark::default()));
        state.lanes.insert(1, lane([Work::Wait(first.clone()), Work::Mark(last.clone())]));
        state.lanes.insert(2, lane([steps(), Work::Mark(first.clone()), steps()]));
        assert_eq!(turn(&mut state), Some(2));
        assert!(!has_passed(&first) && !has_passed(&last));
        assert_eq!(turn(&mut state), Some(2));
        assert!(has_passed(&first) && has_passed(&last));
    }
}
