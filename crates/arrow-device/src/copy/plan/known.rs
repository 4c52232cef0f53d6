//! [`KnownPieces`]: finds pieces that come from the same bytes of the source, among very many.
//!
//! A buffer that occurs twice in an array moves once. Each new piece is therefore looked up by its
//! place (address and offset) and length:
//!
//! 1. The places of all pieces so far are below a bound. A piece at or above the bound is new, and
//!    nothing is looked up. Most buffers lie in the order of their addresses, so most pieces take
//!    one comparison.
//! 2. The first piece below the bound builds a hash table of all pieces so far. The table has open
//!    addressing, and is at most half full.
//! 3. A search begins at the hash of place and length, and goes on to the next gap. A piece with
//!    the same place and length is the one that is searched for only if its bytes change in the
//!    same way.
//!
//! What must stay true:
//!
//! - The table has numbers of pieces and no copies of them, so it is small.
//! - Places are numbers of another party. The hash depends on a secret, so nobody can choose places
//!   that all collide.
//! - Pieces of the same bytes that change differently always collide. Only `VARIANTS` of them are
//!   compared, so that the work for each piece stays bounded. A further one is taken for new, stays
//!   out of the table, and moves by itself.

use std::hash::{BuildHasher, RandomState};

use super::piece::Piece;
use crate::copy::source::Span;
use crate::device::driver::Spot;
use crate::numbered::numbered;

/// A hash table of the numbers of pieces: see the page of this module.
///
/// The table stays empty until a piece lies below the bound.
#[derive(Debug)]
pub(in crate::copy) struct KnownPieces {
    /// The places of all pieces are below this one.
    bound: u64,
    /// The table. Its length is a power of two, and at least half of the entries are gaps.
    table: Vec<u32>,
    /// How many pieces are in the table. Pieces from the number `indexed` on are not in it yet.
    count: usize,
    indexed: usize,
    /// About how many pieces will come, for which the table has room from the start.
    expected: usize,
    secret: u64,
}

/// An entry without a piece. No piece has this number, since no tree has so many buffers.
const GAP: u32 = u32::MAX;
/// How many pieces of the same bytes that change differently are compared. Further ones are taken
/// for new pieces.
const VARIANTS: u32 = 16;

impl KnownPieces {
    /// No piece is known yet. About `expected` pieces will come.
    pub(in crate::copy) fn new(expected: usize) -> Self {
        // The secret is odd, so that a multiplication with it loses no bit.
        let secret = RandomState::new().hash_one(0) | 1;
        Self { bound: 0, table: Vec::new(), count: 0, indexed: 0, expected, secret }
    }

    /// Whether the places of all pieces are before this place. If so, the bound moves behind this
    /// place.
    pub(in crate::copy) fn is_behind_all(&mut self, from: Spot) -> bool {
        let place = place_of(from);
        let is_behind = place >= self.bound;
        if is_behind {
            self.bound = place.saturating_add(1);
        }
        is_behind
    }

    /// `Ok` with the number of the known piece that has these bytes and of which `is_same` is true.
    /// Otherwise `Err` with the number of the new piece, which the caller adds to `pieces`. The
    /// number is put into the table, unless `VARIANTS` pieces of the same bytes were compared.
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

    /// Puts the pieces that came without a lookup into the table, and makes room for one more. No
    /// two of these pieces come from the same place.
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

    /// The middle bits of a product. All bits of place and length contribute to them.
    fn hash(&self, Span { spot: Spot { base, offset }, len }: Span) -> usize {
        let place = (base.bits() as u64).wrapping_add(offset.rotate_left(32));
        let mixed = (place ^ self.secret.rotate_left(17)).wrapping_add(len.rotate_left(48));
        let product = u128::from(mixed) * u128::from(self.secret);
        (product >> 32) as usize ^ (product >> 64) as usize
    }
}

/// A number for a place. Equal places have equal numbers, and addresses keep their order.
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
