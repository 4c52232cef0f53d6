//! Copies to the host: staging buffers, and the bytes on their way from there to host memory.
//!
//! A read copies on the queue to a buffer that the host can map, and asks for the mapping at once.
//! wgpu calls back when the copy is done and the buffer is mapped. The callback notes that and does
//! nothing more. Whoever asks about the queue next moves the bytes to where they belong
//! ([`Reads::finish`]), under a lock, so that nobody is told sooner that the bytes are there.
//!
//! Staging buffers have sizes that are powers of two, or the most that the device allows, and are
//! kept for later reads, up to a bound.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use arrow_device::Memory;
use arrow_device::driver::{Raw, Region, Spot, StagedGroup, staged_groups};

use crate::driver::UNIT;

/// How many bytes, and how many buffers, are kept for their next use.
const KEPT_BYTES: u64 = 64 << 20;
const KEPT_BUFFERS: usize = 32;
/// The smallest staging buffer.
const SMALLEST: u64 = 4 << 10;

const PENDING: u8 = 0;
const MAPPED: u8 = 1;
const FAILED: u8 = 2;

/// The size of a staging buffer for this many bytes, on a device whose buffers have no more than
/// `limit`.
pub(crate) fn staging_size(len: u64, limit: u64) -> u64 {
    len.max(SMALLEST).checked_next_power_of_two().unwrap_or(limit).min(limit & !3).max(len)
}

/// What lies where in a staging buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) base: Raw<Memory>,
    pub(crate) offset: u64,
    /// The place in the staging buffer.
    pub(crate) staged: u64,
    pub(crate) host: NonNull<u8>,
    pub(crate) len: u64,
}

/// What passes through one staging buffer.
#[derive(Debug)]
pub(crate) struct Load {
    /// How many bytes of the staging buffer are used: whole units.
    pub(crate) used: u64,
    pub(crate) pieces: Vec<Piece>,
}

/// Which side of a region is the device's place, and which is the host's.
pub(crate) type Sides = fn(&Region) -> (Spot, Spot);

/// Divides regions among staging buffers of at most `limit` bytes, which is a multiple of the unit.
pub(crate) fn loads_of(regions: &[Region], sides: Sides, limit: u64) -> Vec<Load> {
    let piece = |(region, staged): (Region, u64)| {
        let (Spot { base, offset }, host) = sides(&region);
        let host = host.base.as_ptr().cast::<u8>().wrapping_add(host.offset as usize);
        Some(Piece { base, offset, staged, host: NonNull::new(host)?, len: region.len })
    };
    let load = |group: StagedGroup| Load {
        used: group.len,
        pieces: group.regions.into_iter().filter_map(piece).collect(),
    };
    staged_groups(regions, limit, UNIT).into_iter().map(load).collect()
}

/// What became of a mapping, which a callback tells.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mapping(Arc<AtomicU8>);

impl Mapping {
    pub(crate) fn tell(&self, is_mapped: bool) {
        self.0.store(if is_mapped { MAPPED } else { FAILED }, Ordering::Release);
    }

    pub(crate) fn is_mapped(&self) -> bool {
        self.0.load(Ordering::Acquire) == MAPPED
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.0.load(Ordering::Acquire) == FAILED
    }
}

/// A read that is under way.
#[derive(Debug)]
pub(crate) struct Read {
    /// The place among the reads.
    pub(crate) number: u64,
    /// The place among all work.
    pub(crate) order: u64,
    pub(crate) staging: wgpu::Buffer,
    pub(crate) load: Load,
    pub(crate) mapping: Mapping,
}

/// The reads of a queue that are not finished, and staging buffers that wait for their next use.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// In the order of their numbers.
    under_way: VecDeque<Read>,
    spare: Vec<wgpu::Buffer>,
}

// SAFETY: buffers, which any thread may use, and addresses in host memory that the caller of
// `Driver::copy` keeps until the queue has passed, for whichever thread (UNS-21).
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
    pub(crate) fn take(&mut self, size: u64) -> Option<wgpu::Buffer> {
        let found = self.spare.iter().rposition(|spare| spare.size() == size)?;
        Some(self.spare.remove(found))
    }

    /// Keeps a staging buffer that nothing uses, and drops those that are too many.
    pub(crate) fn keep(&mut self, staging: wgpu::Buffer) {
        self.spare.push(staging);
        let mut kept: u64 = self.spare.iter().map(wgpu::Buffer::size).sum();
        while kept > KEPT_BYTES || self.spare.len() > KEPT_BUFFERS {
            kept -= self.spare.remove(0).size();
        }
    }

    /// Moves the bytes of the first reads to where the bytes belong, up to a read whose buffer is
    /// not mapped yet: a point that is behind a later read is behind that one, too. So a question
    /// takes no time for reads that are still under way, however many there are. `unmap` ends a
    /// mapping. `fail` is told the places among all work of the reads that failed: under the lock,
    /// because a read that is not under way any more counts as done.
    pub(crate) fn finish(&mut self, unmap: impl Fn(&wgpu::Buffer), fail: impl Fn(u64)) {
        while let Some(first) = self.under_way.front() {
            if first.mapping.0.load(Ordering::Acquire) == PENDING {
                return;
            }
            let Some(read) = self.under_way.pop_front() else { return };
            if read.mapping.is_mapped() && empty(&read) {
                unmap(&read.staging);
                self.keep(read.staging);
            } else {
                fail(read.order);
            }
        }
    }

    /// Gives up all reads of a lost device. What callbacks say of the reads later is ignored.
    pub(crate) fn give_up(&mut self) {
        self.under_way.clear();
        self.spare.clear();
    }
}

/// Moves the bytes of a mapped buffer to host memory. Returns whether wgpu showed them.
fn empty(read: &Read) -> bool {
    let Ok(view) = read.staging.get_mapped_range(..read.load.used) else { return false };
    for piece in &read.load.pieces {
        let (start, len) = (piece.staged as usize, piece.len as usize);
        let Some(bytes) = view.get(start..start + len) else { return false };
        // SAFETY: UNS-21, which the caller of `Driver::copy` kept: the host memory may be written
        // until the queue has passed the copy, which nobody is told before this is done. The view
        // shows the staging buffer's bytes, which lie elsewhere.
        unsafe { bytes.as_ptr().copy_to_nonoverlapping(piece.host.as_ptr(), len) };
    }
    true
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
