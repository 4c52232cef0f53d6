//! Counts how often the allocator is asked for memory. Each thread counts for itself, so that tests
//! do not disturb each other.
//!
//! ```
//! use arrow_device_testkit::allocations::{Counting, count};
//!
//! #[global_allocator]
//! static ALLOCATOR: Counting = Counting;
//!
//! let (allocations, numbers) = count(|| vec![1, 2, 3]);
//! assert_eq!((allocations, numbers.len()), (1, 3));
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
    /// How many bytes this thread allocated more than it freed, and the most of that since `peak`
    /// began.
    static BYTES: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator with counts. A program makes it its global allocator.
#[derive(Debug)]
pub struct Counting;

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        one_more();
        add_bytes(layout.size().cast_signed());
        // SAFETY: what `GlobalAlloc::alloc` asks for, which the caller keeps, is what `System` asks
        // for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        one_more();
        add_bytes(size.cast_signed() - layout.size().cast_signed());
        // SAFETY: what `GlobalAlloc::realloc` asks for, which the caller keeps, is what `System`
        // asks for: each block of this allocator is one of `System`'s.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        add_bytes(-layout.size().cast_signed());
        // SAFETY: what `GlobalAlloc::dealloc` asks for, which the caller keeps, is what `System`
        // asks for: each block of this allocator is one of `System`'s.
        unsafe { System.dealloc(block, layout) }
    }
}

fn one_more() {
    // Nothing is counted while a thread is being torn down.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

fn add_bytes(more: isize) {
    let _ = BYTES.try_with(|bytes| {
        bytes.set(bytes.get() + more);
        PEAK.set(PEAK.get().max(bytes.get()));
    });
}

/// Calls `work`, and returns the most bytes that this thread had at one time meanwhile in addition
/// to those before. That is 0 in a program without this allocator. A block that is resized counts
/// once.
pub fn peak<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = BYTES.get();
    PEAK.set(before);
    let result = work();
    ((PEAK.get() - before).cast_unsigned(), result)
}

/// Calls `work`, and returns how often this thread asked for memory meanwhile. That is 0 in a
/// program without this allocator.
pub fn count<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = COUNT.get();
    let result = work();
    (COUNT.get() - before, result)
}
