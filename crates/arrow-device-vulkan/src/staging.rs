//! Buffers that the host reads and writes, for data on its way to and from a device. They are kept
//! for their next use, up to a bound.
//!
//! The size of a buffer for copies is a power of two, so that buffers fit later copies. Only large
//! mappings have buffers of other sizes. A buffer that comes back is kept. If more bytes or more
//! buffers are kept than the bounds allow, those that were unused for longest are freed, as in the
//! library's own list of staging memory. Each buffer is a `VkBuffer` with memory of its own, which
//! is mapped as long as the buffer lives. The owner of a [`StagingBuffer`] is its only user.

use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use ash::vk;

/// How many bytes are kept for the next use.
const KEPT_BYTES: u64 = 64 << 20;
const KEPT_BUFFERS: usize = 32;
/// A copy passes through buffers of at most this many bytes.
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

/// The buffers that wait for their next use, in the order in which they came back.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Vec<StagingBuffer>>);

impl Spare {
    /// Takes a buffer that holds this many bytes and is less than twice as large.
    pub(crate) fn take(&self, len: u64) -> Option<StagingBuffer> {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |buffer: &StagingBuffer| buffer.len >= len && buffer.len / 2 < len;
        spare.iter().rposition(fits).map(|found| spare.remove(found))
    }

    /// Keeps a buffer. Returns the buffers that have to be freed instead.
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
