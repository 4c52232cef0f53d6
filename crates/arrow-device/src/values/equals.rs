//! Whether two arrays hold the same values.

use super::follow::is_followed;
use super::lists::Lists;
use crate::{Array, DataType, HostArray, Result};

impl Array {
    /// Whether two arrays are of the same type and hold the same values, wherever and however they
    /// lie.
    ///
    /// Offsets, what lies below a null, the order of a dictionary's values, and where runs and list
    /// views are cut make no difference. Floats are the same where their bits are. Metadata is not
    /// looked at. Waits for both, and reads them on the host, as [`host`](Self::host) does.
    ///
    /// ```
    /// # use arrow_device::{Array, DataType};
    /// let one = Array::from_values(DataType::Int32, [Some(1), None, Some(3)])?;
    /// let other = Array::from_values(DataType::Int32, [None, Some(3)])?;
    /// assert!(one.slice(1, 2)?.equals(&other)?);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn equals(&self, other: &Self) -> Result<bool> {
        if self.len() != other.len()
            || !self.data_type().equals_ignoring_metadata(other.data_type())
        {
            return Ok(false);
        }
        let (one, other) = (self.host()?, other.host()?);
        if have_no_width(&one)? && have_no_width(&other)? {
            return Ok(true);
        }
        for index in 0..one.len() {
            if !are_equal((&one, index), (&other, index))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether the elements of an array have nothing in which two of them could differ: they take no
/// byte, and nobody says of one that it is null. There may be more of them than any loop reaches.
fn have_no_width(host: &HostArray) -> Result<bool> {
    match host.data_type() {
        DataType::Null => Ok(true),
        _ if !host.array().node().buffer(0).is_null() => Ok(false),
        DataType::FixedSizeBinary(0) | DataType::FixedSizeList(_, 0) => Ok(true),
        DataType::FixedSizeList(..) => have_no_width(&host.node_child(0)?),
        DataType::Struct(fields) => {
            for number in 0..fields.len() {
                if !have_no_width(&host.node_child(number)?)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Whether two elements of arrays of the same type are the same.
fn are_equal(one: (&HostArray, usize), other: (&HostArray, usize)) -> Result<bool> {
    let ((a, i), (b, j)) = (one, other);
    if matches!(a.data_type(), DataType::Null) {
        return Ok(true);
    }
    let (found, others) = match (a.follow(i)?, b.follow(j)?) {
        (Some(found), Some(others)) => (found, others),
        (one, other) => {
            // A dictionary says null in two ways.
            return Ok((one.is_none() || a.is_null(i)?) && (other.is_none() || b.is_null(j)?));
        }
    };
    match a.data_type() {
        DataType::Union { type_ids, .. }
            if a.variant(type_ids, i)? != b.variant(type_ids, j)? =>
        {
            Ok(false)
        }
        data_type if is_followed(data_type) => {
            are_equal((&found.0, found.1), (&others.0, others.1))
        }
        DataType::Struct(fields) => {
            let (i, j) = (a.array().offset() + i, b.array().offset() + j);
            for number in 0..fields.len() {
                if !are_equal((&a.node_child(number)?, i), (&b.node_child(number)?, j))? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        data_type if data_type.is_nested() => {
            let (lists, other_lists) = (Lists::of(a)?, Lists::of(b)?);
            let range = lists.at(a, i)?.unwrap_or(0..0);
            let others = other_lists.at(b, j)?.unwrap_or(0..0);
            if range.len() != others.len() {
                return Ok(false);
            }
            if have_no_width(lists.items())? && have_no_width(other_lists.items())? {
                return Ok(true);
            }
            for (i, j) in range.zip(others) {
                if !are_equal((lists.items(), i), (other_lists.items(), j))? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        _ => Ok(a.leaf(i)? == b.leaf(j)?),
    }
}
