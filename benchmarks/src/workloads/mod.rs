//! All that is measured, by family.

mod exchange;

use crate::case::Case;
use crate::meter::Counted;

/// The cases of every family.
pub fn cases() -> Vec<Case> {
    exchange::cases()
}

/// The counts of every family.
pub fn counted() -> Vec<Counted> {
    exchange::COUNTED.to_vec()
}
