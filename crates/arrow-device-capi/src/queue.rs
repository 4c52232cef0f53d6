//! Queues and events, the library's and the caller's.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use arrow_device::driver::Raw;
use arrow_device::{Error, ErrorKind, Event, Queue};

use crate::call::{Out, free, get, null, run};
use crate::context::{ArdevRelease, Context};
use crate::device::ArdevDevice;
use crate::error::ArdevError;

#[derive(Debug)]
pub struct ArdevQueue(pub(crate) Queue);

#[derive(Debug)]
pub struct ArdevEvent(pub(crate) Event);

impl ArdevQueue {
    /// The queue, or that of the host.
    ///
    /// # Safety
    /// The queue is null, or not freed as long as this runs.
    pub(crate) unsafe fn or_host(queue: *const Self) -> Queue {
        // SAFETY: the queue is null, or not freed as long as this runs, as the caller promises.
        unsafe { queue.as_ref() }.map_or_else(Queue::host, |queue| queue.0.clone())
    }
}

/// A time limit as C has it; `None` is none.
pub(crate) fn limit(timeout: i64) -> Option<Duration> {
    u64::try_from(timeout).ok().map(Duration::from_nanos)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_queue_open(
    device: *const ArdevDevice,
    out: *mut *mut ArdevQueue,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 2 of the header.
        let device = unsafe { get(device, "device") }?;
        out.give(ArdevQueue(device.0.open_queue()?))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_queue_adopt(
    device: *const ArdevDevice,
    handle: *mut c_void,
    context: *mut c_void,
    release: ArdevRelease,
    out: *mut *mut ArdevQueue,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        let context = Context::new(context, release);
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 2 of the header.
        let device = unsafe { get(device, "device") }?;
        // SAFETY: the header asks for a queue of the device that stays open until `release`, which
        // the context calls.
        out.give(ArdevQueue(unsafe { device.0.adopt_queue_of(Raw::from_ptr(handle), context) }))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_queue_handle(
    queue: *const ArdevQueue,
    out: *mut *mut c_void,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 2 of the header.
        out.put(unsafe { get(queue, "queue") }?.0.raw().as_ptr())
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_queue_record(
    queue: *const ArdevQueue,
    out: *mut *mut ArdevEvent,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 2 of the header.
        out.give(ArdevEvent(unsafe { get(queue, "queue") }?.0.record()?))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_queue_wait(
    queue: *const ArdevQueue,
    event: *const ArdevEvent,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let queue = unsafe { get(queue, "queue") }?;
        // SAFETY: rule 2 of the header.
        let event = unsafe { get(event, "event") }?;
        queue.0.wait(&event.0)
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_queue_synchronize(
    queue: *const ArdevQueue,
    error: *mut ArdevError,
) -> c_int {
    // SAFETY: rule 2 of the header.
    let body = || unsafe { get(queue, "queue") }?.0.synchronize();
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_queue_is_idle(
    queue: *const ArdevQueue,
    out: *mut bool,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::new(out, false, "out") }?;
        // SAFETY: rule 2 of the header.
        out.put(unsafe { get(queue, "queue") }?.0.is_idle()?)
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_queue_free(queue: *mut ArdevQueue) {
    // SAFETY: rule 2 of the header.
    unsafe { free(queue) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_event_adopt(
    device: *const ArdevDevice,
    handle: *mut c_void,
    context: *mut c_void,
    release: ArdevRelease,
    out: *mut *mut ArdevEvent,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        let context = Context::new(context, release);
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 2 of the header.
        let device = unsafe { get(device, "device") }?;
        if handle.is_null() {
            return Err(null("handle"));
        }
        let raw = Raw::from_ptr(handle);
        // SAFETY: the header asks for an event of the device that stays until `release`, which the
        // context calls.
        out.give(ArdevEvent(unsafe { Event::adopt_of(&device.0, raw, context) }))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_event_handle(
    event: *const ArdevEvent,
    out: *mut *mut c_void,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        // SAFETY: rule 2 of the header.
        out.put(unsafe { get(event, "event") }?.0.raw().as_ptr())
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_event_is_complete(
    event: *const ArdevEvent,
    out: *mut bool,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::new(out, false, "out") }?;
        // SAFETY: rule 2 of the header.
        out.put(unsafe { get(event, "event") }?.0.is_complete()?)
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_event_wait(
    event: *const ArdevEvent,
    timeout: i64,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let event = unsafe { get(event, "event") }?;
        let Some(limit) = limit(timeout) else { return event.0.synchronize() };
        if event.0.wait_timeout(limit)? {
            return Ok(());
        }
        let message = format!("the event has not passed after {limit:?}");
        Err(Error::new(ErrorKind::TimedOut, message).on_device(event.0.device().id()))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_event_free(event: *mut ArdevEvent) {
    // SAFETY: rule 2 of the header.
    unsafe { free(event) }
}
