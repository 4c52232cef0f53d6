//! [`CopyList`]: copies that are submitted in one call.

use arrow_device::driver::{Region, Spot};

use crate::{Code, CopyAttributes, Functions, Handle, MemoryLocation};

/// The source of a copy is read when the stream has come so far.
const IN_STREAM_ORDER: i32 = 1;

/// A list of copies for one call.
#[derive(Debug)]
pub struct CopyList {
    /// Where each goes.
    pub to: Vec<Handle>,
    /// Where each comes from.
    pub from: Vec<Handle>,
    /// How long each is.
    pub len: Vec<usize>,
    /// How they are made.
    pub attributes: CopyAttributes,
    /// The copy from which on the attributes hold, which is the first one.
    pub first: usize,
}

impl CopyList {
    pub(crate) fn new(regions: &[Region]) -> Self {
        let anywhere = MemoryLocation::default();
        Self {
            to: regions.iter().map(|region| address(region.to)).collect(),
            from: regions.iter().map(|region| address(region.from)).collect(),
            len: regions.iter().map(|region| region.len as usize).collect(),
            attributes: CopyAttributes {
                order: IN_STREAM_ORDER,
                from: anywhere,
                to: anywhere,
                flags: 0,
            },
            first: 0,
        }
    }

    /// Submits the copies by the function that both vendors have; `None` where the driver is too
    /// old.
    ///
    /// # Safety
    /// UNS-21, for each of the copies: both sides have this many bytes and stay until the stream
    /// has passed, which is alive.
    pub(crate) unsafe fn submit(&mut self, functions: &Functions, stream: Handle) -> Option<Code> {
        let copy = functions.memcpy_batch?;
        let (to, from) = (self.to.as_mut_ptr(), self.from.as_mut_ptr());
        let (len, count) = (self.len.as_mut_ptr(), self.len.len());
        let (attributes, first) = (&raw mut self.attributes, &raw mut self.first);
        let mut failed = 0;
        // SAFETY: UNS-21, which the caller promises; the three lists have `count` entries.
        Some(unsafe { copy(to, from, len, count, attributes, first, 1, &mut failed, stream) })
    }
}

/// Where a spot is.
pub(crate) fn address(spot: Spot) -> Handle {
    spot.base.as_ptr().cast::<u8>().wrapping_add(spot.offset as usize).cast()
}
