//! Recycled blocks of memory, in which exported trees, shared values and lists lie. Each thread has
//! blocks of its own, and no lock is taken:
//!
//! 1. A block belongs to the thread that allocated it, its home.
//! 2. A block that is freed at home goes onto one of the thread's shelves, one for each size. The
//!    next block of that size comes from there.
//! 3. A block that is freed on another thread is pushed onto the inbox of its home, a lock-free
//!    list. The home empties the inbox when a shelf has nothing.
//! 4. The bytes on the shelves and in the inbox of a thread are bounded. What does not fit goes to
//!    the allocator, as do blocks that are larger than the largest shelf.
//! 5. When a thread ends, its shelves are freed and its inbox is closed.
//!
//! Why this is fast: a block that is freed at home and taken again costs two moves of a list's
//! head. There are four sizes for each doubling, so that little of a block is wasted.
//!
//! What must stay true: only the home reads the blocks of its inbox, so that no block is freed
//! while another thread looks at it. Everything of a thread is in cells, because a global allocator
//! may call these functions in the middle of another call.

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::{Error, ErrorKind, Result};

/// The alignment of the bytes of a block.
pub(crate) const ALIGNMENT: usize = 16;

/// How many bytes may lie on a thread's shelves, and how many more in its inbox.
const SHELVES_LIMIT: usize = 8 << 20;
const INBOX_LIMIT: usize = 8 << 20;

/// The smallest size. An array, or a batch of one column, fits into a block of this size. There are
/// four sizes for each doubling, so that at most a fifth of a larger block is wasted. The smallest
/// size has to be 5/4 of a power of two: [`shelf_of`] gives the first size above a power of two the
/// number 0 of the four.
const SMALLEST: usize = 320;
const SMALLEST_LOG: u32 = SMALLEST.ilog2();
const LARGEST: usize = 2 << 20;
const SHELVES: usize = 4 * (LARGEST.ilog2() - SMALLEST_LOG) as usize;

/// The header of a block, right before its bytes.
#[repr(C, align(16))]
struct Prefix {
    /// The home of the block, as one strong reference; null for a block without a home.
    home: *const PoolHome,
    /// The next block on the same list.
    next: *mut Prefix,
    /// The number of bytes behind the prefix.
    size: usize,
    /// The number of the block's shelf; [`NO_SHELF`] for a block without one.
    shelf: usize,
}

const NO_SHELF: usize = SHELVES;

/// The distance from the start of a block to its bytes.
pub(crate) const PREFIX: usize = size_of::<Prefix>();

struct PoolHome {
    inbox: AtomicPtr<Prefix>,
    inbox_bytes: AtomicUsize,
}

/// The value of an inbox whose thread has ended.
const CLOSED: *mut Prefix = ptr::without_provenance_mut(1);

/// The blocks that a thread keeps. All of it is in cells, because a global allocator may call this
/// module in the middle of another call of it.
struct Shelves {
    home: Arc<PoolHome>,
    lists: [Cell<*mut Prefix>; SHELVES],
    bytes: Cell<usize>,
}

thread_local! {
    static LOCAL: Shelves = Shelves::new();
    /// The shelves of this thread, from its first block until it ends. A fast path: reading this
    /// variable needs no check whether the shelves were initialised.
    static AT_HAND: Cell<*const Shelves> = const { Cell::new(ptr::null()) };
}

/// Calls `look` with the thread's shelves, if it has any.
#[inline(always)]
fn at_hand<T>(look: impl FnOnce(&Shelves) -> Option<T>) -> Option<T> {
    // SAFETY: null, or set by `take_elsewhere` to the thread's own, which stay where they are until
    // their drop sets it to null.
    let shelves = unsafe { AT_HAND.get().as_ref() }?;
    look(shelves)
}

/// A block of at least this many bytes, aligned to 16. The bytes may be anything.
#[inline(always)]
pub(crate) fn take(bytes: usize) -> Result<NonNull<u8>> {
    let Some((shelf, size)) = shelf_of(bytes) else {
        return allocate(bytes, NO_SHELF, ptr::null());
    };
    match at_hand(|local| local.pop(shelf)) {
        Some(prefix) => Ok(payload(prefix)),
        None => take_elsewhere(shelf, size),
    }
}

/// How many bytes a block has that was taken for `bytes`.
#[inline(always)]
pub(crate) const fn capacity(bytes: usize) -> usize {
    match shelf_of(bytes) {
        Some((_, size)) => size,
        None => bytes,
    }
}

/// A block from the inbox or from the allocator.
#[cold]
#[inline(never)]
fn take_elsewhere(shelf: usize, size: usize) -> Result<NonNull<u8>> {
    let found = LOCAL.try_with(|local| {
        AT_HAND.set(local);
        local.empty_inbox();
        local.pop(shelf).ok_or_else(|| local.home.clone())
    });
    match found {
        Ok(Ok(prefix)) => Ok(payload(prefix)),
        Ok(Err(home)) => allocate(size, shelf, Arc::into_raw(home)),
        // The thread is being torn down: its shelves are gone.
        Err(_) => allocate(size, shelf, ptr::null()),
    }
}

/// Gives a block back.
///
/// # Safety
/// `block` came from [`take`] and is not used after this.
#[inline]
pub(crate) unsafe fn give(block: NonNull<u8>) {
    // SAFETY: `take` returned the address one prefix behind the start of the block.
    let prefix = unsafe { block.cast::<Prefix>().sub(1) };
    // SAFETY: `allocate` wrote the prefix, and only this module changes it.
    let Prefix { home, size, shelf, .. } = unsafe { prefix.read() };
    let is_kept = at_hand(|local| {
        let is_home = ptr::eq(Arc::as_ptr(&local.home), home);
        (is_home && local.push(prefix, size, shelf)).then_some(())
    });
    if is_kept.is_none() {
        give_elsewhere(prefix);
    }
}

/// Gives back a block that does not go onto this thread's shelves.
#[cold]
#[inline(never)]
fn give_elsewhere(prefix: NonNull<Prefix>) {
    // SAFETY: the block is ours: it was given back.
    let home = unsafe { prefix.read() }.home;
    let is_here = LOCAL.try_with(|local| ptr::eq(Arc::as_ptr(&local.home), home));
    if home.is_null() || is_here == Ok(true) {
        free(prefix);
    } else {
        send_home(prefix, home);
    }
}

/// A block that is given back on drop. The value has the address at which the allocator's block
/// begins: tools that look for leaks may ignore a pointer into the middle of a block.
pub(crate) struct Block(NonNull<u8>);

// SAFETY: it is nobody else's, and can be given back on any thread.
unsafe impl Send for Block {}
// SAFETY: with a shared one nothing can be done but ask for its address.
unsafe impl Sync for Block {}

impl Block {
    /// A block of at least this many bytes: see [`take`].
    #[inline(always)]
    pub(crate) fn new(bytes: usize) -> Result<Self> {
        let block = take(bytes)?;
        // SAFETY: `take` returned the address one prefix behind the start of the block.
        Ok(Self(unsafe { block.sub(PREFIX) }))
    }

    /// A block of at least this many bytes from the thread's shelves; `None` where they have none.
    /// Callers that can do without a block use this, and avoid a call of the allocator.
    #[inline(always)]
    pub(crate) fn at_hand(bytes: usize) -> Option<Self> {
        let (shelf, _) = shelf_of(bytes)?;
        at_hand(|local| local.pop(shelf)).map(|prefix| Self(prefix.cast()))
    }

    /// The address of the block's bytes.
    pub(crate) fn bytes(&self) -> NonNull<u8> {
        // SAFETY: a whole prefix lies at the start, in the same allocation.
        unsafe { self.0.add(PREFIX) }
    }

    /// The address of the block's prefix, which lies before the bytes.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.0
    }

    /// The block's bytes, to be given back by [`give`].
    pub(crate) fn into_bytes(self) -> NonNull<u8> {
        std::mem::ManuallyDrop::new(self).bytes()
    }

    /// The start of the block, to be given back by [`from_start`](Self::from_start).
    pub(crate) fn into_start(self) -> NonNull<u8> {
        std::mem::ManuallyDrop::new(self).0
    }

    /// The block that begins at this address.
    ///
    /// # Safety
    /// The pointer is one of [`into_start`](Self::into_start), and is given back once.
    pub(crate) unsafe fn from_start(start: NonNull<u8>) -> Self {
        Self(start)
    }
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `new` took it, and it is not used after this.
        unsafe { give(self.bytes()) };
    }
}

impl Shelves {
    fn new() -> Self {
        let home =
            PoolHome { inbox: AtomicPtr::new(ptr::null_mut()), inbox_bytes: AtomicUsize::new(0) };
        let lists = std::array::from_fn(|_| Cell::new(ptr::null_mut()));
        Self { home: Arc::new(home), lists, bytes: Cell::new(0) }
    }

    #[inline(always)]
    fn pop(&self, shelf: usize) -> Option<NonNull<Prefix>> {
        let list = self.lists.get(shelf)?;
        let first = NonNull::new(list.get())?;
        // SAFETY: a block on a shelf is allocated and nobody else's.
        let Prefix { next, size, .. } = unsafe { first.read() };
        list.set(next);
        self.bytes.set(self.bytes.get() - size);
        Some(first)
    }

    /// Puts a block onto its shelf. Returns false where there is no room for it.
    #[inline(always)]
    fn push(&self, prefix: NonNull<Prefix>, size: usize, shelf: usize) -> bool {
        let bytes = self.bytes.get() + size;
        let Some(list) = self.lists.get(shelf) else { return false };
        if bytes > SHELVES_LIMIT {
            return false;
        }
        // SAFETY: the block is ours: it was given back.
        unsafe { (*prefix.as_ptr()).next = list.get() };
        list.set(prefix.as_ptr());
        self.bytes.set(bytes);
        true
    }

    fn empty_inbox(&self) {
        if self.home.inbox.load(Ordering::Relaxed).is_null() {
            return;
        }
        let mut bytes = 0;
        for prefix in list(self.home.inbox.swap(ptr::null_mut(), Ordering::Acquire)) {
            // SAFETY: whoever takes the whole list owns every block on it.
            let Prefix { size, shelf, .. } = unsafe { prefix.read() };
            bytes += size;
            if !self.push(prefix, size, shelf) {
                free(prefix);
            }
        }
        self.home.inbox_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Shelves {
    fn drop(&mut self) {
        AT_HAND.set(ptr::null());
        self.lists.iter().flat_map(|shelf| list(shelf.replace(ptr::null_mut()))).for_each(free);
        list(self.home.inbox.swap(CLOSED, Ordering::Acquire)).for_each(free);
    }
}

/// Pushes a block onto its home's inbox. Reads nothing of the blocks that lie there, because the
/// home may free them at any time.
fn send_home(prefix: NonNull<Prefix>, home: *const PoolHome) {
    // SAFETY: the block holds a strong reference to its home, and is ours until it is pushed.
    let home = unsafe { &*home };
    // SAFETY: the block is ours.
    let size = unsafe { (*prefix.as_ptr()).size };
    if home.inbox_bytes.fetch_add(size, Ordering::Relaxed) + size > INBOX_LIMIT {
        home.inbox_bytes.fetch_sub(size, Ordering::Relaxed);
        return free(prefix);
    }
    let mut first = home.inbox.load(Ordering::Relaxed);
    while first != CLOSED {
        // SAFETY: the block is ours until the exchange below succeeds.
        unsafe { (*prefix.as_ptr()).next = first };
        match home.inbox.compare_exchange_weak(
            first,
            prefix.as_ptr(),
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            Ok(_) => return,
            Err(now) => first = now,
        }
    }
    free(prefix);
}

/// The blocks of a list that no other thread has. The link of each block is read before the block
/// is returned, so the caller may free it.
fn list(first: *mut Prefix) -> impl Iterator<Item = NonNull<Prefix>> {
    let mut rest = first;
    std::iter::from_fn(move || {
        let prefix = NonNull::new(rest)?;
        // SAFETY: the caller owns the list, and blocks that were handed out are not looked at
        // again.
        rest = unsafe { (*prefix.as_ptr()).next };
        Some(prefix)
    })
}

#[cold]
#[inline(never)]
fn allocate(size: usize, shelf: usize, home: *const PoolHome) -> Result<NonNull<u8>> {
    let block = block_layout(size).and_then(|layout| {
        // SAFETY: the layout has room for a prefix and so is not of size zero.
        NonNull::new(unsafe { std::alloc::alloc(layout) }.cast::<Prefix>())
    });
    let Some(prefix) = block else {
        if !home.is_null() {
            // SAFETY: the caller made this strong reference with `Arc::into_raw`.
            drop(unsafe { Arc::from_raw(home) });
        }
        return Err(
            Error::new(ErrorKind::OutOfMemory, format!("{size} bytes asked for")).during("export")
        );
    };
    // SAFETY: freshly allocated, with room and alignment for a prefix.
    unsafe { prefix.write(Prefix { home, next: ptr::null_mut(), size, shelf }) };
    Ok(payload(prefix))
}

fn free(prefix: NonNull<Prefix>) {
    // SAFETY: the caller owns the block, and `allocate` wrote the prefix.
    let Prefix { home, size, .. } = unsafe { prefix.read() };
    if let Some(layout) = block_layout(size) {
        // SAFETY: allocated in `allocate` with the layout of this size.
        unsafe { std::alloc::dealloc(prefix.as_ptr().cast(), layout) };
    }
    if !home.is_null() {
        // SAFETY: the block's own strong reference, made in `take_elsewhere`, given up once with
        // the block.
        drop(unsafe { Arc::from_raw(home) });
    }
}

fn payload(prefix: NonNull<Prefix>) -> NonNull<u8> {
    // SAFETY: every block has a whole prefix, so the address behind it is inside the block or one
    // past its end.
    unsafe { prefix.add(1) }.cast()
}

fn block_layout(size: usize) -> Option<Layout> {
    let whole = size.checked_add(size_of::<Prefix>())?;
    Layout::from_size_align(whole, align_of::<Prefix>()).ok()
}

/// The shelf for blocks that hold this many bytes, and the size of the blocks on it.
#[inline(always)]
const fn shelf_of(bytes: usize) -> Option<(usize, usize)> {
    if bytes > LARGEST {
        return None;
    }
    if bytes <= SMALLEST {
        return Some((0, SMALLEST));
    }
    let log = (bytes - 1).ilog2();
    let (base, step) = (1_usize << log, 1_usize << (log - 2));
    let steps = (bytes - base).div_ceil(step);
    let shelf = 4 * (log - SMALLEST_LOG) as usize + steps - 1;
    Some((shelf, base + steps * step))
}

#[cfg(test)]
#[allow(
    clippy::undocumented_unsafe_blocks,
    reason = "every block that a test gives back was taken by it"
)]
mod tests {
    use super::*;

    #[test]
    fn a_shelf_holds_blocks_of_one_size_and_wastes_little() {
        let step = if cfg!(miri) { 37 } else { 1 };
        for bytes in (1..5000).step_by(step).chain([100_000, LARGEST - 1, LARGEST]) {
            let (shelf, size) = shelf_of(bytes).unwrap();
            assert!(shelf < SHELVES, "{bytes}");
            assert!(size >= bytes);
            assert_eq!(shelf_of(size), Some((shelf, size)), "a block goes back where it came from");
            assert!(bytes <= SMALLEST || size - bytes <= size / 5, "{bytes} took {size}");
        }
        assert_eq!(shelf_of(LARGEST + 1), None);
    }

    #[test]
    fn a_block_comes_back_on_the_same_thread() {
        let first = take(3000).unwrap();
        unsafe { give(first) };
        let second = take(2900).unwrap();
        assert_eq!(first, second);
        unsafe { give(second) };
    }

    #[test]
    fn what_lies_at_hand_was_given_back_here() {
        let sizes = [1, 3000, LARGEST];
        std::thread::spawn(move || {
            assert!(sizes.iter().all(|bytes| Block::at_hand(*bytes).is_none()));
            let blocks = sizes.map(|bytes| Block::new(bytes).unwrap());
            let places = blocks.map(|block| block.bytes());
            for (bytes, place) in sizes.into_iter().zip(places) {
                let block = Block::at_hand(bytes).unwrap();
                assert_eq!(block.bytes(), place);
                assert!(Block::at_hand(bytes).is_none());
            }
            assert!(Block::at_hand(LARGEST + 1).is_none());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_block_is_taken_and_given_while_its_thread_ends() {
        /// Ends after the shelves where what is made first is dropped last. Windows drops what is
        /// made first before the rest.
        struct Late(Cell<Option<Block>>);
        impl Drop for Late {
            fn drop(&mut self) {
                drop((self.0.take(), Block::new(100).unwrap()));
                assert_eq!(at_hand(|_| Some(())).is_some(), cfg!(windows));
            }
        }
        thread_local! {
            static LATE: Late = const { Late(Cell::new(None)) };
        }
        std::thread::spawn(|| LATE.with(|late| late.0.set(Some(Block::new(100).unwrap()))))
            .join()
            .unwrap();
    }

    #[test]
    fn a_thread_keeps_no_more_than_it_may() {
        let blocks: Vec<_> = (0..20).map(|_| take(1 << 20).unwrap()).collect();
        blocks.into_iter().for_each(|block| unsafe { give(block) });
        let kept = LOCAL.with(|local| local.bytes.get());
        assert!((SHELVES_LIMIT / 2..=SHELVES_LIMIT).contains(&kept), "{kept}");
    }

    #[test]
    fn a_block_freed_elsewhere_comes_home() {
        let block = take(70_000).unwrap();
        let address = block.as_ptr() as usize;
        struct Sent(NonNull<u8>);
        unsafe impl Send for Sent {}
        let sent = Sent(block);
        std::thread::spawn(move || {
            let sent = sent;
            // So that this thread has shelves of its own.
            drop(Block::new(100).unwrap());
            unsafe { give(sent.0) };
            assert!(at_hand(|local| local.pop(shelf_of(70_000).unwrap().0)).is_none());
        })
        .join()
        .unwrap();
        let back = take(70_000).unwrap();
        assert_eq!(back.as_ptr() as usize, address);
        unsafe { give(back) };
    }

    #[test]
    fn a_block_outlives_its_home() {
        struct Sent(NonNull<u8>);
        unsafe impl Send for Sent {}
        let block = std::thread::spawn(|| Sent(take(500).unwrap())).join().unwrap();
        unsafe { block.0.write_bytes(1, 500) };
        unsafe { give(block.0) };
    }

    #[test]
    fn a_block_above_the_largest_size_is_the_allocators() {
        let block = take(LARGEST + 1).unwrap();
        unsafe { block.write_bytes(0, LARGEST + 1) };
        unsafe { give(block) };
    }
}
