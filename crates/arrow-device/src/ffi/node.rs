//! The parts of an exported tree, for arrays and for schemas.

use std::ffi::c_void;
use std::ops::Range;

/// A C struct that is a node of a tree.
pub(crate) trait CNode: Sized + 'static {
    /// Keeps the data of a whole tree alive.
    type Owner: TreeOwner;
    /// The node as a [`TreeSource`] describes it.
    type Plain;
    /// Where and when the data of a whole tree came into the process.
    type Origin: Copy;

    /// The struct of a node.
    fn linked(plain: Self::Plain, links: Links<Self>) -> Self;

    /// The callback of each node of an exported tree: [`release`](super::release::release) for
    /// nodes of this type.
    fn callback() -> unsafe extern "C" fn(*mut Self);

    /// The release callback of the struct.
    fn release_mut(&mut self) -> &mut Option<unsafe extern "C" fn(*mut Self)>;

    /// The producer's data of the struct.
    fn private_data(&self) -> *mut c_void;
}

/// The members of a node that lead to other nodes and back to the arena.
pub(crate) struct Links<N> {
    pub(crate) n_children: i64,
    pub(crate) children: *mut *mut N,
    pub(crate) dictionary: *mut N,
    pub(crate) release: unsafe extern "C" fn(*mut N),
    pub(crate) private_data: *mut c_void,
}

/// Keeps the data of a whole tree alive, and can be divided into shares.
pub(crate) trait TreeOwner: Send + Sync + 'static {
    /// Keeps the data of one node and of everything below it alive.
    type Share: TreeShare;

    /// The share of a node, by its number in the tree that was exported.
    fn share(&self, source: u32) -> Self::Share;
}

/// A part of a [`TreeOwner`].
pub(crate) trait TreeShare: Send + 'static {
    /// The share of a node that lies inside the node of this share.
    fn narrow(&self, source: u32) -> Self;
}

/// The tree that is exported. Its nodes are numbered so that siblings follow each other.
pub(crate) trait TreeSource<N: CNode> {
    /// The numbers of the children of a node.
    fn below(&self, source: u32) -> ChildNumbers;

    /// The children of a node. One call returns them all, because a wide tree spends its time here.
    fn children(&self, numbers: Range<u32>) -> impl ExactSizeIterator<Item = N::Plain>;
}

/// The numbers of the children of a node.
#[derive(Clone, Copy)]
pub(crate) struct ChildNumbers {
    pub(crate) first: u32,
    /// The number of children. A dictionary counts as the last one.
    pub(crate) count: u32,
    pub(crate) has_dictionary: bool,
    /// Whether nothing is below any of the children.
    pub(crate) are_leaves: bool,
}

impl ChildNumbers {
    /// The numbers of the children. The dictionary comes last.
    pub(crate) fn all(self) -> Range<u32> {
        self.first..self.first + self.count
    }
}
