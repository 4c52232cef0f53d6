//! The [`Driver`] of the device of a page: hands operations to the page by numbers.
//!
//! * Memory is the number of a `GPUBuffer` in the page's table. Each buffer is an allocation.
//! * All queues are the device's one `GPUQueue`, which is in order.
//! * An event is a mark: the page numbers the places in the work that it is asked about, and says
//!   of each, later and in order, that everything in front of it is done.
//! * Nothing waits. The page is told of the end of work in turns of its own loop, so whoever asks
//!   within one turn gets one answer.
//!
//! WebGPU tells of refused work by error scopes and not by the end of the work. The page has a
//! scope around each call of the module that submits, and rejects the promise of that call, so that
//! nobody gets an array whose bytes did not arrive.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arrow_device::driver::{
    Addressing, Allocation, Driver, Properties, Raw, Readiness, Region, Route, Runtime, SyncEvent,
    Waiting, may_not_wait,
};
use arrow_device::{DeviceId, DeviceType, Error, ErrorKind, Event, Memory, Queue, Result};

use crate::page;

/// The device copies this many bytes, at multiples of this number.
const UNIT: u64 = 4;
/// The largest `minStorageBufferOffsetAlignment` of the specification.
const ALIGNMENT: usize = 256;

/// The direction of a list of copies, as the page is told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Way {
    /// From this module's memory to the device, taken in the call.
    Up = 0,
    /// From the device to this module's memory.
    Down = 1,
    /// From one buffer of the device to another.
    Within = 2,
}

/// A copy as the page reads it. Where a side is this module's memory, its place is an address.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct PageRegion {
    pub(crate) from: u64,
    pub(crate) from_offset: u64,
    pub(crate) to: u64,
    pub(crate) to_offset: u64,
    pub(crate) len: u64,
}

/// What the page has told of a device.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The last mark that the page has reached.
    passed: AtomicU64,
    is_lost: AtomicBool,
}

impl Progress {
    /// The page has reached a mark.
    pub(crate) fn pass(&self, mark: u64) {
        self.passed.fetch_max(mark, Ordering::AcqRel);
    }

    /// The device is lost.
    pub(crate) fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
    }
}

/// A device of the page.
#[derive(Debug)]
pub(crate) struct PageDriver {
    /// The number of the device in the page's table, and its id.
    number: u32,
    /// The most bytes of a buffer.
    max_buffer: u64,
    properties: Properties,
    progress: Arc<Progress>,
}

impl PageDriver {
    pub(crate) fn new(number: u32, name: String, max_buffer: u64) -> Self {
        let properties = Properties::new(name)
            .with_alignment(ALIGNMENT)
            .with_addressing(Addressing::Handle)
            .with_readiness(Readiness::QueueOrder)
            .with_copy_unit(UNIT)
            .with_distinct_copies(true);
        Self { number, max_buffer, properties, progress: Arc::default() }
    }

    pub(crate) fn progress(&self) -> Arc<Progress> {
        self.progress.clone()
    }

    fn error(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        Error::new(kind, message.into()).on_device(self.id())
    }

    fn check_lost(&self) -> Result<()> {
        if self.progress.is_lost.load(Ordering::Acquire) {
            return Err(self.error(ErrorKind::DeviceLost, "the page's GPUDevice is lost"));
        }
        Ok(())
    }

    /// Makes a mark behind all that was submitted.
    fn mark(&self) -> u64 {
        page::mark(self.number) as u64
    }

    fn has_passed(&self, mark: u64) -> Result<bool> {
        self.check_lost()?;
        Ok(self.progress.passed.load(Ordering::Acquire) >= mark)
    }

    fn shown_by_no_event(&self, operation: &'static str) -> Error {
        let message =
            "arrays on a GPUDevice have no event: they are ready in the order of its queue";
        self.error(ErrorKind::Unsupported, message).during(operation)
    }
}

/// The number of a buffer, 0 where the handle is none of the page's.
fn buffer_of(memory: Raw<Memory>) -> u32 {
    u32::try_from(memory.bits()).unwrap_or(0)
}

/// The mark that an event stands for.
///
/// # Safety
/// `event` is one that `record` gave and that was not destroyed.
unsafe fn mark_of(event: Raw<Event>) -> u64 {
    // SAFETY: `record` gave the address of a number in a box, which lives until `destroy_event`.
    unsafe { *event.as_ptr().cast::<u64>() }
}

// SAFETY: memory is a `GPUBuffer` of its own, of whole units, which the page keeps until `free`
// (DRV-9 to DRV-11). "Queue operations are executed in order", and all queues are the one queue
// (DRV-4). The page reaches a mark when the promise of `onSubmittedWorkDone`, made behind all that
// was submitted, has been kept, and the bytes of all reads in front of the mark have come down
// (DRV-17 to DRV-19). The page counts submissions to the queue, also those of the application, so
// that it knows whether there are any behind the last mark. Nothing waits (DRV-5). The flag of the
// loss is looked at by each operation, and the page writes no bytes into memory after it has set
// the flag (DRV-21, DRV-28). What is refused later is told by the promise of the call that
// submitted it, as the head of this file says, and no array of that call is given out (DRV-27).
// Functions of the page do not unwind (DRV-2). Buffers and marks are numbers (DRV-1).
unsafe impl Driver for PageDriver {
    fn id(&self) -> DeviceId {
        DeviceId::new(DeviceType::WEBGPU, self.number.into())
    }

    fn runtime(&self) -> Runtime {
        Runtime { name: "webgpu in a page", instance: self.number as usize }
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    unsafe fn allocate(&self, len: u64, _queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        self.check_lost()?;
        let size = len.checked_next_multiple_of(UNIT).filter(|size| *size <= self.max_buffer);
        let size = size.ok_or_else(|| {
            let most = self.max_buffer;
            let message =
                format!("{len} bytes asked for, and a buffer of the device has {most} at most");
            self.error(ErrorKind::OutOfMemory, message).during("allocate")
        })?;
        match page::create(self.number, size as f64) {
            0 => {
                let message = format!("the page gave no buffer of {size} bytes");
                Err(self.error(ErrorKind::OutOfMemory, message).during("allocate"))
            }
            buffer => Ok(Raw::from_bits(buffer as usize)),
        }
    }

    unsafe fn free(&self, memory: Raw<Memory>, _len: u64) {
        page::destroy(buffer_of(memory));
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        self.check_lost()?;
        Ok(Raw::from_bits(self.number as usize))
    }

    unsafe fn close_queue(&self, _queue: Raw<Queue>) {
        // The queue is the device's, and is open as long as the device.
    }

    unsafe fn synchronize(&self, _queue: Raw<Queue>) -> Result<()> {
        // SAFETY: UNS-22: the handle is not looked at.
        match unsafe { self.is_idle(Raw::NULL) }? {
            true => Ok(()),
            false => Err(may_not_wait(self.id()).during("synchronize")),
        }
    }

    unsafe fn is_idle(&self, _queue: Raw<Queue>) -> Result<bool> {
        self.has_passed(page::latest(self.number) as u64)
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        // An event is made by recording it.
        Ok(Raw::NULL)
    }

    unsafe fn destroy_event(&self, event: Raw<Event>) {
        if !event.is_null() {
            // SAFETY: UNS-22, which the caller keeps: `record` gave the address of a box, and
            // nobody uses it any more.
            drop(unsafe { Box::from_raw(event.as_ptr().cast::<u64>()) });
        }
    }

    unsafe fn record(&self, _queue: Raw<Queue>, _event: Raw<Event>) -> Result<Raw<Event>> {
        self.check_lost()?;
        Ok(Raw::from_ptr(Box::into_raw(Box::new(self.mark())).cast()))
    }

    unsafe fn wait(&self, _queue: Raw<Queue>, _event: Raw<Event>) -> Result<Waiting> {
        // The event is one of the same device, whose one queue is in order.
        self.check_lost()?;
        Ok(Waiting::Queued)
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        self.has_passed(unsafe { mark_of(event) })
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, _timeout: Option<Duration>) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        match self.has_passed(unsafe { mark_of(event) })? {
            true => Ok(true),
            false => Err(may_not_wait(self.id()).during("wait_on_host")),
        }
    }

    fn sync_event(&self, _event: Raw<Event>) -> Result<SyncEvent> {
        Err(self.shown_by_no_event("sync_event"))
    }

    unsafe fn read_sync_event(&self, _sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        Err(self.shown_by_no_event("read_sync_event"))
    }

    unsafe fn copy(&self, _queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()> {
        self.check_lost()?;
        let way = match route {
            Route::FromHost => Way::Up,
            Route::ToHost => Way::Down,
            // Another driver of this runtime is of the same `GPUDevice`.
            _ => Way::Within,
        };
        let some = regions.iter().filter(|region| region.len > 0);
        let regions: Vec<PageRegion> = some
            .map(|region| PageRegion {
                from: region.from.base.bits() as u64,
                from_offset: region.from.offset,
                to: region.to.base.bits() as u64,
                to_offset: region.to.offset,
                len: region.len,
            })
            .collect();
        if !regions.is_empty() {
            // SAFETY: UNS-21 and UNS-22, which the caller keeps, hold for the regions.
            unsafe { page::copy(self.number, way, regions.as_ptr(), regions.len()) };
        }
        Ok(())
    }

    unsafe fn locate(&self, base: Raw<Memory>) -> Result<Option<Allocation>> {
        let size = page::size(buffer_of(base));
        if size < 0.0 {
            let message = format!("the page has no buffer of the number {}", base.bits());
            return Err(self.error(ErrorKind::InvalidArgument, message).during("locate"));
        }
        // The table of the page does not say whose buffer it is: the claim names the device.
        Ok(Some(Allocation { device: self.id(), remaining: size as u64 }))
    }
}
