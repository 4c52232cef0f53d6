//! Copies of tensors: the elements are gathered into compact memory.
//!
//! A tensor is a list of runs of elements that lie together. On a device each run is a region of a
//! copy, and [`PIECES`] regions are submitted at a time. On the host, a tensor of more than one run
//! is gathered by the loops of `on_host`, where there is one for the width of the elements.

use super::dims::Dims;
use super::dtype::Width;
use super::memory::{TensorMemory, bytes_of};
use super::tensor::Origin;
use super::{Dtype, Tensor, on_host};
use crate::device::driver::{HostAccess, Raw, Region, Route, Spot};
use crate::{Array, Device, DeviceId, DeviceType, Error, ErrorKind, Memory, Queue, Result};

/// How many pieces are submitted at a time.
const PIECES: usize = 1 << 16;

impl Tensor {
    /// Copies the elements into new memory on the same device, one behind the other in row-major
    /// order, in the order of this queue. The result is ready after an event on the queue, and
    /// nobody else has its memory.
    ///
    /// A copy in memory that other processes can open ([`Device::shareable`]) counts as shared from
    /// the beginning: nobody can write to such memory once an array of it was sent.
    ///
    /// Costs one allocation, and one region of a copy for each run of elements that lie together.
    pub fn copy(&self, queue: &Queue) -> Result<Self> {
        let copied = self.copy_on(queue, allocate_near);
        copied.map_err(|error| error.during("copy a tensor").on_device_if_none(self.device()))
    }

    /// [`copy`](Self::copy) for one consumer, who may write to the memory: never in memory that
    /// other processes can open.
    pub(super) fn copy_for_one(&self, queue: &Queue) -> Result<Self> {
        let copied = self.copy_on(queue, |array, queue, len| {
            let memory = allocate_near(array, queue, len)?;
            match memory.maker_of_shared_pages() {
                Some(_) => Memory::of_driver(memory.device(), len, queue),
                None => Ok(memory),
            }
        });
        copied.map_err(|error| error.during("copy a tensor").on_device_if_none(self.device()))
    }

    /// Copies the elements into new host memory, in the order that [`copy`](Self::copy) has, and
    /// waits for the copy. A tensor in host memory is copied too.
    pub fn copy_to_host(&self, queue: &Queue) -> Result<Self> {
        if self.device().device_type == DeviceType::CPU {
            return self.copy(&Queue::host());
        }
        let host = Device::host();
        let len = self.compact_len()?;
        let mut memory = host.allocate(len)?;
        let to = memory.spot(&Queue::host())?.base;
        let submitted = self.gather(queue, Route::ToHost, to, 0);
        if let Err(error) = submitted.and_then(|()| queue.synchronize()) {
            // After the failure, submitted work may still write to the memory.
            queue.keep_until_done(memory);
            return Err(error.during("copy a tensor to the host").on_device_if_none(self.device()));
        }
        let origin = origin_of(&memory);
        // SAFETY: the elements are the first `len` bytes, and the wait for them is over.
        let bytes = unsafe { memory.into_unshared_buffer(len) };
        let memory = bytes_of(bytes, |builder| builder.finish_ready())?;
        self.compacted(TensorMemory::of(memory), origin)
    }

    fn copy_on(
        &self,
        queue: &Queue,
        allocate: impl FnOnce(&Array, &Queue, u64) -> Result<Memory>,
    ) -> Result<Self> {
        let len = self.compact_len()?;
        let mut memory = allocate(self.memory(), queue, len)?;
        let to = memory.spot(queue)?.base;
        self.gather(queue, Route::Within, to, 0)?;
        // SAFETY: the elements are the first `len` bytes, and were submitted to the queue.
        let (memory, origin) = unsafe { finish(memory, len, queue) }?;
        self.compacted(memory, origin)
    }

    /// A tensor of these elements over `memory`, in which they lie compactly.
    fn compacted(&self, memory: TensorMemory, origin: Origin) -> Result<Self> {
        let dims = Dims::compact(self.shape())?;
        let tensor = Self::new(memory, 0, self.dtype(), self.width(), dims, origin);
        Ok(tensor.with_padding(self.is_padded()))
    }

    fn compact_len(&self) -> Result<u64> {
        self.width().bytes(self.len()).ok_or_else(|| {
            Error::new(ErrorKind::LimitExceeded, "the tensor is larger than any memory")
        })
    }

    /// Submits the copy of all elements, in row-major order, into `to` from its byte `at` on. The
    /// memory is fresh from there on.
    pub(crate) fn gather(
        &self,
        queue: &Queue,
        route: Route<'_>,
        to: Raw<Memory>,
        at: u64,
    ) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        // Orders the queue behind the data, and keeps the memory until the queue has passed the
        // copy.
        queue.require_units(self.device(), || self.memory().tree().open_device())?;
        let view = self.on(queue)?;
        let base = view.location().spot().base;
        let runs = self.dims().runs();
        let outside =
            || Error::new(ErrorKind::InvalidData, "an element lies outside of the memory");
        let len = self.width().bytes(runs.length).ok_or_else(outside)?;
        let is_on_host = self.device().device_type == DeviceType::CPU
            && queue.device().id().device_type == DeviceType::CPU;
        if let (true, Width::Bytes(width)) = (is_on_host && runs.length < self.len(), self.width())
        {
            let (lowest, highest) = self.dims().reach().unwrap_or_default();
            self.start_of(lowest).and(self.start_of(highest)).ok_or_else(outside)?;
            let first = |start: u64| usize::try_from(start).map_err(|_| outside());
            let from = base.as_ptr().cast::<u8>().wrapping_add(first(self.start())?);
            let to = to.as_ptr().cast::<u8>().wrapping_add(first(at)?);
            // SAFETY: UNS-21: every element lies in memory that the view keeps, because UNS-24
            // holds of an import and the array has the memory otherwise; the host's queue waited
            // for the data. The target is the caller's own, and has room for all behind `at`.
            if unsafe { on_host::gather(self.dims(), from.cast_const(), width, to) } {
                return Ok(());
            }
        }
        let mut regions = Vec::new();
        let mut offset = at;
        for place in runs {
            let from = Spot { base, offset: self.start_of(place).ok_or_else(outside)? };
            regions.push(Region { from, to: Spot { base: to, offset }, len });
            offset += len;
            if regions.len() == PIECES {
                // SAFETY: UNS-21: every element lies in memory that the view keeps until the queue
                // has passed, because UNS-24 holds of an import and the array has the memory
                // otherwise; the target is the caller's own, has room for all elements behind `at`,
                // and is kept by it.
                unsafe { queue.copy(route, &regions) }?;
                regions.clear();
            }
        }
        if regions.len() == 1 {
            // SAFETY: UNS-21: every element lies in memory that the view keeps until the queue has
            // passed, because UNS-24 holds of an import and the array has the memory otherwise; the
            // target is the caller's own, has room for all elements behind `at`, and is kept by it.
            // Nothing is there yet behind the only region.
            return unsafe { queue.copy_into_fresh(route, &regions) };
        }
        // SAFETY: UNS-21: every element lies in memory that the view keeps until the queue has
        // passed, because UNS-24 holds of an import and the array has the memory otherwise; the
        // target is the caller's own, has room for all elements behind `at`, and is kept by it.
        unsafe { queue.copy(route, &regions) }
    }
}

/// Memory on the device of this array, for work on this queue.
pub(crate) fn allocate_near(array: &Array, queue: &Queue, len: u64) -> Result<Memory> {
    array.tree().require_reach(queue)?;
    if queue.device().id() == array.device() {
        return queue.allocate(len);
    }
    array.open_device()?.allocate(len)
}

/// Who has memory that was just filled. Memory that other processes can open is fixed when it is
/// sent, and a child of `fork` has the pages of it together with its parent. No consumer may write
/// there.
fn origin_of(memory: &Memory) -> Origin {
    if memory.maker_of_shared_pages().is_some() { Origin::Shared } else { Origin::Own }
}

/// The first `len` bytes as the memory of a tensor, and who has it. The bytes were written on this
/// queue.
///
/// # Safety
/// The memory has `len` bytes, which are written by what was submitted to this queue, or were
/// before.
pub(crate) unsafe fn finish(
    memory: Memory,
    len: u64,
    queue: &Queue,
) -> Result<(TensorMemory, Origin)> {
    let origin = origin_of(&memory);
    // SAFETY: the caller's `len` bytes are written by work on the queue, or before it, and the
    // array is ready after the queue.
    let bytes = unsafe { memory.into_unshared_buffer(len) };
    let memory = bytes_of(bytes, |builder| builder.finish_on(queue))?;
    Ok((TensorMemory::of(memory), origin))
}

/// Room for `count` elements in host memory. An error where there is no memory.
pub(crate) fn room<T>(count: usize) -> Result<Vec<T>> {
    let mut room = Vec::new();
    room.try_reserve_exact(count).map_err(|_| {
        let bytes = count as u128 * size_of::<T>() as u128;
        Error::new(ErrorKind::OutOfMemory, format!("{bytes} bytes asked for"))
            .on_device(DeviceId::CPU)
    })?;
    Ok(room)
}

fn copied(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut copy = room(bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// Some bytes of a buffer of an array, in host memory. They are read in place where the host can,
/// and otherwise fetched on a queue, with a wait.
pub(crate) fn read_bytes(
    array: &Array,
    buffer: usize,
    start: u64,
    len: u64,
    queue: &Queue,
) -> Result<Vec<u8>> {
    let too_large = || Error::new(ErrorKind::LimitExceeded, format!("{len} bytes to be read"));
    let (Ok(begin), Ok(count)) = (usize::try_from(start), usize::try_from(len)) else {
        return Err(too_large());
    };
    if count == 0 {
        return Ok(Vec::new());
    }
    let is_readable = array.device().device_type == DeviceType::CPU
        || queue.device().properties().host_access == HostAccess::Mapped
            && queue.device().id() == array.device();
    if is_readable {
        let host = array.host()?;
        let bytes = host.buffer(buffer)?;
        let piece = begin.checked_add(count).and_then(|end| bytes.get(begin..end));
        let too_short = || {
            let message = format!("buffer {buffer} is shorter than it should be");
            Error::new(ErrorKind::InvalidData, message)
        };
        return copied(piece.ok_or_else(too_short)?);
    }
    queue.require_units(array.device(), || array.tree().open_device())?;
    let view = array.on(queue)?;
    let mut memory = Device::host().allocate(len)?;
    let to = memory.spot(&Queue::host())?;
    let base = view.buffer(buffer).location().spot().base;
    let region = Region { from: Spot { base, offset: start }, to, len };
    // SAFETY: UNS-21: the buffer has the bytes, by UNS-4 of an import or because the array was
    // built with them, and the view keeps them; the target has room for them, and is kept until the
    // wait below has succeeded, or else until the queue has passed the copy.
    let submitted = unsafe { queue.copy(Route::ToHost, &[region]) };
    if let Err(error) = submitted.and_then(|()| queue.synchronize()) {
        queue.keep_until_done(memory);
        return Err(error);
    }
    // SAFETY: host memory of this length, written to as a whole by the copy that was waited for.
    let bytes = unsafe { std::slice::from_raw_parts(to.base.as_ptr().cast::<u8>(), count) };
    copied(bytes)
}

/// A tensor with one dimension of these bytes, on the device of an array.
pub(crate) fn upload(near: &Array, bytes: &[u8], dtype: Dtype, queue: &Queue) -> Result<Tensor> {
    let width = dtype.width(false)?;
    let Width::Bytes(size) = width else {
        return Err(Error::new(ErrorKind::Unsupported, format!("{dtype} is packed")));
    };
    let len = bytes.len() as u64;
    let mut memory = allocate_near(near, queue, len)?;
    memory.write(queue, bytes)?;
    let count = len.checked_div(size).unwrap_or(0);
    let dims = Dims::compact(&[count.cast_signed()])?;
    // SAFETY: the first `len` bytes were written, and the write was waited for.
    let (memory, origin) = unsafe { finish(memory, len, queue) }?;
    Ok(Tensor::new(memory, 0, dtype, width, dims, origin))
}
