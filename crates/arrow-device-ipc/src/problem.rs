//! The errors of reading and writing IPC.

use arrow_device::{Error, ErrorKind};

/// Something in a message breaks a rule of the format.
#[cold]
pub(crate) fn malformed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Malformed, message.into()).during("read IPC")
}

/// A message uses something of the format that this crate, or this build of it, does not read.
#[cold]
pub(crate) fn unsupported(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, message.into()).during("read IPC")
}

/// A message asks for more than the reader's options allow.
#[cold]
pub(crate) fn limited(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::LimitExceeded, message.into()).during("read IPC")
}

/// Reading the file or the connection failed.
#[cold]
pub(crate) fn not_read(error: std::io::Error) -> Error {
    Error::other(error).during("read IPC")
}

/// Writing to the file or the connection failed.
#[cold]
pub(crate) fn not_written(error: std::io::Error) -> Error {
    Error::other(error).during("write IPC")
}

/// A batch or a schema cannot be written.
#[cold]
pub(crate) fn refused(kind: ErrorKind, message: impl Into<String>) -> Error {
    Error::new(kind, message.into()).during("write IPC")
}

/// Adds to an error where in the input it was seen.
pub(crate) fn within(error: Error, place: &str) -> Error {
    let message = format!("{place}: {}", error.message());
    Error::new(error.kind(), message).during("read IPC")
}

/// An error of making an array of what a message says: where the builder names an argument, the
/// message is what is wrong.
#[cold]
pub(crate) fn in_what_came(error: Error) -> Error {
    match error.kind() {
        ErrorKind::InvalidArgument => malformed(error.message()),
        _ => error,
    }
}

/// The host has no room for `len` bytes.
#[cold]
pub(crate) fn no_memory(len: u64) -> Error {
    Error::new(ErrorKind::OutOfMemory, format!("no memory for {len} bytes")).during("read IPC")
}

/// Bytes of a buffer are missing that were there before.
#[cold]
pub(crate) fn gone() -> Error {
    refused(ErrorKind::InvalidData, "a buffer is shorter than it was")
}
