//! Devices that leave something out: another device, with a driver that does not do one thing that
//! a driver must.
//!
//! Such a device has the id of the one beneath and everything else from it, so that what watches
//! that one sees what goes wrong. It is what [`Device::find`] finds from then on.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use arrow_device::driver::{
    Allocation, Driver, Properties, Raw, Region, Route, Runtime, Spot, SyncEvent, Waiting, Watched,
    WatchedPlace,
};
use arrow_device::{Device, DeviceId, Event, Memory, Queue, Result};

/// What is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Omission {
    /// Queues do not wait for events.
    QueueWait,
    /// The host does not wait for events.
    HostWait,
    /// The host does not wait for queues: what they copy to the host does not come. Not one of
    /// [`ALL`](Self::ALL), because nobody but a copy waits so.
    Synchronize,
    /// Events are said to have passed, whatever they stand for.
    Asking,
    /// Copies to the device are not made.
    CopyIn,
    /// Copies from the device are not made.
    CopyOut,
    /// Nobody asks which memory can be reached: all of it.
    Reach,
    /// Memory is not freed.
    Free,
}

impl Omission {
    /// All of them that any exchange meets.
    pub const ALL: [Self; 7] = [
        Self::QueueWait,
        Self::HostWait,
        Self::Asking,
        Self::CopyIn,
        Self::CopyOut,
        Self::Reach,
        Self::Free,
    ];
}

/// A device with a driver that omits something.
pub fn device(of: &Device, omits: Omission) -> Device {
    Device::new(Skewed { inner: of.driver().clone(), omits })
}

#[derive(Debug)]
struct Skewed {
    inner: Arc<dyn Driver>,
    omits: Omission,
}

// SAFETY: it breaks the promises of a driver on purpose, in programs that look for that; nothing
// follows a wrong address.
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
        match self.omits {
            Omission::Reach => Ok(()),
            _ => self.inner.reaches(memory),
        }
    }

    unsafe fn allocate(&self, len: u64, queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
        unsafe { self.inner.allocate(len, queue) }
    }

    unsafe fn free(&self, memory: Raw<Memory>, len: u64) {
        if self.omits != Omission::Free {
            // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
            unsafe { self.inner.free(memory, len) }
        }
    }

    fn share(&self, memory: Raw<Memory>, len: u64) {
        self.inner.share(memory, len);
    }

    fn reuse(&self, memory: Raw<Memory>, len: u64) {
        self.inner.reuse(memory, len);
    }

    fn watch(&self, what: Watched, places: &[WatchedPlace]) {
        self.inner.watch(what, places);
    }

    unsafe fn part(&self, memory: Raw<Memory>, offset: u64, len: u64) -> Result<Raw<Memory>> {
        // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
        unsafe { self.inner.part(memory, offset, len) }
    }

    unsafe fn free_part(&self, part: Raw<Memory>) {
        // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
        unsafe { self.inner.free_part(part) }
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        self.inner.open_queue()
    }

    unsafe fn close_queue(&self, queue: Raw<Queue>) {
        // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
        unsafe { self.inner.close_queue(queue) }
    }

    unsafe fn synchronize(&self, queue: Raw<Queue>) -> Result<()> {
        match self.omits {
            Omission::Synchronize => Ok(()),
            // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
            _ => unsafe { self.inner.synchronize(queue) },
        }
    }

    unsafe fn is_idle(&self, queue: Raw<Queue>) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
        unsafe { self.inner.is_idle(queue) }
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        self.inner.make_event()
    }

    unsafe fn destroy_event(&self, event: Raw<Event>) {
        // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
        unsafe { self.inner.destroy_event(event) }
    }

    unsafe fn record(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Raw<Event>> {
        // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
        unsafe { self.inner.record(queue, event) }
    }

    unsafe fn wait(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Waiting> {
        match self.omits {
            Omission::QueueWait => Ok(Waiting::Queued),
            // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
            _ => unsafe { self.inner.wait(queue, event) },
        }
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        match self.omits {
            Omission::Asking => Ok(true),
            // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
            _ => unsafe { self.inner.is_complete(event) },
        }
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool> {
        match self.omits {
            Omission::HostWait => Ok(true),
            // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
            _ => unsafe { self.inner.wait_on_host(event, timeout) },
        }
    }

    fn sync_event(&self, event: Raw<Event>) -> Result<SyncEvent> {
        self.inner.sync_event(event)
    }

    unsafe fn read_sync_event(&self, sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
        unsafe { self.inner.read_sync_event(sync_event) }
    }

    unsafe fn copy(&self, queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()> {
        match (self.omits, route) {
            (Omission::CopyIn, Route::FromHost) | (Omission::CopyOut, Route::ToHost) => Ok(()),
            (Omission::Synchronize, Route::ToHost) => {
                regions.iter().for_each(scribble);
                Ok(())
            }
            // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
            _ => unsafe { self.inner.copy(queue, route, regions) },
        }
    }

    unsafe fn map(&self, spot: Spot, len: u64) -> Result<NonNull<u8>> {
        // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
        unsafe { self.inner.map(spot, len) }
    }

    unsafe fn unmap(&self, spot: Spot, len: u64, address: NonNull<u8>) {
        // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
        unsafe { self.inner.unmap(spot, len, address) }
    }

    unsafe fn locate(&self, base: Raw<Memory>) -> Result<Option<Allocation>> {
        // SAFETY: UNS-22, which the caller keeps: the handles are those of the driver beneath.
        unsafe { self.inner.locate(base) }
    }
}

/// Makes the destination of a copy to the host look like no result.
fn scribble(region: &Region) {
    let Spot { base, offset } = region.to;
    let to = base.as_ptr().cast::<u8>().wrapping_add(offset as usize);
    // SAFETY: the caller of `copy` promises that as many bytes can be written there.
    unsafe { to.write_bytes(0xd5, region.len as usize) }
}
