//! The protocol of asynchronous streams as two state machines, one for each side, without C and
//! without devices.
//!
//! The state machines know what may be called when, and by which thread. They do not know what a
//! schema, a task or an error is. So the same source runs here under the locks of the standard
//! library, and in `testing/async-protocol` under those of loom and of shuttle, which try every
//! schedule of a few threads, or many schedules at random.
//!
//! # The interleavings that matter
//!
//! The consumer's side ([`consumer`]):
//!
//! 1. `release` comes while a thread of ours is in `request` or `cancel`: the producer may free
//!    itself when `release` returns, so `release` waits for that thread, and for nothing else.
//! 2. `cancel` raises `on_error`, or even `release`, on the very thread that called it: then
//!    nothing may wait for that thread.
//! 3. Two threads want something of the producer at once: one calls, the other leaves its wish
//!    behind, and the caller looks again before it goes.
//! 4. The stream is dropped before the schema comes: the wish to cancel is remembered, and the
//!    schema is answered with it.
//! 5. The stream is dropped while tasks arrive: each task is extracted or discarded once, whichever
//!    thread is first.
//! 6. A task arrives while the stream is polled: either the poll sees it, or the task's thread sees
//!    the waker.
//! 7. The producer answers `request` with tasks before `request` has returned: they were counted
//!    first.
//! 8. An error is reported: whoever it wakes may poll at once, on that thread, and must not get to
//!    call the producer.
//! 9. A task that a user holds outlives the stream and the release; that it fails then concerns
//!    nobody else.
//!
//! The producer's side ([`producer`]):
//!
//! 10. `request` comes while the stream is being put to sleep for want of credit: it is seen, or it
//!     sees the waker.
//! 11. Two threads call `request` at once: no credit is lost.
//! 12. `request` comes after `cancel`, whatever its count: it does nothing.
//! 13. `request` and `cancel` come after the end, from a consumer that has not heard of the end:
//!     they do nothing.
//! 14. `request` wakes somebody who polls the driver of the stream at once, on the thread of the
//!     `request`, where the driver may call nobody: that poll does nothing, and another thread wakes
//!     the driver again.
//!
//! # The rules, and what happens without one
//!
//! Each rule that keeps one of these in order is a constant of [`Rules`]. The library has them all;
//! the model's tests take them away one by one and require that the exploration finds the harm.

pub(crate) mod consumer;
pub(crate) mod producer;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use super::locks::drop_nested;

/// The rules that keep the protocol in order. Each is true; the tests of the model show why.
pub(crate) trait Rules: 'static {
    /// `release` waits for a call of ours that is running on another thread (1).
    const RELEASE_WAITS: bool = true;
    /// `release` does not wait for a call on its own thread (2).
    const RELEASE_KNOWS_ITS_THREAD: bool = true;
    /// Only one thread is in the producer at a time (1, 3).
    const ONE_CALLER: bool = true;
    /// The caller looks again before it goes (3).
    const CALLER_LOOKS_AGAIN: bool = true;
    /// Nothing is called after the release (1).
    const RELEASE_ENDS_CALLS: bool = true;
    /// Nothing is called once an error was reported (8).
    const ERROR_ENDS_CALLS: bool = true;
    /// A schema that comes after the cancelling is refused (4).
    const CANCEL_IS_REMEMBERED: bool = true;
    /// A task that comes after the cancelling is discarded (5).
    const CANCEL_DISCARDS: bool = true;
    /// Credits are counted before they are asked for (7).
    const COUNTS_BEFORE_ASKING: bool = true;
    /// A waker is stored in the same step that finds nothing to do (6, 10).
    const STORES_WAKER_AT_ONCE: bool = true;
    /// Credits add up (11).
    const CREDITS_ADD_UP: bool = true;
    /// After `cancel`, `request` does nothing (12).
    const CANCEL_ENDS_REQUESTS: bool = true;
    /// After the end, `request` and `cancel` do nothing (13).
    const CLOSING_ENDS_REQUESTS: bool = true;
    /// A poll from inside a call of the consumer is made good by another wake (14).
    const REFUSED_POLLS_COME_AGAIN: bool = true;
}

/// All rules.
#[derive(Debug)]
pub(crate) struct Sound;

impl Rules for Sound {}

/// A waker that is kept, or none. To wake and to drop a waker runs code of the executor. Neither is
/// done under a lock, and panics of either are stopped here, because other threads rely on what is
/// done afterwards.
#[derive(Debug)]
pub(crate) struct QuietWaker(Option<Waker>);

impl QuietWaker {
    pub(crate) const NONE: Self = Self(None);

    pub(crate) fn of(waker: &Waker) -> Self {
        Self(Some(waker.clone()))
    }

    pub(crate) fn take(&mut self) -> Self {
        Self(self.0.take())
    }

    /// Wakes the waker. The woken task finds everything it has to know in the state.
    pub(crate) fn wake(self) {
        if let Some(waker) = &self.0 {
            quietly(|| waker.wake_by_ref());
        }
    }
}

impl Drop for QuietWaker {
    fn drop(&mut self) {
        if let Some(waker) = self.0.take() {
            // The waker may own another stream, in which a task waits, and so on.
            quietly(|| drop_nested(waker));
        }
    }
}

impl From<Waker> for QuietWaker {
    fn from(waker: Waker) -> Self {
        Self(Some(waker))
    }
}

fn quietly(work: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
        // The payload of a panic may panic when it is dropped. The payload of that panic is not
        // dropped.
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(payload)));
        let _ = dropped.map_err(std::mem::forget);
    }
}
