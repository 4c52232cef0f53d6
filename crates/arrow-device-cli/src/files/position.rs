//! [`Position`]: how far the reading of a file has come.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much of a file was read. Clones are about the same file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Position {
    done: Arc<AtomicU64>,
    /// 0 where it is not known.
    total: u64,
}

impl Position {
    pub(crate) fn of(total: u64) -> Self {
        Self { done: Arc::default(), total }
    }

    pub(crate) fn advance(&self, by: u64) {
        self.done.fetch_add(by, Ordering::Relaxed);
    }

    /// How much was read, and how much there is, where it is known.
    pub(crate) fn of_total(&self) -> Option<(u64, u64)> {
        let done = self.done.load(Ordering::Relaxed).min(self.total);
        (self.total > 0).then_some((done, self.total))
    }

    /// From 0 to 1, where it is known how much there is.
    pub(crate) fn share(&self) -> Option<f64> {
        let done = self.done.load(Ordering::Relaxed);
        (self.total > 0).then(|| (done as f64 / self.total as f64).min(1.0))
    }
}
