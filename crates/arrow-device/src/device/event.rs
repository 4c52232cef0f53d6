//! [`Event`]: a point in a queue's order.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::driver::{Raw, Runtime, SyncEvent};
use super::{Device, KeepAlive, Owner, Queue};
use crate::device::deferred::{EventPoint, QueueTimeline};
use crate::trace::told_while;
use crate::{Error, ErrorKind, Result};

/// A point in a queue's order. The event has passed when all work that was submitted before it has
/// finished.
///
/// [`Queue::record`](super::Queue::record) makes one. Cloning increments a reference count. The
/// event is destroyed with the last clone.
#[derive(Clone)]
pub struct Event(Arc<EventInner>);

struct EventInner {
    device: Device,
    raw: Raw<Event>,
    owned: bool,
    point: EventPoint,
    /// Keeps an event alive that somebody else made.
    _owner: Option<Box<dyn KeepAlive>>,
}

impl Event {
    fn new(
        device: Device,
        raw: Raw<Event>,
        owned: bool,
        point: EventPoint,
        owner: Option<Box<dyn KeepAlive>>,
    ) -> Self {
        Self(Arc::new(EventInner { device, raw, owned, point, _owner: owner }))
    }

    /// An event of this crate, which stands for a point of its queue's timeline. Keeps `queue`
    /// open, if one is given.
    pub(crate) fn owned(
        device: Device,
        raw: Raw<Event>,
        timeline: Arc<QueueTimeline>,
        point: u64,
        queue: Option<Queue>,
    ) -> Self {
        let queue: Option<Box<dyn KeepAlive>> = queue.map(|queue| Box::new(queue) as _);
        Self::new(device, raw, true, EventPoint::OnQueue(timeline, point), queue)
    }

    /// An event of a driver that stands for no point of a queue's timeline.
    pub(crate) fn owned_alone(device: Device, raw: Raw<Event>) -> Self {
        Self::new(device, raw, true, EventPoint::alone(), None)
    }

    /// An event that somebody else made and will destroy.
    ///
    /// # Safety
    /// `raw` is a recorded event of this device's runtime and stays alive as long as any clone of
    /// the result (UNS-19).
    pub unsafe fn adopt(device: &Device, raw: Raw<Event>) -> Self {
        Self::new(device.clone(), raw, false, EventPoint::alone(), None)
    }

    /// An event that somebody else made, with an owner that keeps the event alive. The owner is
    /// dropped with the last clone of the result, possibly on another thread.
    ///
    /// # Safety
    /// `raw` is a recorded event of this device's runtime and stays alive until `owner` is dropped
    /// (UNS-19).
    pub unsafe fn adopt_of(
        device: &Device,
        raw: Raw<Event>,
        owner: impl Send + Sync + 'static,
    ) -> Self {
        let owner: Option<Box<dyn KeepAlive>> = Some(Box::new(Owner::on(device.id(), owner)));
        Self::new(device.clone(), raw, false, EventPoint::alone(), owner)
    }

    /// Whether the event has passed. Never waits.
    pub fn is_complete(&self) -> Result<bool> {
        // SAFETY: the handle is alive as long as `EventInner` (owned), or as `adopt`'s caller
        // promised (UNS-19).
        let passed = unsafe { self.0.device.driver().is_complete(self.0.raw) }?;
        Ok(self.noted(passed))
    }

    /// Waits on the host until the event has passed.
    ///
    /// # Errors
    /// [`NotReady`](crate::ErrorKind::NotReady) where the event has not passed and the driver [may
    /// not wait](crate::driver#drivers-that-may-not-wait) on this thread, and any error of the
    /// driver.
    pub fn synchronize(&self) -> Result<()> {
        if self.wait(None)? { Ok(()) } else { Err(has_not_passed(&self.0.device)) }
    }

    /// Waits on the host until the event has passed or the time is over. Returns whether the event
    /// has passed.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<bool> {
        self.wait(Some(timeout))
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<bool> {
        told_while!("wait", device = %self.0.device.id());
        // SAFETY: the handle is alive as long as `EventInner` (owned), or as `adopt`'s caller
        // promised (UNS-19).
        let passed = unsafe { self.0.device.driver().wait_on_host(self.0.raw, timeout) }?;
        Ok(self.noted(passed))
    }

    /// Records on the queue's timeline that the event has passed, if it has.
    fn noted(&self, passed: bool) -> bool {
        if passed {
            self.0.point.pass();
        }
        passed
    }

    /// Whether the event was recorded by this library on a queue of its device, or made by the
    /// device's driver. An adopted event may be of any device of the runtime.
    pub(crate) fn is_of_its_device(&self) -> bool {
        self.0.owned
    }

    /// The device that the event belongs to.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The runtime's handle. Valid as long as this event.
    pub fn raw(&self) -> Raw<Event> {
        self.0.raw
    }

    /// What a consumer finds in `ArrowDeviceArray.sync_event`.
    pub fn sync_event(&self) -> Result<SyncEvent> {
        self.0.device.driver().sync_event(self.0.raw)
    }

    /// The point of a timeline that the event stands for.
    pub(crate) fn point(&self) -> &EventPoint {
        &self.0.point
    }

    pub(crate) fn runtime(&self) -> Runtime {
        self.0.device.driver().runtime()
    }

    pub(crate) fn is_of_this_process(&self) -> bool {
        self.0.device.is_of_this_process()
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.raw == other.0.raw && self.runtime() == other.runtime())
    }
}

/// The error where a wait without a limit ended before the event had passed.
#[cold]
pub(crate) fn has_not_passed(device: &Device) -> Error {
    let message = "the wait ended before the event had passed";
    Error::new(ErrorKind::NotReady, message).during("wait on the host").on_device(device.id())
}

impl Drop for EventInner {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: `raw` came from `make_event` or `record` of this driver, `Event::owned` took
            // it over, and this is the last clone.
            unsafe { self.device.driver().destroy_event(self.raw) }
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({} {:?})", self.0.device.id(), self.0.raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_an_event_alive_goes_with_its_last_clone() {
        let owner = Arc::new(());
        // SAFETY: the host's events have no object.
        let event = unsafe { Event::adopt_of(&Device::host(), Raw::NULL, owner.clone()) };
        let clone = event.clone();
        drop(event);
        assert_eq!(Arc::strong_count(&owner), 2);
        drop(clone);
        assert_eq!(Arc::strong_count(&owner), 1);
    }
}
