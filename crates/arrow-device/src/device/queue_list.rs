//! [`QueueList`]: queues, each once, that are found by their numbers.
//!
//! Memory is used on one queue, or on a few, which are compared one by one. Where there are more, a
//! tree says where each queue stands in the list, so that memory which is used on very many queues
//! does not take the square of their number.

use std::collections::BTreeMap;

use super::Queue;

/// Up to so many queues are compared one by one.
const FEW: usize = 16;

/// An entry of a [`QueueList`].
pub(crate) trait OfQueue {
    /// The queue that the entry is about.
    fn queue(&self) -> &Queue;
}

impl OfQueue for Queue {
    fn queue(&self) -> &Queue {
        self
    }
}

/// A list with at most one entry for each queue. All memory has a list, so a list takes no more
/// room than a vector.
#[derive(Clone)]
pub(crate) struct QueueList<T>(Entries<T>);

#[derive(Clone)]
enum Entries<T> {
    /// At most `FEW` entries, which are compared one by one.
    Few(Vec<T>),
    Many(Box<ManyEntries<T>>),
}

#[derive(Clone)]
struct ManyEntries<T> {
    entries: Vec<T>,
    /// Where each queue stands, by its number.
    places: BTreeMap<u64, usize>,
}

impl<T> QueueList<T> {
    pub(crate) const fn new() -> Self {
        Self(Entries::Few(Vec::new()))
    }

    /// An empty list with the capacity of this vector.
    pub(crate) fn with_room_of(mut room: Vec<T>) -> Self {
        room.clear();
        Self(Entries::Few(room))
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        match &self.0 {
            Entries::Few(entries) => entries,
            Entries::Many(many) => &many.entries,
        }
    }

    pub(crate) fn into_vec(self) -> Vec<T> {
        match self.0 {
            Entries::Few(entries) => entries,
            Entries::Many(many) => many.entries,
        }
    }
}

impl<T: OfQueue> QueueList<T> {
    /// A list of entries that are about different queues.
    fn of(entries: Vec<T>) -> Self {
        if entries.len() <= FEW { Self(Entries::Few(entries)) } else { Self::of_many(entries) }
    }

    #[cold]
    fn of_many(entries: Vec<T>) -> Self {
        let numbers = entries.iter().map(|entry| entry.queue().number());
        let places = numbers.zip(0..).collect();
        Self(Entries::Many(Box::new(ManyEntries { entries, places })))
    }

    pub(crate) fn has(&self, queue: &Queue) -> bool {
        let number = queue.number();
        match &self.0 {
            Entries::Few(entries) => entries.iter().any(|entry| entry.queue().number() == number),
            Entries::Many(many) => many.places.contains_key(&number),
        }
    }

    pub(crate) fn get_mut(&mut self, queue: &Queue) -> Option<&mut T> {
        let number = queue.number();
        match &mut self.0 {
            Entries::Few(entries) => {
                entries.iter_mut().find(|entry| entry.queue().number() == number)
            }
            Entries::Many(many) => many.entries.get_mut(*many.places.get(&number)?),
        }
    }

    /// Adds an entry, unless there is one for its queue.
    pub(crate) fn add(&mut self, entry: T) {
        if self.has(entry.queue()) {
            return;
        }
        match &mut self.0 {
            Entries::Few(entries) => {
                entries.push(entry);
                if entries.len() > FEW {
                    *self = Self::of_many(std::mem::take(entries));
                }
            }
            Entries::Many(many) => {
                many.places.insert(entry.queue().number(), many.entries.len());
                many.entries.push(entry);
            }
        }
    }

    pub(crate) fn retain(&mut self, is_kept: impl FnMut(&T) -> bool) {
        match &mut self.0 {
            Entries::Few(entries) => entries.retain(is_kept),
            Entries::Many(many) => {
                many.entries.retain(is_kept);
                *self = Self::of(std::mem::take(&mut many.entries));
            }
        }
    }

    /// Whether all entries are about this queue.
    pub(crate) fn is_of_one(&self, queue: &Queue) -> bool {
        self.as_slice().iter().all(|entry| entry.queue().number() == queue.number())
    }

    /// The entries about other queues.
    pub(crate) fn others(&self, queue: &Queue) -> impl Iterator<Item = &T> {
        let number = queue.number();
        self.as_slice().iter().filter(move |entry| entry.queue().number() != number)
    }
}

impl<T: OfQueue> FromIterator<T> for QueueList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        let mut list = Self::new();
        entries.into_iter().for_each(|entry| list.add(entry));
        list
    }
}

impl<T> Default for QueueList<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::Device;
    use crate::device::driver::Raw;

    /// An entry that counts how often somebody asks about its queue.
    struct CountedEntry<'a>(Queue, &'a Cell<usize>);

    impl OfQueue for CountedEntry<'_> {
        fn queue(&self) -> &Queue {
            self.1.set(self.1.get() + 1);
            &self.0
        }
    }

    fn queues(count: usize) -> Vec<Queue> {
        // SAFETY: nothing is submitted to it, and the host's driver looks at no handle.
        (0..count).map(|_| unsafe { Device::host().adopt_queue(Raw::NULL) }).collect()
    }

    // Requirement: SAF-25
    #[test]
    fn queues_are_found_without_a_look_at_all_others() {
        const MANY: usize = if cfg!(miri) { 100 } else { 10_000 };
        let (all, asked) = (queues(MANY), Cell::new(0));
        let mut list = QueueList::new();
        for queue in all.iter().chain(all.iter().rev()) {
            list.add(CountedEntry(queue.clone(), &asked));
            assert!(list.has(queue) && list.get_mut(queue).is_some_and(|one| one.0.is_same(queue)));
        }
        assert_eq!(list.as_slice().len(), MANY);
        let most = 10 * MANY + 4 * FEW * FEW;
        assert!(asked.get() <= most, "{} questions for {MANY} queues", asked.get());
    }

    #[test]
    fn a_list_has_the_size_of_a_vector() {
        assert_eq!(size_of::<QueueList<Queue>>(), size_of::<Vec<Queue>>());
    }

    #[test]
    fn what_is_left_is_found_where_it_stands() {
        for count in [0, 1, FEW, FEW + 1, 4 * FEW] {
            for every in [1, 2, 3 * FEW] {
                let all = queues(count);
                let mut list: QueueList<Queue> = all.iter().cloned().collect();
                let numbers: Vec<u64> = all.iter().step_by(every).map(Queue::number).collect();
                list.retain(|queue| numbers.contains(&queue.number()));
                for queue in &all {
                    let is_left = numbers.contains(&queue.number());
                    let found = list.get_mut(queue).map(|found| found.number());
                    assert_eq!(found, is_left.then_some(queue.number()), "{count}, {every}");
                    let others = list.others(queue).count();
                    assert_eq!(others, numbers.len() - usize::from(is_left));
                    assert_eq!(list.is_of_one(queue), others == 0);
                }
                let added = queues(2 * FEW);
                added.iter().for_each(|queue| list.add(queue.clone()));
                assert!(added.iter().all(|queue| list.has(queue)));
                assert_eq!(list.into_vec().len(), numbers.len() + 2 * FEW);
            }
        }
    }
}
