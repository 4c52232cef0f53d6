//! Counting how often the allocator is asked. Each thread counts for itself, so that tests do not
//! disturb each other.
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
    /// How many bytes this thread allocated more than it freed, and the most since `peak` began.
    static BYTES: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, which counts. A program names it as its global allocator.
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
    // Nobody counts while a thread is being torn down.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

fn add_bytes(more: isize) {
    let _ = BYTES.try_with(|bytes| {
        bytes.set(bytes.get() + more);
        PEAK.set(PEAK.get().max(bytes.get()));
    });
}

/// How many bytes this thread had at most at one time meanwhile that it did not have before: 0 in a
/// program without the allocator. A block that is resized counts once.
pub fn peak<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = BYTES.get();
    PEAK.set(before);
    let result = work();
    ((PEAK.get() - before).cast_unsigned(), result)
}

/// How often this thread asked for memory meanwhile: 0 in a program without the allocator.
pub fn count<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = COUNT.get();
    let result = work();
    (COUNT.get() - before, result)
}
