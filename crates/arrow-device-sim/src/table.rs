//! Lists whose entries are never removed, so a number that was given out stays valid.

use std::ops::{Index, IndexMut};

/// An append-only list. Its numbers are given out by [`push`](Self::push) and used with the same
/// table only, so looking one up cannot fail.
#[derive(Debug)]
pub(crate) struct Table<T>(Vec<T>);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Table<T> {
    /// Adds an entry and returns its number.
    pub(crate) fn push(&mut self, entry: T) -> usize {
        self.0.push(entry);
        self.0.len() - 1
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.0.iter_mut()
    }

    /// Returns two entries at once, to change one by means of the other.
    pub(crate) fn pair(&mut self, one: usize, other: usize) -> Option<(&mut T, &mut T)> {
        let [one, other] = self.0.get_disjoint_mut([one, other]).ok()?;
        Some((one, other))
    }
}

#[expect(clippy::indexing_slicing, reason = "numbers come from `push`, and nothing is removed")]
impl<T> Index<usize> for Table<T> {
    type Output = T;

    fn index(&self, number: usize) -> &T {
        &self.0[number]
    }
}

#[expect(clippy::indexing_slicing, reason = "numbers come from `push`, and nothing is removed")]
impl<T> IndexMut<usize> for Table<T> {
    fn index_mut(&mut self, number: usize) -> &mut T {
        &mut self.0[number]
    }
}
