//! What a producing stream and its tasks share; and the marks of a thread that is inside a call of
//! a consumer, where streams are woken but may not call a consumer.

use std::cell::Cell;
use std::task::Waker;
use std::thread;

use super::failure::Failure;
use super::protocol::producer::Credit;
use super::protocol::{QuietWaker, Sound};
use crate::process::MadeIn;
use crate::{Array, DeviceType, Error, ErrorKind, Result, Schema};

pub(super) type ProducerCredit = Credit<Sound, Failure>;

/// The state that a stream and its tasks share.
pub(super) struct Outlet {
    /// The process of the consumer. In a child of that process the credit is not used.
    pub(super) made_in: MadeIn,
    pub(super) promise: StreamPromise,
    pub(super) credit: ProducerCredit,
}

/// What a stream promises of all its arrays.
#[derive(Debug)]
pub(super) struct StreamPromise {
    pub(super) schema: Schema,
    pub(super) device_type: DeviceType,
}

impl StreamPromise {
    pub(super) fn check(&self, array: &Array) -> Result<()> {
        if array.device().device_type != self.device_type {
            let message = format!("the stream is on devices of type {}", self.device_type);
            return Err(Error::new(ErrorKind::SchemaMismatch, message).on_device(array.device()));
        }
        if !array.fits(&self.schema) {
            let [given, expected] = array.told_apart_from(&self.schema);
            let message = format!(
                "the stream has arrays of type {expected}, and this one is of type {given}"
            );
            return Err(Error::new(ErrorKind::SchemaMismatch, message));
        }
        Ok(())
    }
}

/// How many nested calls of consumers a thread is in, and in which process.
#[derive(Clone, Copy)]
struct Wakings {
    /// `None` before the first call.
    made_in: Option<MadeIn>,
    count: u32,
}

thread_local! {
    static WAKINGS: Cell<Wakings> = const { Cell::new(Wakings { made_in: None, count: 0 }) };
    /// How many polls of streams this thread has refused in such calls.
    static REFUSED_POLLS: Cell<u64> = const { Cell::new(0) };
}

/// Runs, in a call of a consumer, code that may wake a stream. No stream calls its consumer
/// meanwhile: `request` "must not synchronously call `on_next_task` or `on_error`". This goes for
/// the streams of other consumers, too. Otherwise two threads that are each in a call of one
/// consumer, and release the other one, would wait for each other.
pub(super) fn with_waking<T>(body: impl FnOnce() -> T) -> T {
    let before = WAKINGS.get();
    let count = if is_waking() { before.count + 1 } else { 1 };
    WAKINGS.set(Wakings { made_in: Some(MadeIn::this()), count });
    let end = EndOfWaking(before);
    let outcome = body();
    drop(end);
    outcome
}

/// Ends a call, even where the waking unwinds: a thread that seemed to stay in the call would never
/// poll a stream again.
struct EndOfWaking(Wakings);

impl Drop for EndOfWaking {
    fn drop(&mut self) {
        WAKINGS.set(self.0);
    }
}

/// Whether this thread is in the call of a consumer, in which no consumer may be called. In a child
/// of `fork`, a call of its parent's consumer does not count.
pub(super) fn is_waking() -> bool {
    let wakings = WAKINGS.get();
    wakings.count > 0 && wakings.made_in.is_some_and(MadeIn::is_this)
}

/// Counts the poll of a stream that this thread refuses because it is in the call of a consumer.
pub(super) fn refuse_poll() {
    REFUSED_POLLS.set(REFUSED_POLLS.get() + 1);
}

/// How many polls of streams this thread has refused so far.
pub(super) fn refused_polls() -> u64 {
    REFUSED_POLLS.get()
}

/// Wakes a waker on a thread of its own. Returns whether a thread could be started.
///
/// Each waker gets a thread, because an executor that polls in its wakers may stay there as long as
/// the stream lasts.
pub(super) fn wake_elsewhere(waker: Waker) -> bool {
    let thread = thread::Builder::new().name("arrow-device waker".into());
    thread.spawn(|| QuietWaker::from(waker).wake()).is_ok()
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    // Requirement: SAF-30
    #[test]
    #[cfg(panic = "unwind")]
    fn no_stream_is_being_woken_after_a_waking_that_unwound() {
        let nested = || with_waking(|| with_waking(|| panic!("planted")));
        assert!(catch_unwind(AssertUnwindSafe(nested)).is_err());
        assert!(!is_waking());
    }
}
