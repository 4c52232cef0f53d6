//! [`KeptBlocks`]: the blocks that a [`Recycler`](super::Recycler) keeps, by length and by age.
//!
//! 1. A block lies in one place on the heap, from its first use until it is freed. Only its address
//!    moves when the block is kept and given out again.
//! 2. Blocks of one driver and one length stand in a queue, in the order in which they came back.
//!    Whether a block is given out or has to go, it is the first one of its queue.
//! 3. A tree finds a queue by its driver and length: the shortest blocks that fit are those of the
//!    first queue from the wanted length on.
//! 4. A second tree finds a queue by the age of its first block: the oldest block of all is the
//!    first one of the first queue there.
//!
//! Both trees have as many entries as there are queues. Equal blocks, of which a batch may need a
//! thousand, are therefore taken and kept without a search.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

use super::allocator::RecyclerInner;
use super::driver::Runtime;
use super::memory::MemoryQueue;
use super::{Device, Memory};
use crate::process::ForkMoment;

/// A block of a recycler, which is kept and lent in turn.
pub(super) struct RecycledBlock {
    pub(super) whole: Memory,
    pub(super) home: Weak<RecyclerInner>,
    /// The count of failed uses when the block was lent.
    pub(super) failures: u64,
    /// When the block was lent.
    pub(super) forks: ForkMoment,
    /// Empty, with the capacity of the list of queues that the last user used the block on.
    pub(super) room: Vec<MemoryQueue>,
    /// The age of the block while it is kept: a block that came back later has a higher number.
    number: u64,
}

impl RecycledBlock {
    /// A block that is not lent yet.
    pub(super) fn new(whole: Memory, home: Weak<RecyclerInner>) -> Box<Self> {
        let (forks, room) = (ForkMoment::now(), Vec::new());
        Box::new(Self { whole, home, failures: 0, forks, room, number: 0 })
    }
}

/// A driver, which is identified by its address as long as a block of it is kept, and a length.
type BlockKind = (usize, u64);

/// Blocks of one kind, the oldest first. There is at least one.
struct BlockQueue {
    first: Box<RecycledBlock>,
    others: VecDeque<Box<RecycledBlock>>,
}

/// The blocks that a recycler keeps.
#[derive(Default)]
pub(super) struct KeptBlocks {
    queues: BTreeMap<BlockKind, BlockQueue>,
    /// The kind of each queue, by the number of its first block.
    by_age: BTreeMap<u64, BlockKind>,
    next: u64,
    bytes: u64,
}

fn driver_of(device: &Device) -> usize {
    Arc::as_ptr(device.driver()).addr()
}

impl KeptBlocks {
    /// How many bytes the blocks have.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn keep(&mut self, mut block: Box<RecycledBlock>) {
        let number = self.next;
        block.number = number;
        self.next += 1;
        self.bytes += block.whole.len();
        let kind = (driver_of(block.whole.device()), block.whole.len());
        match self.queues.get_mut(&kind) {
            Some(queue) => queue.others.push_back(block),
            None => {
                self.queues.insert(kind, BlockQueue { first: block, others: VecDeque::new() });
                self.by_age.insert(number, kind);
            }
        }
    }

    /// Takes the oldest of the shortest blocks whose kinds are in this range.
    fn take(&mut self, shortest: BlockKind, longest: BlockKind) -> Option<Box<RecycledBlock>> {
        let (kind, queue) = self.queues.range_mut(shortest..=longest).next()?;
        let kind = *kind;
        let block = match queue.others.pop_front() {
            Some(next) => {
                self.by_age.insert(next.number, kind);
                std::mem::replace(&mut queue.first, next)
            }
            None => self.queues.remove(&kind)?.first,
        };
        self.by_age.remove(&block.number);
        self.bytes -= block.whole.len();
        Some(block)
    }

    /// The shortest block of a device that has at least `len` bytes and at most twice as many. Of
    /// several such blocks, the oldest one.
    pub(super) fn take_fitting(&mut self, device: &Device, len: u64) -> Option<Box<RecycledBlock>> {
        let driver = driver_of(device);
        let longest = len.saturating_mul(2).saturating_add(1);
        self.take((driver, len), (driver, longest))
    }

    /// Keeps a block, and returns the blocks that have to go, for the caller to drop without the
    /// lock: the oldest ones, or the block itself where it is longer than the bound.
    #[expect(clippy::vec_box, reason = "a block stays where it is, also on its way out")]
    pub(super) fn keep_newest(
        &mut self,
        block: Box<RecycledBlock>,
        bound: u64,
    ) -> Vec<Box<RecycledBlock>> {
        if block.whole.len() > bound {
            return vec![block];
        }
        self.keep(block);
        let mut gone = Vec::new();
        while self.bytes > bound
            && let Some(kind) = self.by_age.first_key_value().map(|(_, kind)| *kind)
            && let Some(oldest) = self.take(kind, kind)
        {
            gone.push(oldest);
        }
        gone
    }

    /// Takes out all blocks of a runtime. Takes no time for each block of other runtimes: the kinds
    /// of a driver stand one behind the other.
    #[expect(clippy::vec_box, reason = "a block stays where it is, also on its way out")]
    pub(super) fn take_of(&mut self, runtime: Runtime) -> Vec<Box<RecycledBlock>> {
        let mut taken = Vec::new();
        let mut next = Some(0);
        while let Some((kind, queue)) = next.and_then(|from| self.queues.range((from, 0)..).next())
        {
            let driver = kind.0;
            if queue.first.whole.device().driver().runtime() == runtime {
                let take = || self.take((driver, 0), (driver, u64::MAX));
                taken.extend(std::iter::from_fn(take));
            }
            next = driver.checked_add(1);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::host;

    const MANY: u64 = if cfg!(miri) { 50 } else { 100_000 };

    fn block(device: &Device, len: u64) -> Box<RecycledBlock> {
        RecycledBlock::new(device.allocate(len).unwrap(), Weak::new())
    }

    fn lens(blocks: impl IntoIterator<Item = Box<RecycledBlock>>) -> Vec<u64> {
        blocks.into_iter().map(|block| block.whole.len()).collect()
    }

    fn is_empty(blocks: &KeptBlocks) -> bool {
        blocks.bytes == 0 && blocks.queues.is_empty() && blocks.by_age.is_empty()
    }

    #[test]
    fn the_shortest_block_that_fits_is_given_out_and_the_oldest_goes() {
        let (host, mut blocks) = (Device::host(), KeptBlocks::default());
        let mut keep = |len| {
            let gone = lens(blocks.keep_newest(block(&host, len), 100));
            (gone, blocks.bytes)
        };
        assert_eq!([keep(40), keep(20), keep(30)], [40, 60, 90].map(|bytes| (vec![], bytes)));
        assert_eq!(keep(101), (vec![101], 90), "longer than all that may be kept");
        assert_eq!(keep(51), (vec![40, 20], 81), "the oldest ones");
        let mut take = |len| blocks.take_fitting(&host, len).map(|block| block.whole.len());
        assert_eq!([take(52), take(14)], [None; 2], "none is so long, none so short");
        assert_eq!([take(26), take(26), take(26)], [Some(30), Some(51), None]);
        assert!(is_empty(&blocks));
    }

    #[test]
    fn equal_blocks_stand_in_one_queue_and_are_given_out_as_they_came_back() {
        let (host, mut blocks) = (Device::host(), KeptBlocks::default());
        for count in 1..=MANY {
            assert!(blocks.keep_newest(block(&host, 64), u64::MAX).is_empty());
            assert_eq!((blocks.queues.len(), blocks.by_age.len()), (1, 1), "{count} blocks");
        }
        assert_eq!(blocks.bytes, 64 * MANY);
        for number in 0..MANY {
            let block = blocks.take_fitting(&host, 60);
            assert_eq!(block.map(|block| block.number), Some(number));
        }
        assert!(is_empty(&blocks));
    }

    #[test]
    fn of_blocks_of_many_lengths_those_stay_that_came_back_last() {
        let (host, mut blocks) = (Device::host(), KeptBlocks::default());
        let len_of = |number: u64| 1 + number * 7919 % 997;
        let bound = MANY * 200;
        let mut gone = Vec::new();
        for number in 0..MANY {
            gone.extend(lens(blocks.keep_newest(block(&host, len_of(number)), bound)));
        }
        // The last ones, as many as the bound has room for.
        let (mut first, mut bytes) = (MANY, 0);
        while first > 0 && bytes + len_of(first - 1) <= bound {
            first -= 1;
            bytes += len_of(first);
        }
        assert!(first > 0 && first < MANY);
        assert_eq!(gone, (0..first).map(len_of).collect::<Vec<_>>());
        assert_eq!(blocks.bytes, bytes);
        // Given out from the shortest on, each length in the order of its blocks.
        let mut left: Vec<(u64, u64)> = (first..MANY).map(|n| (len_of(n), n)).collect();
        left.sort_unstable();
        for (len, number) in left {
            let block = blocks.take_fitting(&host, len).unwrap();
            assert_eq!((block.whole.len(), block.number), (len, number));
        }
        assert!(is_empty(&blocks));
    }

    #[test]
    fn blocks_of_other_runtimes_take_no_time_where_those_of_one_are_taken_out() {
        let (host, mut blocks) = (Device::host(), KeptBlocks::default());
        let count = MANY / 10;
        for len in 1..=count {
            assert!(blocks.keep_newest(block(&host, len), u64::MAX).is_empty());
        }
        let bytes = blocks.bytes;
        let start = std::time::Instant::now();
        for _ in 0..count {
            assert!(blocks.take_of(Runtime { name: "another", instance: 1 }).is_empty());
        }
        // A walk over all blocks takes a millisecond.
        assert!(
            start.elapsed().as_millis() < u128::from(count / 5 + 1000),
            "{:?}",
            start.elapsed()
        );
        assert_eq!((blocks.bytes, blocks.queues.len() as u64), (bytes, count));
        assert_eq!(blocks.take_of(host.driver().runtime()).len() as u64, count);
        assert!(is_empty(&blocks));
    }

    /// The driver, the length and the address of each block, the oldest first.
    #[derive(Default)]
    struct SearchedBlocks(Vec<(usize, u64, usize)>);

    impl SearchedBlocks {
        fn keep(&mut self, block: (usize, u64, usize), bound: u64) -> Vec<usize> {
            if block.1 > bound {
                return vec![block.2];
            }
            self.0.push(block);
            let mut gone = Vec::new();
            while self.bytes() > bound {
                gone.push(self.0.remove(0).2);
            }
            gone
        }

        fn take(&mut self, driver: usize, len: u64) -> Option<usize> {
            let fits = |block: &(usize, u64, usize)| {
                block.0 == driver && block.1 >= len && block.1 <= 2 * len + 1
            };
            let fitting = self.0.iter().enumerate().filter(|(_, block)| fits(block));
            let (index, _) = fitting.min_by_key(|(_, block)| block.1)?;
            Some(self.0.remove(index).2)
        }

        fn bytes(&self) -> u64 {
            self.0.iter().map(|block| block.1).sum()
        }
    }

    #[test]
    fn the_blocks_of_two_drivers_are_given_out_as_a_search_through_all_finds_them() {
        let devices = [Device::host(), host::another()];
        let (mut blocks, mut searched) = (KeptBlocks::default(), SearchedBlocks::default());
        let address = |block: &RecycledBlock| block.whole.raw().bits();
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let (mut given_out, mut gone) = (0, 0);
        for step in 0..if cfg!(miri) { 200 } else { 50_000 } {
            let device = &devices[usize::from(random(3) == 0)];
            // Few lengths, so that there are equal blocks, and now and then any.
            let len = 1 + if random(8) == 0 { random(700) } else { 16 * random(12) };
            if random(5) < 3 {
                let new = block(device, len);
                let known = (driver_of(device), len, address(&new));
                let evicted = blocks.keep_newest(new, 600);
                let evicted: Vec<_> = evicted.iter().map(|block| address(block)).collect();
                gone += evicted.len();
                assert_eq!(evicted, searched.keep(known, 600), "step {step}");
            } else {
                let taken = blocks.take_fitting(device, len);
                given_out += usize::from(taken.is_some());
                let taken = taken.map(|block| address(&block));
                assert_eq!(taken, searched.take(driver_of(device), len), "step {step}");
            }
            assert_eq!(blocks.bytes, searched.bytes(), "step {step}");
            assert_eq!(blocks.queues.len(), blocks.by_age.len(), "step {step}");
        }
        assert!(given_out > 20 && gone > 20, "{given_out}, {gone}");
        let all = blocks.take_of(devices[0].driver().runtime());
        assert_eq!(all.len(), searched.0.len());
        assert!(is_empty(&blocks));
    }
}
