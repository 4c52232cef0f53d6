//! The [`Driver`] of a oneAPI device: translates operations on raw handles to calls of SYCL.
//!
//! A driver keeps its device and its context, and owns a queue by which memory is allocated. All
//! other handles belong to the caller.
//!
//! * A copy is one `memcpy` for each region. A queue that is out of order gets a barrier before
//!   and behind the copies, and the copies are told to wait for the first one.
//! * An event is the `sycl::event` of a barrier behind all work. A queue in order waits by a
//!   barrier behind the event. For a queue out of order the host waits.
//! * The events of all work that is submitted to a queue are kept in the queue's lane
//!   ([`crate::lanes`]), which tells of work that has failed in front of a barrier.
//! * Memory is named by addresses, so a part is an address, too. The host reads memory of the
//!   kinds [`Kind::Host`] and [`Kind::Shared`] where it lies.
//! * On devices that SYCL drives by OpenCL, other than processors, queues are flushed behind each
//!   event ([`Flusher`]).

use std::alloc::Layout;
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use arrow_device::driver::{
    Allocation, Driver, Filled, HostAccess, Properties, Raw, Region, Route, Runtime, Spot,
    SyncEvent, Waiting, WaitingCopies, ask_for_a_moment, ask_until,
};
use arrow_device::{DeviceId, Error, ErrorKind, Event, Memory, Queue, Result};

use crate::Kind;
use crate::error::refused;
use crate::events::{Answer, ask};
use crate::flusher::Flusher;
use crate::functions::{
    Allocate, Functions, HAS_HOST_MEMORY, HOST_MEMORY, IS_CPU, NO_USM, OPENCL, Object,
    SHARED_MEMORY, SHARES_AT_ONCE,
};
use crate::lanes::{Lane, Mark, Work};
use crate::objects::{Context, OwnAllocation, Owned, SyclDevice, make_queue};

/// What the runtime of all contexts is called.
pub(crate) const RUNTIME: &str = "sycl";
/// How allocations are aligned.
const ALIGNMENT: usize = 64;

pub(crate) struct SyclDriver {
    functions: &'static Functions,
    /// The queue that memory is allocated by, and that copies of foreign memory to be mapped go
    /// through. Dropped before its context.
    own: Owned,
    /// Has queues flushed, on devices where SYCL does not do that by itself.
    flusher: Option<Flusher>,
    device: SyclDevice,
    context: Arc<Context>,
    id: DeviceId,
    kind: Kind,
    /// Whether memory of the host is allocated for copies.
    stages: bool,
    /// Whether the host may read shared memory while the device uses any part of it.
    shares_at_once: bool,
    properties: Properties,
}

impl SyclDriver {
    pub(crate) fn new(
        functions: &'static Functions,
        context: Arc<Context>,
        device: SyclDevice,
        kind: Kind,
    ) -> Result<Self> {
        let id = device.id()?;
        if !device.has(kind.aspect()) {
            let message =
                format!("it has no USM of the kind {kind:?}; `devices()` says what it has");
            return Err(Error::new(ErrorKind::Unsupported, message).during("open").on_device(id));
        }
        let shares_at_once = device.has(SHARES_AT_ONCE);
        let is_mapped = match kind {
            Kind::Device => false,
            Kind::Host => true,
            Kind::Shared => shares_at_once,
        };
        let is_cpu = device.has(IS_CPU);
        let stages = !is_cpu && device.has(HAS_HOST_MEMORY);
        let no_queue = || refused("open", id);
        let own = make_queue(functions, &context, &device, true).ok_or_else(no_queue)?;
        let flusher = match !is_cpu && device.backend() == OPENCL {
            true => Some(Flusher::new(functions, &context, &device).ok_or_else(no_queue)?),
            false => None,
        };
        // On a GPU, a copy of memory that no runtime has pinned may wait for the queue.
        let waiting = if is_cpu { WaitingCopies::None } else { WaitingCopies::OfPlainMemory };
        let properties = Properties::new(device.name())
            .with_alignment(ALIGNMENT)
            .with_waiting_copies(waiting)
            .with_host_access(if is_mapped { HostAccess::Mapped } else { HostAccess::None });
        Ok(Self {
            functions,
            own,
            flusher,
            device,
            context,
            id,
            kind,
            stages,
            shares_at_once,
            properties,
        })
    }

    fn check(&self, event: Object, operation: &'static str) -> Result<Owned> {
        // SAFETY: UNS-31: the event was just made by a function of the table, or is null;
        // `event_delete` is for events.
        let event = unsafe { Owned::new(event, self.functions.event_delete) };
        event.ok_or_else(|| refused(operation, self.id))
    }

    /// Submits a barrier behind all work of the queue.
    ///
    /// # Safety
    /// The queue is alive.
    unsafe fn barrier(&self, queue: Raw<Queue>, operation: &'static str) -> Result<Owned> {
        // SAFETY: UNS-31, and the queue is alive, as the caller promises.
        self.check(unsafe { (self.functions.barrier)(queue.as_ptr()) }, operation)
    }

    /// Submits a barrier behind the event.
    ///
    /// # Safety
    /// The queue and the event are alive.
    unsafe fn barrier_for(
        &self,
        queue: Object,
        event: Object,
        operation: &'static str,
    ) -> Result<Owned> {
        // SAFETY: UNS-31, queue and event are alive, as the caller promises; the list has one
        // event.
        let made = unsafe { (self.functions.barrier_for)(queue, &event, 1) };
        self.check(made, operation)
    }

    /// Has the queue of the event flushed, where SYCL would not do that by itself.
    ///
    /// # Safety
    /// The event is alive.
    unsafe fn flush(&self, event: Object) -> Result<()> {
        if let Some(flusher) = &self.flusher {
            // SAFETY: UNS-31, and the event is alive, as the caller promises.
            if !unsafe { flusher.flush(event) } {
                return Err(refused("flush the queue", self.id));
            }
        }
        Ok(())
    }

    /// The event behind all work of the queue, which is on its way to the device.
    ///
    /// # Safety
    /// The queue is alive.
    unsafe fn event_behind(&self, queue: Raw<Queue>, operation: &'static str) -> Result<Owned> {
        // SAFETY: the queue is alive, as the caller promises.
        let event = unsafe { self.barrier(queue, operation) }?;
        // SAFETY: the event is alive in its owner.
        unsafe { self.flush(event.object()) }?;
        Ok(event)
    }

    /// The lane of a queue.
    ///
    /// # Safety
    /// The queue is alive.
    unsafe fn lane(&self, queue: Raw<Queue>) -> Result<Arc<Lane>> {
        // SAFETY: UNS-31, and the queue is alive, as the caller promises.
        let lane = unsafe { self.context.lanes().of(queue.as_ptr()) };
        lane.ok_or_else(|| refused("keep what the queue was given", self.id))
    }

    /// Submits a barrier behind all work of the queue, and returns a question about that work.
    ///
    /// # Safety
    /// The queue is alive.
    unsafe fn question(
        &self,
        queue: Raw<Queue>,
        operation: &'static str,
    ) -> Result<impl Fn() -> Result<bool>> {
        // SAFETY: the queue is alive, as the caller promises.
        let lane = unsafe { self.lane(queue) }?;
        let behind = lane.count();
        // SAFETY: the queue is alive, as the caller promises.
        let barrier = unsafe { self.event_behind(queue, operation) }?;
        let mark = Mark::new(Work::new(barrier), lane, behind);
        Ok(move || mark.answer(self.functions).told(operation, self.id))
    }

    /// What is known of the work that an event stands for.
    ///
    /// # Safety
    /// The event is alive.
    unsafe fn answer(&self, event: Object) -> Answer {
        match self.context.lanes().mark(event) {
            Some(mark) => mark.answer(self.functions),
            // SAFETY: UNS-31, and the event is alive, as the caller promises.
            None => unsafe { ask(self.functions, event) },
        }
    }

    /// Whether the queue is in order by itself.
    ///
    /// # Safety
    /// The queue is alive.
    unsafe fn is_in_order(&self, queue: Raw<Queue>) -> bool {
        // SAFETY: UNS-31, and the queue is alive, as the caller promises.
        unsafe { (self.functions.queue_is_in_order)(queue.as_ptr()) }
    }

    /// Submits a copy behind an event, where there is one.
    ///
    /// # Safety
    /// UNS-21 for these places and this queue; the event is alive.
    unsafe fn copy_bytes(
        &self,
        queue: Object,
        to: *mut c_void,
        from: *const c_void,
        len: u64,
        after: Option<&Owned>,
    ) -> Result<Owned> {
        let len = usize::try_from(len).map_err(|_| refused("copy", self.id))?;
        let event = after.map(Owned::object);
        let (events, count) = match &event {
            Some(event) => (std::ptr::from_ref(event), 1),
            None => (std::ptr::null(), 0),
        };
        // SAFETY: UNS-21, which the caller keeps; the call does not wait, and the list has so many
        // events.
        let made = unsafe { (self.functions.copy)(queue, to, from, len, events, count) };
        self.check(made, "copy")
    }

    /// Allocates memory. `None` where there is no room.
    ///
    /// # Safety
    /// `allocate` is of the table, and the device has memory of that kind.
    unsafe fn allocate_with(&self, allocate: Allocate, len: u64) -> Option<NonNull<u8>> {
        let size = usize::try_from(len).ok()?;
        // SAFETY: UNS-31: the queue is alive in its owner. dpctl catches nothing where memory of
        // the host is allocated, but then the runtime throws only where the device has no such
        // memory, and the device was asked.
        let memory = unsafe { allocate(ALIGNMENT, size, self.own.object()) };
        NonNull::new(memory.cast())
    }

    /// # Safety
    /// `allocate_with` gave it, nothing uses it, and it is not used after this.
    unsafe fn free_memory(&self, memory: *mut c_void) {
        // SAFETY: UNS-31: the memory is of this context, which is alive in its owner.
        unsafe { (self.functions.free)(memory, self.context.object()) };
    }

    /// Copies memory that the host cannot read into fresh memory of the host, and waits for that.
    ///
    /// # Safety
    /// UNS-22, as [`Driver::map`] has it.
    unsafe fn map_a_copy(&self, at: *const c_void, len: u64) -> Result<NonNull<u8>> {
        let layout = copy_layout(len).ok_or_else(|| refused("map", self.id))?;
        // SAFETY: the layout has at least one byte.
        let copy = unsafe { std::alloc::alloc_zeroed(layout) };
        let Some(copy) = NonNull::new(copy) else {
            let error = Error::new(ErrorKind::OutOfMemory, "the host has no memory for a copy");
            return Err(error.during("map").on_device(self.id));
        };
        // SAFETY: UNS-22, which the caller keeps: all work that writes these bytes has finished.
        // The copy is fresh memory of the host.
        let submitted =
            unsafe { self.copy_bytes(self.own.object(), copy.as_ptr().cast(), at, len, None) };
        let event = submitted.inspect_err(|_| {
            // SAFETY: the copy was allocated above with this layout, and no work uses it.
            unsafe { std::alloc::dealloc(copy.as_ptr(), layout) };
        })?;
        // SAFETY: the event is alive in its owner.
        let copied = unsafe { self.flush(event.object()) }.and_then(|()| {
            ask_until(None, || {
                // SAFETY: the event is alive in its owner.
                unsafe { ask(self.functions, event.object()) }.told("map", self.id)
            })
        });
        copied.map(|_| copy).inspect_err(|error| {
            // Where nobody tells whether the copy is over, its memory stays.
            if error.kind() == ErrorKind::WorkFailed {
                // SAFETY: it was allocated above with this layout, and the copy is over.
                unsafe { std::alloc::dealloc(copy.as_ptr(), layout) };
            }
        })
    }
}

fn copy_layout(len: u64) -> Option<Layout> {
    Layout::from_size_align(usize::try_from(len.max(1)).ok()?, ALIGNMENT).ok()
}

/// Returns the address of a spot.
fn address(spot: Spot) -> *mut c_void {
    spot.base.as_ptr().cast::<u8>().wrapping_add(spot.offset as usize).cast()
}

impl fmt::Debug for SyclDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SyclDriver({}, {:?}, {:?})", self.id, self.kind, self.context)
    }
}

// SAFETY: memory is an allocation of its own, valid until it is freed. An event is that of a
// barrier, which "will wait for all commands previously submitted to this queue to complete". A
// queue in order that waits gets a barrier behind the event, behind which later commands wait; for
// others the host waits. On queues that are not in order, copies wait for a barrier in front of
// them, and the next barrier waits for them. The host waits by asking events.
// `map` shows memory of the host and shared memory, which the host may read ("can be accessed on
// the host"), and copies other memory. `sync_event` is the address of the `sycl::event` itself.
// `reaches` says yes for this device alone.
unsafe impl Driver for SyclDriver {
    fn id(&self) -> DeviceId {
        self.id
    }

    fn runtime(&self) -> Runtime {
        Runtime { name: RUNTIME, instance: self.context.number() }
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    unsafe fn allocate(&self, len: u64, _queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        let allocate = match self.kind {
            Kind::Device => self.functions.allocate_device,
            Kind::Host => self.functions.allocate_host,
            Kind::Shared => self.functions.allocate_shared,
        };
        // SAFETY: the device was asked for memory of this kind when it was opened.
        let Some(memory) = (unsafe { self.allocate_with(allocate, len) }) else {
            let message = format!("{len} bytes of USM of the kind {:?} asked for", self.kind);
            let error = Error::new(ErrorKind::OutOfMemory, message);
            return Err(error.during("allocate").on_device(self.id));
        };
        let is_mapped = self.properties.host_access == HostAccess::Mapped;
        let allocation = OwnAllocation { device: self.id, len, is_mapped };
        self.context.remember(memory.addr().get(), allocation);
        Ok(Raw::from_ptr(memory.as_ptr().cast()))
    }

    unsafe fn free(&self, memory: Raw<Memory>, _len: u64) {
        // Before the memory is given back: another thread may get it at once.
        self.context.forget(memory.bits());
        // SAFETY: UNS-22, which the caller keeps: `allocate` gave it, and nothing uses it any more.
        unsafe { self.free_memory(memory.as_ptr()) };
    }

    unsafe fn allocate_staging(&self, len: u64) -> Result<Option<NonNull<u8>>> {
        if !self.stages {
            return Ok(None);
        }
        // SAFETY: `stages` is only where the device has memory on the host.
        let memory = unsafe { self.allocate_with(self.functions.allocate_host, len) };
        if let Some(memory) = memory {
            // SAFETY: so many bytes of memory on the host, which nobody else has.
            unsafe { memory.write_bytes(0, len as usize) };
        }
        // Where there is no room, plain memory will do.
        Ok(memory)
    }

    unsafe fn free_staging(&self, address: NonNull<u8>, _len: u64) {
        // SAFETY: UNS-22, which the caller keeps: `allocate_staging` gave it.
        unsafe { self.free_memory(address.as_ptr().cast()) };
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        let queue = make_queue(self.functions, &self.context, &self.device, true);
        let queue = queue.ok_or_else(|| refused("open a queue", self.id))?;
        Ok(Raw::from_ptr(queue.into_object()))
    }

    unsafe fn close_queue(&self, queue: Raw<Queue>) {
        // SAFETY: UNS-22, which the caller keeps: `open_queue` gave it.
        unsafe { self.context.lanes().forget(queue.as_ptr()) };
        // SAFETY: UNS-22, which the caller keeps: `open_queue` gave it. Work that was submitted
        // still finishes, since the runtime's commands keep its own queue.
        unsafe { (self.functions.queue_delete)(queue.as_ptr()) };
    }

    unsafe fn synchronize(&self, queue: Raw<Queue>) -> Result<()> {
        // SAFETY: UNS-22, which the caller keeps.
        let is_over = unsafe { self.question(queue, "finish the queue") }?;
        ask_until(None, is_over).map(drop)
    }

    unsafe fn is_idle(&self, queue: Raw<Queue>) -> Result<bool> {
        // dpctl cannot be asked whether a queue is idle. A barrier on a queue without work passes
        // as soon as the runtime gets to the barrier.
        // SAFETY: UNS-22, which the caller keeps.
        let is_over = unsafe { self.question(queue, "ask a queue") }?;
        ask_for_a_moment(is_over)
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        // In SYCL, submitting work makes the event.
        Ok(Raw::NULL)
    }

    unsafe fn destroy_event(&self, event: Raw<Event>) {
        // The mark owns the `sycl::event` that `record` gave.
        self.context.lanes().forget_mark(event.as_ptr());
    }

    unsafe fn record(&self, queue: Raw<Queue>, _event: Raw<Event>) -> Result<Raw<Event>> {
        // SAFETY: UNS-22, which the caller keeps.
        let lane = unsafe { self.lane(queue) }?;
        // Before the barrier: what another thread submits meanwhile is no work of the event's.
        let behind = lane.count();
        // SAFETY: UNS-22, which the caller keeps.
        let event = unsafe { self.event_behind(queue, "record an event") }?;
        Ok(Raw::from_ptr(self.context.lanes().record(lane, behind, event)))
    }

    unsafe fn wait(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Waiting> {
        const OPERATION: &str = "wait for an event";
        let event = event.as_ptr();
        // If the work has failed already, the caller is told here.
        // SAFETY: UNS-22, which the caller keeps: the event is alive.
        if unsafe { self.answer(event) }.told(OPERATION, self.id)? {
            return Ok(Waiting::Queued);
        }
        // DPC++ 2026.2 lets work start before a barrier on a queue out of order has passed, where
        // the barrier waits for a task of the host.
        // SAFETY: UNS-22, which the caller keeps: the queue is alive.
        if !unsafe { self.is_in_order(queue) } {
            return Ok(Waiting::HostMustWait);
        }
        // SAFETY: UNS-22, which the caller keeps: the queue is alive.
        let lane = unsafe { self.lane(queue) }?;
        if let Some(mark) = self.context.lanes().mark(event) {
            // SAFETY: UNS-22, which the caller keeps: queue and event are alive.
            let barrier = unsafe { self.barrier_for(queue.as_ptr(), event, OPERATION) }?;
            lane.follow(self.functions, &mark, Work::new(barrier));
            return Ok(Waiting::Queued);
        }
        // SAFETY: UNS-31, and UNS-22, which the caller keeps: the event is alive.
        let copy = self.check(unsafe { (self.functions.event_copy)(event) }, OPERATION)?;
        // SAFETY: UNS-22, which the caller keeps: queue and event are alive.
        let barrier = unsafe { self.barrier_for(queue.as_ptr(), event, OPERATION) }?;
        lane.add_behind(self.functions, Work::new(copy), Work::new(barrier));
        Ok(Waiting::Queued)
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.answer(event.as_ptr()) }.told("ask an event", self.id)
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool> {
        const OPERATION: &str = "wait for an event";
        let event = event.as_ptr();
        if let Some(mark) = self.context.lanes().mark(event) {
            return ask_until(timeout, || mark.answer(self.functions).told(OPERATION, self.id));
        }
        ask_until(timeout, || {
            // SAFETY: UNS-31, and UNS-22, which the caller keeps: the event is alive.
            let answer = unsafe { ask(self.functions, event) };
            if answer == Answer::Pending
                && let Some(flusher) = &self.flusher
            {
                // SAFETY: UNS-31, and UNS-22, which the caller keeps: the event is alive.
                if !unsafe { flusher.flush_foreign(event) } {
                    return Err(refused("flush the queue", self.id));
                }
            }
            answer.told(OPERATION, self.id)
        })
    }

    fn sync_event(&self, event: Raw<Event>) -> Result<SyncEvent> {
        let event = NonNull::new(event.as_ptr());
        event.map(SyncEvent::Address).ok_or_else(|| {
            let error = Error::new(ErrorKind::InvalidArgument, "the event was not recorded");
            error.during("sync_event").on_device(self.id)
        })
    }

    unsafe fn read_sync_event(&self, sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        // A `sycl::event` begins with a pointer.
        if !sync_event.cast::<Object>().is_aligned() {
            let message = "sync_event is no address of a sycl::event: it is not aligned as one";
            let error = Error::new(ErrorKind::Malformed, message);
            return Err(error.during("read_sync_event").on_device(self.id));
        }
        Ok(Raw::from_ptr(sync_event.as_ptr()))
    }

    unsafe fn copy(&self, queue: Raw<Queue>, _route: Route<'_>, regions: &[Region]) -> Result<()> {
        const OPERATION: &str = "keep the queue in order";
        // SAFETY: UNS-22, which the caller keeps: the queue is alive.
        let lane = unsafe { self.lane(queue) }?;
        // SAFETY: UNS-22, which the caller keeps: the queue is alive.
        let is_in_order = unsafe { self.is_in_order(queue) };
        let fence = match is_in_order {
            true => None,
            // SAFETY: UNS-22, which the caller keeps: the queue is alive.
            false => Some(unsafe { self.barrier(queue, OPERATION) }?),
        };
        for region in regions {
            let (to, from) = (address(region.to), address(region.from));
            let queue = queue.as_ptr();
            // SAFETY: UNS-21 and UNS-22, which the caller keeps. Addresses of the host and of the
            // device are copied by the same function, which finds out what they are.
            let copied = unsafe { self.copy_bytes(queue, to, from, region.len, fence.as_ref()) }?;
            lane.add(self.functions, Work::new(copied));
        }
        if let Some(fence) = fence {
            // SAFETY: UNS-22, which the caller keeps: the queue is alive.
            let behind = unsafe { self.barrier(queue, OPERATION) }?;
            lane.add(self.functions, Work::new(fence));
            lane.add(self.functions, Work::new(behind));
        }
        Ok(())
    }

    unsafe fn map(&self, spot: Spot, len: u64) -> Result<NonNull<u8>> {
        let at = address(spot);
        // A device with memory that the host can read is also given memory that others have
        // allocated, of whatever kind.
        let is_readable = || match self.context.kind_at(at.addr()) {
            HOST_MEMORY => true,
            SHARED_MEMORY => self.shares_at_once,
            _ => false,
        };
        if self.maps_in_place(spot.base) || is_readable() {
            let no_address = || refused("map", self.id);
            return NonNull::new(at.cast()).ok_or_else(no_address);
        }
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.map_a_copy(at, len) }
    }

    fn maps_in_place(&self, base: Raw<Memory>) -> bool {
        self.context.located(base.bits()).is_some_and(|(allocation, _)| allocation.is_mapped)
    }

    unsafe fn unmap(&self, spot: Spot, len: u64, mapped: NonNull<u8>) {
        if mapped.as_ptr().cast() == address(spot) {
            return;
        }
        if let Some(layout) = copy_layout(len) {
            // SAFETY: `map_a_copy` gave it with this layout, and nobody reads it any more.
            unsafe { std::alloc::dealloc(mapped.as_ptr(), layout) };
        }
    }

    unsafe fn map_to_fill(
        &self,
        _queue: Raw<Queue>,
        spot: Spot,
        _len: u64,
    ) -> Result<Option<NonNull<u8>>> {
        if !self.maps_in_place(spot.base) {
            return Ok(None);
        }
        Ok(NonNull::new(address(spot).cast()))
    }

    unsafe fn unmap_filled(
        &self,
        _queue: Raw<Queue>,
        _spot: Spot,
        _len: u64,
        _address: NonNull<u8>,
    ) -> Result<Filled> {
        // What the host wrote before work is submitted is visible to the work.
        Ok(Filled::Now)
    }

    unsafe fn locate(&self, base: Raw<Memory>) -> Result<Option<Allocation>> {
        // SYCL does not tell how long an allocation is; of memory that was allocated here it is
        // known.
        let found = self.context.located(base.bits());
        Ok(found.map(|(own, remaining)| Allocation { device: own.device, remaining }))
    }

    unsafe fn holds(&self, base: Raw<Memory>) -> Option<bool> {
        (!base.is_null()).then(|| self.context.kind_at(base.bits()) != NO_USM)
    }
}
