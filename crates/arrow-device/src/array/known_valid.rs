//! [`KnownValid`]: what validation found of a tree. Data does not change, so what was valid once
//! stays valid.

use std::sync::atomic::{AtomicU8, Ordering};

/// What of a tree was found to be valid so far.
#[derive(Debug)]
pub(crate) struct KnownValid(AtomicU8);

/// Nothing is known to be valid.
const NOTHING: u8 = 0;
const BELOW: u8 = 1;
const ALL: u8 = 2;

// Relaxed everywhere: what is noted is about data that does not change, and whoever asks has waited
// for the data.
impl KnownValid {
    pub(super) const fn nothing() -> Self {
        Self(AtomicU8::new(NOTHING))
    }

    /// Whether all nodes below the root are valid. They do not depend on the window on the root.
    pub(crate) fn is_below(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= BELOW
    }

    /// Whether all elements of the root, and all nodes below, are valid.
    pub(crate) fn is_all(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= ALL
    }

    pub(crate) fn note_below(&self) {
        self.0.fetch_max(BELOW, Ordering::Relaxed);
    }

    pub(crate) fn note_all(&self) {
        self.0.fetch_max(ALL, Ordering::Relaxed);
    }
}
