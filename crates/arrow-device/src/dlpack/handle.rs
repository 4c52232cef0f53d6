//! [`Handle`]: a share of a value, as small as a pointer.
//!
//! What a tensor is takes many words. They are written once, into a recycled block, and only the
//! block's address is moved.

use std::alloc::Layout;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use crate::pool::block;

/// One of several owners of a value. The last one drops it. What [`Arc`](std::sync::Arc) is, in a
/// block of the pool.
pub(crate) struct Handle<T> {
    block: NonNull<CountedValue<T>>,
    owned: PhantomData<CountedValue<T>>,
}

struct CountedValue<T> {
    /// How many handles there are.
    count: AtomicUsize,
    value: T,
}

// SAFETY: handles on several threads give out shared references, so the value is `Sync`; the last
// one drops it, so it is `Send`.
unsafe impl<T: Send + Sync> Send for Handle<T> {}
// SAFETY: a shared handle gives out shared references to the value, which is `Sync`, and can be
// cloned to be dropped elsewhere, for which the value is `Send`; the count is atomic.
unsafe impl<T: Send + Sync> Sync for Handle<T> {}

/// A block for a value that is not there yet.
pub(crate) struct HandleVacancy<T>(block::Block, PhantomData<T>);

impl<T> HandleVacancy<T> {
    /// One that the thread has lying there, if there is one.
    #[inline(always)]
    pub(crate) fn at_hand() -> Option<Self> {
        block::Block::at_hand(size_of::<CountedValue<T>>()).map(|block| Self(block, PhantomData))
    }

    /// Makes the value where it stays.
    #[inline(always)]
    pub(crate) fn fill(self, make: impl FnOnce() -> T) -> Handle<T> {
        const { assert!(align_of::<CountedValue<T>>() <= block::ALIGNMENT) };
        let block = self.0.bytes().cast::<CountedValue<T>>();
        let counted = CountedValue { count: AtomicUsize::new(1), value: make() };
        // SAFETY: the block has room for it, is aligned to what the assertion above says at least,
        // and nobody else has it.
        unsafe { block.write(counted) };
        // The handle gives it back.
        self.0.into_bytes();
        Handle { block, owned: PhantomData }
    }
}

impl<T> Handle<T> {
    /// Makes the value in its place.
    #[inline(always)]
    pub(crate) fn new(make: impl FnOnce() -> T) -> Self {
        let Ok(block) = block::Block::new(size_of::<CountedValue<T>>()) else {
            std::alloc::handle_alloc_error(Layout::new::<CountedValue<T>>())
        };
        HandleVacancy(block, PhantomData).fill(make)
    }

    /// Whether there is no other handle, and so nobody who could make one.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.counted().count.load(Ordering::Acquire) == 1
    }

    /// The value, if there is no other handle.
    #[inline]
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        if !self.is_alone() {
            return None;
        }
        // SAFETY: the only handle, borrowed for as long as the value is. The load above acquired
        // what the others released.
        let counted = unsafe { self.block.as_mut() };
        Some(&mut counted.value)
    }

    #[inline]
    fn counted(&self) -> &CountedValue<T> {
        // SAFETY: `new` wrote it, and it is dropped with the last handle. It is only changed by the
        // only handle, borrowed alone.
        unsafe { self.block.as_ref() }
    }

    /// # Safety
    /// This was the last handle, and is not used after this.
    #[inline]
    unsafe fn end(&mut self) {
        /// Gives the block back even if the drop of the value panics.
        struct GivenBack(NonNull<u8>);
        impl Drop for GivenBack {
            fn drop(&mut self) {
                // SAFETY: it came from the pool, and whoever has this does not use it any more.
                unsafe { block::give(self.0) }
            }
        }
        let _block = GivenBack(self.block.cast());
        // SAFETY: this was the last handle, and is not used after this, as the caller promises.
        unsafe { self.block.drop_in_place() }
    }
}

impl<T> Deref for Handle<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.counted().value
    }
}

impl<T> Clone for Handle<T> {
    #[inline]
    fn clone(&self) -> Self {
        // A handle is made from one that is there, which orders all that matters; as in `Arc`.
        let before = self.counted().count.fetch_add(1, Ordering::Relaxed);
        if before > isize::MAX as usize {
            // Only forgotten handles come to this. One more round, and the value would be dropped
            // below somebody.
            std::process::abort();
        }
        Self { block: self.block, owned: PhantomData }
    }
}

impl<T> Drop for Handle<T> {
    #[inline]
    fn drop(&mut self) {
        // The only handle needs no count: nobody else is there to change it.
        if !self.is_alone() {
            if self.counted().count.fetch_sub(1, Ordering::Release) != 1 {
                return;
            }
            // What the other handles did with the value comes before its end.
            fence(Ordering::Acquire);
        }
        // SAFETY: no other handle is left, and this one ends here.
        unsafe { self.end() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_last_handle_drops_the_value() {
        let witness = Arc::new(());
        let first = Handle::new(|| witness.clone());
        let second = first.clone();
        drop(first);
        assert_eq!(Arc::strong_count(&witness), 2);
        drop(second);
        assert_eq!(Arc::strong_count(&witness), 1);
    }

    #[test]
    fn only_the_only_handle_changes_the_value() {
        let mut first = Handle::new(|| 1);
        let second = first.clone();
        assert!(!first.is_alone() && first.get_mut().is_none());
        drop(second);
        *first.get_mut().unwrap() = 2;
        assert_eq!((*first, first.is_alone()), (2, true));
    }

    #[test]
    fn threads_that_let_go_at_once_drop_the_value_once() {
        let rounds = if cfg!(miri) { 4 } else { 200 };
        for _ in 0..rounds {
            let witness = Arc::new(());
            let handle = Handle::new(|| witness.clone());
            let threads = [(); 4].map(|()| {
                let mine = handle.clone();
                std::thread::spawn(move || drop(mine.clone()))
            });
            drop(handle);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(Arc::strong_count(&witness), 1);
        }
    }

    #[test]
    #[cfg(panic = "unwind")]
    fn a_block_whose_value_panics_when_dropped_is_given_back() {
        struct Stubborn([u64; 40]);
        impl Drop for Stubborn {
            fn drop(&mut self) {
                assert_eq!(self.0, [7; 40]);
                panic!("planted");
            }
        }
        let handle = Handle::new(|| Stubborn([7; 40]));
        let place = handle.block;
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(handle))).unwrap_err();
        assert_eq!(Handle::new(|| [0_u64; 40]).block.cast(), place);
    }
}
