//! Lookups by the library's own numbers: of nodes, rules, pieces, and of places in tables.
//!
//! A number from outside is checked, and a wrong one is an error or `None`. A number that the
//! library made is always right, unless the library has a bug. Then no answer would be right: each
//! default would be the wrong node, buffer or length, and would be used. So the lookup panics. No
//! unsafe code is reached, and no panic passes through C, because every function that C calls is
//! guarded.

use std::ops::Range;

/// What was found by one of the library's own numbers. Panics if nothing was found.
#[inline(always)]
#[track_caller]
pub(crate) fn numbered<T>(found: Option<T>) -> T {
    match found {
        Some(found) => found,
        None => names_nothing(),
    }
}

/// The items with these numbers. Without any number the result is empty, wherever the range begins.
#[inline(always)]
#[track_caller]
pub(crate) fn all_numbered<T>(all: &[T], numbers: Range<usize>) -> &[T] {
    match all.get(numbers.start..numbers.end) {
        Some(found) => found,
        None if numbers.start == numbers.end => &[],
        None => names_nothing(),
    }
}

/// Panics if there is no room where the library has just made room.
#[inline(always)]
#[track_caller]
pub(crate) fn fitted(fits: bool) {
    if !fits {
        names_nothing();
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn names_nothing() -> ! {
    unreachable!("a number of the library's own names nothing: a bug of arrow-device")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// Whether this panics, and says whose fault that is.
    pub(crate) fn is_a_bug_of_ours<T>(what: impl FnOnce() -> T) -> bool {
        let Err(payload) = catch_unwind(AssertUnwindSafe(what)) else { return false };
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or(payload.downcast_ref::<String>().map(String::as_str));
        text.is_some_and(|text| text.contains("a bug of arrow-device"))
    }

    #[test]
    fn numbers_that_name_nothing_are_found() {
        assert_eq!(numbered(Some(7)), 7);
        assert!(is_a_bug_of_ours(|| numbered(None::<u32>)));
        assert_eq!(all_numbered(&[1, 2, 3], 1..3), [2, 3]);
        assert!(all_numbered(&[1, 2, 3], usize::MAX..usize::MAX).is_empty());
        for numbers in [2..4, 4..5, 0_usize.wrapping_sub(1)..2] {
            assert!(is_a_bug_of_ours(|| all_numbered(&[1, 2, 3], numbers.clone())), "{numbers:?}");
        }
        fitted(true);
        assert!(is_a_bug_of_ours(|| fitted(false)));
    }
}
