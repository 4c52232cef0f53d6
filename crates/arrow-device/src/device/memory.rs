//! [`Memory`]: an allocation that this process made and nobody else sees yet.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::driver::{Raw, Region, Route, Spot};
use super::{Buffer, Device, Extent, Queue};
use crate::pending::{self, Use};
use crate::{Error, ErrorKind, Result};

/// An allocation on a device, with one owner: to be filled, and then shared as a [`Buffer`].
///
/// It is freed after the last use: dropping it, or the last array that holds it, waits for nothing, and frees it once the
/// queues that were given its place have passed what was submitted by then.
pub struct Memory {
    block: ManuallyDrop<Block>,
    /// The queues that were given the place.
    used_on: Vec<Queue>,
}

/// The allocation itself.
struct Block {
    device: Device,
    raw: Raw<Memory>,
    len: u64,
}

impl Memory {
    pub(super) fn allocate(device: &Device, len: u64, queue: Option<&Queue>) -> Result<Self> {
        if len == 0 {
            return Ok(Self::new(Block { device: device.clone(), raw: Raw::NULL, len }));
        }
        let queue = queue.map(Queue::raw);
        // SAFETY: a queue that is named is alive in its owner and belongs to this device.
        let attempt = || unsafe { device.driver().allocate(len, queue) };
        // The oldest thing may be small, or another device's: go on as long as there is one. Each turn releases something.
        let raw = loop {
            match attempt() {
                Err(error)
                    if error.kind() == ErrorKind::OutOfMemory && pending::release_oldest() => {}
                result => break result,
            }
        }?;
        Ok(Self::new(Block { device: device.clone(), raw, len }))
    }

    fn new(block: Block) -> Self {
        Self { block: ManuallyDrop::new(block), used_on: Vec::new() }
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
        if !self.used_on.iter().any(|known| known.number() == queue.number()) {
            self.used_on.push(queue.clone());
        }
        Ok(Spot { base: self.block.raw, offset: 0 })
    }

    /// Shares it. From now on nobody writes to it.
    pub fn into_buffer(self) -> Buffer {
        self.block.device.driver().share(self.block.raw);
        self.into_unshared_buffer()
    }

    /// The same for memory that may go to one other party, who may then write to it.
    pub(crate) fn into_unshared_buffer(self) -> Buffer {
        let (device, base, len) = (self.block.device.id(), self.block.raw, self.block.len);
        let owner: super::Owner = Arc::new(self);
        Buffer::from_parts(device, base, 0, Extent::Exact(len), Some(owner))
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
        // A copy of our own: if the wait fails, the device may read its source long after `bytes` is gone.
        let staged = bytes.to_vec();
        let from = Spot { base: Raw::from_ptr(staged.as_ptr().cast_mut().cast()), offset: 0 };
        let region = Region { from, to: self.spot(queue)?, len };
        // SAFETY: both sides hold `len` bytes; the source outlives the copy, by the wait or by `keep_until_done`; this memory
        // has no other user (`&mut self`).
        unsafe { queue.copy(Route::FromHost, &[region]) }?;
        queue.synchronize().inspect_err(|_| queue.keep_until_done(staged))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `block` is not touched again: this is the only place that takes it, and `self` is being dropped.
        let block = unsafe { ManuallyDrop::take(&mut self.block) };
        if self.used_on.is_empty() || block.len == 0 {
            return;
        }
        let uses = self.used_on.drain(..).map(|queue| Use::record_now(&queue)).collect();
        pending::defer(block, uses);
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: `raw` came from `allocate` of this driver with this length and is freed once, here.
            unsafe { self.device.driver().free(self.raw, self.len) }
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes on {})", self.len(), self.block.device.id())
    }
}
