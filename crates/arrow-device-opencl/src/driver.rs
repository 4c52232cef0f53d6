//! The [`Driver`] of an OpenCL device: translates operations on raw handles to calls of OpenCL.
//!
//! A driver holds a reference to its context, and owns a queue on which the host maps memory. All
//! other handles belong to the caller.
//!
//! * A copy is one command for each region, and one flush. A queue that is out of order gets a
//!   barrier before and behind the commands.
//! * An event is that of a barrier behind all commands. A queue waits by a barrier behind the
//!   event.
//! * A mapping is made and ended on the driver's own queue, so that the host waits for no other
//!   work. Only fresh memory that the host has filled is unmapped on the queue that will use it.

use std::ffi::c_void;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::MutexGuard;
#[cfg(target_os = "linux")]
use std::sync::OnceLock;
use std::time::Duration;

#[cfg(target_os = "linux")]
use arrow_device::driver::Sharing;
use arrow_device::driver::{
    Addressing, Allocation, Driver, EventNotice, EventNotices, Filled, HostAccess, Properties, Raw,
    Region, Route, Runtime, Spot, SyncEvent, Waiting, ask_for_a_moment, not_reachable,
};
use arrow_device::{DeviceId, Error, ErrorKind, Event, Memory, Queue, Result};

use crate::api::{Api, BLOCKING, BufferRegion, Handle, NON_BLOCKING, SvmApi};
use crate::context::{Context, OwnQueue};
use crate::error::check_on;
use crate::mapping;
#[cfg(target_os = "linux")]
use crate::sharing::Shared;
use crate::{Kind, kind_of};

pub(crate) const READ_WRITE: u64 = 1;
const IN_HOST_MEMORY: u64 = 1 << 4;
const REGION: u32 = 0x1220;
const MAP_TO_READ: u64 = 1;
const MAP_TO_FILL: u64 = 1 << 2;

pub(crate) struct OpenClDriver {
    pub(crate) api: &'static Api,
    /// The functions of shared virtual memory, where the device was opened for it.
    pub(crate) svm: Option<&'static SvmApi>,
    /// The queue for mappings. Nothing that waits for another queue is submitted to it. Dropped
    /// before its context.
    pub(crate) maps: OwnQueue,
    pub(crate) context: Context,
    pub(crate) device: Handle,
    pub(crate) id: DeviceId,
    /// All devices of the context.
    pub(crate) reachable: Vec<DeviceId>,
    /// Whether host and device share their memory.
    pub(crate) is_unified: bool,
    properties: Properties,
    /// How memory is shared with other processes, where it can be: tried when it is first asked
    /// for.
    #[cfg(target_os = "linux")]
    pub(crate) shared: OnceLock<Option<Shared>>,
}

// SAFETY: OpenCL's handles may be used on any thread ("All OpenCL API calls are thread-safe except
// those that modify the state of cl_kernel objects"), and nothing in it is changed.
unsafe impl Send for OpenClDriver {}
// SAFETY: OpenCL's handles may be used on several threads at once ("All OpenCL API calls are
// thread-safe except those that modify the state of cl_kernel objects"), and nothing in it is
// changed.
unsafe impl Sync for OpenClDriver {}

impl OpenClDriver {
    /// # Safety
    /// The device is one of the context's.
    pub(crate) unsafe fn new(
        api: &'static Api,
        context: Context,
        device: Handle,
        kind: Kind,
    ) -> Result<Self> {
        let id = api.id_of(device)?;
        // SAFETY: the device is one of the context's, as the caller promises.
        let facts = unsafe { api.facts(device) }?;
        let svm = match kind {
            Kind::Buffers => None,
            Kind::Svm if facts.has_svm => api.svm.as_ref(),
            Kind::Svm => {
                let message = "it has no shared virtual memory; open it with `Kind::Buffers`";
                let error = Error::new(ErrorKind::Unsupported, message);
                return Err(error.during("open").on_device(id));
            }
        };
        // SAFETY: the context is alive in its owner; that the device is one of the context's is
        // promised by the caller.
        let maps = unsafe { OwnQueue::open(api, context.handle(), device) }?;
        // SAFETY: the context is alive in its owner.
        let all = unsafe { api.devices_of(context.handle()) }?;
        let reachable = all.into_iter().map(|device| api.id_of(device)).collect::<Result<_>>()?;
        let is_handle = svm.is_none();
        let addressing = if is_handle { Addressing::Handle } else { Addressing::Address };
        let access = if facts.is_unified { HostAccess::Mapped } else { HostAccess::None };
        let properties = Properties::new(facts.name)
            .with_alignment(facts.alignment)
            .with_addressing(addressing)
            .with_parts(is_handle)
            .with_host_access(access)
            .with_event_notices(EventNotices::FromCallbacks);
        let is_unified = facts.is_unified;
        Ok(Self {
            api,
            svm,
            maps,
            context,
            device,
            id,
            reachable,
            is_unified,
            properties,
            #[cfg(target_os = "linux")]
            shared: OnceLock::new(),
        })
    }

    pub(crate) fn check(&self, code: i32, operation: &'static str) -> Result<()> {
        check_on(code, operation, self.id)
    }

    /// Keeps commands that were submitted before in order with commands that come later, on a queue
    /// that is not in order by itself.
    ///
    /// # Safety
    /// The queue is alive.
    unsafe fn fence(&self, queue: Raw<Queue>) -> Result<()> {
        // SAFETY: the queue is alive, as the caller promises.
        if unsafe { self.api.is_out_of_order(queue.as_ptr()) }? {
            // SAFETY: the queue is alive, as the caller promises; an empty list stands for all that
            // was submitted.
            unsafe { self.barrier(queue, &[], false) }?;
        }
        Ok(())
    }

    /// Submits a barrier behind these events or, without any, behind all commands. Returns the
    /// event of the barrier if it is wanted, otherwise null.
    ///
    /// # Safety
    /// The queue and the events are alive.
    unsafe fn barrier(
        &self,
        queue: Raw<Queue>,
        events: &[Handle],
        wants_event: bool,
    ) -> Result<Handle> {
        let mut made = ptr::null_mut();
        let list = if events.is_empty() { ptr::null() } else { events.as_ptr() };
        let out: *mut Handle = if wants_event { &mut made } else { ptr::null_mut() };
        // SAFETY: the queue and the events are alive, as the caller promises; the list has this
        // many events.
        let code = unsafe { (self.api.barrier)(queue.as_ptr(), events.len() as u32, list, out) };
        self.check(code, "enqueue a barrier").map(|()| made)
    }

    /// # Safety
    /// The queue is alive.
    unsafe fn flush(&self, queue: Raw<Queue>) -> Result<()> {
        // SAFETY: the queue is alive, as the caller promises.
        self.check(unsafe { (self.api.flush)(queue.as_ptr()) }, "flush the queue")
    }

    /// # Safety
    /// UNS-21 and UNS-22, as [`Driver::copy`] has them.
    unsafe fn copy_one(&self, queue: Raw<Queue>, route: Route<'_>, region: &Region) -> Result<()> {
        let (from, to, len) = (region.from, region.to, region.len as usize);
        let queue = queue.as_ptr();
        let (wait, event) = (ptr::null(), ptr::null_mut());
        let code = if let Some(svm) = self.svm {
            let (to, from) = (address(to), address(from));
            // SAFETY: UNS-21 and UNS-22, which the caller keeps, for both sides; the call does not
            // wait.
            unsafe { (svm.copy)(queue, NON_BLOCKING, to, from, len, 0, wait, event) }
        } else {
            let (memory, at) = match route {
                Route::FromHost => (to.base.as_ptr(), to.offset as usize),
                _ => (from.base.as_ptr(), from.offset as usize),
            };
            match route {
                Route::FromHost => {
                    let host = address(from);
                    // SAFETY: UNS-21 and UNS-22, which the caller keeps; the call does not wait,
                    // and the host memory stays until the queue has passed the copy.
                    unsafe {
                        (self.api.write)(queue, memory, NON_BLOCKING, at, len, host, 0, wait, event)
                    }
                }
                Route::ToHost => {
                    let host = address(to);
                    // SAFETY: UNS-21 and UNS-22, which the caller keeps; the call does not wait,
                    // and the host memory stays until the queue has passed the copy.
                    unsafe {
                        (self.api.read)(queue, memory, NON_BLOCKING, at, len, host, 0, wait, event)
                    }
                }
                // Within a context, memory belongs to no device, so a peer's memory is copied like
                // the device's own.
                _ => {
                    let (other, to_at) = (to.base.as_ptr(), to.offset as usize);
                    // SAFETY: UNS-21 and UNS-22, which the caller keeps, for both handles.
                    unsafe { (self.api.copy)(queue, memory, other, at, to_at, len, 0, wait, event) }
                }
            }
        };
        self.check(code, "copy")
    }

    /// Locks the mappings of this memory for this thread (see [`mapping`]).
    ///
    /// # Safety
    /// The memory object of the handle is alive.
    unsafe fn mapping_turn(&self, memory: Raw<Memory>) -> MutexGuard<'static, ()> {
        if self.svm.is_some() {
            return mapping::turn(ptr::null_mut());
        }
        // SAFETY: the memory is alive, as the caller promises.
        let root = unsafe { self.api.root_of(memory.as_ptr()) };
        mapping::turn(root.map_or(memory.as_ptr(), |(root, _)| root))
    }

    /// # Safety
    /// UNS-22, as [`Driver::map`] has it, on the driver's own queue; waits for nothing else.
    unsafe fn map_for(&self, spot: Spot, len: u64, flags: u64) -> Result<NonNull<u8>> {
        // SAFETY: UNS-22, which the caller keeps: the memory is alive.
        let _turn = unsafe { self.mapping_turn(spot.base) };
        let (queue, len) = (self.maps.handle(), len as usize);
        let (wait, event) = (ptr::null(), ptr::null_mut());
        let mut code = 0;
        let mapped = if let Some(svm) = self.svm {
            let at = address(spot);
            // SAFETY: UNS-22, which the caller promises.
            code = unsafe { (svm.map)(queue, BLOCKING, flags, at, len, 0, wait, event) };
            at
        } else {
            let (memory, at) = (spot.base.as_ptr(), spot.offset as usize);
            // SAFETY: UNS-22, which the caller promises.
            unsafe {
                (self.api.map)(queue, memory, BLOCKING, flags, at, len, 0, wait, event, &mut code)
            }
        };
        self.check(code, "map")?;
        NonNull::new(mapped.cast()).ok_or_else(|| {
            Error::new(ErrorKind::Driver, "it was mapped at address 0").on_device(self.id)
        })
    }

    /// # Safety
    /// UNS-22, as [`Driver::unmap`] has it; the queue is alive.
    unsafe fn unmap_on(
        &self,
        queue: Handle,
        spot: Spot,
        address: NonNull<u8>,
        event: *mut Handle,
    ) -> Result<()> {
        let (at, wait) = (address.as_ptr().cast::<c_void>(), ptr::null());
        let code = match self.svm {
            // SAFETY: UNS-22, which the caller promises.
            Some(svm) => unsafe { (svm.unmap)(queue, at, 0, wait, event) },
            // SAFETY: UNS-22, which the caller promises.
            None => unsafe { (self.api.unmap)(queue, spot.base.as_ptr(), at, 0, wait, event) },
        };
        self.check(code, "unmap")
    }
}

/// Returns the address of a spot that is an address.
fn address(spot: Spot) -> *mut c_void {
    spot.base.as_ptr().cast::<u8>().wrapping_add(spot.offset as usize).cast()
}

impl fmt::Debug for OpenClDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenClDriver({}, context {:?})", self.id, self.context.handle())
    }
}

// SAFETY: memory is a buffer or an SVM block of its own, valid until it is released. An event is
// that of a barrier, which is complete when all commands before it are ("waits for all commands
// previously enqueued in command_queue to complete"), and a queue that waits gets a barrier behind
// the event; queues that are not in order get one around every list of copies, too. `clFinish`
// waits for everything. A blocking map returns when the memory is there. `sync_event` is the
// `cl_event` itself. `reaches` says yes for the devices of the context, which share its memory
// objects, as long as they have the same kind of memory.
unsafe impl Driver for OpenClDriver {
    fn id(&self) -> DeviceId {
        self.id
    }

    fn runtime(&self) -> Runtime {
        Runtime { name: "opencl", instance: self.context.handle().addr() }
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn reaches(&self, memory: DeviceId) -> Result<()> {
        // Memory of another kind would be mistaken for a handle, or for an address.
        let own = if self.svm.is_some() { Kind::Svm } else { Kind::Buffers };
        let is_peer = || self.reachable.contains(&memory) && kind_of(memory) == own;
        let reached = memory == self.id || is_peer();
        if reached { Ok(()) } else { Err(not_reachable(self.id, memory)) }
    }

    unsafe fn allocate(&self, len: u64, _queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        let context = self.context.handle();
        let size = usize::try_from(len).unwrap_or(usize::MAX);
        if let Some(svm) = self.svm {
            // SAFETY: the context is alive in its owner; an alignment of 0 is the device's largest.
            let memory = unsafe { (svm.allocate)(context, READ_WRITE, size, 0) };
            let refused = || {
                let message = format!("{len} bytes of shared virtual memory asked for");
                let error = Error::new(ErrorKind::OutOfMemory, message);
                error.during("allocate").on_device(self.id)
            };
            return if memory.is_null() { Err(refused()) } else { Ok(Raw::from_ptr(memory)) };
        }
        let flags = READ_WRITE | if self.is_unified { IN_HOST_MEMORY } else { 0 };
        let mut code = 0;
        // SAFETY: the context is alive in its owner; no host memory is given.
        let memory =
            unsafe { (self.api.create_buffer)(context, flags, size, ptr::null_mut(), &mut code) };
        self.check(code, "allocate").map(|()| Raw::from_ptr(memory))
    }

    unsafe fn free(&self, memory: Raw<Memory>, _len: u64) {
        match self.svm {
            // SAFETY: `allocate` gave it, and nothing uses it any more.
            Some(svm) => unsafe { (svm.free)(self.context.handle(), memory.as_ptr()) },
            // SAFETY: the reference is the one that `allocate` gave.
            None => _ = unsafe { (self.api.release_memory)(memory.as_ptr()) },
        }
    }

    unsafe fn part(&self, memory: Raw<Memory>, offset: u64, len: u64) -> Result<Raw<Memory>> {
        // A part of a part is made as a part of the root, because OpenCL has no parts of parts.
        // SAFETY: UNS-22, which the caller keeps: the memory is alive.
        let (root, begin) = unsafe { self.api.root_of(memory.as_ptr()) }?;
        let origin = begin.saturating_add(offset as usize);
        let region = BufferRegion { origin, size: len as usize };
        let mut code = 0;
        let what = (&raw const region).cast();
        // SAFETY: the root is alive as long as the memory that is a part of it; a region is what
        // this kind of part is made from, and lies inside, as the caller of `part` promises.
        let part = unsafe { (self.api.create_sub_buffer)(root, 0, REGION, what, &mut code) };
        self.check(code, "part")?;
        #[cfg(target_os = "linux")]
        crate::sharing::remember_part(root, part, origin as u64);
        Ok(Raw::from_ptr(part))
    }

    unsafe fn free_part(&self, part: Raw<Memory>) {
        // Before the handle is given back: another thread may get it at once.
        #[cfg(target_os = "linux")]
        crate::sharing::forget_part(part.as_ptr());
        // SAFETY: the reference is the one that `part` gave.
        let _ = unsafe { (self.api.release_memory)(part.as_ptr()) };
    }

    #[cfg(target_os = "linux")]
    fn sharing(&self) -> Option<&dyn Sharing> {
        self.shared().is_some().then_some(self)
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        // SAFETY: the context is alive in its owner, and the device is one of its.
        let queue = unsafe { OwnQueue::open(self.api, self.context.handle(), self.device) };
        queue
            .map(|queue| Raw::from_ptr(queue.into_handle()))
            .map_err(|error| error.on_device(self.id))
    }

    unsafe fn close_queue(&self, queue: Raw<Queue>) {
        // SAFETY: the reference is the one that `open_queue` gave. Work that was submitted still
        // finishes ("the command-queue is deleted" once "all commands queued to the command-queue
        // have finished").
        let _ = unsafe { (self.api.release_queue)(queue.as_ptr()) };
    }

    unsafe fn synchronize(&self, queue: Raw<Queue>) -> Result<()> {
        // `clFinish` tells only that all commands are over. The event behind all commands tells
        // whether they went well.
        // SAFETY: UNS-22, which the caller keeps.
        let event = unsafe { self.barrier(queue, &[], true) }?;
        // SAFETY: UNS-22, which the caller keeps.
        let finished = self.check(unsafe { (self.api.finish)(queue.as_ptr()) }, "finish the queue");
        // SAFETY: the event was just made.
        let passed = finished.and_then(|()| unsafe { self.api.await_event(event, None) });
        // SAFETY: the reference is the one that the barrier gave.
        let _ = unsafe { (self.api.release_event)(event) };
        passed.map(drop).map_err(|error| error.on_device(self.id))
    }

    unsafe fn is_idle(&self, queue: Raw<Queue>) -> Result<bool> {
        // OpenCL has no such question. A barrier on a queue without work passes as soon as the
        // driver gets to it.
        // SAFETY: UNS-22, which the caller keeps.
        let event = unsafe { self.barrier(queue, &[], true) }?;
        // SAFETY: UNS-22, which the caller keeps.
        let flushed = unsafe { self.flush(queue) };
        let answer = flushed.and_then(|()| {
            // SAFETY: the event was just made.
            ask_for_a_moment(|| unsafe { self.api.is_over(event) })
        });
        // SAFETY: the reference is the one that the barrier gave.
        let _ = unsafe { (self.api.release_event)(event) };
        answer
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        // In OpenCL, an event is made by recording it.
        Ok(Raw::NULL)
    }

    unsafe fn destroy_event(&self, event: Raw<Event>) {
        if !event.is_null() {
            // SAFETY: UNS-22, which the caller keeps: `record` or `unmap_filled` gave it, and both
            // call `hold_queue`.
            unsafe { self.api.release_own_event(event.as_ptr()) };
        }
    }

    unsafe fn record(&self, queue: Raw<Queue>, _event: Raw<Event>) -> Result<Raw<Event>> {
        // SAFETY: UNS-22, which the caller keeps.
        let event = unsafe { self.barrier(queue, &[], true) }?;
        // Others may wait for the event, which requires a flush ("the application must call a
        // clFlush").
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.flush(queue) }.inspect_err(|_| {
            // SAFETY: the reference is the one that the barrier gave.
            let _ = unsafe { (self.api.release_event)(event) };
        })?;
        // SAFETY: UNS-22, which the caller keeps: the queue is alive; the event was just made.
        unsafe { self.api.hold_queue(queue.as_ptr(), event) }.map(Raw::from_ptr)
    }

    unsafe fn wait(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Waiting> {
        let event = event.as_ptr();
        // SAFETY: UNS-22, which the caller keeps.
        let status = unsafe { self.api.pushed_status_of(event) }?;
        // SAFETY: UNS-22, which the caller keeps.
        if unsafe { self.api.context_of_event(event) }? != self.context.handle() {
            return Ok(Waiting::HostMustWait);
        }
        if status < 0 {
            return Err(crate::error::failed(status, "wait for an event").on_device(self.id));
        }
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.barrier(queue, &[event], false) }?;
        Ok(Waiting::Queued)
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.api.is_over(event.as_ptr()) }.map_err(|error| error.on_device(self.id))
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.api.await_event(event.as_ptr(), timeout) }
            .map_err(|error| error.on_device(self.id))
    }

    unsafe fn notify(&self, event: Raw<Event>, notice: EventNotice) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.api.announce(event.as_ptr(), notice) }
            .map_err(|error| error.on_device(self.id))
    }

    fn sync_event(&self, event: Raw<Event>) -> Result<SyncEvent> {
        Ok(SyncEvent::Handle(event.as_ptr()))
    }

    unsafe fn read_sync_event(&self, sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        // SAFETY: by the convention it points to a `cl_event`; nothing is known of how it is
        // aligned.
        let event = unsafe { sync_event.cast::<Handle>().read_unaligned() };
        if event.is_null() {
            let message =
                "sync_event points to a null cl_event; without an event it has to be null itself";
            let error = Error::new(ErrorKind::Malformed, message);
            return Err(error.during("read_sync_event").on_device(self.id));
        }
        Ok(Raw::from_ptr(event))
    }

    unsafe fn copy(&self, queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()> {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.fence(queue) }?;
        for region in regions {
            // SAFETY: UNS-21 and UNS-22, which the caller keeps.
            unsafe { self.copy_one(queue, route, region) }?;
        }
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.fence(queue) }?;
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.flush(queue) }
    }

    unsafe fn map(&self, spot: Spot, len: u64) -> Result<NonNull<u8>> {
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.map_for(spot, len, MAP_TO_READ) }
    }

    unsafe fn unmap(&self, spot: Spot, _len: u64, address: NonNull<u8>) {
        let mut event = ptr::null_mut();
        // Without the lock, an unmapping could end the mapping of another thread.
        // SAFETY: UNS-22, which the caller keeps: the memory is alive.
        let _turn = unsafe { self.mapping_turn(spot.base) };
        // SAFETY: UNS-22, which the caller keeps.
        if unsafe { self.unmap_on(self.maps.handle(), spot, address, &mut event) }.is_ok() {
            // The next user of the memory may write to it on any queue, so the mapping has to be
            // over before this returns.
            // SAFETY: the event was just made.
            let _ = unsafe { self.api.await_event(event, None) };
            // SAFETY: the reference is the one that the call above gave.
            let _ = unsafe { (self.api.release_event)(event) };
        }
    }

    unsafe fn map_to_fill(
        &self,
        _queue: Raw<Queue>,
        spot: Spot,
        len: u64,
    ) -> Result<Option<NonNull<u8>>> {
        if !self.is_unified {
            return Ok(None);
        }
        // Nothing was submitted for this memory, so no queue has to be waited for.
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.map_for(spot, len, MAP_TO_FILL) }.map(Some)
    }

    unsafe fn unmap_filled(
        &self,
        queue: Raw<Queue>,
        spot: Spot,
        _len: u64,
        address: NonNull<u8>,
    ) -> Result<Filled> {
        let mut event = ptr::null_mut();
        // SAFETY: UNS-22, which the caller keeps: the memory is alive.
        let turn = unsafe { self.mapping_turn(spot.base) };
        // Submitted to the queue itself, so that later work of that queue comes after the
        // unmapping.
        // SAFETY: UNS-22, which the caller keeps.
        unsafe { self.unmap_on(queue.as_ptr(), spot, address, &mut event) }?;
        drop(turn);
        // Others may wait for the event, which requires the flush.
        // SAFETY: UNS-22, which the caller keeps: the queue is alive.
        let ordered = unsafe { self.fence(queue) }
            // SAFETY: UNS-22, which the caller keeps: the queue is alive.
            .and_then(|()| unsafe { self.flush(queue) });
        ordered.inspect_err(|_| {
            // SAFETY: the reference is the one that the unmapping gave.
            let _ = unsafe { (self.api.release_event)(event) };
        })?;
        // SAFETY: UNS-22, which the caller keeps: the queue is alive; the event was just made.
        let held = unsafe { self.api.hold_queue(queue.as_ptr(), event) };
        held.map(|event| Filled::After(Raw::from_ptr(event)))
    }

    unsafe fn holds(&self, base: Raw<Memory>) -> Option<bool> {
        // With shared virtual memory, OpenCL has no such question.
        if self.svm.is_some() {
            return None;
        }
        // SAFETY: UNS-22, which the caller keeps.
        let found = unsafe { self.api.extent_of(base.as_ptr()) };
        Some(found.is_ok_and(|(context, _)| context == self.context.handle()))
    }

    unsafe fn locate(&self, base: Raw<Memory>) -> Result<Option<Allocation>> {
        if self.svm.is_some() {
            return Ok(None);
        }
        // SAFETY: UNS-22, which the caller keeps.
        let (context, size) = unsafe { self.api.extent_of(base.as_ptr()) }?;
        let device = if context == self.context.handle() {
            self.id
        } else {
            // SAFETY: the memory keeps its context.
            let devices = unsafe { self.api.devices_of(context) }?;
            let first = devices.first().copied().unwrap_or(ptr::null_mut());
            self.api.id_of(first)?
        };
        Ok(Some(Allocation { device, remaining: size as u64 }))
    }
}
