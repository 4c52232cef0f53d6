//! Has queues of OpenCL flushed. SYCL has no function for that.
//!
//! OpenCL may keep submitted work from the device until somebody flushes the queue. SYCL flushes a
//! queue when another queue is told to wait for work of that queue. So a barrier behind an event,
//! on a queue of this crate, flushes the queue of the event. OpenCL may then keep the barrier
//! itself. Therefore this crate has two queues for barriers, which take turns. Each barrier also
//! waits for the newest barrier on the other queue, and so has the other queue flushed: of all
//! barriers, only the newest one may be kept.
//!
//! An event that is recorded here is flushed once, when it is recorded. The maker of a foreign
//! event may have left out the flush, so whoever waits for such an event has it flushed. Waits for
//! one foreign event flush it once, however many there are: a copy of the event is kept by the
//! event's address, and as long as the copy has not passed, the event at that address was flushed.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::events::{Answer, ask};
use crate::functions::{Functions, Object};
use crate::objects::{Context, Owned, SyclDevice, make_queue};

/// How many foreign events are kept before those that have passed are looked for.
const FIRST_LOOK: usize = 64;

pub(crate) struct Flusher {
    functions: &'static Functions,
    newest: Mutex<Newest>,
}

struct Newest {
    /// The queue of the next barrier, and then the other one.
    queues: [Owned; 2],
    barrier: Option<Owned>,
    /// Copies of the foreign events that were flushed, by the addresses of the events.
    foreign: HashMap<usize, Owned>,
    /// How many of them there may be before they are looked at.
    next_look: usize,
}

impl Flusher {
    pub(crate) fn new(
        functions: &'static Functions,
        context: &Context,
        device: &SyclDevice,
    ) -> Option<Self> {
        let first = make_queue(functions, context, device, false)?;
        let second = make_queue(functions, context, device, false)?;
        let newest = Newest {
            queues: [first, second],
            barrier: None,
            foreign: HashMap::new(),
            next_look: FIRST_LOOK,
        };
        Some(Self { functions, newest: Mutex::new(newest) })
    }

    /// Has the queue of the event flushed. Returns whether that went well.
    ///
    /// # Safety
    /// UNS-31 of the table, and the event is alive.
    #[must_use]
    pub(crate) unsafe fn flush(&self, event: Object) -> bool {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: UNS-31, and the event is alive, as the caller promises.
        unsafe { newest.flush(self.functions, event) }
    }

    /// Has the queue of a foreign event flushed, unless that was done since the event was made.
    /// Returns whether that went well.
    ///
    /// # Safety
    /// UNS-31 of the table, and the event is alive.
    #[must_use]
    pub(crate) unsafe fn flush_foreign(&self, event: Object) -> bool {
        let functions = self.functions;
        // SAFETY: UNS-31: the copies are alive in their owners.
        let is_pending = |copy: &Owned| unsafe { ask(functions, copy.object()) } == Answer::Pending;
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if newest.foreign.get(&event.addr()).is_some_and(is_pending) {
            return true;
        }
        // SAFETY: UNS-31, and the event is alive, as the caller promises.
        let copy = unsafe { (functions.event_copy)(event) };
        // SAFETY: UNS-31: the copy was just made; `event_delete` is for events.
        let Some(copy) = (unsafe { Owned::new(copy, functions.event_delete) }) else {
            return false;
        };
        if newest.foreign.len() >= newest.next_look {
            newest.foreign.retain(|_, copy| is_pending(copy));
            newest.next_look = (newest.foreign.len() * 2).max(FIRST_LOOK);
        }
        newest.foreign.insert(event.addr(), copy);
        // SAFETY: UNS-31, and the event is alive, as the caller promises.
        unsafe { newest.flush(functions, event) }
    }
}

impl Newest {
    /// # Safety
    /// UNS-31 of the table, and the event is alive.
    unsafe fn flush(&mut self, functions: &Functions, event: Object) -> bool {
        let [first, _] = &self.queues;
        let before = self.barrier.as_ref().map_or(event, Owned::object);
        let events = [event, before];
        // SAFETY: UNS-31: the queue and the older barrier are alive in their owners, and the event
        // is, as the caller promises; the list has two events, which may be the same one.
        let made = unsafe { (functions.barrier_for)(first.object(), events.as_ptr(), 2) };
        // SAFETY: UNS-31: the event was just made; `event_delete` is for events.
        self.barrier = unsafe { Owned::new(made, functions.event_delete) };
        self.queues.reverse();
        self.barrier.is_some()
    }
}
