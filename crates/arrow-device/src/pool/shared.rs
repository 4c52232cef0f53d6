//! [`Shared`]: a counted reference like `Arc`, to a value in recycled memory.
//!
//! Values that are imported again and again, as in a stream, cost no call of the allocator: their
//! memory comes from the [pool](super), and goes back to the thread that it came from, whichever
//! thread drops the last share. There are no weak references.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use super::block::{self, Block};
use crate::Result;

/// A share of a `T`.
pub(crate) struct Shared<T: 'static>(NonNull<Counted<T>>);

/// The layout of a block from its start on.
#[repr(C)]
struct Counted<T> {
    /// The prefix of the pool.
    _prefix: MaybeUninit<[u8; block::PREFIX]>,
    shares: AtomicUsize,
    /// Puts the count, which threads write, on another cache line than the value, which threads
    /// read meanwhile.
    _apart: MaybeUninit<[u8; 56]>,
    value: T,
}

// SAFETY: a share gives out shared references, so the value is `Sync`; the last share drops the
// value, on whatever thread, so the value is `Send`; the count is atomic.
unsafe impl<T: Send + Sync> Send for Shared<T> {}
// SAFETY: a shared share gives out shared references to the value, which is `Sync`, and can be
// cloned to be dropped elsewhere, for which the value is `Send`; the count is atomic.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

/// Memory for a `T` that was not made yet.
pub(crate) struct Vacancy<T: 'static>(Block, PhantomData<T>);

impl<T> Vacancy<T> {
    /// Memory from the pool. An error where there is no memory.
    #[inline(always)]
    pub(crate) fn new() -> Result<Self> {
        Self::with_room(0)
    }

    /// Memory with room for `bytes` bytes behind the `T`.
    #[inline(always)]
    pub(crate) fn with_room(bytes: usize) -> Result<Self> {
        const { assert!(align_of::<Counted<T>>() <= 16, "blocks are aligned to 16") };
        // A size beyond all memory is refused by `Block::new`.
        Ok(Self(Block::new(bytes.saturating_add(Self::ROOM_AT))?, PhantomData))
    }

    /// Memory from the thread's shelves; `None` where they have none. Callers that can do without
    /// recycled memory use this, and avoid a call of the allocator.
    #[inline(always)]
    pub(crate) fn at_hand() -> Option<Self> {
        Block::at_hand(Self::ROOM_AT).map(|block| Self(block, PhantomData))
    }

    /// The offset in a block's bytes at which the room begins, aligned to 16 as the block is.
    const ROOM_AT: usize = size_of::<Counted<T>>().next_multiple_of(16) - block::PREFIX;

    /// How much room there is behind the `T`, where `bytes` were asked for: as much or some more.
    #[inline(always)]
    pub(crate) fn room_for(bytes: usize) -> usize {
        block::capacity(bytes.saturating_add(Self::ROOM_AT)) - Self::ROOM_AT
    }

    /// The address of the room behind the `T`, aligned to 16. The room stays as long as the value
    /// does, and `Shared` does not use it.
    pub(crate) fn room(&self) -> NonNull<u8> {
        // SAFETY: the block was asked for with so many bytes and more.
        unsafe { self.0.bytes().add(Self::ROOM_AT) }
    }

    /// Puts the value there, and returns its first share.
    pub(crate) fn fill(self, value: T) -> Shared<T> {
        self.fill_with(|| value)
    }

    /// [`fill`](Self::fill) with a value that is made where it stays.
    #[inline(always)]
    pub(crate) fn fill_with(self, make: impl FnOnce() -> T) -> Shared<T> {
        let block = self.0.start().cast::<Counted<T>>();
        // SAFETY: the block is large enough for it, aligned to 16, and nobody else's.
        let shares = unsafe { &raw mut (*block.as_ptr()).shares };
        // SAFETY: the place lies in the block, which is aligned to 16 and nobody else's.
        unsafe { shares.write(AtomicUsize::new(1)) };
        // SAFETY: the block is large enough for a `Counted<T>`, aligned to 16, and nobody else's.
        let place = unsafe { &raw mut (*block.as_ptr()).value };
        // SAFETY: the place lies in the block, which is aligned to 16 and nobody else's. The value
        // is moved there at once, not as a part of something that is moved there.
        unsafe { place.write(make()) };
        // The last share gives the block back.
        self.0.into_start();
        Shared(block)
    }
}

impl<T> Shared<T> {
    /// The first share of a new value. An error where there is no memory.
    pub(crate) fn new(value: T) -> Result<Self> {
        Ok(Vacancy::new()?.fill(value))
    }

    /// Whether both are shares of one value.
    pub(crate) fn ptr_eq(one: &Self, other: &Self) -> bool {
        one.0 == other.0
    }

    /// How many shares there are at this moment.
    #[inline]
    pub(crate) fn count(shared: &Self) -> usize {
        shared.counted().shares.load(Ordering::Acquire)
    }

    /// Whether there is no other share, and so no other thread that could make one.
    #[inline]
    pub(crate) fn is_alone(shared: &Self) -> bool {
        Self::count(shared) == 1
    }

    /// The value, if there is no other share.
    #[inline]
    pub(crate) fn get_mut(shared: &mut Self) -> Option<&mut T> {
        if !Self::is_alone(shared) {
            return None;
        }
        // SAFETY: the only share is borrowed for as long as the value is, and nobody can make
        // another one meanwhile. What the others did is acquired by the look at the count.
        Some(unsafe { &mut (*shared.0.as_ptr()).value })
    }

    /// The share as a pointer, to be given back with [`from_raw`](Self::from_raw).
    pub(crate) fn into_raw(shared: Self) -> *const std::ffi::c_void {
        let raw = shared.0.as_ptr().cast_const().cast();
        std::mem::forget(shared);
        raw
    }

    /// The share of a pointer from [`into_raw`](Self::into_raw).
    ///
    /// # Safety
    /// The pointer is one of [`into_raw`](Self::into_raw) of the same type, and is given back once.
    pub(crate) unsafe fn from_raw(raw: *const std::ffi::c_void) -> Option<Self> {
        NonNull::new(raw.cast_mut().cast()).map(Self)
    }

    /// The value of a share that is a pointer, without a share of one's own.
    ///
    /// # Safety
    /// The pointer is null or one of [`into_raw`](Self::into_raw) of the same type, which is not
    /// given back as long as the reference is used.
    #[inline]
    pub(crate) unsafe fn peek<'a>(raw: *const std::ffi::c_void) -> Option<&'a T> {
        // SAFETY: the pointer is null or one of `into_raw` of the same type, which is not given
        // back as long as the reference is used, as the caller promises: the share that the pointer
        // stands for keeps the value.
        let counted = unsafe { raw.cast::<Counted<T>>().as_ref() };
        counted.map(|counted| &counted.value)
    }

    fn counted(&self) -> &Counted<T> {
        // SAFETY: `Vacancy::fill_with` wrote it, and it stays until the last share is dropped,
        // which this is not yet.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.counted().value
    }
}

/// The only share of a value, which may change the value.
pub(crate) struct Unique<T: 'static>(Shared<T>);

impl<T> Unique<T> {
    /// Puts a value into the place, and returns its only share.
    pub(crate) fn new(place: Vacancy<T>, value: T) -> Self {
        Self(place.fill(value))
    }

    /// Turns this into an ordinary share, which can be cloned.
    pub(crate) fn share(self) -> Shared<T> {
        self.0
    }
}

impl<T> Deref for Unique<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Unique<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the value is there as long as this is, and there is no other share: `new` made
        // the first one, and nothing here makes another.
        unsafe { &mut (*self.0.0.as_ptr()).value }
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        // Relaxed is enough, as for `Arc`: a thread that has a share can see the value already.
        let before = self.counted().shares.fetch_add(1, Ordering::Relaxed);
        // So many shares exist only if shares are forgotten in a loop. A count that overflows would
        // free a value that is in use.
        if before > usize::MAX / 2 {
            std::process::abort();
        }
        Self(self.0)
    }
}

impl<T> Drop for Shared<T> {
    #[inline]
    fn drop(&mut self) {
        // The drop happens after everything that other threads did with their shares. The holder of
        // the only share needs no more than a load.
        if !Self::is_alone(self) {
            if self.counted().shares.fetch_sub(1, Ordering::Release) != 1 {
                return;
            }
            fence(Ordering::Acquire);
        }
        // The block is given back even if the drop of the value panics.
        // SAFETY: `Vacancy::fill_with` has it from `into_start`, and this is the last share.
        let block = unsafe { Block::from_start(self.0.cast()) };
        // SAFETY: this makes a pointer to a member of a block that is there.
        let value = unsafe { &raw mut (*self.0.as_ptr()).value };
        // SAFETY: the last share is gone, so nobody else looks at the value, and nobody will.
        unsafe { ptr::drop_in_place(value) };
        drop(block);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use super::*;

    struct Noted(Arc<AtomicU64>, bool);

    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            assert!(!self.1, "planted");
        }
    }

    #[test]
    fn the_value_is_dropped_with_the_last_share_and_once() {
        let drops = Arc::new(AtomicU64::new(0));
        let first = Shared::new(Noted(drops.clone(), false)).unwrap();
        let second = first.clone();
        assert!(Shared::ptr_eq(&first, &second) && Shared::count(&first) == 2);
        let raw = Shared::into_raw(first);
        drop(second);
        assert_eq!(drops.load(Ordering::Relaxed), 0);
        // SAFETY: the pointer is the one that `into_raw` gave just now.
        let first = unsafe { Shared::<Noted>::from_raw(raw) }.unwrap();
        assert_eq!(Shared::count(&first), 1);
        drop(first);
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn only_the_only_share_changes_the_value() {
        let mut first = Shared::new(1).unwrap();
        let second = first.clone();
        assert!(!Shared::is_alone(&first) && Shared::get_mut(&mut first).is_none());
        drop(second);
        *Shared::get_mut(&mut first).unwrap() = 2;
        assert_eq!((*first, Shared::is_alone(&first)), (2, true));
    }

    #[test]
    fn a_value_is_made_in_a_block_that_lies_at_hand() {
        let first = Shared::new([1_u64; 40]).unwrap();
        let address = ptr::from_ref(&*first);
        drop(first);
        let place = Vacancy::<[u64; 40]>::at_hand().unwrap();
        let second = place.fill_with(|| [2; 40]);
        assert_eq!((ptr::from_ref(&*second), *second), (address, [2; 40]));
    }

    #[test]
    fn many_threads_drop_it_once() {
        let drops = Arc::new(AtomicU64::new(0));
        let shared = Shared::new(Noted(drops.clone(), false)).unwrap();
        std::thread::scope(|threads| {
            for _ in 0..4 {
                let shared = shared.clone();
                threads.spawn(move || (0..50).for_each(|_| drop(shared.clone())));
            }
            drop(shared);
        });
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn the_room_behind_a_value_is_its_own() {
        for bytes in [0, 1, 100, 5000, 3 << 20] {
            let place = Vacancy::<[u64; 5]>::with_room(bytes).unwrap();
            let (room, len) = (place.room(), Vacancy::<[u64; 5]>::room_for(bytes));
            assert!(len >= bytes && room.addr().get().is_multiple_of(16));
            // SAFETY: the block has so much room behind the value.
            unsafe { room.write_bytes(0xff, len) };
            let mut value = Unique::new(place, [1_u64; 5]);
            value[3] = 2;
            // SAFETY: the block has so much room behind the value.
            unsafe { room.write_bytes(0xee, len) };
            assert_eq!(*value.share(), [1, 1, 1, 2, 1]);
        }
    }

    #[test]
    fn the_memory_is_used_again() {
        let first = Shared::new([7_u64; 40]).unwrap();
        let address = ptr::from_ref(&*first);
        drop(first);
        let second = Shared::new([8_u64; 40]).unwrap();
        assert_eq!((ptr::from_ref(&*second), *second), (address, [8; 40]));
    }

    #[test]
    #[cfg(panic = "unwind")]
    fn a_value_that_panics_when_dropped_gives_its_memory_back() {
        let drops = Arc::new(AtomicU64::new(0));
        let shared = Shared::new((Noted(drops.clone(), true), [0_u64; 60])).unwrap();
        let address = ptr::from_ref(&*shared).addr();
        let dropping = std::panic::AssertUnwindSafe(|| drop(shared));
        assert!(std::panic::catch_unwind(dropping).is_err());
        assert_eq!(drops.load(Ordering::Relaxed), 1);
        let next = Shared::new((0_u64, [0_u64; 61])).unwrap();
        assert_eq!(ptr::from_ref(&*next).addr(), address);
    }
}
