//! [`InFlight`]: memory that a queue still reads or writes for a copy; and [`OnItsWay`], for memory
//! of the host that a queue writes.

use crate::copy::step::no_way;
use crate::device::deferred::{self, QueueUse};
use crate::device::driver::Region;
use crate::device::{ReadsTo, UnitReads};
use crate::{Event, Queue, Result};

/// Memory that work on a queue reads or writes until the event has passed. When it is dropped
/// before that, the memory is kept until the queue has passed the work.
pub(in crate::copy) struct InFlight<T: Send + 'static> {
    what: Option<T>,
    event: Event,
}

impl<T: Send + 'static> InFlight<T> {
    /// Takes the memory of work that was submitted to the queue just now. Where the submission
    /// failed, the memory is kept until the queue has passed too: some of the work may go on.
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

/// Memory of the host that a queue writes to. On a device that copies whole units the sources may
/// begin anywhere. Nothing waits for the queue.
pub(in crate::copy) struct OnItsWay<T: Send + 'static>(InFlight<(T, UnitReads)>);

impl<T: Send + 'static> OnItsWay<T> {
    /// Submits copies to the host into `to`, which is kept until the queue has passed them,
    /// whatever the outcome.
    ///
    /// # Safety
    /// UNS-21, as long as `to` is there: the destinations are memory that `to` keeps in place.
    pub(in crate::copy) unsafe fn submit(
        queue: &Queue,
        to: T,
        regions: Vec<Region>,
        reads_to: ReadsTo,
    ) -> Result<Self> {
        let reads = UnitReads::new(queue, regions, reads_to)?;
        // SAFETY: UNS-21, as the caller promises; the list is kept with `to`.
        let submitted = unsafe { reads.submit(queue) };
        InFlight::behind(queue, (to, reads), submitted).map(Self)
    }

    /// The event behind the copies.
    pub(in crate::copy) fn event(&self) -> &Event {
        self.0.event()
    }

    /// Gives the memory back with the bytes in it.
    ///
    /// # Safety
    /// The event has passed.
    pub(in crate::copy) unsafe fn into_arrived(self) -> Result<T> {
        let (to, reads) = self.0.into_passed()?;
        // SAFETY: the queue has passed the copies, as the caller promises, and `to` keeps the
        // memory that they name.
        unsafe { reads.finish() };
        Ok(to)
    }
}
