//! The allocations that were made through the wrapper, so that no planted copy leaves one.

use std::collections::BTreeMap;

use arrow_device::driver::{Addressing, Raw, Spot};
use arrow_device::{Memory, Queue};

/// An allocation, or a part of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct FaultyBlock {
    pub(super) memory: Raw<Memory>,
    pub(super) len: u64,
    /// Which device of the wrapper it is on.
    pub(super) member: usize,
    /// How many have it.
    pub(super) owners: usize,
    /// The queue that it was allocated for.
    pub(super) queue: Option<Raw<Queue>>,
    /// Whether the clearing of it is still to be submitted.
    pub(super) is_to_clear: bool,
    /// What it is a part of.
    pub(super) whole: Option<Raw<Memory>>,
}

/// What is allocated now.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    live: BTreeMap<usize, FaultyBlock>,
    bytes: u64,
}

/// Where a spot lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpotInBlock {
    pub(super) block: Raw<Memory>,
    /// Bytes from the start of the allocation.
    pub(super) begin: u64,
    pub(super) len: u64,
}

impl SpotInBlock {
    /// Bytes from the spot to the end of its allocation.
    pub(super) fn remaining(&self) -> u64 {
        self.len.saturating_sub(self.begin)
    }
}

impl Blocks {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn add(&mut self, block: FaultyBlock) {
        if block.whole.is_none() {
            self.bytes += block.len;
        }
        self.live.insert(block.memory.bits(), block);
    }

    pub(super) fn remove(&mut self, memory: Raw<Memory>) -> Option<FaultyBlock> {
        let block = self.live.remove(&memory.bits())?;
        if block.whole.is_none() {
            self.bytes = self.bytes.saturating_sub(block.len);
        }
        Some(block)
    }

    pub(super) fn get_mut(&mut self, memory: Raw<Memory>) -> Option<&mut FaultyBlock> {
        self.live.get_mut(&memory.bits())
    }

    /// An allocation of this length that one owner has.
    pub(super) fn another_of(&mut self, len: u64, member: usize) -> Option<Raw<Memory>> {
        let is_it = |block: &FaultyBlock| {
            let is_like = (block.len, block.member) == (len, member);
            is_like && block.owners == 1 && block.whole.is_none()
        };
        let block = self.live.values_mut().find(|block| is_it(block))?;
        block.owners += 1;
        Some(block.memory)
    }

    /// The allocations that were made for a queue.
    pub(super) fn of_queue(&self, queue: Raw<Queue>) -> Vec<Raw<Memory>> {
        let of_queue = self.live.values().filter(|block| block.queue == Some(queue));
        of_queue.map(|block| block.memory).collect()
    }

    /// Where a spot lies; `None` for memory that nobody allocated here.
    pub(super) fn place(&self, spot: Spot, addressing: Addressing) -> Option<SpotInBlock> {
        let bits = spot.base.bits();
        let (start, block) = match addressing {
            Addressing::Handle => (bits, self.live.get(&bits)?),
            Addressing::Address => {
                let (start, block) = self.live.range(..=bits).next_back()?;
                let is_inside = ((bits - start) as u64) < block.len;
                if is_inside { (*start, block) } else { return None }
            }
        };
        let begin = (bits - start) as u64 + spot.offset;
        Some(SpotInBlock { block: block.memory, begin, len: block.len })
    }
}
