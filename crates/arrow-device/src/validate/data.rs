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
    /// dictionary, however often one occurs. Numbers cost nothing.
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
        self.nodes_below()?.into_iter().try_for_each(|array| {
            let place = errors::place(self, &array);
            check(&host.of(array))
                .map_err(|error| error.during("validate").at(place).on_device(self.device()))
        })
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
