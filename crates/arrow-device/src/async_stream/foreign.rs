//! The consumer's copies of another party's structs: the producer, and a task that was moved in.

use std::ptr;

use super::protocol::consumer::ProducerCalls;
use crate::abi::{ArrowAsyncProducer, ArrowAsyncTask, ArrowDeviceArray};
use crate::{Metadata, errno};

/// The members of a producer's struct, read once.
#[derive(Clone, Copy)]
pub(super) struct ForeignProducer {
    pub(super) address: *mut ArrowAsyncProducer,
    pub(super) request: unsafe extern "C" fn(*mut ArrowAsyncProducer, i64),
    pub(super) cancel: unsafe extern "C" fn(*mut ArrowAsyncProducer),
}

// SAFETY: `cancel` "must be idempotent and thread-safe"; `request` is called by one thread at a
// time, and may be called from any (UNS-11).
unsafe impl Send for ForeignProducer {}

impl ProducerCalls for ForeignProducer {
    fn request(&self, count: i64) {
        // SAFETY: the producer "must remain valid at least until just before calling `release`",
        // and the protocol calls only in between: it makes `release` wait for this call.
        unsafe { (self.request)(self.address, count) }
    }

    fn cancel(&self) {
        // SAFETY: the producer "must remain valid at least until just before calling `release`",
        // and the protocol calls only in between: it makes `release` wait for this call.
        unsafe { (self.cancel)(self.address) }
    }
}

/// A task that was moved in. Dropping it extracts it with NULL.
pub(super) struct ForeignTask {
    pub(super) c_task: Option<ArrowAsyncTask>,
    pub(super) metadata: Metadata,
}

// SAFETY: `extract_data` is made to be called on whatever thread wants the array; the rest is only
// passed on.
unsafe impl Send for ForeignTask {}

// SAFETY: with a shared reference to a task only its metadata can be looked at.
unsafe impl Sync for ForeignTask {}

impl ForeignTask {
    /// A task of a producer, whose `extract_data` is there.
    pub(super) fn new(c_task: ArrowAsyncTask, metadata: Metadata) -> Self {
        Self { c_task: Some(c_task), metadata }
    }

    /// Leaves the task to the producer.
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

pub(super) fn extract(mut c_task: ArrowAsyncTask, out: *mut ArrowDeviceArray) -> i32 {
    // The handler refuses tasks without the callback.
    let Some(extract_data) = c_task.extract_data else { return errno::EINVAL };
    // SAFETY: the task was moved here and this is its one call: "it is only valid to call this
    // method exactly once". `out` is null or a struct of ours.
    unsafe { extract_data(&raw mut c_task, out) }
}
