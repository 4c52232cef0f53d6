//! [`ArrayNode`]: what is known of a node without a look at its data; and tables of nodes that were
//! made here.

use std::ffi::c_void;
use std::sync::Arc;

use super::window::Window;
use crate::Extent;
use crate::abi::ArrowArray;
use crate::numbered::numbered;
use crate::schema::Nullability;

/// One node: what is known of it without a look at its data.
#[derive(Clone, Copy)]
pub(crate) struct ArrayNode {
    pub(crate) window: Window,
    /// A table of `n_buffers` pointers.
    pub(crate) buffers: *const *const c_void,
    pub(crate) n_buffers: u32,
    /// Where the lengths of this node's buffers begin in [`Tables::extents`].
    pub(crate) extents: u32,
}

impl ArrayNode {
    /// The value of `extents` where no lengths of buffers were given.
    pub(crate) const NO_EXTENTS: u32 = u32::MAX;

    /// A node without buffers and elements.
    pub(crate) const EMPTY: Self = Self {
        window: Window { length: 0, offset: 0, null_count: 0 },
        buffers: std::ptr::null(),
        n_buffers: 0,
        extents: Self::NO_EXTENTS,
    };

    /// The node of a struct that was seen to keep to its rule.
    pub(super) fn of(source: &ArrowArray, nulls: Nullability) -> Self {
        let ArrowArray { length, offset, null_count, n_buffers, buffers, .. } = *source;
        let (n_buffers, extents) = (n_buffers as u32, Self::NO_EXTENTS);
        let node = Self { window: Window::of(source), buffers, n_buffers, extents };
        let (n_buffers, null_count) = match nulls {
            // Without a bitmap nothing is null, counted or not.
            Nullability::InBitmap if null_count != 0 && node.buffer(0).is_null() => (n_buffers, 0),
            Nullability::InBitmap => (n_buffers, null_count),
            // The same number that `buffers_of` gives. A call of it here takes two instructions
            // more for each node.
            Nullability::All => (0, length),
            Nullability::None => (n_buffers, 0),
        };
        Self { window: Window { offset, length, null_count }, n_buffers, ..node }
    }

    /// A buffer's address or handle; null where there is none.
    #[inline]
    pub(crate) fn buffer(&self, index: usize) -> *const c_void {
        if index >= self.n_buffers as usize {
            return std::ptr::null();
        }
        // SAFETY: the table has `n_buffers` entries: UNS-3 of an import (the C data interface says
        // "the number of pointers is given by `n_buffers`"), and of a node that was built here, its
        // own part of the table that its tree keeps.
        unsafe { self.buffers.wrapping_add(index).read() }
    }
}

/// How many buffers of a struct hold data. A null column has none: a buffer that its producer left
/// there is neither looked at nor passed on.
pub(super) fn buffers_of(n_buffers: i64, nulls: Nullability) -> u32 {
    if nulls == Nullability::All { 0 } else { n_buffers as u32 }
}

/// The nodes of a tree that was put together here. A single one needs no table of its own.
pub(crate) enum Nodes {
    One([ArrayNode; 1]),
    Many(Box<[ArrayNode]>),
}

impl Nodes {
    pub(crate) fn as_slice(&self) -> &[ArrayNode] {
        match self {
            Self::One(node) => node,
            Self::Many(nodes) => nodes,
        }
    }
}

impl From<Vec<ArrayNode>> for Nodes {
    fn from(nodes: Vec<ArrayNode>) -> Self {
        match <[ArrayNode; 1]>::try_from(nodes) {
            Ok(node) => Self::One(node),
            Err(nodes) => Self::Many(nodes.into()),
        }
    }
}

/// Buffer tables of nodes that were made here, and the lengths of the buffers.
pub(crate) struct Tables {
    /// The length of the buffer at each place of `pointers`, and then those of the buffers of nodes
    /// whose tables another tree keeps.
    pub(crate) extents: Box<[Extent]>,
    /// Keeps the tables that nodes point to, and is never read through.
    pub(crate) pointers: Arc<[BufferPointer]>,
}

impl Tables {
    /// The length of a node's buffer, where it was given.
    #[inline]
    pub(super) fn extent_of(&self, node: &ArrayNode, index: usize) -> Option<Extent> {
        let is_given = node.extents != ArrayNode::NO_EXTENTS && index < node.n_buffers as usize;
        is_given.then(|| *numbered(self.extents.get(node.extents as usize + index)))
    }

    /// The length of the third buffer of the node that has this table of buffers. `None` where the
    /// table is not among those that are kept here.
    pub(super) fn data_behind(&self, table: *const *const c_void) -> Option<Extent> {
        let begin = self.pointers.as_ptr().addr();
        let place = table.addr().checked_sub(begin)? / size_of::<BufferPointer>();
        let is_here = place < self.pointers.len();
        is_here.then(|| self.extents.get(place + DATA).copied()).flatten()
    }
}

/// The place of the data behind offsets, whose length the elements of a node do not tell. Nodes of
/// other types may have a third buffer as well, such as the sizes of list views.
pub(crate) const DATA: usize = 2;

/// The number of buffers of a node that has offsets and data behind them.
pub(super) const WITH_DATA: u32 = 3;

/// An entry of a buffer table.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct BufferPointer(pub(crate) *const c_void);

// SAFETY: an address on some device, which safe code cannot read through. Whoever uses it names a
// queue of the device, on any thread (UNS-15).
unsafe impl Send for BufferPointer {}

// SAFETY: an address that does not change, and which safe code cannot read through.
unsafe impl Sync for BufferPointer {}
