//! Asks about `cl_event`s and waits for them, whoever made them.

use std::ffi::c_void;
use std::time::Duration;

use arrow_device::Result;
use arrow_device::driver::{EventNotice, ask_until};

use crate::api::{Api, Code, Handle};
use crate::error::{check, failed};

/// The status of a command that was not yet submitted to the device.
const QUEUED: Code = 3;
/// The code of a wait for work that has failed.
const FAILED_IN_WAIT_LIST: Code = -14;

/// `CL_COMPLETE`. The callback of this status is called for failed work too.
const COMPLETE: Code = 0;

/// Called by the runtime on a thread of its own, where few functions may be called.
extern "system" fn passed(_event: Handle, _status: Code, notice: *mut c_void) {
    // SAFETY: UNS-35: `announce` gave the pointer to this callback, which the runtime calls once.
    unsafe { EventNotice::from_raw(notice) }.call();
}

impl Api {
    /// Keeps the queue alive on which an event was made, until
    /// [`release_own_event`](Self::release_own_event). On failure the event is released.
    ///
    /// OpenCL does not promise that an event keeps its queue alive. Without that, flushing an
    /// event's queue could flush one that another thread has closed meanwhile.
    ///
    /// # Safety
    /// The queue and the event are alive, and the reference to the event is the caller's.
    pub(crate) unsafe fn hold_queue(&self, queue: Handle, event: Handle) -> Result<Handle> {
        // SAFETY: the queue is alive, as the caller promises.
        let retained = check(unsafe { (self.retain_queue)(queue) }, "retain the event's queue");
        retained.map(|()| event).inspect_err(|_| {
            // SAFETY: the reference is the caller's.
            let _ = unsafe { (self.release_event)(event) };
        })
    }

    /// Releases an event, and its queue with it.
    ///
    /// # Safety
    /// [`hold_queue`](Self::hold_queue) gave it, and the reference is the caller's.
    pub(crate) unsafe fn release_own_event(&self, event: Handle) {
        // SAFETY: the event is alive, as the caller promises.
        let queue = unsafe { self.queue_of_event(event) };
        // SAFETY: the reference is the caller's. There is nobody to tell an error to.
        let _ = unsafe { (self.release_event)(event) };
        if let Ok(queue) = queue {
            // SAFETY: the reference is the one that `hold_queue` took.
            let _ = unsafe { (self.release_queue)(queue) };
        }
    }

    /// Returns the event's status. Flushes the event's queue first where its work was not submitted
    /// to the device yet: waits on other queues need that, and the event's maker may have left it
    /// out.
    ///
    /// # Safety
    /// The event is alive.
    pub(crate) unsafe fn pushed_status_of(&self, event: Handle) -> Result<Code> {
        // SAFETY: the event is alive, as the caller promises.
        let status = unsafe { self.status_of(event) }?;
        if status == QUEUED {
            // SAFETY: the event is alive, as the caller promises.
            let queue = unsafe { self.queue_of_event(event) }?;
            if !queue.is_null() {
                // SAFETY: the event holds its queue: one of this crate's since `hold_queue`, and
                // that of others because they do by the convention (UNS-5, UNS-19).
                check(unsafe { (self.flush)(queue) }, "flush the event's queue")?;
            }
        }
        Ok(status)
    }

    /// Whether the event has passed. Failed work is an error, which says that no part of it runs
    /// any more (DRV-27).
    ///
    /// # Safety
    /// The event is alive.
    pub(crate) unsafe fn is_over(&self, event: Handle) -> Result<bool> {
        // SAFETY: the event is alive, as the caller promises.
        let status = unsafe { self.pushed_status_of(event) }?;
        if status < 0 { Err(failed(status, "ask an event")) } else { Ok(status == 0) }
    }

    /// Has the runtime call the notice when the event has passed or failed, and flushes the event's
    /// queue.
    ///
    /// # Safety
    /// The event is alive.
    pub(crate) unsafe fn announce(&self, event: Handle, notice: EventNotice) -> Result<bool> {
        let notice = notice.into_raw();
        // SAFETY: the event is alive, as the caller promises. A runtime keeps an event that was
        // released until its work has finished, and calls back then.
        let code = unsafe { (self.set_event_callback)(event, COMPLETE, passed, notice) };
        if let Err(error) = check(code, "set an event's callback") {
            // SAFETY: UNS-35: the pointer was not taken, and nobody else has it.
            drop(unsafe { EventNotice::from_raw(notice) });
            return Err(error);
        }
        // SAFETY: the event is alive, as the caller promises.
        unsafe { self.pushed_status_of(event) }.map(|_| true)
    }

    /// Waits until the event has passed or the time is over. Returns whether the event has passed.
    /// Failed work is an error.
    ///
    /// # Safety
    /// The event is alive.
    pub(crate) unsafe fn await_event(
        &self,
        event: Handle,
        timeout: Option<Duration>,
    ) -> Result<bool> {
        let Some(timeout) = timeout else {
            // SAFETY: the event is alive, as the caller promises. This flushes the event's queue.
            let code = unsafe { (self.wait_for_events)(1, &event) };
            if code != FAILED_IN_WAIT_LIST {
                check(code, "wait for an event")?;
            }
            // SAFETY: the event is alive, as the caller promises.
            let status = unsafe { self.status_of(event) }?;
            return if status < 0 { Err(failed(status, "wait for an event")) } else { Ok(true) };
        };
        ask_until(Some(timeout), || {
            // SAFETY: the event is alive, as the caller promises.
            match unsafe { self.pushed_status_of(event) }? {
                status if status < 0 => Err(failed(status, "wait for an event")),
                status => Ok(status == COMPLETE),
            }
        })
    }
}
