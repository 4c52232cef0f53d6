//! Has queues of OpenCL flushed. SYCL has no function for that.
//!
//! OpenCL may keep submitted work from the device until somebody flushes the queue. SYCL flushes a
//! queue when another queue is told to wait for work of that queue. So a barrier behind an event,
//! on a queue of this crate, flushes the queue of the event. OpenCL may then keep the barrier
//! itself. Therefore this crate has two queues for barriers, which take turns. Each barrier also
//! waits for the newest barrier on the other queue, and so has the other queue flushed: of all
//! barriers, only the newest one may be kept.

use std::sync::{Mutex, PoisonError};

use crate::functions::{Functions, Object};
use crate::objects::{Context, Owned, SyclDevice, make_queue};

pub(crate) struct Flusher {
    functions: &'static Functions,
    newest: Mutex<Newest>,
}

struct Newest {
    /// The queue of the next barrier, and then the other one.
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
