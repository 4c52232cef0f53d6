//! All that is measured, by family.

mod copies;
mod exchange;
mod held_back;
mod ipc;
pub mod processes;
mod streams;
mod tensors;

use crate::case::Case;
use crate::meter::Counted;

/// What belongs together: its cases, which are made when they are timed, and its counts.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Makes the cases.
    pub cases: fn() -> Vec<Case>,
    /// The counts.
    pub counted: &'static [Counted],
}

/// The families.
pub const FAMILIES: &[Family] = &[
    Family { cases: exchange::cases, counted: exchange::COUNTED },
    Family { cases: streams::cases, counted: streams::COUNTED },
    Family { cases: copies::cases, counted: copies::COUNTED },
    Family { cases: tensors::cases, counted: tensors::COUNTED },
    Family { cases: held_back::cases, counted: held_back::COUNTED },
    Family { cases: ipc::cases, counted: ipc::COUNTED },
    Family { cases: processes::cases, counted: processes::COUNTED },
];

/// The counts of every family.
pub fn counted() -> Vec<Counted> {
    FAMILIES.iter().flat_map(|family| family.counted).copied().collect()
}
