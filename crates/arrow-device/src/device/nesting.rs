//! Drops that nest: an array that owns an array that owns an array, a million times over.
//!
//! Whoever exports an array that was imported makes such an owner, and so do a buffer of an array
//! in another array and the C structs of a peer between every two of them. Each drop would call the
//! next one, until the stack ends. Here a thread goes a few drops deep; what would be dropped
//! further down is put on a list, and dropped when the outermost drop is done, or sooner, when the
//! thread asks for releases or for memory. A peer's callback that stands between two drops does not
//! matter, since the count is of the thread.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ptr;

use super::deferred;
use crate::process::MadeIn;
use crate::unwind;

/// How many drops of this module a thread is inside of at most. A peer's callbacks between them may
/// need a lot of stack each.
const DEEPEST: usize = 16;

thread_local! {
    /// How many drops of this module this thread is inside of.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// What waits for the end of the outermost drop, the last one first. Null outside of a drop, so
    /// that nothing is left when the thread ends, and no destructor is needed.
    static WAITING: Cell<*mut Nested> = const { Cell::new(ptr::null_mut()) };
    /// The process in which this thread drops what is on the list. What is being dropped is counted
    /// as being released until its drop returns.
    static DROPS_LIST_IN: Cell<Option<MadeIn>> = const { Cell::new(None) };
}

struct Nested {
    what: Box<dyn Droppable>,
    made_in: MadeIn,
    next: *mut Nested,
}

/// Whatever can be dropped, which is everything.
trait Droppable {}

impl<T> Droppable for T {}

/// Drops a value: now, or, where this thread is deep in other drops, before the outermost one
/// returns.
///
/// # Safety
/// As for [`ManuallyDrop::drop`]: the value is not used after this, and not dropped again.
#[inline(always)]
pub(crate) unsafe fn drop_bounded<T: 'static>(what: &mut ManuallyDrop<T>) {
    let depth = DEPTH.get();
    if depth >= DEEPEST {
        // SAFETY: the value is not used after this, as the caller promises.
        drop_later(unsafe { ManuallyDrop::take(what) });
        return;
    }
    DEPTH.set(depth + 1);
    let deeper = OneDeeper(depth);
    // SAFETY: the value is not used after this, and not dropped again, as the caller promises.
    unsafe { ManuallyDrop::drop(what) };
    drop(deeper);
}

/// Drops a value that the caller has, as [`drop_bounded`] does.
pub(crate) fn drop_owned<T: 'static>(what: T) {
    let mut what = ManuallyDrop::new(what);
    // SAFETY: dropped once, here.
    unsafe { drop_bounded(&mut what) }
}

/// Whether this thread is in a drop of something that was on the list. In a child of `fork`, a drop
/// of the parent's list is none.
pub(crate) fn is_dropping_list() -> bool {
    DROPS_LIST_IN.get().is_some_and(MadeIn::is_this)
}

/// Whether this thread has anything in hand that was put on the list.
pub(crate) fn is_in_hand() -> bool {
    has_waiting() || is_dropping_list()
}

/// Drops what waits for the end of the outermost drop of this thread, unless the thread is in such
/// a drop. Returns whether there was anything.
#[inline(always)]
pub(crate) fn drop_waiting_now() -> bool {
    let is_any = has_waiting() && !is_dropping_list();
    if is_any {
        drop_waiting();
    }
    is_any
}

fn has_waiting() -> bool {
    !WAITING.get().is_null()
}

/// Sets the depth back, and drops what waits where the outermost drop is done: also where it
/// panics.
struct OneDeeper(usize);

impl Drop for OneDeeper {
    #[inline(always)]
    fn drop(&mut self) {
        DEPTH.set(self.0);
        if self.0 == 0 && has_waiting() {
            drop_waiting();
        }
    }
}

#[cold]
#[inline(never)]
fn drop_later<T: 'static>(what: T) {
    // A child of `fork` has to tell what its parent has on the list.
    let made_in = MadeIn::watched();
    deferred::count_nested();
    let what = Box::new(what);
    let waiting = Box::new(Nested { what, made_in, next: WAITING.get() });
    WAITING.set(Box::into_raw(waiting));
}

/// Drops what is on the list, and what is put there meanwhile. The drops nest as few times as those
/// of a thread that is in no drop, so that the stack is as deep as two lists need at most.
#[cold]
#[inline(never)]
fn drop_waiting() {
    let before = (DEPTH.replace(1), DROPS_LIST_IN.replace(Some(MadeIn::this())));
    while has_waiting() {
        // SAFETY: `drop_later` made it with `Box::into_raw`, and it is taken off the list here.
        let Nested { what, made_in, next } = *unsafe { Box::from_raw(WAITING.get()) };
        WAITING.set(next);
        if !made_in.is_this() {
            // One of the drops forked, and this is the child: the parent releases what is left.
            std::mem::forget(what);
            deferred::count_abandoned();
            continue;
        }
        let is_dropped = unwind::is_well(|| drop(what));
        if made_in.is_this() {
            deferred::count_nested_as_released(is_dropped);
        }
    }
    DEPTH.set(before.0);
    DROPS_LIST_IN.set(before.1);
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    static DROPS: AtomicUsize = AtomicUsize::new(0);

    /// One of many, each of which owns the next.
    struct Chained {
        next: ManuallyDrop<Option<Box<Chained>>>,
        panics: bool,
    }

    impl Drop for Chained {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Ordering::Relaxed);
            // SAFETY: dropped once, here.
            unsafe { drop_bounded(&mut self.next) }
            if self.panics {
                std::panic::resume_unwind(Box::new(()));
            }
        }
    }

    fn nested(count: usize, panics_at: usize) -> Chained {
        let one = |next, panics| Chained { next: ManuallyDrop::new(next), panics };
        let innermost = one(None, false);
        (1..count).fold(innermost, |inner, at| one(Some(Box::new(inner)), at == panics_at))
    }

    #[test]
    fn each_of_many_nested_values_is_dropped_once() {
        let count = if cfg!(miri) { 100 } else { 1_000_000 };
        let before = DROPS.load(Ordering::Relaxed);
        drop(nested(count, count));
        if cfg!(panic = "unwind") {
            let panicking = nested(count, count - 3);
            assert!(catch_unwind(AssertUnwindSafe(|| drop(panicking))).is_err());
            assert_eq!(DROPS.load(Ordering::Relaxed) - before, 2 * count);
            // The outermost one.
            let panicking = nested(count, count - 1);
            assert!(catch_unwind(AssertUnwindSafe(|| drop(panicking))).is_err());
            assert_eq!(DROPS.load(Ordering::Relaxed) - before, 3 * count);
        }
        assert_eq!((DEPTH.get(), WAITING.get()), (0, ptr::null_mut()));
    }
}
