//! The release of a tree: at once where no queue uses its data, and otherwise after the last use on
//! each queue.

use std::mem::ManuallyDrop;
use std::sync::MutexGuard;

use super::readiness::{Pending, ReadyWhen};
use super::tree::{Storage, Tree};
use crate::DeviceType;
use crate::device::deferred::{self, LastQueueUses, OfDrivers, Question, QueueUse};
use crate::device::nesting;
use crate::device::watch::WatchedRelease;
use crate::trace::told;

impl Tree {
    /// Whether no queue was ever told where the data is.
    pub(crate) fn is_unused(&self) -> bool {
        // A lock that a thread of the parent had at a fork may stand for a use.
        let is_empty = |uses: MutexGuard<'_, LastQueueUses>| uses.is_empty();
        self.records
            .all()
            .all(|records| records.lock(|records| &records.uses).is_some_and(is_empty))
    }

    /// Notes a use, unless one is known on the same queue that ends later.
    pub(crate) fn note_use(&self, used: QueueUse) {
        let (not_needed, questions) = {
            let mut uses = self.records.lock(|records| &records.uses);
            (uses.note(used), uses.questions())
        };
        // The event of a use that is not kept is destroyed after the lock was given back.
        drop(not_needed);
        if let Some(questions) = questions {
            self.forget_ended_uses(questions);
        }
    }

    /// Asks about each of the questions, and forgets the uses that have ended. An array may live
    /// long, and be used on very many queues.
    #[cold]
    fn forget_ended_uses(&self, questions: Vec<Question<OfDrivers>>) {
        for (timeline, point, end) in &questions {
            timeline.ask(*point, end);
        }
        let ended = self.records.lock(|records| &records.uses).take_ended();
        // Events are destroyed and queues closed after the lock was given back.
        drop((questions, ended));
    }
}

impl Drop for Tree {
    #[inline]
    fn drop(&mut self) {
        if self.is_of_the_parents_device() {
            // Not released: the release is the business of the process that made the tree.
            deferred::count_abandoned();
            return;
        }
        let is_plain =
            matches!((&self.ready, &*self.storage), (ReadyWhen::Now, _) | (_, Storage::Foreign(_)));
        if is_plain && self.records.is_empty() {
            told!(device = %self.device, "release");
            // SAFETY: dropped once, here, and `self` is being dropped.
            unsafe { nesting::drop_bounded(&mut self.storage) }
            deferred::tick();
        } else {
            self.drop_after_its_uses();
        }
    }
}

impl Tree {
    /// Drops the storage of a tree whose data may still be in use, after the uses.
    #[inline(never)]
    fn drop_after_its_uses(&mut self) {
        let (mut uses, mut counted, mut watched) = (Vec::new(), None, Vec::new());
        for records in self.records.all() {
            let Some(mut last_uses) = records.lock(|records| &records.uses) else {
                // This is a child of `fork`, and a thread of the parent had the lock. Which queues
                // use the data cannot be known: nothing is released.
                deferred::count_abandoned();
                return;
            };
            let last_uses = std::mem::take(&mut *last_uses);
            uses.extend(last_uses.into_uses());
            counted = counted.or_else(|| records.lock(|records| &records.counted)?.take());
            if let Some(mut known) = records.lock(|records| &records.watched) {
                watched.append(&mut known);
            }
        }
        if matches!(*self.storage, Storage::Built(_)) {
            // The work that makes the data may still run, and counts as a use. (Of an imported
            // array the producer knows about that work.)
            uses.extend(
                self.ready
                    .pending()
                    .iter()
                    .filter_map(Pending::event)
                    .cloned()
                    .map(QueueUse::before),
            );
        }
        watched.iter().for_each(WatchedRelease::is_dropped);
        // SAFETY: taken once, here, by the drop of `self`.
        let storage = unsafe { ManuallyDrop::take(&mut self.storage) };
        if uses.is_empty() {
            told!(device = %self.device, "release");
            // The bytes stay counted until the release.
            let mut both = ManuallyDrop::new((watched, storage, counted));
            // SAFETY: dropped once, here.
            unsafe { nesting::drop_bounded(&mut both) }
            deferred::tick();
        } else {
            told!(device = %self.device, uses = uses.len(), "deferred release");
            // The bytes stay counted until the release, which comes later.
            let frees_host_memory = self.device.device_type == DeviceType::CPU;
            deferred::defer((watched, storage, counted), uses, frees_host_memory);
        }
    }
}

#[cfg(all(test, unix, not(miri)))]
mod tests {
    use std::sync::{Arc, mpsc};

    use arrow_device_testkit::process::{alone, forked};

    use crate::{Array, Buffer, DataType, Device, Queue, deferred::held_back};

    // Requirement: SAF-27, SAF-28
    #[test]
    fn a_child_uses_and_keeps_an_array_whose_uses_a_thread_of_the_parent_had_locked() {
        alone(|| {
            let owner = Arc::new(());
            let values: &'static [i64; 4] = &[1, 2, 3, 4];
            let (id, address) = (Device::host().id(), values.as_ptr().cast());
            // SAFETY: the values stay for ever.
            let buffer = unsafe { Buffer::foreign(id, address, 32, owner.clone()) };
            let array = Array::builder(DataType::Int64).len(4);
            let array = array.buffers([None, Some(buffer)]).finish_ready().unwrap();
            drop(array.on(&Queue::host()).unwrap());
            let (locked, wait) = mpsc::channel();
            let (end, ended) = mpsc::channel::<()>();
            let of_thread = array.clone();
            let holder = std::thread::spawn(move || {
                let records = &of_thread.tree().records;
                let uses = records.lock(|records| &records.uses);
                let waited = records.lock(|records| &records.waited);
                let counted = records.lock(|records| &records.counted);
                let as_owner = records.lock(|records| &records.as_owner);
                locked.send(()).unwrap();
                let _ = ended.recv();
                drop((uses, waited, counted, as_owner));
            });
            wait.recv().unwrap();
            forked(|| {
                let tree = array.tree();
                drop(array.on(&Queue::host()).unwrap());
                if tree.is_unused() {
                    return Err("what cannot be known counts as no use".into());
                }
                drop(super::Tree::owner(tree));
                // SAFETY: the share is the one of the thread, which this process does not have.
                drop(unsafe { std::ptr::read(&raw const array) });
                drop(array);
                match (Arc::strong_count(&owner), held_back().abandoned) {
                    (2, 1) => Ok(()),
                    other => Err(format!("owners and what was abandoned: {other:?}")),
                }
            });
            drop(end);
            holder.join().unwrap();
        });
    }
}
