//! The queues of a simulator, and the thread that does their work.
//!
//! Operations of the driver put work into lanes, one for each queue, and return. The one thread of
//! an [`Engine`] takes from each lane in turn what may run, sends it to the simulator, waits for
//! the answer, and goes on. So a queue is in order, an event passes after everything before it, and
//! no operation but a wait waits.
//!
//! * Which lane has its turn is the matter of [`lanes`](crate::lanes).
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

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use arrow_device::driver::{EventNotice, LibraryUse};
use arrow_device::{DeviceId, Error, ErrorKind, Result};
use arrow_device_vpi_protocol::{Done, Outcome, Step};

use crate::connection::Connection;
use crate::lanes::{Failure, Landing, Lane, Mark, State, Task, Work};
use crate::memory::Parts;
use crate::start::Process;

/// How long a wait sleeps before it looks whether the end of the process has begun. Nobody wakes a
/// wait then, because the thread may be asleep until the process is gone.
const LOOK: Duration = Duration::from_millis(100);

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
        let state = State::new(Parts::new(size, alignment));
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

    /// An error if the simulator is gone, or is none of this process.
    pub(crate) fn check_is_there(&self) -> Result<()> {
        self.used.enter()?;
        self.check(&self.lock())
    }

    /// Whether this is the process that has opened the simulator, and goes on. The library calls
    /// the driver in that process only, and an application may use a
    /// [`Simulator`](crate::Simulator) in a child of `fork`, too. There, a lock that another thread
    /// of the parent held is never given back.
    fn is_of_this_process(&self) -> bool {
        self.used.enter().is_ok()
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
        if !self.is_of_this_process() {
            return 0;
        }
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
        self.used.enter()?;
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
            let left = deadline
                .map_or(LOOK, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(false);
            }
            state = self.wait_for_progress(state, left)?;
        }
    }

    /// Waits for progress, at most so long and at most for [`LOOK`]. An error after the end of the
    /// process has begun, where the thread does nothing more.
    fn wait_for_progress<'a>(
        &self,
        state: MutexGuard<'a, State>,
        left: Duration,
    ) -> Result<MutexGuard<'a, State>> {
        self.used.enter()?;
        let waited = self.progress.wait_timeout(state, left.min(LOOK));
        Ok(waited.unwrap_or_else(PoisonError::into_inner).0)
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
        self.used.enter()?;
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
            state = self.wait_for_progress(state, LOOK)?;
        }
    }

    /// Changes how many holds there are.
    pub(crate) fn hold(&self, more: bool) {
        if !self.is_of_this_process() {
            return;
        }
        let mut state = self.lock();
        state.holds = if more { state.holds + 1 } else { state.holds.saturating_sub(1) };
        self.ring(&state);
    }

    pub(crate) fn time(&self) -> u64 {
        if self.is_of_this_process() { self.lock().time } else { 0 }
    }

    pub(crate) fn unknown_bytes(&self) -> u64 {
        if self.is_of_this_process() { self.lock().unknown } else { 0 }
    }

    /// The driver is gone: the thread does what was submitted, and ends.
    pub(crate) fn close(&self) {
        // In a child of `fork` neither the thread nor the simulator is the child's.
        if self.is_of_this_process() {
            let mut state = self.lock();
            state.is_closing = true;
            self.ring(&state);
        }
    }
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
        let Some(reason) = self.work() else { return self.engine.stop() };
        self.connection.close();
        let reason = self.process.take().map_or(reason.clone(), |process| process.end(&reason));
        self.engine.lose(reason);
    }

    /// Does the work until the simulator is lost, and returns the reason. `None` after the end of
    /// the process has begun: the host's memory is then not touched any more.
    fn work(&mut self) -> Option<String> {
        loop {
            self.engine.used.enter().ok()?;
            match self.next() {
                Task::Work(lane, steps, landings) => {
                    let done = self.connection.run(steps);
                    self.engine.used.enter().ok()?;
                    match done.and_then(stuck_is_lost) {
                        Ok(done) => self.engine.finish(lane, done, &landings),
                        Err(reason) => return Some(reason),
                    }
                }
                Task::Question((steps, answer)) => {
                    match self.connection.run(steps).and_then(stuck_is_lost) {
                        Ok(done) => self.engine.answer(&answer, done),
                        Err(reason) => return Some(reason),
                    }
                }
                Task::Sleep => {
                    if self.sleep() {
                        return Some(self.connection.farewell());
                    }
                }
                Task::End => return Some("it was closed".into()),
            }
        }
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
        let mut state = self.lock();
        state.note(done.time, done.unknown);
        // Under the lock: whoever has found no answer waits by the time of the notice.
        let _ = answer.set(Ok(done));
        drop(state);
        self.progress.notify_all();
    }

    /// The thread does nothing more, because the end of the process has begun. Whoever waits looks
    /// at that.
    fn stop(&self) {
        drop(self.lock());
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

/// Waits until one of two descriptors can be read, or its other end is gone. Which of them that is.
fn wait_for(descriptors: [RawFd; 2]) -> [bool; 2] {
    /// How long the thread rests where the system refuses to wait.
    const REST: Duration = Duration::from_millis(10);
    let mut polled = descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    // SAFETY: the list has two entries, whose descriptors the caller keeps open (POSIX, `poll`).
    if unsafe { libc::poll(polled.as_mut_ptr(), 2, -1) } >= 0 {
        return polled.map(|one| one.revents != 0);
    }
    // After a signal the thread looks for work, and sleeps again. Other errors may last, such as
    // that of a process whose limit on descriptors is below two.
    if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
        std::thread::sleep(REST);
    }
    [false; 2]
}
