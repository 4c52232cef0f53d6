//! How many objects of each kind are alive, for tests that look for leaks.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Array,
    Stream,
    Tensor,
    Schema,
    Queue,
    Capsule,
    Allocation,
}

/// In the order of [`Kind`].
const NAMES: [&str; 7] =
    ["arrays", "streams", "tensors", "schemas", "queues", "capsules", "allocations"];

static COUNTS: [AtomicUsize; 7] = [const { AtomicUsize::new(0) }; 7];

/// One object, counted from its making to its drop.
#[derive(Debug)]
pub(crate) struct Live(Kind);

impl Live {
    pub(crate) fn new(kind: Kind) -> Self {
        add(kind);
        Self(kind)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        remove(self.0);
    }
}

/// Counts what has no owner to hold a [`Live`].
pub(crate) fn add(kind: Kind) {
    if let Some(count) = COUNTS.get(kind as usize) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// The end of what was added.
pub(crate) fn remove(kind: Kind) {
    if let Some(count) = COUNTS.get(kind as usize) {
        count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Each kind with its count.
pub(crate) fn counts() -> impl Iterator<Item = (&'static str, usize)> {
    NAMES.into_iter().zip(COUNTS.iter().map(|count| count.load(Ordering::Relaxed)))
}
