//! Which process this is, and whether it is about to end.
//!
//! A child of `fork` has the memory of its parent, and neither the parent's other threads nor its
//! devices: a driver that was used before the fork may hang there, and a lock that another thread
//! held at the fork is never given back. Processes are therefore numbered, whatever belongs to a
//! driver remembers the number of its process, and a lock that stands in a static is a
//! [`PerProcess`].
//!
//! A process that is about to end takes its drivers down, in an order that nobody knows. After that
//! has begun, no driver is called.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);
static EXITING: AtomicBool = AtomicBool::new(false);

/// The number of this process: 0 where the library was first used, and one more in a child of
/// `fork` than in its parent.
///
/// Forks are counted from the first call of [`watch`] on. Before that call there is nothing that a
/// child could not use.
#[inline(always)]
pub(crate) fn generation() -> u32 {
    // Relaxed: the number changes in a child that has one thread, before `fork` returns there.
    GENERATION.load(Ordering::Relaxed)
}

/// Whether the process has begun to end.
#[inline(always)]
pub(crate) fn is_exiting() -> bool {
    EXITING.load(Ordering::Acquire)
}

/// Begins to count forks, and to see the end. Called when a driver is about to be used, after its
/// library was loaded: handlers of the end run in the opposite order of their registration.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // Miri has neither function, nor the events that they announce.
        #[cfg(not(miri))]
        register();
    });
}

#[cfg(not(miri))]
fn register() {
    extern "C" fn exiting() {
        EXITING.store(true, Ordering::Release);
    }
    // SAFETY: the handler stores a value in a static and can be called at any time. Where it cannot
    // be registered there is no memory left, and the end is not seen.
    let _ = unsafe { libc::atexit(exiting) };
    #[cfg(unix)]
    {
        extern "C" fn forked() {
            GENERATION.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the handler adds to a static and can be called at any time: POSIX lets a child of
        // `fork` call what is async-signal-safe, and an atomic addition is.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    }
}

/// A value for a static, of which a child of `fork` has a fresh one: a lock that another thread of
/// the parent held at the fork does not stop the child.
pub(crate) struct PerProcess<T: 'static> {
    /// That of the first process.
    first: T,
    /// That of a child. Never freed: others may look at it.
    of_child: AtomicPtr<OfChild<T>>,
}

struct OfChild<T> {
    generation: u32,
    value: T,
}

impl<T: Default + Sync> PerProcess<T> {
    pub(crate) const fn new(first: T) -> Self {
        Self { first, of_child: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The value of this process.
    #[inline(always)]
    pub(crate) fn get(&'static self) -> &'static T {
        match generation() {
            0 => &self.first,
            generation => self.of_child(generation),
        }
    }

    #[cold]
    fn of_child(&self, generation: u32) -> &'static T {
        let known = self.of_child.load(Ordering::Acquire);
        // SAFETY: null, or made by `Box::into_raw` below and never freed.
        if let Some(known) = unsafe { known.as_ref() }
            && known.generation == generation
        {
            return &known.value;
        }
        let fresh = Box::into_raw(Box::new(OfChild { generation, value: T::default() }));
        let stored =
            self.of_child.compare_exchange(known, fresh, Ordering::AcqRel, Ordering::Acquire);
        let current = match stored {
            Ok(_) => fresh,
            Err(of_another_thread) => {
                // SAFETY: `Box::into_raw` gave it above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(fresh) });
                of_another_thread
            }
        };
        // SAFETY: made by `Box::into_raw` here or on another thread of this process, which has one
        // generation, and never freed.
        unsafe { &(*current).value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn a_process_has_one_value() {
        static VALUE: PerProcess<Mutex<u32>> = PerProcess::new(Mutex::new(7));
        *crate::sync::lock(VALUE.get()) += 1;
        assert_eq!(*crate::sync::lock(VALUE.get()), 8);
    }

    #[test]
    fn a_child_has_a_value_of_its_own_that_stays() {
        static VALUE: PerProcess<Mutex<u32>> = PerProcess::new(Mutex::new(7));
        let held = VALUE.get().lock();
        let of_child = VALUE.of_child(1);
        *crate::sync::lock(of_child) += 1;
        assert_eq!(*crate::sync::lock(VALUE.of_child(1)), 1);
        drop(held);
        // Freed for the checkers of leaks: no test uses it any more.
        let last = VALUE.of_child.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: `of_child` made it, and the reference above is not used again.
        drop(unsafe { Box::from_raw(last) });
    }
}
