//! Which elements of each node travel, and which bytes that are.
//!
//! Nodes are looked at from the root down. What the elements of a node refer to in its children is known at once, except
//! behind offsets: those are read from the data, all of one level of nesting together.

use std::ops::Range;

use super::lengths::Awaited;
use super::pack::{Change, Pieces, ZEROS};
use super::report::{Cut, Note};
use super::source::{Source, Span};
use crate::array::{Node, Tree, Window};
use crate::device::driver::{Raw, Spot};
use crate::exchange::arena::Below;
use crate::schema::{self, Schema};
use crate::{Array, BufferKind, DataType, Error, ErrorKind, Result, UnionMode};

/// What is to be known before the walk begins.
pub(super) struct Terms<'a> {
    pub(super) array: &'a Array,
    pub(super) source: &'a Source,
    /// Only live elements travel.
    pub(super) trims: bool,
    /// Nothing comes by the host, so that offsets have to make a detour to be changed.
    pub(super) is_direct: bool,
    pub(super) alignment: u64,
}

/// What a walk found out.
pub(super) struct Walked {
    pub(super) schema: Schema,
    pub(super) items: Vec<Item>,
    /// For each buffer of each item, in order, the number of the piece that fills it.
    pub(super) slots: Vec<Option<u32>>,
    /// For views: how long each data buffer of an item is.
    pub(super) sizes: Vec<(u32, Vec<i64>)>,
    pub(super) pieces: Pieces,
    pub(super) notes: Vec<Note>,
    pub(super) learned: Learned,
}

/// What it took to know the lengths.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Learned {
    pub(super) reads: u64,
    pub(super) bytes: u64,
    pub(super) waits: u64,
}

/// A node of the result.
pub(super) struct Item {
    /// Its number in the tree that it comes from.
    pub(super) source: u32,
    /// Where in the slots those of its buffers begin.
    pub(super) first_slot: u32,
    pub(super) window: Window,
    /// The elements that are referred to, counted in its buffers, as soon as that is known.
    live: Range<i64>,
    /// The first element that travels: it is before the first live one where a bitmap asks for that.
    pub(super) cut: i64,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Which of its elements are live is not known yet.
    Open,
    Known,
    Settled,
}

impl Item {
    /// The elements that travel.
    pub(super) fn taken(&self) -> Range<i64> {
        self.cut..self.live.end
    }

    /// So many of them come before the first live one.
    pub(super) fn skipped(&self) -> u64 {
        (self.live.start - self.cut).unsigned_abs()
    }
}

/// A walk that goes on.
pub(super) struct Walk<'a> {
    pub(super) terms: Terms<'a>,
    pub(super) schema: &'a Schema,
    /// Those of the schema.
    kinds: &'a [schema::Node],
    tree: &'a Tree,
    pub(super) items: Vec<Item>,
    slots: Vec<Option<u32>>,
    sizes: Vec<(u32, Vec<i64>)>,
    pub(super) pieces: Pieces,
    pub(super) notes: Vec<Note>,
    pub(super) learned: Learned,
}

/// Walks over an array.
///
/// # Safety
/// The source is that of the array. What the host reads is ready.
pub(super) unsafe fn walk(terms: Terms<'_>) -> Result<Walked> {
    let schema = terms.array.schema()?;
    let mut walk = Walk::new(terms, &schema)?;
    let mut awaited = Vec::new();
    loop {
        for number in 0..walk.items.len() {
            if walk.items.get(number).is_some_and(|item| item.state == State::Known) {
                // SAFETY: promised by the caller.
                unsafe { walk.look_at(number, &mut awaited) }
                    .map_err(|error| walk.placed(error, number))?;
            }
        }
        if awaited.is_empty() {
            break;
        }
        // SAFETY: promised by the caller.
        unsafe { walk.learn(&awaited) }?;
        awaited.clear();
    }
    let Walk { items, slots, sizes, pieces, notes, learned, .. } = walk;
    pieces.check()?;
    Ok(Walked { schema, items, slots, sizes, pieces, notes, learned })
}

impl<'a> Walk<'a> {
    fn new(terms: Terms<'a>, schema: &'a Schema) -> Result<Self> {
        let tree = terms.array.tree();
        let mut items: Vec<Item> = Vec::with_capacity(schema.checks().len());
        let mut slots = 0_u64;
        let mut item = |source: u32| {
            let window = Window { offset: 0, length: 0, null_count: 0 };
            let first_slot = slots as u32;
            let (_, buffers) = tree.table(source);
            slots = slots.saturating_add(buffers.into());
            Item { source, first_slot, window, live: 0..0, cut: 0, state: State::Open }
        };
        match terms.array.node_number() {
            0 => items.extend((0..schema.checks().len() as u32).map(item)),
            root => {
                items.push(item(root));
                // Both are numbered in the same way, level by level.
                let mut next = 0;
                while let Some(above) = items.get(next) {
                    let Below { first, count, .. } = tree.schema.below(above.source);
                    items.extend((first..first + count).map(&mut item));
                    next += 1;
                }
            }
        }
        let window = terms.array.window();
        if let Some(root) = items.first_mut() {
            (root.live, root.state) = (window.offset..window.end(), State::Known);
        }
        // Only views have a number of buffers that somebody says.
        let Ok(slots) = u32::try_from(slots).map(|slots| slots as usize) else {
            let message = format!("{slots} buffers are more than a copy can have");
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        };
        let pieces = Pieces::new(terms.alignment, slots.min(1 << 16));
        Ok(Self {
            tree,
            terms,
            schema,
            kinds: schema.nodes(),
            items,
            slots: vec![None; slots],
            sizes: Vec::new(),
            pieces,
            notes: Vec::new(),
            learned: Learned::default(),
        })
    }

    /// Settles a node whose elements are known.
    ///
    /// # Safety
    /// As for [`walk`].
    unsafe fn look_at(&mut self, number: usize, awaited: &mut Vec<Awaited>) -> Result<()> {
        let live = self.items.get(number).map_or(0..0, |item| item.live.clone());
        let node = self.node(number);
        let below = self.kind(number);
        let data_type = below.field.data_type();
        let whole = if number == 0 { self.terms.array.window() } else { node.window };
        if live.start < 0 || live.start > live.end || live.end > whole.end() {
            return Err(invalid(format!(
                "elements {}..{} are not inside an array of {}",
                live.start,
                live.end,
                whole.end()
            )));
        }
        let length = live.end - live.start;
        let null_count = whole.part(live.start - whole.offset, length).null_count;
        let has_bitmap = below.layout.has_validity() && !node.buffer(0).is_null();
        let keeps_bitmap = has_bitmap && !(self.terms.trims && null_count == 0) && length > 0;
        if has_bitmap && !keeps_bitmap && length > 0 {
            self.note(number, Cut::NoNulls);
        }
        let has_bits = keeps_bitmap || below.layout.buffers().contains(&BufferKind::Bits);
        // Runs say where they end in elements of the parent, so the elements keep their numbers.
        let is_runs = matches!(data_type, DataType::RunEndEncoded { .. });
        let cut = match () {
            () if !self.terms.trims || is_runs => 0,
            () if has_bits => live.start - live.start % 8,
            () => live.start,
        };
        let offset = if length == 0 && self.terms.trims { 0 } else { live.start - cut };
        if let Some(item) = self.items.get_mut(number) {
            item.window = Window { offset, length, null_count };
            item.cut = cut;
            item.state = State::Settled;
        }
        if length == 0 {
            return self.nothing_below(number);
        }
        let of = node.window.end();
        if self.terms.trims && !is_runs && length < of {
            self.note(number, Cut::Window { elements: length, of, kept: offset });
        }
        for (index, kind) in below.layout.buffers().iter().enumerate() {
            if *kind == BufferKind::Validity && !keeps_bitmap {
                continue;
            }
            self.add_elements(number, index, *kind);
        }
        match data_type {
            DataType::Struct(_) | DataType::Union { mode: UnionMode::Sparse, .. } => {
                self.set_children(number, 1)
            }
            DataType::FixedSizeList(..) => {
                self.set_children(number, below.layout.list_size().unwrap_or(0).into())
            }
            DataType::Dictionary { .. } => {
                below.dictionary().map_or(Ok(()), |values| self.set_whole(values as usize))
            }
            DataType::List(_) | DataType::LargeList(_) | DataType::Map { .. }
                if !self.terms.trims =>
            {
                self.add_offsets(number, None);
                self.set_all_whole(number)
            }
            DataType::List(_) | DataType::LargeList(_) | DataType::Map { .. } => {
                self.await_offsets(number, awaited);
                Ok(())
            }
            DataType::Binary | DataType::Utf8 | DataType::LargeBinary | DataType::LargeUtf8 => {
                self.await_offsets(number, awaited);
                Ok(())
            }
            DataType::ListView(_)
            | DataType::LargeListView(_)
            | DataType::BinaryView
            | DataType::Utf8View
            | DataType::RunEndEncoded { .. }
            | DataType::Union { .. } => {
                // SAFETY: promised by the caller.
                unsafe { self.follow_indices(number) }
            }
            _ => Ok(()),
        }
    }

    /// Adds the elements that travel of a buffer with elements of a fixed width. Others wait until more is known.
    fn add_elements(&mut self, number: usize, index: usize, kind: BufferKind) {
        if is_awaited(kind) {
            return;
        }
        if let Some(span) = self.span_of(number, index, kind) {
            self.add(number, index, span, Change::Nothing);
        }
    }

    /// Where in a buffer the elements that travel are. For offsets these are one more.
    pub(super) fn span_of(&self, number: usize, index: usize, kind: BufferKind) -> Option<Span> {
        let taken = self.items.get(number)?.taken();
        let (start, end) = (taken.start.unsigned_abs(), taken.end.unsigned_abs());
        let (from, to) = match kind {
            BufferKind::Validity | BufferKind::Bits => (start / 8, end.div_ceil(8)),
            BufferKind::Offsets32 => (start.checked_mul(4)?, end.checked_add(1)?.checked_mul(4)?),
            BufferKind::Offsets64 => (start.checked_mul(8)?, end.checked_add(1)?.checked_mul(8)?),
            kind => (kind.byte_len(start)?, kind.byte_len(end)?),
        };
        let spot = self.spot(number, index, from)?;
        Some(Span { spot, len: to - from })
    }

    /// A place in a buffer; `None` where there is no buffer.
    pub(super) fn spot(&self, number: usize, index: usize, offset: u64) -> Option<Spot> {
        let base = self.node(number).buffer(index);
        (!base.is_null()).then(|| Spot { base: Raw::from_ptr(base.cast_mut()), offset })
    }

    pub(super) fn add(&mut self, number: usize, index: usize, span: Span, change: Change) {
        if span.len == 0 {
            return;
        }
        let piece = self.pieces.add(span.spot, span.len, change);
        let slot = self.items.get(number).map_or(0, |item| item.first_slot as usize) + index;
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot = Some(piece);
        }
    }

    pub(super) fn is_filled(&self, number: usize, index: usize) -> bool {
        let slot = self.items.get(number).map_or(0, |item| item.first_slot as usize) + index;
        self.slots.get(slot).is_some_and(Option::is_some)
    }

    // ---- children

    /// The numbers of the children.
    pub(super) fn children(&self, number: usize) -> Range<usize> {
        let children = self.kind(number).children();
        children.start as usize..children.end as usize
    }

    /// Children with `each` elements for every one of this node's.
    fn set_children(&mut self, number: usize, each: i64) -> Result<()> {
        let taken = self.items.get(number).map_or(0..0, Item::taken);
        let range = taken.start.saturating_mul(each)..taken.end.saturating_mul(each);
        let children = self.children(number);
        self.add_flat(children.clone(), &range);
        children.into_iter().try_for_each(|child| match self.items.get(child) {
            Some(Item { state: State::Settled, .. }) => Ok(()),
            _ => self.set_live(child, range.clone()),
        })
    }

    /// Settles at once those of some children of which elements of a fixed width travel and nothing else, as of most columns.
    /// The others stay as they are.
    fn add_flat(&mut self, children: Range<usize>, range: &Range<i64>) {
        let Self { schema, tree, items, slots, pieces, notes, .. } = self;
        let length = range.end.saturating_sub(range.start);
        if !self.terms.trims || range.start < 0 || length <= 0 {
            return;
        }
        let end = items.len();
        let checks = schema.checks().get(children.clone()).unwrap_or_default();
        let items = items.get_mut(children.clone()).unwrap_or_default();
        for (child, (check, item)) in (children.start..).zip(checks.iter().zip(items)) {
            let rule = schema.rules().get(check.rule as usize);
            let width = rule.map_or(0, |rule| u64::from(rule.flat_width));
            if width == 0 || !check.is_leaf {
                continue;
            }
            let node = tree.node(item.source);
            let (whole, base) = (node.window, node.buffer(1));
            let is_inside = whole.offset >= 0 && range.end <= whole.length;
            if !is_inside || base.is_null() || !node.buffer(0).is_null() {
                continue;
            }
            let start = whole.offset.saturating_add(range.start);
            // The rule of the type says that no size in bytes overflows.
            let (offset, len) = (start.unsigned_abs() * width, length.unsigned_abs() * width);
            *item = Item {
                window: Window { offset: 0, ..whole.part(range.start, length) },
                live: start..start + length,
                cut: start,
                state: State::Settled,
                ..*item
            };
            if length < whole.end() {
                let cut = Cut::Window { elements: length, of: whole.end(), kept: 0 };
                note(notes, end, child, cut);
            }
            let piece = pieces.add(
                Spot { base: Raw::from_ptr(base.cast_mut()), offset },
                len,
                Change::Nothing,
            );
            if let Some(slot) = slots.get_mut(item.first_slot as usize + 1) {
                *slot = Some(piece);
            }
        }
    }

    /// The elements of a child that are referred to, counted from its first one.
    pub(super) fn set_live(&mut self, child: usize, range: Range<i64>) -> Result<()> {
        if !self.terms.trims {
            return self.set_whole(child);
        }
        let whole = self.whole(child);
        if range.start < 0 || range.start > range.end || range.end > whole.length {
            let message = format!(
                "elements {}..{} are referred to, and there are {}",
                range.start, range.end, whole.length
            );
            return Err(self.placed(invalid(message), child));
        }
        if let Some(item) = self.items.get_mut(child) {
            item.live = whole.offset + range.start..whole.offset + range.end;
            item.state = State::Known;
        }
        Ok(())
    }

    pub(super) fn set_whole(&mut self, child: usize) -> Result<()> {
        let whole = self.whole(child);
        if let Some(item) = self.items.get_mut(child) {
            (item.live, item.state) = (whole.offset..whole.end(), State::Known);
        }
        Ok(())
    }

    pub(super) fn set_all_whole(&mut self, number: usize) -> Result<()> {
        self.children(number).try_for_each(|child| self.set_whole(child))
    }

    /// Below a node without elements nothing is referred to. Where there are offsets, one remains: a format without elements
    /// needs none, but shipped consumers refuse that.
    fn nothing_below(&mut self, number: usize) -> Result<()> {
        let node = self.kind(number);
        let below = node.below();
        let has_offsets = matches!(
            node.layout.buffers().get(1),
            Some(BufferKind::Offsets32 | BufferKind::Offsets64)
        );
        if has_offsets && self.items.get(number).is_some_and(|item| item.window.offset == 0) {
            let nowhere = Spot { base: Raw::NULL, offset: 0 };
            self.add(number, 1, Span { spot: nowhere, len: ZEROS.len() as u64 }, Change::Zeros);
        }
        for child in below {
            match self.terms.trims {
                true => self.set_live(child as usize, 0..0)?,
                false => self.set_whole(child as usize)?,
            }
        }
        // Views have as many data buffers as before, all of them empty.
        if self.kind(number).layout.is_variadic() {
            let count = self.data_buffers(number);
            self.set_sizes(number, vec![0; count]);
        }
        Ok(())
    }

    // ---- what is there

    /// What the schema says of a node.
    pub(super) fn kind(&self, number: usize) -> &'a schema::Node {
        match self.kinds.get(number) {
            Some(kind) => kind,
            None => self.schema.root(),
        }
    }

    /// A node of the source.
    pub(super) fn node(&self, number: usize) -> Node {
        self.tree.node(self.source(number))
    }

    /// All elements of a node, as the array has it.
    pub(super) fn whole(&self, number: usize) -> Window {
        if number == 0 { self.terms.array.window() } else { self.node(number).window }
    }

    pub(super) fn data_buffers(&self, number: usize) -> usize {
        (self.node(number).n_buffers as usize).saturating_sub(3)
    }

    /// The number of a node in the tree that it comes from.
    pub(super) fn source(&self, number: usize) -> u32 {
        self.items.get(number).map_or(0, |item| item.source)
    }

    /// The array of a node, to ask it for lengths.
    pub(super) fn array_of(&self, number: usize) -> Array {
        let source = self.source(number);
        if number == 0 { self.terms.array.clone() } else { self.terms.array.at_number(source) }
    }

    /// For views: how long each data buffer of a node is.
    pub(super) fn set_sizes(&mut self, number: usize, sizes: Vec<i64>) {
        if !sizes.is_empty() {
            self.sizes.push((number as u32, sizes));
        }
    }

    pub(super) fn note(&mut self, number: usize, cut: Cut) {
        note(&mut self.notes, self.items.len(), number, cut);
    }

    /// An error that names the node, unless it names one already.
    pub(super) fn placed(&self, error: Error, number: usize) -> Error {
        if error.place().is_some() { error } else { error.at(self.schema.place(number as u32)) }
    }
}

/// Notes what was cut off at a node, of so many.
fn note(notes: &mut Vec<Note>, nodes: usize, number: usize, cut: Cut) {
    if notes.is_empty() {
        // Where one column is cut, the others are as well.
        notes.reserve(nodes - number);
    }
    notes.push(Note::new(number as u32, cut));
}

/// Whether the elements of such a buffer are looked at before they travel.
fn is_awaited(kind: BufferKind) -> bool {
    use BufferKind::{
        Offsets32, Offsets64, Starts32, Starts64, UnionOffsets, VariableBytes, Views,
    };
    matches!(
        kind,
        Offsets32 | Offsets64 | Starts32 | Starts64 | UnionOffsets | VariableBytes | Views
    )
}

pub(super) fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidData, message)
}
