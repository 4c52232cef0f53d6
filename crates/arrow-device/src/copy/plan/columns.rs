//! The fast path of [`Walk`] for plain columns.
//!
//! A plain column has nothing below it, no bitmap, and at least one live element. Its elements have
//! a fixed width, or are texts whose offsets the host can read. Most columns are plain. The fast
//! path is taken where a copy trims and its source can be copied byte by byte:
//!
//! 1. The elements that travel are checked against the column's window.
//! 2. A column of fixed width gives one piece: the bytes of these elements.
//! 3. A column of texts gives a piece of offsets and, if there are any, a piece of bytes. The first
//!    and the last offset are read in place and checked. They bound the bytes that travel, and the
//!    offsets are rebased to 0.
//!
//! Why this is fast: the column is settled while its parent is looked at. The numbers of the
//! column's rule are enough, and its type is not looked at.
//!
//! What must stay true: for a plain column, the same bytes travel and the same cuts are noted as
//! `Walk::settle_node` would find. A column that is not plain, or that is wrong in any way, is left
//! to `Walk::settle_node`, which also finds the words of an error.

use std::ops::Range;

use super::cut::Cut;
use super::lengths::read_offset;
use super::piece::Change;
use super::rebase::Rebase;
use super::walk::{NO_PIECE, Walk};
use crate::Memory;
use crate::array::{ArrayNode, Window};
use crate::copy::source::CopySource;
use crate::device::driver::{Raw, Spot};
use crate::numbered::numbered;
use crate::schema::Check;

impl Walk<'_> {
    /// Settles a child whose elements in `range` travel. The range counts from the child's first
    /// element. Returns `false`, and changes nothing, where the child is no plain column.
    ///
    /// # Safety
    /// W1 of [`walk`](super::walk::walk); the node is that of the child.
    #[inline(always)]
    pub(in crate::copy) unsafe fn add_column(
        &mut self,
        child: usize,
        node: &ArrayNode,
        check: &Check,
        range: &Range<i64>,
    ) -> bool {
        let whole = node.window;
        let is_inside = range.start >= 0
            && range.start < range.end
            && range.end <= whole.length
            && whole.offset >= 0;
        let is_simple = is_inside && self.terms.trims && self.terms.unit == 1 && check.is_leaf;
        if !is_simple {
            return false;
        }
        let rule = numbered(self.schema.rules().get(check.rule as usize));
        // The rule of the type says that no size in bytes overflows.
        let first = (whole.offset + range.start).cast_unsigned();
        let live = first..first + (range.end - range.start).cast_unsigned();
        match (rule.width, rule.buffers) {
            (0, _) => false,
            (width, 2) => self.add_flat(child, node, range, live, width.into()),
            // SAFETY: W1, which the caller promises; the elements are inside the node, as was seen.
            (width, _) => unsafe { self.add_texts(child, node, range, live, width.into()) },
        }
    }

    /// Settles a column whose elements have `width` bytes.
    #[inline(always)]
    fn add_flat(
        &mut self,
        child: usize,
        node: &ArrayNode,
        range: &Range<i64>,
        live: Range<u64>,
        width: u64,
    ) -> bool {
        let Some([base]) = buffers_behind_bitmap(node) else { return false };
        if !self.settle_column(child, node, range) {
            return false;
        }
        let from = Spot { base, offset: live.start * width };
        let values = self.pieces.add(from, (live.end - live.start) * width, Change::Nothing);
        self.slots.extend_from_slice(&[NO_PIECE, values]);
        true
    }

    /// Settles a column of texts, whose offsets have `width` bytes.
    ///
    /// # Safety
    /// W1 of [`walk`](super::walk::walk); the elements are inside the node, which is that of the
    /// child.
    #[inline(always)]
    unsafe fn add_texts(
        &mut self,
        child: usize,
        node: &ArrayNode,
        range: &Range<i64>,
        live: Range<u64>,
        width: u64,
    ) -> bool {
        let (CopySource::Host, Some([offsets, bytes])) =
            (self.terms.source, buffers_behind_bitmap(node))
        else {
            return false;
        };
        let is_wide = width == 8;
        let own = Spot { base: offsets, offset: live.start * width };
        // SAFETY: W1, which the caller keeps: the source is ready, and has offsets up to the end of
        // the array (UNS-4, or the builder's check).
        let first = unsafe { read_offset(own, is_wide) };
        // SAFETY: W1, which the caller keeps: the source is ready, and has offsets up to the end of
        // the array (UNS-4, or the builder's check).
        let last = unsafe { read_offset(Spot { offset: live.end * width, ..own }, is_wide) };
        // SAFETY: W1, which the caller promises.
        let leads_inside = unsafe { self.check_bytes(child, node, last) }.is_ok();
        if first < 0 || first > last || !leads_inside || !self.settle_column(child, node, range) {
            return false;
        }
        self.learned.reads += 2;
        self.learned.bytes += 2 * width;
        let begin = first.cast_unsigned();
        let change = if first == 0 {
            Change::Nothing
        } else {
            self.note(child, Cut::Rebased { first, bytes: begin });
            Change::Rebase(Rebase { is_wide, first, skip: 0 })
        };
        let own = self.pieces.add(own, (live.end - live.start + 1) * width, change);
        let behind = match (last - first).cast_unsigned() {
            0 => NO_PIECE,
            len => self.pieces.add(Spot { base: bytes, offset: begin }, len, Change::Nothing),
        };
        self.slots.extend_from_slice(&[NO_PIECE, own, behind]);
        true
    }

    /// Records what a child will be in the result; `false` if there is no room for its slots. The
    /// caller adds the slots.
    #[inline(always)]
    fn settle_column(&mut self, child: usize, node: &ArrayNode, range: &Range<i64>) -> bool {
        let begin = self.slots.len();
        if begin >= (NO_PIECE - node.n_buffers) as usize {
            return false;
        }
        let whole = node.window;
        let part = whole.part(range.start, range.end - range.start);
        // There is no bitmap, so an unknown count is 0.
        let window = Window { offset: 0, null_count: part.null_count.max(0), ..part };
        self.set_settled(child, window, node.n_buffers, begin as u32);
        if whole.offset > 0 || window.length < whole.length {
            let cut = Cut::Window { elements: window.length, of: whole.end(), kept: 0 };
            self.note(child, cut);
        }
        true
    }
}

/// The buffers behind the bitmap of a node. `None` where the node has a bitmap, or another number
/// of buffers.
#[inline(always)]
fn buffers_behind_bitmap<const COUNT: usize>(node: &ArrayNode) -> Option<[Raw<Memory>; COUNT]> {
    if node.n_buffers as usize != 1 + COUNT || !node.buffer(0).is_null() {
        return None;
    }
    let buffers = std::array::from_fn(|index| node.buffer(1 + index));
    let are_there = buffers.iter().all(|buffer| !buffer.is_null());
    are_there.then(|| buffers.map(|buffer| Raw::from_ptr(buffer.cast_mut())))
}

#[cfg(test)]
mod tests {
    use super::super::cut::Note;
    use super::super::walk::{Terms, Walked, walk};
    use super::*;
    use crate::{Array, Batch, Buffer, DataType, Result};

    /// Numbers without an order, the same in each run.
    struct Choices(u64);

    impl Choices {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % bound
        }
    }

    fn walked(array: &Array) -> Result<Walked> {
        let source = &CopySource::Host;
        let (trims, is_direct, unit, alignment) = (true, false, 1, 64);
        let terms = Terms { array, source, trims, is_direct, unit, alignment, sizes: &[] };
        // SAFETY: W1: the host reads the array, whose memory is host memory and ready.
        unsafe { walk(terms) }
    }

    /// What travels of a node and what was cut off, in words.
    fn settled(walked: &Walked, node: usize) -> String {
        let item = &walked.items[node];
        let slots = item.first_slot as usize..(item.first_slot + item.n_buffers) as usize;
        let pieces = walked.slots[slots].iter().map(|slot| {
            let piece = walked.pieces.list().get(*slot as usize);
            piece.map(|piece| (piece.from, piece.len, &piece.change))
        });
        let Window { offset, length, null_count } = item.window;
        let notes = walked.notes.iter().filter(|note| note.node() as usize == node);
        let (pieces, cuts): (Vec<_>, Vec<_>) = (pieces.collect(), notes.map(Note::cut).collect());
        format!("{offset}+{length}, {null_count} nulls, {pieces:?}, {cuts:?}")
    }

    /// A column of some type, with or without a bitmap. Every 16th column of texts has an offset
    /// that runs backwards or leads outside.
    fn column(choices: &mut Choices, rows: usize) -> Array {
        let offset = choices.below(3) as usize;
        let count = offset + rows;
        let texts = |choices: &mut Choices| {
            let mut end = choices.below(3);
            let mut offsets = vec![end];
            for _ in 0..count {
                end += choices.below(4);
                offsets.push(end);
            }
            if choices.below(16) == 0 {
                let wrong = [u64::from(u32::MAX >> 2), 0][choices.below(2) as usize];
                offsets[choices.below(count as u64) as usize + 1] = wrong;
            }
            let bytes = Buffer::from(vec![b'x'; end as usize + 1]);
            (offsets, bytes)
        };
        let numbers = || Buffer::from(vec![7_i64; 2 * count]);
        let (data_type, mut buffers) = match choices.below(7) {
            0 => (DataType::Int8, vec![Some(numbers())]),
            1 => (DataType::Float64, vec![Some(numbers())]),
            2 => (DataType::FixedSizeBinary(3), vec![Some(numbers())]),
            3 => (DataType::Decimal128 { precision: 9, scale: 2 }, vec![Some(numbers())]),
            4 => (DataType::Boolean, vec![Some(numbers())]),
            5 => {
                let (offsets, bytes) = texts(choices);
                let offsets: Vec<i32> = offsets.into_iter().map(|end| end as i32).collect();
                (DataType::Utf8, vec![Some(offsets.into()), Some(bytes)])
            }
            _ => {
                let (offsets, bytes) = texts(choices);
                let offsets: Vec<i64> = offsets.into_iter().map(|end| end as i64).collect();
                (DataType::LargeBinary, vec![Some(offsets.into()), Some(bytes)])
            }
        };
        let bitmap = Buffer::from(vec![u8::MAX; count.div_ceil(8)]);
        let null_count = if choices.below(4) == 0 { Some(choices.below(2) as usize) } else { None };
        buffers.insert(0, null_count.map(|_| bitmap));
        let builder = Array::builder(data_type).offset(offset).len(rows).buffers(buffers);
        match null_count {
            Some(count) => builder.null_count(count).finish_ready().unwrap(),
            None => builder.finish_ready().unwrap(),
        }
    }

    #[test]
    fn a_column_of_a_batch_is_settled_as_it_is_alone() {
        let mut choices = Choices(1);
        let (mut same, mut wrong) = (0, 0);
        for _ in 0..if cfg!(miri) { 20 } else { 3000 } {
            let rows = 1 + choices.below(20) as usize;
            let columns = [(); 3].map(|()| column(&mut choices, rows));
            let first = choices.below(rows as u64) as usize;
            let length = 1 + choices.below((rows - first) as u64) as usize;
            let named = ["a", "b", "c"].into_iter().zip(columns.clone());
            let batch = Batch::from_columns(named).unwrap().slice(first, length).unwrap();
            // A root is never settled by the fast path.
            let alone = columns.map(|column| walked(&column.slice(first, length).unwrap()));
            let Ok(together) = walked(batch.as_array()) else {
                assert!(alone.iter().any(Result::is_err), "{first}+{length} of {batch:?}");
                wrong += 1;
                continue;
            };
            let mut learned = (0, 0);
            for (index, alone) in alone.into_iter().enumerate() {
                let alone = alone.unwrap_or_else(|error| panic!("column {index}: {error}"));
                let (found, expected) = (settled(&together, index + 1), settled(&alone, 0));
                assert_eq!(found, expected, "column {index}, {first}+{length} of {batch:?}");
                learned.0 += alone.learned.reads;
                learned.1 += alone.learned.bytes;
                same += 1;
            }
            assert_eq!((together.learned.reads, together.learned.bytes), learned);
        }
        let least = if cfg!(miri) { (0, 0) } else { (1000, 10) };
        assert!(same >= least.0 && wrong >= least.1, "{same} are the same, {wrong} are wrong");
    }
}
