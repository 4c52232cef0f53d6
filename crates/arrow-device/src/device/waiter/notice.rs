//! [`EventNotice`]: how a driver announces that an event has passed.

use std::cell::Cell;
use std::ffi::c_void;
use std::fmt;
use std::mem::ManuallyDrop;

use super::{Entry, LaneKey, REGISTRY, go_on, notices, thread};
use crate::Event;
use crate::device::driver::EventNotices;
use crate::process::MadeIn;
use crate::sync::lock;

/// A notice that a driver calls, or has a callback of its runtime call, once an event has passed:
/// see [`Driver::notify`].
///
/// A notice can be called on any thread, and in any callback of a runtime: it takes a lock of the
/// library for a moment, and nothing foreign is called under that lock. Where the driver's
/// [notices](EventNotices) come from [anywhere](EventNotices::Anywhere), the call wakes the waiting
/// tasks, which may call the library. Otherwise a thread of the library wakes them. In a child of
/// `fork`, and after the process has begun to end, the call does nothing.
///
/// A notice that is dropped uncalled makes the library ask the driver from then on.
///
/// [`Driver::notify`]: crate::driver::Driver::notify
#[must_use = "a notice that is dropped makes the library ask"]
pub struct EventNotice {
    made_in: MadeIn,
    key: LaneKey,
    point: u64,
    is_from_anywhere: bool,
}

impl EventNotice {
    /// Says that the event has passed, or that it cannot pass any more.
    pub fn call(self) {
        let notice = ManuallyDrop::new(self);
        if !notice.made_in.goes_on() {
            return;
        }
        let EventNotice { key, point, .. } = *notice;
        let mut state = lock(&REGISTRY.get().state);
        if let Some(lane) = state.lanes.get_mut(&key) {
            lane.expected.remove(&point);
        }
        let passed = state.take_to(key, point);
        if !notice.is_from_anywhere {
            state.announced.extend(passed);
            thread::tell(&mut state);
            return;
        }
        state.due.extend(passed);
        state.untended.push_back(key);
        drop(state);
        go_on();
    }

    /// The notice as a pointer for a callback of a runtime. The callback passes the pointer to
    /// [`from_raw`](Self::from_raw).
    pub fn into_raw(self) -> *mut c_void {
        Box::into_raw(Box::new(self)).cast()
    }

    /// The notice of a pointer from [`into_raw`](Self::into_raw).
    ///
    /// # Safety
    /// `into_raw` gave the pointer, and this is called for it once (UNS-35).
    pub unsafe fn from_raw(raw: *mut c_void) -> Self {
        // SAFETY: UNS-35: `into_raw` gave it, and it is taken back once.
        *unsafe { Box::from_raw(raw.cast::<Self>()) }
    }
}

impl Drop for EventNotice {
    fn drop(&mut self) {
        if self.made_in.goes_on() {
            refuse(self.key, self.point);
        }
    }
}

impl fmt::Debug for EventNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventNotice({:?}, point {})", self.key, self.point)
    }
}

thread_local! {
    static IS_WITHIN_NOTIFY: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in a call of [`Driver::notify`](crate::driver::Driver::notify), in which
/// the driver may call any number of notices.
pub(super) fn is_within_notify() -> bool {
    IS_WITHIN_NOTIFY.get()
}

/// Restores the former state of the thread on drop.
struct WithinNotify(bool);

impl WithinNotify {
    fn begin() -> Self {
        Self(IS_WITHIN_NOTIFY.replace(true))
    }
}

impl Drop for WithinNotify {
    fn drop(&mut self) {
        IS_WITHIN_NOTIFY.set(self.0);
    }
}

/// Asks the driver to announce an event, which is recorded as expected already. The caller calls
/// [`go_on`] afterwards.
pub(super) fn ask(key: LaneKey, point: u64, event: &Event) {
    let is_from_anywhere = notices(event) == EventNotices::Anywhere;
    let notice = EventNotice { made_in: MadeIn::this(), key, point, is_from_anywhere };
    let within = WithinNotify::begin();
    let taken = thread::calling_drivers(|| {
        // SAFETY: the handle is alive in its owner, and the driver's properties say that there are
        // notices (UNS-22).
        unsafe { event.device().driver().notify(event.raw(), notice) }
    });
    drop(within);
    if !matches!(taken, Ok(true)) {
        // Refused once more, because a panic may have leaked the notice.
        refuse(key, point);
    }
}

/// From now on the thread asks about the events of this lane.
fn refuse(key: LaneKey, point: u64) {
    let _ = thread::start();
    let mut state = lock(&REGISTRY.get().state);
    if let Some(lane) = state.lanes.get_mut(&key) {
        lane.expected.remove(&point);
        lane.is_refused = true;
    }
    if state.has_thread {
        state.forget(key);
        thread::tell(&mut state);
        return;
    }
    // No thread is there to ask. The waiting tasks learn so at their next poll.
    let woken = state.take_to(key, u64::MAX);
    drop(state);
    woken.into_iter().for_each(Entry::wake);
}
