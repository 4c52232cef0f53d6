//! [`Failure`]: an error of a stream, with what its producer said along with it.

use crate::{Error, Metadata};

/// An error with the pairs that the producer said along with it.
///
/// What an [`AsyncProducer`](super::AsyncProducer)'s source fails with; a plain [`Error`] becomes
/// one without pairs.
#[derive(Debug)]
pub struct Failure {
    /// What went wrong.
    pub error: Error,
    /// What else the producer has to say about it.
    pub metadata: Metadata,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, metadata: Metadata::EMPTY }
    }
}
