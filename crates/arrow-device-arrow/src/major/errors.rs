//! Converts errors both ways.

use std::error::Error as StdError;

use arrow_device::{Error, ErrorKind};

use super::arrow::schema::ArrowError;

/// Converts [`Error`] to `ArrowError` and back: `result.map_err(Error::into_arrow_error)`.
///
/// `From` cannot be implemented, because both types belong to other crates.
pub trait ErrorExt: Sized {
    /// Converts an error of arrow-rs to one of this library.
    ///
    /// An `ExternalError` becomes the error that it contains: an [`Error`] comes back as it was,
    /// and any other error is taken with its causes by [`Error::other`]. Any other variant gets the
    /// kind that fits it, or [`Peer`](ErrorKind::Peer) where none fits:
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

    /// Converts an error of this library to one of arrow-rs: an `ExternalError` that contains the
    /// [`Error`]. `downcast` and [`from_arrow_error`](Self::from_arrow_error) get it back.
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
        // These variants have no cause that could be lost.
        Self::new(kind, error.to_string())
    }

    fn into_arrow_error(self) -> ArrowError {
        ArrowError::ExternalError(Box::new(self))
    }
}

/// Converts any error of a stream to one of this library.
pub(super) fn ours(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
    match error.into().downcast::<ArrowError>() {
        Ok(error) => Error::from_arrow_error(*error),
        Err(error) => Error::other(error),
    }
}
