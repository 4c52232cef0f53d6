//! One array that is there for the taking.

use std::fmt;
use std::ptr;
use std::sync::Arc;

use super::handler::StreamState;
use super::stream::StreamInfo;
use crate::abi::{ArrowAsyncTask, ArrowDeviceArray};
use crate::{Array, DeviceType, Error, ErrorKind, Metadata, Result, Schema};

/// One array of an [`AsyncStream`](super::AsyncStream), not extracted yet.
///
/// Extracting is where a producer decodes, so do it on the thread that will use the array. A task can be sent there, and may
/// outlive the stream. One that is dropped is extracted with nowhere to put the array, as the interface demands, so that the
/// producer can clean up.
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
    /// * What the producer says, if it cannot give the array. It goes on to end the stream with an error, which tells more.
    /// * What [`Array::import`] has against it.
    /// * [`SchemaMismatch`](ErrorKind::SchemaMismatch), if it lies on another type of device than the stream says.
    pub fn extract(mut self) -> Result<Array> {
        let Some(c_task) = self.foreign.c_task.take() else {
            return Err(Error::new(ErrorKind::Released, "the task is extracted already"));
        };
        let mut c_array = ArrowDeviceArray::empty();
        let code = extract(c_task, &raw mut c_array);
        if code != 0 {
            // "Output untouched": whatever is there is not ours.
            let error = || Error::from_peer(code, None).during("extract_data");
            self.shared.consumer.task_failed(error().into());
            return Err(error());
        }
        let device_type = DeviceType(c_array.device_type);
        // SAFETY: the producer filled the struct that was empty before, or left it so. That what it says is true was promised
        // with the handler.
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

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("device_type", &self.info.device_type)
            .field("metadata", self.metadata())
            .finish_non_exhaustive()
    }
}

/// A task that was moved in. Extracted with NULL when dropped.
pub(super) struct ForeignTask {
    c_task: Option<ArrowAsyncTask>,
    metadata: Metadata,
}

// SAFETY: `extract_data` is made to be called on whatever thread wants the array; the rest is only passed on.
unsafe impl Send for ForeignTask {}
// SAFETY: with a shared reference to a task only its metadata can be looked at.
unsafe impl Sync for ForeignTask {}

impl ForeignTask {
    /// A struct of a producer, whose `extract_data` is there.
    pub(super) fn new(c_task: ArrowAsyncTask, metadata: Metadata) -> Self {
        Self { c_task: Some(c_task), metadata }
    }

    /// Leaves it to the producer.
    pub(super) fn leave(mut self) {
        self.c_task = None;
    }
}

impl Drop for ForeignTask {
    fn drop(&mut self) {
        if let Some(c_task) = self.c_task.take() {
            extract(c_task, ptr::null_mut());
        }
    }
}

fn extract(mut c_task: ArrowAsyncTask, out: *mut ArrowDeviceArray) -> i32 {
    // The handler refuses tasks without the callback.
    let Some(extract_data) = c_task.extract_data else { return libc::EINVAL };
    // SAFETY: the task was moved here and this is its one call: "it is only valid to call this method exactly once". `out` is
    // null or a struct of ours.
    unsafe { extract_data(&raw mut c_task, out) }
}
