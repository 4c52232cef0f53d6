//! Which parts of the simulated memory are in use.
//!
//! The free parts are kept by their addresses. An allocation takes the first one that is large
//! enough, and a part that is given back is joined with its free neighbours. All parts begin and
//! end at multiples of the alignment. So two allocations have no word in common where the number of
//! bytes in a word is a power of two. The first part of the memory is never given out: 0 is no
//! address.

use std::collections::BTreeMap;

/// The parts of a memory.
#[derive(Debug)]
pub(crate) struct Parts {
    alignment: u64,
    free: BTreeMap<u64, u64>,
    used: BTreeMap<u64, u64>,
}

impl Parts {
    /// A memory of so many bytes. The alignment is a power of two.
    pub(crate) fn new(size: u64, alignment: u64) -> Self {
        let mut free = BTreeMap::new();
        let end = size - size % alignment;
        if end > alignment {
            free.insert(alignment, end - alignment);
        }
        Self { alignment, free, used: BTreeMap::new() }
    }

    /// Gives out a part of at least so many bytes.
    pub(crate) fn allocate(&mut self, len: u64) -> Option<u64> {
        let len = len.max(1).checked_next_multiple_of(self.alignment)?;
        let (&at, &room) = self.free.iter().find(|(_, room)| **room >= len)?;
        self.free.remove(&at);
        if room > len {
            self.free.insert(at + len, room - len);
        }
        self.used.insert(at, len);
        Some(at)
    }

    /// Takes a part back. Nothing happens where no part was given out at the address.
    pub(crate) fn free(&mut self, at: u64) {
        let Some(mut len) = self.used.remove(&at) else { return };
        let mut begin = at;
        if let Some((&before, &room)) = self.free.range(..at).next_back()
            && before + room == at
        {
            self.free.remove(&before);
            (begin, len) = (before, room + len);
        }
        if let Some(room) = self.free.remove(&(begin + len)) {
            len += room;
        }
        self.free.insert(begin, len);
    }

    /// How many bytes there are from an address to the end of the part that it lies in.
    pub(crate) fn remaining(&self, at: u64) -> Option<u64> {
        let (&begin, &len) = self.used.range(..=at).next_back()?;
        (begin + len).checked_sub(at).filter(|rest| *rest > 0)
    }

    /// How many bytes are given out.
    pub(crate) fn in_use(&self) -> u64 {
        self.used.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_apart_and_come_back() {
        let mut parts = Parts::new(1024, 64);
        let taken: Vec<u64> = (0..5).map(|_| parts.allocate(65).unwrap()).collect();
        assert_eq!(taken, [64, 192, 320, 448, 576]);
        assert_eq!(parts.allocate(1024), None);
        for at in [192, 64, 448, 320, 576] {
            parts.free(at);
        }
        assert_eq!(parts.in_use(), 0);
        assert_eq!(parts.free, BTreeMap::from([(64, 960)]));
        assert_eq!(parts.allocate(960), Some(64));
        assert_eq!(parts.allocate(1), None);
    }

    #[test]
    fn an_address_that_was_not_given_out_is_not_taken_back() {
        let mut parts = Parts::new(1000, 64);
        let at = parts.allocate(1).unwrap();
        parts.free(at + 1);
        parts.free(0);
        assert_eq!(parts.in_use(), 64);
        parts.free(at);
        parts.free(at);
        assert_eq!(parts.free, BTreeMap::from([(64, 896)]));
    }

    #[test]
    fn an_address_inside_a_part_is_found() {
        let mut parts = Parts::new(1 << 20, 64);
        let at = parts.allocate(200).unwrap();
        assert_eq!(parts.remaining(at), Some(256));
        assert_eq!(parts.remaining(at + 100), Some(156));
        assert_eq!(parts.remaining(at + 256), None);
        assert_eq!(parts.remaining(at - 1), None);
    }

    #[test]
    fn lengths_without_end_do_not_fit() {
        let mut parts = Parts::new(u64::MAX, 64);
        assert_eq!(parts.allocate(u64::MAX), None);
        assert!(Parts::new(64, 64).allocate(1).is_none());
        assert!(Parts::new(0, 64).allocate(1).is_none());
    }
}
