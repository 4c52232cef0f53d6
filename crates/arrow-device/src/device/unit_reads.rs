//! [`UnitReads`]: copies to the host that wait for nothing, on devices that copy only whole units
//! or that may wait in copies to plain memory.

use super::Queue;
use super::driver::{Raw, Region, Route, Spot, WaitingCopies};
use super::granular::{back, lead};
use super::staging::{Staging, StagingBlock, copy_bytes, host_address, zeroed};
use crate::Result;

/// A list of copies to the host that waits for nothing. Two kinds of sources go to memory of the
/// list first, from where the host takes the bytes after the queue has passed the copies: a source
/// that begins inside a unit, which is read from the beginning of the unit, and every source where
/// a copy to plain memory may wait.
///
/// The list, and the memory that it writes to, have to be kept until the queue has passed the
/// copies.
pub(crate) struct UnitReads {
    /// The regions that the driver is given.
    regions: Vec<Region>,
    odd: Vec<OddRead>,
    /// The memory for sources whose bytes the host moves on.
    staged: Staged,
}

/// The memory of a list.
enum Staged {
    Plain(Vec<u8>),
    OfDriver(StagingBlock),
}

impl Staged {
    fn address(&mut self) -> *mut u8 {
        match self {
            Self::Plain(bytes) => bytes.as_mut_ptr(),
            Self::OfDriver(block) => block.address(),
        }
    }
}

/// The memory that a list of copies goes to, and whether the caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadsTo {
    /// Memory of any kind.
    Any,
    /// Memory to which the queue's device copies without a wait.
    NoWait,
    /// Memory of any kind, in a call that waits.
    AndWait,
}

/// Bytes that go to the memory of the list first.
struct OddRead {
    from: Spot,
    to: Spot,
    len: u64,
}

impl UnitReads {
    /// The copies of these regions, on this queue.
    pub(crate) fn new(queue: &Queue, mut regions: Vec<Region>, to: ReadsTo) -> Result<Self> {
        let device = queue.device();
        let properties = device.properties();
        let may_wait = properties.waiting_copies != WaitingCopies::None;
        let all_by_driver = may_wait && to == ReadsTo::Any;
        let lead = |region: &Region| lead(region.from, properties);
        let is_odd = |region: &Region| region.len > 0 && (all_by_driver || lead(region) > 0);
        let is_plain = properties.copy_unit == 1 && !all_by_driver;
        if is_plain || !regions.iter().any(is_odd) {
            return Ok(Self { regions, odd: Vec::new(), staged: Staged::Plain(Vec::new()) });
        }
        let widened = |region: &Region| lead(region) + region.len;
        let room = regions.iter().filter(|region| is_odd(region)).map(widened).sum();
        let mut staged = if may_wait && to != ReadsTo::AndWait {
            let block = Staging::take(device, room)?;
            block.require_no_wait(device)?;
            Staged::OfDriver(block)
        } else {
            Staged::Plain(zeroed(room)?)
        };
        let (base, mut offset) = (Raw::from_ptr(staged.address().cast()), 0);
        let mut odd = Vec::new();
        for region in regions.iter_mut().filter(|region| is_odd(region)) {
            let (lead, len) = (lead(region), widened(region));
            let from = Spot { base, offset: offset + lead };
            odd.push(OddRead { from, to: region.to, len: region.len });
            *region = Region { from: back(region.from, lead), to: Spot { base, offset }, len };
            offset += len;
        }
        Ok(Self { regions, odd, staged })
    }

    /// Submits the copies to the queue that the list was made for.
    ///
    /// # Safety
    /// UNS-21. The list stays until the queue has passed the copies.
    pub(crate) unsafe fn submit(&self, queue: &Queue) -> Result<()> {
        // SAFETY: UNS-21, as the caller promises: an allocation begins at a unit (DRV-9, UNS-18),
        // so that it has what a source was widened by; `staged` has room, and the caller keeps it.
        unsafe { queue.submit_copies(Route::ToHost, &self.regions) }
    }

    /// Whether all bytes are where they belong as soon as the queue has passed the copies.
    pub(crate) fn has_finished(&self) -> bool {
        self.odd.is_empty()
    }

    /// Moves the bytes that went to the memory of the list to their destinations.
    ///
    /// # Safety
    /// The queue has passed the copies, and the memory that the regions named is still there.
    pub(crate) unsafe fn finish(self) {
        for OddRead { from, to, len } in &self.odd {
            // SAFETY: `staged` has the bytes, since the queue has passed the copies; the memory
            // that the region named has room for them (UNS-21), and is no part of `staged`.
            unsafe { copy_bytes(host_address(*from), host_address(*to), *len) };
        }
        drop(self.staged);
    }
}
