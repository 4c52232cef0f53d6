//! The release callbacks of all structs that are exported here. The page of [`arena`](super::arena)
//! has the rules.

use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use super::arena::{Arena, ArenaSlot, released};
use super::guard;
use super::node::{CNode, TreeOwner, TreeShare};
use crate::pool::block;
use crate::pool::shared::Shared;

/// The callback of every node of every tree exported here.
///
/// # Safety
/// As the specification says of a release callback: `node` is a struct that this producer filled,
/// or a bitwise move of one, at whatever address, and not released yet (a null pointer and a
/// released struct are tolerated).
pub(crate) unsafe extern "C" fn release<N: CNode>(node: *mut N) {
    guard::silent(|| {
        // SAFETY: the specification passes a pointer to the consumer's struct, which nobody else
        // touches during the call.
        let Some(node) = (unsafe { node.as_mut() }) else { return };
        if node.release_mut().take().is_none() {
            return;
        }
        if let Some(slot) = NonNull::new(node.private_data()) {
            // SAFETY: `private_data` is the consumer's to keep, so it is what `build` wrote: the
            // slot. The arena is live because this node is counted and was not released before.
            unsafe { release_slot(slot.cast::<ArenaSlot<N>>()) }
        }
    });
}

/// The callback of a struct that has nothing below it and needs no arena. The struct holds a share
/// of the value that keeps its data.
///
/// # Safety
/// As the specification says of a release callback: `node` is a struct whose `private_data` is a
/// share of a `T`, as [`Shared::into_raw`] gave it, or a bitwise move of one, and not released yet
/// (a null pointer and a released struct are tolerated).
pub(crate) unsafe extern "C" fn release_share<N: CNode, T: 'static>(node: *mut N) {
    guard::silent(|| {
        // SAFETY: the specification passes a pointer to the consumer's struct, which nobody else
        // touches during the call.
        let Some(node) = (unsafe { node.as_mut() }) else { return };
        if node.release_mut().take().is_some() {
            // SAFETY: `private_data` is the consumer's to keep, so it is the share that was given
            // away; it is taken back once, since a release "MUST" mark the struct as released.
            drop(unsafe { Shared::<T>::from_raw(node.private_data()) });
        }
    });
}

/// The origin of the data, as the arena of a node says.
///
/// # Safety
/// The node's callback is [`release`], and the node is not released.
pub(crate) unsafe fn origin_of<N: CNode>(node: &N) -> Option<N::Origin> {
    let slot = NonNull::new(node.private_data())?.cast::<ArenaSlot<N>>();
    // SAFETY: `private_data` is the consumer's to keep, so it is what `build` wrote beside the
    // callback: the slot. The arena is live because this node is counted and is not released.
    let arena = unsafe { Arena::of(slot) };
    // SAFETY: the arena is live; `build` wrote the member, and nobody writes there afterwards.
    Some(unsafe { (*arena.header.as_ptr()).origin })
}

/// The owner of the exported tree that a node belongs to, and the number of the node in that tree.
/// `None` where `root` is not the root of the arena that the node lies in.
///
/// # Safety
/// The callbacks of both structs are [`release`], and neither is released while the owner is used.
pub(crate) unsafe fn owner_of<'root, N: CNode>(
    root: &'root N,
    node: &N,
) -> Option<(&'root N::Owner, u32)> {
    let slot = |node: &N| Some(NonNull::new(node.private_data())?.cast::<ArenaSlot<N>>());
    let (first, slot) = (slot(root)?, slot(node)?);
    // SAFETY: `private_data` is the consumer's to keep, so it is what `build` wrote beside the
    // callback: the slot. Its arena is live because the node is counted and is not released;
    // numbers do not change after `build`.
    let of_root = unsafe { (*first.as_ptr()).numbers };
    // SAFETY: `private_data` is the consumer's to keep, so it is what `build` wrote beside the
    // callback: the slot. Its arena is live because the node is counted and is not released;
    // numbers do not change after `build`.
    let of_node = unsafe { (*slot.as_ptr()).numbers };
    let place = first.as_ptr().wrapping_add(of_node.index as usize);
    if of_root.index != 0 || place != slot.as_ptr() {
        return None;
    }
    // SAFETY: the slot belongs to a live arena, as was said.
    let arena = unsafe { Arena::of(first) };
    // SAFETY: only the release of the root touches the owner, and the root is not released while
    // the owner is used, as the caller promises.
    let owner = unsafe { &(*arena.header.as_ptr()).owner };
    owner.as_ref().map(|owner| (owner, of_node.source))
}

/// Releases a node and everything in place below it.
///
/// # Safety
/// The slot belongs to a live arena, and its node is not released yet.
unsafe fn release_slot<N: CNode>(entry: NonNull<ArenaSlot<N>>) {
    // SAFETY: the slot belongs to a live arena, as the caller promises.
    let arena = unsafe { Arena::of(entry) };
    // SAFETY: the slot belongs to a live arena, as the caller promises; numbers do not change after
    // `build`.
    let is_root = unsafe { (*entry.as_ptr()).numbers }.index == 0;
    let mut walk = ReleaseWalk { arena, count: 1, moved: Vec::new(), mark: !is_root };
    walk.below(entry);
    let ReleaseWalk { count, moved, .. } = walk;

    let mut owner = None;
    let mut share = None;
    if is_root {
        // SAFETY: only the release of the root touches the owner, and it runs once.
        owner = unsafe { (*arena.header.as_ptr()).owner.take() };
        if let Some(owner) = &owner {
            moved.iter().for_each(|slot| hand_over(arena, *slot, &|source| owner.share(source)));
        }
    } else {
        // SAFETY: the slot lies in a live arena; its share is atomic.
        let taken = unsafe { (*entry.as_ptr()).share.swap(released(), Ordering::AcqRel) };
        if !taken.is_null() && taken != released() {
            // SAFETY: `hand_over` made it from a box, and the swap gave it to this thread alone.
            let own = unsafe { Box::from_raw(taken) };
            moved.iter().for_each(|slot| hand_over(arena, *slot, &|source| own.narrow(source)));
            share = Some(own);
        }
        // Otherwise the root still owns everything. The release of the root looks below this node
        // for nodes that were moved out.
    }

    // SAFETY: the arena is live: this thread has not subtracted its nodes yet.
    let live = unsafe { &(*arena.header.as_ptr()).live };
    // If `live` counts no other nodes than these, this release is the last: the count only
    // decreases.
    if live.load(Ordering::Acquire) == count || live.fetch_sub(count, Ordering::AcqRel) == count {
        // SAFETY: no node is left, so nobody else has a pointer into the block, and the owner was
        // taken by the root's release, which is among those that are done.
        unsafe { block::give(arena.header.cast()) };
    }
    // Done last, because drops may run any code, such as the export of the next tree.
    drop(share);
    drop(owner);
}

/// The walk over everything below a node that is released.
struct ReleaseWalk<N: CNode> {
    arena: Arena<N>,
    /// How many nodes are in place, the first one included.
    count: usize,
    /// The nodes that were moved out. What is below them goes with them.
    moved: Vec<NonNull<ArenaSlot<N>>>,
    /// Whether nodes in place are marked as released, so that the release of the root sees it.
    mark: bool,
}

impl<N: CNode> ReleaseWalk<N> {
    fn below(&mut self, parent: NonNull<ArenaSlot<N>>) {
        // SAFETY: a slot of a live arena; what is read here does not change after `build`.
        let numbers = unsafe { (*parent.as_ptr()).numbers };
        for index in numbers.child_slots() {
            let slot = self.arena.slot(index);
            // SAFETY: while the parent is being released, its children in place belong to this
            // call; the specification does not let a consumer move one at the same time.
            let node = unsafe { &mut (*slot.as_ptr()).node };
            match node.release_mut().take() {
                None => self.moved.push(slot),
                Some(callback)
                    if ptr::fn_addr_eq(callback, release::<N> as unsafe extern "C" fn(*mut N)) =>
                {
                    self.count += 1;
                    if self.mark {
                        // SAFETY: the slot belongs to a live arena; its share is atomic.
                        unsafe { (*slot.as_ptr()).share.store(released(), Ordering::Release) };
                    }
                    // Of a leaf only the callback is read: the other members of its slot are on
                    // another cache line.
                    if !numbers.has_only_leaves() {
                        self.below(slot);
                    }
                }
                Some(callback) => {
                    *node.release_mut() = Some(callback);
                    // SAFETY: the consumer put a callback of its own here, which expects the struct
                    // it stands in; it calls ours in turn, for this node alone.
                    unsafe { callback(node) }
                }
            }
        }
    }
}

/// Gives a share of its own to a node that was moved out. If the node is released already, the
/// nodes that were moved out from below it get shares.
fn hand_over<N: CNode>(
    arena: Arena<N>,
    slot: NonNull<ArenaSlot<N>>,
    share_of: &dyn Fn(u32) -> <N::Owner as TreeOwner>::Share,
) {
    // SAFETY: a slot of a live arena; numbers do not change after `build`.
    let numbers = unsafe { (*slot.as_ptr()).numbers };
    let share = Box::into_raw(Box::new(share_of(numbers.source)));
    // SAFETY: the slot belongs to a live arena; its share is atomic.
    let state = unsafe { &(*slot.as_ptr()).share };
    if state.compare_exchange(ptr::null_mut(), share, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        return;
    }
    // SAFETY: nobody else saw it.
    drop(unsafe { Box::from_raw(share) });
    // The node is released already. Nodes that were moved out from below it before still need their
    // shares.
    for index in numbers.child_slots() {
        hand_over(arena, arena.slot(index), share_of);
    }
}
