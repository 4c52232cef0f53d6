//! Columns of which one look says what travels: nothing is below them, there is no bitmap, and
//! their elements are of a fixed width, or texts whose offsets the host reads.
//!
//! Most columns are such. Whatever else is there, and whatever is wrong, [`Walk::look_at`] finds
//! with a closer look.

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
    /// Settles a child of which a range of elements travels, counted from its first one; `false`
    /// where it needs a closer look.
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

    /// Settles one with elements of so many bytes.
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

    /// Settles one with offsets of so many bytes, and the bytes that they lead to.
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
        let leads_inside = unsafe { self.check_bytes(node, last) }.is_ok();
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

    /// Says what a child will be; `false` if there is no room for it. Its slots are still to come.
    #[inline(always)]
    fn settle_column(&mut self, child: usize, node: &ArrayNode, range: &Range<i64>) -> bool {
        let begin = self.slots.len();
        let has_room = begin < (NO_PIECE - node.n_buffers) as usize;
        let whole = node.window;
        let window = Window { offset: 0, ..whole.part(range.start, range.end - range.start) };
        if !has_room || !self.set_settled(child, window, node.n_buffers, begin as u32) {
            return false;
        }
        if whole.offset > 0 || window.length < whole.length {
            let cut = Cut::Window { elements: window.length, of: whole.end(), kept: 0 };
            self.note(child, cut);
        }
        true
    }
}

/// The buffers of a node that has so many behind its bitmap, and no bitmap.
#[inline(always)]
fn buffers_behind_bitmap<const COUNT: usize>(node: &ArrayNode) -> Option<[Raw<Memory>; COUNT]> {
    if node.n_buffers as usize != 1 + COUNT || !node.buffer(0).is_null() {
        return None;
    }
    let buffers = std::array::from_fn(|index| node.buffer(1 + index));
    let are_there = buffers.iter().all(|buffer| !buffer.is_null());
    are_there.then(|| buffers.map(|buffer| Raw::from_ptr(buffer.cast_mut())))
}
