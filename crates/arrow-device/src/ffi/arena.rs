//! One allocation for a whole exported tree, arrays and schemas alike.
//!
//! A block holds, in this order: a header with the owner of the data, a slot for each node, and the
//! tables of children. What else the nodes refer to is the owner's. The root's struct is the
//! consumer's; its slot only keeps its books. Each node's `private_data` is its slot.
//!
//! The header counts the nodes that are not released. Releasing a node walks what is still in place
//! below it, never what was moved out, and subtracts once; whoever reaches zero gives the block
//! back. The specification lets a consumer move children out before it releases the parent, and
//! each must then keep alive its own data and no other: the root's release hands every node that
//! was moved out a share of just that. Where nothing was moved this costs nothing.
//!
//! A slot's `share` is a small state machine, because a moved child and the root may be released by
//! two threads at once:
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

/// The slots lie right behind it, so it is aligned to what they are: to the 64-bit numbers in the
/// structs, whose alignment is that of a pointer or more.
#[repr(C, align(8))]
pub(super) struct ArenaHeader<N: CNode> {
    /// Nodes that are not released.
    pub(super) live: AtomicUsize,
    /// Read by an import of any node that is not released, while another thread releases others.
    pub(super) origin: N::Origin,
    /// Touched by the release of the root and by nothing else.
    pub(super) owner: Option<N::Owner>,
    /// What `sync_event` points to, where a handle has to be shown.
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
    /// This slot's own number.
    pub(super) index: u32,
    /// The node's number in the tree that was exported.
    pub(super) source: u32,
    pub(super) first_child: u32,
    /// How many there are, the dictionary counted, and [`LEAVES`].
    pub(super) children: u32,
}

/// There is nothing below any of the children. No tree has so many nodes that this could be one of
/// the count.
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

/// What a slot's share is once the node is released.
pub(super) fn released<T>() -> *mut T {
    ptr::without_provenance_mut(align_of::<usize>())
}

/// A block, seen as what it holds. Copies of it are pointers.
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

    /// Where a slot is. The address behind the last slot is that of the tables.
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
