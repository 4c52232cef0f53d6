//! Elements whose values lie elsewhere: those of dictionaries, unions and runs.

use super::rows::{Rows, past_the_end};
use crate::{DataType, HostArray, Result, UnionMode};

impl HostArray {
    /// The place of an element's value: the array, and the number in that array. `None` where the
    /// element is null.
    ///
    /// The value of a dictionary-encoded element is in the dictionary, that of a union in the array
    /// of a field, and that of a run among the values of the runs. For any other type the result is
    /// the element itself. The element that is found may be null, or have to be followed in turn. A
    /// key, a type id or an offset that leads nowhere, and run ends around the element that are not
    /// in order, are [`InvalidData`](crate::ErrorKind::InvalidData).
    ///
    /// ```
    /// # use arrow_device::{Array, DataType, IndexType};
    /// let values = Array::from_texts(DataType::Utf8, [Some("low"), Some("high")])?;
    /// let levels = Array::from_keys(
    ///     DataType::dictionary(IndexType::Int8, DataType::Utf8),
    ///     [Some(1), None],
    ///     values,
    /// )?;
    /// let (values, number) = levels.host()?.follow(0)?.unwrap();
    /// assert_eq!((values.texts()?.get(number), number), (Some("high"), 1));
    /// assert!(levels.host()?.follow(1)?.is_none());
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn follow(&self, index: usize) -> Result<Option<(Self, usize)>> {
        if index >= self.len() {
            return Err(past_the_end(self, index));
        }
        match self.data_type() {
            DataType::Dictionary { index: key_type, .. } => {
                self.follow_key(key_type.data_type(), index)
            }
            DataType::Union { mode, type_ids, .. } => {
                self.follow_variant(*mode, type_ids, index).map(Some)
            }
            DataType::RunEndEncoded { .. } => {
                self.run_at(index).map(|(values, run, _)| Some((values, run)))
            }
            _ => Ok(Rows::of(self)?.is_present(index).then(|| (self.clone(), index))),
        }
    }

    /// Whether an element is null. A dictionary-encoded element is null if its key or its value is.
    /// An element of a union or a run is null if its value is.
    pub fn is_null(&self, index: usize) -> Result<bool> {
        match self.follow(index)? {
            None => Ok(true),
            Some((values, number)) if is_followed(self.data_type()) => values.is_null(number),
            Some(_) => Ok(false),
        }
    }

    /// The number of the field of a union that an element is of.
    pub(super) fn variant(&self, type_ids: &[i8], index: usize) -> Result<usize> {
        let ids = self.buffer(0)?;
        let id = ids.get(self.array().offset() + index).map(|id| id.cast_signed());
        let Some(id) = id else { return Err(self.invalid("the type ids end too early".into())) };
        type_ids
            .iter()
            .position(|known| *known == id)
            .ok_or_else(|| self.invalid(format!("element {index}: no field has the type id {id}")))
    }

    fn follow_variant(
        &self,
        mode: UnionMode,
        type_ids: &[i8],
        index: usize,
    ) -> Result<(Self, usize)> {
        let field = self.node_child(self.variant(type_ids, index)?)?;
        let element = self.array().offset() + index;
        let position = match mode {
            UnionMode::Sparse => element as i64,
            UnionMode::Dense => {
                let offset = crate::array::read_i32(&self.buffer(1)?, element);
                offset.map_or(-1, i64::from)
            }
        };
        match usize::try_from(position) {
            Ok(number) if number < field.len() => Ok((field, number)),
            _ => Err(self.invalid(format!(
                "element {index} is number {position} of a field that has {}",
                field.len()
            ))),
        }
    }

    fn follow_key(&self, key_type: &DataType, index: usize) -> Result<Option<(Self, usize)>> {
        let key = self.integer(key_type, index)?;
        let (Some(key), Some(values)) = (key, self.node_dictionary()) else { return Ok(None) };
        match usize::try_from(key) {
            Ok(number) if number < values.len() => Ok(Some((values, number))),
            _ => Err(self.invalid(format!(
                "element {index}: key {key} is not among {} values",
                values.len()
            ))),
        }
    }

    /// The values of all runs, the number of the run of an element, and the number of elements from
    /// this one to the end of the run.
    pub(super) fn run_at(&self, index: usize) -> Result<(Self, usize, usize)> {
        let ends = self.node_child(0)?;
        let values = self.node_child(1)?;
        let end_type = ends.data_type();
        let end_of = |run: usize| -> Result<i128> {
            let end = ends.integer(end_type, run)?;
            end.ok_or_else(|| ends.invalid(format!("run end {run} is null")))
        };
        let element = (self.array().offset() + index) as i128;
        // Searches for a run that ends behind the element, after a run that does not.
        let (mut from, mut to) = (0, ends.len());
        while from < to {
            let middle = from.midpoint(to);
            if end_of(middle)? > element { to = middle } else { from = middle + 1 }
        }
        if from >= ends.len().min(values.len()) {
            return Err(self.invalid(format!("no run reaches element {index}")));
        }
        let before = if from == 0 { 0 } else { end_of(from - 1)? };
        let end = end_of(from)?;
        let is_last = from + 1 == ends.len();
        // Each run has at least one element, so the number of runs before is at most the number of
        // elements before.
        let is_in_order = before >= from as i128 && (is_last || end < end_of(from + 1)?);
        if !is_in_order {
            return Err(ends.invalid(format!("run ends are not in order around run {from}")));
        }
        Ok((values, from, usize::try_from(end - element).unwrap_or(usize::MAX)))
    }

    /// The value of an element of an integer type. All integer types fit into the result.
    pub(super) fn integer(&self, data_type: &DataType, index: usize) -> Result<Option<i128>> {
        Ok(match data_type {
            DataType::Int8 => self.values::<i8>()?.get(index).map(i128::from),
            DataType::Int16 => self.values::<i16>()?.get(index).map(i128::from),
            DataType::Int32 => self.values::<i32>()?.get(index).map(i128::from),
            DataType::Int64 => self.values::<i64>()?.get(index).map(i128::from),
            DataType::UInt8 => self.values::<u8>()?.get(index).map(i128::from),
            DataType::UInt16 => self.values::<u16>()?.get(index).map(i128::from),
            DataType::UInt32 => self.values::<u32>()?.get(index).map(i128::from),
            _ => self.values::<u64>()?.get(index).map(i128::from),
        })
    }
}

/// Whether the values of elements of this type lie elsewhere.
pub(super) fn is_followed(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Dictionary { .. } | DataType::Union { .. } | DataType::RunEndEncoded { .. }
    )
}
