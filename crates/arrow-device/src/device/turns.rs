//! [`Turns`]: a value that calls use in turns, because they may run foreign code.
//!
//! 1. One atomic number says who has the turn: the thread, its process, and whether others wait. A
//!    free turn is taken by one compare-and-exchange.
//! 2. Where the number is that of this thread, or of a parent process, the result is an error.
//! 3. Otherwise the thread sets the bit [`IS_AWAITED`] and waits in `waiting`, which knows which
//!    thread waits for which, and refuses a wait that would close a circle.
//! 4. The thread that ends a turn sets the number to 0, and wakes the waiting threads if the bit
//!    was set. Where nobody waits, a turn is two atomic operations and a lock that is always free.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::{deferred, waiting};
use crate::numbered::numbered;
use crate::process;
use crate::sync::lock;
use crate::{Error, ErrorKind, Result};

/// A value that several threads share and that one of them has at a time. For objects of the C and
/// Python interfaces whose functions run foreign code: a stream whose source is a callback, or
/// memory that a driver maps.
///
/// A lock would hang where the foreign code calls a function of the same object, and in a child of
/// `fork` where another thread of the parent had the lock. A turn is an error in both cases:
/// [`InvalidArgument`](ErrorKind::InvalidArgument) for the thread that has the turn already, and
/// [`Unsupported`](ErrorKind::Unsupported) in the child. Other threads wait for their turn, unless
/// the wait would never end. That is so where threads wait for each other's turns, and where a
/// thread with a turn waits for all [releases](crate::deferred::wait_until_released) while a
/// destructor waits for that turn. The thread that would close such a circle gets an error.
///
/// ```
/// use arrow_device::ErrorKind;
/// use arrow_device::driver::Turns;
///
/// let names = Turns::new(vec!["a"]);
/// let mut turn = names.take_turn("the list")?;
/// turn.push("b");
/// // What runs during the turn, on this thread, gets no second one.
/// let refused = names.take_turn("the list").unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
/// drop(turn);
/// assert_eq!(names.take_turn("the list")?.len(), 2);
/// # Ok::<(), arrow_device::Error>(())
/// ```
///
/// If a `Turns` is dropped in a child of `fork`, and a thread of the parent had a turn at the fork,
/// the value is leaked and counted as [`abandoned`](crate::deferred::HeldBack::abandoned).
pub struct Turns<T> {
    /// Who has the turn: a [`Holder`] as a number, or 0.
    holder: AtomicU64,
    /// Locked by the holder of the turn alone, so nobody waits for the lock. `None` only while this
    /// is dropped.
    value: Mutex<Option<T>>,
}

/// The value of a [`Turns`], until the turn is dropped. A turn stays on its thread.
#[must_use]
pub struct Turn<'turns, T> {
    of: &'turns Turns<T>,
    /// `None` only while this is dropped.
    value: Option<MutexGuard<'turns, Option<T>>>,
}

/// Which thread of which process has a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Holder {
    thread: u32,
    /// Less than 2^31.
    process: u32,
}

/// The bit of a holder's number that says that others wait for the turn.
const IS_AWAITED: u64 = 1 << 63;

impl Holder {
    /// This thread as a holder. The number of a thread is not 0, and stays in a child of `fork`.
    fn this() -> Self {
        Self { thread: waiting::this_thread(), process: process::generation() }
    }

    fn number(self) -> u64 {
        u64::from(self.process) << 32 | u64::from(self.thread)
    }

    /// The holder with this number.
    fn of(number: u64) -> Self {
        let [number, process] = [number, (number & !IS_AWAITED) >> 32].map(|it| it & 0xffff_ffff);
        let narrow = |half: u64| u32::try_from(half).unwrap_or(u32::MAX);
        Self { thread: narrow(number), process: narrow(process) }
    }
}

impl<T> Turns<T> {
    /// Shares a value.
    pub const fn new(value: T) -> Self {
        Self { holder: AtomicU64::new(0), value: Mutex::new(Some(value)) }
    }

    /// Waits until no other thread has the value. `what` is the name of the value in errors.
    ///
    /// # Errors
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) if this thread has the value already, or if
    /// the thread that has it waits for a turn of this thread or for a release that this thread is
    /// in. [`Unsupported`](ErrorKind::Unsupported) in a child of `fork`, if another thread of the
    /// parent had the value at the fork.
    pub fn take_turn(&self, what: &str) -> Result<Turn<'_, T>> {
        // From here on there are turns that a child of `fork` could wait for.
        process::watch();
        let this = Holder::this();
        loop {
            let taken = self.holder.compare_exchange(
                0,
                this.number(),
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            let Err(holder) = taken else { break };
            self.wait_for(holder, this, what)?;
        }
        let value = match self.value.try_lock() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(value)) => value.into_inner(),
            // Only the holder of the turn has the lock, so this does not happen.
            Err(TryLockError::WouldBlock) => lock(&self.value),
        };
        Ok(Turn { of: self, value: Some(value) })
    }

    /// Waits until the turn of this holder has ended. May return a little sooner.
    #[cold]
    fn wait_for(&self, number: u64, this: Holder, what: &str) -> Result<()> {
        let holder = Holder::of(number);
        if holder.thread == this.thread {
            let message = format!(
                "this thread is in another call of {what}, and would wait for itself: a callback asks its own object"
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        if holder.process != this.process {
            let message = format!(
                "this is a child of `fork`, and a thread of its parent was in a call of {what} at the fork"
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        // The thread that ends the turn reads this bit, and then takes the lock of the waiting
        // threads. That lock is held here until the wait has begun, so the end is not missed.
        let note = || {
            let noted = number | IS_AWAITED;
            let (set, unset) = (Ordering::Relaxed, Ordering::Relaxed);
            self.holder.compare_exchange(number, noted, set, unset).is_ok()
        };
        if waiting::wait_for_turn(self.address(), holder.thread, note) {
            return Ok(());
        }
        let message = format!(
            "the thread that is in a call of {what} waits for a call or for a release that this thread is in"
        );
        Err(Error::new(ErrorKind::InvalidArgument, message))
    }

    fn address(&self) -> usize {
        ptr::from_ref(&self.holder).addr()
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        drop(self.value.take());
        if self.of.holder.swap(0, Ordering::Release) & IS_AWAITED != 0 {
            waiting::end_turn(self.of.address());
        }
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        numbered(self.value.as_deref().and_then(Option::as_ref))
    }
}

impl<T> DerefMut for Turn<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        numbered(self.value.as_deref_mut().and_then(Option::as_mut))
    }
}

impl<T> Drop for Turns<T> {
    fn drop(&mut self) {
        // Nobody borrows this any more, so a turn that has not ended is one of the parent's.
        if *self.holder.get_mut() != 0 {
            let value = self.value.get_mut().unwrap_or_else(PoisonError::into_inner).take();
            // The value may have been left half changed.
            std::mem::forget(value);
            deferred::count_abandoned();
        }
    }
}

impl<T: Default> Default for Turns<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> fmt::Debug for Turns<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Turns")
    }
}

impl<T: fmt::Debug> fmt::Debug for Turn<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Turn({:?})", **self)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    // Requirement: SAF-24
    #[test]
    fn a_turn_inside_a_turn_is_an_error() {
        let turns = Turns::new(7);
        let turn = turns.take_turn("it").unwrap();
        let error = turns.take_turn("the number").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains("in another call of the number"), "{error}");
        drop(turn);
        assert_eq!(*turns.take_turn("it").unwrap(), 7);
    }

    // Requirement: SAF-24
    #[test]
    fn threads_that_would_wait_for_each_other_are_told() {
        let all = [0; 3].map(Turns::new);
        let barrier = std::sync::Barrier::new(all.len());
        let refused = std::thread::scope(|threads| {
            let ask = |number: usize| {
                let turn = all[number].take_turn("one's own").unwrap();
                barrier.wait();
                let next = all[(number + 1) % all.len()].take_turn("the next one's");
                drop(turn);
                next.map(drop).map_err(|error| error.kind())
            };
            let asking = [0, 1, 2].map(|number| threads.spawn(move || ask(number)));
            asking.map(|thread| thread.join().unwrap())
        });
        let count = refused.iter().filter(|one| **one == Err(ErrorKind::InvalidArgument)).count();
        assert_eq!(count, 1, "{refused:?}");
        assert_eq!(refused.iter().filter(|one| one.is_ok()).count(), 2);
    }

    #[test]
    fn threads_take_turns() {
        let turns = Turns::new(0_u32);
        let rounds = if cfg!(miri) { 20 } else { 2000 };
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..rounds {
                        let mut turn = turns.take_turn("it").unwrap();
                        let seen = *turn;
                        std::thread::yield_now();
                        *turn = seen + 1;
                    }
                });
            }
        });
        assert_eq!(*turns.take_turn("it").unwrap(), 4 * rounds);
    }

    #[test]
    fn a_thread_waits_until_the_turn_of_another_one_has_ended() {
        let turns = Turns::new(Vec::new());
        let (sender, receiver) = mpsc::channel();
        std::thread::scope(|threads| {
            let mut turn = turns.take_turn("it").unwrap();
            let waiting = threads.spawn(|| {
                sender.send(()).unwrap();
                turns.take_turn("it").map(|mut turn| turn.push(2))
            });
            receiver.recv().unwrap();
            while turns.holder.load(Ordering::Relaxed) & IS_AWAITED == 0 {
                std::thread::yield_now();
            }
            turn.push(1);
            drop(turn);
            assert!(waiting.join().unwrap().is_ok());
        });
        assert_eq!(*turns.take_turn("it").unwrap(), [1, 2]);
    }

    // Requirement: SAF-27
    #[test]
    fn a_turn_of_the_parent_is_an_error_in_a_child() {
        let value = std::sync::Arc::new(());
        let turns = Turns::new(value.clone());
        // As a child sees a turn of another thread of its parent.
        let this = Holder::this();
        let parent = Holder { thread: this.thread + 1000, process: this.process + 1 };
        turns.holder.store(parent.number() | IS_AWAITED, Ordering::Relaxed);
        assert!(Holder::of(parent.number() | IS_AWAITED) == parent);
        let error = turns.take_turn("it").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        drop(turns);
        assert_eq!(std::sync::Arc::strong_count(&value), 2, "the value is not touched");
        // Given back for the checkers of leaks.
        // SAFETY: the share that `turns` had was forgotten, and nobody uses it any more.
        unsafe { std::sync::Arc::decrement_strong_count(std::sync::Arc::as_ptr(&value)) };
    }

    #[test]
    #[cfg(panic = "unwind")]
    fn a_panic_ends_the_turn() {
        let turns = Turns::new(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _turn = turns.take_turn("it").unwrap();
            panic!("planted");
        }));
        assert!(panicked.is_err());
        assert_eq!(*turns.take_turn("it").unwrap(), 1);
    }
}
