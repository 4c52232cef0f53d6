//! What every function does: a panic ends here, an error is told, a null pointer is an error, an
//! output is set first.

use std::any::Any;
use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use arrow_device::{Error, ErrorKind, Result};

use crate::error::{ArdevError, copy_text};

/// Runs the body of a function. An error or a panic is written to `error`, and becomes the errno
/// value.
///
/// # Safety
/// `error` is null or may be written.
pub(crate) unsafe fn run(error: *mut ArdevError, body: impl FnOnce() -> Result<()>) -> c_int {
    // What the body captured is not looked at after a panic.
    let outcome = catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|payload| Err(Error::from_panic(payload)));
    let Err(failure) = outcome else { return 0 };
    let told = ArdevError::of(&failure);
    // What the error came from is somebody else's, and its drop may panic.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(failure))).map_err(dispose);
    if !error.is_null() {
        // SAFETY: `error` is null or may be written, as the caller promises.
        unsafe { error.write(told) };
    }
    told.code
}

/// Drops what a panic carried. The drop may panic as well: what that panic carries is left.
pub(crate) fn dispose(payload: Box<dyn Any + Send>) {
    std::mem::forget(catch_unwind(AssertUnwindSafe(|| drop(payload))));
}

/// Ends an object. Null is none.
///
/// # Safety
/// `object` is null or was given by [`Out::give`], and is not used after this.
pub(crate) unsafe fn free<T>(object: *mut T) {
    if object.is_null() {
        return;
    }
    // SAFETY: `object` is null or was given by `Out::give`, and is not used after this, as the
    // caller promises.
    let object = unsafe { Box::from_raw(object) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(object))).map_err(dispose);
}

/// What a pointer points to; an error where it is null.
///
/// # Safety
/// `pointer` is null or points to a value that lives as long as the result is used.
pub(crate) unsafe fn get<'a, T>(pointer: *const T, name: &str) -> Result<&'a T> {
    // SAFETY: `pointer` is null or points to a value that lives as long as the result is used, as
    // the caller promises.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// The values of a table; no values for a null one that has none.
///
/// # Safety
/// `table` is null or has `len` values that live as long as the result is used.
pub(crate) unsafe fn values<'a, T>(table: *const T, len: usize, name: &str) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if table.is_null() {
        return Err(null(name));
    }
    let bytes = len.checked_mul(size_of::<T>());
    if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
        return Err(invalid(format!("`{name}` cannot have {len} values")));
    }
    // SAFETY: `table` is null or has `len` values that live as long as the result is used, as the
    // caller promises; it is not longer than any allocation.
    Ok(unsafe { slice::from_raw_parts(table, len) })
}

pub(crate) fn null(name: &str) -> Error {
    invalid(format!("`{name}` is a null pointer"))
}

pub(crate) fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

/// A place that a function writes to.
#[must_use]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// The place, which holds `nothing` until something is written.
    ///
    /// # Safety
    /// `out` is null or may be written until the result is dropped.
    pub(crate) unsafe fn new(out: *mut T, nothing: T, name: &str) -> Result<Self> {
        if out.is_null() {
            return Err(null(name));
        }
        // SAFETY: `out` is null or may be written until the result is dropped, as the caller
        // promises.
        unsafe { out.write(nothing) };
        Ok(Self(out))
    }

    pub(crate) fn put(self, value: T) -> Result<()> {
        // SAFETY: `new`'s caller promised it.
        unsafe { self.0.write(value) };
        Ok(())
    }
}

impl<T> Out<*mut T> {
    /// A place for an object.
    ///
    /// # Safety
    /// `out` is null or may be written until the result is dropped.
    pub(crate) unsafe fn object(out: *mut *mut T) -> Result<Self> {
        // SAFETY: `out` is null or may be written until the result is dropped, as the caller
        // promises.
        unsafe { Self::new(out, std::ptr::null_mut(), "out") }
    }

    /// Makes the value an object of the caller's.
    pub(crate) fn give(self, value: T) -> Result<()> {
        self.put(Box::into_raw(Box::new(value)))
    }
}

/// Writes a text as the header says.
///
/// # Safety
/// `room` is null or has `capacity` bytes, and `size` is null or may be written.
pub(crate) unsafe fn write_text(
    room: *mut c_char,
    capacity: usize,
    size: *mut usize,
    text: impl FnOnce() -> Result<String>,
) -> Result<()> {
    // SAFETY: `room` is null or has `capacity` bytes, and `size` is null or may be written, as the
    // caller promises.
    let size = unsafe { Out::new(size, 0, "size") }?;
    if capacity > 0 && room.is_null() {
        return Err(null("text"));
    }
    let text = text()?;
    if capacity > 0 {
        // SAFETY: the caller promised `capacity` bytes, and that nobody else uses them; no text is
        // longer than any allocation.
        let room = unsafe { slice::from_raw_parts_mut(room, capacity.min(text.len() + 1)) };
        copy_text(room, &text);
    }
    size.put(text.len() + 1)
}

/// A text that C passes.
///
/// # Safety
/// `text` is null or ends with a NUL and lives as long as the result is used.
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<&'a str> {
    if text.is_null() {
        return Err(null(name));
    }
    // SAFETY: `text` is null or ends with a NUL and lives as long as the result is used, as the
    // caller promises.
    let text = unsafe { std::ffi::CStr::from_ptr(text) };
    text.to_str().map_err(|_| invalid(format!("`{name}` is not UTF-8")))
}

#[cfg(test)]
mod tests {
    #[cfg(panic = "unwind")]
    use std::panic::resume_unwind;
    #[cfg(panic = "unwind")]
    use std::sync::Arc;

    use super::*;

    // Requirement: SAF-31
    #[test]
    fn a_panic_is_an_error() {
        let mut error = ArdevError::EMPTY;
        // SAFETY: it may be written.
        let code = unsafe { run(&raw mut error, || panic!("planted")) };
        assert_eq!(error.text(), "panicked: planted");
        assert_eq!((code, error.code, error.kind), (14, 14, 16));
    }

    // Requirement: SAF-14
    #[test]
    #[cfg(panic = "unwind")]
    fn what_a_panic_carries_is_dropped() {
        struct Owner(Arc<()>);
        impl Drop for Owner {
            fn drop(&mut self) {
                resume_unwind(Box::new(self.0.clone()));
            }
        }
        let carried = Arc::new(());
        let body = || resume_unwind(Box::new(carried.clone()));
        // SAFETY: no error is asked for.
        assert_eq!(unsafe { run(std::ptr::null_mut(), body) }, 14);
        let object = Box::into_raw(Box::new(Owner(carried.clone())));
        // SAFETY: a box, which nobody else has.
        unsafe { free(object) };
        assert_eq!(Arc::strong_count(&carried), 1);
    }

    #[test]
    fn success_leaves_the_error_alone() {
        let mut error = ArdevError { code: 7, ..ArdevError::EMPTY };
        // SAFETY: it may be written.
        assert_eq!(unsafe { run(&raw mut error, || Ok(())) }, 0);
        assert_eq!(error.code, 7);
    }
}
