//! Events: shared events that get the value 1 behind the work that they stand for.
//!
//! An event that this crate has recorded stands for a [`Point`] of a queue, which tells of failed
//! work. Of the events of others, only the value is known.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow_device::Result;

use crate::api::Id;
use crate::home::Home;
use crate::lane::{Point, value_of, wait_for};
use crate::object::Object;

/// The value of an event that has passed.
pub(crate) const PASSED: u64 = 1;

struct OwnEvent {
    event: Object,
    /// `None` before it is recorded.
    point: Option<Point>,
}

/// The events that this crate made, by their addresses.
static EVENTS: Mutex<Option<HashMap<usize, OwnEvent>>> = Mutex::new(None);

fn events() -> MutexGuard<'static, Option<HashMap<usize, OwnEvent>>> {
    EVENTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of an event.
pub(crate) enum Known {
    Recorded(Point),
    NotRecorded,
    Foreign,
}

pub(crate) fn make(home: &Home) -> Result<Id> {
    let event = home.new_event()?;
    let key = event.id();
    events().get_or_insert_default().insert(key.addr(), OwnEvent { event, point: None });
    Ok(key)
}

pub(crate) fn destroy(event: Id) {
    let gone = events().as_mut().and_then(|known| known.remove(&event.addr()));
    // The event is released without the lock.
    drop(gone);
}

/// The object of an event that this crate made.
pub(crate) fn own(event: Id) -> Option<Object> {
    events().as_ref()?.get(&event.addr()).map(|own| own.event.clone())
}

/// Notes the point that an event stands for.
pub(crate) fn note(event: Id, point: Point) {
    if let Some(own) = events().as_mut().and_then(|known| known.get_mut(&event.addr())) {
        own.point = Some(point);
    }
}

pub(crate) fn known(event: Id) -> Known {
    match events().as_ref().and_then(|known| known.get(&event.addr())) {
        Some(OwnEvent { point: Some(point), .. }) => Known::Recorded(point.clone()),
        Some(_) => Known::NotRecorded,
        None => Known::Foreign,
    }
}

/// Whether an event has passed.
///
/// # Safety
/// The event is a shared event that is alive.
pub(crate) unsafe fn is_complete(home: &Home, event: Id) -> Result<bool> {
    match known(event) {
        Known::Recorded(point) => point.is_over(),
        Known::NotRecorded => Ok(false),
        Known::Foreign => {
            home.check()?;
            Ok(value_of(home.api, event) >= PASSED)
        }
    }
}

/// Waits for an event.
///
/// # Safety
/// The event is a shared event that is alive.
pub(crate) unsafe fn wait(
    home: &Home,
    event: NonNull<c_void>,
    timeout: Option<Duration>,
) -> Result<bool> {
    if let Known::Recorded(point) = known(event.as_ptr()) {
        return point.wait(timeout);
    }
    // SAFETY: the event is alive, as the caller promises.
    let object = unsafe { Object::retained(home.api, event) };
    // SAFETY: the event is alive: `object` is a reference to it.
    wait_for(&object, PASSED, timeout, || unsafe { is_complete(home, event.as_ptr()) })
}

/// Whether an object can be used as an event of the convention: it is a shared event.
///
/// # Safety
/// The object is alive.
pub(crate) unsafe fn is_shared(home: &Home, event: Id) -> bool {
    // SAFETY: the object is alive, as the caller promises.
    unsafe { home.api.conforms(event, c"MTLSharedEvent") }
}
