//! The errors of sharing.

use arrow_device::{Error, ErrorKind};

/// How many characters of a text that somebody else chose are a part of an error.
pub(crate) const MAX_TEXT: usize = 2000;

/// The beginning of a text that somebody else chose.
pub(crate) fn shortened(text: &str) -> &str {
    text.char_indices().nth(MAX_TEXT).map_or(text, |(end, _)| text.get(..end).unwrap_or(text))
}

/// A message breaks a rule of the protocol.
#[cold]
pub(crate) fn malformed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Malformed, message.into()).during("receive")
}

/// A message asks for more than the receiver admits.
#[cold]
pub(crate) fn limited(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::LimitExceeded, message.into()).during("receive")
}

/// The other side has ended, or said that something went wrong.
#[cold]
pub(crate) fn of_peer(operation: &'static str, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Peer, message.into()).during(operation)
}

/// A call of the system failed.
#[cold]
pub(crate) fn failed(operation: &'static str, error: rustix::io::Errno) -> Error {
    let kind = match error {
        rustix::io::Errno::MFILE | rustix::io::Errno::NFILE | rustix::io::Errno::TOOMANYREFS => {
            ErrorKind::LimitExceeded
        }
        rustix::io::Errno::NOMEM | rustix::io::Errno::NOBUFS | rustix::io::Errno::FBIG => {
            ErrorKind::OutOfMemory
        }
        rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET => ErrorKind::Peer,
        _ => return Error::other(std::io::Error::from(error)).during(operation),
    };
    Error::new(kind, error.to_string()).during(operation)
}

/// A child of `fork` uses a connection of its parent.
#[cold]
pub(crate) fn of_parent() -> Error {
    Error::new(ErrorKind::Unsupported, "the connection is one of the parent process")
}
