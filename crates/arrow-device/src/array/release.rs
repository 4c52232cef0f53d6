//! The release of a tree: at once where no queue uses its data, and otherwise after the last use on
//! each queue.

use std::mem::ManuallyDrop;

use super::readiness::{Pending, ReadyWhen};
use super::tree::{Storage, Tree};
use crate::DeviceType;
use crate::device::deferred::{self, LastQueueUses, QueueUse};
use crate::sync::lock;

impl Tree {
    /// Whether no queue was ever told where the data is.
    pub(crate) fn is_unused(&self) -> bool {
        self.notes.get().is_none_or(|notes| lock(&notes.uses).is_empty())
    }

    /// Notes a use, unless one is known on the same queue that ends later.
    pub(crate) fn note_use(&self, used: QueueUse) {
        let not_needed = lock(&self.notes().uses).note(used);
        // Its event is destroyed without the lock.
        drop(not_needed);
    }
}

impl Drop for Tree {
    #[inline]
    fn drop(&mut self) {
        if self.is_of_the_parents_device() {
            // Forgotten: the release is the business of the process that made it.
            deferred::count_abandoned();
            return;
        }
        let is_plain =
            matches!((&self.ready, &*self.storage), (ReadyWhen::Now, _) | (_, Storage::Foreign(_)));
        if is_plain && self.notes.get().is_none() {
            // SAFETY: dropped once, here, and `self` is being dropped.
            unsafe { ManuallyDrop::drop(&mut self.storage) }
            deferred::tick();
        } else {
            self.drop_after_its_uses();
        }
    }
}

impl Tree {
    /// Drops what may still be in use.
    #[inline(never)]
    fn drop_after_its_uses(&mut self) {
        let notes = self.notes.take();
        let last_uses = notes.as_ref().map(|notes| std::mem::take(&mut *lock(&notes.uses)));
        let mut uses = last_uses.map_or_else(Vec::new, LastQueueUses::into_uses);
        let counted = notes.as_ref().and_then(|notes| lock(&notes.counted).take());
        drop(notes);
        if matches!(*self.storage, Storage::Built(_)) {
            // The work that makes the data may still run. (For an array that was imported this is
            // the producer's to know.)
            uses.extend(
                self.ready
                    .pending()
                    .iter()
                    .filter_map(Pending::event)
                    .cloned()
                    .map(QueueUse::before),
            );
        }
        // SAFETY: taken once, here, by the drop of `self`.
        let storage = unsafe { ManuallyDrop::take(&mut self.storage) };
        if uses.is_empty() {
            drop(storage);
            // Counted until the release, which is over.
            drop(counted);
            deferred::tick();
        } else {
            // Counted until the release, which is later.
            let frees_host_memory = self.device.device_type == DeviceType::CPU;
            deferred::defer((storage, counted), uses, frees_host_memory);
        }
    }
}
