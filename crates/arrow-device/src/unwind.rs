//! Stops panics of foreign code.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{Error, ErrorKind, Result};

/// Runs `body`, and turns a panic into an error. After a panic, do not look at values that `body`
/// captured.
pub(crate) fn or_panicked<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(payload) => Err(Error::from_panic(payload)),
    }
}

/// Runs `body`, and returns whether it returned without a panic.
pub(crate) fn is_well(body: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(()) => true,
        Err(payload) => {
            dispose(payload);
            false
        }
    }
}

impl Error {
    /// The error for a panic that [`catch_unwind`] caught, of the kind
    /// [`Panicked`](ErrorKind::Panicked), with the message of the panic.
    ///
    /// The payload is dropped, and a panic of that drop is stopped.
    ///
    /// ```
    /// use arrow_device::{Error, ErrorKind};
    ///
    /// # std::panic::set_hook(Box::new(|_| {}));
    /// let caught = std::panic::catch_unwind(|| panic!("no such column"));
    /// let error = caught.map_err(Error::from_panic).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Panicked);
    /// assert_eq!(error.message(), "no such column");
    /// ```
    #[cold]
    pub fn from_panic(payload: Box<dyn Any + Send>) -> Self {
        let message = panic_message(&*payload);
        dispose(payload);
        Self::new(ErrorKind::Panicked, message)
    }
}

/// Drops the payload of a panic. The drop may panic as well. The payload of that second panic is
/// not dropped.
#[cold]
fn dispose(payload: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        return (*text).into();
    }
    payload.downcast_ref::<String>().cloned().unwrap_or_else(|| "without a message".into())
}
