//! Arrays and record batches: the tree of columns that travels.
//!
//! An [`Array`] is a share of a tree, the number of one of its nodes, and a window on that node. It
//! never shows an address: that takes a [`View`], which names the queue that will use it, or
//! [`host`](Array::host), which waits.

mod awaited;
mod batch;
mod builder;
pub(crate) mod check;
mod empty;
mod export;
mod export_nodes;
pub(crate) mod host;
mod import;
mod known_valid;
mod node;
mod node_checks;
mod only_share;
mod origin;
mod parts;
mod readiness;
mod release;
mod sizes;
pub(crate) mod structs;
mod tree;
mod view;
mod wait;
mod watch;
mod window;
mod within;

use crate::numbered::numbered;
use std::fmt;

pub use awaited::ArrayReady;
pub use batch::Batch;
pub use builder::ArrayBuilder;
pub(crate) use export::Manner;
pub use host::{HostArray, HostBytes};
pub(crate) use host::{check_last_offset, read_i32, read_i64};
pub use view::{BufferPlace, NodeView, View};

use crate::pool::shared::Shared;
use crate::schema::{Extension, Schema};
use crate::{
    BufferKind, DataType, Device, DeviceId, Error, ErrorKind, Extent, Field, Queue, Result, Step,
};
pub(crate) use node::{ArrayNode, BufferPointer, DATA, Nodes, Tables};
pub(crate) use readiness::{Pending, ReadyWhen};
pub(crate) use sizes::SizesOnDevice;
pub(crate) use tree::{Below, Built, Storage, Tree};
pub use wait::Ready;
pub(crate) use window::Window;
pub use within::WithinBuilder;

/// An Arrow array on a device: immutable, shared, ready now or after an event.
///
/// Made by [`import`](Self::import) from a C struct, or by a [`builder`](Self::builder). A clone
/// shares the data: cloning increments a reference count.
///
/// ```
/// use arrow_device::{Array, Buffer, DataType};
///
/// let numbers = Array::builder(DataType::Int32)
///     .len(3)
///     .buffers([None, Some(vec![1, 2, 3].into())])
///     .finish_ready()?;
/// assert_eq!((numbers.len(), numbers.null_count()), (3, Some(0)));
/// assert_eq!(numbers.slice(1, 2)?.len(), 2);
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[derive(Clone)]
pub struct Array {
    tree: Shared<Tree>,
    node: u32,
    window: Window,
    /// The schema and the node that give the array its name, nullability and metadata, where these
    /// are not those of its tree. A column that was picked out of a batch lies in the tree that it
    /// came from, and has the name that the batch gives it.
    named: Option<(Schema, u32)>,
    /// Whether the array is a record batch, or a part of one: see [`Batch`].
    is_batch: bool,
}

impl Array {
    #[inline(always)]
    pub(crate) fn from_tree(tree: Shared<Tree>) -> Self {
        let window = tree.node(0).window;
        Self::of_root(tree, window)
    }

    /// [`from_tree`](Self::from_tree), where the root's window is known.
    #[inline(always)]
    pub(crate) fn of_root(tree: Shared<Tree>, window: Window) -> Self {
        Self { tree, node: 0, window, named: None, is_batch: false }
    }

    /// How many elements.
    pub fn len(&self) -> usize {
        usize::try_from(self.window.length).unwrap_or(usize::MAX)
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.window.length == 0
    }

    /// How many elements come before the first one, in every buffer.
    pub fn offset(&self) -> usize {
        usize::try_from(self.window.offset).unwrap_or(usize::MAX)
    }

    /// How many elements are null, where that is known. Counting them would read the device.
    pub fn null_count(&self) -> Option<usize> {
        usize::try_from(self.window.null_count).ok()
    }

    /// The type.
    pub fn data_type(&self) -> &DataType {
        self.field().data_type()
    }

    /// The type with its name, nullability and metadata.
    pub fn field(&self) -> &Field {
        let (schema, node) = self.naming();
        &schema.node(node).field
    }

    /// The schema of this array, to import others of its kind with or to export beside it.
    pub fn schema(&self) -> Result<Schema> {
        let (schema, node) = self.naming();
        schema.subtree(node)
    }

    /// The device that all buffers are on.
    pub fn device(&self) -> DeviceId {
        self.tree.device
    }

    /// A part of the array: `length` elements from `offset` on. Copies nothing and changes no
    /// buffer.
    pub fn slice(&self, offset: usize, length: usize) -> Result<Self> {
        let end = offset.checked_add(length).filter(|end| *end <= self.len());
        if end.is_none() {
            let message =
                format!("elements {offset}+{length} are not inside an array of {}", self.len());
            return Err(Error::new(ErrorKind::InvalidArgument, message).during("slice"));
        }
        // Offset and length are at most the array's length, which is an `i64`.
        let window = self.window.part(offset as i64, length as i64);
        Ok(Self { window, ..self.clone() })
    }

    /// How many children the type has.
    pub fn child_count(&self) -> usize {
        self.tree.schema.children(self.node).len()
    }

    /// A child of the array, uncut: this array's offset and length do not apply to it. (For the
    /// columns of a struct array with its offset and length applied, see [`Batch`].)
    pub fn child(&self, index: usize) -> Result<Self> {
        self.node_child(index).map(Self::at_its_source)
    }

    /// The values of a dictionary-encoded array.
    pub fn dictionary(&self) -> Option<Self> {
        self.node_dictionary().map(Self::at_its_source)
    }

    /// How many buffers the array has. For view types this counts the data buffers and the sizes
    /// after them.
    pub fn buffer_count(&self) -> usize {
        self.node().n_buffers as usize
    }

    /// What a buffer holds; `None` for the data buffers and the sizes of view types, and past the
    /// end.
    pub fn buffer_kind(&self, index: usize) -> Option<BufferKind> {
        self.schema_node().layout.buffers().get(index).copied()
    }

    /// How long a buffer is, as far as that is known without asking the device.
    pub fn extent(&self, index: usize) -> Extent {
        self.tree.extent(self.node, index, self.window.end())
    }

    /// Whether two arrays are the same elements of the same memory.
    pub fn is_same(&self, other: &Self) -> bool {
        Shared::ptr_eq(&self.tree, &other.tree)
            && self.node == other.node
            && self.window == other.window
    }

    pub(crate) fn tree(&self) -> &Shared<Tree> {
        &self.tree
    }

    pub(crate) fn node_number(&self) -> u32 {
        self.node
    }

    pub(crate) fn window(&self) -> Window {
        self.window
    }

    fn naming(&self) -> (&Schema, u32) {
        self.named.as_ref().map_or((&self.tree.schema, self.node), |(schema, node)| (schema, *node))
    }

    /// Whether the array is the root of its tree and has the schema of the tree.
    pub(crate) fn is_whole(&self) -> bool {
        self.node == 0 && self.named.is_none()
    }

    /// Whether the array has the type of a schema, extension types included: whoever reads the
    /// array by the schema would take it for these. Other metadata, and the name and nullability of
    /// the root, make no difference.
    pub(crate) fn fits(&self, schema: &Schema) -> bool {
        (self.is_whole() && self.tree.schema.is_same(schema))
            || (schema.data_type().equals_ignoring_metadata(self.data_type())
                && have_same_extensions(self.field(), schema.field()))
    }

    /// The texts of the array's type and of that of a schema that the array does not
    /// [fit](Self::fits). Where only the extension types of the roots differ, the texts name these.
    #[cold]
    pub(crate) fn told_apart_from(&self, schema: &Schema) -> [String; 2] {
        let [given, expected] = self.data_type().told_apart(schema.data_type());
        if given == expected {
            return [self.field(), schema.field()].map(type_and_extension);
        }
        [given, expected]
    }

    pub(crate) fn schema_node(&self) -> &crate::schema::SchemaNode {
        self.tree.schema.node(self.node)
    }

    pub(crate) fn node(&self) -> ArrayNode {
        self.tree.node(self.node)
    }

    /// A child, as a node of the same tree.
    pub(crate) fn node_child(&self, index: usize) -> Result<Self> {
        let children = self.tree.schema.children(self.node);
        let number = u32::try_from(index).ok().and_then(|index| children.start.checked_add(index));
        match number.filter(|number| children.contains(number)) {
            Some(number) => {
                let named = self.named.as_ref().and_then(|(schema, node)| {
                    Some((schema.clone(), schema.children(*node).nth(index)?))
                });
                Ok(Self { named, ..self.at_number(number) })
            }
            None => {
                let message = format!(
                    "{} has {} children, and none is number {index}",
                    self.data_type(),
                    children.len()
                );
                Err(Error::new(ErrorKind::InvalidArgument, message))
            }
        }
    }

    /// The dictionary, as a node of the same tree.
    pub(crate) fn node_dictionary(&self) -> Option<Self> {
        let number = self.tree.schema.dictionary(self.node)?;
        let named = self
            .named
            .as_ref()
            .and_then(|(schema, node)| Some((schema.clone(), schema.dictionary(*node)?)));
        Some(Self { named, ..self.at_number(number) })
    }

    pub(crate) fn at_number(&self, node: u32) -> Self {
        let tree = self.tree.clone();
        let window = tree.node(node).window;
        Self { tree, node, window, named: None, is_batch: false }
    }

    /// Marks this array as a record batch.
    pub(crate) fn into_rows(self) -> Self {
        Self { is_batch: true, ..self }
    }

    /// This node and all below it, in the same tree, parents before their children.
    pub(crate) fn nodes_below(&self) -> Result<Vec<Self>> {
        self.nodes_below_but(|_| false)
    }

    /// [`nodes_below`](Self::nodes_below) without the dictionaries that `is_left_out` says yes to,
    /// and without what is below those.
    pub(crate) fn nodes_below_but(
        &self,
        mut is_left_out: impl FnMut(&Self) -> bool,
    ) -> Result<Vec<Self>> {
        let mut nodes = vec![self.clone()];
        let mut next = 0;
        while let Some(node) = nodes.get(next).cloned() {
            for index in 0..node.child_count() {
                nodes.push(node.node_child(index)?);
            }
            nodes.extend(node.node_dictionary().filter(|values| !is_left_out(values)));
            next += 1;
        }
        Ok(nodes)
    }

    /// A node further down in the same tree.
    pub(crate) fn descend(&self, steps: &[Step]) -> Result<Self> {
        steps.iter().try_fold(self.clone(), |array, step| match step {
            Step::Child(index) => array.node_child(*index),
            Step::Dictionary => array.node_dictionary().ok_or_else(|| {
                Error::new(
                    ErrorKind::InvalidArgument,
                    format!("{} has no dictionary", array.data_type()),
                )
            }),
        })
    }

    /// The array as the one that it was built from, where its tree was put together of other
    /// arrays. A column of a batch then keeps its own memory alive, and not all of the batch. The
    /// array keeps the name that it has here.
    pub(crate) fn at_its_source(self) -> Self {
        let Storage::Built(Built { below, .. }) = self.tree.storage() else { return self };
        let schema = &self.tree.schema;
        let Some((top, source)) = below.source_of(schema, self.node) else { return self };
        match source.descend(&schema.steps_between(top, self.node)) {
            Ok(source) => {
                let (schema, node) = self.naming();
                let named = Some((schema.clone(), node));
                let (window, is_batch) = (self.window, self.is_batch);
                Self { window, named, is_batch, ..source.at_its_source() }
            }
            // The builder saw that the array has the nodes that the schema says.
            Err(_) => numbered(None),
        }
    }
}

impl Tree {
    /// The length of a buffer. The length is known for a buffer that was given here. For any other
    /// buffer it is what the elements up to `end` need.
    pub(crate) fn extent(&self, number: u32, index: usize, end: i64) -> Extent {
        let node = self.node(number);
        if let Some(extent) = self.given_extent(number, &node, index) {
            return extent;
        }
        let schema_node = self.schema.node(number);
        let kind = schema_node.layout.buffers().get(index);
        let elements = u64::try_from(end).unwrap_or(0);
        match kind {
            _ if node.buffer(index).is_null() => Extent::Exact(0),
            // An array without elements may come with a buffer of offsets without any.
            Some(_) if elements == 0 => Extent::AtLeast(0),
            Some(kind) => kind.byte_len(elements).map_or(Extent::Unknown, Extent::AtLeast),
            None => Extent::Unknown,
        }
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array({} x {} on {}", self.data_type(), self.len(), self.device())?;
        match self.ready() {
            Ready::Now => f.write_str(")"),
            Ready::AfterEvent => f.write_str(", after an event)"),
            Ready::AfterEvents(events) => write!(f, ", after {events} events)"),
        }
    }
}

const _: () = {
    const fn thread_safe<T: Send + Sync>() {}
    thread_safe::<Array>();
    thread_safe::<View>();
    thread_safe::<Schema>();
    thread_safe::<crate::Buffer>();
    thread_safe::<crate::Memory>();
    thread_safe::<Device>();
    thread_safe::<Queue>();
    thread_safe::<crate::Event>();
    thread_safe::<Error>();
};

/// The text of a field's type and of its extension type, which are cut where they are long.
fn type_and_extension(field: &Field) -> String {
    let data_type = field.data_type();
    match field.extension() {
        None => format!("{data_type} without an extension type"),
        Some(Extension { name, metadata }) => {
            let metadata = String::from_utf8_lossy(metadata.get(..200).unwrap_or(metadata));
            format!("{data_type} of the extension type {name:.200} {metadata}")
        }
    }
}

/// Whether two fields of one type name the same extension types. Both fields are parts of schemas.
fn have_same_extensions(one: &Field, other: &Field) -> bool {
    let (of_one, of_other) = (one.data_type(), other.data_type());
    let values = of_one.dictionary_values().into_iter().zip(of_other.dictionary_values());
    let mut below = of_one.children().zip(of_other.children()).chain(values);
    // A schema is at most 64 levels deep.
    one.extension() == other.extension()
        && below.all(|(one, other)| have_same_extensions(one, other))
}
