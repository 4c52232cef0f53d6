//! What validation found of a tree already.
//!
//! All slices of an array have one tree. All columns and batches that share a dictionary have its
//! tree below theirs. Data does not change, so what was valid once is not looked at again.
//! Otherwise, where many small batches of a stream share one large dictionary, the check of each
//! batch would take as long as a check of the dictionary.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::Array;
use crate::array::Window;

/// The array that an array is a share of, if that array is the root of its tree.
pub(super) struct SharedRoot(Option<Array>);

impl SharedRoot {
    pub(super) fn of(array: &Array) -> Self {
        Self(Some(array.clone().at_its_source()).filter(|source| source.node_number() == 0))
    }

    fn is_whole(&self) -> bool {
        self.0.as_ref().is_some_and(|root| root.window() == root.tree().node(0).window)
    }

    /// Whether the elements of the array, and all nodes below it, were found valid.
    pub(super) fn is_valid(&self) -> bool {
        self.is_whole() && self.0.as_ref().is_some_and(|root| root.tree().known_valid.is_all())
    }

    /// Whether the nodes below the array were found valid.
    pub(super) fn is_valid_below(&self) -> bool {
        self.0.as_ref().is_some_and(|root| root.tree().known_valid.is_below())
    }

    /// Notes that the array and all nodes below it were found valid.
    pub(super) fn note(&self) {
        match &self.0 {
            Some(root) if self.is_whole() => root.tree().known_valid.note_all(),
            Some(root) => root.tree().known_valid.note_below(),
            None => {}
        }
    }
}

/// The dictionaries that a check came to, by the addresses of their trees, each with the window
/// that the check came to first.
#[derive(Default)]
pub(super) struct Dictionaries(HashMap<usize, (Window, SharedRoot)>);

impl Dictionaries {
    /// Whether a dictionary is to be checked: neither was it found valid, nor did this check come
    /// to it before.
    pub(super) fn is_new(&mut self, values: &Array) -> bool {
        let root = SharedRoot::of(values);
        let Some(source) = &root.0 else { return true };
        let address = std::ptr::from_ref(&**source.tree()).addr();
        let window = source.window();
        match self.0.entry(address) {
            Entry::Occupied(first) => first.get().0 != window,
            Entry::Vacant(_) if root.is_valid() => false,
            Entry::Vacant(place) => {
                place.insert((window, root));
                true
            }
        }
    }

    /// Notes that all of them were found valid.
    pub(super) fn note(&self) {
        self.0.values().for_each(|(_, root)| root.note());
    }
}
