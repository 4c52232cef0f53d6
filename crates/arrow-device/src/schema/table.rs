//! [`Schema`]: the type of an array or batch, as a table.
//!
//! The nodes of a type are numbered level by level. The root is node 0, the children of a node have
//! consecutive numbers, and the dictionary of a node comes right behind the node's children. The
//! table has a [`Check`] for each node, and the [`Rule`]s that the checks name. Nodes of one type
//! usually share a rule. Arrays are checked and walked by these numbers, without a look at a type.
//!
//! The [`SchemaNode`]s, with fields and layouts, are another list. An imported schema makes the
//! list when somebody first asks for a node.

use std::ffi::c_void;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use super::check::Check;
use super::metadata::MAX_ENCODED_BYTES;
use super::node::SchemaNode;
use super::rules::Rule;
use super::storage::{Draft, Image, Table};
use super::{DataType, Field, Metadata};
use crate::ffi::node::ChildNumbers;
use crate::numbered::numbered;
use crate::once::OnceBox;
use crate::pool::shared::Shared;
use crate::{Error, ErrorKind, NodePath, Result, Step};

/// The largest number of levels below the root of a schema.
pub(crate) const MAX_DEPTH: usize = 64;
/// The largest number of nodes of a schema, dictionaries included.
pub(crate) const MAX_NODES: usize = 1 << 18;
/// The largest number of bytes that the names, time zones and metadata of a schema have together. A
/// text that several fields share counts for each of them, because a writer repeats the text. An
/// import takes at most half of the bytes in names, and half in metadata.
pub(crate) const MAX_TEXT: usize = 2 * MAX_ENCODED_BYTES;

/// The type of an array or a record batch: a root [`Field`], and the flat table by which arrays are
/// checked and walked.
///
/// Built once, from a field or a C struct, and shared: cloning increments a reference count. Arrays
/// that are imported one after another with one `Schema` share all of it.
///
/// ```
/// use arrow_device::{DataType, Field, IndexType, Schema};
///
/// let schema = Schema::batch([
///     Field::new("symbol", DataType::dictionary(IndexType::Int32, DataType::Utf8), false),
///     Field::new("price", DataType::Float64, true),
/// ])?;
/// assert_eq!(
///     schema.to_string(),
///     "struct<symbol: dictionary<int32, utf8> not null, price: float64> not null"
/// );
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[derive(Clone)]
pub struct Schema(Shared<Table>);

impl Schema {
    /// The schema of arrays of this field's type.
    ///
    /// An error where a C struct cannot describe the field: a name with a NUL byte, a decimal of 77
    /// digits, a tree that is too deep. Another error where names, time zones and metadata together
    /// have more than 48 MiB. A text that several fields share counts for each of them.
    pub fn new(root: impl Into<Field>) -> Result<Self> {
        let schema = Self::flatten(root.into())?;
        let mut text = 0_usize;
        for (number, node) in (0..).zip(schema.nodes()) {
            text = text.saturating_add(node.field.text_len());
            if text > MAX_TEXT {
                let most = MAX_TEXT >> 20;
                let message = format!("a schema has names and metadata of more than {most} MiB");
                return Err(Error::new(ErrorKind::LimitExceeded, message));
            }
            node.field.check().map_err(|error| error.at(schema.place(number)))?;
        }
        Ok(schema)
    }

    /// The schema of record batches with these columns.
    pub fn batch(columns: impl IntoIterator<Item = Field>) -> Result<Self> {
        Self::new(Field::new("", DataType::struct_(columns), false))
    }

    /// A schema of fields that need no check, because they came from C or from another schema.
    pub(super) fn flatten(root: Field) -> Result<Self> {
        let mut nodes = vec![SchemaNode::new(root, 0)];
        let mut level_end = 1;
        let mut depth = 0;
        let mut number = 0;
        while let Some(node) = nodes.get(number) {
            let field = node.field.clone();
            let below = field.data_type().children().chain(field.data_type().dictionary_values());
            nodes.extend(below.map(|child| SchemaNode::new(child.clone(), number as u32)));
            if nodes.len() > MAX_NODES {
                let message = format!("a schema has more than {MAX_NODES} fields");
                return Err(Error::new(ErrorKind::LimitExceeded, message));
            }
            number += 1;
            if number == level_end && nodes.len() > level_end {
                level_end = nodes.len();
                depth += 1;
                if depth > MAX_DEPTH {
                    let message = format!("a schema is nested more than {MAX_DEPTH} levels deep");
                    return Err(Error::new(ErrorKind::LimitExceeded, message));
                }
            }
        }
        Ok(Self::from_draft(Draft::of(nodes)?))
    }

    /// A schema of a finished table whose values were checked.
    pub(super) fn from_draft(draft: Draft) -> Self {
        Self(draft.finish())
    }

    /// The root field. Its name is usually empty.
    pub fn field(&self) -> &Field {
        &self.root().field
    }

    /// The type of the root.
    pub fn data_type(&self) -> &DataType {
        self.field().data_type()
    }

    /// The columns, if the root is a struct, and otherwise an empty slice.
    pub fn columns(&self) -> &[Field] {
        match self.data_type() {
            DataType::Struct(fields) => fields,
            _ => &[],
        }
    }

    /// The number of the first column with this name.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns().iter().position(|column| column.name() == name)
    }

    /// The metadata of the root. For a record batch, this is the metadata of the schema.
    pub fn metadata(&self) -> &Metadata {
        self.field().metadata()
    }

    /// All nodes, by number. The root's is 0.
    #[inline]
    pub(crate) fn nodes(&self) -> &[SchemaNode] {
        match self.0.nodes.get() {
            Some(nodes) => nodes,
            None => self.make_nodes(),
        }
    }

    #[cold]
    fn make_nodes(&self) -> &[SchemaNode] {
        self.0.nodes.get_or_make(|| self.0.packed.nodes())
    }

    /// The checks for imported arrays of this schema, by node.
    #[inline]
    pub(crate) fn checks(&self) -> &[Check] {
        &self.0.packed.checks
    }

    /// The rules that the checks name.
    #[inline]
    pub(crate) fn rules(&self) -> &[Rule] {
        &self.0.packed.rules
    }

    /// The rule of a node.
    #[inline]
    pub(crate) fn rule(&self, number: u32) -> &Rule {
        // Each node has a check, and each check names a rule of the table.
        numbered(self.rules().get(self.check(number).rule as usize))
    }

    /// The check of a node.
    fn check(&self, number: u32) -> &Check {
        numbered(self.checks().get(number as usize))
    }

    /// The numbers of a node's children. The dictionary comes last.
    #[inline]
    pub(crate) fn below(&self, number: u32) -> ChildNumbers {
        self.check(number).below()
    }

    /// The numbers of a node's children, without the dictionary.
    pub(crate) fn children(&self, number: u32) -> Range<u32> {
        self.check(number).children()
    }

    /// The number of a node's dictionary.
    pub(crate) fn dictionary(&self, number: u32) -> Option<u32> {
        self.check(number).dictionary()
    }

    pub(super) fn image(&self) -> &OnceBox<Image> {
        &self.0.image
    }

    pub(crate) fn root(&self) -> &SchemaNode {
        // A table has a root, with which reading and flattening begin.
        let [root, ..] = self.nodes() else { unreachable!("a schema has a root") };
        root
    }

    /// A node by its number.
    #[inline]
    pub(crate) fn node(&self, number: u32) -> &SchemaNode {
        numbered(self.nodes().get(number as usize))
    }

    /// The schema whose root is this node.
    pub(crate) fn subtree(&self, number: u32) -> Result<Self> {
        if number == 0 { Ok(self.clone()) } else { Self::flatten(self.node(number).field.clone()) }
    }

    /// The path to a node.
    pub(crate) fn place(&self, node: u32) -> NodePath {
        NodePath::new(self.steps_between(0, node))
    }

    /// The path from one node to another one below it.
    pub(crate) fn steps_between(&self, top: u32, mut node: u32) -> Vec<Step> {
        let mut steps = Vec::new();
        while node > top {
            let parent = self.node(node).parent;
            let is_dictionary = self.dictionary(parent) == Some(node);
            let child = node.saturating_sub(self.below(parent).first) as usize;
            steps.push(if is_dictionary { Step::Dictionary } else { Step::Child(child) });
            node = parent;
        }
        steps.reverse();
        steps
    }

    /// This share of the table as a pointer: see [`Shared::into_raw`].
    pub(super) fn into_raw(self) -> *const c_void {
        Shared::into_raw(self.0)
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Shared::ptr_eq(&self.0, &other.0)
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.field() == other.field()
    }
}

impl Eq for Schema {}

/// Types with very many fields or many levels may have the same hash as other types with the same
/// beginning: see the hash of [`DataType`].
impl Hash for Schema {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let field = self.field();
        field.hash_name(state);
        field.data_type().hash(state);
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = self.field();
        if !field.name().is_empty() {
            return write!(f, "{field}");
        }
        write!(f, "{}", field.data_type())?;
        if field.is_nullable() { Ok(()) } else { f.write_str(" not null") }
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schema({self})")
    }
}

impl TryFrom<Field> for Schema {
    type Error = Error;

    fn try_from(root: Field) -> Result<Self> {
        Self::new(root)
    }
}

/// The schema of arrays of this type: a nullable field without a name.
impl TryFrom<DataType> for Schema {
    type Error = Error;

    fn try_from(data_type: DataType) -> Result<Self> {
        Self::new(Field::new("", data_type, true))
    }
}

impl TryFrom<&Schema> for Schema {
    type Error = Error;

    fn try_from(schema: &Schema) -> Result<Self> {
        Ok(schema.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IndexType;
    use crate::numbered::tests::is_a_bug_of_ours;

    fn schema() -> Schema {
        let words = DataType::dictionary(IndexType::Int32, DataType::Utf8);
        let columns = [("words", words), ("numbers", DataType::Int64)];
        Schema::batch(columns.map(|(name, column)| Field::new(name, column, true))).unwrap()
    }

    // Requirement: SAF-34
    #[test]
    fn a_number_that_names_no_node_of_a_schema_is_a_bug() {
        let schema = schema();
        let count = schema.checks().len() as u32;
        assert_eq!((count, schema.children(0)), (4, 1..3));
        for number in [count, u32::MAX] {
            let questions: [(&str, &dyn Fn(u32)); 7] = [
                ("node", &|number| drop(schema.node(number).field.clone())),
                ("below", &|number| _ = schema.below(number)),
                ("children", &|number| _ = schema.children(number)),
                ("dictionary", &|number| _ = schema.dictionary(number)),
                ("rule", &|number| _ = schema.rule(number)),
                ("subtree", &|number| drop(schema.subtree(number))),
                ("place", &|number| drop(schema.place(number))),
            ];
            for (question, ask) in questions {
                ask(count - 1);
                assert!(is_a_bug_of_ours(|| ask(number)), "{question} of {number}");
            }
        }
    }
}
