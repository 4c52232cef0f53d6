//! Lengths that only the data tells: where the live elements of strings and lists begin and end in
//! the buffer or child behind their offsets.
//!
//! For each node with offsets:
//!
//! 1. The places of the first and the last offset of the live elements are noted (`await_offsets`).
//!    The offsets of all nodes of one level are read together (`learn`): in place where the host
//!    reads the source, and otherwise with one submission and one wait.
//! 2. Both offsets are checked: not negative, in order, and inside the bytes or the child
//!    (`settle`).
//! 3. If the first offset is not 0, what is before that offset stays behind, and the offsets are
//!    rebased to 0. On a way through host memory that costs nothing. On a direct way the offsets
//!    have to go to the host and back. Where this detour would move more bytes than it saves, the
//!    bytes before the first offset travel too (`begins_there`).
//! 4. The live elements of a list's child are those between the two offsets. The offsets of the
//!    child belong to the next level.
//!
//! What must stay true: offsets are numbers of another party, so none is used before it was
//! checked.

use super::cut::Cut;
use super::piece::Change;
use super::rebase::Rebase;
use super::walk::{Awaited, Walk, invalid};
use crate::array::{ArrayNode, DATA, check_last_offset, read_i32, read_i64};
use crate::copy::source::{CopySource, Span, host_address};
use crate::copy::step;
use crate::device::driver::{Raw, Spot};
use crate::schema::Schema;
use crate::{BufferKind, DataType, Extent, Result};

/// Where the live elements of a node begin and end in the buffer or child behind its offsets.
#[derive(Clone, Copy, Debug)]
pub(in crate::copy) struct Ends {
    first: i64,
    last: i64,
}

impl Awaited {
    fn width(&self) -> u64 {
        if self.is_wide { 8 } else { 4 }
    }

    /// Reads both offsets from host memory.
    ///
    /// # Safety
    /// The offsets are there, and ready.
    unsafe fn read_in_place(&self) -> Ends {
        // SAFETY: they are there, and ready, as the caller promises.
        let read = |span: Span| unsafe { read_offset(span.spot, self.is_wide) };
        self.spans.map_or(Ends { first: -1, last: -1 }, |[first, last]| Ends {
            first: read(first),
            last: read(last),
        })
    }
}

/// The places of the offsets that are awaited, in the same order.
pub(super) fn spans_of(awaited: &[Awaited]) -> Vec<Span> {
    let mut spans = Vec::with_capacity(2 * awaited.len());
    spans.extend(awaited.iter().filter_map(|node| node.spans).flatten());
    spans
}

/// Reads an offset from host memory.
///
/// # Safety
/// The offset is there, and ready.
#[inline(always)]
pub(in crate::copy) unsafe fn read_offset(spot: Spot, is_wide: bool) -> i64 {
    let address = host_address(spot);
    if is_wide {
        // SAFETY: the caller promises that the offset is there and ready; nothing is known of how
        // it is aligned.
        return unsafe { address.cast::<i64>().read_unaligned() };
    }
    // SAFETY: the caller promises that the offset is there and ready; nothing is known of how it is
    // aligned.
    i64::from(unsafe { address.cast::<i32>().read_unaligned() })
}

impl Walk<'_> {
    /// Notes where the first and the last offset of the live elements of a node lie.
    pub(in crate::copy) fn await_offsets(&self, number: usize, awaited: &mut Vec<Awaited>) {
        let is_wide = self.is_wide(number);
        let width = if is_wide { 8 } else { 4 };
        let (taken, skipped) = (self.item(number).taken(), self.item(number).skipped());
        let window = taken.start.saturating_add_unsigned(skipped)..taken.end;
        let start = self.spot(number, 1, 0);
        let span = |element: i64| {
            let offset = element.unsigned_abs().checked_mul(width)?;
            Some(Span { spot: Spot { offset, ..start? }, len: width })
        };
        let spans = span(window.start).zip(span(window.end)).map(|(first, last)| [first, last]);
        if awaited.is_empty() {
            // Where one column has offsets, other columns often have too.
            awaited.reserve(self.items.len() - number);
        }
        awaited.push(Awaited { number, is_wide, spans });
    }

    /// Reads all awaited offsets with one read, and settles their nodes.
    ///
    /// # Safety
    /// W1 of [`walk`](super::walk::walk).
    pub(in crate::copy) unsafe fn learn(&mut self, awaited: &[Awaited]) -> Result<()> {
        self.note_reads(awaited)?;
        if let CopySource::Host = self.terms.source {
            return awaited.iter().try_for_each(|node| {
                // SAFETY: W1, which the caller promises: the source is ready, and has offsets up to
                // the end of the array (UNS-4, or the builder's check).
                let ends = unsafe { node.read_in_place() };
                // SAFETY: W1, which the caller promises.
                unsafe { self.settle(node.number, ends) }
                    .map_err(|error| self.placed(error, node.number))
            });
        }
        let spans = spans_of(awaited);
        // SAFETY: W1, which the caller keeps: the source is ready where the host reads it, and has
        // offsets up to the end of the array (UNS-4, or the builder's check), inside which these
        // spans lie.
        let bytes = unsafe { self.terms.source.read(&spans, step::LEARN) }?;
        // SAFETY: W1, which the caller promises.
        unsafe { self.settle_read(awaited, &bytes) }
    }

    /// Counts the coming reads. An error where there is nothing to read.
    pub(super) fn note_reads(&mut self, awaited: &[Awaited]) -> Result<()> {
        let missing = |node: &Awaited| node.spans.is_none();
        if let Some(node) = awaited.iter().find(|node| missing(node)) {
            return Err(self.placed(invalid("the offsets are missing".into()), node.number));
        }
        self.learned.reads += 2 * awaited.len() as u64;
        self.learned.bytes += awaited.iter().map(|node| 2 * node.width()).sum::<u64>();
        Ok(())
    }

    /// Settles the nodes of the awaited offsets. `bytes` were read from the places that
    /// [`spans_of`] names.
    ///
    /// # Safety
    /// W1 of [`walk`](super::walk::walk).
    pub(super) unsafe fn settle_read(&mut self, awaited: &[Awaited], bytes: &[u8]) -> Result<()> {
        self.learned.waits += u64::from(!self.terms.source.is_on_host());
        let mut rest = bytes;
        for Awaited { number, is_wide, .. } in awaited {
            let width = if *is_wide { 8 } else { 4 };
            let (own, others) = rest.split_at_checked(2 * width).unwrap_or((rest, &[]));
            rest = others;
            let read = |index| {
                let narrow = || read_i32(own, index).map(i64::from);
                if *is_wide { read_i64(own, index) } else { narrow() }.unwrap_or(-1)
            };
            let ends = Ends { first: read(0), last: read(1) };
            // SAFETY: W1, which the caller promises.
            unsafe { self.settle(*number, ends) }.map_err(|error| self.placed(error, *number))?;
        }
        Ok(())
    }

    /// Checks both offsets of a node, and adds the offsets and what they lead to.
    ///
    /// # Safety
    /// W1 of [`walk`](super::walk::walk).
    unsafe fn settle(&mut self, number: usize, ends: Ends) -> Result<()> {
        let Ends { first, last } = ends;
        let is_list = self.kind(number).layout.child_count() > 0;
        if is_list {
            let child = self.children(number).start;
            let there = self.whole(child).length;
            check_last_offset(last, None, 1).map_err(invalid)?;
            if last > there {
                let message =
                    format!("the last offset is {last}, and the child has {there} elements");
                return Err(invalid(message));
            }
        } else {
            // SAFETY: W1, which the caller promises.
            unsafe { self.check_bytes(number, &self.node(number), last) }?;
        }
        if first < 0 || first > last {
            return Err(invalid(format!(
                "the first offset is {first}, and the last one is {last}"
            )));
        }
        // The first byte or element that travels. If it is not 0, the offsets have to change.
        let begin = if self.begins_there(number, first) { first } else { 0 };
        // A device that copies whole units reads bytes from the beginning of a unit on. The
        // elements of a child are aligned when the child is settled.
        let begin = if is_list { begin } else { begin - begin % self.terms.unit.cast_signed() };
        self.add_offsets(number, (begin > 0).then_some(begin));
        if is_list {
            let child = self.children(number).start;
            return self.set_live(child, begin..last);
        }
        let (begin, end) = (begin.unsigned_abs(), last.unsigned_abs());
        if let Some(spot) = self.spot(number, 2, begin) {
            self.add(number, 2, Span { spot, len: end - begin }, Change::Nothing);
        }
        Ok(())
    }

    /// Adds the offsets of the elements that travel. With `first`, the offset of this value becomes
    /// 0.
    pub(in crate::copy) fn add_offsets(&mut self, number: usize, first: Option<i64>) {
        let is_wide = self.is_wide(number);
        let kind = if is_wide { BufferKind::Offsets64 } else { BufferKind::Offsets32 };
        let skip = self.item(number).skipped();
        let change = match first {
            Some(first) => Change::Rebase(Rebase { is_wide, first, skip }),
            None => Change::Nothing,
        };
        if let Some(span) = self.span_of(number, 1, kind) {
            self.add(number, 1, span, change);
        }
    }

    /// Whether what is before the first offset is cut off. On a way through host memory that costs
    /// nothing. On a direct way the offsets have to go to the host and back for that, so the cut is
    /// made only if fewer bytes move with it.
    fn begins_there(&mut self, number: usize, first: i64) -> bool {
        if first == 0 || !self.terms.trims {
            return false;
        }
        let bits = self.bits_of_one_behind(number);
        let before = (first.unsigned_abs().saturating_mul(bits)).div_ceil(8);
        if !self.terms.is_direct {
            self.note(number, Cut::Rebased { first, bytes: before });
            return true;
        }
        let kind = if self.is_wide(number) { BufferKind::Offsets64 } else { BufferKind::Offsets32 };
        let detour = 2 * self.span_of(number, 1, kind).map_or(0, |span| span.len);
        let is_less = detour < before;
        let cut = match is_less {
            true => Cut::Detour { first, bytes: before, detour },
            false => Cut::Untrimmed { first, bytes: before, detour },
        };
        self.note(number, cut);
        is_less
    }

    /// The smallest number of bits that one element behind the offsets of a node takes.
    fn bits_of_one_behind(&self, number: usize) -> u64 {
        let children = self.children(number);
        if children.is_empty() {
            return 8;
        }
        children.map(|child| bits_of_one(self.schema, child as u32)).sum()
    }

    /// Checks that the bytes up to the last offset exist, as far as their number is known.
    ///
    /// # Safety
    /// W1 of [`walk`](super::walk::walk); the node is one of the source, and has this number.
    #[inline(always)]
    pub(in crate::copy) unsafe fn check_bytes(
        &self,
        number: usize,
        node: &ArrayNode,
        last: i64,
    ) -> Result<()> {
        let base = node.buffer(2);
        // The number of bytes follows neither from the type nor from the number of elements.
        let there = match self.tree.given_extent(self.source(number), node, DATA) {
            _ if base.is_null() => Some(0),
            Some(Extent::Exact(len)) => Some(len),
            // SAFETY: a buffer of the source.
            _ => unsafe { self.terms.source.remaining(Raw::from_ptr(base.cast_mut())) },
        };
        let len = check_last_offset(last, there, 2).map_err(invalid)?;
        // No address may wrap around.
        let end = usize::try_from(len).ok().and_then(|len| base.addr().checked_add(len));
        match end {
            Some(_) => Ok(()),
            None => Err(invalid(format!("the last offset is {last}, which no memory holds"))),
        }
    }

    fn is_wide(&self, number: usize) -> bool {
        self.kind(number).layout.buffers().contains(&BufferKind::Offsets64)
    }
}

/// The smallest number of bits that an element of a node takes, children included.
fn bits_of_one(schema: &Schema, number: u32) -> u64 {
    let node = schema.node(number);
    let own: u64 = node
        .layout
        .buffers()
        .iter()
        .map(|kind| match kind {
            BufferKind::Validity | BufferKind::VariableBytes => 0,
            BufferKind::Bits => 1,
            BufferKind::Offsets32 => 32,
            BufferKind::Offsets64 => 64,
            kind => kind.byte_len(1).unwrap_or(0).saturating_mul(8),
        })
        .sum();
    let each = match node.field.data_type() {
        DataType::Struct(_) => 1,
        DataType::Union { mode: crate::UnionMode::Sparse, .. } => 1,
        DataType::FixedSizeList(..) => u64::from(node.layout.list_size().unwrap_or(0)),
        _ => 0,
    };
    if each == 0 {
        return own;
    }
    let below: u64 = schema.children(number).map(|child| bits_of_one(schema, child)).sum();
    own.saturating_add(below.saturating_mul(each))
}
