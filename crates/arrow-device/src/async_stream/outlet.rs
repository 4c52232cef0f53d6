//! What a producing stream and its tasks share, and how the stream is woken from inside a call of
//! its consumer.

use std::cell::{Cell, RefCell};
use std::ptr;
use std::task::Waker;
use std::thread;

use super::failure::Failure;
use super::protocol::producer::Credit;
use super::protocol::{Sound, wake};
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
    /// The stream that is being woken from inside a call of its consumer; 0 where none is.
    static WAKING: Cell<usize> = const { Cell::new(0) };
    /// The streams in whose calls the call of that one came.
    static AROUND: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Does what may wake the stream. It will not call its consumer meanwhile: `request` "must not
/// synchronously call `on_next_task` or `on_error`".
pub(super) fn with_waking<T>(credit: &ProducerCredit, body: impl FnOnce() -> T) -> T {
    let around = WAKING.replace(ptr::from_ref(credit).addr());
    if around != 0 {
        let _ = AROUND.try_with(|calls| calls.borrow_mut().push(around));
    }
    let restore = EndOfWaking { around };
    let outcome = body();
    drop(restore);
    outcome
}

/// Sets back which stream is being woken, also where the waking unwinds: a stream that stayed noted
/// would never be polled on this thread again.
struct EndOfWaking {
    around: usize,
}

impl Drop for EndOfWaking {
    fn drop(&mut self) {
        if self.around != 0 {
            let _ = AROUND.try_with(|calls| calls.borrow_mut().pop());
        }
        WAKING.set(self.around);
    }
}

pub(super) fn is_waking(credit: &ProducerCredit) -> bool {
    let (innermost, this) = (WAKING.get(), ptr::from_ref(credit).addr());
    let is_around = || AROUND.try_with(|calls| calls.borrow().contains(&this)).unwrap_or(false);
    innermost == this || (innermost != 0 && is_around())
}

/// Wakes somebody on a thread of its own. Returns whether there is one.
///
/// Each waker gets a thread, because an executor that polls in its wakers may stay in there for as
/// long as the stream lasts.
pub(super) fn wake_elsewhere(waker: Waker) -> bool {
    let thread = thread::Builder::new().name("arrow-device waker".into());
    thread.spawn(|| wake(Some(waker))).is_ok()
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    // Requirement: SAF-30
    #[test]
    #[cfg(panic = "unwind")]
    fn no_stream_is_being_woken_after_a_waking_that_unwound() {
        let (outer, inner) = (ProducerCredit::new(), ProducerCredit::new());
        let nested = || with_waking(&outer, || with_waking(&inner, || panic!("planted")));
        assert!(catch_unwind(AssertUnwindSafe(nested)).is_err());
        assert!(!is_waking(&outer) && !is_waking(&inner));
    }
}
