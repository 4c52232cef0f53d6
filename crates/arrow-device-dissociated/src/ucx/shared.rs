//! [`Shared`]: what the thread of a connection and those who use the connection have in common.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow_device::{Error, ErrorKind, Result};
use rustix::event::EventfdFlags;

use crate::problem::{failed, limited, of_peer};
use crate::transport::{Message, Received};

/// The most bytes of a message that is received before anybody asks for it.
const SMALL: usize = 64 << 10;

/// The most messages that are received before anybody asks for them, and the most bytes of them.
const MOST_RECEIVED: (usize, usize) = (1 << 16, 16 << 20);

/// The most messages that were given to UCX and are not sent, and the most bytes of them. One
/// message may have more.
const MOST_UNSENT: (usize, usize) = (256, 8 << 20);

/// A message that is to be sent.
pub(super) struct Out {
    pub(super) tag: Option<u64>,
    pub(super) bytes: Vec<u8>,
}

/// How a connection has ended.
#[derive(Clone, Debug)]
pub(super) enum Ended {
    /// By the other side.
    Closed,
    Failed(String),
    /// With a message that nobody takes.
    TooLong {
        len: u64,
        most: u64,
    },
}

/// Whether there is room for a message.
pub(super) enum Room {
    Some,
    /// Once somebody has received the long message that came before, or has said how long one may
    /// be.
    Later,
    /// Once somebody has received small messages that came before.
    Full,
    /// It is longer than this.
    Never(u64),
}

pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Wakes the thread.
    wake: OwnedFd,
}

#[derive(Default)]
struct State {
    outbox: VecDeque<Out>,
    /// How many messages are not sent, and how many bytes they have.
    unsent: (usize, usize),
    inbox: VecDeque<Message>,
    /// The bytes of the small messages.
    small_bytes: usize,
    /// How many of the messages are not small.
    long: usize,
    /// The longest message that whoever receives takes.
    most: Option<u64>,
    /// A message that was to be sent never will be.
    is_lost: bool,
    /// Why nothing is sent any more.
    broken: Option<String>,
    ended: Option<Ended>,
    /// The thread is asleep, and somebody has to wake it.
    is_asleep: bool,
    /// Something was changed since the thread has looked.
    is_changed: bool,
    is_stopping: bool,
    is_over: bool,
}

impl Shared {
    pub(super) fn new() -> Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = rustix::event::eventfd(0, flags).map_err(|error| failed("eventfd", error))?;
        Ok(Self { state: Mutex::default(), changed: Condvar::new(), wake })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `holds`. Returns the state, and whether the time was over before.
    fn until(
        &self,
        timeout: Option<Duration>,
        mut holds: impl FnMut(&mut State) -> bool,
    ) -> (MutexGuard<'_, State>, bool) {
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.lock();
        while !holds(&mut state) {
            state = match end.map(|end| end.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return (state, true),
                Some(left) => {
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        (state, false)
    }

    /// Lets the thread look at what was changed.
    fn nudge(&self, state: &mut State) {
        state.is_changed = true;
        if std::mem::take(&mut state.is_asleep) {
            // A counter that is full wakes as well.
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
    }

    // What those call who use the connection.

    pub(super) fn send(&self, message: &Message, timeout: Option<Duration>) -> Result<()> {
        let len = message.bytes.len();
        let (mut state, is_late) = self.until(timeout, |state| {
            let (count, bytes) = state.unsent;
            let (most_count, most_bytes) = MOST_UNSENT;
            let has_room = count < most_count && bytes.saturating_add(len) <= most_bytes;
            state.broken.is_some() || count == 0 || has_room
        });
        if let Some(problem) = &state.broken {
            return Err(of_peer(format!("the other side has gone: {problem}")));
        }
        if is_late {
            let message = "the other side has not read what was sent before";
            return Err(Error::new(ErrorKind::NotReady, message).during("dissociated IPC"));
        }
        let out = Out { tag: message.tag, bytes: message.bytes.clone() };
        state.outbox.push_back(out);
        state.unsent = (state.unsent.0 + 1, state.unsent.1 + len);
        self.nudge(&mut state);
        Ok(())
    }

    pub(super) fn receive(&self, most: u64, timeout: Option<Duration>) -> Result<Received> {
        {
            let mut state = self.lock();
            if state.most != Some(most) {
                state.most = Some(most);
                self.nudge(&mut state);
            }
        }
        let has_come = |state: &mut State| !state.inbox.is_empty() || state.ended.is_some();
        let (mut state, is_late) = self.until(timeout, has_come);
        if is_late {
            return Ok(Received::Nothing);
        }
        let Some(message) = state.inbox.pop_front() else {
            return match state.ended.clone() {
                Some(Ended::Failed(problem)) => {
                    Err(of_peer(format!("the connection has failed: {problem}")))
                }
                Some(Ended::TooLong { len, most }) => {
                    Err(limited(format!("a message of {len} bytes, and {most} are the limit")))
                }
                _ => Ok(Received::End),
            };
        };
        let len = message.bytes.len();
        match len > SMALL {
            true => state.long -= 1,
            false => state.small_bytes -= len,
        }
        self.nudge(&mut state);
        drop(state);
        if len as u64 > most {
            return Err(limited(format!("a message of {len} bytes, and {most} are the limit")));
        }
        Ok(Received::Message(message))
    }

    /// Waits until all is sent. An error where something was lost, also before this call.
    pub(super) fn flush(&self, timeout: Option<Duration>) -> Result<()> {
        let is_done = |state: &mut State| state.unsent.0 == 0 || state.broken.is_some();
        let (state, is_late) = self.until(timeout, is_done);
        if is_late {
            let message = "the other side has not read what was sent before";
            return Err(Error::new(ErrorKind::NotReady, message).during("dissociated IPC"));
        }
        match &state.broken {
            Some(problem) if state.unsent.0 > 0 || state.is_lost => {
                Err(of_peer(format!("the other side has gone: {problem}")))
            }
            _ => Ok(()),
        }
    }

    /// Tells the thread to end, and waits a little for it. Returns whether it has ended.
    pub(super) fn stop(&self, timeout: Duration) -> bool {
        let mut state = self.lock();
        state.is_stopping = true;
        // Nobody receives what has come or comes, and it keeps nothing from being sent.
        state.inbox.clear();
        (state.small_bytes, state.long) = (0, 0);
        self.nudge(&mut state);
        drop(state);
        let (state, _) = self.until(Some(timeout), |state| state.is_over);
        state.is_over
    }

    // What the thread calls.

    pub(super) fn take_outbox(&self) -> VecDeque<Out> {
        std::mem::take(&mut self.lock().outbox)
    }

    /// Notes that a message of this length was sent.
    pub(super) fn sent(&self, len: usize) {
        self.is_done_with(len, false);
    }

    /// Notes that a message of this length never will be sent. Comes after
    /// [`Self::no_longer_sends`], so that whoever waits finds the reason.
    pub(super) fn lost(&self, len: usize) {
        self.is_done_with(len, true);
    }

    fn is_done_with(&self, len: usize, is_lost: bool) {
        let mut state = self.lock();
        state.is_lost |= is_lost;
        state.unsent = (state.unsent.0 - 1, state.unsent.1 - len);
        drop(state);
        self.changed.notify_all();
    }

    pub(super) fn has_sent_all(&self) -> bool {
        self.lock().unsent.0 == 0
    }

    pub(super) fn no_longer_sends(&self, problem: String) {
        self.lock().broken.get_or_insert(problem);
        self.changed.notify_all();
    }

    /// Notes that nothing more comes. The first reason stays.
    pub(super) fn ended(&self, ended: Ended) {
        let mut state = self.lock();
        if state.ended.is_none() {
            state.ended = Some(ended);
            drop(state);
            self.changed.notify_all();
        }
    }

    pub(super) fn room_for(&self, len: usize) -> Room {
        let state = self.lock();
        if len <= SMALL {
            let (most_count, most_bytes) = MOST_RECEIVED;
            let has_room = state.inbox.len() < most_count && state.small_bytes + len <= most_bytes;
            return if has_room { Room::Some } else { Room::Full };
        }
        match state.most {
            Some(most) if len as u64 > most => Room::Never(most),
            Some(_) if state.long == 0 => Room::Some,
            _ => Room::Later,
        }
    }

    pub(super) fn deliver(&self, message: Message) {
        let mut state = self.lock();
        if state.is_stopping {
            return;
        }
        match message.bytes.len() {
            len if len > SMALL => state.long += 1,
            len => state.small_bytes += len,
        }
        state.inbox.push_back(message);
        drop(state);
        self.changed.notify_all();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.lock().is_stopping
    }

    /// Notes that the thread sleeps, unless there is something to be done.
    pub(super) fn falls_asleep(&self) -> bool {
        let mut state = self.lock();
        if std::mem::take(&mut state.is_changed) {
            return false;
        }
        state.is_asleep = true;
        true
    }

    pub(super) fn wakes_up(&self) {
        let mut state = self.lock();
        state.is_changed = false;
        let was_woken = !std::mem::take(&mut state.is_asleep);
        drop(state);
        if was_woken {
            let mut count = [0; 8];
            // Whoever has woken the thread wrote under the lock.
            let _ = rustix::io::read(&self.wake, &mut count);
        }
    }

    /// The descriptor that can be read where the thread is to wake up.
    pub(super) fn wakes(&self) -> &OwnedFd {
        &self.wake
    }

    /// Notes that the thread has ended.
    pub(super) fn is_over(&self) {
        let mut state = self.lock();
        state.is_over = true;
        state.broken.get_or_insert_with(|| "the connection is over".into());
        state.ended.get_or_insert(Ended::Closed);
        drop(state);
        self.changed.notify_all();
    }
}
