//! A device that costs nothing: host memory that the host is said not to read, and work that is
//! done when it is submitted. What is counted of a workload on it is this library's own.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow_device::driver::{Driver, Properties, Raw, Region, Route, Runtime, SyncEvent, Waiting};
use arrow_device::{Device, DeviceId, DeviceType, Event, Memory, Queue, Result};

/// What the device was asked for.
#[derive(Debug, Default)]
pub(super) struct WorkTally {
    /// Lists of copies.
    pub(super) copies: AtomicU64,
    /// Events that a queue waits for, and events that are recorded.
    pub(super) events: AtomicU64,
    /// Times the host waited.
    pub(super) waits: AtomicU64,
}

impl WorkTally {
    /// What was counted since the last look.
    pub(super) fn take(&self) -> [u64; 3] {
        [&self.copies, &self.events, &self.waits].map(|count| count.swap(0, Ordering::Relaxed))
    }
}

/// Opens it.
pub(super) fn open() -> (Device, Arc<WorkTally>) {
    let tally = Arc::new(WorkTally::default());
    let host = Device::host().driver().clone();
    let driver = AtOnce { host, properties: Properties::new("at once"), tally: tally.clone() };
    (Device::new(driver), tally)
}

#[derive(Debug)]
struct AtOnce {
    host: Arc<dyn Driver>,
    properties: Properties,
    tally: Arc<WorkTally>,
}

/// All events are this one, and have passed.
const EVENT: usize = 1;

fn one_more(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

// SAFETY: memory is the host's, from its own driver. All work is done inside the call that submits
// it, so every event has passed and every queue is idle whenever asked.
unsafe impl Driver for AtOnce {
    fn id(&self) -> DeviceId {
        DeviceId::new(DeviceType::EXT_DEV, 1)
    }

    fn runtime(&self) -> Runtime {
        Runtime { name: "at once", instance: 0 }
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    unsafe fn allocate(&self, len: u64, _queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.host.allocate(len, None) }
    }

    unsafe fn free(&self, memory: Raw<Memory>, len: u64) {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.host.free(memory, len) }
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        Ok(Raw::NULL)
    }

    unsafe fn close_queue(&self, _queue: Raw<Queue>) {}

    unsafe fn synchronize(&self, _queue: Raw<Queue>) -> Result<()> {
        one_more(&self.tally.waits);
        Ok(())
    }

    unsafe fn is_idle(&self, _queue: Raw<Queue>) -> Result<bool> {
        Ok(true)
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        Ok(Raw::from_bits(EVENT))
    }

    unsafe fn destroy_event(&self, _event: Raw<Event>) {}

    unsafe fn record(&self, _queue: Raw<Queue>, event: Raw<Event>) -> Result<Raw<Event>> {
        one_more(&self.tally.events);
        Ok(event)
    }

    unsafe fn wait(&self, _queue: Raw<Queue>, _event: Raw<Event>) -> Result<Waiting> {
        one_more(&self.tally.events);
        Ok(Waiting::Queued)
    }

    unsafe fn is_complete(&self, _event: Raw<Event>) -> Result<bool> {
        Ok(true)
    }

    unsafe fn wait_on_host(&self, _event: Raw<Event>, _timeout: Option<Duration>) -> Result<bool> {
        one_more(&self.tally.waits);
        Ok(true)
    }

    fn sync_event(&self, event: Raw<Event>) -> Result<SyncEvent> {
        Ok(SyncEvent::Handle(event.as_ptr()))
    }

    unsafe fn read_sync_event(&self, _sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        Ok(Raw::from_bits(EVENT))
    }

    unsafe fn copy(&self, queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()> {
        one_more(&self.tally.copies);
        // SAFETY: UNS-22, which the caller keeps, of memory that is the host's on both sides.
        unsafe { self.host.copy(queue, route, regions) }
    }
}
