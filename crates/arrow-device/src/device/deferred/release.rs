//! The release of held-back things, and their counts.
//!
//! A thing is *in use* from the time it is held back until its last use has ended, then *being
//! released* until its destructor has returned. A thing that cannot be released, because it belongs
//! to the parent of this process or because its destructor panicked, is *abandoned*.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::timeline::UsesLeft;
use crate::process::MadeIn;
use crate::sync::lock;
use crate::trace::told;
use crate::unwind;

/// The counts of one process.
pub(super) struct Counts {
    pub(super) in_use: AtomicUsize,
    pub(super) being_released: AtomicUsize,
    pub(super) abandoned: AtomicUsize,
    /// How many releases have been done so far.
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

    /// Moves things from the count of those in use to the count of those being released.
    pub(super) fn begin_releases(&self, count: usize) {
        // In this order, so that a reader of the two counts, who reads them in the other order,
        // misses nothing.
        self.being_released.fetch_add(count, Ordering::SeqCst);
        self.in_use.fetch_sub(count, Ordering::SeqCst);
    }

    /// Does some work during which this thread has a share of an event that is kept for something
    /// held back. The work counts as a release.
    pub(super) fn in_hand<T>(&self, work: impl FnOnce() -> T) -> T {
        let _one = InHand::new(&self.being_released);
        let _of_thread = InHandOfThread::begin();
        work()
    }
}

/// One more thing that counts as being released, as long as this value lives.
struct InHand<'a>(&'a AtomicUsize);

impl<'a> InHand<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Marks that this thread has something that counts as being released, as long as this value lives.
struct InHandOfThread;

impl InHandOfThread {
    fn begin() -> Self {
        with_current(|current| current.in_hand.set(current.in_hand.get() + 1));
        Self
    }
}

impl Drop for InHandOfThread {
    fn drop(&mut self) {
        // In a child of `fork` that began meanwhile, the count belongs to the parent.
        with_current(|current| current.in_hand.set(current.in_hand.get() - 1));
    }
}

/// A held-back thing of any type.
pub(crate) trait HeldThing: Send + Sync {
    fn uses_left(&self) -> &UsesLeft;

    /// Whether releasing it may free host memory.
    fn frees_host_memory(&self) -> bool;

    /// Drops the thing, once. Returns whether that went well.
    fn drop_thing(&self) -> bool;
}

/// A held-back thing of a known type.
pub(super) struct Thing<T> {
    pub(super) uses_left: UsesLeft,
    pub(super) frees_host_memory: bool,
    /// The thing. The thread that counted the last use down takes it.
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
        told!("release after the last use");
        unwind::is_well(|| drop(what))
    }
}

impl<T> Drop for Thing<T> {
    fn drop(&mut self) {
        // Only `drop_thing` releases. A thing whose uses are not known to have ended is leaked with
        // the list.
        std::mem::forget(lock(&self.what).take());
    }
}

/// The release that a thread is in the middle of. The value lies on the stack of
/// [`within_release`].
struct Outermost {
    /// Things that came to be released meanwhile. Releases of one thread do not nest, because the
    /// stack would grow with the number of things.
    to_do: RefCell<VecDeque<Arc<dyn HeldThing>>>,
    /// How many nested calls of this thread have something that counts as being released.
    in_hand: Cell<usize>,
    made_in: MadeIn,
}

thread_local! {
    /// The current release; null outside of a release. The variable has no destructor, so that
    /// destructors of other thread-local values can use it.
    static CURRENT: Cell<*const Outermost> = const { Cell::new(std::ptr::null()) };
}

/// Shows the release that this thread is in the middle of. In a child of `fork`, a release of the
/// parent does not count.
fn with_current<T>(look: impl FnOnce(&Outermost) -> T) -> Option<T> {
    // SAFETY: null, or set by `within_release`, which sets it back before the value goes.
    let current = unsafe { CURRENT.get().as_ref() };
    current.filter(|current| current.made_in.is_this()).map(look)
}

/// Whether this thread is in the middle of a release.
pub(super) fn is_releasing() -> bool {
    with_current(|_| ()).is_some()
}

/// Whether this thread has something that counts as being released: now, or as soon as its current
/// release is done.
pub(super) fn is_in_hand() -> bool {
    let has_any =
        |current: &Outermost| current.in_hand.get() > 0 || !current.to_do.borrow().is_empty();
    with_current(has_any).unwrap_or_default()
}

/// Does some work in which foreign destructors run, and then all releases that came up meanwhile.
/// Inside of another release, these are left to the outer one.
pub(super) fn within_release<T>(work: impl FnOnce() -> T) -> T {
    if is_releasing() {
        return work();
    }
    let outermost =
        Outermost { to_do: RefCell::default(), in_hand: Cell::new(0), made_in: MadeIn::this() };
    let before = CURRENT.replace(&raw const outermost);
    let restore = Restore(before);
    let result = work();
    loop {
        let next = outermost.to_do.borrow_mut().pop_front();
        let Some(thing) = next else { break };
        release_one(&thing, outermost.made_in);
    }
    drop(restore);
    result
}

/// Restores the previous release of the thread on drop.
struct Restore(*const Outermost);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Releases things that no queue uses any more and that count as being released: at once, or when
/// the thread's current release is done.
pub(super) fn release(over: Vec<Arc<dyn HeldThing>>) {
    if !over.is_empty() {
        within_release(|| with_current(|current| current.to_do.borrow_mut().extend(over)));
    }
}

/// Drops something that no queue uses: at once, or when the thread's current release is done.
pub(super) fn release_now<T: Send + 'static>(what: T, counts: &Counts) {
    if is_releasing() {
        let uses_left = UsesLeft::new(0);
        let what = Mutex::new(Some(what));
        counts.being_released.fetch_add(1, Ordering::SeqCst);
        release(vec![Arc::new(Thing { uses_left, frees_host_memory: false, what })]);
    } else {
        let is_dropped = within_release(|| unwind::is_well(|| drop(what)));
        if !is_dropped {
            super::count_abandoned();
        }
    }
}

fn release_one(thing: &Arc<dyn HeldThing>, made_in: MadeIn) {
    if !made_in.is_this() {
        // A destructor forked, and this is the child. The parent releases the thing.
        std::mem::forget(thing.clone());
        super::count_abandoned();
        return;
    }
    let in_hand = InHandOfThread::begin();
    let is_dropped = thing.drop_thing();
    drop(in_hand);
    if !made_in.is_this() {
        return;
    }
    let counts = super::counts();
    if !is_dropped {
        counts.abandoned.fetch_add(1, Ordering::Relaxed);
    }
    counts.done.fetch_add(1, Ordering::Release);
    counts.being_released.fetch_sub(1, Ordering::SeqCst);
}
