//! Markers: what the queue has finished, as callbacks tell.
//!
//! A [`Marker`] stands behind all that was submitted to the queue before it was announced to the
//! runtime. The runtime calls back once that work is done. A [`Point`] is an event of the library:
//! it has passed when its marker says so and all reads that were submitted before are in host
//! memory.
//!
//! Writes stay in the runtime until something is submitted. So a point behind writes shares the
//! marker of all such points. That marker is announced with the next submission, or when somebody
//! asks.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use crate::api::{SUCCESS, Text};
use crate::logical::Logical;

const WAITING: u8 = 0;
const ANNOUNCED: u8 = 1;
const PASSED: u8 = 2;

/// The number of the first work that failed, or [`NONE`](Self::NONE).
#[derive(Debug)]
pub(crate) struct Failure(AtomicU64);

impl Failure {
    const NONE: u64 = u64::MAX;

    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(Self::NONE))
    }

    /// Work with this number failed.
    pub(crate) fn tell(&self, order: u64) {
        self.0.fetch_min(order, Ordering::AcqRel);
    }

    /// Whether work with this number, or work before it, failed.
    pub(crate) fn reaches(&self, order: u64) -> bool {
        self.0.load(Ordering::Acquire) <= order
    }

    pub(crate) fn is_told(&self) -> bool {
        self.0.load(Ordering::Acquire) != Self::NONE
    }
}

/// A place in the work of the queue.
#[derive(Debug)]
pub(crate) struct Marker {
    state: AtomicU8,
    order: u64,
    failure: Arc<Failure>,
}

impl Marker {
    pub(crate) fn new(order: u64, failure: Arc<Failure>) -> Arc<Self> {
        Arc::new(Self { state: AtomicU8::new(WAITING), order, failure })
    }

    pub(crate) fn has_passed(&self) -> bool {
        self.state.load(Ordering::Acquire) == PASSED
    }

    /// Whether the runtime was not told of the marker yet.
    pub(crate) fn is_waiting(&self) -> bool {
        self.state.load(Ordering::Acquire) == WAITING
    }

    /// A share for the callback. The marker is announced from now on.
    pub(crate) fn for_callback(self: &Arc<Self>) -> *mut c_void {
        self.state.store(ANNOUNCED, Ordering::Release);
        Arc::into_raw(self.clone()).cast_mut().cast()
    }
}

/// The callback of `wgpuQueueOnSubmittedWorkDone`.
pub(crate) extern "C" fn work_done(status: u32, _: Text, marker: *mut c_void, _: *mut c_void) {
    // SAFETY: the pointer is of `for_callback`, and a callback is called once ("the callback is
    // called exactly once").
    let marker = unsafe { Arc::from_raw(marker.cast::<Marker>()) };
    if status != SUCCESS {
        marker.failure.tell(marker.order);
    }
    marker.state.store(PASSED, Ordering::Release);
}

/// An event.
#[derive(Debug)]
pub(crate) struct Point {
    pub(crate) logical: Arc<Logical>,
    pub(crate) marker: Arc<Marker>,
    /// The number of the work that the point stands behind.
    pub(crate) order: u64,
    /// The reads with smaller numbers are in front of the point.
    pub(crate) reads: u64,
    /// Whether the point was found to have passed, which it stays.
    pub(crate) has_passed: AtomicBool,
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    #[test]
    fn a_failure_reaches_what_comes_behind_it() {
        let failure = Arc::new(Failure::new());
        assert!(!failure.is_told() && !failure.reaches(u64::MAX - 1));
        let marker = Marker::new(7, failure.clone());
        assert!(marker.is_waiting() && !marker.has_passed());
        let share = marker.for_callback();
        assert!(!marker.is_waiting() && !marker.has_passed());
        work_done(3, Text::EMPTY, share, ptr::null_mut());
        assert!(marker.has_passed() && failure.is_told());
        assert!(failure.reaches(7) && failure.reaches(8) && !failure.reaches(6));
        let later = Marker::new(9, failure.clone());
        work_done(SUCCESS, Text::EMPTY, later.for_callback(), ptr::null_mut());
        assert!(later.has_passed() && failure.reaches(7) && !failure.reaches(6));
    }
}
