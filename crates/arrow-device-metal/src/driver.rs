//! The [`Driver`] of a Metal device: translates operations on raw handles to calls of Metal.
//!
//! * Memory is named by the address of a buffer's bytes ([`memory`]). All of it is shared with the
//!   host, which reads and fills it in place.
//! * A queue is a `MTLCommandQueue` ([`lane`]), an event a `MTLSharedEvent` ([`events`]).
//! * A copy is one command buffer, or several where more than [`MOST_THROUGH`] bytes come from or
//!   go to the host. Metal copies between buffers, and plain host memory is no buffer. The bytes of
//!   a copy from the host are therefore put into a buffer within the call. The bytes of a copy to
//!   the host go to a buffer in their turn on the queue. Whoever finds out that the command buffer
//!   is finished moves them from there to their place, and nobody is told sooner that the copy is
//!   done.

use std::ffi::c_void;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use arrow_device::driver::{
    Allocation, Driver, Filled, HostAccess, Properties, Raw, Region, Route, Runtime, Spot,
    StagedGroup, SyncEvent, Waiting, ask_for_a_moment, not_reachable, staged_groups,
};
use arrow_device::{DeviceId, DeviceType, Error, ErrorKind, Event, Memory, Queue, Result};

use crate::api::Id;
use crate::events::{self, Known, PASSED};
use crate::home::Home;
use crate::lane::{BufferCopy, HostCopy, Lane, Work};
use crate::lanes;
use crate::memory::{self, Place, buffer_for, contents};
use crate::object::Object;

/// The id by which others name the default device.
pub(crate) const DEFAULT: DeviceId = DeviceId::new(DeviceType::METAL, -1);
/// What copies between buffers count in, on macOS.
const UNIT: usize = 4;
/// How many bytes pass through one buffer on their way from or to the host.
const MOST_THROUGH: u64 = 64 << 20;

pub(crate) struct MetalDriver {
    home: Arc<Home>,
    id: DeviceId,
    properties: Properties,
    /// The queue of the application that all queues of this device are.
    queue: Option<Object>,
}

impl MetalDriver {
    /// `id` is the device's own id, or [`DEFAULT`].
    pub(crate) fn new(home: Arc<Home>, id: DeviceId, queue: Option<Object>) -> Self {
        let properties = Properties::new(home.name.clone())
            .with_alignment(memory::page())
            .with_host_access(HostAccess::Mapped)
            .with_copy_unit(UNIT as u64);
        Self { home, id, properties, queue }
    }

    /// # Safety
    /// UNS-22.
    unsafe fn lane(&self, queue: Raw<Queue>) -> Result<Arc<Lane>> {
        self.home.check()?;
        // SAFETY: UNS-22, which the caller keeps: the queue is alive.
        unsafe { lanes::of_queue(&self.home, queue.as_ptr()) }
    }

    /// # Safety
    /// UNS-21 and UNS-22.
    unsafe fn copy_from_host(&self, lane: &Arc<Lane>, regions: &[Region]) -> Result<()> {
        for group in groups(regions) {
            let through = self.home.new_buffer(group.len)?;
            let mut copies = Vec::with_capacity(group.regions.len());
            for (region, place) in &group.regions {
                let (len, offset) = (region.len as usize, *place as usize);
                let bytes = contents(&through).cast::<u8>().wrapping_add(offset);
                let from = address(region.from).cast::<u8>();
                // SAFETY: the source holds its bytes (UNS-21), and the buffer was made for all
                // regions of the group; nobody else has the buffer.
                unsafe { from.copy_to_nonoverlapping(bytes, len) };
                let whole = len.next_multiple_of(UNIT);
                // SAFETY: UNS-21, which the caller keeps; memory of the device has whole units.
                let to = unsafe { buffer_for(&self.home, region.to, whole) }?;
                let from = Place { buffer: through.clone(), offset };
                copies.push(buffer_copy(from, to, whole));
            }
            let work = Work { copies: &copies, ..Work::default() };
            // SAFETY: the buffers are of the device, and the copies lie inside them, at units.
            unsafe { lane.submit(work) }?;
        }
        Ok(())
    }

    /// # Safety
    /// UNS-21 and UNS-22.
    unsafe fn copy_to_host(&self, lane: &Arc<Lane>, regions: &[Region]) -> Result<()> {
        for group in groups(regions) {
            let through = self.home.new_buffer(group.len)?;
            let mut copies = Vec::with_capacity(group.regions.len());
            let mut to_host = Vec::with_capacity(group.regions.len());
            for (region, place) in &group.regions {
                let (len, offset) = (region.len as usize, *place as usize);
                let whole = len.next_multiple_of(UNIT);
                // SAFETY: UNS-21, which the caller keeps; memory of the device has whole units.
                let from = unsafe { buffer_for(&self.home, region.from, whole) }?;
                let to = Place { buffer: through.clone(), offset };
                copies.push(buffer_copy(from, to, whole));
                to_host.push(HostCopy {
                    _through: through.clone(),
                    from: contents(&through).cast::<u8>().wrapping_add(offset),
                    to: address(region.to).cast(),
                    len,
                });
            }
            let work = Work { copies: &copies, to_host, ..Work::default() };
            // SAFETY: the buffers are of the device, and the copies lie inside them, at units;
            // UNS-21 for the places on the host, which the caller keeps.
            unsafe { lane.submit(work) }?;
        }
        Ok(())
    }

    /// # Safety
    /// UNS-21 and UNS-22.
    unsafe fn copy_within(&self, lane: &Arc<Lane>, regions: &[Region]) -> Result<()> {
        let copies = regions.iter().map(|region| {
            let whole = (region.len as usize).next_multiple_of(UNIT);
            // SAFETY: UNS-21, which the caller keeps; memory of the device has whole units.
            let from = unsafe { buffer_for(&self.home, region.from, whole) }?;
            // SAFETY: UNS-21, which the caller keeps; memory of the device has whole units.
            let to = unsafe { buffer_for(&self.home, region.to, whole) }?;
            Ok(buffer_copy(from, to, whole))
        });
        let copies: Vec<_> = copies.collect::<Result<_>>()?;
        let work = Work { copies: &copies, ..Work::default() };
        // SAFETY: the buffers are of the device, and the copies lie inside them, at units.
        unsafe { lane.submit(work) }.map(drop)
    }
}

fn buffer_copy(from: Place, to: Place, len: usize) -> BufferCopy {
    BufferCopy {
        from: from.buffer,
        from_offset: from.offset,
        to: to.buffer,
        to_offset: to.offset,
        len,
    }
}

/// Divides regions among buffers of a bounded length, at whole units.
fn groups(regions: &[Region]) -> Vec<StagedGroup> {
    staged_groups(regions, MOST_THROUGH, UNIT as u64)
}

fn address(spot: Spot) -> *mut c_void {
    spot.base.as_ptr().wrapping_byte_add(spot.offset as usize)
}

impl fmt::Debug for MetalDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MetalDriver({})", self.id)
    }
}

// SAFETY: memory is a buffer of shared storage of its own. A queue's command buffers are executed
// in the order of their commit, and those of this crate wait for each other (`lane`). An event is
// signalled by a command buffer behind the others, and other queues wait for it by a command
// buffer. What is asked about an event or a queue is answered by the status of the command buffers,
// which is that of failed work for ever, and after copies to the host have come to their places.
// The host's mappings are the memory itself, which is coherent. `reaches` says yes for the one
// device, by both of its ids. No operation runs callbacks. `synchronize` and `wait_on_host` hold no
// lock while they wait. `Lane::submit` waits where the queue has as many unfinished command buffers
// as it may, for which no operation but another submission to the same queue waits.
unsafe impl Driver for MetalDriver {
    fn id(&self) -> DeviceId {
        self.id
    }

    /// Any event may be known in any driver, and events of another device are left to the host.
    fn runtime(&self) -> Runtime {
        Runtime { name: "metal", instance: 0 }
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn reaches(&self, memory: DeviceId) -> Result<()> {
        let is_it = memory == self.home.id || self.home.is_default && memory == DEFAULT;
        if is_it { Ok(()) } else { Err(not_reachable(self.id, memory)) }
    }

    unsafe fn allocate(&self, len: u64, _queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        self.home.check()?;
        let _pool = self.home.pool();
        let page = memory::page() as u64;
        // Whole pages begin at a page.
        let buffer = self.home.new_buffer(len.checked_next_multiple_of(page).unwrap_or(len))?;
        let address = contents(&buffer);
        if !address.addr().is_multiple_of(memory::page()) {
            let error = Error::new(ErrorKind::Driver, "Metal gave memory that begins at no page");
            return Err(error.during("allocate").on_device(self.id));
        }
        // Where the application has named memory that is gone, Metal may give it anew.
        memory::add(buffer, memory_length(len), self.home.id).map_err(|problem| {
            Error::new(ErrorKind::Driver, problem).during("allocate").on_device(self.id)
        })?;
        Ok(Raw::from_ptr(address))
    }

    unsafe fn free(&self, memory: Raw<Memory>, _len: u64) {
        let _pool = self.home.pool();
        memory::remove(memory.as_ptr().addr());
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        self.home.check()?;
        let _pool = self.home.pool();
        let queue = match &self.queue {
            // The application's queue has its lane as an adopted queue has.
            Some(queue) => queue.id(),
            None => lanes::open(&self.home)?,
        };
        Ok(Raw::from_ptr(queue))
    }

    unsafe fn close_queue(&self, queue: Raw<Queue>) {
        let _pool = self.home.pool();
        lanes::close(queue.as_ptr());
    }

    unsafe fn synchronize(&self, queue: Raw<Queue>) -> Result<()> {
        let _pool = self.home.pool();
        // SAFETY: UNS-22, which the caller keeps.
        let lane = unsafe { self.lane(queue) }?;
        // SAFETY: nothing is copied. The command buffer comes behind what others have submitted.
        let point = unsafe { lane.submit(Work::default()) }?;
        point.wait(None).map(drop)
    }

    unsafe fn is_idle(&self, queue: Raw<Queue>) -> Result<bool> {
        let _pool = self.home.pool();
        // SAFETY: UNS-22, which the caller keeps.
        let lane = unsafe { self.lane(queue) }?;
        // Command buffers are not unlimited: as long as there are some, there is no new one.
        if !lane.newest().is_over()? {
            return Ok(false);
        }
        // The command buffer comes behind what others have submitted.
        let Some(point) = lane.submit_if_empty()? else { return Ok(false) };
        ask_for_a_moment(|| point.is_over())
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        self.home.check()?;
        let _pool = self.home.pool();
        events::make(&self.home).map(Raw::from_ptr)
    }

    unsafe fn destroy_event(&self, event: Raw<Event>) {
        let _pool = self.home.pool();
        events::destroy(event.as_ptr());
        lanes::go_on_with_closed();
    }

    unsafe fn record(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Raw<Event>> {
        let _pool = self.home.pool();
        // SAFETY: UNS-22, which the caller keeps.
        let lane = unsafe { self.lane(queue) }?;
        let Some(object) = events::own(event.as_ptr()) else {
            let error = Error::new(ErrorKind::InvalidArgument, "the event is not of this crate");
            return Err(error.during("record").on_device(self.id));
        };
        let work = Work { signal: Some(&object), ..Work::default() };
        // SAFETY: nothing is copied. The event is of the device: `make_event` made it.
        let point = unsafe { lane.submit(work) }?;
        events::note(event.as_ptr(), point);
        Ok(event)
    }

    unsafe fn wait(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Waiting> {
        let _pool = self.home.pool();
        // SAFETY: UNS-22, which the caller keeps.
        let lane = unsafe { self.lane(queue) }?;
        match events::known(event.as_ptr()) {
            Known::NotRecorded => return Ok(Waiting::HostMustWait),
            Known::Recorded(point) => {
                if !Arc::ptr_eq(&point.lane.home, &self.home) {
                    return Ok(Waiting::HostMustWait);
                }
                // Work that is over, and the queue's own earlier work, need no wait.
                if !Arc::ptr_eq(&point.lane, &lane) && !point.is_over()? {
                    let after = Some(point.clone());
                    let work = Work { wait: Some(point.timeline()), after, ..Work::default() };
                    // SAFETY: nothing is copied; the timeline is of the device.
                    unsafe { lane.submit(work) }?;
                }
            }
            Known::Foreign => {
                let Some(pointer) = NonNull::new(event.as_ptr()) else {
                    return Ok(Waiting::HostMustWait);
                };
                // SAFETY: `- (id)device` of an event that is alive (UNS-22).
                let device: Id =
                    unsafe { self.home.api.send(event.as_ptr(), self.home.api.selectors.device) };
                if !ptr::eq(device, self.home.device.id()) {
                    return Ok(Waiting::HostMustWait);
                }
                // SAFETY: UNS-22, which the caller keeps: the event is alive.
                let object = unsafe { Object::retained(self.home.api, pointer) };
                let work = Work { wait: Some((&object, PASSED)), ..Work::default() };
                // SAFETY: nothing is copied; the event is of the device.
                unsafe { lane.submit(work) }?;
            }
        }
        Ok(Waiting::Queued)
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        let _pool = self.home.pool();
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { events::is_complete(&self.home, event.as_ptr()) }
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool> {
        let _pool = self.home.pool();
        let Some(event) = NonNull::new(event.as_ptr()) else { return Ok(false) };
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { events::wait(&self.home, event, timeout) }
    }

    fn sync_event(&self, event: Raw<Event>) -> Result<SyncEvent> {
        NonNull::new(event.as_ptr()).map(SyncEvent::Address).ok_or_else(|| {
            let error = Error::new(ErrorKind::InvalidArgument, "there is no event");
            error.during("sync_event").on_device(self.id)
        })
    }

    unsafe fn read_sync_event(&self, sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        let _pool = self.home.pool();
        // SAFETY: UNS-5: the object is alive.
        if unsafe { events::is_shared(&self.home, sync_event.as_ptr()) } {
            return Ok(Raw::from_ptr(sync_event.as_ptr()));
        }
        let message = "sync_event is no MTLSharedEvent; the host cannot ask another MTLEvent";
        let error = Error::new(ErrorKind::Unsupported, message);
        Err(error.during("read_sync_event").on_device(self.id))
    }

    unsafe fn copy(&self, queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()> {
        let _pool = self.home.pool();
        // SAFETY: UNS-22, which the caller keeps.
        let lane = unsafe { self.lane(queue) }?;
        match route {
            // SAFETY: UNS-21 and UNS-22, which the caller keeps.
            Route::FromHost => unsafe { self.copy_from_host(&lane, regions) },
            // SAFETY: UNS-21 and UNS-22, which the caller keeps.
            Route::ToHost => unsafe { self.copy_to_host(&lane, regions) },
            // SAFETY: UNS-21 and UNS-22, which the caller keeps. A peer is the same device.
            _ => unsafe { self.copy_within(&lane, regions) },
        }
    }

    unsafe fn map(&self, spot: Spot, _len: u64) -> Result<NonNull<u8>> {
        self.home.check()?;
        self.address_of(spot)
    }

    unsafe fn map_to_fill(
        &self,
        _queue: Raw<Queue>,
        spot: Spot,
        _len: u64,
    ) -> Result<Option<NonNull<u8>>> {
        self.home.check()?;
        self.address_of(spot).map(Some)
    }

    unsafe fn unmap_filled(
        &self,
        _queue: Raw<Queue>,
        _spot: Spot,
        _len: u64,
        _address: NonNull<u8>,
    ) -> Result<Filled> {
        // What the host writes to shared storage before a commit is there for the commands.
        Ok(Filled::Now)
    }

    unsafe fn object_of(&self, memory: Raw<Memory>) -> Result<Option<Spot>> {
        // The owner of the memory keeps the buffer: memory of this crate is the buffer's, and who
        // names a buffer of the application's promises it (`NamedBuffer::new`).
        let found = memory::object_at(memory.as_ptr().addr());
        Ok(found.map(|(buffer, offset)| Spot {
            base: Raw::from_ptr(buffer.as_ptr()),
            offset: offset as u64,
        }))
    }

    unsafe fn memory_of(&self, object: NonNull<c_void>) -> Result<Option<(DeviceId, Raw<Memory>)>> {
        let _pool = self.home.pool();
        // SAFETY: UNS-24, which the caller keeps: the object is alive.
        let found = unsafe { memory::memory_of(self.home.api, object) };
        found.map(Some).map_err(|error| error.on_device(self.id))
    }

    unsafe fn holds(&self, base: Raw<Memory>) -> Option<bool> {
        memory::extent_of(base.as_ptr().addr()).map(|_| true)
    }

    unsafe fn locate(&self, base: Raw<Memory>) -> Result<Option<Allocation>> {
        let found = memory::extent_of(base.as_ptr().addr());
        Ok(found.map(|(device, remaining)| {
            // The device answers by the id that it is asked by.
            let device = if device == self.home.id { self.id } else { device };
            Allocation { device, remaining }
        }))
    }
}

impl MetalDriver {
    fn address_of(&self, spot: Spot) -> Result<NonNull<u8>> {
        NonNull::new(address(spot).cast()).ok_or_else(|| {
            let error = Error::new(ErrorKind::InvalidArgument, "the memory has no address");
            error.during("map").on_device(self.id)
        })
    }
}

/// The length of memory that was asked for by this length: whole units.
fn memory_length(len: u64) -> usize {
    (len as usize).next_multiple_of(UNIT)
}
