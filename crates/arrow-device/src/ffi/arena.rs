//! One allocation for a whole exported tree, arrays and schemas alike.
//!
//! A block holds, in this order: a header with the owner of the data, a slot for each node, and the tables of children. What
//! else the nodes refer to is the owner's. The root's struct is the consumer's; its slot only keeps its books. Each node's `private_data` is its
//! slot.
//!
//! The header counts the nodes that are not released. Releasing a node walks what is still in place below it, never what was
//! moved out, and subtracts once; whoever reaches zero gives the block back. The specification lets a consumer move children
//! out before it releases the parent, and each must then keep alive its own data and no other: the root's release hands
//! every node that was moved out a share of just that. Where nothing was moved this costs nothing.
//!
//! A slot's `share` is a small state machine, because a moved child and the root may be released by two threads at once:
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
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::guard;
use crate::pool::block::{self, Block};
use crate::pool::shared::Shared;
use crate::{Error, ErrorKind, Result};

/// A C struct that is a node of a tree.
pub(crate) trait CNode: Sized + 'static {
    /// What keeps the data of a whole tree alive.
    type Owner: TreeOwner;
    /// What a [`TreeSource`] knows of a node.
    type Plain;

    /// The struct of a node.
    fn linked(plain: Self::Plain, links: Links<Self>) -> Self;

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

    /// What is known of the children of a node, which is where a wide tree spends its time: an iterator looks up once.
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

#[repr(C)]
struct ArenaHeader<N: CNode> {
    /// Nodes that are not released.
    live: AtomicUsize,
    /// Touched by the release of the root and by nothing else.
    owner: Option<N::Owner>,
    /// What `sync_event` points to, where a handle has to be shown.
    event: *mut c_void,
}

#[repr(C)]
struct ArenaSlot<N: CNode> {
    node: N,
    share: AtomicPtr<<N::Owner as TreeOwner>::Share>,
    numbers: Numbers,
}

#[derive(Clone, Copy)]
struct Numbers {
    /// This slot's own number.
    index: u32,
    /// The node's number in the tree that was exported.
    source: u32,
    first_child: u32,
    /// How many there are, the dictionary counted, and [`LEAVES`].
    children: u32,
}

/// There is nothing below any of the children. No tree has so many nodes that this could be one of the count.
const LEAVES: u32 = 1 << 31;

impl Numbers {
    fn child_slots(self) -> std::ops::Range<usize> {
        let count = self.children & !LEAVES;
        self.first_child as usize..(self.first_child + count) as usize
    }

    fn has_only_leaves(self) -> bool {
        self.children & LEAVES != 0
    }
}

/// What a slot's share is once the node is released.
fn released<T>() -> *mut T {
    ptr::without_provenance_mut(align_of::<usize>())
}

/// Memory for an arena.
pub(crate) struct ArenaRoom<N: CNode> {
    block: Block,
    size: usize,
    nodes: PhantomData<N>,
}

impl<N: CNode> ArenaRoom<N> {
    /// For so many nodes, the root included. An error where there is no memory.
    #[inline(always)]
    pub(crate) fn new(size: usize) -> Result<Self> {
        const {
            assert!(
                align_of::<ArenaHeader<N>>() <= 16
                    && align_of::<ArenaSlot<N>>() <= align_of::<usize>()
            )
        };
        let Some(bytes) = bytes_for::<N>(size) else { return Err(too_large()) };
        Ok(Self { block: Block::new(bytes)?, size, nodes: PhantomData })
    }

    /// Builds the arena, writes the struct of the root, and returns where the event's handle is kept. Where there is an error,
    /// nothing is written. The owner keeps all that the plain nodes refer to, and so does a share of it for its node and all
    /// below.
    #[inline(always)]
    pub(crate) fn build(
        self,
        (root, plain): (u32, N::Plain),
        tree: &impl TreeSource<N>,
        owner: N::Owner,
        event: *mut c_void,
        out: &mut MaybeUninit<N>,
    ) -> Result<*mut *mut c_void> {
        let Self { block, size, .. } = self;
        let header = block.into_bytes().cast::<ArenaHeader<N>>();
        // SAFETY: the block is large enough for a header and aligned to 16.
        unsafe {
            header.write(ArenaHeader { live: AtomicUsize::new(size), owner: Some(owner), event })
        };
        let arena = Arena { header };
        let child_table = arena.slot(size).cast::<*mut N>().as_ptr();
        let mut filling = Filling { arena, tree, size, next_slot: 1, child_table };
        match filling.below(0, root) {
            Ok((links, numbers)) if filling.next_slot == size => {
                let slot = arena.slot(0).as_ptr();
                // SAFETY: the slot lies in the block, which nobody else sees yet; its node is not written, and atomics and
                // numbers have no destructor, so the assignments read nothing of what was there before.
                unsafe { (*slot).share = AtomicPtr::new(ptr::null_mut()) };
                // SAFETY: as above.
                unsafe { (*slot).numbers = numbers };
                out.write(N::linked(plain, links));
                // SAFETY: the header is initialised; this makes a pointer to one of its members.
                Ok(unsafe { &raw mut (*header.as_ptr()).event })
            }
            _ => {
                // SAFETY: nobody else has seen the block. Its owner stays in it, and leaks: this is a mistake of this crate.
                unsafe { block::give(header.cast()) };
                Err(misshapen())
            }
        }
    }
}

/// A place that is written and not read.
#[inline(always)]
pub(crate) fn as_uninit<T>(out: &mut T) -> &mut MaybeUninit<T> {
    // SAFETY: `MaybeUninit<T>` "is guaranteed to have the same size, alignment, and ABI as `T`", and only whole structs are
    // written there.
    unsafe { &mut *ptr::from_mut(out).cast() }
}

#[cold]
fn too_large() -> Error {
    Error::new(ErrorKind::OutOfMemory, "the tree is too large").during("export")
}

#[cold]
fn misshapen() -> Error {
    Error::new(ErrorKind::InvalidArgument, "the shape of the tree is not that of its size")
}

#[inline(always)]
fn bytes_for<N: CNode>(size: usize) -> Option<usize> {
    // The root is in no table, so one entry is spare.
    let each = size_of::<ArenaSlot<N>>() + size_of::<*mut N>();
    size.checked_mul(each)?.checked_add(size_of::<ArenaHeader<N>>())
}

/// An arena that is being filled.
struct Filling<'tree, N: CNode, S> {
    arena: Arena<N>,
    tree: &'tree S,
    size: usize,
    /// The first slot that is not taken.
    next_slot: usize,
    /// Where the next table of children goes.
    child_table: *mut *mut N,
}

/// The tree has more nodes than the arena has slots.
struct TooLarge;

impl<N: CNode, S: TreeSource<N>> Filling<'_, N, S> {
    /// Fills everything below a slot, and returns what leads there.
    #[inline(always)]
    fn below(&mut self, index: usize, source: u32) -> Result<(Links<N>, Numbers), TooLarge> {
        let below = self.tree.below(source);
        let count = below.count as usize;
        let first_slot = self.next_slot;
        if count > self.size - first_slot.min(self.size) {
            return Err(TooLarge);
        }
        self.next_slot += count;
        let table = self.child_table;
        self.child_table = table.wrapping_add(count);
        let siblings = Siblings {
            slot: self.arena.slot(first_slot).as_ptr(),
            table,
            index: first_slot as u32,
            numbers: below.first..below.first.saturating_add(below.count),
        };
        if below.are_leaves {
            self.leaves(siblings)?;
        } else {
            self.parents(siblings)?;
        }
        let regular = count - usize::from(below.has_dictionary);
        let dictionary = if below.has_dictionary {
            self.arena.slot(first_slot + regular).as_ptr().cast()
        } else {
            ptr::null_mut()
        };
        let links = Links {
            n_children: regular as i64,
            children: if regular > 0 { table } else { ptr::null_mut() },
            dictionary,
            release: release::<N>,
            private_data: self.arena.slot(index).as_ptr().cast(),
        };
        let numbers = Numbers {
            index: index as u32,
            source,
            first_child: first_slot as u32,
            children: below.count | if below.are_leaves { LEAVES } else { 0 },
        };
        Ok((links, numbers))
    }

    /// Fills the slots of siblings that have nothing below them.
    #[inline(never)]
    fn leaves(&mut self, siblings: Siblings<N>) -> Result<(), TooLarge> {
        let nodes = siblings.nodes(self.tree)?;
        let mut place = Siblings { numbers: siblings.numbers.clone(), ..siblings };
        for node in nodes {
            let (links, numbers) = place.leaf(0);
            // SAFETY: there is a slot for each node, since there are as many nodes as numbers.
            unsafe { place.write(0, N::linked(node, links), numbers) };
            place.advance();
        }
        Ok(())
    }

    /// The same for siblings that may have something below them.
    #[inline(never)]
    fn parents(&mut self, siblings: Siblings<N>) -> Result<(), TooLarge> {
        let tree = self.tree;
        let nodes = siblings.nodes(tree)?;
        for (child, node) in siblings.places().zip(nodes) {
            let source = siblings.numbers.start + child;
            let (links, numbers) = if tree.below(source).count == 0 {
                siblings.leaf(child)
            } else {
                self.below((siblings.index + child) as usize, source)?
            };
            // SAFETY: as above.
            unsafe { siblings.write(child, N::linked(node, links), numbers) };
        }
        Ok(())
    }
}

/// Nodes of one parent: where they go, and which they are.
struct Siblings<N: CNode> {
    /// The first of as many slots.
    slot: *mut ArenaSlot<N>,
    /// The table of their parent.
    table: *mut *mut N,
    /// The number of the first slot.
    index: u32,
    /// Their numbers in the tree that is exported.
    numbers: Range<u32>,
}

impl<N: CNode> Siblings<N> {
    /// All but the first.
    #[inline(always)]
    fn advance(&mut self) {
        self.slot = self.slot.wrapping_add(1);
        self.table = self.table.wrapping_add(1);
        self.index = self.index.wrapping_add(1);
        self.numbers.start += 1;
    }

    /// From 0 on.
    #[inline(always)]
    fn places(&self) -> Range<u32> {
        0..self.numbers.end - self.numbers.start
    }

    #[inline(always)]
    fn nodes<S: TreeSource<N>>(
        &self,
        tree: &S,
    ) -> Result<impl ExactSizeIterator<Item = N::Plain>, TooLarge> {
        let nodes = tree.children(self.numbers.clone());
        if nodes.len() == self.places().len() { Ok(nodes) } else { Err(TooLarge) }
    }

    /// The links and numbers of a node that has nothing below it.
    #[inline(always)]
    fn leaf(&self, child: u32) -> (Links<N>, Numbers) {
        let links = Links {
            n_children: 0,
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: release::<N>,
            private_data: self.slot.wrapping_add(child as usize).cast(),
        };
        let (index, source) = (self.index + child, self.numbers.start + child);
        (links, Numbers { index, source, first_child: 0, children: LEAVES })
    }

    /// # Safety
    /// `child` is one of the places.
    #[inline(always)]
    unsafe fn write(&self, child: u32, node: N, numbers: Numbers) {
        let slot = self.slot.wrapping_add(child as usize);
        let entry = self.table.wrapping_add(child as usize);
        // SAFETY: as many words of the tables of children are this parent's as it has children.
        unsafe { entry.write(slot.cast()) };
        // SAFETY: a slot of the block, which nobody else sees yet.
        unsafe { slot.write(ArenaSlot { node, share: AtomicPtr::new(ptr::null_mut()), numbers }) };
    }
}

/// A block, seen as what it holds. Copies of it are pointers.
struct Arena<N: CNode> {
    header: NonNull<ArenaHeader<N>>,
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
    unsafe fn of(slot: NonNull<ArenaSlot<N>>) -> Self {
        // SAFETY: promised by the caller.
        let index = unsafe { (*slot.as_ptr()).numbers }.index as usize;
        // SAFETY: slots are consecutive and `index` is this one's number, so this is the first one, inside the block.
        let first = unsafe { slot.sub(index) };
        // SAFETY: the header lies right before the first slot, in the same block.
        let header = unsafe { first.cast::<ArenaHeader<N>>().sub(1) };
        Self { header }
    }

    /// Where a slot is. The address behind the last slot is that of the tables.
    #[inline]
    fn slot(self, index: usize) -> NonNull<ArenaSlot<N>> {
        // SAFETY: the block holds a header, so the address behind it is in the block or one past its end.
        let first = unsafe { self.header.add(1) }.cast::<ArenaSlot<N>>();
        // SAFETY: all callers pass numbers up to and including the number of slots, and the slots lie in the block.
        unsafe { first.add(index) }
    }
}

/// The callback of every node of every tree exported here.
///
/// # Safety
/// As the specification says of a release callback: `node` is a struct that this producer filled, or a bitwise move of one,
/// at whatever address, and not released yet (a null pointer and a released struct are tolerated).
unsafe extern "C" fn release<N: CNode>(node: *mut N) {
    guard::silent(|| {
        // SAFETY: the specification passes a pointer to the consumer's struct, which nobody else touches during the call.
        let Some(node) = (unsafe { node.as_mut() }) else { return };
        if node.release_mut().take().is_none() {
            return;
        }
        if let Some(slot) = NonNull::new(node.private_data()) {
            // SAFETY: `private_data` is the consumer's to keep, so it is what `build` wrote: the slot. The arena is live
            // because this node is counted and was not released before.
            unsafe { release_slot(slot.cast::<ArenaSlot<N>>()) }
        }
    });
}

/// The callback of a struct that has nothing below it and needs no arena: it holds a share of what keeps it.
///
/// # Safety
/// As the specification says of a release callback: `node` is a struct whose `private_data` is a share of a `T`, as
/// [`Shared::into_raw`] gave it, or a bitwise move of one, and not released yet (a null pointer and a released struct are
/// tolerated).
pub(crate) unsafe extern "C" fn release_share<N: CNode, T: 'static>(node: *mut N) {
    guard::silent(|| {
        // SAFETY: the specification passes a pointer to the consumer's struct, which nobody else touches during the call.
        let Some(node) = (unsafe { node.as_mut() }) else { return };
        if node.release_mut().take().is_some() {
            // SAFETY: `private_data` is the consumer's to keep, so it is the share that was given away; it is taken back once,
            // since a release "MUST" mark the struct as released.
            drop(unsafe { Shared::<T>::from_raw(node.private_data()) });
        }
    });
}

/// Releases a node and everything in place below it.
///
/// # Safety
/// The slot belongs to a live arena, and its node is not released yet.
unsafe fn release_slot<N: CNode>(entry: NonNull<ArenaSlot<N>>) {
    // SAFETY: promised by the caller.
    let arena = unsafe { Arena::of(entry) };
    // SAFETY: as above.
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
        // Otherwise the root still owns everything, and its release looks below this node for what was moved out.
    }

    // SAFETY: the arena is live: this thread has not subtracted its nodes yet.
    let live = unsafe { &(*arena.header.as_ptr()).live };
    // Whoever sees no more than its own nodes is the last: nodes only become fewer.
    if live.load(Ordering::Acquire) == count || live.fetch_sub(count, Ordering::AcqRel) == count {
        // SAFETY: no node is left, so nobody else has a pointer into the block, and the owner was taken by the root's
        // release, which is among those that are done.
        unsafe { block::give(arena.header.cast()) };
    }
    // Last: dropping these may run anybody's code, exports of the next tree included.
    drop(share);
    drop(owner);
}

/// What lies below a node that is released.
struct ReleaseWalk<N: CNode> {
    arena: Arena<N>,
    /// Nodes in place, the first one included.
    count: usize,
    /// Nodes that were moved out; what is below them goes with them.
    moved: Vec<NonNull<ArenaSlot<N>>>,
    /// Whether nodes in place are marked as released, for the release of the root to see.
    mark: bool,
}

impl<N: CNode> ReleaseWalk<N> {
    fn below(&mut self, parent: NonNull<ArenaSlot<N>>) {
        // SAFETY: a slot of a live arena; what is read here does not change after `build`.
        let numbers = unsafe { (*parent.as_ptr()).numbers };
        for index in numbers.child_slots() {
            let slot = self.arena.slot(index);
            // SAFETY: while the parent is being released, its children in place belong to this call; the specification
            // does not let a consumer move one at the same time.
            let node = unsafe { &mut (*slot.as_ptr()).node };
            match node.release_mut().take() {
                None => self.moved.push(slot),
                Some(callback)
                    if ptr::fn_addr_eq(callback, release::<N> as unsafe extern "C" fn(*mut N)) =>
                {
                    self.count += 1;
                    if self.mark {
                        // SAFETY: as above; the share is atomic.
                        unsafe { (*slot.as_ptr()).share.store(released(), Ordering::Release) };
                    }
                    // Of a leaf no more is looked at than its callback: what else its slot has is on another line of the cache.
                    if !numbers.has_only_leaves() {
                        self.below(slot);
                    }
                }
                Some(callback) => {
                    *node.release_mut() = Some(callback);
                    // SAFETY: the consumer put a callback of its own here, which expects the struct it stands in; it calls
                    // ours in turn, for this node alone.
                    unsafe { callback(node) }
                }
            }
        }
    }
}

/// Gives a node that was moved out, or what was moved out from below it, a share of its own.
fn hand_over<N: CNode>(
    arena: Arena<N>,
    slot: NonNull<ArenaSlot<N>>,
    share_of: &dyn Fn(u32) -> <N::Owner as TreeOwner>::Share,
) {
    // SAFETY: a slot of a live arena; numbers do not change after `build`.
    let numbers = unsafe { (*slot.as_ptr()).numbers };
    let share = Box::into_raw(Box::new(share_of(numbers.source)));
    // SAFETY: as above; the share is atomic.
    let state = unsafe { &(*slot.as_ptr()).share };
    if state.compare_exchange(ptr::null_mut(), share, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        return;
    }
    // SAFETY: nobody else saw it.
    drop(unsafe { Box::from_raw(share) });
    // The node is released already. What was moved out from below it before is still waiting for its share.
    for index in numbers.child_slots() {
        hand_over(arena, arena.slot(index), share_of);
    }
}
