//! What is known of a struct that this library itself exported, and that came back.
//!
//! A struct of ours is known by its release callback, which has one of two addresses. A function at
//! one of these addresses is that callback, so the struct's `private_data` is what the callback
//! takes: a share of a tree, or the slot of a node in an arena (`ffi/arena.rs`). Two things are
//! learned there that no struct says:
//!
//! 1. The origin of the memory: where and when it came into the process (`origin_of`).
//! 2. The length of the data of texts and bytes (`data_extent`). With this length, offsets that
//!    another process or a file sent are checked after the way back as they were before. Without
//!    it, the last offset has to be believed.
//!
//! The length is not written anywhere for an export. It is looked up in the tree that was exported,
//! where the bytes are read:
//!
//! 1. A node of an imported tree leads to the node of the exported tree that it came from. The
//!    imported tree keeps the root of the arena from being released, and so keeps the exported tree
//!    alive. A node that a consumer moved out of its parent has no such root, and no length.
//! 2. If the exported tree was imported as well, the same step leads on from there. The tree at the
//!    end was put together here, and its tables have the lengths.
//! 3. Trees of which each was exported whole and came back as the next one are a row. An exported
//!    tree knows the first tree of its row (`FirstTree`), so that a row of any length takes one
//!    step. An export of a part of a tree begins a new row. A part has fewer levels than the whole,
//!    so there are at most as many rows as a schema has levels.
//!
//! What must stay true: a wrong way leads to no length. Consumers may have put the structs together
//! in another order, so a length counts only if the node at the end has the same table of buffers.

use std::ptr::{self, NonNull};

use super::export::ExportedTree;
use super::node::{DATA, WITH_DATA};
use super::structs::Structs;
use super::tree::{Built, MemoryOrigin, Storage, Tree};
use crate::abi::ArrowArray;
use crate::ffi::release::{self, release_share};
use crate::pool::shared::Shared;
use crate::{DeviceId, Extent};

/// The release callbacks of all structs that are exported here.
pub(super) struct ReleaseCallbacks {
    /// The callback of a leaf, whose `private_data` is a share of its tree.
    pub(super) of_leaf: unsafe extern "C" fn(*mut ArrowArray),
    /// The callback of a node in an arena.
    pub(super) of_node: unsafe extern "C" fn(*mut ArrowArray),
}

/// The callbacks of imported structs are compared with these two callbacks. The callbacks are in a
/// static, because each use of a function's name may give another address.
pub(super) static RELEASE_CALLBACKS: ReleaseCallbacks = ReleaseCallbacks {
    of_leaf: release_share::<ArrowArray, Tree>,
    of_node: release::release::<ArrowArray>,
};

/// Whether a struct was exported here as a node in an arena, and is not released.
fn is_of_node(source: &ArrowArray) -> bool {
    source.release.is_some_and(|release| ptr::fn_addr_eq(release, RELEASE_CALLBACKS.of_node))
}

/// Whether a struct was exported here as a leaf, and is not released.
fn is_of_leaf(source: &ArrowArray) -> bool {
    source.release.is_some_and(|release| ptr::fn_addr_eq(release, RELEASE_CALLBACKS.of_leaf))
}

/// The origin of the memory of a struct. `None` where this library did not export the struct, or
/// exported it as memory of another device than `device`.
///
/// # Safety
/// The struct keeps UNS-6.
pub(super) unsafe fn origin_of(source: &ArrowArray, device: DeviceId) -> Option<MemoryOrigin> {
    let origin = if is_of_node(source) {
        // SAFETY: the callback is that of nodes, and the struct is not released.
        unsafe { release::origin_of(source) }
    } else if is_of_leaf(source) {
        // SAFETY: the callback can be called (UNS-6), so that `private_data` is the share that it
        // would take back; nobody does during this call.
        unsafe { Shared::<Tree>::peek(source.private_data) }.map(Tree::origin)
    } else {
        None
    };
    origin.filter(|origin| origin.device == device)
}

/// The first tree of a row of trees, each of which was exported whole, came back, and is the next
/// one. The nodes of all trees of a row have the same numbers.
#[derive(Clone, Copy)]
pub(super) struct FirstTree(NonNull<Tree>);

// SAFETY: a tree is `Sync`, and the pointer is used to read the tree.
unsafe impl Send for FirstTree {}
// SAFETY: a tree is `Sync`, and the pointer is used to read the tree.
unsafe impl Sync for FirstTree {}

impl FirstTree {
    /// The first tree of the row that an imported tree with these structs belongs to, and which the
    /// structs keep. `None` where that is the imported tree itself.
    pub(super) fn before(structs: &Structs) -> Option<Self> {
        match exported_node(structs, 0)? {
            (before, 0) => before.first.or(Some(Self(NonNull::from(&*before.tree)))),
            // The tree was exported in part, so that its nodes have other numbers now.
            _ => None,
        }
    }
}

impl ExportedTree {
    /// The first tree of the row that the exported tree belongs to.
    fn first_tree(&self) -> &Tree {
        // SAFETY: the exported tree holds the root of the arena that its structs came from. The
        // owner in that arena keeps the tree before, which holds a root in turn, down to the first
        // tree of the row.
        self.first.as_ref().map_or(&self.tree, |first| unsafe { first.0.as_ref() })
    }
}

/// The length of the data behind the offsets of an imported node, where the node was exported here
/// and the exported tree knew the length.
#[inline]
pub(super) fn data_extent(structs: &Structs, number: u32) -> Option<Extent> {
    let base = structs.base();
    if is_of_node(base) || is_of_leaf(base) { data_extent_before(structs, number) } else { None }
}

/// [`data_extent`], where the base was exported here.
#[inline(never)]
fn data_extent_before(structs: &Structs, number: u32) -> Option<Extent> {
    let source = structs.get(number);
    if source.n_buffers != i64::from(WITH_DATA) {
        return None;
    }
    let known = if is_of_node(source) {
        data_of_node(structs, number)
    } else {
        data_of_leaf(structs, number)
    };
    // A length that is known in part is one that the elements of some window need.
    known.filter(|extent| matches!(extent, Extent::Exact(_)))
}

/// The length of the data of a leaf. `None` for a struct that is not a leaf of this library.
fn data_of_leaf(structs: &Structs, number: u32) -> Option<Extent> {
    let source = structs.get(number);
    if !is_of_leaf(source) {
        return None;
    }
    // SAFETY: the callback can be called once `structs` are dropped (UNS-6), so that `private_data`
    // is the share that the callback would take back; nobody calls it while they are borrowed.
    let tree = unsafe { Shared::<Tree>::peek(source.private_data) };
    // A leaf refers to the table of its node, which its own tree keeps. A leaf of an imported tree
    // whose length is known goes out in an arena.
    match tree?.storage() {
        Storage::Built(Built { tables, .. }) => tables.data_behind(source.buffers),
        Storage::Foreign(_) => None,
    }
}

/// The length of the data of a node that came from an arena.
fn data_of_node(structs: &Structs, number: u32) -> Option<Extent> {
    let (table, mut structs, mut number) = (structs.get(number).buffers, structs, number);
    loop {
        let (exported, before) = exported_node(structs, number)?;
        let tree = exported.first_tree();
        let earlier = match tree.storage() {
            Storage::Foreign(earlier) => earlier,
            Storage::Built(Built { nodes, tables, .. }) => {
                let node = nodes.as_slice().get(before as usize)?;
                return tables.extent_of(node, DATA).filter(|_| ptr::eq(node.buffers, table));
            }
        };
        if before as usize >= tree.node_count() {
            return None;
        }
        let source = earlier.get(before);
        if !is_of_node(source) {
            return data_of_leaf(earlier, before).filter(|_| ptr::eq(source.buffers, table));
        }
        (structs, number) = (earlier, before);
    }
}

/// The exported tree that an imported node comes from, and the number of the node there. `None`
/// where the structs do not hold the root of the arena that the node lies in.
fn exported_node(structs: &Structs, number: u32) -> Option<(&ExportedTree, u32)> {
    let (root, node) = (structs.base(), structs.get(number));
    if !is_of_node(root) || !is_of_node(node) {
        return None;
    }
    // SAFETY: the callbacks are those of nodes. The structs keep the root from being released, and
    // with it what is below, until they are dropped.
    unsafe { release::owner_of(root, node) }
}
