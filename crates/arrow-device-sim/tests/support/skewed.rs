//! Drivers that leave something out: what the library must do, not done.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::time::Duration;

use arrow_device::driver::{
    Allocation, Driver, Properties, Raw, Region, Route, Runtime, Spot, SyncEvent, Waiting,
};
use arrow_device::{Device, DeviceId, Event, Memory, Queue, Result};
use arrow_device_sim::{Sim, SimDriver};

/// What is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Omission {
    /// Queues do not wait for events.
    QueueWait,
    /// The host does not wait for events.
    HostWait,
    /// The host does not wait for queues.
    Synchronize,
    /// Events are said to have passed, whatever they stand for.
    Asking,
}

#[derive(Debug)]
struct Skewed {
    inner: SimDriver,
    omits: Omission,
}

/// The simulator's device, with a driver that omits something.
pub(crate) fn device(sim: &Sim, omits: Omission) -> Device {
    Device::new(Skewed { inner: sim.driver(), omits })
}

/// The same for another of its devices.
pub(crate) fn device_number(sim: &Sim, number: usize, omits: Omission) -> Device {
    Device::new(Skewed { inner: sim.driver_number(number), omits })
}

unsafe impl Driver for Skewed {
    fn id(&self) -> DeviceId {
        self.inner.id()
    }

    fn runtime(&self) -> Runtime {
        self.inner.runtime()
    }

    fn properties(&self) -> &Properties {
        self.inner.properties()
    }

    fn reaches(&self, memory: DeviceId) -> Result<()> {
        self.inner.reaches(memory)
    }

    unsafe fn allocate(&self, len: u64, queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        unsafe { self.inner.allocate(len, queue) }
    }

    unsafe fn free(&self, memory: Raw<Memory>, len: u64) {
        unsafe { self.inner.free(memory, len) }
    }

    fn share(&self, memory: Raw<Memory>) {
        self.inner.share(memory);
    }

    fn reuse(&self, memory: Raw<Memory>) {
        self.inner.reuse(memory);
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
        match self.omits {
            Omission::Synchronize => Ok(()),
            _ => unsafe { self.inner.synchronize(queue) },
        }
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
        match self.omits {
            Omission::QueueWait => Ok(Waiting::Queued),
            _ => unsafe { self.inner.wait(queue, event) },
        }
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        match self.omits {
            Omission::Asking => Ok(true),
            _ => unsafe { self.inner.is_complete(event) },
        }
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool> {
        match self.omits {
            Omission::HostWait => Ok(true),
            _ => unsafe { self.inner.wait_on_host(event, timeout) },
        }
    }

    fn sync_event(&self, event: Raw<Event>) -> SyncEvent {
        self.inner.sync_event(event)
    }

    unsafe fn read_sync_event(&self, sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        unsafe { self.inner.read_sync_event(sync_event) }
    }

    unsafe fn copy(&self, queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()> {
        if self.omits != Omission::Synchronize || !matches!(route, Route::ToHost) {
            return unsafe { self.inner.copy(queue, route, regions) };
        }
        // What is not waited for does not come: it goes to memory that nobody looks at and that stays, because whoever does
        // not wait may free the destination too early.
        let lost = regions.iter().map(|region| {
            let bytes: &'static mut [u8] = vec![0; region.len as usize].leak();
            let to = Spot { base: Raw::from_ptr(bytes.as_mut_ptr().cast()), offset: 0 };
            let Spot { base, offset } = region.to;
            let destination = base.as_ptr().cast::<u8>().wrapping_add(offset as usize);
            unsafe { destination.write_bytes(0xd5, region.len as usize) };
            Region { to, ..*region }
        });
        let lost: Vec<Region> = lost.collect();
        unsafe { self.inner.copy(queue, route, &lost) }
    }

    unsafe fn map(&self, spot: Spot, len: u64) -> Result<NonNull<u8>> {
        unsafe { self.inner.map(spot, len) }
    }

    unsafe fn unmap(&self, spot: Spot, len: u64, address: NonNull<u8>) {
        unsafe { self.inner.unmap(spot, len, address) }
    }

    unsafe fn locate(&self, base: Raw<Memory>) -> Result<Option<Allocation>> {
        unsafe { self.inner.locate(base) }
    }
}
