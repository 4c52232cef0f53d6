//! Copies to the host: staging buffers, and the bytes on their way from there to host memory.
//!
//! A read copies on the queue to a buffer that the host can map, and asks for the mapping at once.
//! The runtime calls back when the copy is done and the buffer is mapped. The callback sets a flag
//! and does nothing more, because a callback may not call the runtime. Whoever asks about the queue
//! next moves the bytes to where they belong ([`Reads::finish`]), under a lock, so that nobody is
//! told sooner that the bytes are there.
//!
//! The size of a staging buffer is a power of two, or the most that the device allows, so that
//! later reads can use the buffer. Staging buffers are kept for their next use, up to a bound.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::api::{Api, Handle, SUCCESS, Text};
use crate::marker::Failure;

/// How many bytes are kept for the next use.
const KEPT_BYTES: u64 = 64 << 20;
const KEPT_BUFFERS: usize = 32;
/// The smallest staging buffer.
const SMALLEST: u64 = 4 << 10;
/// A read passes through buffers of at most this many bytes.
pub(crate) const STAGED_AT_ONCE: u64 = 16 << 20;

const PENDING: u8 = 0;
const MAPPED: u8 = 1;
const FAILED: u8 = 2;

/// A buffer that the host can map.
#[derive(Debug)]
pub(crate) struct Staging {
    pub(crate) buffer: Handle,
    pub(crate) size: u64,
}

/// The size of a staging buffer for this many bytes, on a device whose buffers have no more than
/// `limit`.
pub(crate) fn staging_size(len: u64, limit: u64) -> u64 {
    len.max(SMALLEST).checked_next_power_of_two().unwrap_or(limit).min(limit & !3).max(len)
}

/// The place of a piece in host memory and in the staging buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) host: NonNull<u8>,
    pub(crate) at: u64,
    pub(crate) len: u64,
}

/// What became of a mapping, which a callback tells.
#[derive(Debug)]
pub(crate) struct Mapping(AtomicU8);

impl Mapping {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU8::new(PENDING)))
    }

    pub(crate) fn is_mapped(&self) -> bool {
        self.0.load(Ordering::Acquire) == MAPPED
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.0.load(Ordering::Acquire) == FAILED
    }

    /// A share for the callback.
    pub(crate) fn for_callback(self: &Arc<Self>) -> *mut c_void {
        Arc::into_raw(self.clone()).cast_mut().cast()
    }
}

/// The callback of `wgpuBufferMapAsync`.
pub(crate) extern "C" fn mapped(status: u32, _: Text, mapping: *mut c_void, _: *mut c_void) {
    // SAFETY: the pointer is of `for_callback`, and a callback is called once ("the callback is
    // called exactly once").
    let mapping = unsafe { Arc::from_raw(mapping.cast::<Mapping>()) };
    mapping.0.store(if status == SUCCESS { MAPPED } else { FAILED }, Ordering::Release);
}

/// A read that is under way.
#[derive(Debug)]
pub(crate) struct Read {
    /// The place among the reads.
    pub(crate) number: u64,
    /// The place among all work.
    pub(crate) order: u64,
    pub(crate) staging: Staging,
    pub(crate) used: u64,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) mapping: Arc<Mapping>,
}

/// The reads of a queue that are not finished, and staging buffers that wait for their next use.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// In the order of their numbers.
    under_way: VecDeque<Read>,
    spare: Vec<Staging>,
}

// SAFETY: handles of buffers, which any thread may use, and addresses in host memory that the
// caller of `Driver::copy` keeps until the queue has passed, for whichever thread.
unsafe impl Send for Reads {}

impl Reads {
    /// The number of the read is the largest so far.
    pub(crate) fn begin(&mut self, read: Read) {
        self.under_way.push_back(read);
    }

    /// Whether a read is under way that began before the one with this number.
    pub(crate) fn has_before(&self, number: u64) -> bool {
        self.under_way.front().is_some_and(|first| first.number < number)
    }

    /// Takes a staging buffer of this size.
    pub(crate) fn take(&mut self, size: u64) -> Option<Staging> {
        let found = self.spare.iter().rposition(|spare| spare.size == size)?;
        Some(self.spare.remove(found))
    }

    /// Keeps a staging buffer that nothing uses, and releases those that are too many.
    pub(crate) fn keep(&mut self, api: &Api, staging: Staging) {
        self.spare.push(staging);
        let mut kept: u64 = self.spare.iter().map(|spare| spare.size).sum();
        while kept > KEPT_BYTES || self.spare.len() > KEPT_BUFFERS {
            let oldest = self.spare.remove(0);
            kept -= oldest.size;
            release(api, &oldest);
        }
    }

    /// Moves the bytes of the first reads to where the bytes belong, up to a read whose buffer is
    /// not mapped yet: a point that is behind a later read is behind that one, too. So a question
    /// takes no time for reads that are still under way, however many there are.
    pub(crate) fn finish(&mut self, api: &Api, failure: &Failure) {
        while let Some(first) = self.under_way.front() {
            if first.mapping.0.load(Ordering::Acquire) == PENDING {
                return;
            }
            let Some(read) = self.under_way.pop_front() else { return };
            if read.mapping.is_mapped() && empty(api, &read) {
                self.keep(api, read.staging);
            } else {
                failure.tell(read.order);
                release(api, &read.staging);
            }
        }
    }

    /// Gives up all reads of a lost device. The staging buffers are released, and what callbacks
    /// say of the reads later is ignored.
    pub(crate) fn give_up(&mut self, api: &Api) {
        for read in std::mem::take(&mut self.under_way) {
            release(api, &read.staging);
        }
        self.release_spare(api);
    }

    pub(crate) fn release_spare(&mut self, api: &Api) {
        for spare in std::mem::take(&mut self.spare) {
            release(api, &spare);
        }
    }
}

/// Moves the bytes of a mapped buffer to host memory, and ends the mapping. Returns whether the
/// runtime showed them.
fn empty(api: &Api, read: &Read) -> bool {
    let buffer = read.staging.buffer;
    // SAFETY: the buffer is alive and mapped: its callback said so, and nobody has unmapped it.
    let bytes = unsafe { (api.mapped_range)(buffer, 0, read.used as usize) }.cast::<u8>();
    if bytes.is_null() {
        return false;
    }
    for piece in &read.pieces {
        // SAFETY: the mapped range has `used` bytes, and each piece lies inside.
        let from = unsafe { bytes.add(piece.at as usize) };
        // SAFETY: UNS-21, which the caller of `Driver::copy` kept: the host memory may be written
        // until the queue has passed the copy, which nobody is told before this is done. The
        // mapping shows the staging buffer's bytes, which lie elsewhere.
        unsafe { from.copy_to_nonoverlapping(piece.host.as_ptr(), piece.len as usize) };
    }
    // SAFETY: the buffer is alive and mapped.
    unsafe { (api.unmap)(buffer) };
    true
}

pub(crate) fn release(api: &Api, staging: &Staging) {
    // SAFETY: the reference is that of `create_buffer`, and the handle is not used after this.
    unsafe { (api.release_buffer)(staging.buffer) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_staging_buffer_has_a_power_of_two_or_what_the_device_can() {
        assert_eq!(staging_size(4, 1 << 30), SMALLEST);
        assert_eq!(staging_size((4 << 10) + 4, 1 << 30), 8 << 10);
        assert_eq!(staging_size(12 << 20, 1 << 30), 16 << 20);
        assert_eq!(staging_size(12 << 20, (13 << 20) + 3), 13 << 20);
    }
}
