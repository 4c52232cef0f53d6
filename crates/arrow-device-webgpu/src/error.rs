//! Errors of WebGPU: scopes that catch them, and what they become.
//!
//! An error of WebGPU is not the result of a call. The error goes to the innermost error scope of
//! the device that asks for errors of this type. Without such a scope the error goes to the
//! callback that the device was made with; if the application named none, wgpu-native ends the
//! process. So the calls of this crate that can be refused stand in scopes of all types that the
//! WebGPU library knows. Submissions do not: they may run callbacks of the application, and their
//! commands were accepted before.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arrow_device::{Error, ErrorKind};

use crate::api::{Text, error_type};
use crate::logical::lock;

/// An error that a scope caught.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caught {
    pub(crate) error_type: u32,
    pub(crate) text: String,
}

impl Caught {
    /// The error for the caller of the library.
    pub(crate) fn error(&self, operation: &'static str) -> Error {
        let (kind, message) = match self.error_type {
            error_type::VALIDATION => {
                (ErrorKind::InvalidArgument, "WebGPU refused what it was given")
            }
            error_type::OUT_OF_MEMORY => (ErrorKind::OutOfMemory, "the device has no memory left"),
            _ => (ErrorKind::Driver, "WebGPU reported an error"),
        };
        let error = Error::new(kind, message).during(operation);
        error.from_vendor(self.error_type.into(), self.text.clone())
    }
}

/// The answer of one scope, which a callback gives.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    is_answered: AtomicBool,
    caught: Mutex<Option<Caught>>,
}

impl Scope {
    /// Whether the scope has told what it caught.
    pub(crate) fn is_answered(&self) -> bool {
        self.is_answered.load(Ordering::Acquire)
    }

    pub(crate) fn take(&self) -> Option<Caught> {
        lock(&self.caught).take()
    }

    /// A share for the callback.
    pub(crate) fn for_callback(self: &Arc<Self>) -> *mut c_void {
        Arc::into_raw(self.clone()).cast_mut().cast()
    }
}

/// The callback of a scope that was popped.
pub(crate) extern "C" fn popped(
    status: u32,
    error_type: u32,
    text: Text,
    scope: *mut c_void,
    _: *mut c_void,
) {
    // SAFETY: the pointer is of `for_callback`, and a callback is called once ("the callback is
    // called exactly once").
    let scope = unsafe { Arc::from_raw(scope.cast::<Scope>()) };
    if status == crate::api::SUCCESS && error_type != error_type::NONE {
        // SAFETY: the text is the library's, for the time of the callback.
        let text = unsafe { text.to_string() };
        // The first line says what kind of error follows.
        let text = text.replace("\n\n", "\n").trim().to_owned();
        *lock(&scope.caught) = Some(Caught { error_type, text });
    }
    scope.is_answered.store(true, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::SUCCESS;
    use crate::error::error_type::{INTERNAL, NONE, OUT_OF_MEMORY, VALIDATION};

    #[test]
    fn an_error_has_its_type_and_a_kind() {
        for (error_type, kind) in [
            (VALIDATION, ErrorKind::InvalidArgument),
            (OUT_OF_MEMORY, ErrorKind::OutOfMemory),
            (INTERNAL, ErrorKind::Driver),
            (5, ErrorKind::Driver),
        ] {
            let error = Caught { error_type, text: "said so".into() }.error("do");
            assert_eq!(error.kind(), kind, "{error_type}");
            let vendor = error.vendor().unwrap();
            assert_eq!((vendor.code, &*vendor.text), (error_type.into(), "said so"));
        }
    }

    #[test]
    fn a_scope_that_caught_nothing_has_answered() {
        let scope = Arc::new(Scope::default());
        assert!(!scope.is_answered());
        popped(SUCCESS, NONE, Text::EMPTY, scope.for_callback(), std::ptr::null_mut());
        assert!(scope.is_answered() && scope.take().is_none());
        popped(SUCCESS, VALIDATION, Text::EMPTY, scope.for_callback(), std::ptr::null_mut());
        assert_eq!(scope.take().unwrap().error_type, VALIDATION);
        assert_eq!(Arc::strong_count(&scope), 1);
    }
}
