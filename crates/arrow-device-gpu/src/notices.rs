//! Announces events: the driver calls a function on the host once an event has passed.
//!
//! A stream of this library waits for the event, and then calls the function, so that no stream of
//! the program stands still for the call. Each stream announces one event at a time, so a slow
//! event does not delay the announcement of another. What must stay true: a stream goes back to the
//! idle ones only when its function runs, or when no function was submitted to it.

use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex};

use arrow_device::Result;
use arrow_device::driver::EventNotice;

use crate::driver::{GpuDriver, NON_BLOCKING, lock};
use crate::{Api, Handle};

/// The most events that are announced at the same time. The library asks about further events
/// itself.
const MOST_STREAMS: usize = 32;
const OPERATION: &str = "announce an event";

/// The streams that announce events.
#[derive(Debug, Default)]
pub(crate) struct Announcers {
    idle: Vec<StreamHandle>,
    /// How many streams were made, including those that wait for an event.
    made: usize,
}

/// A stream, which any thread may use.
#[derive(Clone, Copy, Debug)]
struct StreamHandle(Handle);

// SAFETY: the handle is a number to this crate, and the driver's functions may be called with it on
// every thread.
unsafe impl Send for StreamHandle {}

/// The argument of the host's function.
struct Announcement {
    notice: EventNotice,
    stream: StreamHandle,
    announcers: Arc<Mutex<Announcers>>,
}

/// Called by the vendor's driver, on a thread where the driver's functions may not be called.
extern "system" fn announced(announcement: *mut c_void) {
    // SAFETY: `announce` gave the pointer to this call, which the driver makes once.
    let announcement = unsafe { Box::from_raw(announcement.cast::<Announcement>()) };
    let Announcement { notice, stream, announcers } = *announcement;
    lock(&announcers).idle.push(stream);
    notice.call();
}

impl<A: Api> GpuDriver<A> {
    /// Has the notice called once the event has passed. Returns `false` where that cannot be done.
    ///
    /// # Safety
    /// UNS-22: the event is alive and was recorded.
    pub(crate) unsafe fn announce(&self, event: Handle, notice: EventNotice) -> Result<bool> {
        let Some(launch) = self.api.functions().launch_host_function else { return Ok(false) };
        let Some(stream) = self.announcing_stream()? else { return Ok(false) };
        let waits = self.call_apart(OPERATION, |functions| {
            // SAFETY: the stream is this driver's, and the event is alive, as the caller promises.
            // The stream waits for the work that the event was recorded behind last.
            unsafe { (functions.stream_wait_event)(stream.0, event, 0) }
        });
        if let Err(error) = waits {
            lock(&self.announcers).idle.push(stream);
            return Err(error);
        }
        let announcers = self.announcers.clone();
        let announcement = Box::into_raw(Box::new(Announcement { notice, stream, announcers }));
        let launched = self.call_apart(OPERATION, |_| {
            // SAFETY: the function is called once with the pointer, which is its own from now on.
            unsafe { launch(stream.0, announced, announcement.cast()) }
        });
        if let Err(error) = launched {
            // SAFETY: the function was not taken, and nobody else has the pointer.
            drop(unsafe { Box::from_raw(announcement) });
            lock(&self.announcers).idle.push(stream);
            return Err(error);
        }
        Ok(true)
    }

    /// Returns a stream that waits for nothing. `None` where as many as allowed are waiting.
    fn announcing_stream(&self) -> Result<Option<StreamHandle>> {
        {
            let mut announcers = lock(&self.announcers);
            if let Some(stream) = announcers.idle.pop() {
                return Ok(Some(stream));
            }
            if announcers.made == MOST_STREAMS {
                return Ok(None);
            }
            announcers.made += 1;
        }
        let mut stream = ptr::null_mut();
        let made = self.call_apart(OPERATION, |functions| {
            // SAFETY: the handle is written.
            unsafe { (functions.stream_create)(&mut stream, NON_BLOCKING) }
        });
        if let Err(error) = made {
            lock(&self.announcers).made -= 1;
            return Err(error);
        }
        Ok(Some(StreamHandle(stream)))
    }

    /// Destroys the idle streams. Those that still wait stay.
    pub(crate) fn close_announcers(&self) {
        let idle = std::mem::take(&mut lock(&self.announcers).idle);
        for stream in idle {
            // SAFETY: `announcing_stream` made it, and nobody has it any more.
            let code = unsafe { (self.api.functions().stream_destroy)(stream.0) };
            self.api.succeeded(code);
        }
    }
}
