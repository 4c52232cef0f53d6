//! Fills an arena: the structs of a whole tree are written once, at the places where the consumer
//! finds them. `arena.rs` says what lies in an arena, and what slots are.
//!
//! 1. The size of the block follows from the number of nodes, so the block is taken once.
//! 2. The children of a node get the next free slots, side by side, and the next free part of the
//!    tables of children.
//! 3. The struct of a child is written to its slot, after everything below the child.
//!
//! Why this is fast: the leaves of one parent are written in one loop without a call, and in that
//! loop a wide tree spends its time.
//!
//! What must stay true: nobody sees the block before all of it is written, and exactly as many
//! slots are in use as the tree has nodes.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize};

use super::arena::{Arena, ArenaHeader, ArenaSlot, LEAVES, Numbers};
use super::node::{CNode, Links, TreeSource};
use crate::pool::block::{self, Block};
use crate::{Error, ErrorKind, Result};

/// Memory for an arena.
pub(crate) struct ArenaRoom<N: CNode> {
    block: Block,
    size: usize,
    nodes: PhantomData<N>,
}

impl<N: CNode> ArenaRoom<N> {
    /// Memory for `size` nodes, the root included. An error where there is no memory.
    #[inline(always)]
    pub(crate) fn new(size: usize) -> Result<Self> {
        const {
            assert!(
                align_of::<ArenaHeader<N>>() <= 16
                    && align_of::<ArenaSlot<N>>() <= align_of::<ArenaHeader<N>>()
            )
        };
        let Some(bytes) = bytes_for::<N>(size) else { return Err(too_large()) };
        Ok(Self { block: Block::new(bytes)?, size, nodes: PhantomData })
    }

    /// Builds the arena, writes the struct of the root, and returns the place where the event's
    /// handle is kept. On an error, nothing is written. The owner keeps everything alive that the
    /// nodes refer to. A share of the owner does so for one node and everything below it.
    #[inline(always)]
    pub(crate) fn build(
        self,
        (root, plain): (u32, N::Plain),
        tree: &impl TreeSource<N>,
        (owner, origin): (N::Owner, N::Origin),
        event: *mut c_void,
        out: &mut MaybeUninit<N>,
    ) -> Result<*mut *mut c_void> {
        let Self { block, size, .. } = self;
        let header = block.into_bytes().cast::<ArenaHeader<N>>();
        let live = AtomicUsize::new(size);
        // SAFETY: the block is large enough for a header and aligned to 16.
        unsafe { header.write(ArenaHeader { live, origin, owner: Some(owner), event }) };
        let arena = Arena { header };
        let child_table = arena.slot(size).cast::<*mut N>().as_ptr();
        let mut filling = Filling { arena, tree, size, next_slot: 1, child_table };
        match filling.below(0, root) {
            Ok((links, numbers)) if filling.next_slot == size => {
                let slot = arena.slot(0).as_ptr();
                // SAFETY: the slot lies in the block, which nobody else sees yet; its node is not
                // written, and atomics and numbers have no destructor, so the assignments read
                // nothing of what was there before.
                unsafe { (*slot).share = AtomicPtr::new(ptr::null_mut()) };
                // SAFETY: the slot lies in the block, which nobody else sees yet; numbers have no
                // destructor, so the assignment reads nothing of what was there before.
                unsafe { (*slot).numbers = numbers };
                out.write(N::linked(plain, links));
                // SAFETY: the header is initialised; this makes a pointer to one of its members.
                Ok(unsafe { &raw mut (*header.as_ptr()).event })
            }
            _ => {
                // SAFETY: nobody else has seen the block. Its owner stays in it, and leaks: this is
                // a mistake of this crate.
                unsafe { block::give(header.cast()) };
                Err(misshapen())
            }
        }
    }
}

/// A place that may be written and not read.
#[inline(always)]
pub(crate) fn as_uninit<T>(out: &mut T) -> &mut MaybeUninit<T> {
    // SAFETY: `MaybeUninit<T>` "is guaranteed to have the same size, alignment, and ABI as `T`",
    // and only whole structs are written there.
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
    // The root is in no table, so one entry stays unused.
    let each = size_of::<ArenaSlot<N>>() + size_of::<*mut N>();
    size.checked_mul(each)?.checked_add(size_of::<ArenaHeader<N>>())
}

/// An arena that is being filled.
struct Filling<'tree, N: CNode, S> {
    arena: Arena<N>,
    tree: &'tree S,
    size: usize,
    /// The number of the next free slot.
    next_slot: usize,
    /// Where the next table of children goes.
    child_table: *mut *mut N,
}

/// The tree has more nodes than the arena has slots.
struct TooLarge;

impl<N: CNode, S: TreeSource<N>> Filling<'_, N, S> {
    /// Fills everything below a slot, and returns the links to it.
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
            release: N::callback(),
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

    /// Fills the slots of siblings that may have something below them.
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
            // SAFETY: there is a slot for each node, since there are as many nodes as places.
            unsafe { siblings.write(child, N::linked(node, links), numbers) };
        }
        Ok(())
    }
}

/// The children of one parent, its dictionary included: their places, and their numbers.
struct Siblings<N: CNode> {
    /// The slot of the first child. The slots of the others follow.
    slot: *mut ArenaSlot<N>,
    /// The table of children of the parent.
    table: *mut *mut N,
    /// The number of the first slot.
    index: u32,
    /// The numbers of the children in the tree that is exported.
    numbers: Range<u32>,
}

impl<N: CNode> Siblings<N> {
    /// Leaves the first child out.
    #[inline(always)]
    fn advance(&mut self) {
        self.slot = self.slot.wrapping_add(1);
        self.table = self.table.wrapping_add(1);
        self.index = self.index.wrapping_add(1);
        self.numbers.start += 1;
    }

    /// The positions of the children, from 0 on.
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

    /// The links and numbers of a node with nothing below it.
    #[inline(always)]
    fn leaf(&self, child: u32) -> (Links<N>, Numbers) {
        let links = Links {
            n_children: 0,
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: N::callback(),
            private_data: self.slot.wrapping_add(child as usize).cast(),
        };
        let (index, source) = (self.index + child, self.numbers.start + child);
        (links, Numbers { index, source, first_child: 0, children: LEAVES })
    }

    /// # Safety
    /// `child` is one of the positions.
    #[inline(always)]
    unsafe fn write(&self, child: u32, node: N, numbers: Numbers) {
        let slot = self.slot.wrapping_add(child as usize);
        let entry = self.table.wrapping_add(child as usize);
        // SAFETY: so many words of the tables of children belong to this parent as it has children,
        // and `child` is one of them.
        unsafe { entry.write(slot.cast()) };
        // SAFETY: a slot of the block, which nobody else sees yet.
        unsafe { slot.write(ArenaSlot { node, share: AtomicPtr::new(ptr::null_mut()), numbers }) };
    }
}
