//! Buffers that the host reads and writes, for data on its way to and from a device: kept for the
//! next time, up to a bound.
//!
//! Each is a `VkBuffer` with memory of its own, mapped as long as it lives. Whoever has a
//! [`StagingBuffer`] has it alone.

use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use ash::vk;

/// How many bytes are kept.
const KEPT_BYTES: u64 = 32 << 20;
const KEPT_BUFFERS: usize = 16;

#[derive(Debug)]
pub(crate) struct StagingBuffer {
    pub(crate) buffer: vk::Buffer,
    pub(crate) memory: vk::DeviceMemory,
    pub(crate) address: NonNull<u8>,
    pub(crate) len: u64,
}

// SAFETY: handles, and memory that only the owner of this looks at.
unsafe impl Send for StagingBuffer {}

/// Those that wait for their next use.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Vec<StagingBuffer>>);

impl Spare {
    /// One that holds this many bytes and is not much larger.
    pub(crate) fn take(&self, len: u64) -> Option<StagingBuffer> {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |buffer: &StagingBuffer| buffer.len >= len && buffer.len / 4 <= len;
        let found = spare.iter().position(fits)?;
        Some(spare.swap_remove(found))
    }

    /// Keeps one, or returns it where there are enough.
    pub(crate) fn keep(&self, buffer: StagingBuffer) -> Option<StagingBuffer> {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept: u64 = spare.iter().map(|buffer| buffer.len).sum();
        if spare.len() >= KEPT_BUFFERS || kept.saturating_add(buffer.len) > KEPT_BYTES {
            return Some(buffer);
        }
        spare.push(buffer);
        None
    }

    pub(crate) fn take_all(&self) -> Vec<StagingBuffer> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
