//! Locks and values that belong to one process, in objects that a child of `fork` has, too.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::task::Waker;

use super::{MadeIn, generation, of_the_parent, watch};
use crate::Result;
use crate::sync::lock;
use crate::unwind;

/// A lock for which a child of `fork` does not wait where a thread of the parent held it at the
/// fork.
///
/// Such a thread never gives the lock back in the child, and may have left the value half changed.
/// In the child the lock is therefore refused with [`ErrorKind::Unsupported`](crate::ErrorKind),
/// and the value is never dropped. A lock that was free at the fork works in the child as in any
/// process. For a lock in a static, use a [`PerProcess`](super::PerProcess) instead.
///
/// A panic while the lock was held does not poison it.
///
/// ```
/// use arrow_device::driver::ForkMutex;
///
/// let names = ForkMutex::new(vec!["first"]);
/// names.lock()?.push("second");
/// assert_eq!(names.lock()?.len(), 2);
/// # Ok::<(), arrow_device::Error>(())
/// ```
pub struct ForkMutex<T> {
    /// Four times the number of the process that last looked whether the lock can be used, plus
    /// [`OPEN`], [`LOOKING`] or [`LOST`].
    state: AtomicU32,
    mutex: ManuallyDrop<Mutex<T>>,
}

/// The lock can be used.
const OPEN: u32 = 0;
/// A thread of this process is looking whether the lock is free.
const LOOKING: u32 = 1;
/// A thread of a parent holds the lock for ever.
const LOST: u32 = 2;
/// The factor of the numbers of processes.
const STATES: u32 = 4;

impl<T> ForkMutex<T> {
    /// A lock that is free.
    pub fn new(value: T) -> Self {
        // From here on there is a lock that a child of `fork` could wait for.
        watch();
        let state = AtomicU32::new(generation().wrapping_mul(STATES) + OPEN);
        Self { state, mutex: ManuallyDrop::new(Mutex::new(value)) }
    }

    /// Waits for the lock, and takes it.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) in a child of `fork`, where a thread of the
    /// parent had the lock at the fork.
    pub fn lock(&self) -> Result<MutexGuard<'_, T>> {
        if self.state.load(Ordering::Acquire) != generation().wrapping_mul(STATES) + OPEN {
            self.look()?;
        }
        Ok(lock(&self.mutex))
    }

    /// The value, which nobody else has. `None` where [`lock`](Self::lock) would be refused.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        if *self.state.get_mut() != generation().wrapping_mul(STATES) + OPEN {
            self.look().ok()?;
        }
        Some(self.mutex.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// In a child of `fork`, finds out whether the lock was free at the fork. The first thread of a
    /// process that comes here tries the lock before any other thread of the process does. If the
    /// lock is held, it is held by a thread of the parent.
    #[cold]
    fn look(&self) -> Result<()> {
        let this = generation().wrapping_mul(STATES);
        loop {
            let seen = self.state.load(Ordering::Acquire);
            if seen == this + OPEN {
                return Ok(());
            } else if seen % STATES == LOST {
                return Err(of_the_parent());
            } else if seen == this + LOOKING {
                // The looking thread waits for nobody, so this ends soon.
                std::thread::yield_now();
                continue;
            }
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            if self.state.compare_exchange(seen, this + LOOKING, success, failure).is_ok() {
                let is_lost = matches!(self.mutex.try_lock(), Err(TryLockError::WouldBlock));
                let found = if is_lost { LOST } else { OPEN };
                self.state.store(this + found, Ordering::Release);
            }
        }
    }
}

impl<T> Drop for ForkMutex<T> {
    fn drop(&mut self) {
        if self.get_mut().is_some() {
            // SAFETY: this is the end of the lock, and nobody uses the member afterwards.
            unsafe { ManuallyDrop::drop(&mut self.mutex) };
        }
    }
}

impl<T: Default> Default for ForkMutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> fmt::Debug for ForkMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ForkMutex")
    }
}

/// A value without meaning in a child of `fork`, such as a waker of the parent's executor. The
/// child neither uses nor drops it.
pub(crate) struct OfProcess<T> {
    made_in: MadeIn,
    value: ManuallyDrop<T>,
}

impl<T> OfProcess<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { made_in: MadeIn::this(), value: ManuallyDrop::new(value) }
    }

    /// The value, unless this is a child of the process that made it.
    fn take(self) -> Option<T> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the value is taken once, because neither `this` nor its member is dropped.
        this.made_in.is_this().then(|| unsafe { ManuallyDrop::take(&mut this.value) })
    }
}

impl OfProcess<Waker> {
    /// Wakes the waker, unless this is a child of the process that made it. A panic of the waker is
    /// its executor's fault, and is stopped here.
    pub(crate) fn wake(self) {
        if let Some(waker) = self.take() {
            unwind::is_well(|| waker.wake());
        }
    }

    /// Wakes the waker and returns it for the caller to drop: the waker may own something that
    /// wakes another task when it is dropped.
    pub(crate) fn woken(self) -> Self {
        if self.made_in.is_this() {
            unwind::is_well(|| self.value.wake_by_ref());
        }
        self
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if self.made_in.is_this() {
            let value = &mut self.value;
            // The value is foreign code. A panic of its drop must not keep the caller from what
            // comes after it.
            unwind::is_well(|| {
                // SAFETY: this is the end of the value, and nobody uses the member afterwards.
                unsafe { ManuallyDrop::drop(value) }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_lock_keeps_and_drops_its_value() {
        let counted = Arc::new(());
        let mut list = ForkMutex::<Vec<Arc<()>>>::default();
        std::thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(|| list.lock().unwrap().push(counted.clone()));
            }
        });
        assert_eq!(list.get_mut().map(|list| list.len()), Some(3));
        drop(list);
        assert_eq!(Arc::strong_count(&counted), 1);
    }

    /// As a child of the process that has made the lock sees it.
    fn as_in_a_child<T>(lock: &ForkMutex<T>) {
        let of_another = generation().wrapping_add(7).wrapping_mul(STATES) + OPEN;
        lock.state.store(of_another, Ordering::Release);
    }

    // Requirement: SAF-27
    #[test]
    fn a_child_waits_for_its_own_threads_alone() {
        let counted = Arc::new(());
        let (free, held) = (ForkMutex::new(counted.clone()), ForkMutex::new(counted.clone()));
        as_in_a_child(&free);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    let locked = free.lock().unwrap();
                    std::thread::yield_now();
                    drop(locked);
                });
            }
        });
        // A thread of the parent: this one. The guard is never given back.
        std::mem::forget(held.lock().unwrap());
        as_in_a_child(&held);
        assert!((0..2).all(|_| held.lock().is_err()));
        as_in_a_child(&held);
        held.state.fetch_or(LOST, Ordering::Relaxed);
        assert!(held.lock().is_err(), "nor does a child of the child");
        drop((free, held));
        assert_eq!(Arc::strong_count(&counted), 2, "what may be half changed is kept");
        // SAFETY: the share that was kept is nobody's, and is given back for checkers of leaks.
        drop(unsafe { Arc::from_raw(Arc::as_ptr(&counted)) });
    }
}
