//! The functions in the table of a simulator's event. They call the engine.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::time::Duration;

use arrow_device::driver::{Raw, Waiting};
use arrow_device::{DeviceId, ErrorKind, Event, Queue};

use crate::builder::Settings;
use crate::engine::Engine;
use crate::event_table::EventTable;

impl Engine {
    /// Makes an engine whose events have these functions.
    pub(crate) fn start(number: usize, settings: &Settings, ids: &[DeviceId]) -> Arc<Self> {
        let engine = Arc::new(Self::new(number, settings, ids));
        let context = Arc::as_ptr(&engine).cast_mut().cast();
        let table = EventTable::alive(Some(query), Some(wait), Some(queue_wait), context);
        engine.lock().events.set_table(table);
        engine
    }
}

/// Returns the engine and the handle of an event.
///
/// # Safety
/// `event` is a table of an engine that [`Engine::start`] gave, and the engine is alive.
unsafe fn parts<'a>(event: *const EventTable) -> (&'a Engine, Raw<Event>) {
    // SAFETY: `event` is a table of an engine that `Engine::start` gave, and the engine is alive,
    // as the caller promises.
    let engine = unsafe { (*event).context }.cast::<Engine>();
    // SAFETY: the engine outlives its events.
    (unsafe { &*engine }, Raw::from_ptr(event.cast_mut().cast()))
}

unsafe extern "C" fn query(event: *const EventTable) -> c_int {
    // SAFETY: the header says that the functions are called with their own table, while the event
    // is alive.
    let (engine, event) = unsafe { parts(event) };
    match engine.is_complete(event) {
        Ok(true) => 0,
        Ok(false) => ErrorKind::NotReady.errno(),
        Err(error) => error.kind().errno(),
    }
}

unsafe extern "C" fn wait(event: *const EventTable, nanoseconds: i64) -> c_int {
    // SAFETY: the header says that the functions are called with their own table, while the event
    // is alive.
    let (engine, event) = unsafe { parts(event) };
    let limit = u64::try_from(nanoseconds).ok().map(Duration::from_nanos);
    match engine.wait_on_host(event, limit) {
        Ok(true) => 0,
        Ok(false) => ErrorKind::TimedOut.errno(),
        Err(error) => error.kind().errno(),
    }
}

unsafe extern "C" fn queue_wait(event: *const EventTable, queue: *mut c_void) -> c_int {
    // SAFETY: the header says that the functions are called with their own table, while the event
    // is alive.
    let (engine, event) = unsafe { parts(event) };
    let queue: Raw<Queue> = Raw::from_ptr(queue);
    if !engine.has_queue(queue) {
        return ErrorKind::NotReachable.errno();
    }
    match engine.wait(queue, event) {
        Ok(Waiting::Queued) => 0,
        Ok(Waiting::HostMustWait) => ErrorKind::NotReachable.errno(),
        Err(error) => error.kind().errno(),
    }
}
