//! What is known of an allocation, and of the handles for parts of one.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::custody::Custody;
use crate::marks::Marks;
use crate::memory::DeviceBytes;
use crate::site::SiteId;
use crate::track::History;

/// Where an allocation is, and who besides its device has a way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// On the device. The host cannot read it.
    Device,
    /// On the device, from the pool of this number: whoever was given access to the pool has it,
    /// too.
    Pooled(usize),
    /// In the host's memory, and in reach of all devices.
    Pinned,
    /// In reach of the host and of all devices, and never too much of it.
    Managed,
}

impl Placement {
    /// Whether the host can read and write it.
    pub fn is_for_host(self) -> bool {
        matches!(self, Self::Pinned | Self::Managed)
    }
}

/// An allocation. Kept after it was freed, to say what a late use was of.
pub(crate) struct Allocation {
    pub(crate) device: usize,
    pub(crate) placement: Placement,
    pub(crate) address: usize,
    pub(crate) len: u64,
    /// `None` once it is freed.
    pub(crate) block: Option<DeviceBytes>,
    pub(crate) history: History,
    pub(crate) made: SiteId,
    pub(crate) freed: Option<SiteId>,
    /// What was shared: from then on nobody writes.
    pub(crate) shared: Marks,
    /// Which views, arrays and memories were told places in the allocation.
    pub(crate) custody: Custody,
    /// The queues whose work it was made for or used by.
    pub(crate) used_on: BTreeSet<usize>,
    pub(crate) mappings: Vec<(Range<u64>, SiteId)>,
    /// What the host has mapped to fill it.
    pub(crate) fillings: Vec<(Range<u64>, SiteId)>,
}

/// A part that has a handle.
#[derive(Clone, Copy)]
pub(crate) struct PartHandle {
    pub(crate) allocation: usize,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) made: SiteId,
}

impl PartHandle {
    pub(crate) fn bytes(self) -> Range<u64> {
        self.offset..self.offset + self.len
    }
}
