//! [`Incoming`]: what the messages of a Flight say, one after the other.
//!
//! Neither gRPC nor a major of arrow-flight is needed here, so that the fuzz target reaches all of
//! this by itself.

use arrow_device::{Batch, Metadata, Result, Schema};
use arrow_device_ipc::{Decoded, Decoder, ReadOptions};
use bytes::Bytes;

use super::body::buffer_of;

/// The state of a stream of messages.
#[derive(Debug)]
pub(crate) struct Incoming {
    decoder: Decoder,
    app_metadata: Bytes,
}

/// What a message has beside the schema and dictionaries.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) batch: Option<Batch>,
    pub(crate) metadata: Metadata,
    pub(crate) app_metadata: Bytes,
}

impl Incoming {
    pub(crate) fn new(options: ReadOptions) -> Self {
        Self { decoder: Decoder::new(options), app_metadata: Bytes::new() }
    }

    pub(crate) fn schema(&self) -> Option<&Schema> {
        self.decoder.schema()
    }

    /// Returns the application metadata of the message with the schema, or of one before.
    pub(crate) fn app_metadata(&self) -> &Bytes {
        &self.app_metadata
    }

    /// Takes the next message. `None` for a message that is of no use alone: a schema or a
    /// dictionary.
    pub(crate) fn take(
        &mut self,
        header: &[u8],
        app_metadata: Bytes,
        body: Bytes,
    ) -> Result<Option<Taken>> {
        let has_schema = self.schema().is_some();
        if header.is_empty() && has_schema {
            return Ok(Some(Taken { app_metadata, ..Taken::default() }));
        }
        if !has_schema && !app_metadata.is_empty() {
            self.app_metadata = app_metadata.clone();
        }
        if header.is_empty() {
            // Some clients send the descriptor in a message of its own.
            return Ok(None);
        }
        match self.decoder.decode(header, buffer_of(body))? {
            Decoded::Batch { batch, metadata } => {
                Ok(Some(Taken { batch: Some(batch), metadata, app_metadata }))
            }
            _ => Ok(None),
        }
    }
}
