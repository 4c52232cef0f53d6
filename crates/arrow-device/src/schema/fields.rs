//! The fields of an imported schema, made when they are first asked for.
//!
//! An import keeps the format, the name, the flags and the metadata of each node as plain values.
//! Most programs that hand arrays on never look at a field, so an import makes none. Nodes are made
//! from the last one to the first, so that children exist before their parents. There are no
//! errors: the import has checked everything that fields are made of.

use std::sync::Arc;

use super::check::Check;
use super::node::SchemaNode;
use super::storage::{Packed, Record};
use super::text::TextBlob;
use super::{Field, Metadata, Text, format};
use crate::Result;

impl Packed {
    /// The nodes, by number.
    pub(super) fn nodes(&self) -> Box<[SchemaNode]> {
        // The import has checked the text, each format, and what lies beside the format. So there
        // are no errors here.
        let Ok(text) = std::str::from_utf8(&self.text) else { unreachable!("the text is UTF-8") };
        let source = FieldSource {
            packed: self,
            text: TextBlob::new(text),
            metadata: if self.metadata.is_empty() {
                Arc::default()
            } else {
                (&*self.metadata).into()
            },
        };
        // From the last node to the first, so that children exist before their parents.
        let mut nodes: Vec<SchemaNode> = Vec::with_capacity(self.checks.len());
        for (check, record) in self.checks.iter().zip(&*self.records).rev() {
            let Ok(field) = source.field(check, record, &nodes) else {
                unreachable!("an imported schema is checked")
            };
            nodes.push(SchemaNode::new(field, record.parent));
        }
        nodes.reverse();
        nodes.into()
    }
}

/// The values that fields are made of.
struct FieldSource<'packed> {
    packed: &'packed Packed,
    text: TextBlob,
    metadata: Arc<[u8]>,
}

impl FieldSource<'_> {
    /// Makes the field of a node. `after` are the nodes behind it, the last one first.
    fn field(&self, check: &Check, record: &Record, after: &[SchemaNode]) -> Result<Field> {
        let last = self.packed.checks.len().saturating_sub(1);
        let built = |number: u32| {
            let node = after.get(last.saturating_sub(number as usize));
            let Some(node) = node else { unreachable!("children come after their parent") };
            node.field.clone()
        };
        let Some(kind) = self.packed.kinds.get(check.rule as usize) else {
            unreachable!("a check names a kind of its schema")
        };
        let data_type = kind.with_format(self.text.as_str(), |format, span| {
            let timezone = &mut |zone: &str| match span {
                Some(span) => self.text.text(span.last(zone.len())),
                None => Text::from(zone),
            };
            let children = check.children().map(built);
            format::parse(format, children, check.dictionary().map(built), record.flags, timezone)
        })?;
        let metadata = match record.metadata.checked_sub(1) {
            Some(start) => Metadata::decode_shared(&self.metadata, start as usize)?.0,
            None => Metadata::EMPTY,
        };
        Ok(Field::from_parts(self.text.text(record.name), data_type, metadata, record.flags))
    }
}
