//! One stretch of bytes that travels, and what happens to the bytes on their way.

use super::rebase::Rebase;
use crate::copy::source::Span;
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

    /// Whether there is something to read.
    pub(in crate::copy) fn has_source(&self) -> bool {
        !matches!(self.change, Change::Zeros)
    }
}

/// What happens to a piece on its way.
#[derive(Debug)]
pub(in crate::copy) enum Change {
    Nothing,
    /// Its offsets begin at another number.
    Rebase(Rebase),
    /// These are its bytes already.
    Made(Box<[u8]>),
    /// It comes from nowhere: zeros, no more of them than [`ZEROS`] has.
    Zeros,
}

/// What [`Change::Zeros`] is made of.
pub(in crate::copy) static ZEROS: [u8; 8] = [0; 8];
