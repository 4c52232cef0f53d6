//! Counting what does not vary.
//!
//! A counted workload prepares what it needs, runs a few times so that what is recycled is there,
//! and then has one run measured by the meter it was given. Under callgrind, started with
//! `--toggle-collect=arrow_device_measured`, that run's instructions are all that is collected.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// A workload whose costs are counted.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// Its name in the file of counts: `export/int64 batch/1000`.
    pub name: &'static str,
    /// What was promised: a count, by its name, and the most it may be.
    pub promised: &'static [(&'static str, u64)],
    /// Prepares, and measures one run.
    pub run: fn(&mut Meter),
}

/// Allocator calls, the name of a count.
pub const ALLOCATIONS: &str = "allocations";
/// Bytes allocated, the name of a count.
pub const ALLOCATED: &str = "bytes allocated";
/// Instructions, the name of a count. Only callgrind knows them.
pub const INSTRUCTIONS: &str = "instructions";
/// Calls of a device's driver, the name of a count.
pub const DRIVER_CALLS: &str = "driver calls";
/// Bytes moved to or from a device, the name of a count.
pub const MOVED: &str = "bytes moved";
/// Times the host waited for a device, the name of a count.
pub const WAITS: &str = "waits";

/// Measures one run, and keeps what was counted.
#[derive(Debug, Default)]
pub struct Meter {
    counts: Vec<(&'static str, u64)>,
}

impl Meter {
    /// Runs it and counts what the allocator was asked for meanwhile, by all threads.
    pub fn measure<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let (mut work, mut result) = (Some(work), None);
        let before = asked();
        arrow_device_measured(&mut || result = work.take().map(|work| work()));
        let after = asked();
        self.note(ALLOCATIONS, after.0 - before.0);
        self.note(ALLOCATED, after.1 - before.1);
        result.expect("it was run")
    }

    /// Runs what several threads do, and counts what the allocator was asked for. How many
    /// instructions threads need to meet each other is different each time, so callgrind is not
    /// shown it.
    pub fn measure_threads<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let before = asked();
        let result = work();
        let after = asked();
        self.note(ALLOCATIONS, after.0 - before.0);
        self.note(ALLOCATED, after.1 - before.1);
        result
    }

    /// Also this was counted.
    pub fn note(&mut self, name: &'static str, count: u64) {
        self.counts.push((name, count));
    }

    /// All that was counted.
    pub fn counts(&self) -> &[(&'static str, u64)] {
        &self.counts
    }
}

/// What callgrind looks for. It has its own name in the program, and is never inlined.
#[unsafe(no_mangle)]
#[inline(never)]
#[allow(improper_ctypes_definitions, reason = "nothing in C calls it; the name is for callgrind")]
extern "C" fn arrow_device_measured(work: &mut dyn FnMut()) {
    work();
}

/// The system's allocator, which counts. A program names it as its global allocator.
#[derive(Debug)]
pub struct Counting;

static CALLS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        one_more(layout.size());
        // SAFETY: the caller keeps what `GlobalAlloc` asks for, and each block is one of
        // `System`'s.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        one_more(layout.size());
        // SAFETY: the caller keeps what `GlobalAlloc` asks for, and each block is one of
        // `System`'s.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        one_more(size);
        // SAFETY: the caller keeps what `GlobalAlloc` asks for, and each block is one of
        // `System`'s.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps what `GlobalAlloc` asks for, and each block is one of
        // `System`'s.
        unsafe { System.dealloc(block, layout) }
    }
}

fn one_more(bytes: usize) {
    CALLS.fetch_add(1, Ordering::Relaxed);
    BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
}

fn asked() -> (u64, u64) {
    (CALLS.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed))
}
