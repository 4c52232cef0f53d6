//! [`InFlight`]: what a queue still reads or writes for a copy.

use crate::copy::step::no_way;
use crate::device::deferred::{self, QueueUse};
use crate::{Event, Queue, Result};

/// Memory that work on a queue reads or writes until the event has passed. Dropped before that, the
/// memory is kept until the queue has passed the work.
pub(in crate::copy) struct InFlight<T: Send + 'static> {
    what: Option<T>,
    event: Event,
}

impl<T: Send + 'static> InFlight<T> {
    /// What the work uses that was submitted to the queue just now. Also where the submission
    /// failed, the memory is kept until the queue has passed: the work may go on all the same.
    pub(in crate::copy) fn behind(queue: &Queue, what: T, submitted: Result<()>) -> Result<Self> {
        match submitted.and_then(|()| queue.record()) {
            Ok(event) => Ok(Self { what: Some(what), event }),
            Err(error) => {
                queue.keep_until_done(what);
                Err(error)
            }
        }
    }

    /// The event behind the work.
    pub(in crate::copy) fn event(&self) -> &Event {
        &self.event
    }

    /// Waits until the queue has passed the work, and gives the memory back.
    pub(in crate::copy) fn wait(self) -> Result<T> {
        self.event.synchronize()?;
        self.into_passed()
    }

    /// Gives the memory back, once the event is known to have passed.
    pub(in crate::copy) fn into_passed(mut self) -> Result<T> {
        self.what.take().ok_or_else(no_way)
    }
}

impl<T: Send + 'static> Drop for InFlight<T> {
    fn drop(&mut self) {
        if let Some(what) = self.what.take() {
            deferred::defer_unasked(what, vec![QueueUse::before(self.event.clone())], true);
        }
    }
}
