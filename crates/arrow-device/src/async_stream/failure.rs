//! [`Failure`]: an error of a stream, with metadata of its producer.

use crate::{Error, Metadata};

/// An error with metadata of the producer.
///
/// The source of an [`AsyncProducer`](super::AsyncProducer) fails with such an error. A plain
/// [`Error`] becomes one without metadata.
#[derive(Debug)]
pub struct Failure {
    /// What went wrong.
    pub error: Error,
    /// What else the producer says about the error.
    pub metadata: Metadata,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, metadata: Metadata::EMPTY }
    }
}
