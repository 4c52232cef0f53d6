//! [`Options`]: choices for one copy.

use std::fmt;
use std::sync::Arc;

use crate::device::Owner;
use crate::{Allocator, Queue};

/// Options for a copy: see [`Array::copy_with`](crate::Array::copy_with). With the defaults, the
/// copy is a [`copy_to`](crate::Array::copy_to).
#[derive(Clone)]
#[must_use]
pub struct Options {
    pub(super) alignment: u64,
    pub(super) separate: bool,
    pub(super) trim: bool,
    pub(super) always: bool,
    pub(super) through: Option<Queue>,
    pub(super) allocator: Option<Arc<dyn Allocator>>,
    pub(super) chunk: u64,
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self {
            alignment: 64,
            separate: false,
            trim: true,
            always: false,
            through: None,
            allocator: None,
            chunk: 4 << 20,
        }
    }

    /// Sets the alignment of every buffer in bytes, a power of two. The alignment is at least 64
    /// and what the device asks for.
    ///
    /// On a device whose memory is named by handles, the alignment counts from the beginning of the
    /// allocation.
    pub fn alignment(mut self, alignment: u64) -> Self {
        let largest = 1 << 32;
        self.alignment = alignment.clamp(64, largest).next_power_of_two();
        self
    }

    /// Sets whether every buffer gets an allocation of its own, so that a column keeps its own
    /// memory and no other. Costs an allocation for each buffer.
    ///
    /// On a device whose memory is named by handles, and that has no [handles for
    /// parts](crate::driver::Properties::parts), every buffer has an allocation of its own in any
    /// case. Without this option, a column keeps all of these allocations.
    pub fn separate(mut self, separate: bool) -> Self {
        self.separate = separate;
        self
    }

    /// Sets whether only live elements travel, which is the default. Otherwise every node with
    /// elements keeps its offset, and the elements before it travel too: the result has the shape
    /// of the source, node by node.
    pub fn trim(mut self, trim: bool) -> Self {
        self.trim = trim;
        self
    }

    /// Sets whether an array that is on the destination already is copied too. A small slice of a
    /// large array then keeps a copy of its own elements, and no longer the large array.
    pub fn always(mut self, always: bool) -> Self {
        self.always = always;
        self
    }

    /// Sets the queue that reads the source into host memory: for copies to the host and through
    /// the host, and for the lengths and offsets of copies between two devices. The queue has to
    /// reach the source. By default a queue is opened for each copy.
    pub fn through(mut self, queue: &Queue) -> Self {
        self.through = Some(queue.clone());
        self
    }

    /// Sets the allocator of the destination: a pool, an arena, a [`Recycler`](crate::Recycler). By
    /// default the allocator of the queue's device is used, if it has one:
    /// [`Device::with_allocator`](crate::Device::with_allocator).
    pub fn allocator(mut self, allocator: impl Allocator) -> Self {
        self.allocator = Some(Arc::new(Owner::in_any_process(allocator)));
        self
    }

    /// Sets the size in bytes of a chunk of a copy that goes through host memory chunk by chunk,
    /// with two chunks of memory in turn. The default is 4 MiB. A chunk never has less than 64
    /// bytes or a [unit] of the device that it goes to.
    ///
    /// [unit]: crate::driver::Properties::copy_unit
    pub fn chunk(mut self, bytes: u64) -> Self {
        self.chunk = bytes.clamp(64, 1 << 40).next_multiple_of(64);
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("alignment", &self.alignment)
            .field("separate", &self.separate)
            .field("trim", &self.trim)
            .field("always", &self.always)
            .field("through", &self.through)
            .field("has an allocator", &self.allocator.is_some())
            .field("chunk", &self.chunk)
            .finish()
    }
}
