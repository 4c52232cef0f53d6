//! Copies of many pieces from the host: staging buffers that the host maps.
//!
//! The pieces of a list are gathered in a mapped buffer, one behind the other, and one submission
//! copies them to where they belong. Afterwards the runtime is asked to map the buffer again, which
//! it does once the queue has passed the copy, so the next list finds mapped memory that was used
//! before: fresh memory costs more than the copy. A write of the queue for each piece would have
//! the runtime make a buffer for each. A list with more bytes than one buffer has passes through
//! several, one after the other, each with a submission of its own.

use std::sync::Arc;

use crate::api::{Api, Handle};
use crate::reads::{Mapping, Staging, release};

/// How many bytes are kept for the next use.
const KEPT_BYTES: u64 = 64 << 20;
const KEPT_BUFFERS: usize = 32;

/// A buffer that is mapped, or will be.
#[derive(Debug)]
struct Spare {
    staging: Staging,
    mapping: Arc<Mapping>,
}

/// Staging buffers that wait for their next use.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    spare: Vec<Spare>,
}

// SAFETY: handles of buffers, which any thread may use.
unsafe impl Send for Uploads {}

impl Uploads {
    /// Takes a buffer of this size that is mapped.
    pub(crate) fn take(&mut self, size: u64) -> Option<Staging> {
        let fits = |spare: &Spare| spare.staging.size == size && spare.mapping.is_mapped();
        let found = self.spare.iter().rposition(fits)?;
        Some(self.spare.remove(found).staging)
    }

    /// Keeps a buffer that the runtime was asked to map, and releases those that are too many or
    /// will never be mapped.
    pub(crate) fn keep(&mut self, api: &Api, staging: Staging, mapping: Arc<Mapping>) {
        self.spare.push(Spare { staging, mapping });
        self.spare.retain(|spare| {
            let has_failed = spare.mapping.has_failed();
            if has_failed {
                release(api, &spare.staging);
            }
            !has_failed
        });
        let mut kept: u64 = self.spare.iter().map(|spare| spare.staging.size).sum();
        while kept > KEPT_BYTES || self.spare.len() > KEPT_BUFFERS {
            let oldest = self.spare.remove(0);
            kept -= oldest.staging.size;
            release(api, &oldest.staging);
        }
    }

    pub(crate) fn release_all(&mut self, api: &Api) {
        for spare in std::mem::take(&mut self.spare) {
            release(api, &spare.staging);
        }
    }
}

/// A piece of the bytes of the host, and where it lies in the staging buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gathered {
    pub(crate) from: *const u8,
    pub(crate) at: u64,
    pub(crate) len: u64,
}

/// Fills a mapped buffer. Returns whether the runtime showed its bytes.
///
/// # Safety
/// The buffer is alive and mapped for writing, and has room for all pieces and, behind each, for
/// zeros up to the next multiple of `unit`. The pieces may be read (UNS-21).
pub(crate) unsafe fn fill(
    api: &Api,
    buffer: Handle,
    used: u64,
    unit: u64,
    all: impl Iterator<Item = Gathered>,
) -> bool {
    // SAFETY: the buffer is alive and mapped, as the caller promises.
    let bytes = unsafe { (api.mapped_room)(buffer, 0, used as usize) }.cast::<u8>();
    if bytes.is_null() {
        return false;
    }
    for piece in all {
        // SAFETY: the range has room for the piece, as the caller promises.
        let to = unsafe { bytes.add(piece.at as usize) };
        // SAFETY: UNS-21, which the caller keeps: the source has this many bytes. The range is the
        // staging buffer's own memory, which nobody else uses.
        unsafe { piece.from.copy_to_nonoverlapping(to, piece.len as usize) };
        let rest = piece.len.next_multiple_of(unit) - piece.len;
        // SAFETY: the bytes of the piece are inside of the range.
        let end = unsafe { to.add(piece.len as usize) };
        // SAFETY: there is room behind the piece up to the next unit, as the caller promises.
        unsafe { end.write_bytes(0, rest as usize) };
    }
    true
}
