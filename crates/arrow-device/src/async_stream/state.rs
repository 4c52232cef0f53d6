//! The shared state of the consumer's side, and what the producer said of the stream.

use std::sync::{Arc, OnceLock};

use super::failure::Failure;
use super::foreign::{ForeignProducer, ForeignTask};
use super::protocol::Sound;
use super::protocol::consumer::Consumer;
use crate::process::MadeIn;
use crate::{DeviceType, Metadata, Schema};

/// What a producer says about a whole stream, along with its schema.
#[derive(Debug)]
#[non_exhaustive]
pub struct StreamInfo {
    /// The schema of every array.
    pub schema: Schema,
    /// The type of device that every array is on.
    pub device_type: DeviceType,
    /// The metadata of the stream.
    pub metadata: Metadata,
}

/// The state that the stream, its tasks and its handler share.
pub(super) struct StreamState {
    /// The process of the consumer. In a child of that process nothing of the consumer is used.
    pub(super) made_in: MadeIn,
    pub(super) consumer: Consumer<Sound, ForeignProducer, ForeignTask, Failure>,
    pub(super) info: OnceLock<Arc<StreamInfo>>,
    pub(super) error_metadata: OnceLock<Metadata>,
}

impl StreamState {
    pub(super) fn new(window: usize) -> Self {
        let consumer = Consumer::new(window as u64);
        let made_in = MadeIn::watched();
        Self { made_in, consumer, info: OnceLock::new(), error_metadata: OnceLock::new() }
    }

    /// Keeps the state for ever in a child of `fork`, which must not drop what came of the parent's
    /// producer, nor the parent's waker.
    #[cold]
    pub(super) fn leave(self: &Arc<Self>) {
        std::mem::forget(self.clone());
    }
}
