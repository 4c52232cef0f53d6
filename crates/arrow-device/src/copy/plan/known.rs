//! [`KnownPieces`]: finds the pieces that come from the same place, among very many.
//!
//! It has numbers of pieces and nothing of theirs, so that it is small. Places are another party's
//! numbers: where they lie in the table depends on a secret, so that nobody can make all of them
//! lie in one row.

use std::hash::{BuildHasher, RandomState};

use super::piece::Piece;
use crate::copy::source::Span;
use crate::device::driver::Spot;
use crate::numbered::numbered;

/// A table of numbers, in which one looks from a place on until there is a gap.
///
/// Most buffers lie behind all that came before them, and so are new. There is no table before one
/// does not.
#[derive(Debug)]
pub(in crate::copy) struct KnownPieces {
    /// All pieces come from places below this one.
    bound: u64,
    /// As many as a power of two, half of them gaps at least.
    table: Vec<u32>,
    /// So many pieces are in the table, and all from this number on are not yet.
    count: usize,
    indexed: usize,
    /// For about so many pieces there is to be room from the start.
    expected: usize,
    secret: u64,
}

/// Not the number of any piece: no tree has so many buffers.
const GAP: u32 = u32::MAX;
/// So many pieces of the same bytes that change differently are told apart. More are not looked
/// for: they move by themselves.
const VARIANTS: u32 = 16;

impl KnownPieces {
    /// None yet, and about so many to come.
    pub(in crate::copy) fn new(expected: usize) -> Self {
        // Odd, so that no bit of what is multiplied with it is lost.
        let secret = RandomState::new().hash_one(0) | 1;
        Self { bound: 0, table: Vec::new(), count: 0, indexed: 0, expected, secret }
    }

    /// Whether all pieces come from places before this one. Notes the place, if they do.
    #[inline(always)]
    pub(in crate::copy) fn is_behind_all(&mut self, from: Spot) -> bool {
        let place = place_of(from);
        let is_behind = place >= self.bound;
        if is_behind {
            self.bound = place.saturating_add(1);
        }
        is_behind
    }

    /// The number of the piece that comes from there and is the same; otherwise that of the one to
    /// come, which is noted.
    #[inline(never)]
    pub(in crate::copy) fn find_or_add(
        &mut self,
        pieces: &[Piece],
        from: Span,
        is_same: impl Fn(&Piece) -> bool,
    ) -> Result<u32, u32> {
        self.index(pieces);
        let new = pieces.len() as u32;
        let mask = self.table.len() - 1;
        let mut index = self.hash(from) & mask;
        let mut variants = 0;
        while let Some(number) = self.table.get(index).copied().filter(|number| *number != GAP) {
            if let Some(piece) = pieces.get(number as usize).filter(|piece| piece.span() == from) {
                if is_same(piece) {
                    return Ok(number);
                }
                variants += 1;
                if variants == VARIANTS {
                    self.indexed += 1;
                    return Err(new);
                }
            }
            index = (index + 1) & mask;
        }
        if let Some(gap) = self.table.get_mut(index) {
            *gap = new;
        }
        self.count += 1;
        self.indexed += 1;
        Err(new)
    }

    /// Notes the pieces that came without a look into the table, and makes room for one more. No
    /// two of them come from the same place.
    fn index(&mut self, pieces: &[Piece]) {
        let coming = pieces.len().saturating_sub(self.indexed);
        let needed = (self.count + coming + 1).saturating_mul(2);
        if needed > self.table.len() {
            let len = needed.max(self.expected.saturating_mul(2)).next_power_of_two().max(8);
            let before = std::mem::replace(&mut self.table, vec![GAP; len]);
            for number in before.into_iter().filter(|number| *number != GAP) {
                self.insert(pieces, number);
            }
        }
        for number in self.indexed..pieces.len() {
            self.insert(pieces, number as u32);
        }
        self.count += coming;
        self.indexed = pieces.len();
    }

    fn insert(&mut self, pieces: &[Piece], number: u32) {
        let piece = numbered(pieces.get(number as usize));
        let mask = self.table.len() - 1;
        let mut index = self.hash(piece.span()) & mask;
        while self.table.get(index).is_some_and(|number| *number != GAP) {
            index = (index + 1) & mask;
        }
        if let Some(gap) = self.table.get_mut(index) {
            *gap = number;
        }
    }

    /// The middle of a product, to which all bits contribute.
    fn hash(&self, Span { spot: Spot { base, offset }, len }: Span) -> usize {
        let place = (base.bits() as u64).wrapping_add(offset.rotate_left(32));
        let mixed = (place ^ self.secret.rotate_left(17)).wrapping_add(len.rotate_left(48));
        let product = u128::from(mixed) * u128::from(self.secret);
        (product >> 32) as usize ^ (product >> 64) as usize
    }
}

/// A number that is the same for the same place, and for addresses it is in their order.
fn place_of(Spot { base, offset }: Spot) -> u64 {
    (base.bits() as u64).wrapping_add(offset)
}

#[cfg(test)]
mod tests {
    use super::super::piece::Change;
    use super::*;
    use crate::device::driver::Raw;

    fn find_or_add(
        known: &mut KnownPieces,
        pieces: &[Piece],
        from: Span,
        is_same: impl Fn(&Piece) -> bool,
    ) -> Result<u32, u32> {
        if known.is_behind_all(from.spot) {
            return Err(pieces.len() as u32);
        }
        known.find_or_add(pieces, from, is_same)
    }

    fn piece(base: usize, offset: u64) -> Piece {
        let from = Spot { base: Raw::from_bits(base), offset };
        Piece { from, len: 8, to: 0, change: Change::Nothing }
    }

    #[test]
    fn each_place_is_found_again_after_the_table_grew() {
        let (mut known, mut pieces) = (KnownPieces::new(0), Vec::new());
        let all: Vec<(usize, u64)> =
            (0..3000).map(|index| (4096 * (index % 100), (index / 100) as u64 * 64)).collect();
        for turn in 0..2 {
            for (number, (base, offset)) in (0..).zip(&all) {
                let new = piece(*base, *offset);
                let found = find_or_add(&mut known, &pieces, new.span(), |_| true);
                assert_eq!(found, if turn == 0 { Err(number) } else { Ok(number) });
                if turn == 0 {
                    pieces.push(new);
                }
            }
        }
    }

    #[test]
    fn more_bytes_from_the_same_place_are_another_piece() {
        let (mut known, mut pieces) = (KnownPieces::new(0), vec![piece(64, 0)]);
        assert_eq!(find_or_add(&mut known, &[], piece(64, 0).span(), |_| true), Err(0));
        let longer = Piece { len: 9, ..piece(64, 0) };
        assert_eq!(find_or_add(&mut known, &pieces, longer.span(), |_| true), Err(1));
        pieces.push(longer);
        assert_eq!(find_or_add(&mut known, &pieces, piece(64, 0).span(), |_| true), Ok(0));
        assert_eq!(find_or_add(&mut known, &pieces, piece(64, 8).span(), |_| true), Err(2));
    }

    #[test]
    fn bytes_that_change_in_many_ways_are_not_looked_for_forever() {
        let (mut known, mut pieces) = (KnownPieces::new(0), Vec::new());
        for number in 0..1000 {
            assert_eq!(
                find_or_add(&mut known, &pieces, piece(64, 0).span(), |_| false),
                Err(number)
            );
            pieces.push(piece(64, 0));
        }
        assert_eq!(known.count, VARIANTS as usize);
    }
}
