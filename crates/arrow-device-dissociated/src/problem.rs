//! The errors of this crate.

use arrow_device::{Error, ErrorKind};

/// A message breaks a rule of the protocol.
#[cold]
pub(crate) fn malformed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Malformed, message.into()).during("dissociated IPC")
}

/// A message asks for more than this side admits.
#[cold]
pub(crate) fn limited(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::LimitExceeded, message.into()).during("dissociated IPC")
}

/// The other side has gone before the end.
#[cold]
pub(crate) fn of_peer(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Peer, message.into()).during("dissociated IPC")
}

/// The other side took longer than it may.
#[cold]
pub(crate) fn too_late(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::TimedOut, message.into()).during("dissociated IPC")
}

/// Something that this side cannot do.
#[cold]
pub(crate) fn unsupported(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, message.into()).during("dissociated IPC")
}

/// The system, or a library that carries messages, failed.
#[cold]
pub(crate) fn failed(what: &str, error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Driver, format!("{what}: {error}")).during("dissociated IPC")
}
