//! [`LocalTransport`]: both ends of a connection in one process.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow_device::{Error, ErrorKind, Result};

use crate::problem::{limited, of_peer};
use crate::transport::{Message, Received, Transport};

/// One end of a connection within the process: for two threads, for tests, and as a model of other
/// transports. Keeps at most [`ROOM`](Self::ROOM) messages for an end that does not read.
#[derive(Debug)]
pub struct LocalTransport {
    incoming: Arc<Pipe>,
    outgoing: Arc<Pipe>,
}

#[derive(Debug, Default)]
struct Pipe {
    state: Mutex<PipeState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PipeState {
    messages: VecDeque<Message>,
    is_closed: bool,
}

impl LocalTransport {
    /// How many messages wait for the other end at most.
    pub const ROOM: usize = 64;

    /// Returns the two ends of a connection.
    pub fn pair() -> (Self, Self) {
        let (one, other) = (Arc::new(Pipe::default()), Arc::new(Pipe::default()));
        let first = Self { incoming: one.clone(), outgoing: other.clone() };
        (first, Self { incoming: other, outgoing: one })
    }
}

impl Pipe {
    fn lock(&self) -> MutexGuard<'_, PipeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `holds`. Returns the state, and whether the time was over before.
    fn until(
        &self,
        timeout: Option<Duration>,
        holds: impl Fn(&PipeState) -> bool,
    ) -> (MutexGuard<'_, PipeState>, bool) {
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.lock();
        while !holds(&state) {
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

    fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }
}

impl Transport for LocalTransport {
    fn send(&self, message: &Message, timeout: Option<Duration>) -> Result<()> {
        let has_room = |state: &PipeState| state.is_closed || state.messages.len() < Self::ROOM;
        let (mut state, is_late) = self.outgoing.until(timeout, has_room);
        if is_late {
            let message = "the other end has not read what was sent before";
            return Err(Error::new(ErrorKind::NotReady, message));
        }
        if state.is_closed {
            return Err(of_peer("the other end was dropped"));
        }
        state.messages.push_back(message.again());
        drop(state);
        self.outgoing.changed.notify_all();
        Ok(())
    }

    fn receive(&self, most: u64, timeout: Option<Duration>) -> Result<Received> {
        let has_come = |state: &PipeState| state.is_closed || !state.messages.is_empty();
        let (mut state, is_late) = self.incoming.until(timeout, has_come);
        if is_late {
            return Ok(Received::Nothing);
        }
        let Some(message) = state.messages.pop_front() else { return Ok(Received::End) };
        drop(state);
        self.incoming.changed.notify_all();
        let len = message.bytes.len() as u64;
        if len > most {
            return Err(limited(format!("a message of {len} bytes, and {most} are the limit")));
        }
        Ok(Received::Message(message))
    }

    fn carries_memory(&self) -> bool {
        true
    }
}

impl Drop for LocalTransport {
    fn drop(&mut self) {
        self.incoming.close();
        self.outgoing.close();
    }
}
