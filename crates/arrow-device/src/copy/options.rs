//! [`Options`]: choices for one copy.

use std::fmt;
use std::sync::Arc;

use crate::device::Owner;
use crate::{Allocator, Queue};

/// Choices for a copy: see [`Array::copy_with`](crate::Array::copy_with). Without any it is a
/// [`copy_to`](crate::Array::copy_to).
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
    /// The usual ones.
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

    /// Every buffer begins at a multiple of this many bytes, a power of two. It is at least 64 and
    /// what the device asks for.
    ///
    /// On a device of handles this is counted from the beginning of the allocation.
    pub fn alignment(mut self, alignment: u64) -> Self {
        let largest = 1 << 32;
        self.alignment = alignment.clamp(64, largest).next_power_of_two();
        self
    }

    /// Says whether every buffer gets an allocation of its own, so that a column keeps its own
    /// memory and no other. Costs an allocation for each buffer.
    ///
    /// On a device of handles that knows no parts of them this is always so.
    pub fn separate(mut self, separate: bool) -> Self {
        self.separate = separate;
        self
    }

    /// Whether only live elements travel. Without that every node keeps its offset, and what is
    /// before it comes along: the result has the shape of the source, node by node.
    pub fn trim(mut self, trim: bool) -> Self {
        self.trim = trim;
        self
    }

    /// Copies also what lies on the destination already: to let go of a large array of which a
    /// small slice is used.
    pub fn always(mut self, always: bool) -> Self {
        self.always = always;
        self
    }

    /// Reads the source on this queue, which reaches it, where it is read by copies to the host.
    /// Without it a queue is opened for each copy.
    pub fn through(mut self, queue: &Queue) -> Self {
        self.through = Some(queue.clone());
        self
    }

    /// Takes the destination from this allocator: a pool, an arena, a
    /// [`Recycler`](crate::Recycler). Without it the one of the queue's device is asked, if it has
    /// one: [`Device::with_allocator`](crate::Device::with_allocator).
    pub fn allocator(mut self, allocator: impl Allocator) -> Self {
        self.allocator = Some(Arc::new(Owner::in_any_process(allocator)));
        self
    }

    /// How many bytes of host memory a piece of a staged copy takes, of which two are used in turn.
    /// 4 MiB without this, and never less than 64 bytes or a [unit] of the device that it goes to.
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
