//! The release of what was held back, and how much there is of what.
//!
//! A thing is *in use* from the time it is held back until its last use has ended, then *being
//! released* until its destructor has returned. A thing that cannot be released, because it belongs
//! to the parent of this process or because its destructor panicked, is *abandoned*.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::timeline::UsesLeft;
use crate::sync::lock;

/// Counts of one process.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) in_use: AtomicUsize,
    pub(super) being_released: AtomicUsize,
    pub(super) abandoned: AtomicUsize,
    /// How many releases have been done, ever.
    pub(super) done: AtomicU64,
}

impl Counts {
    pub(super) const fn new() -> Self {
        Self {
            in_use: AtomicUsize::new(0),
            being_released: AtomicUsize::new(0),
            abandoned: AtomicUsize::new(0),
            done: AtomicU64::new(0),
        }
    }

    /// Counts things as being released that were in use.
    pub(super) fn begin_releases(&self, count: usize) {
        // In this order, so that whoever reads the two counts in the other order misses nothing.
        self.being_released.fetch_add(count, Ordering::SeqCst);
        self.in_use.fetch_sub(count, Ordering::SeqCst);
    }

    /// Does something in which this thread has an event in hand that is kept for something held
    /// back.
    pub(super) fn in_hand<T>(&self, work: impl FnOnce() -> T) -> T {
        self.being_released.fetch_add(1, Ordering::SeqCst);
        let result = work();
        self.being_released.fetch_sub(1, Ordering::SeqCst);
        result
    }
}

/// Something that is held back, whatever its type.
pub(crate) trait HeldThing: Send + Sync {
    fn uses_left(&self) -> &UsesLeft;

    /// Whether releasing it may free host memory.
    fn frees_host_memory(&self) -> bool;

    /// Drops the thing, once. Returns whether that went well.
    fn drop_thing(&self) -> bool;
}

/// A thing of a known type.
pub(super) struct Thing<T> {
    pub(super) uses_left: UsesLeft,
    pub(super) frees_host_memory: bool,
    /// Taken by the thread that counted the last use down.
    pub(super) what: Mutex<Option<T>>,
}

impl<T: Send> HeldThing for Thing<T> {
    fn uses_left(&self) -> &UsesLeft {
        &self.uses_left
    }

    fn frees_host_memory(&self) -> bool {
        self.frees_host_memory
    }

    fn drop_thing(&self) -> bool {
        let what = lock(&self.what).take();
        drop_quietly(what)
    }
}

impl<T> Drop for Thing<T> {
    fn drop(&mut self) {
        // Only `drop_thing` releases. What was not released, because nobody could tell that its
        // uses have ended, is not released by the end of the list either.
        std::mem::forget(lock(&self.what).take());
    }
}

/// Drops foreign code's value; returns whether its destructor returned. A panic ends here, and the
/// panic's payload, the destructor of which may panic as well, is not dropped.
fn drop_quietly<T>(what: T) -> bool {
    // After a panic the value is not looked at again.
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(what)));
    dropped.map_err(std::mem::forget).is_ok()
}

thread_local! {
    /// What this thread still has to release, while it is in the middle of a release: releases of
    /// one thread do not nest, or else the stack would grow with the number of things.
    static TO_DO: RefCell<Option<VecDeque<Arc<dyn HeldThing>>>> = const { RefCell::new(None) };
}

/// Whether this thread is in the middle of a release.
pub(super) fn is_releasing() -> bool {
    TO_DO.try_with(|to_do| to_do.borrow().is_some()).unwrap_or(false)
}

/// Releases what no queue uses any more, and what is counted as being released: now, or, in the
/// middle of a release, when that is done.
pub(super) fn release(mut over: Vec<Arc<dyn HeldThing>>, counts: &Counts) {
    if over.is_empty() {
        return;
    }
    match TO_DO
        .try_with(|to_do| to_do.borrow_mut().as_mut().map(|list| list.extend(over.drain(..))))
    {
        Ok(Some(())) => {}
        _ => outermost(counts, || over.iter().for_each(|thing| release_one(&**thing, counts))),
    }
}

/// Drops something that no queue uses: now, or, in the middle of a release, when that is done.
pub(super) fn release_now<T: Send + 'static>(what: T, counts: &Counts) {
    if is_releasing() {
        let uses_left = UsesLeft::new(0);
        let what = Mutex::new(Some(what));
        counts.being_released.fetch_add(1, Ordering::SeqCst);
        release(vec![Arc::new(Thing { uses_left, frees_host_memory: false, what })], counts);
    } else {
        outermost(counts, || {
            if !drop_quietly(what) {
                counts.abandoned.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
}

/// Does a release of this thread, and then all that came up in the middle of it.
fn outermost(counts: &Counts, release: impl FnOnce()) {
    // A thread that is being torn down has no list, and what comes up is released at once.
    let _ = TO_DO.try_with(|to_do| to_do.replace(Some(VecDeque::new())));
    release();
    let next = || TO_DO.try_with(|to_do| to_do.borrow_mut().as_mut()?.pop_front());
    while let Ok(Some(thing)) = next() {
        release_one(&*thing, counts);
    }
    let _ = TO_DO.try_with(|to_do| to_do.take());
}

fn release_one(thing: &dyn HeldThing, counts: &Counts) {
    if !thing.drop_thing() {
        counts.abandoned.fetch_add(1, Ordering::Relaxed);
    }
    counts.done.fetch_add(1, Ordering::Release);
    counts.being_released.fetch_sub(1, Ordering::SeqCst);
}
