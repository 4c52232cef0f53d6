//! [`Memory`]: an allocation that this process made and nobody else sees yet.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::allocator::Lent;
use super::driver::{Addressing, Raw, Region, Route, Spot};
use super::{Allocator, Buffer, Device, Extent, Queue, host};
use crate::device::deferred::{self, QueueUse, Shortage};
use crate::{DeviceType, Error, ErrorKind, Result};

/// An allocation on a device, with one owner: to be filled, and then shared as a [`Buffer`].
///
/// It is freed after the last use: dropping it, or the last array that holds it, waits for nothing,
/// and frees it once the queues that were given its place have passed what was submitted by then.
pub struct Memory {
    block: ManuallyDrop<OwnedAllocation>,
    /// The queues that were given the place.
    used_on: Vec<Queue>,
}

/// The allocation itself.
struct OwnedAllocation {
    device: Device,
    raw: Raw<Memory>,
    len: u64,
    home: MemoryHome,
    counted: bool,
    /// Handles of parts that nobody has any more, for whoever wants the same parts again.
    parts: Vec<AllocationPart>,
}

/// Whoever memory goes back to.
pub(super) enum MemoryHome {
    Driver,
    Recycler(Box<Lent>),
    Other { _owner: Box<dyn Send + Sync> },
}

/// A part of an allocation, and its handle.
#[derive(Clone, Copy)]
struct AllocationPart {
    offset: u64,
    len: u64,
    handle: Raw<Memory>,
}

impl Memory {
    pub(super) fn allocate(device: &Device, len: u64, queue: Option<&Queue>) -> Result<Self> {
        Self::allocate_by(device, len, queue, device.allocator().map(|allocator| &**allocator))
    }

    pub(super) fn allocate_by(
        device: &Device,
        len: u64,
        queue: Option<&Queue>,
        allocator: Option<&dyn Allocator>,
    ) -> Result<Self> {
        if len == 0 {
            return Ok(Self::new(device, Raw::NULL, len, MemoryHome::Driver, false));
        }
        let attempt = || match allocator {
            Some(allocator) => Self::from_allocator(allocator, device, len, queue),
            None => {
                // SAFETY: a queue that is named is alive in its owner and belongs to this device.
                let raw = unsafe { device.driver().allocate(len, queue.map(Queue::raw)) }?;
                let mut memory = Self::new(device, raw, len, MemoryHome::Driver, true);
                // It may come into being in the order of the queue, and must not be freed before
                // that.
                memory.used_on.extend(queue.filter(|queue| !host::is_host(queue)).cloned());
                Ok(memory)
            }
        };
        // What is released first may be small: go on as long as there is something to wait for.
        let mut shortage = None;
        loop {
            match attempt() {
                Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                    let shortage = shortage.get_or_insert_with(|| Shortage::on(device, len));
                    if !shortage.wait() {
                        return Err(shortage.explained(error));
                    }
                }
                result => return result,
            }
        }
    }

    /// Asks somebody else's allocator, and looks at what it gives.
    fn from_allocator(
        allocator: &dyn Allocator,
        device: &Device,
        len: u64,
        queue: Option<&Queue>,
    ) -> Result<Self> {
        let memory = allocator.allocate(&device.plain(), len, queue)?;
        let is_ours = Arc::ptr_eq(memory.device().driver(), device.driver());
        if !is_ours || memory.len() < len || memory.block.raw.is_null() {
            let message = format!("{len} bytes asked for, and the allocator gave {memory:?}");
            let error = Error::new(ErrorKind::InvalidArgument, message);
            return Err(error.during("allocate").on_device(device.id()));
        }
        Ok(memory)
    }

    pub(super) fn adopted(
        device: &Device,
        raw: Raw<Memory>,
        len: u64,
        owner: Box<dyn Send + Sync>,
    ) -> Self {
        Self::new(device, raw, len, MemoryHome::Other { _owner: owner }, true)
    }

    /// What a recycler has, to be used by somebody: it is counted where it was allocated.
    pub(super) fn lent(mut whole: Self, len: u64, home: impl FnOnce(Self) -> Lent) -> Self {
        let (device, raw) = (whole.block.device.clone(), whole.block.raw);
        let parts = std::mem::take(&mut whole.block.parts);
        let mut lent =
            Self::new(&device, raw, len, MemoryHome::Recycler(Box::new(home(whole))), false);
        lent.block.parts = parts;
        lent
    }

    fn new(device: &Device, raw: Raw<Memory>, len: u64, home: MemoryHome, counted: bool) -> Self {
        let device = device.clone();
        if counted {
            device.account().allocated(len);
        }
        let block = OwnedAllocation { device, raw, len, home, counted, parts: Vec::new() };
        Self { block: ManuallyDrop::new(block), used_on: Vec::new() }
    }

    pub(crate) fn raw(&self) -> Raw<Memory> {
        self.block.raw
    }

    /// The device it is on.
    pub fn device(&self) -> &Device {
        &self.block.device
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.block.len
    }

    /// Whether it has no bytes. Such memory is the null handle.
    pub fn is_empty(&self) -> bool {
        self.block.len == 0
    }

    /// Where it is, for work on this queue that fills it.
    ///
    /// As with arrays, a place exists only for somebody who names the queue that will use it.
    pub fn spot(&mut self, queue: &Queue) -> Result<Spot> {
        queue.reaches(self.block.device.id())?;
        let is_known = self.used_on.iter().any(|known| known.number() == queue.number());
        // The host is never waited for.
        if !is_known && !host::is_host(queue) {
            self.used_on.push(queue.clone());
        }
        Ok(Spot { base: self.block.raw, offset: 0 })
    }

    /// Forgets who was told where it is: it is there by now, and nothing was submitted with it, so
    /// that it can go at once.
    pub(crate) fn forget_queues(&mut self) {
        self.used_on.clear();
    }

    /// Shares it. From now on nobody writes to it.
    pub fn into_buffer(self) -> Buffer {
        self.block.device.driver().share(self.block.raw);
        self.into_unshared_buffer()
    }

    /// The same for memory that may go to one other party, who may then write to it.
    pub(crate) fn into_unshared_buffer(self) -> Buffer {
        let (device, base, len) = (self.block.device.id(), self.block.raw, self.block.len);
        let owner: super::BytesOwner = Arc::new(self);
        Buffer::from_parts(device, base, 0, Extent::Exact(len), Some(owner))
    }

    /// Shares parts of it, each at an offset and so long, one behind the other. On a device of
    /// handles each part gets a handle of its own: the one that it had before, if recycled memory
    /// is divided as it was then.
    pub(crate) fn into_parts(
        self,
        parts: impl ExactSizeIterator<Item = (u64, u64)> + DoubleEndedIterator + Clone,
    ) -> Result<Parted> {
        let (base, len, driver) = (self.block.raw, self.block.len, self.block.device.driver());
        driver.share(base);
        debug_assert!(parts.clone().is_sorted_by(|one, next| one.0 + one.1 <= next.0));
        if let Some((offset, part_len)) = parts.clone().next_back()
            && offset.checked_add(part_len).is_none_or(|end| end > len)
        {
            let message = format!("bytes {offset}+{part_len} are not inside {len}");
            let error = Error::new(ErrorKind::InvalidArgument, message);
            return Err(error.on_device(driver.id()));
        }
        let has_handles = driver.properties().addressing == Addressing::Handle;
        let mut parted = Parted { whole: self };
        if has_handles {
            parted.divide(parts)?;
        }
        Ok(parted)
    }

    /// Fills it from host memory and waits until that is done.
    pub fn write(&mut self, queue: &Queue, bytes: &[u8]) -> Result<()> {
        let len = bytes.len() as u64;
        if len > self.len() {
            let message = format!("{len} bytes do not fit into {}", self.len());
            let error = Error::new(ErrorKind::InvalidArgument, message);
            return Err(error.during("write").on_device(self.block.device.id()));
        }
        if len == 0 {
            return Ok(());
        }
        // A copy of our own: if the wait fails, the device may read its source long after `bytes`
        // is gone.
        let staged = bytes.to_vec();
        let from = Spot { base: Raw::from_ptr(staged.as_ptr().cast_mut().cast()), offset: 0 };
        let region = Region { from, to: self.spot(queue)?, len };
        // SAFETY: both sides hold `len` bytes; the source outlives the copy, by the wait or by
        // `keep_until_done`; this memory has no other user (`&mut self`).
        unsafe { queue.copy(Route::FromHost, &[region]) }?;
        queue.synchronize().inspect_err(|_| queue.keep_until_done(staged))
    }
}

/// An allocation that is shared in parts.
pub(crate) struct Parted {
    /// Its parts are these, where they have handles.
    whole: Memory,
}

impl Parted {
    /// What `buffers[i]` is for the part of this number, which begins there.
    #[inline]
    pub(crate) fn raw(&self, number: usize, offset: u64) -> Raw<Memory> {
        let OwnedAllocation { raw: base, parts, .. } = &*self.whole.block;
        match parts.get(number) {
            Some(part) => part.handle,
            // The place is an address, or there is one part, which is the whole.
            None => Raw::from_ptr(base.as_ptr().wrapping_byte_add(offset as usize)),
        }
    }

    /// Gives each part a handle.
    fn divide(&mut self, parts: impl ExactSizeIterator<Item = (u64, u64)> + Clone) -> Result<()> {
        let OwnedAllocation { device, raw: base, len, parts: known, .. } = &mut *self.whole.block;
        let is_same =
            |(known, part): (&AllocationPart, (u64, u64))| (known.offset, known.len) == part;
        if known.len() == parts.len() && known.iter().zip(parts.clone()).all(is_same) {
            return Ok(());
        }
        let driver = device.driver();
        let mut before = std::mem::take(known).into_iter().peekable();
        let free = |part: AllocationPart| {
            // SAFETY: `part` of this driver gave the handle, nobody has it any more, and the memory
            // is alive.
            unsafe { driver.free_part(part.handle) }
        };
        let mut handle_of = |(offset, len): (u64, u64)| {
            let is_same = |known: &AllocationPart| (known.offset, known.len) == (offset, len);
            while let Some(other) =
                before.next_if(|known| known.offset <= offset && !is_same(known))
            {
                free(other);
            }
            let handle = match before.next_if(is_same) {
                Some(known) => known.handle,
                // SAFETY: the memory is this driver's and alive in `self`; the part lies inside.
                None => unsafe { driver.part(*base, offset, len) }?,
            };
            known.push(AllocationPart { offset, len, handle });
            Ok(())
        };
        let is_whole = parts.clone().eq([(0, *len)]);
        let divided = match is_whole {
            true => Ok(()),
            false => parts.into_iter().try_for_each(&mut handle_of),
        };
        before.for_each(free);
        divided
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `block` is not touched again: this is the only place that takes it, and `self` is
        // being dropped.
        let block = unsafe { ManuallyDrop::take(&mut self.block) };
        if self.used_on.is_empty() || block.len == 0 {
            return;
        }
        let uses = self.used_on.drain(..).map(|queue| QueueUse::until_now(&queue)).collect();
        let frees_host_memory = block.device.id().device_type == DeviceType::CPU;
        deferred::defer(block, uses, frees_host_memory);
    }
}

impl Drop for OwnedAllocation {
    fn drop(&mut self) {
        if self.counted {
            self.device.account().freed(self.len);
        }
        if let MemoryHome::Recycler(lent) = &mut self.home
            && let Some(whole) = lent.whole_mut()
        {
            whole.block.parts = std::mem::take(&mut self.parts);
        }
        for part in self.parts.drain(..) {
            // SAFETY: `part` of this driver gave the handle, and the memory is freed after this.
            unsafe { self.device.driver().free_part(part.handle) }
        }
        if matches!(self.home, MemoryHome::Driver) && self.len > 0 {
            // SAFETY: `raw` came from `allocate` of this driver with this length and is freed once,
            // here.
            unsafe { self.device.driver().free(self.raw, self.len) }
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes on {})", self.len(), self.block.device.id())
    }
}
