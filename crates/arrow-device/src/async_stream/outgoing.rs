//! What a producer sends: an array, or the work that makes one; and the C task that carries either.

use std::ffi::c_int;
use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::Arc;

use super::outlet::{Outlet, StreamPromise, with_waking};
use super::slots::Slots;
use crate::abi::{ArrowAsyncTask, ArrowDeviceArray};
use crate::device::nesting;
use crate::ffi::guard;
use crate::{Array, Batch, Error, ErrorKind, Metadata, Result};

static TASKS: Slots<Sent> = Slots::new();

/// One array to be sent, with its metadata.
///
/// ```
/// use arrow_device::async_stream::Outgoing;
/// use arrow_device::{Array, DataType, Metadata};
///
/// let ready = Array::from_values(DataType::Int32, [Some(1), None])?;
/// let _as_it_is = Outgoing::from(ready);
/// // Made by the consumer's thread, when the consumer asks for it.
/// let _later = Outgoing::later(|| Array::from_values(DataType::Int32, [Some(2)]))
///     .with_metadata(Metadata::from_pairs([("part", "2 of 2")])?);
/// # Ok::<(), arrow_device::Error>(())
/// ```
pub struct Outgoing {
    work: Work,
    pub(super) metadata: Metadata,
}

enum Work {
    Ready(Array),
    Later(Later),
}

/// Work that makes an array. It may own a task of another stream, and so on.
struct Later(ManuallyDrop<LaterWork>);

type LaterWork = Box<dyn FnOnce() -> Result<Array> + Send>;

impl Later {
    fn into_work(self) -> LaterWork {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the work is taken once, because neither `this` nor its member is dropped.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        // SAFETY: dropped once, here.
        unsafe { nesting::drop_bounded(&mut self.0) }
    }
}

// SAFETY: with a shared reference to it nothing can be done.
unsafe impl Sync for Later {}

impl Outgoing {
    /// An array that is made when the consumer extracts it, on the consumer's thread. If no
    /// consumer extracts it, the array is never made.
    ///
    /// If the work fails or panics, the consumer is told, and the stream ends with that error.
    pub fn later(work: impl FnOnce() -> Result<Array> + Send + 'static) -> Self {
        Self {
            work: Work::Later(Later(ManuallyDrop::new(Box::new(work)))),
            metadata: Metadata::EMPTY,
        }
    }

    /// Sets the metadata of this array.
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// An error where an array is not what the stream has promised of all its arrays.
    pub(super) fn check(&self, promise: &StreamPromise) -> Result<()> {
        match &self.work {
            Work::Ready(array) => promise.check(array),
            Work::Later(_) => Ok(()),
        }
    }
}

impl From<Array> for Outgoing {
    fn from(array: Array) -> Self {
        Self { work: Work::Ready(array), metadata: Metadata::EMPTY }
    }
}

impl From<Batch> for Outgoing {
    fn from(batch: Batch) -> Self {
        Array::from(batch).into()
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Outgoing");
        match &self.work {
            Work::Ready(array) => shown.field("array", array),
            Work::Later(_) => shown.field("array", &"later"),
        };
        shown.field("metadata", &self.metadata).finish()
    }
}

/// A task that a consumer may extract.
struct Sent {
    work: Work,
    outlet: Arc<Outlet>,
}

/// A task as a C struct. It belongs to the consumer unless it is [withdrawn](Self::withdraw).
pub(super) struct Sending {
    pub(super) c_task: ArrowAsyncTask,
}

impl Sending {
    pub(super) fn new(what: Outgoing, outlet: &Arc<Outlet>) -> Self {
        let private_data = TASKS.issue(Sent { work: what.work, outlet: outlet.clone() });
        Self { c_task: ArrowAsyncTask { extract_data: Some(extract_data), private_data } }
    }

    /// Cleans up a task that the consumer refused. Does nothing if the consumer extracted it
    /// nevertheless.
    pub(super) fn withdraw(self) {
        drop(TASKS.take(self.c_task.private_data));
    }
}

unsafe extern "C" fn extract_data(task: *mut ArrowAsyncTask, out: *mut ArrowDeviceArray) -> c_int {
    let outcome = guard::or_panicked(|| {
        // SAFETY: the consumer's copy of a task of ours, or null.
        let ticket = (!task.is_null()).then(|| unsafe { (*task).private_data });
        let Some(sent) = ticket.and_then(|ticket| TASKS.take(ticket)) else {
            return Err(Error::new(ErrorKind::InvalidArgument, "there is no such task any more"));
        };
        let Sent { work, outlet } = sent;
        if out.is_null() {
            // A panic in a destructor does not mean that cleaning up has failed.
            guard::silent(|| drop(work));
            return Ok(());
        }
        // SAFETY: "ownership of the Array is given to the pointer passed in as a parameter", which
        // is not null and which nobody else uses during the call.
        let out = unsafe { &mut *out.cast::<MaybeUninit<ArrowDeviceArray>>() };
        let made = guard::or_panicked(|| make(work, &outlet.promise, out));
        made.map_err(|error| {
            let answer = Error::from_peer(error.errno(), None);
            if outlet.made_in.is_this() {
                let credit = &outlet.credit;
                with_waking(|| credit.task_failed(error.during("extract_data").into()));
            }
            answer
        })
    });
    outcome.map_or_else(|error| error.errno(), |()| 0)
}

/// Writes the array. Writes nothing where there is an error.
fn make(
    work: Work,
    promise: &StreamPromise,
    out: &mut MaybeUninit<ArrowDeviceArray>,
) -> Result<()> {
    let array = match work {
        Work::Ready(array) => array,
        Work::Later(later) => {
            let array = later.into_work()()?;
            promise.check(&array)?;
            array
        }
    };
    array.export_away(out)
}
