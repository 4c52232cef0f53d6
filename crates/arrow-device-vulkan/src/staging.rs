//! Buffers that the host reads and writes, for data on its way to and from a device: kept for the
//! next time, up to a bound.
//!
//! Their sizes are powers of two, and a copy takes one of the size that it needs. What comes back
//! is kept in the place of what was used longest ago, as in the library's own list of staging
//! memory. Each is a `VkBuffer` with memory of its own, mapped as long as it lives. Whoever has a
//! [`StagingBuffer`] has it alone.

use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use ash::vk;

/// How many bytes are kept.
const KEPT_BYTES: u64 = 64 << 20;
const KEPT_BUFFERS: usize = 32;
/// A copy passes through buffers of at most so many bytes.
pub(crate) const STAGED_AT_ONCE: u64 = 16 << 20;

#[derive(Debug)]
pub(crate) struct StagingBuffer {
    pub(crate) buffer: vk::Buffer,
    pub(crate) memory: vk::DeviceMemory,
    pub(crate) address: NonNull<u8>,
    pub(crate) len: u64,
}

// SAFETY: handles, and memory that only the owner of this looks at.
unsafe impl Send for StagingBuffer {}

/// Those that wait for their next use. The one that came back last is the last.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Vec<StagingBuffer>>);

impl Spare {
    /// One that holds this many bytes and is less than twice as large.
    pub(crate) fn take(&self, len: u64) -> Option<StagingBuffer> {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |buffer: &StagingBuffer| buffer.len >= len && buffer.len / 2 < len;
        spare.iter().rposition(fits).map(|found| spare.remove(found))
    }

    /// Keeps one; returns those that have to go instead.
    pub(crate) fn keep(&self, buffer: StagingBuffer) -> Vec<StagingBuffer> {
        if buffer.len > KEPT_BYTES {
            return vec![buffer];
        }
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spare.push(buffer);
        let mut kept: u64 = spare.iter().map(|buffer| buffer.len).sum();
        let mut rest = Vec::new();
        while kept > KEPT_BYTES || spare.len() > KEPT_BUFFERS {
            let oldest = spare.remove(0);
            kept -= oldest.len;
            rest.push(oldest);
        }
        rest
    }

    pub(crate) fn take_all(&self) -> Vec<StagingBuffer> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
