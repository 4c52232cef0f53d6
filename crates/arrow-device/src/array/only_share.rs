//! Whether one value alone keeps data, and which imported structs it keeps.
//!
//! A tree is kept by its shares. A tree that was put together here keeps other trees: those below
//! it, and those that own its buffers.

use std::any::Any;
use std::sync::Arc;

use super::Array;
use super::tree::{Built, Storage, Tree};
use crate::abi::ArrowArray;
use crate::device::BytesOwner;
use crate::pool::shared::Shared;

/// How many levels of trees are looked at. Each level takes stack. Deeper trees count as shared.
const LEVELS: usize = 64;

impl Array {
    /// Whether this is the only share of what keeps the data: no other array, buffer, slice, child,
    /// view, tensor or exported struct has one, also of a part of the data. Where more than 64
    /// arrays own one another, the answer is no.
    ///
    /// Another thread that has a share of the data can change the answer meanwhile.
    ///
    /// ```
    /// use arrow_device::{Array, Batch, DataType};
    ///
    /// let array = Array::from_values(DataType::Int32, [Some(1), Some(2)])?;
    /// assert!(array.is_only_share());
    /// let slice = array.slice(1, 1)?;
    /// assert!(!array.is_only_share());
    /// drop(slice);
    /// assert!(array.is_only_share());
    /// let batch = Batch::from_columns([("x", array.clone())])?;
    /// assert!(!batch.as_array().is_only_share());
    /// drop(array);
    /// assert!(batch.as_array().is_only_share());
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn is_only_share(&self) -> bool {
        has_only_share(self.tree(), LEVELS)
    }

    /// Calls `visit` with the base struct of each imported tree that this array alone keeps: all of
    /// them where this is the only share, else none.
    pub(crate) fn for_each_sole_struct<'a>(&'a self, visit: &mut dyn FnMut(&'a ArrowArray)) {
        if self.is_only_share() {
            structs(self.tree(), visit);
        }
    }
}

/// Whether there is no other share of a tree, nor of any that it keeps.
fn has_only_share(tree: &Shared<Tree>, levels: usize) -> bool {
    if levels == 0 || !Shared::is_alone(tree) {
        return false;
    }
    let Storage::Built(Built { owners, below, .. }) = tree.storage() else { return true };
    let is_own = |owner: &BytesOwner| {
        // One owner may have several buffers of the tree. Most have one, and are not looked for
        // among the others.
        let own = || owners.iter().filter(|other| Arc::ptr_eq(owner, other)).count();
        let count = Arc::strong_count(owner);
        (count == 1 || count == own())
            && owned_tree(owner).is_none_or(|tree| has_only_share(tree, levels - 1))
    };
    owners.iter().all(is_own)
        && below.arrays().iter().all(|part| has_only_share(part.tree(), levels - 1))
}

/// The base structs of a tree that is nobody else's, and of those that it keeps.
fn structs<'a>(tree: &'a Shared<Tree>, visit: &mut dyn FnMut(&'a ArrowArray)) {
    match tree.storage() {
        Storage::Foreign(structs) => visit(structs.base()),
        Storage::Built(Built { owners, below, .. }) => {
            for (index, owner) in owners.iter().enumerate() {
                let is_known = Arc::strong_count(owner) > 1
                    && owners.iter().take(index).any(|other| Arc::ptr_eq(owner, other));
                if let Some(tree) = owned_tree(owner).filter(|_| !is_known) {
                    structs(tree, visit);
                }
            }
            for part in below.arrays() {
                structs(part.tree(), visit);
            }
        }
    }
}

/// The tree that an owner of bytes keeps, where the bytes are those of one.
pub(super) fn owned_tree(owner: &BytesOwner) -> Option<&Shared<Tree>> {
    let owner: &dyn Any = &**owner;
    owner.downcast_ref()
}
