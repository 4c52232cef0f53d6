//! A stretch of bytes that travels, and how the bytes change on their way.

use super::rebase::Rebase;
use crate::copy::source::{Span, host_len};
use crate::device::driver::Spot;

/// Bytes of one buffer, and their place in the packed result.
#[derive(Debug)]
pub(in crate::copy) struct Piece {
    pub(in crate::copy) from: Spot,
    pub(in crate::copy) len: u64,
    /// Where the piece begins in the packed result, at a multiple of the alignment.
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

    /// Whether bytes of the piece are read from a source, to be copied or changed.
    pub(in crate::copy) fn has_source(&self) -> bool {
        matches!(self.change, Change::Nothing | Change::Rebase(_))
    }
}

/// How the bytes of a piece change on their way.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::copy) enum Change {
    Nothing,
    /// The bytes are offsets, which begin at another number in the result.
    Rebase(Rebase),
    /// These bytes take the place of the source's.
    Made(Box<[u8]>),
    /// The piece has no source: it is zeros, at most as many as [`ZEROS`] has.
    Zeros,
}

impl Change {
    /// Changes bytes in host memory to those of the result. All copies change bytes here and
    /// nowhere else, whichever way they go. `bytes` are those of the piece from `at` on, as they
    /// came from [its source](Piece::has_source). For a piece without a source they may be
    /// anything.
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

/// The bytes of [`Change::Zeros`].
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
