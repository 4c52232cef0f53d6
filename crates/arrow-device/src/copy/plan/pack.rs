//! [`Pieces`]: the bytes that travel, and where in the packed result each piece goes.
//!
//! A new piece goes to the next multiple of the alignment behind the piece before. Bytes that were
//! added before are found by [`KnownPieces`], and keep their place.

use super::known::KnownPieces;
use super::piece::{Change, Piece};
use crate::copy::source::Span;
use crate::device::driver::Spot;
use crate::{Error, ErrorKind, Result};

/// All pieces of a copy. A piece that was added before is not added again, so that shared buffers
/// move once.
#[derive(Debug)]
pub(in crate::copy) struct Pieces {
    list: Vec<Piece>,
    known: KnownPieces,
    /// A power of two.
    alignment: u64,
    end: u64,
    /// How many bytes were not added a second time.
    shared: u64,
}

impl Pieces {
    /// No pieces yet. About `expected` pieces will come.
    pub(in crate::copy) fn new(alignment: u64, expected: usize) -> Self {
        let (list, known) = (Vec::with_capacity(expected), KnownPieces::new(expected));
        Self { list, known, alignment, end: 0, shared: 0 }
    }

    /// Adds a piece and returns its number. `len` must not be 0.
    #[inline(always)]
    pub(in crate::copy) fn add(&mut self, from: Spot, len: u64, change: Change) -> u32 {
        debug_assert!(len > 0, "nothing is no piece");
        if !self.known.is_behind_all(from) {
            let is_same = |known: &Piece| known.change == change;
            let known = self.known.find_or_add(&self.list, Span { spot: from, len }, is_same);
            if let Ok(number) = known {
                self.shared = self.shared.saturating_add(len);
                return number;
            }
        }
        // A sum that overflows stays at the largest number, which `check` refuses.
        let mask = self.alignment - 1;
        let to = self.end.checked_add(mask).map_or(u64::MAX, |end| end & !mask);
        self.end = to.saturating_add(len);
        self.list.push(Piece { from, len, to, change });
        self.list.len() as u32 - 1
    }

    pub(in crate::copy) fn list(&self) -> &[Piece] {
        &self.list
    }

    /// Refuses a result that is longer than any memory. Lengths are numbers of another party, and
    /// their sum may be anything.
    pub(in crate::copy) fn check(&self) -> Result<()> {
        if i64::try_from(self.end).is_ok() {
            return Ok(());
        }
        let message = "the buffers are together longer than any memory";
        Err(Error::new(ErrorKind::LimitExceeded, message))
    }

    /// How long the packed result is.
    pub(in crate::copy) fn total(&self) -> u64 {
        self.end
    }

    /// How many bytes move.
    pub(in crate::copy) fn bytes(&self) -> u64 {
        self.list.iter().map(|piece| piece.len).sum()
    }

    pub(in crate::copy) fn shared(&self) -> u64 {
        self.shared
    }

    pub(in crate::copy) fn alignment(&self) -> u64 {
        self.alignment
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::plan::rebase::Rebase;
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
