//! All that is measured, by family.

mod exchange;
mod streams;

use crate::case::Case;
use crate::meter::Counted;

/// The cases of every family.
pub fn cases() -> Vec<Case> {
    let mut cases = exchange::cases();
    cases.extend(streams::cases());
    cases
}

/// The counts of every family.
pub fn counted() -> Vec<Counted> {
    [exchange::COUNTED, streams::COUNTED].concat()
}
