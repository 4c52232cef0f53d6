//! The records of allocations, and of the handles for parts of them.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::custody::Custody;
use crate::marks::Marks;
use crate::memory::DeviceBytes;
use crate::site::SiteId;
use crate::track::History;

/// Where an allocation lies, and who can reach it besides its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// On the device. The host cannot read it.
    Device,
    /// On the device, from the pool of this number. Devices that were given access to the pool can
    /// reach it too.
    Pooled(usize),
    /// On the device, mapped by hand, with this number. Only devices that were given access to the
    /// mapping can reach it, and its own device is no exception.
    Mapped(usize),
    /// In host memory. All devices can reach it.
    Pinned,
    /// In memory that the host and all devices can reach, and never more than a device has.
    Managed,
}

impl Placement {
    /// Whether the host can read and write it.
    pub fn is_for_host(self) -> bool {
        matches!(self, Self::Pinned | Self::Managed)
    }

    /// Whether an allocation counts as memory of its device. What is mapped by hand is counted by
    /// whoever made it, because it can be mapped several times.
    pub(crate) fn counts(self) -> bool {
        !matches!(self, Self::Pinned | Self::Mapped(_))
    }
}

/// An allocation. The record is kept after the allocation was freed, to describe a late use.
pub(crate) struct Allocation {
    pub(crate) device: usize,
    pub(crate) placement: Placement,
    pub(crate) address: usize,
    pub(crate) len: u64,
    /// The bytes, `None` once the allocation is freed.
    pub(crate) block: Option<DeviceBytes>,
    pub(crate) history: History,
    pub(crate) made: SiteId,
    pub(crate) freed: Option<SiteId>,
    /// The bytes that were shared: nobody may write to them any more.
    pub(crate) shared: Marks,
    /// The views, arrays and memories that were told places in the allocation.
    pub(crate) custody: Custody,
    /// The queues that the allocation was made for, or whose work used it.
    pub(crate) used_on: BTreeSet<usize>,
    pub(crate) mappings: Vec<(Range<u64>, SiteId)>,
    /// The bytes that the host has mapped to fill them.
    pub(crate) fillings: Vec<(Range<u64>, SiteId)>,
}

/// A part of an allocation that has a handle.
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
