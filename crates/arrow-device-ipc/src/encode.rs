//! Taking an array apart into what a body has: nodes, and the bytes of buffers.
//!
//! An array in IPC begins with the first element of its buffers, so a slice is cut: bitmaps are
//! shifted to whole bytes, offsets are made to begin at 0, and children are cut to what the offsets
//! lead to. Buffers that need none of that are written from where they lie.

use arrow_device::{BufferKind, DataType, Error, ErrorKind, HostArray, Layout, Result, UnionMode};

use crate::problem::refused;

/// The nodes and buffers of a batch or of the values of a dictionary, in the order of the format.
#[derive(Default)]
pub(crate) struct Pieces {
    /// Lengths, and counts of nulls.
    pub(crate) nodes: Vec<(i64, i64)>,
    pub(crate) buffers: Vec<Piece>,
    pub(crate) variadic_counts: Vec<i64>,
}

/// The bytes of a buffer.
pub(crate) enum Piece {
    Nothing,
    Own(Vec<u8>),
    /// Some of the bytes of a buffer of an array.
    Of {
        array: HostArray,
        index: usize,
        start: usize,
        end: usize,
    },
}

impl Piece {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Own(bytes) => bytes.len(),
            Self::Of { start, end, .. } => end - start,
        }
    }

    pub(crate) fn with<T>(&self, look: impl FnOnce(&[u8]) -> T) -> Result<T> {
        match self {
            Self::Nothing => Ok(look(&[])),
            Self::Own(bytes) => Ok(look(bytes)),
            Self::Of { array, index, start, end } => {
                let bytes = array.buffer(*index)?;
                let bytes = bytes.get(*start..*end).ok_or_else(|| short(array, *index))?;
                Ok(look(bytes))
            }
        }
    }
}

/// A buffer has less than its array needs.
#[cold]
fn short(array: &HostArray, index: usize) -> Error {
    let (data_type, len) = (array.data_type(), array.len());
    let message = format!("buffer {index} is too short for {len} elements of {data_type}");
    refused(ErrorKind::InvalidData, message)
}

#[cold]
fn wrong(array: &HostArray, what: &str) -> Error {
    refused(ErrorKind::InvalidData, format!("{what} of {} lead outside", array.data_type()))
}

/// Numbers of 32 or of 64 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wide {
    Four,
    Eight,
}

impl Wide {
    fn bytes(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    fn read(self, bytes: &[u8], index: usize) -> Option<i64> {
        let rest = bytes.get(index.checked_mul(self.bytes())?..)?;
        match self {
            Self::Four => rest.first_chunk().map(|bytes| i64::from(i32::from_ne_bytes(*bytes))),
            Self::Eight => rest.first_chunk().map(|bytes| i64::from_ne_bytes(*bytes)),
        }
    }

    /// Appends a number that fits, because it is no larger than one that was read.
    fn write(self, number: i64, to: &mut Vec<u8>) {
        match self {
            Self::Four => to.extend_from_slice(&(number as i32).to_ne_bytes()),
            Self::Eight => to.extend_from_slice(&number.to_ne_bytes()),
        }
    }
}

impl Pieces {
    /// Adds an array and all below it.
    pub(crate) fn add(&mut self, array: &HostArray) -> Result<()> {
        let data_type = array.data_type();
        let layout = Layout::of(data_type);
        let (len, offset) = (array.len(), array.array().offset());
        let nulls = if matches!(data_type, DataType::Null) {
            len
        } else if layout.has_validity() {
            self.add_validity(array)?
        } else {
            0
        };
        // The node comes before those of the children, which are added below.
        self.nodes.push((len as i64, nulls as i64));
        for (index, kind) in layout.buffers().iter().enumerate() {
            match *kind {
                BufferKind::Bits => self.buffers.push(bits(array, index)?),
                BufferKind::Fixed { width } => self.add_part(array, index, width as usize)?,
                BufferKind::TypeIds => self.add_part(array, index, 1)?,
                BufferKind::Views => self.add_part(array, index, 16)?,
                // Those that lead somewhere are written with what they lead to.
                _ => {}
            }
        }
        match data_type {
            DataType::Utf8 | DataType::Binary => self.add_variable(array, Wide::Four),
            DataType::LargeUtf8 | DataType::LargeBinary => self.add_variable(array, Wide::Eight),
            DataType::Utf8View | DataType::BinaryView => self.add_view_data(array),
            DataType::List(_) | DataType::Map { .. } => self.add_list(array, Wide::Four),
            DataType::LargeList(_) => self.add_list(array, Wide::Eight),
            DataType::ListView(_) => self.add_list_view(array, Wide::Four),
            DataType::LargeListView(_) => self.add_list_view(array, Wide::Eight),
            DataType::FixedSizeList(_, size) => {
                let size = usize::try_from(*size).unwrap_or(0);
                let (start, count) = (offset.saturating_mul(size), len.saturating_mul(size));
                self.add(&array.child(0)?.slice(start, count)?)
            }
            DataType::Struct(fields) => (0..fields.len())
                .try_for_each(|index| self.add(&array.child(index)?.slice(offset, len)?)),
            DataType::Union { mode: UnionMode::Sparse, fields, .. } => (0..fields.len())
                .try_for_each(|index| self.add(&array.child(index)?.slice(offset, len)?)),
            DataType::Union { mode: UnionMode::Dense, type_ids, .. } => {
                self.add_dense(array, type_ids)
            }
            DataType::RunEndEncoded { run_ends, .. } => self.add_runs(array, run_ends.data_type()),
            _ => Ok(()),
        }
    }

    /// The bitmap, if a null is there; tells how many there are.
    fn add_validity(&mut self, array: &HostArray) -> Result<usize> {
        let known = array.array().null_count();
        let has_none = known == Some(0) || array.is_empty() || array.buffer(0)?.is_empty();
        let piece = if has_none { Piece::Nothing } else { bits(array, 0)? };
        let nulls = match known {
            _ if has_none => 0,
            Some(nulls) => nulls,
            None => {
                let set = piece.with(|bits| count_ones(bits, array.len()))?;
                array.len() - set
            }
        };
        self.buffers.push(if nulls == 0 { Piece::Nothing } else { piece });
        Ok(nulls)
    }

    /// The elements of a buffer of so many bytes each.
    fn add_part(&mut self, array: &HostArray, index: usize, width: usize) -> Result<()> {
        let (offset, len) = (array.array().offset(), array.len());
        let start = offset.checked_mul(width).ok_or_else(|| short(array, index))?;
        let count = len.checked_mul(width).ok_or_else(|| short(array, index))?;
        self.add_range(array, index, start, count)
    }

    fn add_range(
        &mut self,
        array: &HostArray,
        index: usize,
        start: usize,
        len: usize,
    ) -> Result<()> {
        if len == 0 {
            self.buffers.push(Piece::Nothing);
            return Ok(());
        }
        let end = start
            .checked_add(len)
            .filter(|end| array.buffer(index).is_ok_and(|bytes| *end <= bytes.len()));
        let end = end.ok_or_else(|| short(array, index))?;
        self.buffers.push(Piece::Of { array: array.clone(), index, start, end });
        Ok(())
    }

    /// The offsets of an array, which begin at 0, and what they lead to.
    fn add_offsets(&mut self, array: &HostArray, wide: Wide) -> Result<(usize, usize)> {
        let (offset, len) = (array.array().offset(), array.len());
        if len == 0 {
            self.buffers.push(Piece::Own(vec![0; wide.bytes()]));
            return Ok((0, 0));
        }
        let offsets = array.buffer(1)?;
        let (first, last) = (wide.read(&offsets, offset), wide.read(&offsets, offset + len));
        let (Some(first), Some(last)) = (first, last) else { return Err(short(array, 1)) };
        let range = usize::try_from(first).ok().zip(usize::try_from(last).ok());
        let range = range.filter(|(first, last)| first <= last);
        let range = range.ok_or_else(|| wrong(array, "the offsets"))?;
        if first == 0 {
            let start = offset * wide.bytes();
            self.add_range(array, 1, start, (len + 1) * wide.bytes())?;
        } else {
            let mut moved = Vec::with_capacity((len + 1) * wide.bytes());
            for index in offset..=offset + len {
                let number = wide.read(&offsets, index).ok_or_else(|| short(array, 1))?;
                // Nonsense in between stays nonsense, and fits.
                wide.write(number.wrapping_sub(first), &mut moved);
            }
            self.buffers.push(Piece::Own(moved));
        }
        Ok(range)
    }

    fn add_variable(&mut self, array: &HostArray, wide: Wide) -> Result<()> {
        let (start, end) = self.add_offsets(array, wide)?;
        self.add_range(array, 2, start, end - start)
    }

    fn add_list(&mut self, array: &HostArray, wide: Wide) -> Result<()> {
        let (start, end) = self.add_offsets(array, wide)?;
        let child = array.child(0)?;
        if end > child.len() {
            return Err(wrong(array, "the offsets"));
        }
        self.add(&child.slice(start, end - start)?)
    }

    /// Where the lists of a list view begin and how long they are, and the part of the child that
    /// has all of them.
    fn add_list_view(&mut self, array: &HostArray, wide: Wide) -> Result<()> {
        let (offset, len) = (array.array().offset(), array.len());
        let child = array.child(0)?;
        if len == 0 {
            self.buffers.extend([Piece::Nothing, Piece::Nothing]);
            return self.add(&child.slice(0, 0)?);
        }
        let (starts, sizes) = (array.buffer(1)?, array.buffer(2)?);
        let (mut low, mut high) = (i64::MAX, 0);
        for index in offset..offset + len {
            let place = wide.read(&starts, index).zip(wide.read(&sizes, index));
            let (start, size) = place.ok_or_else(|| short(array, 1))?;
            if size > 0 {
                let end = start.checked_add(size).ok_or_else(|| wrong(array, "the lists"))?;
                (low, high) = (low.min(start), high.max(end));
            }
        }
        let low = if high == 0 { 0 } else { low };
        let place = usize::try_from(low).ok().zip(usize::try_from(high).ok());
        let (first, end) = place
            .filter(|(_, end)| *end <= child.len())
            .ok_or_else(|| wrong(array, "the lists"))?;
        if end - first == child.len() {
            self.add_part(array, 1, wide.bytes())?;
        } else {
            let mut moved = Vec::with_capacity(len * wide.bytes());
            for index in offset..offset + len {
                let place = wide.read(&starts, index).zip(wide.read(&sizes, index));
                let (start, size) = place.ok_or_else(|| short(array, 1))?;
                // An empty list may begin anywhere, also in what is cut off.
                wide.write(if size > 0 { start - low } else { 0 }, &mut moved);
            }
            self.buffers.push(Piece::Own(moved));
        }
        self.add_part(array, 2, wide.bytes())?;
        self.add(&child.slice(first, end - first)?)
    }

    /// The data buffers of views. Those that no view of a slice names travel empty.
    fn add_view_data(&mut self, array: &HostArray) -> Result<()> {
        let count = array.array().buffer_count().saturating_sub(3);
        let (offset, len) = (array.array().offset(), array.len());
        let mut is_used = vec![false; count];
        if len > 0 {
            let views = array.buffer(1)?;
            for index in offset..offset + len {
                let view = index.checked_mul(16).and_then(|start| views.get(start..start + 16));
                let view = view.ok_or_else(|| short(array, 1))?;
                let size = Wide::Four.read(view, 0).unwrap_or(0);
                let number = Wide::Four.read(view, 2).unwrap_or(0);
                if size > 12
                    && let Some(used) =
                        usize::try_from(number).ok().and_then(|number| is_used.get_mut(number))
                {
                    *used = true;
                }
            }
        }
        self.variadic_counts.push(count as i64);
        for (number, used) in is_used.into_iter().enumerate() {
            let bytes = if used { array.buffer(2 + number)?.len() } else { 0 };
            self.add_range(array, 2 + number, 0, bytes)?;
        }
        Ok(())
    }

    /// The offsets of a dense union, which begin at 0 in each child, and the used part of each.
    fn add_dense(&mut self, array: &HostArray, type_ids: &[i8]) -> Result<()> {
        let (offset, len) = (array.array().offset(), array.len());
        let mut ranges = vec![(i64::MAX, -1_i64); type_ids.len()];
        let mut number_of = [usize::MAX; 128];
        for (number, id) in type_ids.iter().enumerate() {
            if let Some(slot) = usize::try_from(*id).ok().and_then(|id| number_of.get_mut(id)) {
                *slot = number;
            }
        }
        let (ids, offsets) = (array.buffer(0)?, array.buffer(1)?);
        let place = |index: usize| {
            let id = ids.get(index).copied()?;
            let number = number_of.get(usize::from(id)).copied()?;
            Some((number, Wide::Four.read(&offsets, index)?))
        };
        let outside = || wrong(array, "the type ids or the offsets");
        for index in offset..offset + len {
            let (number, at) = place(index).ok_or_else(outside)?;
            let range = ranges.get_mut(number).ok_or_else(outside)?;
            *range = (range.0.min(at), range.1.max(at));
        }
        if ranges.iter().all(|(low, high)| *low == 0 || *high < 0) {
            self.add_part(array, 1, 4)?;
        } else {
            let mut moved = Vec::with_capacity(len * 4);
            for index in offset..offset + len {
                let (number, at) = place(index).ok_or_else(outside)?;
                let (low, _) = ranges.get(number).ok_or_else(outside)?;
                Wide::Four.write(at - low, &mut moved);
            }
            self.buffers.push(Piece::Own(moved));
        }
        for (number, (low, high)) in ranges.into_iter().enumerate() {
            let child = array.child(number)?;
            let used = if high < 0 { (0, 0) } else { (low, high + 1) };
            let used = usize::try_from(used.0).ok().zip(usize::try_from(used.1).ok());
            let (start, end) = used.filter(|(_, end)| *end <= child.len()).ok_or_else(outside)?;
            self.add(&child.slice(start, end - start)?)?;
        }
        Ok(())
    }

    /// The runs that a slice lies in, which end where the slice does.
    fn add_runs(&mut self, array: &HostArray, run_ends: &DataType) -> Result<()> {
        let (offset, len) = (array.array().offset() as i64, array.len() as i64);
        let (ends, values) = (array.child(0)?, array.child(1)?);
        let width = match run_ends {
            DataType::Int16 => 2,
            DataType::Int32 => 4,
            _ => 8,
        };
        let bytes = ends.buffer(1)?;
        let first = ends.array().offset();
        let end_of = |run: usize| -> Option<i64> {
            let at = bytes.get((first + run).checked_mul(width)?..)?;
            Some(match width {
                2 => i64::from(i16::from_ne_bytes(*at.first_chunk()?)),
                4 => i64::from(i32::from_ne_bytes(*at.first_chunk()?)),
                _ => i64::from_ne_bytes(*at.first_chunk()?),
            })
        };
        let outside = || wrong(array, "the run ends");
        let (mut moved, mut skipped, mut count) = (Vec::new(), 0_usize, 0_usize);
        for run in 0..ends.len() {
            if len == 0 {
                break;
            }
            let end = end_of(run).ok_or_else(outside)? - offset;
            if end <= 0 {
                skipped += 1;
                continue;
            }
            count += 1;
            let end = end.min(len);
            match width {
                2 => moved.extend_from_slice(&(end as i16).to_ne_bytes()),
                4 => moved.extend_from_slice(&(end as i32).to_ne_bytes()),
                _ => moved.extend_from_slice(&end.to_ne_bytes()),
            }
            if end == len {
                break;
            }
        }
        self.nodes.push((count as i64, 0));
        self.buffers.push(Piece::Nothing);
        self.buffers.push(if moved.is_empty() { Piece::Nothing } else { Piece::Own(moved) });
        self.add(&values.slice(skipped, count)?)
    }
}

/// The bits of a buffer from the first element on, in whole bytes.
fn bits(array: &HostArray, index: usize) -> Result<Piece> {
    let (offset, len) = (array.array().offset(), array.len());
    if len == 0 {
        return Ok(Piece::Nothing);
    }
    let bytes = array.buffer(index)?;
    let (start, end) = (offset / 8, (offset + len).div_ceil(8));
    let part = bytes.get(start..end).ok_or_else(|| short(array, index))?;
    let shift = offset % 8;
    if shift == 0 {
        return Ok(Piece::Of { array: array.clone(), index, start, end });
    }
    let following = part.iter().skip(1).chain(std::iter::once(&0));
    let moved = part.iter().zip(following);
    let moved = moved.map(|(low, high)| (low >> shift) | (high << (8 - shift)));
    Ok(Piece::Own(moved.take(len.div_ceil(8)).collect()))
}

/// How many of the first bits are set.
fn count_ones(bits: &[u8], len: usize) -> usize {
    let whole = bits.iter().take(len / 8).map(|byte| byte.count_ones() as usize).sum::<usize>();
    let rest = bits.get(len / 8).map_or(0, |byte| byte & ((1_u8 << (len % 8)) - 1));
    whole + rest.count_ones() as usize
}
