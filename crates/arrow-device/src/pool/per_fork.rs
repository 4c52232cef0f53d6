//! [`PerFork`]: locked state of an object, for which a child of `fork` never waits.
//!
//! 1. The value is made when it is first asked for. No thread waits for another thread that makes a
//!    value: both threads make one, and one of the two values is kept.
//! 2. In a child of `fork`, a value of the parent may have a lock that a thread of the parent holds
//!    for ever. Where the lock that is asked for is held, the child puts a new value before the
//!    older one.
//! 3. The older value stays, because it may have all that is known of what the parent did.

use std::alloc::Layout;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use super::shared::Shared;
use crate::process::{self, MadeIn};
use crate::sync::lock;

/// A value behind locks that is made when it is first asked for. It is made anew in a child of
/// `fork` where a thread of the parent held one of the locks: see the page of this module.
pub(crate) struct PerFork<T: Locks>(AtomicPtr<c_void>, PhantomData<Shared<InProcess<T>>>);

/// A value that is behind locks.
pub(crate) trait Locks: Default + Send + Sync + 'static {
    /// Whether no thread holds any of the locks at this moment.
    fn are_free(&self) -> bool;
}

impl<P: Default + Send + 'static> Locks for Mutex<P> {
    fn are_free(&self) -> bool {
        !matches!(self.try_lock(), Err(TryLockError::WouldBlock))
    }
}

/// A value, and the process that it was made in.
pub(crate) struct InProcess<T> {
    made_in: MadeIn,
    value: T,
    /// A share of the value before this one, or null. Never changed.
    earlier: AtomicPtr<c_void>,
}

impl<T: Locks> InProcess<T> {
    /// Locks a part of the value. `None` in a child of `fork` where a thread of the parent may hold
    /// the lock for ever.
    pub(crate) fn lock<P>(&self, part: impl Fn(&T) -> &Mutex<P>) -> Option<MutexGuard<'_, P>> {
        match part(&self.value).try_lock() {
            Ok(locked) => Some(locked),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            // A thread of this process holds the lock, and gives it back.
            Err(TryLockError::WouldBlock) => {
                self.made_in.is_this().then(|| lock(part(&self.value)))
            }
        }
    }
}

impl<T: Locks> PerFork<T> {
    /// Makes a place for a value. The value is made when it is first asked for.
    #[inline(always)]
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()), PhantomData)
    }

    #[inline(always)]
    fn at(&self, place: &AtomicPtr<c_void>) -> Option<&InProcess<T>> {
        // SAFETY: both members hold null or a pointer of `Shared::into_raw` to an `InProcess<T>`,
        // which `Drop` alone gives back, when nobody borrows `self` any more.
        unsafe { Shared::peek(place.load(Ordering::Acquire)) }
    }

    /// Whether there never was a value.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.at(&self.0).is_none()
    }

    /// The values, the newest first. There is more than one only in a child of `fork`.
    pub(crate) fn all(&self) -> impl Iterator<Item = &InProcess<T>> {
        std::iter::successors(self.at(&self.0), |one| self.at(&one.earlier))
    }

    /// Locks a part of the newest value. If that value is the parent's and the lock is held, a part
    /// of a new value is locked instead.
    #[inline]
    pub(crate) fn lock<P>(&self, part: impl Fn(&T) -> &Mutex<P>) -> MutexGuard<'_, P> {
        let newest = self.at(&self.0).and_then(|newest| newest.lock(&part));
        newest.unwrap_or_else(|| lock(part(self.of_this_process())))
    }

    /// The value of this process, which is made now if there is none. No thread of another process
    /// holds its locks.
    #[inline(never)]
    pub(crate) fn of_this_process(&self) -> &T {
        loop {
            match self.at(&self.0) {
                Some(newest) if newest.made_in.is_this() => return &newest.value,
                _ => self.renew(),
            }
        }
    }

    /// Puts a new value before the others, unless another thread does so at this moment.
    #[cold]
    fn renew(&self) {
        // From here on there are locks that a child of `fork` could wait for.
        process::watch();
        let known = self.0.load(Ordering::Acquire);
        // Another thread may have made a value since this thread looked.
        if self.at(&self.0).is_some_and(|newest| newest.made_in.is_this()) {
            return;
        }
        let (made_in, value) = (MadeIn::this(), T::default());
        let fresh = Shared::new(InProcess { made_in, value, earlier: AtomicPtr::new(known) });
        // A lack of memory ends the process, as in the allocator, because no error can be returned.
        let fresh =
            fresh.unwrap_or_else(|_| std::alloc::handle_alloc_error(Layout::new::<InProcess<T>>()));
        let raw = Shared::into_raw(fresh);
        let stored =
            self.0.compare_exchange(known, raw.cast_mut(), Ordering::AcqRel, Ordering::Acquire);
        if stored.is_err() {
            // SAFETY: `into_raw` gave the pointer just now, and nobody else has seen it.
            drop(unsafe { Shared::<InProcess<T>>::from_raw(raw) });
        }
    }
}

impl<T: Locks> Drop for PerFork<T> {
    #[inline]
    fn drop(&mut self) {
        let mut next = *self.0.get_mut();
        while !next.is_null() {
            // SAFETY: the pointer is null or one of `Shared::into_raw` that `renew` has stored, in
            // `self` or in the value before, and both are looked at for the last time.
            let Some(one) = (unsafe { Shared::<InProcess<T>>::from_raw(next) }) else { return };
            next = one.earlier.load(Ordering::Relaxed);
            // A thread of the parent may have left the value half changed under a lock that it
            // held.
            if !one.made_in.is_this() && !one.value.are_free() {
                std::mem::forget(one);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_value_in_a_process() {
        // Threads that come at once make one value, however close they are.
        for _ in 0..if cfg!(miri) { 2 } else { 2000 } {
            let list = PerFork::<Mutex<Vec<Box<u32>>>>::new();
            assert!(list.is_empty());
            let at_once = std::sync::Barrier::new(4);
            std::thread::scope(|threads| {
                for number in 0..4 {
                    let (list, at_once) = (&list, &at_once);
                    threads.spawn(move || {
                        at_once.wait();
                        list.lock(|list| list).push(Box::new(number));
                    });
                }
            });
            lock(list.of_this_process()).push(Box::new(4));
            assert_eq!((list.all().count(), list.lock(|list| list).len()), (1, 5));
        }
    }
}
