//! Nodes whose elements point anywhere into their children: list views, views, dense unions, and
//! run-end encoded arrays.
//!
//! The starts, views and offsets of the first three are called indices here. Where the host can
//! read the indices, one pass finds the smallest and the largest element that they refer to (see
//! [`narrow`]). The child or data buffer is cut to that range, and new indices that count from the
//! beginning of the range travel instead of the old ones.
//!
//! Run ends are not changed. A binary search finds the runs of the live elements, both children are
//! cut to these runs, and the array keeps its offset.
//!
//! Where only a device has the indices or run ends, they travel unchanged and the children travel
//! whole: reading all indices first would cost more than it saves.

use std::ops::Range;

use super::cut::Cut;
use super::narrow;
use super::piece::Change;
use super::walk::Walk;
use crate::array::{read_i32, read_i64};
use crate::copy::source::Span;
use crate::copy::step;
use crate::device::driver::Spot;
use crate::{BufferKind, DataType, Result};

impl Walk<'_> {
    /// Adds the indices of a node, and settles its children.
    ///
    /// # Safety
    /// W1 of [`walk`](super::walk::walk).
    pub(in crate::copy) unsafe fn follow_indices(&mut self, number: usize) -> Result<()> {
        let data_type = self.kind(number).field.data_type();
        let looks = self.terms.trims && self.terms.source.is_on_host();
        if self.terms.trims && !looks {
            let is_free = matches!(data_type, DataType::Utf8View | DataType::BinaryView)
                && self.data_buffers(number) == 0;
            if !is_free {
                self.note(number, Cut::Whole("its indices are on the device"));
            }
        }
        match data_type {
            DataType::ListView(_) | DataType::LargeListView(_) => {
                // SAFETY: W1, which the caller promises.
                unsafe { self.list_views(number, looks) }
            }
            DataType::Union { type_ids, .. } => {
                // SAFETY: W1, which the caller promises.
                unsafe { self.dense_union(number, type_ids, looks) }
            }
            DataType::RunEndEncoded { .. } => {
                // SAFETY: W1, which the caller promises.
                unsafe { self.runs(number, looks) }
            }
            _ => {
                // SAFETY: W1, which the caller promises.
                unsafe { self.views(number, looks) }
            }
        }
    }

    /// # Safety
    /// W1 of [`walk`](super::walk::walk).
    unsafe fn list_views(&mut self, number: usize, looks: bool) -> Result<()> {
        let is_wide = self.kind(number).layout.buffers().contains(&BufferKind::Starts64);
        let (starts, sizes) = match is_wide {
            true => (BufferKind::Starts64, BufferKind::Sizes64),
            false => (BufferKind::Starts32, BufferKind::Sizes32),
        };
        let child = self.children(number).start;
        if looks && let Some(span) = self.span_of(number, 1, starts) {
            // SAFETY: W1, which the caller promises.
            let mut changed = unsafe { self.bytes(Some(span)) }?;
            // SAFETY: W1, which the caller promises.
            let lens = unsafe { self.bytes(self.span_of(number, 2, sizes)) }?;
            let (skip, there) = (self.skip(number), self.whole(child).length);
            let range = match is_wide {
                true => {
                    let (read, write) = (i64::from_ne_bytes, i64::to_ne_bytes);
                    narrow::list_views(&mut changed, &lens, skip, there, read, write)
                }
                false => {
                    let read = |bytes| i64::from(i32::from_ne_bytes(bytes));
                    // The new start is smaller than the old one, which had 32 bits.
                    let write = |start: i64| (start as i32).to_ne_bytes();
                    narrow::list_views(&mut changed, &lens, skip, there, read, write)
                }
            };
            if let Some(range) = range {
                if range.end - range.start < there {
                    self.add(number, 1, span, Change::Made(changed.into()));
                    self.note(number, Cut::Narrowed);
                    return self.set_live(child, range);
                }
            } else {
                self.note(number, Cut::Whole("an index leads outside"));
            }
        }
        self.add_whole_indices(number, 1, starts);
        self.set_whole(child)
    }

    /// # Safety
    /// W1 of [`walk`](super::walk::walk).
    unsafe fn dense_union(&mut self, number: usize, known: &[i8], looks: bool) -> Result<()> {
        let children = self.children(number);
        let kind = BufferKind::UnionOffsets;
        if looks && let Some(span) = self.span_of(number, 1, kind) {
            // SAFETY: W1, which the caller promises.
            let mut changed = unsafe { self.bytes(Some(span)) }?;
            // SAFETY: W1, which the caller promises.
            let ids = unsafe { self.bytes(self.span_of(number, 0, BufferKind::TypeIds)) }?;
            let lens: Vec<i64> = children.clone().map(|child| self.whole(child).length).collect();
            match narrow::union_offsets(&ids, &mut changed, known, &lens) {
                Some(ranges) => {
                    self.add(number, 1, span, Change::Made(changed.into()));
                    self.note(number, Cut::Narrowed);
                    return children
                        .zip(ranges)
                        .try_for_each(|(child, range)| self.set_live(child, range));
                }
                None => self.note(number, Cut::Whole("an index leads outside")),
            }
        }
        self.add_whole_indices(number, 1, kind);
        self.set_all_whole(number)
    }

    /// # Safety
    /// W1 of [`walk`](super::walk::walk).
    unsafe fn runs(&mut self, number: usize, looks: bool) -> Result<()> {
        let children = self.children(number);
        let (ends, values) = (children.start, children.start + 1);
        let window = self.whole(ends);
        if !self.terms.trims {
            return self.set_all_whole(number);
        }
        let mut range = 0..window.length;
        if looks {
            let width = match self.kind(ends).field.data_type() {
                DataType::Int16 => 2,
                DataType::Int32 => 4,
                _ => 8,
            };
            let live = self.item(number).window;
            let elements = live.offset..live.end();
            let found = narrow::runs(elements, window.length, |run| {
                let offset = window.offset.saturating_add(run).unsigned_abs().saturating_mul(width);
                let spot = self.spot(ends, 1, offset);
                // SAFETY: W1, which the caller promises; `run` is one of those that are there.
                let bytes = unsafe { self.bytes(spot.map(|spot| Span { spot, len: width })) }?;
                let narrow =
                    || bytes.first_chunk().map(|bytes| i64::from(i16::from_ne_bytes(*bytes)));
                Ok::<_, crate::Error>(
                    match width {
                        2 => narrow(),
                        4 => read_i32(&bytes, 0).map(i64::from),
                        _ => read_i64(&bytes, 0),
                    }
                    .unwrap_or(i64::MAX),
                )
            })?;
            match found {
                Some(found) if found.end - found.start < window.length => {
                    range = found;
                    self.note(number, Cut::Narrowed);
                }
                Some(_) => {}
                None => self.note(number, Cut::Whole("an index leads outside")),
            }
        }
        self.set_live(ends, range.clone())?;
        self.set_live(values, range)
    }

    /// # Safety
    /// W1 of [`walk`](super::walk::walk).
    unsafe fn views(&mut self, number: usize, looks: bool) -> Result<()> {
        let count = self.data_buffers(number);
        let source = self.source(number);
        let known = self.terms.sizes.iter().find(|known| known.source == source);
        let lens: Vec<u64> = if let Some(known) = known {
            known.sizes.clone()
        } else {
            let array = self.array_of(number);
            (0..count).map(|data| array.data_buffer_len(data + 2, None)).collect::<Result<_>>()?
        };
        let mut ranges: Vec<Range<u64>> = lens.iter().map(|len| 0..*len).collect();
        let span = self.span_of(number, 1, BufferKind::Views);
        if looks
            && count > 0
            && let Some(span) = span
        {
            // SAFETY: W1, which the caller promises.
            let mut changed = unsafe { self.bytes(Some(span)) }?;
            let validity = self.span_of(number, 0, BufferKind::Validity);
            // SAFETY: W1, which the caller promises.
            let validity = unsafe { self.bytes(validity) }?;
            let (skip, has_nulls) = (self.skip(number), !validity.is_empty());
            // The bitmap does not begin at the same element as the indices that travel.
            let looks_at_nulls = has_nulls && self.item(number).window.null_count != 0;
            let is_valid = |index: usize| {
                validity.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
            };
            let is_live = |index: usize| index >= skip && (!looks_at_nulls || is_valid(index));
            match narrow::views(&mut changed, is_live, &lens) {
                Some(found) => {
                    ranges = found
                        .into_iter()
                        .map(|range| range.start.unsigned_abs()..range.end.unsigned_abs())
                        .collect();
                    self.add(number, 1, span, Change::Made(changed.into()));
                    self.note(number, Cut::Narrowed);
                }
                None => self.note(number, Cut::Whole("an index leads outside")),
            }
        }
        self.add_whole_indices(number, 1, BufferKind::Views);
        let mut sizes = Vec::with_capacity(count);
        for (data, range) in ranges.iter().enumerate() {
            let spot: Option<Spot> = self.spot(number, data + 2, range.start);
            let len = spot.map_or(0, |_| range.end - range.start);
            sizes.push(i64::try_from(len).unwrap_or(i64::MAX));
            if let Some(spot) = spot {
                self.add(number, data + 2, Span { spot, len }, Change::Nothing);
            }
        }
        self.set_sizes(number, sizes);
        Ok(())
    }

    /// Adds the indices unchanged, unless new ones were made.
    fn add_whole_indices(&mut self, number: usize, index: usize, kind: BufferKind) {
        if self.is_filled(number, index) {
            return;
        }
        if let Some(span) = self.span_of(number, index, kind) {
            self.add(number, index, span, Change::Nothing);
        }
    }

    fn skip(&self, number: usize) -> usize {
        self.item(number).skipped() as usize
    }

    /// Reads a span of the source on the host.
    ///
    /// # Safety
    /// W1 of [`walk`](super::walk::walk).
    unsafe fn bytes(&self, span: Option<Span>) -> Result<Vec<u8>> {
        let Some(span) = span else { return Ok(Vec::new()) };
        // SAFETY: W1, which the caller promises; the span is that of elements of the array, which
        // its buffers cover.
        unsafe { self.terms.source.read(&[span], step::LEARN) }
    }
}
