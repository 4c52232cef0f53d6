//! Which elements are null, and how many.

use std::ops::Range;

use super::errors::invalid;
use crate::{BufferKind, DataType, HostArray, HostBytes, Result};

/// Which elements of an array are null, by its own bitmap. Unions and run-end encoding have none,
/// and so no nulls here.
pub(super) struct Validity<'node> {
    /// `None` where all elements are alike.
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

    /// Whether an element is there. One past the end of the array is not.
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

/// A null count that is known is the bitmap's.
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

/// How many bits are set, of `count` from bit `start` on. Bits past the end of the bytes are not.
fn count_ones(bytes: &[u8], start: usize, count: usize) -> usize {
    let end = start.saturating_add(count).min(bytes.len().saturating_mul(8));
    if start >= end {
        return 0;
    }
    let bytes = bytes.get(start / 8..end.div_ceil(8)).unwrap_or_default();
    let (words, rest) = bytes.as_chunks::<8>();
    let of_words: usize =
        words.iter().map(|word| u64::from_ne_bytes(*word).count_ones() as usize).sum();
    let of_rest: usize = rest.iter().map(|byte| byte.count_ones() as usize).sum();
    let first = bytes.first().copied().unwrap_or(0);
    let last = bytes.last().copied().unwrap_or(0);
    let before = (first & !(u8::MAX << (start % 8))).count_ones() as usize;
    let after = match end % 8 {
        0 => 0,
        bits => (last & (u8::MAX << bits)).count_ones() as usize,
    };
    of_words + of_rest - before - after
}

#[cfg(test)]
mod tests {
    use super::count_ones;

    #[test]
    fn the_bits_of_a_range_are_counted_and_no_others() {
        let bytes: Vec<u8> = (0..40).map(|byte: u8| byte.wrapping_mul(37) ^ 0x5a).collect();
        let one_by_one = |start: usize, count: usize| {
            (start..start + count)
                .filter(|bit| bytes.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1))
                .count()
        };
        let (starts, counts) = if cfg!(miri) { (3, 20) } else { (30, 310) };
        for start in 0..starts {
            for count in 0..counts {
                assert_eq!(
                    count_ones(&bytes, start, count),
                    one_by_one(start, count),
                    "{start} {count}"
                );
            }
        }
        assert_eq!(count_ones(&[], 3, usize::MAX), 0);
    }
}
