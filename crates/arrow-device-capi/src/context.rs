//! Callbacks that the caller gives: their context, which ends once, and what they answer.

use std::ffi::{c_int, c_void};
use std::fmt;

use arrow_device::{Error, Result};

/// The end of something that the caller gave.
pub type ArdevRelease = Option<unsafe extern "C" fn(context: *mut c_void)>;

/// The caller's own, with its end.
pub(crate) struct Context {
    pub(crate) pointer: *mut c_void,
    release: ArdevRelease,
}

impl Context {
    /// Takes it over: `release` is called when this is dropped.
    pub(crate) fn new(pointer: *mut c_void, release: ArdevRelease) -> Self {
        Self { pointer, release }
    }
}

// SAFETY: rule 4 of the header: "callbacks that the caller gives are called on any thread".
unsafe impl Send for Context {}
// SAFETY: rule 4 of the header: callbacks that the caller gives are called "on any thread", and at
// once. Nothing here changes the pointer.
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: rule 4 of the header; this is the only owner.
            unsafe { release(self.pointer) }
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Context")
    }
}

/// What a callback returned, as a result.
pub(crate) fn answer(code: c_int, callback: &str) -> Result<()> {
    told(code, || format!("`{callback}` returned {code}"))
}

/// The same with a text of its own.
pub(crate) fn told(code: c_int, text: impl FnOnce() -> String) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    let meaning = std::io::Error::from_raw_os_error(code).to_string();
    Err(Error::other(Told { text: text(), code: Error::from_peer(code, Some(meaning)) }))
}

/// An error of the caller's, which keeps its errno value.
#[derive(Debug)]
struct Told {
    text: String,
    code: Error,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Told {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_device::ErrorKind;

    #[test]
    fn an_errno_value_keeps_its_kind_and_itself() {
        assert!(answer(0, "next").is_ok());
        for (code, kind) in
            [(12, ErrorKind::OutOfMemory), (6, ErrorKind::DeviceLost), (-3, ErrorKind::Peer)]
        {
            let error = answer(code, "next").unwrap_err();
            assert_eq!((error.kind(), error.errno()), (kind, code));
            assert_eq!(error.message(), format!("`next` returned {code}"));
        }
    }
}
