//! The [`Driver`] of a device of wgpu: translates operations on handles to calls of wgpu.
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
use std::time::Duration;

use arrow_device::driver::{
    Addressing, Allocation, Driver, Properties, Raw, Readiness, Region, Route, Runtime, SyncEvent,
    Waiting,
};
use arrow_device::{DeviceId, Error, ErrorKind, Event, Memory, Queue, Result};
use wgpu::BufferUsages;

use crate::logical::{Logical, Point, lock};
use crate::reads::{Load, Mapping, Read, loads_of, staging_size};
use crate::table::Entry;

/// The device copies this many bytes, at multiples of this number.
pub(crate) const UNIT: u64 = wgpu::COPY_BUFFER_ALIGNMENT;
/// Copies to and from the host pass through buffers of at most this many bytes.
const STAGED_AT_ONCE: u64 = 16 << 20;
/// What memory that is allocated here can be used for.
const USAGES: BufferUsages =
    BufferUsages::STORAGE.union(BufferUsages::COPY_SRC).union(BufferUsages::COPY_DST);

pub(crate) struct WgpuDriver {
    logical: Arc<Logical>,
    properties: Properties,
}

impl WgpuDriver {
    pub(crate) fn new(logical: Arc<Logical>) -> Self {
        let properties = Properties::new(logical.name.clone())
            .with_alignment(logical.limits.offset_alignment as usize)
            .with_addressing(Addressing::Handle)
            .with_parts(true)
            .with_readiness(Readiness::QueueOrder)
            .with_copy_unit(UNIT);
        Self { logical, properties }
    }

    /// The part of a buffer that a handle stands for.
    fn entry(&self, handle: Raw<Memory>, operation: &'static str) -> Result<Entry> {
        self.logical.held.table.find(handle).ok_or_else(|| {
            let message = "the handle names no buffer of this device that is there";
            self.logical.error(ErrorKind::InvalidArgument, message).during(operation)
        })
    }

    /// The most that passes through one staging buffer.
    fn staged_at_once(&self) -> u64 {
        STAGED_AT_ONCE.min(self.logical.limits.max_buffer & !(UNIT - 1)).max(UNIT)
    }

    /// # Safety
    /// UNS-21 and UNS-22, as [`Driver::copy`] has them.
    unsafe fn write(&self, regions: &[Region]) -> Result<()> {
        if let [region] = regions
            && region.len.is_multiple_of(UNIT)
            && region.len <= self.staged_at_once()
        {
            let entry = self.entry(region.to.base, "copy")?;
            let start = region.from.base.as_ptr().cast::<u8>();
            let start = start.wrapping_add(region.from.offset as usize);
            // SAFETY: UNS-21, which the caller keeps: the source has this many bytes, holds them
            // when the copy is submitted, and is not written to until the queue has passed it.
            let bytes = unsafe { std::slice::from_raw_parts(start, region.len as usize) };
            let at = entry.offset + region.to.offset;
            let queue = &self.logical.held.queue;
            let ((), caught) = self.logical.scoped(|| queue.write_buffer(&entry.buffer, at, bytes));
            self.logical.note_write();
            return match caught {
                Some(caught) => Err(self.logical.refused(&caught, "copy")),
                None => Ok(()),
            };
        }
        let loads = loads_of(regions, |region| (region.to, region.from), self.staged_at_once());
        // Each staging buffer is submitted before the next one is filled: the device copies
        // meanwhile, and buffers that the queue has passed serve again.
        for (number, load) in loads.iter().enumerate() {
            if number > 0 {
                // Buffers become mapped again in polls.
                self.logical.poll();
            }
            let copies = self.copies(load)?;
            // SAFETY: UNS-21, which the caller keeps.
            let staging = unsafe { self.gathered(load) }?;
            let submitted = self.logical.submit("copy", |encoder| {
                for StagedCopy { staged, buffer, at, len } in &copies {
                    encoder.copy_buffer_to_buffer(&staging, *staged, buffer, *at, *len);
                }
            });
            let is_refused = self.map_again(staging);
            submitted?;
            if is_refused {
                // wgpu refuses no submission of a lost device.
                self.logical.check()?;
            }
        }
        Ok(())
    }

    /// A buffer with the bytes of a load, one piece behind the other. The buffer is not mapped any
    /// more.
    ///
    /// # Safety
    /// UNS-21 for the host's side of each piece.
    unsafe fn gathered(&self, load: &Load) -> Result<wgpu::Buffer> {
        let size = staging_size(load.used, self.logical.limits.max_buffer);
        let spare = lock(&self.logical.held.uploads).take(size);
        let usage = BufferUsages::MAP_WRITE | BufferUsages::COPY_SRC;
        let make = || self.logical.create_buffer(size, usage, true);
        let buffer = spare.map_or_else(make, Ok)?;
        let Ok(mut view) = buffer.get_mapped_range_mut(..load.used) else {
            self.logical.check()?;
            let message = "wgpu shows no bytes of a buffer that is mapped";
            return Err(self.logical.error(ErrorKind::Driver, message).during("copy"));
        };
        for piece in &load.pieces {
            let (start, len) = (piece.staged as usize, piece.len as usize);
            // SAFETY: UNS-21, which the caller keeps: the source has this many bytes, holds them
            // when the copy is submitted, and is not written to until the queue has passed it.
            let bytes = unsafe { std::slice::from_raw_parts(piece.host.as_ptr(), len) };
            let end = start + len;
            view.slice(start..end).copy_from_slice(bytes);
            view.slice(end..end.next_multiple_of(UNIT as usize)).fill(0);
        }
        drop(view);
        let ((), caught) = self.logical.scoped(|| buffer.unmap());
        match caught {
            Some(caught) => Err(self.logical.refused(&caught, "copy")),
            None => Ok(buffer),
        }
    }

    /// Asks for a staging buffer to be mapped once the queue has passed its copies, and keeps it.
    /// Returns whether wgpu has refused already.
    fn map_again(&self, staging: wgpu::Buffer) -> bool {
        let mapping = Mapping::default();
        let told = mapping.clone();
        // A refusal is told to the callback, too.
        let _ = self.logical.scoped(|| {
            let done = move |result: std::result::Result<(), _>| told.tell(result.is_ok());
            staging.map_async(wgpu::MapMode::Write, .., done);
        });
        let is_refused = mapping.has_failed();
        let gone = lock(&self.logical.held.uploads).keep(staging, mapping);
        // Without the lock.
        drop(gone);
        is_refused
    }

    /// The copies between a staging buffer and the device. Pieces that lie behind one another on
    /// both sides, as the columns of a batch often do, are one copy.
    fn copies(&self, load: &Load) -> Result<Vec<StagedCopy>> {
        let mut copies: Vec<StagedCopy> = Vec::new();
        let mut known: Option<(Raw<Memory>, Entry)> = None;
        for piece in &load.pieces {
            let entry = match known.take() {
                Some((base, entry)) if base == piece.base => entry,
                _ => self.entry(piece.base, "copy")?,
            };
            let (at, len) = (entry.offset + piece.offset, piece.len.next_multiple_of(UNIT));
            match copies.last_mut() {
                Some(last)
                    if last.buffer == entry.buffer
                        && last.at + last.len == at
                        && last.staged + last.len == piece.staged =>
                {
                    last.len += len;
                }
                _ => {
                    let (staged, buffer) = (piece.staged, entry.buffer.clone());
                    copies.push(StagedCopy { staged, buffer, at, len });
                }
            }
            known = Some((piece.base, entry));
        }
        Ok(copies)
    }

    /// Copies within one buffer, which wgpu does not have, go by a fresh buffer.
    fn copy_within(&self, regions: &[Region]) -> Result<()> {
        let entries = |region: &Region| {
            let from = self.entry(region.from.base, "copy")?;
            Ok((from, self.entry(region.to.base, "copy")?))
        };
        let entries: Vec<(Entry, Entry)> = regions.iter().map(entries).collect::<Result<_>>()?;
        let mut fresh = Vec::new();
        for (region, (from, to)) in regions.iter().zip(&entries) {
            let is_inside = from.buffer == to.buffer;
            let usage = BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
            let size = region.len.next_multiple_of(UNIT);
            let make = || self.logical.create_buffer(size, usage, false);
            fresh.push(if is_inside { Some(make()?) } else { None });
        }
        self.logical.submit("copy", |encoder| {
            for ((region, (from, to)), fresh) in regions.iter().zip(&entries).zip(&fresh) {
                let (at, len) = (from.offset + region.from.offset, region.len);
                let len = len.next_multiple_of(UNIT);
                let target = to.offset + region.to.offset;
                if let Some(fresh) = fresh {
                    encoder.copy_buffer_to_buffer(&from.buffer, at, fresh, 0, len);
                    encoder.copy_buffer_to_buffer(fresh, 0, &to.buffer, target, len);
                } else {
                    encoder.copy_buffer_to_buffer(&from.buffer, at, &to.buffer, target, len);
                }
            }
        })
    }

    /// The caller keeps the host memory until the queue has passed the copy (UNS-21).
    fn read(&self, regions: &[Region]) -> Result<()> {
        let logical = &self.logical;
        let loads = loads_of(regions, |region| (region.from, region.to), self.staged_at_once());
        let mut staged = Vec::with_capacity(loads.len());
        for load in &loads {
            staged.push((self.staging(load.used)?, self.copies(load)?));
        }
        logical.submit("copy", |encoder| {
            for (staging, copies) in &staged {
                for StagedCopy { staged, buffer, at, len } in copies {
                    encoder.copy_buffer_to_buffer(buffer, *at, staging, *staged, *len);
                }
            }
        })?;
        let order = logical.next_order();
        for (load, (staging, _)) in loads.into_iter().zip(staged) {
            let mapping = Mapping::default();
            let told = mapping.clone();
            // A refusal is told to the callback, too, which then says that the read failed.
            let _ = logical.scoped(|| {
                let done = move |result: std::result::Result<(), _>| told.tell(result.is_ok());
                staging.map_async(wgpu::MapMode::Read, ..load.used, done);
            });
            let mut reads = lock(&logical.held.reads);
            let number = logical.next_read();
            reads.begin(Read { number, order, staging, load, mapping });
        }
        Ok(())
    }

    /// A staging buffer with room for this many bytes.
    fn staging(&self, len: u64) -> Result<wgpu::Buffer> {
        let size = staging_size(len, self.logical.limits.max_buffer);
        let spare = lock(&self.logical.held.reads).take(size);
        let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        spare.map_or_else(|| self.logical.create_buffer(size, usage, false), Ok)
    }

    fn shown_by_no_event(&self, operation: &'static str) -> Error {
        let message =
            "arrays on a WebGPU device have no event: they are ready in the order of its queue";
        self.logical.error(ErrorKind::Unsupported, message).during(operation)
    }

    /// # Safety
    /// `event` is one that `record` gave and that was not destroyed.
    unsafe fn point(&self, event: Raw<Event>) -> &Point {
        // SAFETY: `record` gave the address of a point, which is alive until `destroy_event`.
        unsafe { &*event.as_ptr().cast::<Point>() }
    }
}

/// A copy between a staging buffer and a buffer of the device.
struct StagedCopy {
    staged: u64,
    buffer: wgpu::Buffer,
    at: u64,
    /// Whole units.
    len: u64,
}

impl fmt::Debug for WgpuDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WgpuDriver({:?})", self.logical)
    }
}

// SAFETY: memory is a part of a buffer, of whole units, that the table keeps until it is freed. A
// handle that is in no table of this device is refused. The device has one queue, which is in order
// ("queue operations … are executed in order"), so all queues are that one. A point has passed when
// the callback behind all submitted work has come and no read in front of it is under way;
// `synchronize` waits for such a point. `copy` only submits. The flag of the device's loss is
// looked at by every operation and in every turn of a wait. No lock is held while callbacks may
// run.
unsafe impl Driver for WgpuDriver {
    fn id(&self) -> DeviceId {
        self.logical.id
    }

    fn runtime(&self) -> Runtime {
        Runtime { name: "wgpu", instance: self.logical.number() }
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    unsafe fn allocate(&self, len: u64, _queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        let logical = &self.logical;
        logical.check_flag()?;
        let most = logical.limits.max_buffer;
        let size = len.checked_next_multiple_of(UNIT).filter(|size| *size <= most);
        let size = size.ok_or_else(|| {
            let message =
                format!("{len} bytes asked for, and a buffer of the device has {most} at most");
            logical.error(ErrorKind::OutOfMemory, message).during("allocate")
        })?;
        let buffer = logical.create_buffer(size, USAGES, false)?;
        logical.check()?;
        Ok(logical.held.table.insert(Entry { buffer, offset: 0, size }))
    }

    unsafe fn free(&self, memory: Raw<Memory>, _len: u64) {
        drop(self.logical.held.table.remove(memory));
    }

    unsafe fn part(&self, memory: Raw<Memory>, offset: u64, len: u64) -> Result<Raw<Memory>> {
        let part = self.entry(memory, "part")?.part(offset, len).ok_or_else(|| {
            let message = "the part does not lie inside the memory";
            self.logical.error(ErrorKind::InvalidArgument, message).during("part")
        })?;
        Ok(self.logical.held.table.insert(part))
    }

    unsafe fn free_part(&self, part: Raw<Memory>) {
        drop(self.logical.held.table.remove(part));
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        self.logical.check()?;
        Ok(Raw::from_bits(self.logical.number()))
    }

    unsafe fn close_queue(&self, _queue: Raw<Queue>) {
        // The queue is the device's, and is open as long as the device.
    }

    unsafe fn synchronize(&self, _queue: Raw<Queue>) -> Result<()> {
        self.logical.check_flag()?;
        self.logical.wait(&self.logical.point()?, None).map(drop)
    }

    unsafe fn is_idle(&self, _queue: Raw<Queue>) -> Result<bool> {
        self.logical.check_flag()?;
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
        self.logical.check_flag()?;
        let point = Box::new(self.logical.point()?);
        Ok(Raw::from_ptr(Box::into_raw(point).cast()))
    }

    unsafe fn wait(&self, _queue: Raw<Queue>, _event: Raw<Event>) -> Result<Waiting> {
        // The event is one of the same device, whose one queue is in order.
        self.logical.check_flag()?;
        Ok(Waiting::Queued)
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        let point = unsafe { self.point(event) };
        self.logical.has_passed(point)
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool> {
        // SAFETY: UNS-22, which the caller keeps.
        let point = unsafe { self.point(event) };
        self.logical.wait(point, timeout)
    }

    fn sync_event(&self, _event: Raw<Event>) -> Result<SyncEvent> {
        Err(self.shown_by_no_event("sync_event"))
    }

    unsafe fn read_sync_event(&self, _sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        Err(self.shown_by_no_event("read_sync_event"))
    }

    unsafe fn copy(&self, _queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()> {
        self.logical.check_flag()?;
        if regions.iter().all(|region| region.len == 0) {
            return Ok(());
        }
        match route {
            // SAFETY: UNS-21 and UNS-22, which the caller keeps.
            Route::FromHost => unsafe { self.write(regions) },
            Route::ToHost => self.read(regions),
            // Another driver of this runtime is of the same opening.
            _ => self.copy_within(regions),
        }
    }

    unsafe fn locate(&self, base: Raw<Memory>) -> Result<Option<Allocation>> {
        // A number that is in no table names nothing that this crate knows.
        let found = self.logical.held.table.len_of(base);
        Ok(found.map(|remaining| Allocation { device: self.logical.id, remaining }))
    }

    unsafe fn holds(&self, base: Raw<Memory>) -> Option<bool> {
        Some(self.logical.held.table.len_of(base).is_some())
    }
}
