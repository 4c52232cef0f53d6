//! A device that copies whole units of any size, and says which calls may have waited.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_device::driver::{
    Addressing, Allocation, Driver, Filled, Properties, Raw, Region, Route, Runtime, Spot,
    SyncEvent, Waiting, Watched, WatchedPlace,
};
use arrow_device::{Device, DeviceId, Event, Memory, Queue, Result};

/// Over the driver of a device that copies any bytes. Lengths are rounded up on the device, with
/// garbage, as DRV-23 admits.
#[derive(Debug)]
struct CoarseDriver {
    inner: Arc<dyn Driver>,
    properties: Properties,
    log: Arc<CoarseLog>,
}

/// What happened on a device of units.
#[derive(Debug, Default)]
pub(super) struct CoarseLog {
    /// The calls that may wait for work.
    waits: Mutex<Vec<&'static str>>,
    /// Regions that no driver of such a device is given.
    mistakes: Mutex<Vec<String>>,
}

impl CoarseLog {
    fn may_wait(&self, call: &'static str) {
        self.waits.lock().unwrap().push(call);
    }

    /// The calls since the last question that may have waited.
    pub(super) fn take_waits(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.waits.lock().unwrap())
    }

    pub(super) fn mistakes(&self) -> Vec<String> {
        self.mistakes.lock().unwrap().clone()
    }
}

/// The device with units of so many bytes.
pub(super) fn coarse(device: &Device, unit: u64) -> (Device, Arc<CoarseLog>) {
    let inner = device.driver().clone();
    let is_handle = inner.properties().addressing == Addressing::Handle;
    let properties = inner.properties().clone().with_copy_unit(unit);
    let properties = properties.with_distinct_copies(is_handle);
    let log = Arc::new(CoarseLog::default());
    (Device::new(CoarseDriver { inner, properties, log: log.clone() }), log)
}

/// So many bytes of host memory that hold garbage, or take any.
fn garbage(len: u64) -> Spot {
    static BYTES: Mutex<Vec<&'static [u8]>> = Mutex::new(Vec::new());
    let mut known = BYTES.lock().unwrap();
    let bytes = match known.iter().find(|bytes| bytes.len() as u64 == len) {
        Some(bytes) => *bytes,
        None => {
            let bytes: &'static [u8] = Box::leak(vec![0xee; len as usize].into_boxed_slice());
            known.push(bytes);
            bytes
        }
    };
    Spot { base: Raw::from_ptr(bytes.as_ptr().cast_mut().cast()), offset: 0 }
}

impl CoarseDriver {
    fn unit(&self) -> u64 {
        self.properties.copy_unit
    }

    fn lead(&self, spot: Spot) -> u64 {
        let base = match self.properties.addressing {
            Addressing::Handle => 0,
            Addressing::Address => spot.base.bits() as u64,
        };
        (base + spot.offset) % self.unit()
    }

    /// What is written behind a destination up to the next unit.
    fn slack(&self, region: &Region, is_to_host: bool) -> Option<Region> {
        let len = region.len.next_multiple_of(self.unit()) - region.len;
        if len == 0 || is_to_host {
            return None;
        }
        let to = Spot { offset: region.to.offset + region.len, ..region.to };
        Some(Region { from: garbage(len), to, len })
    }

    fn check(&self, route: &Route<'_>, region: &Region) {
        let (from_device, to_device) =
            (!matches!(route, Route::FromHost), !matches!(route, Route::ToHost));
        let is_odd = (from_device && self.lead(region.from) != 0)
            || (to_device && self.lead(region.to) != 0);
        let is_inside = self.properties.distinct_copies
            && matches!(route, Route::Within)
            && region.from.base == region.to.base;
        if is_odd || is_inside {
            self.log.mistakes.lock().unwrap().push(format!("{region:?}"));
        }
    }
}

// SAFETY: the operations are those of the driver beneath, and copies are rounded up on the device,
// where an allocation has whole units.
unsafe impl Driver for CoarseDriver {
    fn id(&self) -> DeviceId {
        self.inner.id()
    }

    fn runtime(&self) -> Runtime {
        self.inner.runtime()
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn reaches(&self, memory: DeviceId) -> Result<()> {
        self.inner.reaches(memory)
    }

    unsafe fn allocate(&self, len: u64, queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        unsafe { self.inner.allocate(len.next_multiple_of(self.unit()), queue) }
    }

    unsafe fn free(&self, memory: Raw<Memory>, len: u64) {
        unsafe { self.inner.free(memory, len.next_multiple_of(self.unit())) }
    }

    fn share(&self, memory: Raw<Memory>, len: u64) {
        self.inner.share(memory, len.next_multiple_of(self.unit()));
    }

    fn reuse(&self, memory: Raw<Memory>, len: u64) {
        self.inner.reuse(memory, len.next_multiple_of(self.unit()));
    }

    fn watch(&self, what: Watched, places: &[WatchedPlace]) {
        self.inner.watch(what, places);
    }

    unsafe fn part(&self, memory: Raw<Memory>, offset: u64, len: u64) -> Result<Raw<Memory>> {
        unsafe { self.inner.part(memory, offset, len) }
    }

    unsafe fn free_part(&self, part: Raw<Memory>) {
        unsafe { self.inner.free_part(part) }
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        self.inner.open_queue()
    }

    unsafe fn close_queue(&self, queue: Raw<Queue>) {
        unsafe { self.inner.close_queue(queue) }
    }

    unsafe fn synchronize(&self, queue: Raw<Queue>) -> Result<()> {
        self.log.may_wait("synchronize");
        unsafe { self.inner.synchronize(queue) }
    }

    unsafe fn is_idle(&self, queue: Raw<Queue>) -> Result<bool> {
        unsafe { self.inner.is_idle(queue) }
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        self.inner.make_event()
    }

    unsafe fn destroy_event(&self, event: Raw<Event>) {
        unsafe { self.inner.destroy_event(event) }
    }

    unsafe fn record(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Raw<Event>> {
        unsafe { self.inner.record(queue, event) }
    }

    unsafe fn wait(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Waiting> {
        unsafe { self.inner.wait(queue, event) }
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        unsafe { self.inner.is_complete(event) }
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool> {
        self.log.may_wait("wait_on_host");
        unsafe { self.inner.wait_on_host(event, timeout) }
    }

    fn sync_event(&self, event: Raw<Event>) -> Result<SyncEvent> {
        self.inner.sync_event(event)
    }

    unsafe fn read_sync_event(&self, sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        unsafe { self.inner.read_sync_event(sync_event) }
    }

    unsafe fn copy(&self, queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()> {
        let is_to_host = matches!(route, Route::ToHost);
        regions.iter().for_each(|region| self.check(&route, region));
        let slack: Vec<Region> =
            regions.iter().filter_map(|region| self.slack(region, is_to_host)).collect();
        unsafe { self.inner.copy(queue, route, regions) }?;
        if slack.is_empty() {
            Ok(())
        } else {
            unsafe { self.inner.copy(queue, Route::FromHost, &slack) }
        }
    }

    unsafe fn map(&self, spot: Spot, len: u64) -> Result<NonNull<u8>> {
        self.log.may_wait("map");
        unsafe { self.inner.map(spot, len) }
    }

    fn maps_in_place(&self, base: Raw<Memory>) -> bool {
        self.inner.maps_in_place(base)
    }

    unsafe fn unmap(&self, spot: Spot, len: u64, address: NonNull<u8>) {
        unsafe { self.inner.unmap(spot, len, address) }
    }

    unsafe fn map_to_fill(
        &self,
        queue: Raw<Queue>,
        spot: Spot,
        len: u64,
    ) -> Result<Option<NonNull<u8>>> {
        self.log.may_wait("map_to_fill");
        unsafe { self.inner.map_to_fill(queue, spot, len) }
    }

    unsafe fn unmap_filled(
        &self,
        queue: Raw<Queue>,
        spot: Spot,
        len: u64,
        address: NonNull<u8>,
    ) -> Result<Filled> {
        unsafe { self.inner.unmap_filled(queue, spot, len, address) }
    }

    unsafe fn locate(&self, base: Raw<Memory>) -> Result<Option<Allocation>> {
        unsafe { self.inner.locate(base) }
    }

    unsafe fn holds(&self, base: Raw<Memory>) -> Option<bool> {
        unsafe { self.inner.holds(base) }
    }
}
