//! [`WithinBuilder`]: an array with all that is below it, put together as one tree over the bytes
//! of one buffer, or of a few.
//!
//! An [`ArrayBuilder`] makes one tree for each array, so a batch of a thousand columns takes a
//! thousand and one trees, each with its own tables and owners. A [`WithinBuilder`] makes one tree
//! of all columns of a message, whose buffers are parts of one body, or of a few allocations. The
//! tree has one table of nodes, one of pointers, one of lengths, and one owner of each body.
//!
//! 1. The caller gives each node before the nodes below it, and everything below a node before the
//!    node's next sibling. A stack holds the numbers of the nodes that are still missing. A call
//!    takes the topmost number, and pushes the numbers of the nodes right below.
//! 2. The node is checked by the functions of `node_checks`, as an `ArrayBuilder` checks an
//!    array. The types need no check, because they are those of the schema.
//! 3. The pointers and lengths of the node's buffers are appended to the tables. The nodes get the
//!    addresses of their pointers at the end, when the table of pointers moves no more.
//! 4. A dictionary is an array that was made before. Its nodes and lengths are copied at the end.
//!    The copied nodes point to the dictionary's own pointers, so the tree keeps the dictionary.
//!
//! [`ArrayBuilder`]: super::ArrayBuilder

use std::ffi::c_void;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::node::{ArrayNode, BufferPointer, Nodes, Tables};
use super::node_checks::{
    NOT_GIVEN, ONE_OFFSET, check_buffer_count, check_buffers, check_child_length, check_end,
    check_run_ends, check_run_values, check_type, mismatch, refused, settled_null_count,
};
use super::parts::{ArrayParts, PartEvents, Settled};
use super::readiness::ReadyWhen;
use super::tree::{Below, Built, Tree};
use super::{Array, Window};
use crate::device::deferred::{self, QueueUse};
use crate::device::{BytesOwner, Part};
use crate::numbered::numbered;
use crate::pool::shared::Shared;
use crate::schema::{Layout, Schema, can_be_absent};
use crate::{Buffer, DeviceId, Error, Event, Extent, NodePath, Result, Step};

/// An array that is being put together with all that is below it, of parts of one buffer or of a
/// few; see [`Array::builder_within`].
#[must_use]
pub struct WithinBuilder {
    schema: Schema,
    memory: Buffer,
    /// The buffers that were added, in whose order they are numbered from 1 on.
    more: Vec<Buffer>,
    /// The numbers of missing nodes, the next one last. The numbers of the nodes below a missing
    /// node are added when that node is given.
    missing: Vec<u32>,
    nodes: Vec<ArrayNode>,
    /// The tables of all nodes that were given, one after the other.
    pointers: Vec<BufferPointer>,
    extents: Vec<Extent>,
    /// What keeps single buffers: sizes of views, and handles of parts.
    owners: Vec<BytesOwner>,
    /// The dictionaries, and the numbers of their nodes.
    dictionaries: Vec<Array>,
    numbers: Vec<u32>,
    /// Whether all that was given was taken. A node that was refused, or whose iterator of buffers
    /// panicked, leaves the tables in between.
    is_whole: bool,
}

impl Array {
    /// Begins an array whose buffers, and the buffers of all that is below it, are parts of one
    /// buffer. A message with many columns becomes an array by a few allocations in all, and not by
    /// a few for each column.
    ///
    /// Each node is given before the nodes below it, and these before the node's next sibling: the
    /// array itself, its first child, what is below that child, its second child. A child of the
    /// finished array keeps all of the array alive.
    ///
    /// ```
    /// use arrow_device::{Array, Buffer, DataType, Field, Schema};
    ///
    /// let schema = Schema::batch([
    ///     Field::new("x", DataType::Int32, true),
    ///     Field::new("y", DataType::Int32, true),
    /// ])?;
    /// let body = Buffer::from(vec![1, 2, 3, 4]);
    /// let mut builder = Array::builder_within(&schema, body);
    /// builder.node(2, 0, [None])?;
    /// builder.node(2, 0, [None, Some(0..8)])?;
    /// builder.node(2, 0, [None, Some(8..16)])?;
    /// let rows = builder.finish_ready()?;
    /// assert_eq!((rows.len(), rows.child_count()), (2, 2));
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn builder_within(schema: &Schema, memory: Buffer) -> WithinBuilder {
        let count = schema.checks().len();
        // Most nodes have a bitmap and one more buffer.
        let buffers = 2 * count;
        WithinBuilder {
            schema: schema.clone(),
            memory,
            more: Vec::new(),
            missing: vec![0],
            nodes: vec![ArrayNode::EMPTY; count],
            pointers: Vec::with_capacity(buffers),
            extents: Vec::with_capacity(buffers),
            owners: Vec::new(),
            dictionaries: Vec::new(),
            numbers: Vec::new(),
            is_whole: true,
        }
    }
}

impl WithinBuilder {
    /// Adds a buffer on the same device, of which [`node_of`](Self::node_of) takes parts.
    pub fn with_memory(mut self, memory: Buffer) -> Self {
        self.more.push(memory);
        self
    }

    /// Gives the next node: its length, how many of its elements are null, and where its buffers
    /// lie, in the order of the C data interface. `None` stands for a buffer that is absent; where
    /// the node has no elements, the one offset that the format asks for is supplied in memory of
    /// the host. View types take their data buffers after the views.
    ///
    /// # Errors
    /// For a node that its type, or the node above, does not allow, the errors of [`ArrayBuilder`].
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for a part that is not inside the
    /// buffer. After an error every call of the builder is an error.
    ///
    /// [`ArrayBuilder`]: crate::ArrayBuilder
    pub fn node(
        &mut self,
        length: usize,
        null_count: usize,
        buffers: impl IntoIterator<Item = Option<Range<u64>>>,
    ) -> Result<()> {
        let window = window_of(0, length, Some(null_count));
        self.give(window, buffers.into_iter(), |memory, _, place| memory.part(place))
    }

    /// Gives the next node as [`node`](Self::node) does. `offset` elements of its buffers come
    /// before its first element, but for a node without elements whose buffers are absent: its
    /// offset is 0. Without a null count, the count is 0 where there is no validity
    /// bitmap, and unknown where there is one. A part names its buffer: 0 is the buffer that
    /// [`builder_within`](Array::builder_within) was given, and the buffers of
    /// [`with_memory`](Self::with_memory) follow in their order.
    ///
    /// # Errors
    /// Those of [`node`](Self::node), and
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for a part of a buffer that is not
    /// there.
    pub fn node_of(
        &mut self,
        offset: usize,
        length: usize,
        null_count: Option<usize>,
        buffers: impl IntoIterator<Item = Option<(usize, Range<u64>)>>,
    ) -> Result<()> {
        let window = window_of(offset, length, null_count);
        self.give(window, buffers.into_iter(), |memory, more, (number, place)| {
            let memory = match number {
                0 => memory,
                _ => more.get(number - 1).ok_or_else(|| no_memory(number))?,
            };
            memory.part(place)
        })
    }

    /// Takes a node whose buffers are found by `part` in the memories.
    #[inline]
    fn give<P>(
        &mut self,
        window: Window,
        buffers: impl Iterator<Item = Option<P>>,
        part: impl Fn(&Buffer, &[Buffer], P) -> Result<Part>,
    ) -> Result<()> {
        self.begin()?;
        let Self { schema, memory, more, missing, pointers, extents, owners, .. } = self;
        let number = missing.pop().ok_or_else(too_many)?;
        if is_dictionary(schema, number) {
            return Err(mismatch("the values of a dictionary are an array of their own".into()));
        }
        let (node, first) = (schema.node(number), extents.len());
        let is_empty_on_host = window.length == 0 && memory.device() == DeviceId::CPU;
        for (index, place) in buffers.enumerate() {
            let (pointer, extent) = match place {
                Some(place) => {
                    let Part { pointer, len, owner } = part(memory, more, place)?;
                    if let Some(owner) = owner {
                        owners.push(owner);
                    }
                    (pointer, Extent::Exact(len))
                }
                None if is_empty_on_host && has_one_more(&node.layout, index) => {
                    (ONE_OFFSET.as_ptr().cast(), Extent::Exact(size_of_val(&ONE_OFFSET) as u64))
                }
                None => (std::ptr::null(), Extent::Exact(0)),
            };
            pointers.push(BufferPointer(pointer));
            extents.push(extent);
        }
        if window.length == 0 && window.offset > 0 {
            return self.check_without_elements(number, first, window);
        }
        self.check(number, first, window)
    }

    /// [`check`](Self::check) of a node without elements behind an offset. Where a buffer is absent
    /// that elements would need, there is nothing before the elements either.
    #[cold]
    fn check_without_elements(&mut self, number: u32, first: usize, window: Window) -> Result<()> {
        let kinds = self.schema.node(number).layout.buffers();
        let given = self.pointers.get(first..).unwrap_or_default();
        let is_absent = |pointer: *const c_void| {
            pointer.is_null() || std::ptr::eq(pointer, ONE_OFFSET.as_ptr().cast())
        };
        let mut both = kinds.iter().zip(given);
        let is_short = both.any(|(kind, given)| !can_be_absent(*kind) && is_absent(given.0));
        let offset = if is_short { 0 } else { window.offset };
        self.check(number, first, Window { offset, ..window })
    }

    /// Checks a node whose buffers were appended from `first` on, and makes room for those below.
    #[inline]
    fn check(&mut self, number: u32, first: usize, window: Window) -> Result<()> {
        let Self { schema, missing, nodes, pointers, extents, owners, .. } = self;
        let node = schema.node(number);
        let (data_type, layout) = (node.field.data_type(), &node.layout);
        check_buffer_count(data_type, layout, extents.len() - first)?;
        let has_validity = layout.has_validity();
        let null_count = if has_validity { window.null_count } else { NOT_GIVEN };
        let window = Window { null_count, ..window };
        check_end(schema.rule(number), window)?;
        if layout.is_variadic() {
            let data = extents.iter().skip(first + layout.buffers().len());
            let (pointer, extent, owner) = sizes(data);
            pointers.push(BufferPointer(pointer));
            extents.push(extent);
            owners.extend(owner);
        }
        let own = pointers.get(first..).unwrap_or_default().iter();
        let own = own.zip(extents.get(first..).unwrap_or_default());
        let own = own.map(|(pointer, extent)| (!pointer.0.is_null()).then_some(*extent));
        check_buffers(layout, window, own)?;
        let has_bitmap =
            has_validity && pointers.get(first).is_some_and(|bitmap| !bitmap.0.is_null());
        let window = settled_null_count(data_type, window, has_bitmap)?;
        let n_buffers = (extents.len() - first) as u32;
        // The table moves while it grows, so its address is filled in at the end.
        let buffers = std::ptr::null();
        *numbered(nodes.get_mut(number as usize)) =
            ArrayNode { window, buffers, n_buffers, extents: first as u32 };
        check_against_parent(schema, nodes, number)?;
        missing.extend(schema.below(number).all().rev());
        self.is_whole = true;
        Ok(())
    }

    /// Refuses everything after a refusal, and after a panic: what is given is whole again once all
    /// of it was taken.
    #[inline]
    fn begin(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_whole, false) { Ok(()) } else { Err(refused_before()) }
    }

    /// Gives the values of a dictionary: the next node, with all nodes below it. The values are an
    /// array that was made before on the device of the buffer. The finished array keeps the values.
    pub fn dictionary(&mut self, values: Array) -> Result<()> {
        self.begin()?;
        let number = self.missing.pop().ok_or_else(too_many)?;
        if !is_dictionary(&self.schema, number) {
            return Err(mismatch("an array is given where no dictionary is missing".into()));
        }
        let expected = self.schema.node(number).field.data_type();
        check_type(values.data_type(), expected)
            .map_err(|error| error.at(NodePath::new([Step::Dictionary])))?;
        self.dictionaries.push(values);
        self.numbers.push(number);
        self.is_whole = true;
        Ok(())
    }

    /// Makes the array of data that is complete, or will be after the work that was submitted for
    /// the data, as [`ArrayBuilder::finish_ready`](crate::ArrayBuilder::finish_ready) does.
    pub fn finish_ready(self) -> Result<Array> {
        self.finish(|events| events.ready([]))
    }

    /// Makes the array of data that is complete after this event, as
    /// [`ArrayBuilder::finish_after`](crate::ArrayBuilder::finish_after) does.
    ///
    /// # Safety
    /// UNS-32: when the event has passed, all work that writes the buffers has finished.
    pub unsafe fn finish_after(self, event: Event) -> Result<Array> {
        let buffers = std::iter::once(&self.memory).chain(&self.more);
        let parts: (Vec<_>, _) = (buffers.cloned().collect(), self.dictionaries.clone());
        let finished = self.finish(|events| Ok(events.ready_after(&event)));
        // The array was refused, but the work before the event may still write the buffers.
        if finished.is_err() {
            deferred::defer(parts, vec![QueueUse::before(event)], true);
        }
        finished
    }

    fn finish(mut self, ready: impl FnOnce(&PartEvents<'_>) -> Result<ReadyWhen>) -> Result<Array> {
        self.begin()?;
        let Self { schema, memory, more, missing, mut nodes, pointers, mut extents, .. } = self;
        if !missing.is_empty() {
            let message = format!("{} nodes of the schema are not given", missing.len());
            return Err(mismatch(message));
        }
        let pointers: Arc<[BufferPointer]> = pointers.into();
        for node in &mut nodes {
            // A node of a dictionary has no table yet.
            let table = pointers.get(node.extents as usize..).unwrap_or_default();
            node.buffers = table.as_ptr().cast();
        }
        for (number, dictionary) in self.numbers.iter().zip(&self.dictionaries) {
            add_dictionary(&schema, &mut nodes, &mut extents, *number, dictionary)?;
        }
        // A buffer without memory tells the device only.
        let device = Some(memory.device());
        let buffers = std::iter::once(memory).chain(more).map(Some).collect();
        let children = self.dictionaries;
        let mut parts = ArrayParts { buffers, children, device, ..ArrayParts::default() };
        let device = parts.check()?;
        let settled = parts.settle(device, ready)?;
        let Settled { ready, came_without_event, came } = settled;
        let mut owners = self.owners;
        // The owner of the memory comes last, because a search for the owner of values begins
        // there.
        owners.extend(parts.take_owners());
        let is_of_parts = !parts.children.is_empty();
        let below = Below::numbered(parts.children, self.numbers);
        let tables = Tables { extents: extents.into(), pointers };
        let (nodes, owners) = (Nodes::from(nodes), owners.into());
        let built = Built { nodes, owners, below, came_without_event, tables };
        let mut tree = Tree::built(schema, device, ready, built);
        tree.set_parts(came, is_of_parts);
        Ok(Array::from_tree(Shared::new(tree)?))
    }
}

impl fmt::Debug for WithinBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { schema, memory, more, missing, .. } = self;
        write!(f, "WithinBuilder({schema} in {memory:?}")?;
        more.iter().try_for_each(|memory| write!(f, " and {memory:?}"))?;
        write!(f, ", {} nodes missing)", missing.len())
    }
}

fn window_of(offset: usize, length: usize, null_count: Option<usize>) -> Window {
    let counted = |count| i64::try_from(count).unwrap_or(i64::MAX);
    let null_count = null_count.map_or(NOT_GIVEN, counted);
    Window { offset: counted(offset), length: counted(length), null_count }
}

fn has_one_more(layout: &Layout, index: usize) -> bool {
    layout.buffers().get(index).is_some_and(|kind| kind.has_one_more())
}

fn is_dictionary(schema: &Schema, number: u32) -> bool {
    number > 0 && schema.dictionary(schema.node(number).parent) == Some(number)
}

/// The sizes of the data buffers of views, in host memory, and what keeps them.
fn sizes<'a>(
    data: impl Iterator<Item = &'a Extent>,
) -> (*const c_void, Extent, Option<BytesOwner>) {
    // No part of memory has more bytes than an `i64` counts.
    let sizes: Vec<i64> = data.map(|extent| extent.at_least() as i64).collect();
    if sizes.is_empty() {
        return (std::ptr::null(), Extent::Exact(0), None);
    }
    let len = size_of_val(sizes.as_slice()) as u64;
    (sizes.as_ptr().cast(), Extent::Exact(len), Some(Arc::new(sizes)))
}

/// Checks that a node has the elements that the node above needs.
fn check_against_parent(schema: &Schema, nodes: &[ArrayNode], number: u32) -> Result<()> {
    if number == 0 {
        return Ok(());
    }
    let above = schema.node(number).parent;
    let window = |number: u32| numbered(nodes.get(number as usize)).window;
    let (parent, own, rule) = (window(above), window(number), schema.rule(above));
    let index = number.saturating_sub(schema.children(above).start) as usize;
    check_child_length(rule, parent, own)
        .map_err(|error| error.at(NodePath::new([Step::Child(index)])))?;
    match index {
        _ if !rule.is_run_ends => {}
        0 => check_run_ends(parent, own)?,
        _ => check_run_values(window(number - 1), own)?,
    }
    Ok(())
}

/// Copies the nodes of a dictionary, level by level, to the nodes from this number on.
fn add_dictionary(
    schema: &Schema,
    nodes: &mut [ArrayNode],
    extents: &mut Vec<Extent>,
    number: u32,
    dictionary: &Array,
) -> Result<()> {
    let mut arrays = vec![(number, dictionary.clone())];
    while let Some((number, array)) = arrays.pop() {
        let first = extents.len() as u32;
        extents.extend((0..array.buffer_count()).map(|index| array.extent(index)));
        *numbered(nodes.get_mut(number as usize)) =
            ArrayNode { window: array.window(), extents: first, ..array.node() };
        for (index, child) in schema.children(number).enumerate() {
            arrays.push((child, array.node_child(index)?));
        }
        if let (Some(below), Some(values)) = (schema.dictionary(number), array.node_dictionary()) {
            arrays.push((below, values));
        }
    }
    Ok(())
}

#[cold]
fn refused_before() -> Error {
    refused("what was given before was refused".into())
}

#[cold]
fn no_memory(number: usize) -> Error {
    refused(format!("a part lies in buffer {number}, which is not there"))
}

#[cold]
fn too_many() -> Error {
    refused("all nodes of the schema were given before".into())
}
