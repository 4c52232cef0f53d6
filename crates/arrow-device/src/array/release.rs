//! The release of a tree: at once where no queue uses its data, and otherwise after the last use on
//! each queue.

use std::mem::ManuallyDrop;

use super::readiness::{Pending, ReadyWhen};
use super::tree::{Storage, Tree};
use crate::device::deferred::{self, Use};
use crate::sync::lock;

impl Tree {
    /// Whether no queue was ever told where the data is.
    pub(crate) fn is_unused(&self) -> bool {
        self.notes.get().is_none_or(|notes| lock(&notes.uses).is_empty())
    }

    /// Notes a use, in place of the last one on the same queue.
    pub(crate) fn note_use(&self, used: Use) {
        let mut uses = lock(&self.notes().uses);
        let earlier = match uses.iter_mut().find(|known| known.queue() == used.queue()) {
            Some(known) => Some(std::mem::replace(known, used)),
            None => {
                uses.push(used);
                None
            }
        };
        drop(uses);
        // Its event is destroyed without the lock.
        drop(earlier);
    }
}

impl Drop for Tree {
    #[inline]
    fn drop(&mut self) {
        if self.is_of_the_parents_device() {
            // Forgotten: the release is the business of the process that made it.
            deferred::count_leaked();
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
        let mut uses =
            notes.as_ref().map_or_else(Vec::new, |notes| std::mem::take(&mut *lock(&notes.uses)));
        let counted = notes.as_ref().and_then(|notes| lock(&notes.counted).take());
        drop(notes);
        if matches!(*self.storage, Storage::Built(_)) {
            // The work that makes the data may still run. (For an array that was imported this is
            // the producer's to know.)
            uses.extend(
                self.ready.pending().iter().filter_map(Pending::event).cloned().map(Use::before),
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
            deferred::defer((storage, counted), uses);
        }
    }
}
