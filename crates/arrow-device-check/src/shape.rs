//! Which shapes of arrays a peer takes: any, or record batches only, as with many libraries. A
//! child finds that out, the parent then sets it for later children, and the judges keep to it.

use std::env;

use crate::notes::Note;

/// The variable that has the shape.
pub(crate) const SHAPE: &str = "ARROW_DEVICE_CHECK_SHAPE";

/// What a peer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shape {
    /// What it shows when it is given numbers, and then a record batch
    Auto,
    /// Arrays of any type
    Any,
    /// Record batches alone
    Batches,
}

impl Shape {
    /// Returns the variable for a child, `None` where the shape is to be found out.
    pub(crate) fn variable(self) -> Option<(String, String)> {
        let value = match self {
            Self::Auto => return None,
            Self::Any => "any",
            Self::Batches => "batches",
        };
        Some((SHAPE.to_owned(), value.to_owned()))
    }

    /// Returns what a child has found out.
    pub(crate) fn found(seen: &[Note]) -> Option<Self> {
        seen.contains(&Note::Batches).then_some(Self::Batches)
    }
}

/// Whether the peer of this process takes record batches only.
pub(crate) fn is_batches() -> bool {
    env::var(SHAPE).is_ok_and(|shape| shape == "batches")
}

/// Whether the shape was set, and need not be found out.
pub(crate) fn is_known() -> bool {
    env::var_os(SHAPE).is_some()
}
