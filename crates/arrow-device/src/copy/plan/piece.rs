//! One stretch of bytes that travels, and what happens to the bytes on their way.

use super::rebase::Rebase;
use crate::copy::source::{Span, host_len};
use crate::device::driver::Spot;

/// Bytes of one buffer, and their place among all.
#[derive(Debug)]
pub(in crate::copy) struct Piece {
    pub(in crate::copy) from: Spot,
    pub(in crate::copy) len: u64,
    /// Where it begins in the packed result, a multiple of the alignment.
    pub(in crate::copy) to: u64,
    pub(in crate::copy) change: Change,
}

impl Piece {
    pub(in crate::copy) fn span(&self) -> Span {
        Span { spot: self.from, len: self.len }
    }

    pub(in crate::copy) fn end(&self) -> u64 {
        self.to + self.len
    }

    /// Whether its bytes, or those that change, are read from where it comes from.
    pub(in crate::copy) fn has_source(&self) -> bool {
        matches!(self.change, Change::Nothing | Change::Rebase(_))
    }
}

/// What happens to a piece on its way.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::copy) enum Change {
    Nothing,
    /// Its offsets begin at another number.
    Rebase(Rebase),
    /// These are its bytes already.
    Made(Box<[u8]>),
    /// It comes from nowhere: zeros, no more of them than [`ZEROS`] has.
    Zeros,
}

impl Change {
    /// Makes bytes in host memory those of the result: the only place that does, whichever way a
    /// copy goes. The bytes are those of the piece from `at` on, as they came from
    /// [its source](Piece::has_source), and anything where the piece has none.
    pub(in crate::copy) fn apply(&self, bytes: &mut [u8], at: u64) {
        match self {
            Self::Nothing => {}
            Self::Rebase(rebase) => rebase.apply(bytes, at),
            Self::Made(made) => {
                let made = made.get(host_len(at)..).unwrap_or_default();
                for (byte, made) in bytes.iter_mut().zip(made) {
                    *byte = *made;
                }
            }
            Self::Zeros => bytes.fill(0),
        }
    }
}

/// What [`Change::Zeros`] is made of.
pub(in crate::copy) static ZEROS: [u8; 8] = [0; 8];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_piece_change_as_the_whole_does() {
        let source: Vec<u8> = (10_i32..26).flat_map(i32::to_ne_bytes).collect();
        let rebase = Rebase { is_wide: false, first: 12, skip: 3 };
        let made: Box<[u8]> = (0..64).rev().collect();
        for change in [Change::Nothing, Change::Rebase(rebase), Change::Made(made), Change::Zeros] {
            let mut whole = source.clone();
            change.apply(&mut whole, 0);
            for part in [8, 20, 64] {
                let mut bytes = source.clone();
                for (at, bytes) in (0..).step_by(part).zip(bytes.chunks_mut(part)) {
                    change.apply(bytes, at);
                }
                assert_eq!(bytes, whole, "{change:?} in parts of {part} bytes");
            }
            let is_another = |one: &[u8], other: &[u8]| one.iter().zip(other).any(|(a, b)| a != b);
            assert_eq!(is_another(&whole, &source), change != Change::Nothing);
        }
    }
}
