//! The [`Driver`] of a Vulkan device: translates operations on raw handles to calls of Vulkan.
//!
//! A queue is a `VkQueue`, an event a `VkEvent`, memory a `VkBuffer`. Several drivers may share one
//! [`Logical`] device and allocate different kinds of memory.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

#[cfg(target_os = "linux")]
use arrow_device::driver::Sharing;
use arrow_device::driver::{
    Addressing, Allocation, Driver, Filled, HostAccess, Properties, Raw, Region, Route, Runtime,
    Spot, SyncEvent, Waiting, ask_for_a_moment,
};
use arrow_device::{DeviceId, ErrorKind, Event, Memory, Queue, Result};
use ash::vk::{self, Handle};

use crate::Placement;
use crate::handles::Owner;
use crate::lane::Work;
use crate::logical::Logical;
use crate::memory_types::{MemoryType, advance};

pub(crate) struct VulkanDriver {
    pub(crate) logical: Arc<Logical>,
    pub(crate) memory_type: MemoryType,
    properties: Properties,
    /// The owner that this opening was given, which may differ from that of the device's first
    /// opening. Dropped after `logical`.
    _owner: Option<Owner>,
}

impl VulkanDriver {
    pub(crate) fn new(
        logical: Arc<Logical>,
        placement: Placement,
        owner: Option<Owner>,
    ) -> Result<Self> {
        let types = &logical.types;
        let (found, why) = match placement {
            Placement::Automatic => (types.unified().or_else(|| types.device_local()), "fits"),
            Placement::HostVisible => (types.host_visible(), "the host can see"),
            Placement::DeviceOnly => (types.device_local(), "is its own"),
        };
        let mut memory_type = found.ok_or_else(|| {
            let message = format!("it has no memory that {why}");
            logical.error(ErrorKind::Unsupported, message).during("open")
        })?;
        // Memory that the host reads slowly is not read in place.
        let unified = types.unified().is_some_and(|unified| unified.index == memory_type.index);
        memory_type.is_visible &= match placement {
            Placement::Automatic => unified,
            Placement::HostVisible => true,
            Placement::DeviceOnly => false,
        };
        let is_mapped = memory_type.is_visible;
        let access = if is_mapped { HostAccess::Mapped } else { HostAccess::None };
        let properties = Properties::new(logical.name.clone())
            .with_alignment(types.alignment as usize)
            .with_addressing(Addressing::Handle)
            .with_parts(true)
            // Data from the host passes through a staging buffer anyway: two are used in turn.
            .with_gathered_writes(!is_mapped)
            .with_host_access(access);
        Ok(Self { logical, memory_type, properties, _owner: owner })
    }

    /// Maps memory that the host cannot see, by a copy in a staging buffer.
    ///
    /// # Safety
    /// UNS-22, as [`Driver::map`] has it.
    unsafe fn map_copy(&self, spot: Spot, len: u64) -> Result<NonNull<u8>> {
        let logical = &self.logical;
        let lane = logical.next_lane()?;
        let address = logical.pin(len)?;
        let to = Spot { base: Raw::from_ptr(address.as_ptr().cast()), offset: 0 };
        let region = Region { from: spot, to, len };
        // SAFETY: UNS-22, which the caller keeps, of the source; the destination is staging memory
        // that was taken for this copy.
        let copied = unsafe { logical.copy(lane, Route::ToHost, &[region]) };
        match copied.and_then(|()| self.finish(lane.queue)) {
            Ok(()) => Ok(address),
            Err(error) if error.kind() == ErrorKind::DeviceLost => {
                logical.unpin(address);
                Err(error)
            }
            // The device may still write to the staging buffer, so it is not given back.
            Err(error) => Err(error),
        }
    }

    /// Waits until a queue has done all that was submitted to it, by this crate and by others.
    fn finish(&self, queue: vk::Queue) -> Result<()> {
        let lane = self.logical.lane_of(queue)?;
        // SAFETY: nothing is submitted but a signal, which comes behind all commands before it
        // ("the first synchronization scope additionally includes all commands that occur earlier
        // in submission order").
        let point = unsafe { self.logical.submit(lane, Work::default(), &mut None) }?;
        self.logical.wait_for(point, None).map(drop)
    }
}

fn queue_of(queue: Raw<Queue>) -> vk::Queue {
    vk::Queue::from_raw(queue.bits() as u64)
}

fn event_of(event: Raw<Event>) -> vk::Event {
    vk::Event::from_raw(event.bits() as u64)
}

pub(crate) fn buffer_of(memory: Raw<Memory>) -> vk::Buffer {
    vk::Buffer::from_raw(memory.bits() as u64)
}

/// Converts a handle. Where a handle does not fit into a pointer, the driver is never loaded.
pub(crate) fn raw<T>(handle: impl Handle) -> Raw<T> {
    Raw::from_bits(handle.as_raw() as usize)
}

impl fmt::Debug for VulkanDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VulkanDriver({}, {} queues)", self.logical.id, self.logical.lanes.len())
    }
}

// SAFETY: memory is a `VkBuffer` bound to memory of its own, or to that of the one it is a part of,
// until both are destroyed. A queue's order is that of submission, and whatever is submitted here
// begins and ends with a full pipeline barrier ("the first synchronization scope includes all
// commands that occur earlier in submission order", the second all later ones). An event stands for
// a value of the queue's timeline semaphore, whose signal comes behind everything before it; other
// queues wait for that value. Memory that the host maps is coherent, and stays mapped until it is
// freed; what is mapped otherwise is a copy. `sync_event` is the `VkEvent` itself. `reaches` says
// yes for the one device.
unsafe impl Driver for VulkanDriver {
    fn id(&self) -> DeviceId {
        self.logical.id
    }

    fn runtime(&self) -> Runtime {
        Runtime { name: "vulkan", instance: self.logical.vk.handle().as_raw() as usize }
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    unsafe fn allocate(&self, len: u64, _queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        let (buffer, block) = self.logical.allocate_memory(self.memory_type, len, false)?;
        self.logical.remember(buffer, block);
        Ok(raw(buffer))
    }

    unsafe fn free(&self, memory: Raw<Memory>, _len: u64) {
        let buffer = buffer_of(memory);
        if let Some(block) = self.logical.forget(buffer) {
            // SAFETY: `allocate` gave both, and nothing uses them any more.
            unsafe { self.logical.free_memory(buffer, block.memory) };
        }
    }

    unsafe fn part(&self, memory: Raw<Memory>, offset: u64, len: u64) -> Result<Raw<Memory>> {
        self.logical.part_of(buffer_of(memory), offset, len).map(raw)
    }

    unsafe fn free_part(&self, part: Raw<Memory>) {
        let buffer = buffer_of(part);
        if self.logical.forget(buffer).is_some() {
            // SAFETY: `part` gave it, and nothing uses it any more.
            unsafe { self.logical.vk.destroy_buffer(buffer, None) };
        }
    }

    unsafe fn allocate_staging(&self, len: u64) -> Result<Option<NonNull<u8>>> {
        self.logical.pin(len).map(Some)
    }

    unsafe fn free_staging(&self, address: NonNull<u8>, _len: u64) {
        self.logical.unpin(address);
    }

    #[cfg(target_os = "linux")]
    fn sharing(&self) -> Option<&dyn Sharing> {
        let external = self.logical.external.as_ref()?;
        external.admits(self.memory_type).then_some(self)
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        self.logical.next_lane().map(|lane| raw(lane.queue))
    }

    unsafe fn close_queue(&self, _queue: Raw<Queue>) {
        // Nothing to close: a `VkQueue` lives as long as its device.
    }

    unsafe fn synchronize(&self, queue: Raw<Queue>) -> Result<()> {
        self.finish(queue_of(queue))
    }

    unsafe fn is_idle(&self, queue: Raw<Queue>) -> Result<bool> {
        // Others submit to the queue too, so the answer has to come from something that is
        // submitted behind all of that.
        let lane = self.logical.lane_of(queue_of(queue))?;
        // SAFETY: nothing is submitted but a signal.
        let point = unsafe { self.logical.submit(lane, Work::default(), &mut None) }?;
        ask_for_a_moment(|| self.logical.has_passed(point))
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        self.logical.make_event().map(raw)
    }

    unsafe fn destroy_event(&self, event: Raw<Event>) {
        if !event.is_null() {
            // SAFETY: UNS-22, which the caller keeps.
            unsafe { self.logical.destroy_event(event_of(event)) };
        }
    }

    unsafe fn record(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Raw<Event>> {
        let lane = self.logical.lane_of(queue_of(queue))?;
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.logical.record(lane, event_of(event)) }.map(|()| event)
    }

    unsafe fn wait(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Waiting> {
        let lane = self.logical.lane_of(queue_of(queue))?;
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.logical.wait_on(lane, event_of(event)) }
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.logical.is_complete(event_of(event)) }
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.logical.wait_on_host(event_of(event), timeout) }
    }

    fn sync_event(&self, event: Raw<Event>) -> Result<SyncEvent> {
        Ok(SyncEvent::Handle(event.as_ptr()))
    }

    unsafe fn read_sync_event(&self, sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        // SAFETY: by the convention it points to a `VkEvent`; nothing is known of how it is
        // aligned.
        let event = unsafe { sync_event.cast::<u64>().read_unaligned() };
        if event == 0 {
            let message =
                "sync_event points to a null VkEvent; without an event it has to be null itself";
            let error = self.logical.error(ErrorKind::Malformed, message);
            return Err(error.during("read_sync_event"));
        }
        Ok(Raw::from_bits(event as usize))
    }

    unsafe fn copy(&self, queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()> {
        let lane = self.logical.lane_of(queue_of(queue))?;
        if regions.iter().all(|region| region.len > 0) {
            // SAFETY: UNS-21 and UNS-22, which the caller keeps.
            return unsafe { self.logical.copy(lane, route, regions) };
        }
        // Vulkan has no empty copies.
        let regions: Vec<Region> =
            regions.iter().filter(|region| region.len > 0).copied().collect();
        // SAFETY: UNS-21 and UNS-22, which the caller keeps.
        unsafe { self.logical.copy(lane, route, &regions) }
    }

    unsafe fn map(&self, spot: Spot, len: u64) -> Result<NonNull<u8>> {
        // Memory of a lost device has no certain contents, and reading mapped memory reports no
        // error.
        self.logical.require_life()?;
        let block = self.logical.block_of(buffer_of(spot.base));
        match block.and_then(|block| block.address) {
            Some(address) => Ok(advance(address, spot.offset)),
            // The buffer is somebody else's, or was allocated by another driver of the device.
            // SAFETY: UNS-22, which the caller keeps.
            None => unsafe { self.map_copy(spot, len) },
        }
    }

    fn maps_in_place(&self, base: Raw<Memory>) -> bool {
        self.logical.block_of(buffer_of(base)).is_some_and(|block| block.address.is_some())
    }

    unsafe fn unmap(&self, _spot: Spot, _len: u64, address: NonNull<u8>) {
        // Only a mapping that is a copy has to be ended.
        self.logical.unpin(address);
    }

    unsafe fn map_to_fill(
        &self,
        _queue: Raw<Queue>,
        spot: Spot,
        _len: u64,
    ) -> Result<Option<NonNull<u8>>> {
        // Commands see what the host wrote before they were submitted ("vkQueueSubmit ... makes all
        // host writes available").
        let block = self.logical.block_of(buffer_of(spot.base));
        Ok(block.and_then(|block| block.address).map(|address| advance(address, spot.offset)))
    }

    unsafe fn unmap_filled(
        &self,
        _queue: Raw<Queue>,
        _spot: Spot,
        _len: u64,
        _address: NonNull<u8>,
    ) -> Result<Filled> {
        // Nothing is submitted here that would report the loss.
        self.logical.require_life()?;
        // What the host wrote is visible to all later submissions to any queue of the device, as in
        // `map_to_fill`. The memory is coherent and stays mapped.
        Ok(Filled::Now)
    }

    unsafe fn locate(&self, base: Raw<Memory>) -> Result<Option<Allocation>> {
        let known = self.logical.block_of(buffer_of(base));
        Ok(known.map(|block| Allocation { device: self.logical.id, remaining: block.len }))
    }
}
