//! One array of an asynchronous stream, before it is taken.

use std::fmt;
use std::sync::Arc;

use super::foreign::{ForeignTask, extract};
use super::state::{StreamInfo, StreamState};
use crate::abi::ArrowDeviceArray;
use crate::{Array, DeviceType, Error, ErrorKind, Metadata, Result, Schema, process};

/// One array of an [`AsyncStream`](super::AsyncStream), not extracted yet.
///
/// A producer decodes an array when it is extracted, so extract it on the thread that will use it.
/// A task can be sent to another thread, and may outlive the stream. Dropping a task extracts it
/// with NULL in place of the array, as the interface demands, so that the producer can clean up.
pub struct Task {
    foreign: ForeignTask,
    info: Arc<StreamInfo>,
    shared: Arc<StreamState>,
}

impl Task {
    pub(super) fn new(
        foreign: ForeignTask,
        info: Arc<StreamInfo>,
        shared: Arc<StreamState>,
    ) -> Self {
        Self { foreign, info, shared }
    }

    /// What the producer says about this array.
    pub fn metadata(&self) -> &Metadata {
        &self.foreign.metadata
    }

    /// The schema of the stream.
    pub fn schema(&self) -> &Schema {
        &self.info.schema
    }

    /// The type of device that the array will be on.
    pub fn device_type(&self) -> DeviceType {
        self.info.device_type
    }

    /// Takes the array, on this thread.
    ///
    /// # Errors
    /// * The producer's error, if it cannot give the array. The producer goes on to end the stream
    ///   with an error, which tells more.
    /// * The errors of [`Array::import`].
    /// * [`Unsupported`](ErrorKind::Unsupported) in a child of `fork`, because the producer belongs
    ///   to the parent.
    /// * [`SchemaMismatch`](ErrorKind::SchemaMismatch), if the array lies on another type of device
    ///   than the stream says.
    pub fn extract(self) -> Result<Array> {
        if !self.shared.made_in.is_this() {
            return Err(process::of_the_parent().during("extract_data"));
        }
        self.extract_or().map_err(|(error, _)| error)
    }

    /// [`extract`](Self::extract), which also says who found the error. For callers that have
    /// checked that this is no child of `fork`.
    pub(super) fn extract_or(mut self) -> Result<Array, (Error, FoundBy)> {
        let Some(c_task) = self.foreign.c_task.take() else {
            let error = Error::new(ErrorKind::Released, "the task is extracted already");
            return Err((error, FoundBy::Consumer));
        };
        let mut c_array = ArrowDeviceArray::empty();
        let code = extract(c_task, &raw mut c_array);
        if code != 0 {
            // "Output untouched": the struct may hold anything, and is not released.
            let error = || Error::from_peer(code, None).during("extract_data");
            self.shared.consumer.task_failed(error().into());
            return Err((error(), FoundBy::Producer));
        }
        self.import(c_array).map_err(|error| (error, FoundBy::Consumer))
    }

    /// Leaves the task alone in a child of `fork`, because the producer belongs to the parent.
    #[cold]
    fn leave(&mut self) {
        self.foreign.c_task = None;
        self.shared.leave();
    }

    /// The array that the producer wrote into this struct.
    fn import(&self, mut c_array: ArrowDeviceArray) -> Result<Array> {
        let device_type = DeviceType(c_array.device_type);
        // SAFETY: UNS-11: the producer filled the struct that was empty before, with an array that
        // keeps UNS-3 to UNS-6, or left it so.
        let array = unsafe { Array::import(&raw mut c_array, &self.info.schema) };
        let array = array.map_err(|error| error.during("extract_data"))?;
        if device_type != self.info.device_type {
            let message = format!(
                "the array is on a device of type {device_type}, and the stream on {}",
                self.info.device_type
            );
            return Err(Error::new(ErrorKind::SchemaMismatch, message)
                .during("extract_data")
                .on_device(array.device()));
        }
        Ok(array)
    }
}

/// Who found that a task gives no array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FoundBy {
    /// The producer. It goes on to report an error that tells more.
    Producer,
    /// The consumer, who found the fault in what the producer gave.
    Consumer,
}

impl Drop for Task {
    fn drop(&mut self) {
        if !self.shared.made_in.is_this() {
            self.leave();
        }
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("device_type", &self.info.device_type)
            .field("metadata", self.metadata())
            .finish_non_exhaustive()
    }
}
