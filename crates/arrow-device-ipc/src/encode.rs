//! Takes an array apart into what a message has: nodes for the header, and the bytes of buffers for
//! the body.
//!
//! An array in IPC begins with the first element of its buffers, so a slice is cut: bitmaps are
//! shifted to whole bytes, offsets are made to begin at 0, and children are cut to what the offsets
//! lead to. Only the numbers that decide on the cuts are read here: for strings and lists the first
//! and last offset, for list views, views, dense unions and runs those of each element. A bitmap is
//! read where nobody knows how many elements are null, because the header has that number. The
//! bytes of the buffers are read when they are [written](crate::pieces::write_pieces). What must
//! stay true: each number that was read is checked before it cuts a child, because a producer may
//! have written nonsense.

use arrow_device::{BufferKind, DataType, Error, ErrorKind, Layout, Result, UnionMode};

use crate::cut_views::{CutData, CutViews};
use crate::pieces::{Change, Changed, Input, Piece};
use crate::problem::refused;
use crate::source::{Elements, Node, Source};

/// The nodes and buffers of a batch or of the values of a dictionary, in the order of the format.
#[derive(Default)]
pub(crate) struct Pieces {
    /// The lengths and the counts of nulls.
    pub(crate) nodes: Vec<(i64, i64)>,
    pub(crate) buffers: Vec<Piece>,
    pub(crate) variadic_counts: Vec<i64>,
    cuts_views: bool,
}

#[cold]
fn wrong(node: &Node, what: &str) -> Error {
    refused(ErrorKind::InvalidData, format!("{what} of {} lead outside", node.data_type()))
}

/// The width of a number: 32 or 64 bits, or 16 bits, which only run ends have.
#[derive(Clone, Copy)]
pub(crate) enum Wide {
    Two,
    Four,
    Eight,
}

impl Wide {
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    pub(crate) fn read(self, bytes: &[u8], index: usize) -> Option<i64> {
        let rest = bytes.get(index.checked_mul(self.bytes() as usize)?..)?;
        match self {
            Self::Two => rest.first_chunk().map(|bytes| i64::from(i16::from_ne_bytes(*bytes))),
            Self::Four => rest.first_chunk().map(|bytes| i64::from(i32::from_ne_bytes(*bytes))),
            Self::Eight => rest.first_chunk().map(|bytes| i64::from_ne_bytes(*bytes)),
        }
    }

    /// Appends a number. It fits into the width, because it is no larger than a number of that
    /// width that was read.
    pub(crate) fn write(self, number: i64, to: &mut Vec<u8>) {
        match self {
            Self::Two => to.extend_from_slice(&(number as i16).to_ne_bytes()),
            Self::Four => to.extend_from_slice(&(number as i32).to_ne_bytes()),
            Self::Eight => to.extend_from_slice(&number.to_ne_bytes()),
        }
    }
}

/// Reads two numbers of a buffer, `None` where the buffer is too short.
fn two_numbers(source: &Source, wide: Wide, at: [usize; 2]) -> Result<Option<[i64; 2]>> {
    let width = wide.bytes();
    let mut found = [0; 2];
    for (at, found) in at.into_iter().zip(&mut found) {
        let start = (at as u64).checked_mul(width);
        let end = start.and_then(|start| start.checked_add(width));
        let Some((start, end)) = start.zip(end).filter(|(_, end)| *end <= source.len()) else {
            return Ok(None);
        };
        let number = source.show(start..end, |bytes| wide.read(bytes, 0))?;
        *found = number.unwrap_or_default();
    }
    Ok(Some(found))
}

impl Pieces {
    /// No pieces. `cuts_views` says whether slices of views are [cut](crate::cut_views).
    pub(crate) fn new(cuts_views: bool) -> Self {
        Self { cuts_views, ..Self::default() }
    }

    /// Adds an array and all below it.
    pub(crate) fn add(&mut self, array: &Node) -> Result<()> {
        let data_type = array.data_type();
        let layout = Layout::of(data_type);
        let (len, offset) = (array.len(), array.offset());
        let nulls = if matches!(data_type, DataType::Null) {
            len
        } else if layout.has_validity() {
            self.add_validity(array)?
        } else {
            0
        };
        // The node comes before the nodes of the children, which are added below.
        self.nodes.push((len as i64, nulls as i64));
        for (index, kind) in layout.buffers().iter().enumerate() {
            match *kind {
                BufferKind::Bits => self.buffers.push(bits(array, index)?),
                BufferKind::Fixed { width } => self.add_part(array, index, u64::from(width))?,
                BufferKind::TypeIds => self.add_part(array, index, 1)?,
                BufferKind::Views => self.add_part(array, index, 16)?,
                // Buffers that lead to other data are written together with that data.
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
                self.add(&array.part(0, start, count)?)
            }
            DataType::Struct(fields) => {
                (0..fields.len()).try_for_each(|index| self.add(&array.part(index, offset, len)?))
            }
            DataType::Union { mode: UnionMode::Sparse, fields, .. } => {
                (0..fields.len()).try_for_each(|index| self.add(&array.part(index, offset, len)?))
            }
            DataType::Union { mode: UnionMode::Dense, type_ids, .. } => {
                self.add_dense(array, type_ids)
            }
            DataType::RunEndEncoded { run_ends, .. } => self.add_runs(array, run_ends.data_type()),
            _ => Ok(()),
        }
    }

    /// Adds the bitmap, or an empty one where no element is null. Returns how many are.
    fn add_validity(&mut self, array: &Node) -> Result<usize> {
        let known = array.array().null_count();
        let has_none = known == Some(0) || array.len() == 0 || array.buffer(0)?.len() == 0;
        let piece = if has_none { Piece::Nothing } else { bits(array, 0)? };
        let nulls = match known {
            _ if has_none => 0,
            Some(nulls) => nulls,
            None => array.count_nulls()?,
        };
        self.buffers.push(if nulls == 0 { Piece::Nothing } else { piece });
        Ok(nulls)
    }

    /// Adds the elements of a buffer, of `width` bytes each.
    fn add_part(&mut self, array: &Node, index: usize, width: u64) -> Result<()> {
        let (offset, len) = (array.offset() as u64, array.len() as u64);
        let start = offset.checked_mul(width).ok_or_else(|| array.short(index))?;
        let count = len.checked_mul(width).ok_or_else(|| array.short(index))?;
        if count == 0 {
            self.buffers.push(Piece::Nothing);
            return Ok(());
        }
        self.add_range(array, array.buffer(index)?, index, start, count)
    }

    fn add_range(
        &mut self,
        array: &Node,
        source: Source,
        index: usize,
        start: u64,
        len: u64,
    ) -> Result<()> {
        if len == 0 {
            self.buffers.push(Piece::Nothing);
            return Ok(());
        }
        let end = start.checked_add(len).filter(|end| *end <= source.len());
        let end = end.ok_or_else(|| array.short(index))?;
        self.buffers.push(Piece::Of { source, range: start..end });
        Ok(())
    }

    fn add_changed(&mut self, inputs: Inputs, count: usize, change: Change) {
        let Inputs { first, second } = inputs;
        let changed = Changed { first, second, count: count as u64, change };
        self.buffers.push(Piece::Changed(Box::new(changed)));
    }

    /// Adds the offsets of an array, changed to begin at 0. Returns the range of the child that
    /// they lead to.
    fn add_offsets(&mut self, array: &Node, wide: Wide) -> Result<(usize, usize)> {
        let (offset, len) = (array.offset(), array.len());
        if len == 0 {
            self.buffers.push(Piece::Own(vec![0; wide.bytes() as usize]));
            return Ok((0, 0));
        }
        let offsets = array.buffer(1)?;
        let ends = two_numbers(&offsets, wide, [offset, offset + len])?;
        let [first, last] = ends.ok_or_else(|| array.short(1))?;
        let range = usize::try_from(first).ok().zip(usize::try_from(last).ok());
        let range = range.filter(|(first, last)| first <= last);
        let range = range.ok_or_else(|| wrong(array, "the offsets"))?;
        let start = offset as u64 * wide.bytes();
        if first == 0 {
            self.add_range(array, offsets, 1, start, (len as u64 + 1) * wide.bytes())?;
        } else {
            let input = Input { source: offsets, start, width: wide.bytes() };
            self.add_changed(Inputs::one(input), len + 1, Change::Offsets { wide, first });
        }
        Ok(range)
    }

    fn add_variable(&mut self, array: &Node, wide: Wide) -> Result<()> {
        let (start, end) = self.add_offsets(array, wide)?;
        if start == end {
            self.buffers.push(Piece::Nothing);
            return Ok(());
        }
        let source = array.buffer(2)?;
        self.add_range(array, source, 2, start as u64, (end - start) as u64)
    }

    fn add_list(&mut self, array: &Node, wide: Wide) -> Result<()> {
        let (start, end) = self.add_offsets(array, wide)?;
        let child = array.child(0)?;
        if end > child.len() {
            return Err(wrong(array, "the offsets"));
        }
        self.add(&child.slice(start, end - start)?)
    }

    /// Adds the starts and the sizes of the lists of a list view, and the part of the child that
    /// contains all of these lists.
    fn add_list_view(&mut self, array: &Node, wide: Wide) -> Result<()> {
        let (offset, len) = (array.offset(), array.len());
        let child = array.child(0)?;
        if len == 0 {
            self.buffers.extend([Piece::Nothing, Piece::Nothing]);
            return self.add(&child.slice(0, 0)?);
        }
        let (starts, sizes) = (array.buffer(1)?, array.buffer(2)?);
        let (mut low, mut high) = (i64::MAX, 0);
        let width = wide.bytes();
        let both = Elements { first: (&starts, width), second: Some((&sizes, width)) };
        let walked = both.walk(offset..offset + len, |elements, starts, sizes| {
            for index in 0..elements.len() {
                let place = wide.read(starts, index).zip(wide.read(sizes, index));
                let (start, size) = place.ok_or_else(|| array.short(1))?;
                if size > 0 {
                    let end = start.checked_add(size);
                    let end = end.ok_or_else(|| wrong(array, "the lists"))?;
                    (low, high) = (low.min(start), high.max(end));
                }
            }
            Ok(true)
        })?;
        walked.ok_or_else(|| array.short(1))?;
        let low = if high == 0 { 0 } else { low };
        let place = usize::try_from(low).ok().zip(usize::try_from(high).ok());
        let (first, end) = place
            .filter(|(_, end)| *end <= child.len())
            .ok_or_else(|| wrong(array, "the lists"))?;
        if end - first == child.len() {
            self.add_part(array, 1, width)?;
        } else {
            let input = |source| Input { source, start: offset as u64 * width, width };
            let inputs = Inputs { first: input(starts), second: Some(input(sizes)) };
            self.add_changed(inputs, len, Change::Starts { wide, low });
        }
        self.add_part(array, 2, width)?;
        self.add(&child.slice(first, end - first)?)
    }

    /// Adds the data buffers of views. A data buffer that no view of the slice names is written
    /// empty.
    fn add_view_data(&mut self, array: &Node) -> Result<()> {
        let count = array.array().buffer_count().saturating_sub(3);
        let (offset, len) = (array.offset(), array.len());
        if self.cuts_views
            && let Node::Host(host) = array
            && let Some(cut) = CutViews::of_slice(host, count)?
        {
            return self.add_cut_views(array, cut);
        }
        let mut is_used = vec![false; count];
        if len > 0 && count > 0 {
            let views = array.buffer(1)?;
            let views = Elements { first: (&views, 16), second: None };
            let walked = views.walk(offset..offset + len, |_, views, _| {
                for view in views.chunks_exact(16) {
                    let size = Wide::Four.read(view, 0).unwrap_or(0);
                    let number = Wide::Four.read(view, 2).unwrap_or(0);
                    if size > 12
                        && let Some(used) =
                            usize::try_from(number).ok().and_then(|number| is_used.get_mut(number))
                    {
                        *used = true;
                    }
                }
                Ok(is_used.contains(&false))
            })?;
            walked.ok_or_else(|| array.short(1))?;
        }
        self.variadic_counts.push(count as i64);
        for (number, used) in is_used.into_iter().enumerate() {
            if used {
                let source = array.buffer(2 + number)?;
                let len = source.len();
                self.add_range(array, source, 2 + number, 0, len)?;
            } else {
                self.buffers.push(Piece::Nothing);
            }
        }
        Ok(())
    }

    /// Adds the data buffers of a slice of views, and puts the changed views in the place of those
    /// that were added before.
    fn add_cut_views(&mut self, array: &Node, cut: CutViews) -> Result<()> {
        let CutViews { views, data } = cut;
        if let Some(before) = self.buffers.last_mut() {
            *before = Piece::Own(views);
        }
        self.variadic_counts.push(data.len() as i64);
        for (number, data) in data {
            self.buffers.push(match data {
                CutData::Range(range) => Piece::Of { source: array.buffer(2 + number)?, range },
                CutData::Gathered(bytes) => Piece::Own(bytes),
            });
        }
        Ok(())
    }

    /// Adds the offsets of a dense union, changed to begin at 0 in each child, and the used part of
    /// each child.
    fn add_dense(&mut self, array: &Node, type_ids: &[i8]) -> Result<()> {
        let (offset, len) = (array.offset(), array.len());
        let mut ranges = vec![(i64::MAX, -1_i64); type_ids.len()];
        let mut number_of = [usize::MAX; 128];
        for (number, id) in type_ids.iter().enumerate() {
            if let Some(slot) = usize::try_from(*id).ok().and_then(|id| number_of.get_mut(id)) {
                *slot = number;
            }
        }
        let outside = || wrong(array, "the type ids or the offsets");
        let (ids, offsets) = (array.buffer(0)?, array.buffer(1)?);
        let both = Elements { first: (&ids, 1), second: Some((&offsets, 4)) };
        let walked = both.walk(offset..offset + len, |elements, ids, offsets| {
            for index in 0..elements.len() {
                let number = ids.get(index).and_then(|id| number_of.get(usize::from(*id)));
                let range = number.and_then(|number| ranges.get_mut(*number));
                let place = range.zip(Wide::Four.read(offsets, index));
                let (range, at) = place.ok_or_else(outside)?;
                *range = (range.0.min(at), range.1.max(at));
            }
            Ok(true)
        })?;
        walked.ok_or_else(outside)?;
        let is_used = |low: i64| low < i64::MAX;
        if ranges.iter().all(|(low, _)| *low == 0 || !is_used(*low)) {
            self.add_part(array, 1, 4)?;
        } else {
            // Indexed by type id. The walk has just found that each id in the data is that of a
            // child.
            let low_of = |number: &usize| ranges.get(*number).map_or(0, |(low, _)| *low);
            let lows = number_of.iter().map(low_of).collect();
            let first = Input { source: ids, start: offset as u64, width: 1 };
            let second = Input { source: offsets, start: offset as u64 * 4, width: 4 };
            let inputs = Inputs { first, second: Some(second) };
            self.add_changed(inputs, len, Change::Places { lows });
        }
        for (number, (low, high)) in ranges.into_iter().enumerate() {
            let child = array.child(number)?;
            let used = if is_used(low) { (low, high + 1) } else { (0, 0) };
            let used = usize::try_from(used.0).ok().zip(usize::try_from(used.1).ok());
            let (start, end) = used.filter(|(_, end)| *end <= child.len()).ok_or_else(outside)?;
            self.add(&child.slice(start, end - start)?)?;
        }
        Ok(())
    }

    /// Adds the runs that the slice lies in. The last run ends where the slice does.
    fn add_runs(&mut self, array: &Node, run_ends: &DataType) -> Result<()> {
        let (offset, len) = (array.offset() as i64, array.len() as i64);
        let (ends, values) = (array.child(0)?, array.child(1)?);
        let wide = match run_ends {
            DataType::Int16 => Wide::Two,
            DataType::Int32 => Wide::Four,
            _ => Wide::Eight,
        };
        let width = wide.bytes();
        let source = ends.buffer(1)?;
        let first = ends.offset();
        let runs = if len == 0 { 0 } else { ends.len() };
        let outside = || wrong(array, "the run ends");
        let walk = Elements { first: (&source, width), second: None };
        let ends_before = |end: &[u8]| wide.read(end, 0).is_some_and(|end| end <= offset);
        let start = walk.skip_sorted(first..first + runs, ends_before)?.ok_or_else(outside)?;
        let (mut skipped, mut count) = (start - first, 0_usize);
        let walked = walk.walk(start..first + runs, |elements, ends, _| {
            for index in 0..elements.len() {
                let end = wide.read(ends, index).ok_or_else(outside)?;
                let end = end.saturating_sub(offset);
                // Runs before the first one that reaches into the slice are skipped. A later end
                // that is not above 0 is nonsense, and is kept.
                if end <= 0 && count == 0 {
                    skipped += 1;
                    continue;
                }
                count += 1;
                if end >= len {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        walked.ok_or_else(outside)?;
        self.nodes.push((count as i64, 0));
        self.buffers.push(Piece::Nothing);
        if count == 0 {
            self.buffers.push(Piece::Nothing);
        } else {
            let start = (first + skipped) as u64 * width;
            let input = Input { source, start, width };
            self.add_changed(Inputs::one(input), count, Change::Runs { wide, offset, len });
        }
        self.add(&values.slice(skipped, count)?)
    }
}

/// The inputs of a buffer that is changed.
struct Inputs {
    first: Input,
    second: Option<Input>,
}

impl Inputs {
    fn one(first: Input) -> Self {
        Self { first, second: None }
    }
}

/// Returns the bits of a buffer from the array's first element on, moved to begin with a byte.
fn bits(array: &Node, index: usize) -> Result<Piece> {
    let (offset, len) = (array.offset() as u64, array.len() as u64);
    if len == 0 {
        return Ok(Piece::Nothing);
    }
    let source = array.buffer(index)?;
    let (start, end) = (offset / 8, (offset + len).div_ceil(8));
    if end > source.len() {
        return Err(array.short(index));
    }
    let shift = (offset % 8) as u32;
    if shift == 0 {
        return Ok(Piece::Of { source, range: start..end });
    }
    let first = Input { source, start, width: 1 };
    let change = Change::Shift { by: shift, end };
    let changed = Changed { first, second: None, count: len.div_ceil(8), change };
    Ok(Piece::Changed(Box::new(changed)))
}
