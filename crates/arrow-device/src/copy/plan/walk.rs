//! The walk of a copy: finds which elements of each node travel, and in which bytes they lie.
//!
//! Every node is in one of three states. An open node waits for its parent. A known node has a
//! range of live elements, which are the elements that the result refers to. A settled node has its
//! pieces and slots: a piece is a range of bytes that is copied ([`Piece`]), and a slot holds, for
//! one buffer of the node, the number of the piece that fills the buffer.
//!
//! 1. The root is known from the start: its elements are those of the array.
//! 2. A known node is settled (`settle_node`). Its range is widened to begin at a whole byte of a
//!    bitmap, or at a unit of the device. The bytes of its buffers become pieces.
//! 3. The range of its children follows. It is the same range for a struct, the range times the
//!    list size for a fixed-size list, all values for a dictionary, and the elements that indices
//!    refer to for nodes with indices (`indices`).
//! 4. Behind offsets only the data tells the range. Nodes with offsets are collected, and the
//!    offsets of all of them are read together (`lengths`). Their children are known then, and the
//!    walk goes on from step 2. So each level of nested lists takes one more round.
//!
//! Why this is fast: nodes have the numbers of the schema's nodes, level by level, so one loop over
//! the numbers visits parents before their children. Plain columns are settled together with their
//! parent (`columns`). A count of the nodes that are known and not settled ends the loop early.
//!
//! What must stay true: the unsafe functions of the plan rest on one rule, W1, which the caller of
//! [`walk`] keeps. `Terms::source` reads the memory of the array, each buffer of the array covers
//! its elements (UNS-4, or the builder's check), and data that the host reads in the source is
//! ready.
//!
//! [`Piece`]: super::piece::Piece

use std::borrow::Borrow;
use std::ops::Range;

use super::cut::{Cut, Note};
use super::pack::Pieces;
use super::piece::{Change, ZEROS};
use crate::array::{ArrayNode, Storage, Tree, Window};
use crate::copy::source::{CopySource, Span};
use crate::device::driver::{Raw, Spot};
use crate::numbered::{all_numbered, numbered};
use crate::schema::{self, Schema};
use crate::{Array, BufferKind, DataType, Error, ErrorKind, Result, UnionMode};

/// What a walk has to know before it begins.
pub(in crate::copy) struct Terms<'a> {
    pub(in crate::copy) array: &'a Array,
    pub(in crate::copy) source: &'a CopySource,
    /// Whether only live elements travel.
    pub(in crate::copy) trims: bool,
    /// Whether no byte passes through host memory. Offsets that have to be changed then make a
    /// detour through the host.
    pub(in crate::copy) is_direct: bool,
    /// The alignment of bytes that the source's device copies. 1 where any bytes can be copied.
    pub(in crate::copy) unit: u64,
    /// The alignment of each piece in the packed result.
    pub(in crate::copy) alignment: u64,
    /// Sizes of data buffers that were read before the walk.
    pub(in crate::copy) sizes: &'a [KnownSizes],
}

/// The sizes of the data buffers of one node of the source, which a producer left in its device's
/// memory.
pub(in crate::copy) struct KnownSizes {
    /// The node's number in the tree that it comes from.
    pub(in crate::copy) source: u32,
    pub(in crate::copy) sizes: Vec<u64>,
}

/// The result of a walk.
pub(in crate::copy) struct Walked {
    pub(in crate::copy) schema: Schema,
    pub(in crate::copy) items: Vec<Item>,
    /// For each buffer of each node, the number of the piece that fills it, or [`NO_PIECE`].
    pub(in crate::copy) slots: Vec<u32>,
    /// The lengths of the data buffers of each node with views.
    pub(in crate::copy) sizes: Vec<(u32, Vec<i64>)>,
    pub(in crate::copy) pieces: Pieces,
    pub(in crate::copy) notes: Vec<Note>,
    pub(in crate::copy) learned: Learned,
}

/// What was read to know the lengths.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::copy) struct Learned {
    pub(in crate::copy) reads: u64,
    pub(in crate::copy) bytes: u64,
    pub(in crate::copy) waits: u64,
}

/// The slot of a buffer of which nothing travels. No piece has this number, since there are no more
/// pieces than slots.
pub(in crate::copy) const NO_PIECE: u32 = u32::MAX;

/// A node of the result.
#[derive(Clone)]
pub(in crate::copy) struct Item {
    /// The number of the node in the tree that it comes from.
    source: u32,
    state: ItemState,
    /// Where the slots of the node's buffers begin, and how many there are.
    pub(in crate::copy) first_slot: u32,
    pub(in crate::copy) n_buffers: u32,
    pub(in crate::copy) window: Window,
    /// The elements that are referred to, counted in the node's buffers, as soon as they are known.
    live: Range<i64>,
    /// The first element that travels. This element is before the first live one where a bitmap has
    /// to begin at a whole byte, or where a device copies whole units only.
    cut: i64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ItemState {
    /// The live elements are not known yet.
    Open,
    Known,
    Settled,
}

impl Item {
    /// The elements that travel.
    pub(in crate::copy) fn taken(&self) -> Range<i64> {
        self.cut..self.live.end
    }

    /// How many elements that travel come before the first live one.
    pub(in crate::copy) fn skipped(&self) -> u64 {
        (self.live.start - self.cut).unsigned_abs()
    }
}

/// The state of a walk.
pub(in crate::copy) struct Walk<'a> {
    pub(in crate::copy) terms: Terms<'a>,
    pub(in crate::copy) schema: &'a Schema,
    /// The nodes of the schema.
    pub(super) kinds: &'a [schema::SchemaNode],
    pub(in crate::copy) tree: &'a Tree,
    pub(in crate::copy) items: Vec<Item>,
    /// How many items are known and not settled yet.
    pub(super) known: usize,
    pub(in crate::copy) slots: Vec<u32>,
    pub(super) sizes: Vec<(u32, Vec<i64>)>,
    pub(in crate::copy) pieces: Pieces,
    pub(in crate::copy) notes: Vec<Note>,
    pub(in crate::copy) learned: Learned,
}

/// A node whose first and last offset have to be read.
pub(in crate::copy) struct Awaited {
    pub(super) number: usize,
    pub(super) is_wide: bool,
    pub(super) spans: Option<[Span; 2]>,
}

/// Walks over an array.
///
/// # Safety
/// W1: the source reads the memory of the array, and what the host reads there is ready.
pub(in crate::copy) unsafe fn walk(terms: Terms<'_>) -> Result<Walked> {
    let schema = terms.array.schema()?;
    let mut walk = Walk::new(terms, &schema)?;
    let mut awaited = Vec::new();
    loop {
        // SAFETY: W1, which the caller promises.
        unsafe { walk.settle_known(&mut awaited) }?;
        if awaited.is_empty() {
            break;
        }
        // SAFETY: W1, which the caller promises.
        unsafe { walk.learn(&awaited) }?;
        awaited.clear();
    }
    let Walk { items, slots, sizes, pieces, notes, learned, .. } = walk;
    pieces.check()?;
    Ok(Walked { schema, items, slots, sizes, pieces, notes, learned })
}

impl<'a> Walk<'a> {
    /// Settles all nodes whose elements are known. Nodes whose offsets have to be read are added to
    /// `awaited`.
    ///
    /// # Safety
    /// W1.
    pub(super) unsafe fn settle_known(&mut self, awaited: &mut Vec<Awaited>) -> Result<()> {
        let mut numbers = 0..self.items.len();
        while self.known > 0
            && let Some(number) = numbers.next()
        {
            if self.item(number).state == ItemState::Known {
                // SAFETY: W1, which the caller promises.
                unsafe { self.settle_node(number, awaited) }
                    .map_err(|error| self.placed(error, number))?;
            }
        }
        Ok(())
    }

    pub(super) fn new(terms: Terms<'a>, schema: &'a Schema) -> Result<Self> {
        let tree = terms.array.tree();
        let count = schema.checks().len();
        let mut items: Vec<Item> = Vec::with_capacity(count);
        let window = Window { offset: 0, length: 0, null_count: 0 };
        let (state, live) = (ItemState::Open, 0..0);
        let empty = Item { source: 0, state, first_slot: 0, n_buffers: 0, window, live, cut: 0 };
        let item = |source: u32| Item { source, ..empty.clone() };
        match terms.array.node_number() {
            0 => items.extend((0..count as u32).map(item)),
            root => {
                items.push(item(root));
                // Nodes below a node of the tree are numbered level by level, as those of the
                // result.
                let mut next = 0;
                while let Some(above) = items.get(next) {
                    let below = tree.schema.below(above.source);
                    items.extend(below.all().map(item));
                    next += 1;
                }
            }
        }
        let window = terms.array.window();
        let root = numbered(items.first_mut());
        (root.live, root.state) = (window.offset..window.end(), ItemState::Known);
        // The data buffers of views come in addition.
        let buffers = schema.rules().iter().map(|rule| usize::from(rule.buffers)).max();
        let slots = count.saturating_mul(buffers.unwrap_or(0));
        Ok(Self {
            pieces: Pieces::new(terms.alignment, slots.min(1 << 16)),
            tree,
            terms,
            schema,
            kinds: schema.nodes(),
            items,
            known: 1,
            slots: Vec::with_capacity(slots),
            sizes: Vec::new(),
            notes: Vec::new(),
            learned: Learned::default(),
        })
    }

    /// Settles a node whose elements are known.
    ///
    /// # Safety
    /// W1.
    unsafe fn settle_node(&mut self, number: usize, awaited: &mut Vec<Awaited>) -> Result<()> {
        let live = self.item(number).live.clone();
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
        let null_count = match null_count {
            _ if matches!(data_type, DataType::Null) => length,
            // A producer may leave the count unknown where there is no bitmap.
            ..0 if !has_bitmap => 0,
            told => told,
        };
        let keeps_bitmap = has_bitmap && !(self.terms.trims && null_count == 0) && length > 0;
        if has_bitmap && !keeps_bitmap && length > 0 {
            self.note(number, Cut::NoNulls);
        }
        let has_bits = keeps_bitmap || below.layout.buffers().contains(&BufferKind::Bits);
        // Run ends count elements of the parent, so these elements keep their numbers.
        let is_runs = matches!(data_type, DataType::RunEndEncoded { .. });
        let cut = match () {
            () if !self.terms.trims || is_runs => 0,
            () if self.terms.unit > 1 => {
                live.start - live.start % self.elements_at_once(has_bits, below)
            }
            () if has_bits => live.start - live.start % 8,
            () => live.start,
        };
        let offset = if length == 0 { 0 } else { live.start - cut };
        let begin = self.new_slots(node.n_buffers)?;
        self.item_mut(number).cut = cut;
        self.set_settled(number, Window { offset, length, null_count }, node.n_buffers, begin);
        self.known -= 1;
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
                // SAFETY: W1, which the caller promises.
                unsafe { self.set_children(number, 1) }
            }
            DataType::FixedSizeList(..) => {
                let each = below.layout.list_size().unwrap_or(0);
                // SAFETY: W1, which the caller promises.
                unsafe { self.set_children(number, each.into()) }
            }
            DataType::Dictionary { .. } => {
                let values = self.schema.dictionary(number as u32);
                values.map_or(Ok(()), |values| self.set_whole(values as usize))
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
                // SAFETY: W1, which the caller promises.
                unsafe { self.follow_indices(number) }
            }
            _ => Ok(()),
        }
    }

    /// The alignment of the first element that travels. At a multiple of this number, an element
    /// begins at a byte in each buffer and, where whole units are copied, at a unit.
    fn elements_at_once(&self, has_bits: bool, node: &schema::SchemaNode) -> i64 {
        let has_own = node.layout.buffers().iter().any(|kind| *kind != BufferKind::Validity);
        let unit = self.terms.unit.cast_signed();
        match (has_bits, has_own) {
            (true, _) => 8 * unit,
            (false, true) => unit,
            (false, false) => 1,
        }
    }

    /// Adds the bytes of the elements that travel in a buffer. Leaves the buffer out where more has
    /// to be known first.
    fn add_elements(&mut self, number: usize, index: usize, kind: BufferKind) {
        if is_awaited(kind) {
            return;
        }
        if let Some(span) = self.span_of(number, index, kind) {
            self.add(number, index, span, Change::Nothing);
        }
    }

    /// Where the elements that travel lie in a buffer. There is one offset more than elements.
    pub(in crate::copy) fn span_of(
        &self,
        number: usize,
        index: usize,
        kind: BufferKind,
    ) -> Option<Span> {
        let taken = self.item(number).taken();
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

    /// A place in a buffer; `None` where the buffer is null.
    pub(in crate::copy) fn spot(&self, number: usize, index: usize, offset: u64) -> Option<Spot> {
        let (buffers, n_buffers) = self.tree.table(self.source(number));
        let base = ArrayNode { buffers, n_buffers, ..ArrayNode::EMPTY }.buffer(index);
        (!base.is_null()).then(|| Spot { base: Raw::from_ptr(base.cast_mut()), offset })
    }

    pub(in crate::copy) fn add(&mut self, number: usize, index: usize, span: Span, change: Change) {
        if span.len == 0 {
            return;
        }
        let piece = self.pieces.add(span.spot, span.len, change);
        let slot = self.slot(number, index);
        *numbered(self.slots.get_mut(slot)) = piece;
    }

    /// The number of a buffer's slot.
    fn slot(&self, number: usize, index: usize) -> usize {
        self.item(number).first_slot as usize + index
    }

    /// Makes slots for this number of buffers, and returns where they begin.
    fn new_slots(&mut self, count: u32) -> Result<u32> {
        let begin = self.slots.len();
        let end = begin.saturating_add(count as usize);
        // Another party chooses the number of data buffers of views, which may be that large.
        if u32::try_from(end).is_err() {
            let message = format!("{end} buffers are more than a copy can have");
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        self.slots.resize(end, NO_PIECE);
        Ok(begin as u32)
    }

    pub(in crate::copy) fn is_filled(&self, number: usize, index: usize) -> bool {
        *numbered(self.slots.get(self.slot(number, index))) != NO_PIECE
    }

    // ---- children

    /// The numbers of the children. A call, so that `set_children` keeps nothing of this lookup in
    /// the registers of its loop over the columns. Inlined, the plan of a batch of numbers takes
    /// 2.8 % more instructions.
    #[inline(never)]
    pub(in crate::copy) fn children(&self, number: usize) -> Range<usize> {
        let children = self.schema.children(number as u32);
        children.start as usize..children.end as usize
    }

    /// Sets the live elements of the children. Each element of the node has `each` elements in a
    /// child.
    ///
    /// # Safety
    /// W1.
    unsafe fn set_children(&mut self, number: usize, each: i64) -> Result<()> {
        let taken = self.item(number).taken();
        let range = taken.start.saturating_mul(each)..taken.end.saturating_mul(each);
        let children = self.children(number);
        if children.is_empty() {
            return Ok(());
        }
        let first = self.source(children.start);
        let sources = first..first.saturating_add(children.len() as u32);
        match self.tree.storage() {
            // SAFETY: W1, which the caller promises.
            Storage::Foreign(structs) => unsafe {
                let checks = self.tree.schema.checks();
                self.add_columns(children, &range, structs.nodes(sources, checks))
            },
            // SAFETY: W1, which the caller promises.
            Storage::Built(built) => unsafe {
                let sources = sources.start as usize..sources.end as usize;
                let nodes = all_numbered(built.nodes.as_slice(), sources);
                self.add_columns(children, &range, nodes.iter())
            },
        }
    }

    /// Settles all children that are plain columns, and leaves the others to `settle_node`. The
    /// children of one node stand side by side in every tree.
    ///
    /// # Safety
    /// W1.
    unsafe fn add_columns(
        &mut self,
        children: Range<usize>,
        range: &Range<i64>,
        mut sources: impl Iterator<Item: Borrow<ArrayNode>>,
    ) -> Result<()> {
        let mut checks = all_numbered(self.schema.checks(), children.clone()).iter();
        for child in children {
            let is_settled = match (sources.next(), checks.next()) {
                // SAFETY: W1, which the caller promises.
                (Some(node), Some(check)) => unsafe {
                    self.add_column(child, node.borrow(), check, range)
                },
                _ => false,
            };
            if !is_settled {
                self.set_live(child, range.clone())?;
            }
        }
        Ok(())
    }

    /// Sets the live elements of a child, counted from its first element.
    pub(in crate::copy) fn set_live(&mut self, child: usize, range: Range<i64>) -> Result<()> {
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
        self.set_known(child, whole.offset + range.start..whole.offset + range.end);
        Ok(())
    }

    pub(in crate::copy) fn set_whole(&mut self, child: usize) -> Result<()> {
        let whole = self.whole(child);
        self.set_known(child, whole.offset..whole.end());
        Ok(())
    }

    /// Records what a node will be in the result: its window, its number of buffers, and where its
    /// slots begin.
    pub(in crate::copy) fn set_settled(
        &mut self,
        number: usize,
        window: Window,
        n_buffers: u32,
        begin: u32,
    ) {
        let item = self.item_mut(number);
        (item.window, item.n_buffers, item.first_slot) = (window, n_buffers, begin);
        item.state = ItemState::Settled;
    }

    fn set_known(&mut self, child: usize, live: Range<i64>) {
        let item = self.item_mut(child);
        (item.live, item.state) = (live, ItemState::Known);
        self.known += 1;
    }

    pub(in crate::copy) fn set_all_whole(&mut self, number: usize) -> Result<()> {
        self.children(number).try_for_each(|child| self.set_whole(child))
    }

    /// Settles what is below a node without elements: nothing is referred to. A buffer of offsets
    /// keeps one offset. The format needs none without elements, but shipped consumers refuse that.
    fn nothing_below(&mut self, number: usize) -> Result<()> {
        if self.kind(number).layout.buffers().get(1).is_some_and(|kind| kind.has_one_more()) {
            let nowhere = Spot { base: Raw::NULL, offset: 0 };
            self.add(number, 1, Span { spot: nowhere, len: ZEROS.len() as u64 }, Change::Zeros);
        }
        for child in self.schema.below(number as u32).all() {
            match self.terms.trims {
                true => self.set_live(child as usize, 0..0)?,
                false => self.set_whole(child as usize)?,
            }
        }
        // The number of data buffers of views stays, and all of them are empty.
        if self.kind(number).layout.is_variadic() {
            let count = self.data_buffers(number);
            self.set_sizes(number, vec![0; count]);
        }
        Ok(())
    }

    // ---- what is there

    /// What the schema says of a node.
    pub(in crate::copy) fn kind(&self, number: usize) -> &'a schema::SchemaNode {
        numbered(self.kinds.get(number))
    }

    /// A node of the source.
    pub(in crate::copy) fn node(&self, number: usize) -> ArrayNode {
        self.tree.node(self.source(number))
    }

    /// All elements of a node. For the root these are the elements of the array.
    pub(in crate::copy) fn whole(&self, number: usize) -> Window {
        if number == 0 { self.terms.array.window() } else { self.node(number).window }
    }

    pub(in crate::copy) fn data_buffers(&self, number: usize) -> usize {
        (self.node(number).n_buffers as usize).saturating_sub(3)
    }

    /// The number of a node in the tree that it comes from.
    pub(in crate::copy) fn source(&self, number: usize) -> u32 {
        self.item(number).source
    }

    /// What is known of a node so far.
    pub(in crate::copy) fn item(&self, number: usize) -> &Item {
        numbered(self.items.get(number))
    }

    fn item_mut(&mut self, number: usize) -> &mut Item {
        numbered(self.items.get_mut(number))
    }

    /// A node as an array, which can be asked for lengths.
    pub(in crate::copy) fn array_of(&self, number: usize) -> Array {
        let source = self.source(number);
        if number == 0 { self.terms.array.clone() } else { self.terms.array.at_number(source) }
    }

    /// Records the lengths of the data buffers of a node with views.
    pub(in crate::copy) fn set_sizes(&mut self, number: usize, sizes: Vec<i64>) {
        if !sizes.is_empty() {
            self.sizes.push((number as u32, sizes));
        }
    }

    pub(in crate::copy) fn note(&mut self, number: usize, cut: Cut) {
        note(&mut self.notes, self.items.len(), number, cut);
    }

    /// An error that names the node, unless it names one already.
    pub(in crate::copy) fn placed(&self, error: Error, number: usize) -> Error {
        if error.place().is_some() { error } else { error.at(self.schema.place(number as u32)) }
    }
}

/// Records what was cut off at a node. `nodes` is the number of all nodes.
fn note(notes: &mut Vec<Note>, nodes: usize, number: usize, cut: Cut) {
    if notes.is_empty() {
        // Where one column is cut, other columns usually are too.
        notes.reserve(nodes - number);
    }
    notes.push(Note::new(number as u32, cut));
}

/// Whether only the data may tell what travels of the buffer, or of what its elements point to.
/// Such a buffer is added after a look at the data.
fn is_awaited(kind: BufferKind) -> bool {
    use BufferKind::{
        Offsets32, Offsets64, Starts32, Starts64, UnionOffsets, VariableBytes, Views,
    };
    matches!(
        kind,
        Offsets32 | Offsets64 | Starts32 | Starts64 | UnionOffsets | VariableBytes | Views
    )
}

pub(in crate::copy) fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidData, message)
}
