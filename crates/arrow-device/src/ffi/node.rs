//! What an exported tree consists of, whether its structs are those of arrays or of schemas.

use std::ffi::c_void;
use std::ops::Range;

/// A C struct that is a node of a tree.
pub(crate) trait CNode: Sized + 'static {
    /// What keeps the data of a whole tree alive.
    type Owner: TreeOwner;
    /// What a [`TreeSource`] knows of a node.
    type Plain;
    /// Where and when the data of a whole tree came into the process.
    type Origin: Copy;

    /// The struct of a node.
    fn linked(plain: Self::Plain, links: Links<Self>) -> Self;

    /// The callback of each node of an exported tree:
    /// [`release`](super::release::release) for these nodes.
    fn callback() -> unsafe extern "C" fn(*mut Self);

    /// Its release callback.
    fn release_mut(&mut self) -> &mut Option<unsafe extern "C" fn(*mut Self)>;

    /// Its producer's data.
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

/// What keeps the data of a whole tree alive, and can be divided.
pub(crate) trait TreeOwner: Send + 'static {
    /// What keeps the data of one node and all below it alive.
    type Share: TreeShare;

    /// The share of a node, by its number in the tree that was exported.
    fn share(&self, source: u32) -> Self::Share;
}

/// A part of an [`TreeOwner`].
pub(crate) trait TreeShare: Send + 'static {
    /// The share of a node that lies inside this one.
    fn narrow(&self, source: u32) -> Self;
}

/// The tree that is exported. Its nodes are numbered so that siblings are consecutive.
pub(crate) trait TreeSource<N: CNode> {
    /// Where the children of a node are.
    fn below(&self, source: u32) -> ChildNumbers;

    /// What is known of the children of a node, which is where a wide tree spends its time: an
    /// iterator looks up once.
    fn children(&self, numbers: Range<u32>) -> impl ExactSizeIterator<Item = N::Plain>;
}

/// The numbers of the children of a node.
#[derive(Clone, Copy)]
pub(crate) struct ChildNumbers {
    pub(crate) first: u32,
    /// Where there is a dictionary, it counts as the last one.
    pub(crate) count: u32,
    pub(crate) has_dictionary: bool,
    /// There is nothing below any of them.
    pub(crate) are_leaves: bool,
}
