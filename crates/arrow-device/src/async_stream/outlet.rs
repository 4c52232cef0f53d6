//! What a producing stream and its tasks share, and how the stream is woken from inside a call of
//! its consumer.

use std::cell::Cell;
use std::task::Waker;
use std::thread;

use super::failure::Failure;
use super::protocol::producer::Credit;
use super::protocol::{QuietWaker, Sound};
use crate::process::MadeIn;
use crate::{Array, DeviceType, Error, ErrorKind, Result, Schema};

pub(super) type ProducerCredit = Credit<Sound, Failure>;

/// What a stream and its tasks share.
pub(super) struct Outlet {
    /// In a child of this process the credit is not used.
    pub(super) made_in: MadeIn,
    pub(super) promise: StreamPromise,
    pub(super) credit: ProducerCredit,
}

/// What a stream says of all its arrays.
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
            let message = format!(
                "the stream has arrays of type {}, and this one is of type {}",
                self.schema.data_type(),
                array.data_type()
            );
            return Err(Error::new(ErrorKind::SchemaMismatch, message));
        }
        Ok(())
    }
}

thread_local! {
    /// In how many calls of consumers this thread wakes somebody.
    static WAKING: Cell<usize> = const { Cell::new(0) };
}

/// Does, in a call of a consumer, what may wake a stream. No stream calls its consumer meanwhile:
/// `request` "must not synchronously call `on_next_task` or `on_error`". That holds for the streams
/// of other consumers, too: two threads that are in a call of one consumer each, and release the
/// other one, would wait for each other.
pub(super) fn with_waking<T>(body: impl FnOnce() -> T) -> T {
    WAKING.set(WAKING.get() + 1);
    let end = EndOfWaking;
    let outcome = body();
    drop(end);
    outcome
}

/// Counts a call as over, also where the waking unwinds: a thread that stayed in it would never
/// poll a stream again.
struct EndOfWaking;

impl Drop for EndOfWaking {
    fn drop(&mut self) {
        WAKING.set(WAKING.get() - 1);
    }
}

/// Whether this thread is in the call of a consumer, which is not to be called back.
pub(super) fn is_waking() -> bool {
    WAKING.get() > 0
}

/// Wakes somebody on a thread of its own. Returns whether there is one.
///
/// Each waker gets a thread, because an executor that polls in its wakers may stay in there for as
/// long as the stream lasts.
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
