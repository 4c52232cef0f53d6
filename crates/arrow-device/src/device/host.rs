//! The host as a device: plain memory, and work that is done as it is submitted.
//!
//! The host is the smallest complete [`Driver`]. Its queue needs no object, and its events have
//! passed from the start. For that reason the `sync_event` of host arrays can be null, as the
//! interface demands for the CPU.

use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use super::driver::{
    Driver, HostAccess, Properties, Raw, Readiness, Region, Route, Runtime, Spot, SyncEvent,
    Waiting, not_reachable,
};
use super::{Device, Event, Memory, Queue};
#[cfg(all(target_os = "linux", not(miri)))]
use super::{driver::Sharing, host_sharing::HostSharing};
use crate::once::OnceBox;
use crate::{DeviceId, DeviceType, Error, ErrorKind, Result};

static DEVICE: OnceBox<Device> = OnceBox::new();

/// The one host device.
pub(super) fn device() -> Device {
    DEVICE.get_or_make(|| Device::of(Arc::new(Host::new()))).clone()
}

/// The one host queue.
pub(super) fn queue() -> Queue {
    static QUEUE: OnceBox<Queue> = OnceBox::new();
    QUEUE.get_or_make(|| Queue::adopted(device(), Raw::NULL, None)).clone()
}

/// Whether a device is the host itself, and not just of the host's type. Work that was given to a
/// queue of the host is always done already.
pub(super) fn is_host(device: &Device) -> bool {
    DEVICE.get().is_some_and(|host| Arc::ptr_eq(host.driver(), device.driver()))
}

/// A device of host memory that is not the host, for tests.
#[cfg(test)]
pub(super) fn another() -> Device {
    Device::of(Arc::new(Host::new()))
}

/// What Arrow recommends: a cache line, and the width of the widest vector registers.
const ALIGNMENT: usize = 64;

#[derive(Debug)]
struct Host {
    properties: Properties,
}

impl Host {
    fn new() -> Self {
        let properties = Properties::new("host memory")
            .with_alignment(ALIGNMENT)
            .with_host_access(HostAccess::Mapped)
            .with_readiness(Readiness::HostWait);
        Self { properties }
    }
}

// SAFETY: work is done inside the call that submits it, so every event has passed and every queue
// is idle whenever asked; `allocate` and `free` are the global allocator with one layout rule, and
// `map` returns the address itself, at which the host may read.
unsafe impl Driver for Host {
    fn id(&self) -> DeviceId {
        DeviceId::CPU
    }

    fn runtime(&self) -> Runtime {
        Runtime { name: "host", instance: 0 }
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Reaches only plain memory. The host can read pinned and managed memory too, but their events
    /// are of their own runtime.
    fn reaches(&self, memory: DeviceId) -> Result<()> {
        if memory.device_type == DeviceType::CPU {
            Ok(())
        } else {
            Err(not_reachable(self.id(), memory))
        }
    }

    unsafe fn allocate(&self, len: u64, _queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        let layout = layout(len)?;
        // SAFETY: the layout's size is not zero, because `len` is not, as the caller of `allocate`
        // promises.
        let address = unsafe { std::alloc::alloc(layout) };
        if address.is_null() {
            return Err(out_of_memory(len));
        }
        Ok(Raw::from_ptr(address.cast()))
    }

    unsafe fn free(&self, memory: Raw<Memory>, len: u64) {
        let Ok(layout) = layout(len) else { return };
        // SAFETY: the caller passes what `allocate` gave, with the same length and so the same
        // layout.
        unsafe { std::alloc::dealloc(memory.as_ptr().cast(), layout) }
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    fn sharing(&self) -> Option<&dyn Sharing> {
        Some(&HostSharing)
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        Ok(Raw::NULL)
    }

    unsafe fn close_queue(&self, _queue: Raw<Queue>) {}

    unsafe fn synchronize(&self, _queue: Raw<Queue>) -> Result<()> {
        Ok(())
    }

    unsafe fn is_idle(&self, _queue: Raw<Queue>) -> Result<bool> {
        Ok(true)
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        Ok(Raw::NULL)
    }

    unsafe fn destroy_event(&self, _event: Raw<Event>) {}

    unsafe fn record(&self, _queue: Raw<Queue>, event: Raw<Event>) -> Result<Raw<Event>> {
        Ok(event)
    }

    unsafe fn wait(&self, _queue: Raw<Queue>, _event: Raw<Event>) -> Result<Waiting> {
        Ok(Waiting::Queued)
    }

    unsafe fn is_complete(&self, _event: Raw<Event>) -> Result<bool> {
        Ok(true)
    }

    unsafe fn wait_on_host(&self, _event: Raw<Event>, _timeout: Option<Duration>) -> Result<bool> {
        Ok(true)
    }

    fn sync_event(&self, _event: Raw<Event>) -> Result<SyncEvent> {
        Ok(SyncEvent::Handle(std::ptr::null_mut()))
    }

    unsafe fn read_sync_event(&self, _sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        Err(Error::new(ErrorKind::Malformed, "the host has no events: `sync_event` must be null")
            .on_device(self.id()))
    }

    unsafe fn copy(&self, _queue: Raw<Queue>, _route: Route<'_>, regions: &[Region]) -> Result<()> {
        for region in regions {
            let len = usize::try_from(region.len).map_err(|_| out_of_memory(region.len))?;
            let (from, to) = (host_address(region.from), host_address(region.to));
            // SAFETY: UNS-21, which the caller keeps: both sides hold `len` bytes and do not
            // overlap.
            unsafe { std::ptr::copy_nonoverlapping(from.cast_const(), to, len) };
        }
        Ok(())
    }

    unsafe fn map(&self, spot: Spot, _len: u64) -> Result<NonNull<u8>> {
        NonNull::new(host_address(spot)).ok_or_else(|| {
            Error::new(ErrorKind::InvalidArgument, "there is nothing at a null address")
        })
    }
}

/// The most bytes that a process can address today: five levels of page tables reach 2^56. A larger
/// request is a mistake, and the global allocator is not asked for it.
pub(super) const LARGEST_MEMORY: u64 = 1 << 56;

/// The layout of plain memory of this length.
pub(super) fn layout(len: u64) -> Result<Layout> {
    usize::try_from(len)
        .ok()
        .filter(|_| len <= LARGEST_MEMORY)
        .and_then(|len| Layout::from_size_align(len, ALIGNMENT).ok())
        .ok_or_else(|| out_of_memory(len))
}

fn out_of_memory(len: u64) -> Error {
    Error::new(ErrorKind::OutOfMemory, format!("{len} bytes asked for"))
        .during("allocate")
        .on_device(DeviceId::CPU)
}

fn host_address(spot: Spot) -> *mut u8 {
    let offset = usize::try_from(spot.offset).unwrap_or(usize::MAX);
    spot.base.as_ptr().cast::<u8>().wrapping_add(offset)
}
