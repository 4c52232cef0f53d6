//! Has queues of OpenCL flushed, which SYCL's functions do not offer.
//!
//! OpenCL may keep work that was submitted until somebody flushes its queue. SYCL flushes a queue
//! when another queue is told to wait for its work. So a barrier behind an event, on a queue of
//! this crate's, flushes the event's queue. What waits on the queue of this crate would then be
//! kept by OpenCL itself. Therefore there are two such queues, which take turns: the barrier on one
//! waits for the newest barrier on the other, too, so that at most one barrier is kept.

use std::sync::{Mutex, PoisonError};

use crate::functions::{Functions, Object};
use crate::objects::{Context, Owned, SyclDevice, make_queue};

pub(crate) struct Flusher {
    functions: &'static Functions,
    newest: Mutex<Newest>,
}

struct Newest {
    /// The queue of the next barrier, and then the other one. Dropped after the event.
    queues: [Owned; 2],
    barrier: Option<Owned>,
}

impl Flusher {
    pub(crate) fn new(
        functions: &'static Functions,
        context: &Context,
        device: &SyclDevice,
    ) -> Option<Self> {
        let first = make_queue(functions, context, device, false)?;
        let second = make_queue(functions, context, device, false)?;
        let newest = Mutex::new(Newest { queues: [first, second], barrier: None });
        Some(Self { functions, newest })
    }

    /// Has the queue of the event flushed. Returns whether that went well.
    ///
    /// # Safety
    /// UNS-31 of the table, and the event is alive.
    #[must_use]
    pub(crate) unsafe fn flush(&self, event: Object) -> bool {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let [first, _] = &newest.queues;
        let before = newest.barrier.as_ref().map_or(event, Owned::object);
        let events = [event, before];
        // SAFETY: UNS-31: the queue and the older barrier are alive in their owners, and the event
        // is, as the caller promises; the list has two events, which may be the same one.
        let made = unsafe { (self.functions.barrier_for)(first.object(), events.as_ptr(), 2) };
        // SAFETY: UNS-31: the event was just made; `event_delete` is for events.
        newest.barrier = unsafe { Owned::new(made, self.functions.event_delete) };
        newest.queues.reverse();
        newest.barrier.is_some()
    }
}
