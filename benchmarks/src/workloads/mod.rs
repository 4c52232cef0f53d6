//! All that is measured, by family.

mod exchange;
mod streams;
mod tensors;

use crate::case::Case;
use crate::meter::Counted;

/// The cases of every family.
pub fn cases() -> Vec<Case> {
    [exchange::cases(), streams::cases(), tensors::cases()].into_iter().flatten().collect()
}

/// The counts of every family.
pub fn counted() -> Vec<Counted> {
    [exchange::COUNTED, streams::COUNTED, tensors::COUNTED].concat()
}
