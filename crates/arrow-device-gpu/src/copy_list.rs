//! [`CopyList`]: copies that are submitted in one call.

use arrow_device::driver::{Region, Spot};

use crate::{Code, CopyAttributes, Functions, Handle, MemoryLocation};

/// The order in which the driver reads the source of a copy: in stream order.
const IN_STREAM_ORDER: i32 = 1;

/// A list of copies for one call.
#[derive(Debug)]
pub struct CopyList {
    /// The targets.
    pub to: Vec<Handle>,
    /// The sources.
    pub from: Vec<Handle>,
    /// The lengths in bytes.
    pub len: Vec<usize>,
    /// The attributes of all copies.
    pub attributes: CopyAttributes,
    /// The number of the first copy that has the attributes: 0.
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

    /// Submits the copies by the function that both vendors have. `None` where the driver is too
    /// old to have it.
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

/// Returns the address of a spot.
pub(crate) fn address(spot: Spot) -> Handle {
    spot.base.as_ptr().cast::<u8>().wrapping_add(spot.offset as usize).cast()
}
