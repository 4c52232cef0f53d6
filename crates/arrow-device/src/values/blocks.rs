//! Comparison of many elements at a time, for values that lie one behind the other.
//!
//! For elements of a fixed width, the bytes of a whole block are compared at once. For texts, the
//! lengths of elements are compared first, and then their bytes. Where a block differs and has
//! nulls, up to 64 elements are compared at a time without a branch: a word of the bitmap says
//! which of them count, because the bytes of null elements may differ.

use std::ops::Range;

use crate::array::HostBytes;
use crate::bits::{low_bits, word_at};
use crate::{DataType, HostArray, IntervalUnit, Result};

/// How many elements are compared at a time.
pub(super) const BLOCK: usize = 4096;

/// How the values of an array lie in memory.
enum FlatValues<'host> {
    Bits(HostBytes<'host>),
    /// Elements of this number of bytes.
    Wide(HostBytes<'host>, usize),
    /// Offsets of this number of bytes, and the bytes that they lead to.
    Bytes(HostBytes<'host>, usize, HostBytes<'host>),
}

/// The bytes of some elements in both arrays, if each element is as long as its counterpart and
/// none begins before the one before it. `$number` is the type of the offsets.
macro_rules! same_steps {
    ($number:ty, $offsets:expr, $here:expr, $others:expr, $there:expr, $count:expr) => {{
        const W: usize = size_of::<$number>();
        let read = |bytes: &[u8; W]| <$number>::from_ne_bytes(*bytes);
        let one = $offsets.as_chunks::<W>().0.get($here..=$here + $count)?;
        let two = $others.as_chunks::<W>().0.get($there..=$there + $count)?;
        let steps = one.iter().zip(one.get(1..)?).zip(two.iter().zip(two.get(1..)?));
        let differ = steps.fold(false, |differ, ((start, end), (other_start, other_end))| {
            let (start, end) = (read(start), read(end));
            let (other_start, other_end) = (read(other_start), read(other_end));
            let is_other_step = end.wrapping_sub(start) != other_end.wrapping_sub(other_start);
            differ | (end < start) | (other_end < other_start) | is_other_step
        });
        let range = |offsets: &[[u8; W]]| -> Option<Range<usize>> {
            let (start, end) = (read(offsets.first()?), read(offsets.last()?));
            Some(start.try_into().ok()?..end.try_into().ok()?)
        };
        if differ {
            return None;
        }
        (range(one)?, range(two)?)
    }};
}

/// An array without children, prepared for the comparison of many elements at a time.
pub(super) struct Flat<'host> {
    validity: Option<HostBytes<'host>>,
    values: FlatValues<'host>,
    offset: usize,
}

impl<'host> Flat<'host> {
    /// `None` where elements of the type cannot be compared in this way.
    pub(super) fn of(host: &'host HostArray) -> Result<Option<Self>> {
        let data_type = host.data_type();
        let values = match data_type {
            DataType::Boolean => FlatValues::Bits(host.buffer(1)?),
            DataType::Utf8 | DataType::Binary => {
                FlatValues::Bytes(host.buffer(1)?, 4, host.buffer(2)?)
            }
            DataType::LargeUtf8 | DataType::LargeBinary => {
                FlatValues::Bytes(host.buffer(1)?, 8, host.buffer(2)?)
            }
            _ => match width(data_type) {
                Some(width) => FlatValues::Wide(host.buffer(1)?, width),
                None => return Ok(None),
            },
        };
        Ok(Some(Self { validity: validity(host)?, values, offset: host.array().offset() }))
    }

    /// How many bytes some elements take. The elements were found to be the same.
    pub(super) fn bytes(&self, first: usize, count: usize) -> usize {
        let first = self.offset + first;
        match &self.values {
            FlatValues::Bits(_) => count / 8,
            FlatValues::Wide(_, width) => count.saturating_mul(*width),
            FlatValues::Bytes(offsets, 4, _) => {
                let at = |index: usize| offsets.as_chunks::<4>().0.get(index);
                let read = |index| at(index).map_or(0, |bytes| u32::from_ne_bytes(*bytes) as usize);
                read(first + count).saturating_sub(read(first))
            }
            FlatValues::Bytes(offsets, ..) => {
                let at = |index: usize| offsets.as_chunks::<8>().0.get(index);
                let read = |index| at(index).map_or(0, |bytes| u64::from_ne_bytes(*bytes));
                let bytes = read(first + count).saturating_sub(read(first));
                usize::try_from(bytes).unwrap_or(usize::MAX)
            }
        }
    }

    /// How many elements from these two on are the same. Only whole blocks are counted, except for
    /// the last one. 0 where the first block is not the same, or needs a closer look.
    pub(super) fn same_from(
        &self,
        first: usize,
        other: &Self,
        other_first: usize,
        count: usize,
    ) -> usize {
        let has_bitmap = self.validity.is_some() || other.validity.is_some();
        let (start, other_start) = (self.offset + first, other.offset + other_first);
        if !has_bitmap && self.are_same_values(start, other, other_start, count) == Some(true) {
            return count;
        }
        let mut same = 0;
        while same < count {
            let more = BLOCK.min(count - same);
            let (here, there) = (self.offset + first + same, other.offset + other_first + same);
            if !self.is_same_block(here, other, there, more) {
                break;
            }
            same += more;
        }
        same
    }

    fn is_same_block(&self, here: usize, other: &Self, there: usize, count: usize) -> bool {
        if self.validity.is_none() && other.validity.is_none() {
            return self.are_same_values(here, other, there, count).unwrap_or(false);
        }
        let words = (0..count).step_by(64).map(|at| (at, 64.min(count - at)));
        let mut all_are_there = true;
        for (at, bits) in words.clone() {
            let [one, two] = self.present(here + at, other, there + at, bits);
            if one != two {
                return false;
            }
            all_are_there &= one == low_bits(bits);
        }
        // What lies below a null makes no difference. Equal bytes there do no harm.
        if all_are_there || matches!(self.values, FlatValues::Bytes(..)) {
            return self.are_same_values(here, other, there, count).unwrap_or(false);
        }
        words.into_iter().all(|(at, bits)| {
            let [present, _] = self.present(here + at, other, there + at, bits);
            self.are_same_where(present, here + at, other, there + at, bits).unwrap_or(false)
        })
    }

    /// Which of up to 64 elements are not null, in this array and in the other one.
    fn present(&self, here: usize, other: &Self, there: usize, count: usize) -> [u64; 2] {
        let word = |validity: &Option<HostBytes<'_>>, first: usize| {
            validity.as_deref().map_or(u64::MAX, |bits| word_at(bits, first)) & low_bits(count)
        };
        [word(&self.validity, here), word(&other.validity, there)]
    }

    /// Whether elements are the same, with what lies below nulls included. `None` where values do
    /// not lie as they should.
    fn are_same_values(
        &self,
        here: usize,
        other: &Self,
        there: usize,
        count: usize,
    ) -> Option<bool> {
        match (&self.values, &other.values) {
            (FlatValues::Bits(bits), FlatValues::Bits(others)) => {
                let (whole, rest) = (count / 8, count % 8);
                if here.is_multiple_of(8) && there.is_multiple_of(8) {
                    let (here, there) = (here / 8, there / 8);
                    let one = bits.get(here..here + whole)?;
                    let last = |bits: &[u8], at: usize| word_at(bits, 8 * (at + whole));
                    let differ = last(bits, here) ^ last(others, there);
                    return Some(
                        one == others.get(there..there + whole)? && differ & low_bits(rest) == 0,
                    );
                }
                let is_same = |at: usize| {
                    let differ = word_at(bits, here + at) ^ word_at(others, there + at);
                    differ & low_bits(count - at) == 0
                };
                Some((0..count).step_by(64).all(is_same))
            }
            (FlatValues::Wide(bytes, width), FlatValues::Wide(others, _)) => {
                let part = |bytes: &[u8], first: usize| -> Option<Range<usize>> {
                    let range = first.checked_mul(*width)?..(first + count).checked_mul(*width)?;
                    bytes.get(range.clone()).map(|_| range)
                };
                Some(bytes.get(part(bytes, here)?)? == others.get(part(others, there)?)?)
            }
            (FlatValues::Bytes(offsets, width, data), FlatValues::Bytes(others, _, other_data)) => {
                let (range, other_range) = match width {
                    4 => same_steps!(i32, offsets, here, others, there, count),
                    _ => same_steps!(i64, offsets, here, others, there, count),
                };
                Some(data.get(range)? == other_data.get(other_range)?)
            }
            _ => None,
        }
    }

    /// Whether those of up to 64 elements that are not null are the same.
    fn are_same_where(
        &self,
        present: u64,
        here: usize,
        other: &Self,
        there: usize,
        count: usize,
    ) -> Option<bool> {
        match (&self.values, &other.values) {
            (FlatValues::Bits(bits), FlatValues::Bits(others)) => {
                Some((word_at(bits, here) ^ word_at(others, there)) & present == 0)
            }
            (FlatValues::Wide(bytes, 8), FlatValues::Wide(others, 8)) => {
                are_same_elements::<8>(present, (bytes, here), (others, there), count)
            }
            (FlatValues::Wide(bytes, 4), FlatValues::Wide(others, 4)) => {
                are_same_elements::<4>(present, (bytes, here), (others, there), count)
            }
            (FlatValues::Wide(bytes, width), FlatValues::Wide(others, _)) => {
                let element = |bytes: &'_ [u8], index: usize| -> Option<Range<usize>> {
                    let start = index.checked_mul(*width)?;
                    bytes.get(start..start + width).map(|_| start..start + width)
                };
                for at in (0..count).filter(|at| present >> at & 1 == 1) {
                    let (one, two) = (element(bytes, here + at)?, element(others, there + at)?);
                    if bytes.get(one)? != others.get(two)? {
                        return Some(false);
                    }
                }
                Some(true)
            }
            _ => None,
        }
    }
}

/// Compares elements of `W` bytes, without a branch for each.
fn are_same_elements<const W: usize>(
    present: u64,
    (bytes, here): (&[u8], usize),
    (others, there): (&[u8], usize),
    count: usize,
) -> Option<bool> {
    let one = bytes.as_chunks::<W>().0.get(here..here + count)?;
    let two = others.as_chunks::<W>().0.get(there..there + count)?;
    let pairs = one.iter().zip(two).enumerate();
    let differ = pairs.fold(0_u64, |word, (at, (one, two))| word | u64::from(one != two) << at);
    Some(differ & present == 0)
}

/// The bitmap of an array, if it has one.
fn validity(host: &HostArray) -> Result<Option<HostBytes<'_>>> {
    let array = host.array();
    let has_one = array.schema_node().layout.has_validity() && !array.node().buffer(0).is_null();
    if has_one { host.buffer(0).map(Some) } else { Ok(None) }
}

/// Whether none of these elements is null, by the bitmap of the array.
pub(super) fn are_present(host: &HostArray, first: usize, count: usize) -> Result<bool> {
    let Some(bits) = validity(host)? else { return Ok(true) };
    let first = host.array().offset() + first;
    let is_all = |at: usize| !word_at(&bits, first + at) & low_bits(count - at) == 0;
    Ok((0..count).step_by(64).all(is_all))
}

/// How many bytes an element takes; `None` where the bytes of an element do not determine its
/// value.
fn width(data_type: &DataType) -> Option<usize> {
    Some(match data_type {
        DataType::Int8 | DataType::UInt8 => 1,
        DataType::Int16 | DataType::UInt16 | DataType::Float16 => 2,
        DataType::Int32
        | DataType::UInt32
        | DataType::Float32
        | DataType::Date32
        | DataType::Time32(_)
        | DataType::Decimal32 { .. }
        | DataType::Interval(IntervalUnit::YearMonth) => 4,
        DataType::Int64
        | DataType::UInt64
        | DataType::Float64
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_)
        | DataType::Decimal64 { .. }
        | DataType::Interval(IntervalUnit::DayTime) => 8,
        DataType::Decimal128 { .. } | DataType::Interval(IntervalUnit::MonthDayNano) => 16,
        DataType::Decimal256 { .. } => 32,
        DataType::FixedSizeBinary(width) => {
            usize::try_from(*width).ok().filter(|width| *width > 0)?
        }
        _ => return None,
    })
}
