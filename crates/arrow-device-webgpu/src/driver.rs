//! The [`Driver`] of a WebGPU device: translates operations on raw handles to calls of `webgpu.h`.
//!
//! * A copy from the host is one write, or a list of pieces that are gathered in mapped buffers,
//!   with a submission for each buffer. A copy within the device, or to the host, is one
//!   submission.
//! * An event is a [`Point`], which the handle points to.
//! * All queues are the device's one queue, so a queue waits for no event of its own.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow_device::driver::{
    Addressing, Allocation, Driver, Properties, Raw, Readiness, Region, Route, Runtime, Spot,
    StagedGroup, SyncEvent, Waiting, staged_groups,
};
use arrow_device::{DeviceId, Error, ErrorKind, Event, Memory, Queue, Result};

use crate::api::{Api, CallbackInfo, Handle, MAP_READ, MAP_WRITE, usage};
use crate::handles::Owner;
use crate::logical::{Logical, lock};
use crate::marker::Point;
use crate::reads::{Mapping, Piece, Read, STAGED_AT_ONCE, Staging, mapped, staging_size};
use crate::uploads::{self, Gathered};

/// The device copies this many bytes, at multiples of this number.
const UNIT: u64 = 4;
/// The largest `minStorageBufferOffsetAlignment` of the specification.
const ALIGNMENT: usize = 256;

pub(crate) struct WebGpuDriver {
    logical: Arc<Logical>,
    properties: Properties,
    /// Kept as long as this opening is used, besides what the first opening keeps.
    _owner: Option<Owner>,
}

impl WebGpuDriver {
    pub(crate) fn new(logical: Arc<Logical>, owner: Option<Owner>) -> Self {
        let properties = Properties::new(logical.name.clone())
            .with_alignment(ALIGNMENT)
            .with_addressing(Addressing::Handle)
            .with_readiness(Readiness::QueueOrder)
            .with_copy_unit(UNIT)
            .with_distinct_copies(true);
        Self { logical, properties, _owner: owner }
    }

    fn shown_by_no_event(&self, operation: &'static str) -> Error {
        let message =
            "arrays on a WebGPU device have no event: they are ready in the order of its queue";
        self.logical.error(ErrorKind::Unsupported, message).during(operation)
    }

    /// # Safety
    /// UNS-21 and UNS-22, as [`Driver::copy`] has them.
    unsafe fn write(&self, regions: &[Region]) -> Result<()> {
        let logical = &self.logical;
        let queue = logical.queue;
        let (bytes, caught) = logical.scoped(|api| {
            let mut bytes = 0;
            for region in regions {
                let from = region.from.base.as_ptr().cast::<u8>();
                let from = from.wrapping_add(region.from.offset as usize).cast_const();
                let (to, at) = (region.to.base.as_ptr(), region.to.offset);
                let whole = region.len - region.len % UNIT;
                if whole > 0 {
                    // SAFETY: UNS-21 and UNS-22, which the caller keeps: the buffer is alive, and
                    // the source has this many bytes, which the call takes.
                    unsafe { (api.write_buffer)(queue, to, at, from.cast(), whole as usize) };
                }
                if whole < region.len {
                    let mut unit = [0_u8; UNIT as usize];
                    let rest = (region.len - whole) as usize;
                    let last = from.wrapping_add(whole as usize);
                    // SAFETY: UNS-21, which the caller keeps: the source has `len` bytes, and these
                    // are the last of them; the unit has room for less than a unit.
                    unsafe { last.copy_to_nonoverlapping(unit.as_mut_ptr(), rest) };
                    let unit = unit.as_ptr().cast();
                    // SAFETY: UNS-22, which the caller keeps: the buffer is alive. The call takes
                    // the bytes.
                    unsafe { (api.write_buffer)(queue, to, at + whole, unit, UNIT as usize) };
                }
                bytes += region.len;
            }
            bytes
        });
        // Those that were accepted are in the queue also where one was refused.
        logical.note_writes(bytes)?;
        match caught {
            Some(caught) => Err(logical.refused(&caught, "copy")),
            None => Ok(()),
        }
    }

    /// The most that passes through one staging buffer.
    fn staged_at_once(&self) -> u64 {
        STAGED_AT_ONCE.min(self.logical.limits.max_buffer & !(UNIT - 1)).max(UNIT)
    }

    /// Whether the regions are one that is not longer than a staging buffer.
    fn is_one_write(&self, regions: &[Region]) -> bool {
        matches!(regions, [region] if region.len <= self.staged_at_once())
    }

    /// Each staging buffer is submitted before the next one is filled: the device copies meanwhile,
    /// and buffers that the queue has passed are filled again.
    ///
    /// # Safety
    /// UNS-21 and UNS-22, as [`Driver::copy`] has them.
    unsafe fn gather(&self, regions: &[Region]) -> Result<()> {
        let logical = &self.logical;
        let chunks = chunks_of(regions, |region| (region.to, region.from), self.staged_at_once());
        for (number, chunk) in chunks.iter().enumerate() {
            if number > 0 {
                // Buffers become mapped again in polls.
                logical.poll();
            }
            // SAFETY: UNS-21, which the caller keeps.
            let staging = unsafe { self.gathered(chunk) }?;
            let submitted = logical.submit("copy", |api, encoder| {
                for copy in &chunk.copies {
                    let (from, len) = (staging.buffer, copy.len.next_multiple_of(UNIT));
                    // SAFETY: UNS-21 and UNS-22, which the caller keeps: the encoder was just made,
                    // the target is alive, and nobody else has the staging buffer.
                    unsafe {
                        (api.encode_copy)(encoder, from, copy.staged, copy.device, copy.at, len)
                    };
                }
            });
            self.map_again(staging);
            submitted?;
        }
        Ok(())
    }

    /// A staging buffer with the bytes of a chunk, which is not mapped any more.
    ///
    /// # Safety
    /// UNS-21 for the host's side of each copy.
    unsafe fn gathered(&self, chunk: &Chunk) -> Result<Staging> {
        let logical = &self.logical;
        let size = staging_size(chunk.used, logical.limits.max_buffer);
        let spare = lock(&logical.uploads).take(size);
        let staging = match spare {
            Some(staging) => staging,
            None => {
                let buffer = logical.create_mapped(size, usage::MAP_WRITE | usage::COPY_SRC)?;
                Staging { buffer, size }
            }
        };
        let piece = |copy: &ChunkCopy| Gathered {
            from: copy.host.as_ptr().cast_const(),
            at: copy.staged,
            len: copy.len,
        };
        let pieces = chunk.copies.iter().map(piece);
        let is_filled = {
            let _calling = logical.calling();
            // SAFETY: the buffer was made mapped, or its callback said that it is mapped again, and
            // nobody else has it; a chunk uses at most as many bytes as its buffer has, in whole
            // units; the caller keeps UNS-21.
            unsafe { uploads::fill(&logical.api, staging.buffer, chunk.used, UNIT, pieces) }
        };
        if is_filled {
            let buffer = staging.buffer;
            // A device that is lost refuses this, and without a scope the runtime may end the
            // process.
            // SAFETY: the buffer is alive and mapped, and nobody else has it.
            let ((), caught) = logical.scoped(|api| unsafe { (api.unmap)(buffer) });
            let Some(caught) = caught else { return Ok(staging) };
            logical.release_buffer(buffer);
            return Err(logical.refused(&caught, "copy"));
        }
        logical.release_buffer(staging.buffer);
        logical.check_lost()?;
        let message = "WebGPU shows no bytes of a buffer that is mapped";
        Err(logical.error(ErrorKind::Driver, message).during("copy"))
    }

    /// Asks for a staging buffer to be mapped once the queue has passed its copies, and keeps it.
    fn map_again(&self, staging: Staging) {
        let logical = &self.logical;
        let (buffer, size) = (staging.buffer, staging.size as usize);
        let mapping = Mapping::new();
        let share = mapping.for_callback();
        // A refusal is told to the callback, too.
        let _ = logical.scoped(|api| {
            let info = CallbackInfo::new(mapped as _, share);
            // SAFETY: the buffer is alive: this has its reference, and nobody else knows it.
            unsafe { (api.map_async)(buffer, MAP_WRITE, 0, size, info) };
        });
        let _calling = logical.calling();
        lock(&logical.uploads).keep(&logical.api, staging, mapping);
    }

    /// # Safety
    /// UNS-21 and UNS-22, as [`Driver::copy`] has them.
    unsafe fn copy_within(&self, regions: &[Region]) -> Result<()> {
        self.logical.submit("copy", |api, encoder| {
            for region in regions {
                let (from, to) = (region.from, region.to);
                let len = region.len.next_multiple_of(UNIT);
                let (source, target) = (from.base.as_ptr(), to.base.as_ptr());
                // SAFETY: UNS-21 and UNS-22, which the caller keeps: the encoder was just made, and
                // the buffers are alive.
                unsafe { (api.encode_copy)(encoder, source, from.offset, target, to.offset, len) };
            }
        })
    }

    /// # Safety
    /// UNS-21 and UNS-22, as [`Driver::copy`] has them.
    unsafe fn read(&self, regions: &[Region]) -> Result<()> {
        let logical = &self.logical;
        let limit = self.staged_at_once();
        let mut chunks = chunks_of(regions, |region| (region.from, region.to), limit);
        let mut staged = Vec::with_capacity(chunks.len());
        for chunk in &chunks {
            match self.staging(chunk.used) {
                Ok(staging) => staged.push(staging),
                Err(error) => {
                    self.keep(staged);
                    return Err(error);
                }
            }
        }
        let encode = |api: &Api, encoder: Handle| {
            for (chunk, staging) in chunks.iter().zip(&staged) {
                for copy in &chunk.copies {
                    let len = copy.len.next_multiple_of(UNIT);
                    // SAFETY: UNS-21 and UNS-22, which the caller keeps: the encoder was just made,
                    // the source is alive, and nobody else has the staging buffer.
                    unsafe {
                        (api.encode_copy)(
                            encoder,
                            copy.device,
                            copy.at,
                            staging.buffer,
                            copy.staged,
                            len,
                        )
                    };
                }
            }
        };
        if let Err(error) = logical.submit("copy", encode) {
            self.keep(staged);
            return Err(error);
        }
        let order = logical.next_order();
        for (chunk, staging) in chunks.drain(..).zip(staged) {
            let (buffer, used) = (staging.buffer, chunk.used);
            let mapping = Mapping::new();
            let share = mapping.for_callback();
            // Before the read is known to others: whoever finds the device lost releases the
            // buffers of all known reads. A refusal is told to the callback, too, which then says
            // that the work failed.
            let _ = logical.scoped(|api| {
                let info = CallbackInfo::new(mapped as _, share);
                // SAFETY: the staging buffer is alive: this has its reference, and nobody else
                // knows the buffer before `begin`.
                unsafe { (api.map_async)(buffer, MAP_READ, 0, used as usize, info) };
            });
            let _calling = logical.calling();
            let mut reads = lock(&logical.reads);
            let number = logical.begun_reads.fetch_add(1, Ordering::AcqRel);
            let pieces = chunk.copies.iter().map(|copy| copy.piece()).collect();
            reads.begin(Read { number, order, staging, used, pieces, mapping });
        }
        Ok(())
    }

    /// A staging buffer with room for this many bytes.
    fn staging(&self, len: u64) -> Result<Staging> {
        let logical = &self.logical;
        let size = staging_size(len, logical.limits.max_buffer);
        let spare = lock(&logical.reads).take(size);
        match spare {
            Some(staging) => Ok(staging),
            None => {
                let buffer = logical.create_buffer(size, usage::MAP_READ | usage::COPY_DST)?;
                Ok(Staging { buffer, size })
            }
        }
    }

    /// Keeps staging buffers that nothing uses.
    fn keep(&self, staged: Vec<Staging>) {
        let _calling = self.logical.calling();
        let mut reads = lock(&self.logical.reads);
        for staging in staged {
            reads.keep(&self.logical.api, staging);
        }
    }

    /// # Safety
    /// `event` is one that `record` gave and that was not destroyed.
    unsafe fn point(&self, event: Raw<Event>) -> &Point {
        // SAFETY: `record` gave the address of a point, which is alive until `destroy_event`.
        unsafe { &*event.as_ptr().cast::<Point>() }
    }
}

/// What passes through one staging buffer.
struct Chunk {
    used: u64,
    copies: Vec<ChunkCopy>,
}

struct ChunkCopy {
    /// The buffer on the device, and the place in it.
    device: Handle,
    at: u64,
    staged: u64,
    host: NonNull<u8>,
    len: u64,
}

impl ChunkCopy {
    fn piece(&self) -> Piece {
        Piece { host: self.host, at: self.staged, len: self.len }
    }
}

/// Divides regions among staging buffers of at most `limit` bytes, a multiple of the unit. `sides`
/// tells the device's side of a region and the host's.
fn chunks_of(
    regions: &[Region],
    sides: impl Fn(&Region) -> (Spot, Spot),
    limit: u64,
) -> Vec<Chunk> {
    let copy = |(region, staged): (Region, u64)| {
        let (device, host) = sides(&region);
        let host = host.base.as_ptr().cast::<u8>().wrapping_add(host.offset as usize);
        let (device, at) = (device.base.as_ptr(), device.offset);
        Some(ChunkCopy { device, at, staged, host: NonNull::new(host)?, len: region.len })
    };
    let chunk = |group: StagedGroup| Chunk {
        used: group.len,
        copies: group.regions.into_iter().filter_map(copy).collect(),
    };
    staged_groups(regions, limit, UNIT).into_iter().map(chunk).collect()
}

impl fmt::Debug for WebGpuDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebGpuDriver({:?})", self.logical)
    }
}

// SAFETY: memory is a buffer of its own, of whole units, valid until its reference is released.
// The device has one queue, which is in order ("queue operations … are executed in order"), so all
// queues are that one. A point has passed when the callback behind all submitted work has come and
// no read in front of it is under way; `synchronize` waits for such a point. `copy` only submits.
// The flag of the device's loss is looked at by every operation and in every turn of a wait. Work
// that a callback reports as failed reaches every point behind it. Locks are taken in one order,
// and none while callbacks of the application may run, but the application's own (`logical`).
unsafe impl Driver for WebGpuDriver {
    fn id(&self) -> DeviceId {
        self.logical.id
    }

    fn runtime(&self) -> Runtime {
        Runtime { name: "webgpu", instance: self.logical.number }
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    unsafe fn allocate(&self, len: u64, _queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        let logical = &self.logical;
        logical.check_lost()?;
        let size =
            len.checked_next_multiple_of(UNIT).filter(|size| *size <= logical.limits.max_buffer);
        let size = size.ok_or_else(|| {
            let most = logical.limits.max_buffer;
            let message =
                format!("{len} bytes asked for, and a buffer of the device has {most} at most");
            Error::new(ErrorKind::OutOfMemory, message).during("allocate").on_device(logical.id)
        })?;
        let usage = usage::STORAGE | usage::COPY_SRC | usage::COPY_DST;
        let buffer = logical.create_buffer(size, usage)?;
        logical.note_allocated(buffer);
        Ok(Raw::from_ptr(buffer))
    }

    unsafe fn free(&self, memory: Raw<Memory>, _len: u64) {
        self.logical.note_freed(memory.as_ptr());
        self.logical.release_buffer(memory.as_ptr());
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        self.logical.check_lost()?;
        Ok(Raw::from_ptr(self.logical.queue))
    }

    unsafe fn close_queue(&self, _queue: Raw<Queue>) {
        // The queue is the device's, and is open as long as the device.
    }

    unsafe fn synchronize(&self, _queue: Raw<Queue>) -> Result<()> {
        self.logical.check_lost()?;
        self.logical.wait(&self.logical.point(), None).map(drop)
    }

    unsafe fn is_idle(&self, _queue: Raw<Queue>) -> Result<bool> {
        self.logical.is_idle()
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        // An event is made by recording it.
        Ok(Raw::NULL)
    }

    unsafe fn destroy_event(&self, event: Raw<Event>) {
        if !event.is_null() {
            // SAFETY: UNS-22, which the caller keeps: `record` gave the address of a box, and
            // nobody uses it any more.
            drop(unsafe { Box::from_raw(event.as_ptr().cast::<Point>()) });
        }
    }

    unsafe fn record(&self, _queue: Raw<Queue>, _event: Raw<Event>) -> Result<Raw<Event>> {
        self.logical.check_lost()?;
        let point = Box::new(self.logical.point());
        Ok(Raw::from_ptr(Box::into_raw(point).cast()))
    }

    unsafe fn wait(&self, _queue: Raw<Queue>, _event: Raw<Event>) -> Result<Waiting> {
        // The event is one of the same device, whose one queue is in order.
        self.logical.check_lost()?;
        Ok(Waiting::Queued)
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        let point = unsafe { self.point(event) };
        point.logical.has_passed(point)
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        let point = unsafe { self.point(event) };
        point.logical.wait(point, timeout)
    }

    fn sync_event(&self, _event: Raw<Event>) -> Result<SyncEvent> {
        Err(self.shown_by_no_event("sync_event"))
    }

    unsafe fn read_sync_event(&self, _sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        Err(self.shown_by_no_event("read_sync_event"))
    }

    unsafe fn copy(&self, _queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()> {
        self.logical.check_lost()?;
        if regions.iter().all(|region| region.len == 0) {
            return Ok(());
        }
        match route {
            // SAFETY: UNS-21 and UNS-22, which the caller keeps.
            Route::FromHost if self.is_one_write(regions) => unsafe { self.write(regions) },
            // SAFETY: UNS-21 and UNS-22, which the caller keeps.
            Route::FromHost => unsafe { self.gather(regions) },
            // SAFETY: UNS-21 and UNS-22, which the caller keeps.
            Route::ToHost => unsafe { self.read(regions) },
            // Another driver of this runtime is of the same `WGPUDevice`.
            // SAFETY: UNS-21 and UNS-22, which the caller keeps.
            _ => unsafe { self.copy_within(regions) },
        }
    }

    unsafe fn locate(&self, base: Raw<Memory>) -> Result<Option<Allocation>> {
        let _calling = self.logical.calling();
        // SAFETY: the buffer is alive, as the caller promises.
        let remaining = unsafe { (self.logical.api.buffer_size)(base.as_ptr()) };
        // The handle of a device is its id, so the claim names the device that made the buffer.
        Ok(Some(Allocation { device: self.logical.id, remaining }))
    }

    unsafe fn holds(&self, base: Raw<Memory>) -> Option<bool> {
        // Of the buffers of others, WebGPU tells nothing.
        self.logical.has_allocated(base.as_ptr()).then_some(true)
    }
}
