//! Makes arrays from the header of a record batch and the bytes of its body.
//!
//! A header has two lists. The first has a node for each column and for all that is below it,
//! parents before their children: the length of the array and its count of nulls. The second has a
//! place in the body for each buffer, in the order of the nodes. Both lists are walked along the
//! [`Shape`] of the columns: once where all columns are asked for. Where only some are, a first
//! walk passes over all columns, and a second one makes those that are asked for, in the order in
//! which they are asked for.
//!
//! Buffers are slices of the body, so nothing is copied unless it was compressed. Columns whose
//! buffers all lie in one body become one tree, by a [`WithinBuilder`], which is fast because the
//! tree has one table of nodes and one of buffers for all columns. Where buffers have memory of
//! their own, each column becomes a tree, so that a column keeps only its own memory; such columns
//! are made in one walk.
//!
//! What must stay true: no number of a header is used before it was checked, the place of a buffer
//! against the body, and the length of an array against its buffers.

use std::ops::Range;

use arrow_device::{Array, Buffer, BufferKind, DataType, Error, Layout, Result, WithinBuilder};
use arrow_ipc as fb;

use crate::compression::Codec;
use crate::dictionaries::Dictionaries;
use crate::problem::{limited, malformed, within};
use crate::ranges::{Body, outside};
use crate::shape::{Shape, ShapeKind};

/// The most buffers that an array has by its type.
const MOST_FIXED: usize = 3;

/// How many times the bytes of a body may be unpacked. Buffers that lie in each other, as no writer
/// makes them, would otherwise have a small body unpacked as often as a header has buffers.
const UNPACKED_TIMES: u64 = 16;

/// A walk along the nodes and buffers of a record batch.
pub(crate) struct Walk<'a> {
    nodes: flatbuffers::Vector<'a, fb::FieldNode>,
    next_node: usize,
    buffers: flatbuffers::Vector<'a, fb::Buffer>,
    next_buffer: usize,
    variadic_counts: Option<flatbuffers::Vector<'a, i64>>,
    next_variadic: usize,
    /// Whether unions have a bitmap, which carries no information. They do in version 4.
    unions_have_bitmaps: bool,
}

/// The sources from which the walk makes buffers.
pub(crate) struct Bytes<'a> {
    pub(crate) body: &'a Body,
    pub(crate) codec: Option<Codec>,
    /// How many bytes may still come out of compressed buffers.
    pub(crate) left: u64,
    /// How many bytes of compressed buffers may still be read.
    packed_left: u64,
    pub(crate) dictionaries: &'a Dictionaries,
}

impl<'a> Bytes<'a> {
    /// The bytes of a body, of which at most `most` come out of compressed buffers.
    pub(crate) fn new(
        body: &'a Body,
        codec: Option<Codec>,
        most: u64,
        dictionaries: &'a Dictionaries,
    ) -> Self {
        let packed_left = body.kept_bytes().saturating_mul(UNPACKED_TIMES);
        Self { body, codec, left: most, packed_left, dictionaries }
    }

    /// The content of a buffer that was found in the body.
    fn content(&mut self, part: Buffer) -> Result<Option<Buffer>> {
        let Some(codec) = self.codec else { return Ok(Some(part)) };
        let left = self.packed_left.checked_sub(part.extent().at_least());
        self.packed_left = left.ok_or_else(|| {
            limited(format!("the compressed buffers of a message lie in each other: they have more than {UNPACKED_TIMES} times the bytes of its body"))
        })?;
        codec.unpack(part, &mut self.left)
    }
}

/// A place in a record batch up to which a walk has come.
#[derive(Clone, Copy)]
pub(crate) struct Stop {
    node: usize,
    buffer: usize,
    variadic: usize,
}

/// The length of an array and how many of its elements are null.
#[derive(Clone, Copy)]
struct Counts {
    len: usize,
    nulls: usize,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(batch: fb::RecordBatch<'a>, version: fb::MetadataVersion) -> Result<Self> {
        let (Some(nodes), Some(buffers)) = (batch.nodes(), batch.buffers()) else {
            return Err(malformed("a record batch has no list of nodes or of buffers"));
        };
        let variadic_counts = batch.variadicBufferCounts();
        let unions_have_bitmaps = version == fb::MetadataVersion::V4;
        Ok(Self {
            nodes,
            next_node: 0,
            buffers,
            next_buffer: 0,
            variadic_counts,
            next_variadic: 0,
            unions_have_bitmaps,
        })
    }

    /// Checks that the walk has used all nodes and buffers.
    pub(crate) fn finish(&self) -> Result<()> {
        let (nodes, buffers) = (self.nodes.len(), self.buffers.len());
        if (self.next_node, self.next_buffer) == (nodes, buffers) {
            return Ok(());
        }
        let message = format!(
            "a record batch has {nodes} nodes and {buffers} buffers, and the schema {} and {}",
            self.next_node, self.next_buffer
        );
        Err(malformed(message))
    }

    /// Checks that there are `given` buffers, where each came by itself.
    pub(crate) fn check_buffer_count(&self, given: usize) -> Result<()> {
        let count = self.buffers.len();
        if given == count {
            return Ok(());
        }
        Err(malformed(format!("{given} buffers came, and the header has {count}")))
    }

    /// Checks that there are at least `count` nodes, as many as the whole schema has.
    pub(crate) fn check_node_count(&self, count: usize) -> Result<()> {
        if self.nodes.len() < count { Err(too_few_nodes(self.nodes.len())) } else { Ok(()) }
    }

    /// Where the walk has come to.
    pub(crate) fn stop(&self) -> Stop {
        Stop { node: self.next_node, buffer: self.next_buffer, variadic: self.next_variadic }
    }

    /// Continues from a place where this walk was before.
    pub(crate) fn go_to(&mut self, stop: Stop) {
        (self.next_node, self.next_buffer, self.next_variadic) =
            (stop.node, stop.buffer, stop.variadic);
    }

    fn counts(&mut self) -> Result<Counts> {
        let number = self.next_node;
        if number >= self.nodes.len() {
            return Err(too_few_nodes(number));
        }
        self.next_node += 1;
        let node = self.nodes.get(number);
        let (len, nulls) = (node.length(), node.null_count());
        let counts = (usize::try_from(len), usize::try_from(nulls));
        let (Ok(len), Ok(nulls)) = counts else {
            return Err(malformed(format!("node {number} has {len} elements and {nulls} nulls")));
        };
        if nulls > len {
            return Err(malformed(format!("node {number} has {nulls} nulls in {len} elements")));
        }
        Ok(Counts { len, nulls })
    }

    /// Returns where the next buffer lies in the body.
    fn place(&mut self) -> Result<Range<u64>> {
        let number = self.next_buffer;
        if number >= self.buffers.len() {
            let message = format!("the schema needs more than the batch's {number} buffers");
            return Err(malformed(message));
        }
        self.next_buffer += 1;
        let buffer = self.buffers.get(number);
        let (offset, len) = (buffer.offset(), buffer.length());
        let start = u64::try_from(offset).ok();
        let end =
            start.zip(u64::try_from(len).ok()).and_then(|(start, len)| start.checked_add(len));
        let (Some(start), Some(end)) = (start, end) else {
            let message = format!("buffer {number} has {len} bytes from byte {offset} on");
            return Err(malformed(message));
        };
        Ok(start..end)
    }

    /// Returns how many data buffers the next array of views has.
    fn variadic_count(&mut self) -> Result<usize> {
        let number = self.next_variadic;
        let counts = self.variadic_counts.filter(|counts| number < counts.len());
        let Some(counts) = counts else {
            return Err(malformed("a batch with views does not say how many buffers they have"));
        };
        self.next_variadic += 1;
        let count = counts.get(number);
        let left = self.buffers.len() - self.next_buffer;
        usize::try_from(count).ok().filter(|count| *count <= left).ok_or_else(|| {
            malformed(format!("views have {count} data buffers, and {left} are left"))
        })
    }

    /// Passes over an array. Where `places` is given, the places of the array's buffers are added
    /// there.
    pub(crate) fn skip(
        &mut self,
        shape: &Shape,
        places: &mut Option<&mut Vec<Range<u64>>>,
    ) -> Result<()> {
        self.counts()?;
        let layout = Layout::of(shape.data_type());
        let mut count = layout.buffers().len() + usize::from(self.has_idle_bitmap(shape));
        if layout.is_variadic() {
            count += self.variadic_count()?;
        }
        for _ in 0..count {
            let place = self.place()?;
            if let Some(places) = places {
                places.push(place);
            }
        }
        match &shape.kind {
            ShapeKind::Plain(children) => {
                children.iter().try_for_each(|child| self.skip(child, places))
            }
            ShapeKind::Dictionary { .. } => Ok(()),
        }
    }

    fn has_idle_bitmap(&self, shape: &Shape) -> bool {
        self.unions_have_bitmaps && matches!(shape.data_type(), DataType::Union { .. })
    }

    /// Returns the bytes of the next buffer, `None` where the buffer is empty.
    fn buffer(&mut self, bytes: &mut Bytes<'_>) -> Result<Option<Buffer>> {
        let number = self.next_buffer;
        let place = self.place()?;
        let mut buffer = || -> Result<Option<Buffer>> {
            if place.is_empty() {
                return Ok(None);
            }
            let part = bytes.body.part(number, place.start, place.end - place.start)?;
            bytes.content(part)
        };
        buffer().map_err(|error| in_buffer(error, number))
    }

    /// Gives the next array, and all that is below it, to a builder over a whole body. `body` is
    /// the length of that body. Returns the length of the array.
    pub(crate) fn nodes(
        &mut self,
        shape: &Shape,
        (body, dictionaries): (u64, &Dictionaries),
        builder: &mut WithinBuilder,
    ) -> Result<usize> {
        let made = self.unnamed_nodes(shape, (body, dictionaries), builder);
        made.map_err(|error| named(error, shape))
    }

    fn unnamed_nodes(
        &mut self,
        shape: &Shape,
        (body, dictionaries): (u64, &Dictionaries),
        builder: &mut WithinBuilder,
    ) -> Result<usize> {
        let Counts { len, nulls } = self.counts()?;
        let layout = Layout::of(shape.data_type());
        if self.has_idle_bitmap(shape) {
            self.place()?;
        }
        let kinds = layout.buffers();
        let mut places = [const { None }; MOST_FIXED];
        for (place, kind) in places.iter_mut().zip(kinds) {
            if *kind == BufferKind::Validity && nulls == 0 {
                self.place()?;
            } else {
                *place = self.place_in(body)?;
            }
        }
        let fixed = places.into_iter().take(kinds.len());
        if layout.is_variadic() {
            let data = (0..self.variadic_count()?).map(|_| self.place_in(body));
            let data = data.collect::<Result<Vec<_>>>()?;
            builder.node(len, nulls, fixed.chain(data))?;
        } else {
            builder.node(len, nulls, fixed)?;
        }
        match &shape.kind {
            ShapeKind::Plain(children) => {
                for child in children {
                    self.nodes(child, (body, dictionaries), builder)?;
                }
            }
            ShapeKind::Dictionary { id, values } => {
                builder.dictionary(values_of(*id, values, dictionaries, nulls == len)?)?;
            }
        }
        Ok(len)
    }

    /// Returns where the next buffer lies in a whole body of `body` bytes, `None` where the buffer
    /// is empty.
    fn place_in(&mut self, body: u64) -> Result<Option<Range<u64>>> {
        let number = self.next_buffer;
        let place = self.place()?;
        if !place.is_empty() && place.end > body {
            let error = outside(place.start, place.end - place.start, body);
            return Err(in_buffer(error, number));
        }
        Ok((!place.is_empty()).then_some(place))
    }

    /// Makes the next array. Its buffers are parts of the body, or were unpacked from there.
    pub(crate) fn array(&mut self, shape: &Shape, bytes: &mut Bytes<'_>) -> Result<Array> {
        let made = self.unnamed_array(shape, bytes);
        made.map_err(|error| named(error, shape))
    }

    fn unnamed_array(&mut self, shape: &Shape, bytes: &mut Bytes<'_>) -> Result<Array> {
        let Counts { len, nulls } = self.counts()?;
        let layout = Layout::of(shape.data_type());
        if self.has_idle_bitmap(shape) {
            self.place()?;
        }
        let mut buffers = Vec::with_capacity(layout.buffers().len());
        for kind in layout.buffers() {
            if *kind == BufferKind::Validity && nulls == 0 {
                self.place()?;
                buffers.push(None);
            } else {
                buffers.push(self.buffer(bytes)?);
            }
        }
        if layout.is_variadic() {
            for _ in 0..self.variadic_count()? {
                buffers.push(self.buffer(bytes)?);
            }
        }
        let mut builder = Array::builder(shape.schema()?).len(len).buffers(buffers);
        if let Some(device) = bytes.body.device() {
            builder = builder.device(device);
        }
        if layout.has_validity() {
            builder = builder.null_count(nulls);
        }
        match &shape.kind {
            ShapeKind::Plain(children) => {
                let children = children.iter().map(|child| self.array(child, bytes));
                builder.children(children.collect::<Result<Vec<_>>>()?).finish_ready()
            }
            ShapeKind::Dictionary { id, values } => {
                let dictionary = values_of(*id, values, bytes.dictionaries, nulls == len)?;
                builder.dictionary(dictionary).finish_ready()
            }
        }
    }
}

/// Returns the values of a dictionary for a column, of which all elements may be null.
fn values_of(
    id: i64,
    values: &Shape,
    dictionaries: &Dictionaries,
    are_all_null: bool,
) -> Result<Array> {
    match dictionaries.get(id) {
        Some(dictionary) => Ok(dictionary.clone()),
        // Where all elements are null, the values of the dictionary may come later, or never.
        None if are_all_null => Array::empty(values.schema()?),
        None => Err(malformed(format!("dictionary {id} did not come before"))),
    }
}

#[cold]
fn too_few_nodes(count: usize) -> Error {
    malformed(format!("the schema has more columns than the batch's {count} nodes"))
}

/// Adds the number of a buffer to an error.
#[cold]
fn in_buffer(error: Error, number: usize) -> Error {
    within(error, &format!("buffer {number}"))
}

/// Adds the name of a column to an error.
#[cold]
fn named(error: Error, shape: &Shape) -> Error {
    let name = shape.field().name();
    if name.is_empty() { error } else { within(error, &format!("`{name}`")) }
}
