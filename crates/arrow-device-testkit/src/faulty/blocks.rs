//! The allocations that were made through the wrapper. They are recorded so that no spoiled copy
//! leaves its allocation.

use std::collections::BTreeMap;

use arrow_device::driver::{Addressing, Raw, Spot};
use arrow_device::{Memory, Queue};

/// An allocation, or a part of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct FaultyBlock {
    pub(super) memory: Raw<Memory>,
    pub(super) len: u64,
    /// The number of the wrapped device that the allocation is on.
    pub(super) member: usize,
    /// How many owners the allocation has.
    pub(super) owners: usize,
    /// The queue that the allocation was made for.
    pub(super) queue: Option<Raw<Queue>>,
    /// Whether the copy that clears the allocation is still to be submitted.
    pub(super) is_to_clear: bool,
    /// The allocation that this is a part of.
    pub(super) whole: Option<Raw<Memory>>,
}

/// The allocations that exist now.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    live: BTreeMap<usize, FaultyBlock>,
    bytes: u64,
}

/// The place of a spot in its allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpotInBlock {
    pub(super) block: Raw<Memory>,
    /// How many bytes the spot is behind the start of the allocation.
    pub(super) begin: u64,
    pub(super) len: u64,
}

impl SpotInBlock {
    /// Returns how many bytes there are from the spot to the end of its allocation.
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

    /// Finds an allocation of this length that has one owner.
    pub(super) fn another_of(&mut self, len: u64, member: usize) -> Option<Raw<Memory>> {
        let is_it = |block: &FaultyBlock| {
            let is_like = (block.len, block.member) == (len, member);
            is_like && block.owners == 1 && block.whole.is_none()
        };
        let block = self.live.values_mut().find(|block| is_it(block))?;
        block.owners += 1;
        Some(block.memory)
    }

    /// Returns the allocations that were made for a queue.
    pub(super) fn of_queue(&self, queue: Raw<Queue>) -> Vec<Raw<Memory>> {
        let of_queue = self.live.values().filter(|block| block.queue == Some(queue));
        of_queue.map(|block| block.memory).collect()
    }

    /// Returns the place of a spot. `None` for memory that was not allocated through the wrapper.
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
