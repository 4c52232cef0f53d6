//! The queues of a simulator, and the thread that does their work.
//!
//! Operations of the driver put work into lanes, one for each queue, and return. The one thread of
//! an [`Engine`] takes from each lane in turn what may run, sends it to the simulator, waits for
//! the answer, and goes on. So a queue is in order, an event passes after everything before it, and
//! no operation but a wait waits.
//!
//! * A [`Mark`] is an event: a place in a lane. A wait for a mark is work that may run once the
//!   mark has its verdict.
//! * Bytes for the simulator are copied when work is submitted. Bytes from the simulator go to the
//!   host's memory when the thread has the whole answer.
//! * Where work fails, its lane has failed: later marks of the lane have the same verdict, and the
//!   work in between is not done.
//! * Where the simulator is gone, or does not keep to the protocol, everything is lost. The thread
//!   then touches no memory any more, and ends.
//!
//! While there is nothing to do the thread sleeps until somebody submits or the simulator speaks,
//! which is how a simulator that dies is noticed.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use arrow_device::driver::{EventNotice, LibraryUse};
use arrow_device::{DeviceId, Error, ErrorKind, Result};
use arrow_device_vpi_protocol::{Done, Outcome, Step};

use crate::connection::Connection;
use crate::memory::Parts;
use crate::start::Process;

/// Why work failed.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    /// The value of the design's register for faults.
    code: Option<u64>,
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
type Verdict = std::result::Result<(), Arc<Failure>>;

/// A place in a lane.
#[derive(Debug, Default)]
pub(crate) struct Mark(OnceLock<Verdict>);

/// Where bytes of an answer go.
#[derive(Debug)]
pub(crate) struct Landing {
    place: *mut u8,
    len: usize,
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

    fn fill(&self, bytes: &[u8]) {
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
struct Lane {
    work: VecDeque<Work>,
    /// Whether the thread has taken work of this lane that is not done.
    is_running: bool,
    failed: Option<Arc<Failure>>,
    /// Whether the queue was closed. The lane goes when it is empty.
    is_closed: bool,
}

/// A question of the application's, which goes before all work of queues.
type Question = (Vec<Step>, Arc<OnceLock<std::result::Result<Done, String>>>);

#[derive(Debug, Default)]
struct State {
    /// By the numbers of queues, so that each gets its turn.
    lanes: BTreeMap<u64, Lane>,
    events: HashMap<u64, Arc<Mark>>,
    next_number: u64,
    questions: VecDeque<Question>,
    notices: Vec<(Arc<Mark>, EventNotice)>,
    parts: Option<Parts>,
    /// How many holds there are. No work of a lane begins meanwhile.
    holds: usize,
    /// Whether the driver is gone. The thread ends when all work is done.
    is_closing: bool,
    is_asleep: bool,
    lost: Option<String>,
    time: u64,
    unknown: u64,
}

/// The state of a simulator, which the driver and the thread share.
#[derive(Debug)]
pub(crate) struct Engine {
    id: DeviceId,
    size: u64,
    used: LibraryUse,
    state: Mutex<State>,
    progress: Condvar,
    /// A byte in it wakes the thread.
    bell: UnixStream,
}

impl Engine {
    /// Starts the thread.
    pub(crate) fn start(
        id: DeviceId,
        size: u64,
        alignment: u64,
        connection: Connection,
        process: Option<Process>,
    ) -> Result<Arc<Self>> {
        let no_thread = |error: std::io::Error| {
            let message = format!("no thread for the simulator: {error}");
            Error::new(ErrorKind::Driver, message).during("open").on_device(id)
        };
        let (bell, rings) = UnixStream::pair().map_err(no_thread)?;
        bell.set_nonblocking(true).map_err(no_thread)?;
        let used = LibraryUse::new();
        used.enter()?;
        let state = State { parts: Some(Parts::new(size, alignment)), ..State::default() };
        let (state, progress) = (Mutex::new(state), Condvar::new());
        let engine = Arc::new(Self { id, size, used, state, progress, bell });
        let thread = Thread { engine: engine.clone(), connection, process, rings };
        let name = format!("arrow-device {id}");
        let spawned = std::thread::Builder::new().name(name).spawn(move || thread.run());
        spawned.map_err(no_thread)?;
        Ok(engine)
    }

    pub(crate) fn id(&self) -> DeviceId {
        self.id
    }

    /// The number of bytes of the memory.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self, state: &State) {
        if state.is_asleep {
            // Where the bell is full, it rings.
            let _ = (&self.bell).write(&[0]);
        }
    }

    fn lost(&self, reason: &str) -> Error {
        Error::new(ErrorKind::DeviceLost, format!("the simulator is gone: {reason}"))
            .on_device(self.id)
    }

    fn check(&self, state: &State) -> Result<()> {
        state.lost.as_ref().map_or(Ok(()), |reason| Err(self.lost(reason)))
    }

    fn unknown(&self, what: &str) -> Error {
        let message = format!("this driver knows no such {what}");
        Error::new(ErrorKind::InvalidArgument, message).on_device(self.id)
    }

    /// An error if the simulator is gone.
    pub(crate) fn check_is_there(&self) -> Result<()> {
        self.check(&self.lock())
    }

    // ---- memory

    pub(crate) fn allocate(&self, len: u64) -> Result<u64> {
        let mut state = self.lock();
        self.check(&state)?;
        let size = self.size;
        state.parts.as_mut().and_then(|parts| parts.allocate(len)).ok_or_else(|| {
            let message = format!("{len} bytes of a simulated memory of {size} asked for");
            Error::new(ErrorKind::OutOfMemory, message).during("allocate").on_device(self.id)
        })
    }

    pub(crate) fn free(&self, at: u64) {
        if let Some(parts) = &mut self.lock().parts {
            parts.free(at);
        }
    }

    pub(crate) fn remaining(&self, at: u64) -> Option<u64> {
        self.lock().parts.as_ref()?.remaining(at)
    }

    pub(crate) fn in_use(&self) -> u64 {
        self.lock().parts.as_ref().map_or(0, Parts::in_use)
    }

    // ---- queues

    pub(crate) fn open_lane(&self) -> Result<u64> {
        let mut state = self.lock();
        self.check(&state)?;
        state.next_number += 1;
        let number = state.next_number;
        state.lanes.insert(number, Lane::default());
        Ok(number)
    }

    pub(crate) fn close_lane(&self, number: u64) {
        let mut state = self.lock();
        if let Some(lane) = state.lanes.get_mut(&number) {
            lane.is_closed = true;
            if lane.work.is_empty() && !lane.is_running {
                state.lanes.remove(&number);
            }
        }
    }

    pub(crate) fn submit(&self, lane: u64, work: impl IntoIterator<Item = Work>) -> Result<()> {
        let mut state = self.lock();
        self.check(&state)?;
        let found = state.lanes.get_mut(&lane).filter(|lane| !lane.is_closed);
        found.ok_or_else(|| self.unknown("queue"))?.work.extend(work);
        self.ring(&state);
        Ok(())
    }

    pub(crate) fn is_idle(&self, lane: u64) -> Result<bool> {
        let state = self.lock();
        self.check(&state)?;
        let lane = state.lanes.get(&lane).ok_or_else(|| self.unknown("queue"))?;
        match &lane.failed {
            _ if lane.is_running || !lane.work.is_empty() => Ok(false),
            Some(failure) => Err(failure.error(self.id)),
            None => Ok(true),
        }
    }

    // ---- events

    pub(crate) fn make_event(&self) -> Result<u64> {
        let mut state = self.lock();
        self.check(&state)?;
        state.next_number += 1;
        let number = state.next_number;
        state.events.insert(number, Arc::default());
        Ok(number)
    }

    pub(crate) fn destroy_event(&self, number: u64) {
        self.lock().events.remove(&number);
    }

    pub(crate) fn mark(&self, number: u64) -> Result<Arc<Mark>> {
        let state = self.lock();
        state.events.get(&number).cloned().ok_or_else(|| self.unknown("event"))
    }

    fn verdict(&self, mark: &Mark, state: &State) -> Result<bool> {
        match mark.0.get() {
            Some(Ok(())) => Ok(true),
            Some(Err(failure)) => Err(failure.error(self.id)),
            None => self.check(state).map(|()| false),
        }
    }

    pub(crate) fn is_complete(&self, mark: &Mark) -> Result<bool> {
        self.verdict(mark, &self.lock())
    }

    /// Waits for a mark, at most so long. Whether the mark has passed.
    pub(crate) fn wait_for(&self, mark: &Mark, timeout: Option<Duration>) -> Result<bool> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.lock();
        loop {
            if self.verdict(mark, &state)? {
                return Ok(true);
            }
            state = match deadline {
                None => self.progress.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(false);
                    }
                    let waited = self.progress.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Keeps a notice until the mark has its verdict.
    pub(crate) fn announce(&self, mark: Arc<Mark>, notice: EventNotice) -> Result<()> {
        let mut state = self.lock();
        if self.verdict(&mark, &state).is_ok_and(|has_passed| !has_passed) {
            state.notices.push((mark, notice));
            return Ok(());
        }
        drop(state);
        notice.call();
        Ok(())
    }

    // ---- the application's questions

    /// Has steps done before all other work that has not begun, and waits for their answer.
    pub(crate) fn ask(&self, steps: Vec<Step>) -> Result<Done> {
        let answer = Arc::new(OnceLock::new());
        let mut state = self.lock();
        self.check(&state)?;
        state.questions.push_back((steps, answer.clone()));
        self.ring(&state);
        loop {
            if let Some(answer) = answer.get() {
                return answer.clone().map_err(|reason| self.lost(&reason));
            }
            self.check(&state)?;
            state = self.progress.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Changes how many holds there are.
    pub(crate) fn hold(&self, more: bool) {
        let mut state = self.lock();
        state.holds = if more { state.holds + 1 } else { state.holds.saturating_sub(1) };
        self.ring(&state);
    }

    pub(crate) fn time(&self) -> u64 {
        self.lock().time
    }

    pub(crate) fn unknown_bytes(&self) -> u64 {
        self.lock().unknown
    }

    /// The driver is gone: the thread does what was submitted, and ends.
    pub(crate) fn close(&self) {
        // In a child of `fork` neither the thread nor the simulator is the child's.
        if self.used.enter().is_ok() {
            let mut state = self.lock();
            state.is_closing = true;
            self.ring(&state);
        }
    }
}

/// What the thread does next.
enum Task {
    Work(u64, Vec<Step>, Vec<Landing>),
    Question(Question),
    Sleep,
    End,
}

/// The engine's thread.
struct Thread {
    engine: Arc<Engine>,
    connection: Connection,
    process: Option<Process>,
    rings: UnixStream,
}

impl Thread {
    fn run(mut self) {
        let reason = loop {
            // After the end of the process has begun, the host's memory is not touched.
            if self.engine.used.enter().is_err() {
                return;
            }
            match self.next() {
                Task::Work(lane, steps, landings) => {
                    let done = self.connection.run(steps);
                    if self.engine.used.enter().is_err() {
                        return;
                    }
                    match done.and_then(stuck_is_lost) {
                        Ok(done) => self.engine.finish(lane, done, &landings),
                        Err(reason) => break reason,
                    }
                }
                Task::Question((steps, answer)) => {
                    match self.connection.run(steps).and_then(stuck_is_lost) {
                        Ok(done) => self.engine.answer(&answer, done),
                        Err(reason) => break reason,
                    }
                }
                Task::Sleep => {
                    if self.sleep() {
                        break self.connection.farewell();
                    }
                }
                Task::End => break "it was closed".into(),
            }
        };
        self.connection.close();
        let reason = self.process.take().map_or(reason.clone(), |process| process.end(&reason));
        self.engine.lose(reason);
    }

    fn next(&self) -> Task {
        let mut state = self.engine.lock();
        if let Some(question) = state.questions.pop_front() {
            return Task::Question(question);
        }
        let (task, notices) = state.next_work();
        match task {
            Some(task) => {
                drop(state);
                self.engine.tell(notices);
                task
            }
            None if state.is_closing && state.lanes.values().all(|lane| lane.work.is_empty()) => {
                Task::End
            }
            None => {
                state.is_asleep = true;
                drop(state);
                self.engine.tell(notices);
                Task::Sleep
            }
        }
    }

    /// Sleeps until there may be work. Whether the simulator has spoken, or is gone.
    fn sleep(&mut self) -> bool {
        let [is_spoken_to, _] = wait_for([self.connection.descriptor(), self.rings.as_raw_fd()]);
        let mut state = self.engine.lock();
        state.is_asleep = false;
        drop(state);
        let mut rings = [0; 64];
        // What is in the bell rang before the thread was awake.
        let _ = self.rings.set_nonblocking(true).and_then(|()| self.rings.read(&mut rings));
        is_spoken_to
    }
}

impl Drop for Thread {
    /// However the thread ends, nobody waits for it any longer.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.engine.lose("the driver's thread has ended by a mistake".into());
        }
    }
}

/// A job that does not end may go on writing to the memory, so the simulator is of no use any more.
fn stuck_is_lost(done: Done) -> std::result::Result<Done, String> {
    match done.outcome {
        Outcome::Stuck { .. } => {
            let time = done.time;
            Err(format!("a job of the design did not end, and was given up at time {time}"))
        }
        _ => Ok(done),
    }
}

impl State {
    /// The next work of a lane that may run. Gives marks before it their verdicts.
    fn next_work(&mut self) -> (Option<Task>, Vec<EventNotice>) {
        let mut has_passed = false;
        let mut task = None;
        // A mark of one lane may let another one go on.
        loop {
            let mut goes_on = false;
            for (number, lane) in &mut self.lanes {
                while task.is_none() && !lane.is_running {
                    match lane.work.front() {
                        Some(Work::Mark(mark)) => {
                            let verdict = lane.failed.clone().map_or(Ok(()), Err);
                            let _ = mark.0.set(verdict);
                            has_passed = true;
                        }
                        Some(Work::Wait(mark)) => match mark.0.get() {
                            None => break,
                            Some(Ok(())) => {}
                            Some(Err(failure)) => {
                                lane.failed.get_or_insert_with(|| failure.clone());
                            }
                        },
                        Some(Work::Steps(..)) if lane.failed.is_some() => {}
                        Some(Work::Steps(..)) if self.holds > 0 => break,
                        Some(Work::Steps(..)) => {
                            if let Some(Work::Steps(steps, landings)) = lane.work.pop_front() {
                                lane.is_running = true;
                                task = Some(Task::Work(*number, steps, landings));
                            }
                            break;
                        }
                        None => break,
                    }
                    lane.work.pop_front();
                    goes_on = true;
                }
            }
            if !goes_on || task.is_some() {
                break;
            }
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
}

impl Engine {
    /// Wakes who waits, and calls notices. No lock is held.
    fn tell(&self, notices: Vec<EventNotice>) {
        self.progress.notify_all();
        notices.into_iter().for_each(EventNotice::call);
    }

    /// Work of a lane was answered.
    fn finish(&self, lane: u64, done: Done, landings: &[Landing]) {
        let mut rest = done.data.as_slice();
        let failure = match done.outcome {
            Outcome::Well => {
                for landing in landings {
                    let (bytes, others) = rest.split_at_checked(landing.len).unwrap_or((rest, &[]));
                    landing.fill(bytes);
                    rest = others;
                }
                None
            }
            Outcome::Fault { code, .. } => {
                let message = format!("the design reports a fault, {code}, at time {}", done.time);
                Some(Failure { message, code: Some(code) })
            }
            Outcome::Refused { reason, .. } => Some(Failure { message: reason, code: None }),
            Outcome::Stuck { .. } => None,
        };
        let mut state = self.lock();
        state.note(done.time, done.unknown);
        if let Some(lane) = state.lanes.get_mut(&lane) {
            lane.is_running = false;
            if let Some(failure) = failure {
                lane.failed.get_or_insert_with(|| Arc::new(failure));
            }
        }
    }

    fn answer(&self, answer: &OnceLock<std::result::Result<Done, String>>, done: Done) {
        self.lock().note(done.time, done.unknown);
        let _ = answer.set(Ok(done));
        self.progress.notify_all();
    }

    /// Everything is lost.
    fn lose(&self, reason: String) {
        let mut state = self.lock();
        state.lost.get_or_insert(reason);
        // The work is dropped: the host's memory is not touched any more.
        state.lanes.values_mut().for_each(|lane| lane.work.clear());
        let notices = std::mem::take(&mut state.notices);
        drop(state);
        self.tell(notices.into_iter().map(|(_, notice)| notice).collect());
    }
}

impl State {
    fn note(&mut self, time: u64, unknown: u64) {
        self.time = self.time.max(time);
        self.unknown = self.unknown.saturating_add(unknown);
    }
}

/// Waits until one of two descriptors can be read, or its other end is gone. Which of them that is.
fn wait_for(descriptors: [RawFd; 2]) -> [bool; 2] {
    let mut polled = descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    // SAFETY: the list has two entries, whose descriptors the caller keeps open (POSIX, `poll`).
    let count = unsafe { libc::poll(polled.as_mut_ptr(), 2, -1) };
    // After a signal the thread looks for work, and sleeps again.
    if count < 0 { [false; 2] } else { polled.map(|one| one.revents != 0) }
}
