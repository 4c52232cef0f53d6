//! Copies of whole arrays: to the host, to a device, from one device to another.
//!
//! [`Array::copy_to`] and [`Array::to_host`] are all that most programs need. A copy is planned
//! first and then run, and a program can print the [`Plan`]: which way the data goes, how many
//! bytes, regions and submissions that takes, and what was cut off and why.
//!
//! # What travels
//!
//! Only live elements travel. A slice of 10 rows of a column with 100 million moves some hundred
//! bytes:
//!
//! * Buffers are cut to the elements of the array. A node with a validity bitmap (or of booleans)
//!   keeps up to 7 elements before its first one, so that no bit has to be shifted. The offset of
//!   the node tells how many.
//! * Strings and lists are cut behind their offsets, too. Only the data says where they begin and
//!   end: the first and last offsets are read with one gathered read and one wait for each level of
//!   nesting, and checked before use, because the memory is another party's. The offsets then have
//!   to begin at 0, so they are changed on their way through host memory. Between two devices that
//!   reach each other, the offsets alone go through the host; or the data before the first element
//!   travels as well, if that moves less.
//! * The elements of list views, views, dense unions and run-end encoded arrays may point anywhere.
//!   Where the host can read the indices, their targets are cut to what is used. Where only a
//!   device has the indices, the targets travel whole.
//! * Buffers and whole children that occur twice move once. A bitmap without a null stays behind.
//!
//! # How it travels
//!
//! Everything is packed into one allocation, and handed to the driver as one list of regions. Where
//! the destination's queue reaches the source, or the source is host memory, the copy is submitted
//! and the result is ready after an event. A copy to the host waits until the bytes have arrived.
//! Where two devices have no common path, the data passes through host memory chunk by chunk, in
//! two chunks of memory in turn: on the calling thread ([`Plan::run`]), or on an executor
//! ([`Plan::start`]). A thread that may not block polls a copy ([`PolledCopy`]). Copies to one
//! device have at most 256 MiB of such host memory in use at a time. A copy that would need more
//! waits for the others first, for as long as an allocation would
//! ([`allocation_timeout`](crate::deferred::allocation_timeout)).
//!
//! The result is one tree in one allocation, so one column of it keeps all of the memory.
//! [`Options::separate`] gives every buffer an allocation of its own, and every column a tree that
//! keeps its own memory and no other. A device that cannot name a place inside an allocation has an
//! allocation for each buffer in any case, and one tree keeps all of them. A copy that fails leaves
//! nothing behind, and its error names the step.
//!
//! ```
//! use arrow_device::copy::Options;
//! use arrow_device::{Array, DataType, Queue};
//!
//! let words = Array::from_texts(DataType::Utf8, (0..1000).map(|_| Some("ten letters")))?;
//! let plan =
//!     words.slice(500, 10)?.plan_copy(&Queue::host(), &Options::new().always(true))?;
//! assert!(plan.bytes() < 200);
//! assert!(plan.to_string().contains("offsets begin at 0 instead of 5500"), "{plan}");
//! let copy = plan.run()?;
//! assert!(copy.equals(&words.slice(500, 10)?)?);
//! # Ok::<(), arrow_device::Error>(())
//! ```

mod awaited;
mod copying;
mod options;
mod plan;
mod polled;
mod reader;
mod route;
mod run;
mod source;
mod step;

pub use awaited::AwaitedCopy;
pub use copying::{Copying, Executor, Job};
pub use options::Options;
pub use plan::{Cut, Note, Plan};
pub use polled::{PolledCopy, WokenCopy};
pub use reader::{BufferReader, ReadBytes, ReadableBuffer, Reading};
pub use route::{Hop, Way};

use crate::{Array, Batch, Queue, Result};

impl Array {
    /// Copies the array to the device of this queue. An array that is on that device already is
    /// shared and not copied.
    ///
    /// The result is ready after an event on the queue. On the host, and on devices that have no
    /// events, this waits instead. A copy through host memory waits as well: for its chunks, and
    /// where copies have too much host memory in use. The source is kept until it has been read.
    /// See [`copy`](crate::copy) for what travels and how, and [`copy_with`](Self::copy_with) for
    /// choices.
    ///
    /// Costs one allocation and one submission. Strings and lists cost one small read and one wait
    /// for each level of nesting. Where the source is on another device, a queue is opened there.
    ///
    /// ```
    /// use arrow_device::{Array, DataType, Device, Queue};
    ///
    /// let numbers = Array::from_values(DataType::Int8, [Some(1_i8), None])?;
    /// // For a copy to a GPU, name a queue of the GPU. To the host, nothing has to move here.
    /// assert!(numbers.copy_to(&Queue::host())?.is_same(&numbers));
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// * [`DeviceMissing`](crate::ErrorKind::DeviceMissing): the array is on a device that is not
    ///   open here.
    /// * [`InvalidData`](crate::ErrorKind::InvalidData): offsets run backwards, or lead outside.
    /// * [`NotReady`](crate::ErrorKind::NotReady): something has to be waited for, and a driver
    ///   [may not wait](crate::driver#drivers-that-may-not-wait) on this thread:
    ///   [`copy_polled`](Self::copy_polled) does not wait.
    /// * [`OutOfMemory`](crate::ErrorKind::OutOfMemory),
    ///   [`DeviceLost`](crate::ErrorKind::DeviceLost) and whatever a driver says: the error names
    ///   the step.
    pub fn copy_to(&self, queue: &Queue) -> Result<Self> {
        self.copy_with(queue, &Options::new())
    }

    /// [`copy_to`](Self::copy_to) with options.
    pub fn copy_with(&self, queue: &Queue, options: &Options) -> Result<Self> {
        self.plan_copy(queue, options)?.run()
    }

    /// Copies the array to host memory and waits for it. An array in host memory is shared and not
    /// copied.
    ///
    /// The source is read on a queue that is opened for that. Where many copies are made, name one
    /// queue for all of them: [`Options::through`].
    pub fn to_host(&self) -> Result<Self> {
        self.copy_to(&Queue::host())
    }

    /// Plans a copy to the device of this queue. Nothing is copied yet, but lengths are read, and
    /// this may wait for them.
    ///
    /// The plan keeps the array.
    pub fn plan_copy(&self, queue: &Queue, options: &Options) -> Result<Plan> {
        Plan::new(self, queue, options)
    }
}

impl Batch {
    /// Copies the batch to the device of this queue: see [`Array::copy_to`].
    pub fn copy_to(&self, queue: &Queue) -> Result<Self> {
        self.copy_with(queue, &Options::new())
    }

    /// [`copy_to`](Self::copy_to) with options.
    pub fn copy_with(&self, queue: &Queue, options: &Options) -> Result<Self> {
        Self::try_from(self.as_array().copy_with(queue, options)?)
    }

    /// Copies the batch to host memory and waits for it: see [`Array::to_host`].
    pub fn to_host(&self) -> Result<Self> {
        self.copy_to(&Queue::host())
    }

    /// Plans a copy: see [`Array::plan_copy`].
    pub fn plan_copy(&self, queue: &Queue, options: &Options) -> Result<Plan> {
        self.as_array().plan_copy(queue, options)
    }
}
