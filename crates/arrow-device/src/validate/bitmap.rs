//! Which elements are null, and how many.

use std::ops::Range;

use super::errors::invalid;
use crate::bits::count_ones;
use crate::{BufferKind, DataType, HostArray, HostBytes, Result};

/// Which elements of an array are null by its own bitmap. Unions and run-end encoded arrays have no
/// bitmap, and so no nulls here.
pub(super) struct Validity<'node> {
    /// The bitmap. `None` where no element is null, or all are.
    bits: Option<HostBytes<'node>>,
    offset: usize,
    all_null: bool,
}

impl<'node> Validity<'node> {
    pub(super) fn of(node: &'node HostArray) -> Result<Self> {
        let array = node.array();
        let has_bitmap = array.buffer_kind(0) == Some(BufferKind::Validity)
            && !array.node().buffer(0).is_null()
            && !array.is_empty();
        Ok(Self {
            bits: if has_bitmap { Some(node.buffer(0)?) } else { None },
            offset: array.offset(),
            all_null: matches!(array.data_type(), DataType::Null),
        })
    }

    /// Whether an element is not null. An element past the end of the array counts as null.
    pub(super) fn is_valid(&self, index: usize) -> bool {
        let Some(bits) = &self.bits else { return !self.all_null };
        let Some(bit) = self.offset.checked_add(index) else { return false };
        bits.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
    }

    /// How many elements of this range are null.
    pub(super) fn null_count(&self, range: Range<usize>) -> usize {
        match &self.bits {
            Some(bits) => {
                let start = self.offset.saturating_add(range.start);
                range.len() - count_ones(bits, start, range.len()).min(range.len())
            }
            None if self.all_null => range.len(),
            None => 0,
        }
    }
}

/// Checks that a known null count is that of the bitmap.
pub(super) fn check_null_count(node: &HostArray) -> Result<()> {
    let Some(told) = node.array().null_count() else { return Ok(()) };
    let validity = Validity::of(node)?;
    if validity.bits.is_none() {
        return Ok(());
    }
    let counted = validity.null_count(0..node.array().len());
    if counted == told {
        return Ok(());
    }
    Err(invalid(format!("null count is {told}, and {counted} elements are null")))
}
