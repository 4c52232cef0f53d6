//! Concatenates arrays of one type into one array in host memory.
//!
//! 1. The types are compared, and a bound for the size of the result follows from the bytes of the
//!    arrays ([`Room`]).
//! 2. `concat` makes one node of the result from the parts of this node, and calls itself for each
//!    child. The parts of a child are slices: of a struct, a fixed-size list or a sparse union, one
//!    for each part of the parent; of other lists and of dense unions, one for each range of
//!    elements that follow each other (`joined`); of run-end encoded arrays, one for each run.
//! 3. Values of fixed width, bits and bytes are collected by the functions that build arrays from
//!    Rust values.
//!
//! Why this is fast enough: slices copy nothing, a dictionary that consecutive arrays share is
//! copied once, and dictionaries that several columns share are put together once for all of these
//! columns.
//!
//! What must stay true: the time and the memory are bounded by the bytes of the arrays, however
//! often these bytes name a value. So room is taken before elements are made, and elements without
//! bytes, of which there may be any number, take no time for each.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use super::bytes::{BytesPart, text_of};
use super::native::Native;
use super::pieces::refused;
use super::rows::Rows;
use crate::{Array, DataType, Error, ErrorKind, HostArray, IntervalUnit, Layout, Result};

impl Array {
    /// The elements of all arrays, one array after the other, as one array in host memory. Waits
    /// until the arrays may be read.
    ///
    /// All arrays need to have one type, names and metadata aside, and to be in memory that the
    /// host reads. Copy arrays on a device [`to_host`](Self::to_host) first. Buffers that no
    /// element refers to are left behind. Different dictionaries are put one behind the other, and
    /// a value that is in two of them is there twice. If the keys have too few bits for that, the
    /// error is [`LimitExceeded`](crate::ErrorKind::LimitExceeded).
    ///
    /// A few bytes can name one large value many times: as an item of list views, as bytes of
    /// views, as the value of a union. The result has such a value as often as it is named. The
    /// number of elements in the result, of all levels together, is bounded by a million, plus 64
    /// for each byte of the arrays. 64 bytes of text count as an element, and each piece that is
    /// put together counts as sixteen. More is `LimitExceeded` as well.
    ///
    /// ```
    /// use arrow_device::{Array, DataType};
    ///
    /// let some = Array::from_values(DataType::Int32, [Some(1), None])?;
    /// let more = Array::from_values(DataType::Int32, [Some(3)])?;
    /// let all = Array::concat(&[some, more])?;
    /// let host = all.host()?;
    /// assert_eq!(host.values::<i32>()?.iter().collect::<Vec<_>>(), [Some(1), None, Some(3)]);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn concat(arrays: &[Self]) -> Result<Self> {
        Self::concat_at_most(arrays, u64::MAX)
    }

    /// [`concat`](Self::concat), where the buffers of the result, of all levels together, have
    /// about `bytes` at most. More is [`LimitExceeded`](crate::ErrorKind::LimitExceeded), before
    /// memory is taken for the buffers of that level. Texts that lie in their views count as if
    /// they lay elsewhere.
    pub fn concat_at_most(arrays: &[Self], bytes: u64) -> Result<Self> {
        let Some(first) = arrays.first() else {
            return Err(refused("no array to put together, and so no type"));
        };
        let of = first.data_type();
        if let Some((index, other)) = arrays
            .iter()
            .enumerate()
            .find(|(_, other)| !other.data_type().equals_ignoring_metadata(of))
        {
            let [other, of] = other.data_type().told_apart(of);
            return Err(refused(format!("array {index} is of {other}, and the first one of {of}")));
        }
        let parts = arrays.iter().map(Self::host).collect::<Result<Vec<_>>>()?;
        concat(of, &parts, &mut Room::of(&parts, bytes)?)
    }
}

/// How many elements may still be made, and how many bytes their buffers may have.
struct Room {
    left: usize,
    bytes: u64,
    /// The dictionaries that were put together so far. Many columns may have one dictionary.
    dictionaries: HashMap<Vec<DictionaryPlace>, JoinedDictionary>,
}

/// A dictionary that was put together of others.
struct JoinedDictionary {
    whole: Array,
    /// The others, which stay alive so that no other array gets the place of one of them.
    _of: Vec<HostArray>,
}

/// Where the elements of an array are: its tree, its node there, its offset and its length.
type DictionaryPlace = (usize, u32, usize, usize);

fn place_of(array: &Array) -> DictionaryPlace {
    let tree = std::ptr::from_ref(&**array.tree()).addr();
    (tree, array.node_number(), array.offset(), array.len())
}

/// How many elements may be made in addition to those for each byte of the arrays.
const FREE_ELEMENTS: usize = 1 << 20;
const ELEMENTS_PER_BYTE: usize = 64;
/// How many bytes of a text take about the time of an element.
const ELEMENT_BYTES: usize = 64;
/// How many elements take about the time of a piece.
const PIECE_ELEMENTS: usize = 16;

impl Room {
    fn of(parts: &[HostArray], bytes: u64) -> Result<Self> {
        let mut there = 0_usize;
        for part in parts {
            there = there.saturating_add(bytes_in(part)?);
        }
        let left = there.saturating_mul(ELEMENTS_PER_BYTE).saturating_add(FREE_ELEMENTS);
        Ok(Self { left, bytes, dictionaries: HashMap::new() })
    }

    fn take(&mut self, elements: usize) -> Result<()> {
        self.left = self.without(elements)?;
        Ok(())
    }

    /// Fails where so many columns, which are made one by one, have too many pieces.
    fn check_columns(&self, columns: usize, pieces: usize) -> Result<()> {
        let of_a_column = pieces.saturating_mul(PIECE_ELEMENTS);
        self.without(columns.saturating_mul(of_a_column)).map(|_| ())
    }

    /// The room that would be left.
    fn without(&self, elements: usize) -> Result<usize> {
        self.left.checked_sub(elements).ok_or_else(|| {
            limited("the arrays name their values more often than can be put together")
        })
    }

    /// Takes room for the buffers of so many elements of a type, but for the bytes of texts.
    fn take_buffers(&mut self, of: &DataType, elements: usize) -> Result<()> {
        // Those are taken as texts.
        if matches!(of, DataType::FixedSizeBinary(_)) {
            return Ok(());
        }
        let layout = Layout::of(of);
        let mut lengths = layout.buffers().iter().map(|kind| kind.byte_len(elements as u64));
        lengths.try_for_each(|len| self.take_bytes(len.unwrap_or(0)))
    }

    fn take_bytes(&mut self, bytes: u64) -> Result<()> {
        let left = self.bytes.checked_sub(bytes);
        self.bytes =
            left.ok_or_else(|| limited("the result has more bytes than were asked for"))?;
        Ok(())
    }

    /// Takes room for texts of these lengths, in addition to the room for the elements.
    fn take_texts(&mut self, mut lengths: impl Iterator<Item = usize>) -> Result<()> {
        lengths.try_for_each(|len| {
            self.take(len / ELEMENT_BYTES)?;
            self.take_bytes(len as u64)
        })
    }
}

/// The bytes of an array's buffers on all levels. Each array below counts as one byte more.
pub(super) fn bytes_in(part: &HostArray) -> Result<usize> {
    let mut bytes = 1_usize;
    for index in 0..part.array().buffer_count() {
        bytes = bytes.saturating_add(part.buffer(index)?.len());
    }
    for index in 0..part.array().child_count() {
        bytes = bytes.saturating_add(bytes_in(&part.node_child(index)?)?);
    }
    if let Some(values) = part.node_dictionary() {
        bytes = bytes.saturating_add(bytes_in(&values)?);
    }
    Ok(bytes)
}

#[cold]
fn limited(message: &'static str) -> Error {
    Error::new(ErrorKind::LimitExceeded, message).during("concat")
}

/// The number of elements of all parts together.
fn total(parts: &[HostArray]) -> Result<usize> {
    let mut lengths = parts.iter().map(HostArray::len);
    let total = lengths.try_fold(0_usize, usize::checked_add);
    total.ok_or_else(|| limited("the arrays have more elements than can be counted"))
}

/// Whether no element is null, as far as that is known without reading a bitmap.
fn are_present(parts: &[HostArray]) -> Result<bool> {
    for part in parts {
        if Rows::of(part)?.has_bitmap() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn concat(of: &DataType, parts: &[HostArray], room: &mut Room) -> Result<Array> {
    // Each part takes time, whatever its length is.
    room.take(parts.len().saturating_mul(PIECE_ELEMENTS))?;
    let len = total(parts)?;
    // Elements without bytes may be any number, and take no time for each.
    match of {
        DataType::Null | DataType::RunEndEncoded { .. } => {}
        DataType::Struct(_) | DataType::FixedSizeList(..) | DataType::FixedSizeBinary(0)
            if are_present(parts)? =>
        {
            room.check_columns(of.children().count(), parts.len())?;
            let mut columns = Vec::new();
            for (number, field) in of.children().enumerate() {
                let column = parts.iter().map(|part| elements_of(part, of, number));
                let column = column.collect::<Result<Vec<_>>>()?;
                columns.push(concat_or_empty(field.data_type(), &column, room)?);
            }
            let buffers = if *of == DataType::FixedSizeBinary(0) { 2 } else { 1 };
            let array = Array::builder(of.clone()).len(len).buffers(vec![None; buffers]);
            return array.children(columns).finish_ready();
        }
        _ => {
            room.take(len)?;
            room.take_buffers(of, len)?;
        }
    }
    match of {
        DataType::Null => Array::nulls(len),
        DataType::Boolean => {
            let mut bits = Vec::new();
            for part in parts {
                bits.extend(part.bools()?.iter());
            }
            Array::from_bools(bits)
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            strings(parts, room, |elements| {
                let texts = elements.map(|(part, index, bytes)| {
                    let Some(bytes) = bytes? else { return Ok(None) };
                    match bytes {
                        Cow::Borrowed(bytes) => {
                            text_of(part, index, bytes).map(|text| Some(Cow::Borrowed(text)))
                        }
                        Cow::Owned(bytes) => {
                            let text = text_of(part, index, &bytes)?.to_owned();
                            Ok(Some(Cow::Owned(text)))
                        }
                    }
                });
                until_fault(texts, |texts| Array::from_texts::<Cow<'_, str>>(of.clone(), texts))
            })
        }
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => strings(parts, room, |elements| {
            until_fault(elements.map(|(_, _, bytes)| bytes), |bytes| {
                Array::from_bytes(of.clone(), bytes)
            })
        }),
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::FixedSizeList(..)
        | DataType::Map { .. } => lists(of, parts, room),
        DataType::Struct(fields) => {
            room.check_columns(fields.len(), parts.len())?;
            let mut present = Vec::new();
            for part in parts {
                for row in 0..part.len() {
                    present.push(!part.is_null(row)?);
                }
            }
            let mut columns = Vec::with_capacity(fields.len());
            for (number, field) in fields.iter().enumerate() {
                let column = parts.iter().map(|part| rows_of(part, number));
                let column = column.collect::<Result<Vec<_>>>()?;
                columns.push(concat(field.data_type(), &column, room)?);
            }
            Array::from_fields(of.clone(), present, columns)
        }
        DataType::Union { .. } => union(of, parts, room),
        DataType::Dictionary { .. } => dictionary(of, parts, room),
        DataType::RunEndEncoded { values, .. } => {
            let (mut lengths, mut runs) = (Vec::new(), Vec::new());
            for part in parts {
                let mut index = 0;
                while index < part.len() {
                    let (values, run, left) = part.run_at(index)?;
                    let length = left.clamp(1, part.len() - index);
                    room.take(1)?;
                    // The end of the run, of up to eight bytes.
                    room.take_bytes(8)?;
                    lengths.push(length);
                    runs.push(values.slice(run, 1)?);
                    index += length;
                }
            }
            let values = concat_or_empty(values.data_type(), &runs, room)?;
            Array::from_runs(of.clone(), lengths, values)
        }
        _ => fixed_width(of, parts),
    }
}

/// An element of one of the parts: the part, its number there, and its bytes.
type PartElement<'a> = (&'a HostArray, usize, Result<Option<Cow<'a, [u8]>>>);

/// Makes an array of the elements of all parts, which are bytes. Room for all of their lengths is
/// taken before one is read.
fn strings(
    parts: &[HostArray],
    room: &mut Room,
    make: impl FnOnce(&mut dyn Iterator<Item = PartElement<'_>>) -> Result<Array>,
) -> Result<Array> {
    let loaded = parts.iter().map(BytesPart::of).collect::<Result<Vec<_>>>()?;
    room.take_texts(loaded.iter().flat_map(BytesPart::lengths))?;
    for (part, bytes) in parts.iter().zip(&loaded) {
        bytes.check(part)?;
    }
    make(&mut parts.iter().zip(&loaded).flat_map(|(part, bytes)| {
        (0..part.len()).map(move |index| (part, index, bytes.at(part, index)))
    }))
}

/// Makes an array of the items of an iterator. If the iterator has an error, it is returned
/// instead.
fn until_fault<T>(
    elements: impl Iterator<Item = Result<T>>,
    make: impl FnOnce(&mut dyn Iterator<Item = T>) -> Result<Array>,
) -> Result<Array> {
    let mut fault = None;
    let mut elements =
        elements.map_while(|element| element.map_err(|error| fault = Some(error)).ok());
    let made = make(&mut elements);
    drop(elements);
    fault.map_or(made, Err)
}

/// The items of all elements of a struct, or of a fixed-size list, in one of the arrays below.
fn elements_of(part: &HostArray, of: &DataType, number: usize) -> Result<HostArray> {
    let DataType::FixedSizeList(_, size) = of else { return rows_of(part, number) };
    let size = usize::try_from(*size).unwrap_or(0);
    // Nulls of a fixed-size list have items, too.
    let start = part.array().offset().saturating_mul(size);
    part.child(number)?.slice(start, part.len().saturating_mul(size))
}

/// The rows of a struct in the array of a field, which does not have the struct's own offset.
fn rows_of(part: &HostArray, field: usize) -> Result<HostArray> {
    part.child(field)?.slice(part.array().offset(), part.len())
}

/// The concatenation; an empty array where there are no parts.
fn concat_or_empty(of: &DataType, parts: &[HostArray], room: &mut Room) -> Result<Array> {
    if parts.is_empty() { Array::empty(of.clone()) } else { concat(of, parts, room) }
}

fn fixed_width(of: &DataType, parts: &[HostArray]) -> Result<Array> {
    match of {
        DataType::Int8 => values::<i8>(of, parts),
        DataType::Int16 => values::<i16>(of, parts),
        DataType::UInt8 => values::<u8>(of, parts),
        DataType::UInt16 | DataType::Float16 => values::<u16>(of, parts),
        DataType::UInt32 => values::<u32>(of, parts),
        DataType::UInt64 => values::<u64>(of, parts),
        DataType::Float32 => values::<f32>(of, parts),
        DataType::Float64 => values::<f64>(of, parts),
        DataType::Int32
        | DataType::Decimal32 { .. }
        | DataType::Date32
        | DataType::Time32(_)
        | DataType::Interval(IntervalUnit::YearMonth) => values::<i32>(of, parts),
        DataType::Decimal128 { .. } => values::<i128>(of, parts),
        DataType::Decimal256 { .. } => values::<[u8; 32]>(of, parts),
        DataType::Interval(IntervalUnit::DayTime) => values::<(i32, i32)>(of, parts),
        DataType::Interval(IntervalUnit::MonthDayNano) => values::<(i32, i32, i64)>(of, parts),
        _ => values::<i64>(of, parts),
    }
}

fn values<T: Native>(of: &DataType, parts: &[HostArray]) -> Result<Array> {
    let values = parts.iter().map(HostArray::values::<T>).collect::<Result<Vec<_>>>()?;
    Array::from_values(of.clone(), values.iter().flat_map(|part| part.iter()))
}

fn lists(of: &DataType, parts: &[HostArray], room: &mut Room) -> Result<Array> {
    let (mut lengths, mut items) = (Vec::new(), Vec::new());
    let is_fixed = matches!(of, DataType::FixedSizeList(..));
    for part in parts {
        let lists = part.lists()?;
        lengths.extend(lists.ranges().map(|range| range.map(|range| range.len())));
        if is_fixed {
            items.push(elements_of(part, of, 0)?);
            continue;
        }
        for range in joined(lists.ranges().flatten()) {
            items.push(lists.items().slice(range.start, range.len())?);
        }
    }
    let item = of.child(0).map_or(&DataType::Null, |field| field.data_type());
    Array::from_lists(of.clone(), lengths, concat_or_empty(item, &items, room)?)
}

/// Joins ranges that follow each other.
fn joined(ranges: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::new();
    for range in ranges.filter(|range| !range.is_empty()) {
        match all.last_mut().filter(|last| last.end == range.start) {
            Some(last) => last.end = range.end,
            None => all.push(range),
        }
    }
    all
}

fn union(of: &DataType, parts: &[HostArray], room: &mut Room) -> Result<Array> {
    let DataType::Union { mode, type_ids, fields } = of else {
        return Err(refused(format!("{of} is no union")));
    };
    let mut ids = Vec::new();
    let mut columns: Vec<Vec<HostArray>> = vec![Vec::new(); fields.len()];
    for part in parts {
        let mut positions: Vec<Vec<Range<usize>>> = vec![Vec::new(); fields.len()];
        for index in 0..part.len() {
            let number = part.variant(type_ids, index)?;
            ids.extend(type_ids.get(number).copied());
            if *mode == crate::UnionMode::Dense
                && let Some((_, position)) = part.follow(index)?
                && let Some(of_field) = positions.get_mut(number)
            {
                of_field.push(position..position + 1);
            }
        }
        for (number, column) in columns.iter_mut().enumerate() {
            if *mode == crate::UnionMode::Sparse {
                column.push(rows_of(part, number)?);
                continue;
            }
            let taken = positions.get_mut(number).map(std::mem::take).unwrap_or_default();
            for range in joined(taken.into_iter()) {
                column.push(part.child(number)?.slice(range.start, range.len())?);
            }
        }
    }
    let mut built = Vec::with_capacity(fields.len());
    for (field, column) in fields.iter().zip(&columns) {
        built.push(concat_or_empty(field.data_type(), column, room)?);
    }
    Array::from_variants(of.clone(), ids, built)
}

fn dictionary(of: &DataType, parts: &[HostArray], room: &mut Room) -> Result<Array> {
    let (mut keys, mut dictionaries) = (Vec::new(), Vec::<HostArray>::new());
    let (mut base, mut end) = (0, 0_usize);
    for part in parts {
        let Some(values) = part.dictionary() else { continue };
        let is_same = dictionaries.last().is_some_and(|last| last.array().is_same(values.array()));
        if !is_same {
            base = end;
            let next = end.checked_add(values.len());
            end = next
                .ok_or_else(|| limited("the dictionaries have more values than can be counted"))?;
            dictionaries.push(values);
        }
        for index in 0..part.len() {
            keys.push(part.follow(index)?.map(|(_, key)| base + key));
        }
    }
    let values = of.dictionary_values().map_or(&DataType::Null, |field| field.data_type());
    let places: Vec<DictionaryPlace> =
        dictionaries.iter().map(|known| place_of(known.array())).collect();
    let known = room.dictionaries.get(&places).map(|known| &known.whole);
    if let Some(known) = known.filter(|known| known.data_type() == values) {
        return Array::from_keys(of.clone(), keys, known.clone());
    }
    let whole = concat_or_empty(values, &dictionaries, room)?;
    let joined = JoinedDictionary { whole: whole.clone(), _of: dictionaries };
    room.dictionaries.insert(places, joined);
    Array::from_keys(of.clone(), keys, whole)
}
