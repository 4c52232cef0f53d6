//! [`Notes`]: what is noted of a tree in the course of its life, behind locks.

use std::sync::{Mutex, Weak};

use super::tree::Tree;
use crate::device::account::CountedBytes;
use crate::device::deferred::Use;
use crate::pool::shared::Shared;

/// What is noted of a tree in the course of its life.
#[derive(Default)]
pub(super) struct Notes {
    /// Queues that wait for the data already.
    pub(super) waited: Mutex<Vec<u64>>,
    /// The last use on each queue.
    pub(super) uses: Mutex<Vec<Use>>,
    /// Counted as imported, where somebody counts.
    pub(super) counted: Mutex<Option<CountedBytes>>,
    /// What keeps buffers alive that were made of this tree, while there are any.
    pub(super) as_owner: Mutex<Weak<Shared<Tree>>>,
}
