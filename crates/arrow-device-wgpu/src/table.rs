//! The buffers that stand behind the handles of one device.
//!
//! A `wgpu::Buffer` is a value of Rust and no handle of a runtime, so a handle is a number that
//! this crate gives out. No number is given out twice in a process: a handle of another device, or
//! of a buffer that is gone, is found in no table, and is refused.
//!
//! An entry is a part of a buffer, or all of it. The entry keeps the buffer.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_device::Memory;
use arrow_device::driver::Raw;

use crate::logical::lock;

/// Handles are multiples of this number, so that none looks like a small index.
const STEP: usize = 64;
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// A part of a buffer.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) buffer: wgpu::Buffer,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl Entry {
    /// The part of this part.
    pub(crate) fn part(&self, offset: u64, len: u64) -> Option<Self> {
        let end = offset.checked_add(len)?;
        let offset = self.offset.checked_add(offset)?;
        (end <= self.size).then(|| Self { buffer: self.buffer.clone(), offset, size: len })
    }
}

#[derive(Debug, Default)]
pub(crate) struct Table(Mutex<HashMap<usize, Entry>>);

impl Table {
    /// Gives the part a handle.
    pub(crate) fn insert(&self, entry: Entry) -> Raw<Memory> {
        let handle = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(STEP);
        lock(&self.0).insert(handle, entry);
        Raw::from_bits(handle)
    }

    /// Forgets a handle. The entry is dropped by the caller, after the lock was given back.
    pub(crate) fn remove(&self, handle: Raw<Memory>) -> Option<Entry> {
        lock(&self.0).remove(&handle.bits())
    }

    pub(crate) fn find(&self, handle: Raw<Memory>) -> Option<Entry> {
        lock(&self.0).get(&handle.bits()).cloned()
    }

    pub(crate) fn len_of(&self, handle: Raw<Memory>) -> Option<u64> {
        lock(&self.0).get(&handle.bits()).map(|entry| entry.size)
    }
}
