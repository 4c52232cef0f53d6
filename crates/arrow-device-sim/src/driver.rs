//! The [`Driver`] of a software device: passes operations on raw handles to the engine, which
//! judges them.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow_device::driver::{
    Allocation, Driver, EventNotice, Filled, Properties, Raw, Readiness, Region, Route, Runtime,
    Spot, SyncEvent, Waiting, Watched, WatchedPlace, not_reachable,
};
use arrow_device::{DeviceId, Error, ErrorKind, Event, Memory, Queue, Result};

use crate::engine::Engine;

/// The driver of one device of a simulator.
///
/// Applications use [`Sim::device`](crate::Sim::device). A test that wants to see its own mistakes
/// caught wraps this driver in another one that leaves out a wait, and makes a
/// [`Device`](arrow_device::Device) of the wrapper.
#[derive(Clone)]
pub struct SimDriver {
    pub(crate) engine: Arc<Engine>,
    /// The number of the device in the simulator, from 0.
    pub(crate) device: usize,
    pub(crate) id: DeviceId,
    properties: Properties,
}

impl SimDriver {
    pub(crate) fn new(
        engine: Arc<Engine>,
        device: usize,
        id: DeviceId,
        properties: Properties,
    ) -> Self {
        Self { engine, device, id, properties }
    }

    /// Returns an error where arrays are ready in the order of one queue, and events cannot be
    /// shown.
    fn require_events(&self, operation: &'static str) -> Result<()> {
        if self.properties.readiness == Readiness::Event {
            return Ok(());
        }
        let message = "arrays of this device are ready in the order of its one queue";
        let error = Error::new(ErrorKind::Unsupported, message);
        Err(error.during(operation).on_device(self.id))
    }
}

impl fmt::Debug for SimDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimDriver({})", self.id)
    }
}

/// Returns a handle for a queue: a number that no other queue of the process has.
fn new_queue_handle() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0x5100);
    NEXT.fetch_add(16, Ordering::Relaxed)
}

// SAFETY: memory is a block of its own until `free`, and addresses are not used again for long. An
// event is complete when the engine has run the work that was submitted before the record, and a
// queue's wait names that work and stays before everything that is submitted later. `synchronize`
// runs all work of the queue. `map` shows the block's pages, and so does `map_to_fill`;
// what the host wrote there becomes work of the queue. `sync_event` is the handle itself,
// which is the address of a table. `reaches` says yes for this device and for peers that were given
// access. `holds` says yes for the blocks and the parts of the engine, and no others of the process
// have the same addresses and numbers.
unsafe impl Driver for SimDriver {
    fn id(&self) -> DeviceId {
        self.id
    }

    fn runtime(&self) -> Runtime {
        Runtime { name: "software", instance: self.engine.number }
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn reaches(&self, memory: DeviceId) -> Result<()> {
        let reached = memory == self.id
            || self.engine.with(|state| {
                state.peer_access && state.devices.iter().any(|device| device.id == memory)
            });
        if reached { Ok(()) } else { Err(not_reachable(self.id, memory)) }
    }

    unsafe fn allocate(&self, len: u64, queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        let site = self.engine.site();
        self.engine.submit(|state| state.allocate(self.device, len, queue, site))
    }

    unsafe fn free(&self, memory: Raw<Memory>, len: u64) {
        let site = self.engine.site();
        self.engine.with(|state| state.free(memory, len, site));
    }

    fn share(&self, memory: Raw<Memory>, len: u64) {
        let site = self.engine.site();
        self.engine.with(|state| state.share(memory, len, site));
    }

    fn reuse(&self, memory: Raw<Memory>, len: u64) {
        self.engine.with(|state| state.reuse(memory, len));
    }

    fn watch(&self, what: Watched, places: &[WatchedPlace]) {
        let site = self.engine.site();
        self.engine.with(|state| state.watch(what, places, site));
    }

    unsafe fn part(&self, memory: Raw<Memory>, offset: u64, len: u64) -> Result<Raw<Memory>> {
        let site = self.engine.site();
        let spot = Spot { base: memory, offset };
        let alignment = self.properties.alignment as u64;
        self.engine.with(|state| state.part(self.device, spot, len, alignment, site))
    }

    unsafe fn free_part(&self, part: Raw<Memory>) {
        let site = self.engine.site();
        self.engine.with(|state| state.free_part(part, site));
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    fn sharing(&self) -> Option<&dyn arrow_device::driver::Sharing> {
        Some(self)
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        let (site, handle) = (self.engine.site(), new_queue_handle());
        let handle = self.engine.with(|state| state.open_queue(self.device, handle, site))?;
        Ok(Raw::from_bits(handle))
    }

    unsafe fn close_queue(&self, queue: Raw<Queue>) {
        let site = self.engine.site();
        self.engine.with(|state| state.close_queue(queue, site));
    }

    unsafe fn synchronize(&self, queue: Raw<Queue>) -> Result<()> {
        self.engine.synchronize(queue)
    }

    unsafe fn is_idle(&self, queue: Raw<Queue>) -> Result<bool> {
        self.engine.is_idle(queue)
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        let site = self.engine.site();
        self.engine.with(|state| state.make_event(self.device, site))
    }

    unsafe fn destroy_event(&self, event: Raw<Event>) {
        let site = self.engine.site();
        self.engine.with(|state| state.destroy_event(event, site));
    }

    unsafe fn record(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Raw<Event>> {
        let site = self.engine.site();
        self.engine.with(|state| state.record(queue, event, site))?;
        Ok(event)
    }

    unsafe fn wait(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Waiting> {
        self.engine.wait(queue, event)
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        self.engine.is_complete(event)
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool> {
        self.engine.wait_on_host(event, timeout)
    }

    unsafe fn notify(&self, event: Raw<Event>, notice: EventNotice) -> Result<bool> {
        self.engine.notify(event, notice)
    }

    fn sync_event(&self, event: Raw<Event>) -> Result<SyncEvent> {
        self.require_events("sync_event")?;
        Ok(match NonNull::new(event.as_ptr()) {
            Some(table) => SyncEvent::Address(table),
            None => SyncEvent::Handle(std::ptr::null_mut()),
        })
    }

    unsafe fn read_sync_event(&self, sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        self.require_events("read_sync_event")?;
        // SAFETY: UNS-5, which the caller keeps.
        unsafe { self.engine.adopt(sync_event) }
            .map_err(|error| error.during("read_sync_event").on_device(self.id))
    }

    unsafe fn copy(&self, queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()> {
        let site = self.engine.site();
        // SAFETY: UNS-21, which the caller keeps.
        self.engine.submit(|state| unsafe { state.copy(queue, &route, regions, site) })
    }

    unsafe fn map(&self, spot: Spot, len: u64) -> Result<NonNull<u8>> {
        let site = self.engine.site();
        self.engine.with(|state| state.map(self.device, spot, len, site))
    }

    unsafe fn unmap(&self, spot: Spot, len: u64, _address: NonNull<u8>) {
        let site = self.engine.site();
        self.engine.with(|state| state.unmap(self.device, spot, len, site));
    }

    unsafe fn map_to_fill(
        &self,
        queue: Raw<Queue>,
        spot: Spot,
        len: u64,
    ) -> Result<Option<NonNull<u8>>> {
        let site = self.engine.site();
        self.engine.with(|state| state.map_to_fill(queue, spot, len, site))
    }

    unsafe fn unmap_filled(
        &self,
        queue: Raw<Queue>,
        spot: Spot,
        len: u64,
        _address: NonNull<u8>,
    ) -> Result<Filled> {
        let site = self.engine.site();
        self.engine.submit(|state| state.unmap_filled(queue, spot, len, site))
    }

    unsafe fn holds(&self, base: Raw<Memory>) -> Option<bool> {
        Some(self.engine.with(|state| state.holds(base)))
    }

    unsafe fn locate(&self, base: Raw<Memory>) -> Result<Option<Allocation>> {
        let found = self.engine.with(|state| {
            let (device, remaining) = state.locate(base)?;
            Some(Allocation { device: state.devices[device].id, remaining })
        });
        Ok(found)
    }
}
