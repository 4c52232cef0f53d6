//! One block of memory for a whole exported tree, of arrays or of schemas.
//!
//! A block holds, in this order: a header with the owner of the data, a slot for each node, and the
//! tables of children. Everything else that the nodes refer to belongs to the owner. The root's
//! struct is the consumer's own, so the struct in the root's slot is unused. Each node's
//! `private_data` is its slot.
//!
//! 1. The header counts the nodes that are not released.
//! 2. The release of a node walks over everything that is still in place below it, but not over
//!    what was moved out, and subtracts the number of these nodes once.
//! 3. The thread that reaches zero gives the block back.
//! 4. The specification lets a consumer move children out before it releases the parent. A child
//!    that was moved out has to keep its own data alive and no other. So the release of the root
//!    gives each node that was moved out a share of just that data. Where nothing was moved this
//!    costs nothing.
//!
//! A moved child and the root may be released by two threads at once. The `share` of a slot is
//! therefore a small state machine:
//!
//! ```text
//!   null      in place, or moved out while the root still owns everything
//!     |  the release of the root, or of a moved parent, sets the share
//!     v
//!   a share   moved out, and owner of its own data
//!     |  its own release takes the share
//!     v
//!   RELEASED  (also directly from null)
//! ```

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize};

use super::node::{CNode, TreeOwner};

/// The header of a block. The slots come right behind the header, which therefore has the alignment
/// of a slot: that of the 64-bit numbers in the structs, which is that of a pointer or more.
#[repr(C, align(8))]
pub(super) struct ArenaHeader<N: CNode> {
    /// How many nodes are not released.
    pub(super) live: AtomicUsize,
    /// Imports of a node that is not released read this, while other threads release other nodes.
    pub(super) origin: N::Origin,
    /// The owner of the exported data. The release of the root takes the owner out. Until then, an
    /// import that holds the root may read the owner on any thread.
    pub(super) owner: Option<N::Owner>,
    /// The variable that `sync_event` points to, where a handle is exported.
    pub(super) event: *mut c_void,
}

#[repr(C)]
pub(super) struct ArenaSlot<N: CNode> {
    pub(super) node: N,
    pub(super) share: AtomicPtr<<N::Owner as TreeOwner>::Share>,
    pub(super) numbers: Numbers,
}

#[derive(Clone, Copy)]
pub(super) struct Numbers {
    /// The number of this slot.
    pub(super) index: u32,
    /// The node's number in the tree that was exported.
    pub(super) source: u32,
    pub(super) first_child: u32,
    /// The number of children, with the dictionary, and the bit [`LEAVES`].
    pub(super) children: u32,
}

/// Set where nothing is below any of the children. No tree has so many nodes that the count needs
/// this bit.
pub(super) const LEAVES: u32 = 1 << 31;

impl Numbers {
    pub(super) fn child_slots(self) -> std::ops::Range<usize> {
        let count = self.children & !LEAVES;
        self.first_child as usize..(self.first_child + count) as usize
    }

    pub(super) fn has_only_leaves(self) -> bool {
        self.children & LEAVES != 0
    }
}

/// The value of a slot's share after the node was released.
pub(super) fn released<T>() -> *mut T {
    ptr::without_provenance_mut(align_of::<usize>())
}

/// A pointer to a block, which can be copied.
pub(super) struct Arena<N: CNode> {
    pub(super) header: NonNull<ArenaHeader<N>>,
}

impl<N: CNode> Clone for Arena<N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N: CNode> Copy for Arena<N> {}

impl<N: CNode> Arena<N> {
    /// The arena of a slot.
    ///
    /// # Safety
    /// The slot is an open one of a live arena.
    pub(super) unsafe fn of(slot: NonNull<ArenaSlot<N>>) -> Self {
        // SAFETY: the slot is an open one of a live arena, as the caller promises.
        let index = unsafe { (*slot.as_ptr()).numbers }.index as usize;
        // SAFETY: slots are consecutive and `index` is this one's number, so this is the first one,
        // inside the block.
        let first = unsafe { slot.sub(index) };
        // SAFETY: the header lies right before the first slot, in the same block.
        let header = unsafe { first.cast::<ArenaHeader<N>>().sub(1) };
        Self { header }
    }

    /// The address of a slot. Behind the last slot the tables begin.
    #[inline]
    pub(super) fn slot(self, index: usize) -> NonNull<ArenaSlot<N>> {
        // SAFETY: the block holds a header, so the address behind it is in the block or one past
        // its end.
        let first = unsafe { self.header.add(1) }.cast::<ArenaSlot<N>>();
        // SAFETY: all callers pass numbers up to and including the number of slots, and the slots
        // lie in the block.
        unsafe { first.add(index) }
    }
}
