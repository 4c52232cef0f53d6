//! Level 3: the data in the buffers.
//!
//! Visits one node at a time. The checks of each type are in `bitmap`, `bytes`, `lists` and
//! `references`. Each checks one node, and reads nothing of its children but their lengths and
//! bitmaps; the check of run ends also reads the run ends, which are a child. No value is used
//! before it was checked.
//!
//! Why this is fast: offsets and keys are first compared in one plain loop, without a look at the
//! bitmap, and text behind offsets is first checked as a whole. Only where that finds something, a
//! second loop asks which elements are null, and finds the words of the error.

use super::known::{Dictionaries, SharedRoot};
use super::{bitmap, bytes, errors, lists, references};
use crate::copy::Options;
use crate::{Array, DataType, Error, HostArray, Queue, Result, UnionMode};

impl Array {
    /// Checks all data of this array and of everything below it, in place. Waits until the data is
    /// ready.
    ///
    /// After a success, reading elements within the array's length stays inside the buffers, and
    /// text is UTF-8. [`validate`](crate::validate) says what is required of each type. The checks
    /// of [`validate_layout`](Self::validate_layout) are included. The cost is one pass over
    /// offsets, keys, views and text, at most three over text that views share, for each column and
    /// dictionary. Numbers cost nothing.
    ///
    /// What was found valid is not checked again: a dictionary that several columns or batches were
    /// built with, and all that lies below an array of which further slices are checked.
    ///
    /// ```
    /// use arrow_device::{Array, DataType, ErrorKind};
    ///
    /// let offsets = vec![0_i32, 2, 1];
    /// let words = Array::builder(DataType::Utf8).len(2).buffers([
    ///     None,
    ///     Some(offsets.into()),
    ///     Some(vec![b'a'; 2].into()),
    /// ]);
    /// let error = words.finish_ready()?.validate().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "validate on cpu: invalid data: root: element 1: offset 1 is before 2"
    /// );
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// * [`InvalidData`](crate::ErrorKind::InvalidData): the data is wrong. The error names the
    ///   place.
    /// * The errors of [`host`](Self::host), where the host cannot read the memory. Use
    ///   [`validate_on`](Self::validate_on) there.
    pub fn validate(&self) -> Result<()> {
        self.validate_layout()?;
        let host = self.host()?;
        let root = SharedRoot::of(self);
        if root.is_valid() {
            return Ok(());
        }
        let mut dictionaries = Dictionaries::default();
        let nodes = if root.is_valid_below() {
            vec![self.clone()]
        } else {
            self.nodes_below_but(|values| !dictionaries.is_new(values))?
        };
        nodes.into_iter().try_for_each(|array| {
            let node = host.of(array);
            check(&node).map_err(|error| {
                let place = errors::place(self, node.array());
                error.during("validate").at(place).on_device(self.device())
            })
        })?;
        root.note();
        dictionaries.note();
        Ok(())
    }

    /// [`validate`](Self::validate) for memory that the host cannot read: copies all of it to the
    /// host first, as [`to_host`](Self::to_host) does and at its cost, in the order of this queue.
    pub fn validate_on(&self, queue: &Queue) -> Result<()> {
        self.validate_layout()?;
        let on_this_device = |error: Error| error.during("validate").on_device(self.device());
        let options = Options::new().through(queue).trim(false);
        self.copy_with(&Queue::host(), &options)
            .and_then(|copy| copy.validate())
            .map_err(on_this_device)
    }
}

fn check(node: &HostArray) -> Result<()> {
    #[cfg(test)]
    CHECKED.set(CHECKED.get() + 1);
    if node.array().is_empty()
        && !matches!(node.array().data_type(), DataType::RunEndEncoded { .. })
    {
        return Ok(());
    }
    bitmap::check_null_count(node)?;
    match node.array().data_type() {
        DataType::Binary | DataType::LargeBinary | DataType::Utf8 | DataType::LargeUtf8 => {
            bytes::check_offsets(node)
        }
        DataType::BinaryView | DataType::Utf8View => bytes::check_views(node),
        DataType::List(_) | DataType::LargeList(_) => lists::check_offsets(node),
        DataType::Map { .. } => lists::check_map(node),
        DataType::ListView(_) => {
            lists::check_list_views(node, |bytes| i32::from_ne_bytes(bytes).into())
        }
        DataType::LargeListView(_) => lists::check_list_views(node, i64::from_ne_bytes),
        DataType::Dictionary { index, .. } => references::check_keys(node, *index),
        DataType::Union { mode, type_ids, .. } => {
            references::check_union(node, type_ids, *mode == UnionMode::Dense)
        }
        DataType::RunEndEncoded { run_ends, .. } => {
            references::check_run_ends(node, run_ends.data_type())
        }
        // Every pattern of bits is a value, and the check of the layout covers the children.
        _ => Ok(()),
    }
}

#[cfg(test)]
thread_local! {
    /// How many nodes this thread has checked.
    static CHECKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, ErrorKind, Field, IndexType};

    /// How many nodes a check looks at.
    fn checked(array: &Array) -> usize {
        let before = CHECKED.get();
        array.validate().unwrap();
        CHECKED.get() - before
    }

    fn words(last_offset: i32) -> Array {
        let offsets = vec![0, 1, last_offset];
        let bytes = vec![b'a'; 4];
        let words = Array::builder(DataType::Utf8).len(2).buffers([
            None,
            Some(offsets.into()),
            Some(bytes.into()),
        ]);
        words.finish_ready().unwrap()
    }

    fn of_words(words: &Array) -> Array {
        let values = Field::new("", DataType::Utf8, true).into();
        let dictionary = DataType::Dictionary { index: IndexType::Int8, values, ordered: false };
        let keys = Array::builder(dictionary).len(2).buffers([None, Some(vec![0_i8, 0].into())]);
        keys.dictionary(words.clone()).finish_ready().unwrap()
    }

    fn batch(columns: impl IntoIterator<Item = Array>) -> Array {
        let named = columns.into_iter().map(|column| ("w", column));
        Batch::from_columns(named).unwrap().into()
    }

    // Requirement: SAF-38
    #[test]
    fn a_dictionary_is_checked_once_for_all_columns_and_batches_that_share_it() {
        let words = words(2);
        let wide = batch((0..10).map(|_| of_words(&words)));
        assert_eq!(checked(&wide), 1 + 10 + 1);
        assert_eq!(checked(&batch([of_words(&words)])), 1 + 1, "another batch");
        assert_eq!(checked(&batch([of_words(&words.slice(1, 1).unwrap())])), 1 + 1 + 1, "a part");
        assert_eq!(checked(&wide), 0, "the same batch");
        assert_eq!(checked(&words), 0);
    }

    // Requirement: SAF-38
    #[test]
    fn what_is_below_an_array_is_checked_once_for_all_its_slices() {
        let batch = batch([words(2), of_words(&words(2))]);
        assert_eq!(checked(&batch.slice(0, 1).unwrap()), 1 + 2 + 1);
        assert_eq!(checked(&batch.slice(1, 1).unwrap()), 1);
        assert_eq!(checked(&batch), 1);
        assert_eq!((checked(&batch), checked(&batch.slice(1, 1).unwrap())), (0, 1));
        // The keys of a column have a tree of their own, of which nothing was noted.
        assert_eq!(checked(&batch.child(1).unwrap()), 1);
    }

    #[test]
    fn what_is_wrong_is_found_as_often_as_it_is_looked_for() {
        let wrong = words(0);
        let right = wrong.slice(0, 1).unwrap();
        for _ in 0..2 {
            let error = batch([of_words(&right), of_words(&wrong)]).validate().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData);
            assert_eq!(error.place().unwrap().to_string(), "root.child[1].dictionary");
            assert!(right.validate().is_ok() && wrong.validate().is_err());
        }
    }
}
