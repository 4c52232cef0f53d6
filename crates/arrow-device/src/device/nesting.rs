//! Drops that nest: an array that owns an array that owns an array, a million times over.
//!
//! An owner like that is made by exporting an imported array, by a buffer of one array in another,
//! and by C structs of another library between two of them. Each drop would call the next one,
//! until the stack ends. The way out:
//!
//! 1. Each thread counts how many drops of this module it is inside of.
//! 2. Up to `DEEPEST`, a value is dropped at once.
//! 3. A value that would be dropped deeper is put on a list of the thread. The list is a stack: the
//!    value that came last is dropped first.
//! 4. The outermost drop empties the list before it returns. The list is emptied sooner where the
//!    thread asks for releases or for memory. Values that are put on the list meanwhile are dropped
//!    too.
//!
//! The stack is therefore never deeper than two times `DEEPEST` drops. Callbacks of another library
//! between two drops make no difference, because the count is of the thread. In the usual case, a
//! drop costs two accesses to a thread-local counter. What must stay true: values on the list are
//! counted as being released, and a child of `fork` drops none of its parent's.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ptr;

use super::deferred;
use crate::process::MadeIn;
use crate::unwind;

/// How many drops of this module a thread is inside of at most. Callbacks of other libraries
/// between them may each need a lot of stack.
const DEEPEST: usize = 16;

thread_local! {
    /// How many drops of this module this thread is inside of.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The list of values that wait for the end of the outermost drop, the last one first. The list
    /// is null outside of a drop, so that nothing is left when the thread ends and no destructor is
    /// needed.
    static WAITING: Cell<*mut Nested> = const { Cell::new(ptr::null_mut()) };
    /// The process in which this thread is emptying the list. A value that is being dropped counts
    /// as being released until its drop returns.
    static DROPS_LIST_IN: Cell<Option<MadeIn>> = const { Cell::new(None) };
}

struct Nested {
    what: Box<dyn Droppable>,
    made_in: MadeIn,
    next: *mut Nested,
}

/// Implemented by every type, since every value can be dropped.
trait Droppable {}

impl<T> Droppable for T {}

/// Drops a value at once. Where this thread is deep in other drops, the value is dropped before the
/// outermost one returns.
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

/// Drops an owned value, as [`drop_bounded`] does.
pub(crate) fn drop_owned<T: 'static>(what: T) {
    let mut what = ManuallyDrop::new(what);
    // SAFETY: dropped once, here.
    unsafe { drop_bounded(&mut what) }
}

/// Whether this thread is dropping a value of the list. In a child of `fork`, the answer is no for
/// a value of the parent's list.
pub(crate) fn is_dropping_list() -> bool {
    DROPS_LIST_IN.get().is_some_and(MadeIn::is_this)
}

/// Whether this thread has values that were put on the list, waiting or being dropped.
pub(crate) fn is_in_hand() -> bool {
    has_waiting() || is_dropping_list()
}

/// Drops the values that wait for the end of this thread's outermost drop, unless the thread is
/// dropping the list already. Returns whether there were any.
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

/// Restores the depth, and empties the list at the end of the outermost drop, even where that
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
    // A child of `fork` has to recognise the values of its parent's list.
    let made_in = MadeIn::watched();
    deferred::count_nested();
    let what = Box::new(what);
    let waiting = Box::new(Nested { what, made_in, next: WAITING.get() });
    WAITING.set(Box::into_raw(waiting));
}

/// Drops the values of the list, and those that are put there meanwhile. Their drops nest as deep
/// as those of a thread that is in no drop. The stack is therefore never deeper than two times
/// `DEEPEST` drops.
#[cold]
#[inline(never)]
fn drop_waiting() {
    let before = (DEPTH.replace(1), DROPS_LIST_IN.replace(Some(MadeIn::this())));
    while has_waiting() {
        // SAFETY: `drop_later` made it with `Box::into_raw`, and it is taken off the list here.
        let Nested { what, made_in, next } = *unsafe { Box::from_raw(WAITING.get()) };
        WAITING.set(next);
        if !made_in.is_this() {
            // One of the drops forked, and this is the child. The parent releases the value.
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
