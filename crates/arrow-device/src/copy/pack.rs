//! The pieces that travel, and where in the one allocation each goes.

use super::known::KnownPieces;
use super::rebase::Rebase;
use super::source::Span;
use crate::device::driver::Spot;
use crate::{Error, ErrorKind, Result};

/// Bytes of one buffer, and their place among all.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) from: Spot,
    pub(super) len: u64,
    /// Where it begins in the packed result, a multiple of the alignment.
    pub(super) to: u64,
    pub(super) change: Change,
}

impl Piece {
    pub(super) fn span(&self) -> Span {
        Span { spot: self.from, len: self.len }
    }

    pub(super) fn end(&self) -> u64 {
        self.to + self.len
    }

    /// Whether there is something to read.
    pub(super) fn has_source(&self) -> bool {
        !matches!(self.change, Change::Zeros)
    }
}

/// What happens to a piece on its way.
#[derive(Debug)]
pub(super) enum Change {
    Nothing,
    /// Its offsets begin at another number.
    Rebase(Rebase),
    /// These are its bytes already.
    Made(Box<[u8]>),
    /// It comes from nowhere: zeros, no more of them than [`ZEROS`] has.
    Zeros,
}

/// What [`Change::Zeros`] is made of.
pub(super) static ZEROS: [u8; 8] = [0; 8];

/// All pieces of a copy. What was added before is not added again, so that what is shared moves once.
#[derive(Debug)]
pub(super) struct Pieces {
    list: Vec<Piece>,
    known: KnownPieces,
    /// A power of two.
    alignment: u64,
    end: u64,
    /// Bytes that did not have to move a second time.
    shared: u64,
}

impl Pieces {
    /// None yet, and about so many to come.
    pub(super) fn new(alignment: u64, expected: usize) -> Self {
        let (list, known) = (Vec::with_capacity(expected), KnownPieces::new(expected));
        Self { list, known, alignment, end: 0, shared: 0 }
    }

    /// Adds a piece and returns its number. `len` is not 0.
    #[inline(always)]
    pub(super) fn add(&mut self, from: Spot, len: u64, change: Change) -> u32 {
        debug_assert!(len > 0, "nothing is no piece");
        if !self.known.is_behind_all(from) {
            let is_same = |known: &Piece| is_same(&known.change, &change);
            let known = self.known.find_or_add(&self.list, Span { spot: from, len }, is_same);
            if let Ok(number) = known {
                self.shared = self.shared.saturating_add(len);
                return number;
            }
        }
        // What does not fit stays at the largest number, and is refused with the whole.
        let mask = self.alignment - 1;
        let to = self.end.checked_add(mask).map_or(u64::MAX, |end| end & !mask);
        self.end = to.saturating_add(len);
        self.list.push(Piece { from, len, to, change });
        self.list.len() as u32 - 1
    }

    pub(super) fn list(&self) -> &[Piece] {
        &self.list
    }

    /// Refuses what no memory holds: lengths are another party's numbers, and their sum may be anything.
    pub(super) fn check(&self) -> Result<()> {
        if i64::try_from(self.end).is_ok() {
            return Ok(());
        }
        let message = "the buffers are together longer than any memory";
        Err(Error::new(ErrorKind::LimitExceeded, message))
    }

    /// How long the packed result is.
    pub(super) fn total(&self) -> u64 {
        self.end
    }

    /// How many bytes move.
    pub(super) fn bytes(&self) -> u64 {
        self.list.iter().map(|piece| piece.len).sum()
    }

    pub(super) fn shared(&self) -> u64 {
        self.shared
    }

    pub(super) fn alignment(&self) -> u64 {
        self.alignment
    }
}

fn is_same(one: &Change, other: &Change) -> bool {
    match (one, other) {
        (Change::Nothing, Change::Nothing) | (Change::Zeros, Change::Zeros) => true,
        (Change::Rebase(one), Change::Rebase(other)) => one == other,
        (Change::Made(one), Change::Made(other)) => one == other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::driver::Raw;

    #[test]
    fn the_same_bytes_that_change_in_another_way_are_another_piece() {
        let rebase = |is_wide, first| Change::Rebase(Rebase { is_wide, first, skip: 0 });
        let changes = || {
            [
                Change::Nothing,
                Change::Zeros,
                Change::Made(Box::new([1; 8])),
                Change::Made(Box::new([2; 8])),
                rebase(true, 1),
                rebase(true, 2),
                rebase(false, 1),
            ]
        };
        let mut pieces = Pieces::new(64, 0);
        let from = Spot { base: Raw::from_bits(64), offset: 8 };
        for _ in 0..2 {
            for (number, change) in (0..).zip(changes()) {
                assert_eq!(pieces.add(from, 8, change), number);
            }
        }
        assert_eq!(pieces.shared(), 8 * changes().len() as u64);
    }
}
