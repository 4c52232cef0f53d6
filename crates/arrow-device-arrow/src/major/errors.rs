//! Errors, both ways.

use std::error::Error as StdError;

use arrow_device::{Error, ErrorKind};

use super::arrow::schema::ArrowError;

/// [`Error`] and `ArrowError`, each as the other: `result.map_err(Error::into_arrow_error)`.
///
/// (A `From` cannot be: both types are another crate's.)
pub trait ErrorExt: Sized {
    /// An error of arrow-rs as one of this library.
    ///
    /// An `ExternalError` becomes what is in it: an [`Error`] comes back as it was, and any other
    /// error is taken with its causes by [`Error::other`]. The kind of the rest is the one that
    /// fits the variant, [`Peer`](ErrorKind::Peer) where none does:
    ///
    /// | of arrow-rs | kind |
    /// |---|---|
    /// | `NotYetImplemented` | [`Unsupported`](ErrorKind::Unsupported) |
    /// | `MemoryError` | [`OutOfMemory`](ErrorKind::OutOfMemory) |
    /// | `SchemaError` | [`SchemaMismatch`](ErrorKind::SchemaMismatch) |
    /// | `InvalidArgumentError` | [`InvalidArgument`](ErrorKind::InvalidArgument) |
    /// | `DictionaryKeyOverflowError`, `RunEndIndexOverflowError`, `OffsetOverflowError` | [`LimitExceeded`](ErrorKind::LimitExceeded) |
    /// | `IoError` | that of the operating system's error, which is its cause |
    fn from_arrow_error(error: ArrowError) -> Self;

    /// An error of this library as one of arrow-rs: an `ExternalError` with the [`Error`] in it,
    /// to be had again by `downcast`, or by [`from_arrow_error`](Self::from_arrow_error).
    fn into_arrow_error(self) -> ArrowError;
}

impl ErrorExt for Error {
    fn from_arrow_error(error: ArrowError) -> Self {
        let kind = match &error {
            ArrowError::NotYetImplemented(_) => ErrorKind::Unsupported,
            ArrowError::MemoryError(_) => ErrorKind::OutOfMemory,
            ArrowError::SchemaError(_) => ErrorKind::SchemaMismatch,
            ArrowError::InvalidArgumentError(_) => ErrorKind::InvalidArgument,
            ArrowError::DictionaryKeyOverflowError
            | ArrowError::RunEndIndexOverflowError
            | ArrowError::OffsetOverflowError(_) => ErrorKind::LimitExceeded,
            _ => {
                return match error {
                    ArrowError::ExternalError(inner) => ours(inner),
                    other => Self::other(other),
                };
            }
        };
        // These have no cause that could be lost.
        Self::new(kind, error.to_string())
    }

    fn into_arrow_error(self) -> ArrowError {
        ArrowError::ExternalError(Box::new(self))
    }
}

/// Any error of a stream as one of this library.
pub(super) fn ours(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
    match error.into().downcast::<ArrowError>() {
        Ok(error) => Error::from_arrow_error(*error),
        Err(error) => Error::other(error),
    }
}
