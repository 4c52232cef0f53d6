//! [`MemoryOnReturn`]: memory that was allocated and not used, on its way back to its allocator.

use std::sync::{Arc, Weak};

use super::{Device, Memory, Queue};

/// Memory that was allocated for a queue, and whose place nobody was told. The memory may have come
/// into being in the order of the queue, so it goes back when the queue has passed the allocation.
pub(crate) struct MemoryOnReturn(Weak<()>);

/// The blocks on their way back.
struct ReturningBlocks {
    blocks: Vec<Memory>,
    device: Device,
    _is_there: Arc<()>,
}

impl MemoryOnReturn {
    /// Gives back these blocks, which were allocated for this queue. `None` where they are back
    /// already.
    pub(crate) fn new(queue: &Queue, blocks: Vec<Memory>) -> Option<Self> {
        let (mut blocks, back): (Vec<_>, Vec<_>) =
            blocks.into_iter().partition(Memory::is_used_on_a_queue);
        drop(back);
        if blocks.is_empty() {
            return None;
        }
        // The queue is waited for below, once for all of the blocks.
        blocks.iter_mut().for_each(Memory::forget_queues);
        let device = queue.device().clone();
        device.account().goes_back();
        let is_there = Arc::new(());
        let given_back = Self(Arc::downgrade(&is_there));
        queue.keep_until_done(ReturningBlocks { blocks, device, _is_there: is_there });
        Some(given_back)
    }

    /// Whether the memory is not back yet.
    pub(crate) fn is_on_its_way(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl Drop for ReturningBlocks {
    fn drop(&mut self) {
        self.blocks.clear();
        self.device.account().is_back();
    }
}
