//! A device that passes everything on to another one, and counts the calls of its driver.
//!
//! ```
//! use std::sync::atomic::Ordering;
//!
//! use arrow_device::{Array, DataType};
//! use arrow_device_sim::Sim;
//! use arrow_device_testkit::tally::watch;
//!
//! let sim = Sim::builder().build();
//! let (device, tally) = watch(&sim.device());
//! let numbers = Array::from_values(DataType::Int64, (0..10_i64).map(Some)).unwrap();
//! drop(numbers.copy_to(&device.open_queue().unwrap()).unwrap());
//! assert_eq!(tally.moved.load(Ordering::Relaxed), 80);
//! # drop(device);
//! # sim.finish();
//! ```

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow_device::driver::{
    self, Allocation, Driver, EventNotice, Filled, Properties, Raw, Region, Route, Runtime,
    Sharing, Spot, SyncEvent, Waiting, WatchedPlace,
};
use arrow_device::{Device, DeviceId, Event, Memory, Queue, Result};

/// Counts of the calls of a driver.
#[derive(Debug, Default)]
pub struct DriverTally {
    /// How often work was handed over: a list of copies, a mapping, its end, an event.
    pub submissions: AtomicU64,
    /// How many lists of copies were submitted.
    pub copies: AtomicU64,
    /// How many calls were made in which the host may wait for the device.
    pub waits: AtomicU64,
    /// How many bytes were in the regions of copies, and in mappings that were filled.
    pub moved: AtomicU64,
    /// How many handles for parts of an allocation were made.
    pub handles: AtomicU64,
    /// How many allocations of the device's memory were made.
    pub allocations: AtomicU64,
}

impl DriverTally {
    /// Sets all counts to 0.
    pub fn clear(&self) {
        let Self { submissions, copies, waits, moved, handles, allocations } = self;
        for count in [submissions, copies, waits, moved, handles, allocations] {
            count.store(0, Ordering::Relaxed);
        }
    }
}

fn more(count: &AtomicU64, by: u64) {
    count.fetch_add(by, Ordering::Relaxed);
}

/// Wraps a device so that calls are counted. From then on [`Device::find`] finds the wrapped
/// device.
pub fn watch(device: &Device) -> (Device, Arc<DriverTally>) {
    let tally = Arc::new(DriverTally::default());
    let driver = Watched { driver: device.driver().clone(), tally: tally.clone() };
    (Device::new(driver), tally)
}

#[derive(Debug)]
struct Watched {
    driver: Arc<dyn Driver>,
    tally: Arc<DriverTally>,
}

// SAFETY: each promise is that of the driver beneath, which is handed every call as it is.
unsafe impl Driver for Watched {
    fn id(&self) -> DeviceId {
        self.driver.id()
    }

    fn runtime(&self) -> Runtime {
        self.driver.runtime()
    }

    fn properties(&self) -> &Properties {
        self.driver.properties()
    }

    fn reaches(&self, memory: DeviceId) -> Result<()> {
        self.driver.reaches(memory)
    }

    unsafe fn allocate(&self, len: u64, queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        more(&self.tally.allocations, 1);
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.driver.allocate(len, queue) }
    }

    unsafe fn free(&self, memory: Raw<Memory>, len: u64) {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.driver.free(memory, len) }
    }

    fn share(&self, memory: Raw<Memory>, len: u64) {
        self.driver.share(memory, len);
    }

    fn reuse(&self, memory: Raw<Memory>, len: u64) {
        self.driver.reuse(memory, len);
    }

    fn watch(&self, what: driver::Watched, places: &[WatchedPlace]) {
        self.driver.watch(what, places);
    }

    unsafe fn part(&self, memory: Raw<Memory>, offset: u64, len: u64) -> Result<Raw<Memory>> {
        more(&self.tally.handles, 1);
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.driver.part(memory, offset, len) }
    }

    unsafe fn free_part(&self, part: Raw<Memory>) {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.driver.free_part(part) }
    }

    unsafe fn allocate_staging(&self, len: u64) -> Result<Option<NonNull<u8>>> {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.driver.allocate_staging(len) }
    }

    unsafe fn free_staging(&self, address: NonNull<u8>, len: u64) {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.driver.free_staging(address, len) }
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        self.driver.open_queue()
    }

    unsafe fn close_queue(&self, queue: Raw<Queue>) {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.driver.close_queue(queue) }
    }

    unsafe fn synchronize(&self, queue: Raw<Queue>) -> Result<()> {
        more(&self.tally.waits, 1);
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.driver.synchronize(queue) }
    }

    unsafe fn is_idle(&self, queue: Raw<Queue>) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.driver.is_idle(queue) }
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        self.driver.make_event()
    }

    unsafe fn destroy_event(&self, event: Raw<Event>) {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.driver.destroy_event(event) }
    }

    unsafe fn record(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Raw<Event>> {
        more(&self.tally.submissions, 1);
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.driver.record(queue, event) }
    }

    unsafe fn wait(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Waiting> {
        more(&self.tally.submissions, 1);
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.driver.wait(queue, event) }
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.driver.is_complete(event) }
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool> {
        more(&self.tally.waits, 1);
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.driver.wait_on_host(event, timeout) }
    }

    unsafe fn notify(&self, event: Raw<Event>, notice: EventNotice) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.driver.notify(event, notice) }
    }

    fn sync_event(&self, event: Raw<Event>) -> Result<SyncEvent> {
        self.driver.sync_event(event)
    }

    unsafe fn read_sync_event(&self, sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.driver.read_sync_event(sync_event) }
    }

    unsafe fn copy(&self, queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()> {
        more(&self.tally.submissions, 1);
        more(&self.tally.copies, 1);
        more(&self.tally.moved, regions.iter().map(|region| region.len).sum());
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.driver.copy(queue, route, regions) }
    }

    unsafe fn map(&self, spot: Spot, len: u64) -> Result<NonNull<u8>> {
        more(&self.tally.waits, 1);
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.driver.map(spot, len) }
    }

    fn sharing(&self) -> Option<&dyn Sharing> {
        self.driver.sharing()
    }

    fn maps_in_place(&self, base: Raw<Memory>) -> bool {
        self.driver.maps_in_place(base)
    }

    unsafe fn unmap(&self, spot: Spot, len: u64, address: NonNull<u8>) {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.driver.unmap(spot, len, address) }
    }

    unsafe fn map_to_fill(
        &self,
        queue: Raw<Queue>,
        spot: Spot,
        len: u64,
    ) -> Result<Option<NonNull<u8>>> {
        // SAFETY: UNS-22, which the caller keeps.
        let mapped = unsafe { self.driver.map_to_fill(queue, spot, len) }?;
        if mapped.is_some() {
            more(&self.tally.submissions, 1);
            more(&self.tally.waits, 1);
            more(&self.tally.moved, len);
        }
        Ok(mapped)
    }

    unsafe fn unmap_filled(
        &self,
        queue: Raw<Queue>,
        spot: Spot,
        len: u64,
        address: NonNull<u8>,
    ) -> Result<Filled> {
        more(&self.tally.submissions, 1);
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.driver.unmap_filled(queue, spot, len, address) }
    }

    unsafe fn locate(&self, base: Raw<Memory>) -> Result<Option<Allocation>> {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.driver.locate(base) }
    }

    unsafe fn holds(&self, base: Raw<Memory>) -> Option<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.driver.holds(base) }
    }
}
