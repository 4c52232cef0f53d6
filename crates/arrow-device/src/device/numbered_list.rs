//! [`NumberedList`]: entries that are found by their numbers, each number once.
//!
//! Memory and arrays are used on one queue, or on a few, which are compared one by one. Where there
//! are more, a tree says where each entry stands in the list, so that what is used on very many
//! queues does not take the square of their number.
//!
//! Nothing here knows what an entry is. The same source is compiled into the model of deferred
//! releases, as `deferred/timeline.rs` is.

use std::collections::BTreeMap;

/// Up to so many entries are compared one by one.
const FEW: usize = 16;

/// An entry of a [`NumberedList`].
pub(crate) trait NumberedEntry {
    /// By what the entry is found, such as the number of the queue that the entry is about.
    fn number(&self) -> u64;
}

/// A list with at most one entry of each number. All memory has a list, so a list takes no more
/// room than a vector.
#[derive(Clone)]
pub(crate) struct NumberedList<T>(Entries<T>);

#[derive(Clone)]
enum Entries<T> {
    /// At most `FEW` entries, which are compared one by one.
    Few(Vec<T>),
    Many(Box<ManyEntries<T>>),
}

#[derive(Clone)]
struct ManyEntries<T> {
    entries: Vec<T>,
    /// Where the entry of each number stands.
    places: BTreeMap<u64, usize>,
}

impl<T> NumberedList<T> {
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

impl<T: NumberedEntry> NumberedList<T> {
    /// A list of entries with different numbers.
    pub(crate) fn of(entries: Vec<T>) -> Self {
        if entries.len() <= FEW { Self(Entries::Few(entries)) } else { Self::of_many(entries) }
    }

    #[cold]
    fn of_many(entries: Vec<T>) -> Self {
        let places = entries.iter().map(NumberedEntry::number).zip(0..).collect();
        Self(Entries::Many(Box::new(ManyEntries { entries, places })))
    }

    pub(crate) fn has(&self, number: u64) -> bool {
        match &self.0 {
            Entries::Few(entries) => entries.iter().any(|entry| entry.number() == number),
            Entries::Many(many) => many.places.contains_key(&number),
        }
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        match &mut self.0 {
            Entries::Few(entries) => entries.iter_mut().find(|entry| entry.number() == number),
            Entries::Many(many) => many.entries.get_mut(*many.places.get(&number)?),
        }
    }

    /// Adds an entry, unless there is one of its number.
    pub(crate) fn add(&mut self, entry: T) {
        if !self.has(entry.number()) {
            self.add_new(entry);
        }
    }

    /// Adds an entry whose number no other entry has.
    pub(crate) fn add_new(&mut self, entry: T) {
        match &mut self.0 {
            Entries::Few(entries) => {
                entries.push(entry);
                if entries.len() > FEW {
                    *self = Self::of_many(std::mem::take(entries));
                }
            }
            Entries::Many(many) => {
                many.places.insert(entry.number(), many.entries.len());
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

    /// Whether all entries have this number.
    pub(crate) fn is_of_one(&self, number: u64) -> bool {
        self.as_slice().iter().all(|entry| entry.number() == number)
    }

    /// The entries of other numbers.
    pub(crate) fn others(&self, number: u64) -> impl Iterator<Item = &T> {
        self.as_slice().iter().filter(move |entry| entry.number() != number)
    }
}

impl<T: NumberedEntry> FromIterator<T> for NumberedList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        let mut list = Self::new();
        entries.into_iter().for_each(|entry| list.add(entry));
        list
    }
}

impl<T> Default for NumberedList<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// An entry that counts how often somebody asks for its number.
    struct CountedEntry<'a>(u64, &'a Cell<usize>);

    impl NumberedEntry for CountedEntry<'_> {
        fn number(&self) -> u64 {
            self.1.set(self.1.get() + 1);
            self.0
        }
    }

    impl NumberedEntry for u64 {
        fn number(&self) -> u64 {
            *self
        }
    }

    // Requirement: SAF-25
    #[test]
    fn entries_are_found_without_a_look_at_all_others() {
        const MANY: usize = if cfg!(miri) { 100 } else { 10_000 };
        let asked = Cell::new(0);
        let mut list = NumberedList::new();
        let all = 0..MANY as u64;
        for number in all.clone().chain(all.rev()) {
            list.add(CountedEntry(number, &asked));
            assert!(list.has(number) && list.get_mut(number).is_some_and(|one| one.0 == number));
        }
        assert_eq!(list.as_slice().len(), MANY);
        let most = 10 * MANY + 4 * FEW * FEW;
        assert!(asked.get() <= most, "{} questions for {MANY} entries", asked.get());
    }

    #[test]
    fn a_list_has_the_size_of_a_vector() {
        assert_eq!(size_of::<NumberedList<u64>>(), size_of::<Vec<u64>>());
    }

    #[test]
    fn what_is_left_is_found_where_it_stands() {
        for count in [0, 1, FEW, FEW + 1, 4 * FEW] {
            for every in [1, 2, 3 * FEW] {
                let all: Vec<u64> = (100..).take(count).collect();
                let mut list: NumberedList<u64> = all.iter().copied().collect();
                let kept: Vec<u64> = all.iter().copied().step_by(every).collect();
                list.retain(|number| kept.contains(number));
                for &number in &all {
                    let is_left = kept.contains(&number);
                    assert_eq!(list.get_mut(number).copied(), is_left.then_some(number));
                    let others = list.others(number).count();
                    assert_eq!(others, kept.len() - usize::from(is_left), "{count}, {every}");
                    assert_eq!(list.is_of_one(number), others == 0);
                }
                let added = 0..2 * FEW as u64;
                added.clone().for_each(|number| list.add(number));
                assert!(added.clone().all(|number| list.has(number)));
                assert_eq!(list.into_vec().len(), kept.len() + 2 * FEW);
            }
        }
    }
}
