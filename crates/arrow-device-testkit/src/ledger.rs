//! The books of a hand-written producer: what it has alive, and what was done to its structs.

use std::alloc::Layout;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::{Verdict, require};

/// The books of one producer.
#[derive(Debug, Default)]
pub struct Ledger {
    live: AtomicUsize,
    base_releases: AtomicUsize,
    complaints: Mutex<Vec<String>>,
}

impl Ledger {
    /// Returns empty books.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Notes that something is alive from now on.
    pub fn opened(&self) {
        self.live.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that something is not alive any more.
    pub fn closed(&self) {
        self.live.fetch_sub(1, Ordering::SeqCst);
    }

    /// Notes that the release of a base structure was called.
    pub fn base_released(&self) {
        self.base_releases.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that somebody did something wrong.
    pub fn complain(&self, complaint: impl Into<String>) {
        self.complaints.lock().unwrap().push(complaint.into());
    }

    /// Returns how many structs and buffers are not released.
    pub fn live(&self) -> usize {
        self.live.load(Ordering::SeqCst)
    }

    /// Returns how often the release of a base structure was called.
    pub fn base_releases(&self) -> usize {
        self.base_releases.load(Ordering::SeqCst)
    }

    /// Returns what was done wrong so far.
    pub fn complaints(&self) -> Verdict {
        let complaints = self.complaints.lock().unwrap();
        require(complaints.is_empty(), || complaints.join("; "))
    }

    /// Checks that `bases` base structures were released, each once, and that nothing is left.
    pub fn settle(&self, bases: usize) -> Verdict {
        self.complaints()?;
        let (released, live) = (self.base_releases(), self.live());
        require(released == bases, || format!("{released} releases of {bases} base structures"))?;
        require(live == 0, || format!("{live} allocations leaked"))
    }

    /// Checks the same as [`settle`](Self::settle), with a limit of ten seconds. For releases after
    /// the last use: another thread of the process may find out that the use has passed.
    pub fn settle_soon(&self, bases: usize) -> Verdict {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let is_held = !arrow_device::deferred::held_back().is_nothing();
            crate::release_what_has_passed();
            let verdict = self.settle(bases);
            if verdict.is_ok() || !is_held || Instant::now() > deadline {
                return verdict;
            }
            std::thread::yield_now();
        }
    }
}

/// A buffer that is aligned as Arrow recommends, counted, and compared with what was written when
/// it is freed.
#[derive(Debug)]
pub struct Bytes {
    address: *mut u8,
    contents: Vec<u8>,
    ledger: Arc<Ledger>,
}

// SAFETY: plain memory that nobody writes to.
unsafe impl Send for Bytes {}
// SAFETY: plain memory that nobody writes to.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// Allocates memory with these bytes.
    pub fn new(contents: Vec<u8>, ledger: &Arc<Ledger>) -> Self {
        let layout = layout(&contents);
        // SAFETY: the layout has at least one byte.
        let address = unsafe { std::alloc::alloc(layout) };
        assert!(!address.is_null());
        // SAFETY: new memory of at least this length.
        unsafe { address.copy_from_nonoverlapping(contents.as_ptr(), contents.len()) };
        ledger.opened();
        Self { address, contents, ledger: ledger.clone() }
    }

    /// Returns the address of the bytes.
    pub fn address(&self) -> *const c_void {
        self.address.cast_const().cast()
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        self.contents.len() as u64
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.contents.is_empty()
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: `address` leads to as many bytes as `contents` has, which were written when the
        // memory was made.
        let now = unsafe { std::slice::from_raw_parts(self.address, self.contents.len()) };
        if now != self.contents {
            self.ledger.complain("a buffer was written to");
        }
        // SAFETY: allocated with the same layout, and freed once.
        unsafe { std::alloc::dealloc(self.address, layout(&self.contents)) };
        self.ledger.closed();
    }
}

fn layout(contents: &[u8]) -> Layout {
    Layout::from_size_align(contents.len().max(1), 64).unwrap()
}
