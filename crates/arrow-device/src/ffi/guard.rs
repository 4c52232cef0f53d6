//! Stops panics before they reach a foreign caller.
//!
//! Unwinding out of an `extern "C"` function ends the process. The bodies of all such functions in
//! this crate run inside these functions.

use crate::device::deferred;

pub(crate) use crate::unwind::or_panicked;

/// Runs the body of a callback that returns nothing, and stops a panic. What the body still owned
/// is leaked or freed as its unwinding left it, and never freed twice. The panic is counted as
/// [abandoned](crate::deferred::HeldBack::abandoned).
#[inline]
pub(crate) fn silent(body: impl FnOnce()) {
    if !crate::unwind::is_well(body) {
        deferred::count_abandoned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, ErrorKind};

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
