//! The queues of Metal, each with what is known of the work on it.
//!
//! A [`Lane`] numbers the command buffers that this crate submits to a queue: 1, 2, 3. The shared
//! event of the lane, its timeline, gets the number of a command buffer as its value when the
//! command buffer is done, and each command buffer waits for the number before its own. So the
//! pieces of work of this crate follow each other strictly, also where Metal, which knows of no
//! dependency between two buffers, would let them overlap.
//!
//! [`look`] finds out how far a lane has come. It goes through the command buffers from the oldest
//! on:
//!
//! 1. Where a command buffer waits for the work of another lane, that lane is looked at first.
//! 2. A command buffer that is finished, or failed, is taken off the list.
//! 3. What it copied to a buffer on the way to the host is moved on to where it belongs.
//! 4. A failed command buffer, and one behind a wait for failed work, is the lane's first failure.
//!    All later work of the lane has failed, too. Metal may leave out the signals of a command
//!    buffer that fails, so the timeline is set by hand, and what waits for the lane goes on.
//!
//! Nobody is told that work is over before [`look`] has come to it.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use arrow_device::Result;
use arrow_device::driver::ask_until;

use crate::api::{Api, Id};
use crate::error::{DEVICE_REMOVED, device_lost, work_failed};
use crate::home::{Home, MOST_COMMAND_BUFFERS};
use crate::object::{Object, Pool, not_made};

/// `MTLCommandBufferStatusCompleted`. A larger number is a failure, a smaller one work that goes
/// on.
const COMPLETED: usize = 4;
/// How often a wait asks without a pause, before it begins to pause.
const EAGER: u32 = 50;
const PAUSE: Duration = Duration::from_micros(50);
/// How long a wait goes on before it looks again whether work has failed: such work may signal
/// nothing.
const SLICE: Duration = Duration::from_millis(10);

pub(crate) struct Lane {
    pub(crate) home: Arc<Home>,
    pub(crate) queue: Object,
    pub(crate) owner: Owner,
    timeline: Object,
    /// Held while a command buffer is made, encoded, committed and listed. Metal may wait
    /// meanwhile, so that nothing but a submission may wait for this lock.
    submitting: Mutex<()>,
    state: Mutex<LaneState>,
}

/// Who made a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Crate,
    Application,
}

impl Owner {
    /// How many unfinished command buffers this crate may have on a queue. The rest of the queue's
    /// limit ([`MOST_COMMAND_BUFFERS`], and usually 64 on a queue of the application's) is for the
    /// command buffers of the application.
    fn most_unfinished(self) -> usize {
        match self {
            Self::Crate => MOST_COMMAND_BUFFERS - 96,
            Self::Application => 48,
        }
    }
}

#[derive(Default)]
struct LaneState {
    /// The number of the last command buffer that was committed.
    newest: u64,
    /// The command buffers that were not seen finished yet, oldest first.
    entries: VecDeque<Entry>,
    /// The first command buffer that failed, with its code.
    failed: Option<(u64, i64)>,
}

struct Entry {
    number: u64,
    commands: Object,
    /// The work of another lane that this waits for.
    after: Option<Point>,
    /// The code of the failed work of another lane that this waited for.
    spoiled: Option<i64>,
    to_host: Vec<HostCopy>,
}

/// Bytes that a command buffer puts into a buffer on their way to the host.
pub(crate) struct HostCopy {
    /// Keeps the bytes that are copied from.
    pub(crate) _through: Object,
    pub(crate) from: *const u8,
    pub(crate) to: *mut u8,
    pub(crate) len: usize,
}

// SAFETY: the pointers are used by whoever has the lock of the lane; the memory that they point to
// may be used on any thread until the queue has passed the copy (UNS-21).
unsafe impl Send for HostCopy {}

/// A place in the work of a lane.
#[derive(Clone)]
pub(crate) struct Point {
    pub(crate) lane: Arc<Lane>,
    number: u64,
}

/// How far work has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Pending,
    Done,
    Failed(i64),
    Lost,
}

/// What a lane says when it is looked at.
enum Step {
    Pending,
    /// The command buffer of this number waits for the work of another lane.
    Behind(Point, u64),
    /// All work is over; with the code of the first failure.
    Over(Option<i64>),
}

/// What a command buffer does.
#[derive(Default)]
pub(crate) struct Work<'a> {
    /// The event that is waited for first.
    pub(crate) wait: Option<(&'a Object, u64)>,
    /// The lane that signals that event.
    pub(crate) after: Option<Point>,
    pub(crate) copies: &'a [BufferCopy],
    pub(crate) to_host: Vec<HostCopy>,
    /// The event that gets the value 1 last.
    pub(crate) signal: Option<&'a Object>,
}

/// A copy between two buffers, in whole units.
pub(crate) struct BufferCopy {
    pub(crate) from: Object,
    pub(crate) from_offset: usize,
    pub(crate) to: Object,
    pub(crate) to_offset: usize,
    pub(crate) len: usize,
}

impl Lane {
    pub(crate) fn new(home: &Arc<Home>, queue: Object, owner: Owner) -> Result<Arc<Self>> {
        let (home, timeline) = (home.clone(), home.new_event()?);
        let (submitting, state) = (Mutex::new(()), Mutex::default());
        Ok(Arc::new(Self { home, queue, owner, timeline, submitting, state }))
    }

    fn state(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing of the lane's work has to be remembered.
    pub(crate) fn is_forgettable(&self) -> bool {
        let state = self.state();
        state.entries.is_empty() && state.failed.is_none()
    }

    /// Goes on with what is finished. Returns whether all work is over, or the device is lost.
    /// Nothing of the work is known any more then.
    pub(crate) fn is_over(self: &Arc<Self>) -> bool {
        let progress = look(&Point { lane: self.clone(), number: u64::MAX });
        if progress == Progress::Lost {
            // Without the lock: this may be the last share of other lanes.
            let entries = std::mem::take(&mut self.state().entries);
            drop(entries);
        }
        progress != Progress::Pending
    }

    /// The point behind all that this crate has submitted so far.
    pub(crate) fn newest(self: &Arc<Self>) -> Point {
        let number = self.state().newest;
        Point { lane: self.clone(), number }
    }

    /// How many command buffers there are that were not seen finished.
    fn unfinished(&self) -> usize {
        self.state().entries.len()
    }

    /// Waits until this crate may have one more unfinished command buffer on the queue, and goes on
    /// with what is finished meanwhile. Metal waits, too, where there are too many. But nobody
    /// would go on with failed work then, for which the other command buffers may be waiting.
    fn wait_for_room(self: &Arc<Self>) -> Result<()> {
        let has_room = || {
            if self.unfinished() < self.owner.most_unfinished() {
                return Ok(true);
            }
            let _pool = self.home.pool();
            self.is_over();
            self.home.check()?;
            Ok(false)
        };
        ask_until(None, has_room).map(drop)
    }

    /// Submits one command buffer. Waits where the queue has no room for one more.
    ///
    /// # Safety
    /// The objects are buffers and events of the lane's device; UNS-21 for the copies, whose places
    /// and lengths are multiples of 4 inside the buffers, and for those to the host.
    pub(crate) unsafe fn submit(self: &Arc<Self>, work: Work<'_>) -> Result<Point> {
        self.home.check()?;
        let submitting = loop {
            self.wait_for_room()?;
            let submitting = self.submitting.lock().unwrap_or_else(PoisonError::into_inner);
            // Other threads may have submitted before this one had the lock.
            if self.unfinished() < self.owner.most_unfinished() {
                break submitting;
            }
        };
        // SAFETY: as the caller promises.
        unsafe { self.submit_next(&submitting, work) }
    }

    /// Submits a command buffer that does nothing, unless other work of this crate is unfinished or
    /// being submitted.
    pub(crate) fn submit_if_empty(self: &Arc<Self>) -> Result<Option<Point>> {
        self.home.check()?;
        let submitting = match self.submitting.try_lock() {
            Ok(submitting) => submitting,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(None),
        };
        if self.unfinished() > 0 {
            return Ok(None);
        }
        // SAFETY: nothing is copied.
        unsafe { self.submit_next(&submitting, Work::default()) }.map(Some)
    }

    /// Submits one command buffer with the lock of the lane's submissions.
    ///
    /// # Safety
    /// As [`submit`](Self::submit) has it.
    unsafe fn submit_next(
        self: &Arc<Self>,
        _submitting: &MutexGuard<'_, ()>,
        work: Work<'_>,
    ) -> Result<Point> {
        let (api, names) = (self.home.api, &self.home.api.selectors);
        let _pool = Pool::new(api);
        let submitted = self.state().newest;
        // SAFETY: `- (id)commandBuffer` of a queue; there is a pool.
        let commands: Id = unsafe { api.send(self.queue.id(), names.command_buffer) };
        let missing = || not_made("command buffer").on_device(self.home.id);
        let commands = NonNull::new(commands).ok_or_else(missing)?;
        // SAFETY: the pool keeps the object alive.
        let commands = unsafe { Object::retained(api, commands) };
        for (event, value) in work.wait.into_iter().chain([(&self.timeline, submitted)]) {
            // SAFETY: a command buffer that is being encoded, and an event of its device.
            unsafe { encode(api, &commands, names.encode_wait, event, value) };
        }
        if !work.copies.is_empty() {
            // SAFETY: the command buffer is being encoded; the copies are as the caller promises.
            unsafe { self.encode_copies(&commands, work.copies) }?;
        }
        let number = submitted + 1;
        let signals = work.signal.map(|event| (event, 1));
        for (event, value) in signals.into_iter().chain([(&self.timeline, number)]) {
            // SAFETY: a command buffer that is being encoded, without an open encoder, and an event
            // of its device.
            unsafe { encode(api, &commands, names.encode_signal, event, value) };
        }
        let (after, to_host) = (work.after, work.to_host);
        // SAFETY: `- (void)commit` of a command buffer, once, without an open encoder.
        unsafe { api.send::<()>(commands.id(), names.commit) };
        // After the commit: other threads ask for the status of what is listed.
        let mut state = self.state();
        state.entries.push_back(Entry { number, commands, after, spoiled: None, to_host });
        state.newest = number;
        drop(state);
        Ok(Point { lane: self.clone(), number })
    }

    /// # Safety
    /// The command buffer is being encoded; the copies are as [`submit`](Self::submit) has them.
    unsafe fn encode_copies(&self, commands: &Object, copies: &[BufferCopy]) -> Result<()> {
        let (api, names) = (self.home.api, &self.home.api.selectors);
        // SAFETY: `- (id)blitCommandEncoder` of a command buffer without an open encoder; the
        // caller has a pool.
        let encoder: Id = unsafe { api.send(commands.id(), names.blit_encoder) };
        if encoder.is_null() {
            return Err(not_made("encoder").on_device(self.home.id));
        }
        for copy in copies {
            let BufferCopy { from, from_offset, to, to_offset, len } = copy;
            // SAFETY: `- (void)copyFromBuffer:(id)source sourceOffset:(NSUInteger)from
            // toBuffer:(id)destination destinationOffset:(NSUInteger)to size:(NSUInteger)size` of
            // an open encoder; the places are units inside the buffers, as the caller promises.
            unsafe {
                api.send_5::<(), _, _, _, _, _>(
                    encoder,
                    names.copy,
                    from.id(),
                    *from_offset,
                    to.id(),
                    *to_offset,
                    *len,
                );
            }
        }
        // SAFETY: `- (void)endEncoding` of an open encoder, once.
        unsafe { api.send::<()>(encoder, names.end_encoding) };
        Ok(())
    }

    /// Goes on with what is finished, up to a number.
    fn step(&self, until: u64) -> Step {
        let api = self.home.api;
        let mut state = self.state();
        loop {
            let Some(entry) = state.entries.front().filter(|entry| entry.number <= until) else {
                let failed = state.failed.filter(|(number, _)| *number <= until);
                return Step::Over(failed.map(|(_, code)| code));
            };
            if let Some(after) = &entry.after {
                return Step::Behind(after.clone(), entry.number);
            }
            // SAFETY: `- (NSUInteger)status` of a command buffer.
            let status = unsafe { api.send::<usize>(entry.commands.id(), api.selectors.status) };
            if status < COMPLETED {
                return Step::Pending;
            }
            let Some(entry) = state.entries.pop_front() else { return Step::Pending };
            let failure =
                if status > COMPLETED { Some(self.end_failed(&entry)) } else { entry.spoiled };
            if let Some(code) = failure {
                state.failed.get_or_insert((entry.number, code));
            }
            if state.failed.is_some() {
                continue;
            }
            if entry.to_host.is_empty() {
                continue;
            }
            // DRV-21: nobody is told of the loss of the device while bytes are on their way, and
            // none are brought after that.
            let copied = self.home.unless_lost(|| {
                for HostCopy { from, to, len, .. } in &entry.to_host {
                    // SAFETY: UNS-21, which the caller of `submit` kept: the destination holds
                    // `len` bytes until the queue is known to have passed the copy, or the device
                    // is known to be lost, which nobody is told before this is done; `_through`
                    // keeps the source, which the finished command buffer has written.
                    unsafe { from.copy_to_nonoverlapping(*to, *len) };
                }
            });
            if copied.is_none() {
                return Step::Over(None);
            }
        }
    }

    /// Reads the code of a command buffer that failed, and signals the timeline in its place.
    fn end_failed(&self, entry: &Entry) -> i64 {
        let (api, names) = (self.home.api, &self.home.api.selectors);
        let _pool = Pool::new(api);
        // SAFETY: `- (NSError *)error` of a command buffer; there is a pool.
        let error: Id = unsafe { api.send(entry.commands.id(), names.error) };
        // SAFETY: `- (NSInteger)code` of an error, which the command buffer or the pool keeps.
        let code = |error| unsafe { api.send::<isize>(error, names.code) } as i64;
        let code = if error.is_null() { 0 } else { code(error) };
        if code == DEVICE_REMOVED {
            self.home.lose();
        }
        if value_of(api, self.timeline.id()) < entry.number {
            // SAFETY: `- (void)setSignaledValue:(uint64_t)value` of a shared event. Nobody sets a
            // larger value meanwhile: the next command buffer waits for this one's number.
            unsafe {
                api.send_1::<(), _>(self.timeline.id(), names.set_signaled_value, entry.number);
            }
        }
        code
    }

    /// Notes that the work is over for which a command buffer waited.
    fn settle(&self, number: u64, failed: Option<i64>) {
        let mut state = self.state();
        if let Some(entry) = state.entries.front_mut().filter(|entry| entry.number == number) {
            entry.after = None;
            entry.spoiled = entry.spoiled.or(failed);
        }
    }
}

impl Point {
    /// The event that tells of this point, and its value.
    pub(crate) fn timeline(&self) -> (&Object, u64) {
        (&self.lane.timeline, self.number)
    }

    /// Whether the work before this point is over. Work that failed is an error.
    pub(crate) fn is_over(&self) -> Result<bool> {
        let home = &self.lane.home;
        match look(self) {
            Progress::Pending => Ok(false),
            Progress::Done => Ok(true),
            Progress::Failed(code) => Err(work_failed(code, home.id)),
            Progress::Lost => Err(device_lost(home.id)),
        }
    }

    /// Waits until the work before this point is over, or the time is. Returns whether the work is.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Result<bool> {
        let (event, value) = self.timeline();
        wait_for(event, value, timeout, || self.is_over())
    }
}

/// Looks at a point, and at the other lanes that it waits for.
pub(crate) fn look(point: &Point) -> Progress {
    // Not recursive: work may wait for other work as often as the program likes.
    let mut behind: Vec<(Point, u64)> = Vec::new();
    let mut current = point.clone();
    loop {
        if current.lane.home.is_lost() {
            return Progress::Lost;
        }
        match current.lane.step(current.number) {
            Step::Pending => return Progress::Pending,
            Step::Behind(next, number) => {
                behind.push((std::mem::replace(&mut current, next), number));
            }
            Step::Over(failed) => {
                if current.lane.home.is_lost() {
                    return Progress::Lost;
                }
                let Some((waiting, number)) = behind.pop() else {
                    return failed.map_or(Progress::Done, Progress::Failed);
                };
                waiting.lane.settle(number, failed);
                current = waiting;
            }
        }
    }
}

/// Waits until `is_over` says yes, or the time is over. `event` is one that gets `value` about
/// then, unless work fails.
pub(crate) fn wait_for(
    event: &Object,
    value: u64,
    timeout: Option<Duration>,
    is_over: impl Fn() -> Result<bool>,
) -> Result<bool> {
    let api = event.api();
    let can_wait_pool = Pool::new(api);
    // SAFETY: the event is alive.
    let can_wait = unsafe { api.responds(event.id(), api.selectors.wait_until) };
    drop(can_wait_pool);
    let start = Instant::now();
    let mut asked = 0;
    loop {
        let _pool = Pool::new(api);
        if is_over()? {
            return Ok(true);
        }
        let slice = match timeout.map(|timeout| timeout.checked_sub(start.elapsed())) {
            Some(None | Some(Duration::ZERO)) => return Ok(false),
            Some(Some(left)) => left.min(SLICE),
            None => SLICE,
        };
        asked += 1;
        if asked <= EAGER {
            std::thread::yield_now();
        } else if can_wait && slice.as_millis() > 0 && value_of(api, event.id()) < value {
            let milliseconds = slice.as_millis() as u64;
            // SAFETY: `- (BOOL)waitUntilSignaledValue:(uint64_t)value
            // timeoutMS:(uint64_t)milliseconds` of a shared event that has it.
            let _: u8 =
                unsafe { api.send_2(event.id(), api.selectors.wait_until, value, milliseconds) };
        } else {
            std::thread::sleep(PAUSE.min(slice));
        }
    }
}

/// The value of a shared event that is alive.
pub(crate) fn value_of(api: &Api, event: Id) -> u64 {
    // SAFETY: `- (uint64_t)signaledValue` of a shared event.
    unsafe { api.send::<u64>(event, api.selectors.signaled_value) }
}

/// Encodes a wait or a signal.
///
/// # Safety
/// The command buffer is being encoded and has no open encoder; the event is one of its device.
unsafe fn encode(
    api: &Api,
    commands: &Object,
    selector: *const c_void,
    event: &Object,
    value: u64,
) {
    // SAFETY: `- (void)encodeSignalEvent:(id)event value:(uint64_t)value` or `encodeWaitForEvent:`
    // with the same types; the command buffer and the event are as the caller promises.
    unsafe { api.send_2::<(), _, _>(commands.id(), selector, event.id(), value) }
}
