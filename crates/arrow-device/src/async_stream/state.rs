//! What the parts of the consumer's side share: the state of the stream, and what the producer said
//! of it.

use std::sync::{Arc, OnceLock};

use super::failure::Failure;
use super::foreign::{ForeignProducer, ForeignTask};
use super::protocol::Sound;
use super::protocol::consumer::Consumer;
use crate::process::MadeIn;
use crate::{DeviceType, Metadata, Schema};

/// What a producer says about a whole stream, with its schema.
#[derive(Debug)]
#[non_exhaustive]
pub struct StreamInfo {
    /// The schema of every array.
    pub schema: Schema,
    /// The type of device that every array is on.
    pub device_type: DeviceType,
    /// What else there is to say.
    pub metadata: Metadata,
}

/// What the stream, its tasks and its handler share.
pub(super) struct StreamState {
    /// In a child of this process nothing of the consumer is used.
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

    /// Keeps the state for ever, in a child of `fork`: what came of the producer, and the waker of
    /// the parent's, are not the child's to drop.
    #[cold]
    pub(super) fn leave(self: &Arc<Self>) {
        std::mem::forget(self.clone());
    }
}
