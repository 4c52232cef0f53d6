//! The one place where a panic is kept from reaching a foreign caller.
//!
//! Unwinding out of an `extern "C"` function ends the process. Every body of one in this crate runs
//! in here.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::device::deferred;
use crate::{Error, ErrorKind, Result};

/// Runs the body of a callback that returns nothing. A panic ends here; what the body still owned
/// is leaked or freed as its unwinding left it, and never freed twice. It is counted among what
/// [`held_back`](crate::deferred::held_back) calls abandoned.
#[inline]
pub(crate) fn silent(body: impl FnOnce()) {
    let outcome = or_panicked(|| {
        body();
        Ok(())
    });
    if outcome.is_err() {
        deferred::count_abandoned();
    }
}

/// Turns a panic into an error.
#[inline]
pub(crate) fn or_panicked<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    // What the body captured is not looked at again after a panic: the callers above return at
    // once.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(payload) => Err(panicked(payload)),
    }
}

#[cold]
fn panicked(payload: Box<dyn Any + Send>) -> Error {
    let message = panic_message(&*payload);
    // The payload's own `Drop` may panic as well. What that leaves behind is not dropped.
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
    Error::new(ErrorKind::Panicked, message)
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        return (*text).into();
    }
    payload.downcast_ref::<String>().cloned().unwrap_or_else(|| "without a message".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: SAF-31
    #[test]
    #[cfg(panic = "unwind")]
    fn a_panic_becomes_an_errno() {
        let error = or_panicked::<()>(|| panic!("planted {}", 1)).unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Panicked, "planted 1"));
        silent(|| panic!("planted"));
    }

    #[test]
    #[cfg(all(panic = "unwind", not(miri)))]
    fn a_payload_that_panics_when_dropped_is_left_alone() {
        struct Stubborn;
        impl Drop for Stubborn {
            fn drop(&mut self) {
                // Nothing is allocated for this one, so that what is left alone is no leak.
                std::panic::resume_unwind(Box::new(()));
            }
        }
        silent(|| std::panic::panic_any(Stubborn));
    }

    #[test]
    fn success_and_errors_pass_through() {
        assert!(matches!(or_panicked(|| Ok(7)), Ok(7)));
        let error = or_panicked::<()>(|| Err(Error::new(ErrorKind::OutOfMemory, ""))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    }
}
