//! [`SchemaNode`]: one node of a schema, with its field.

use super::{Field, Layout};

/// A node of a schema. Nodes are numbered level by level, so the children of a node follow each
/// other. The [`Check`](super::Check) of a node has their numbers.
pub(crate) struct SchemaNode {
    pub(crate) field: Field,
    pub(crate) layout: Layout,
    /// The number of the node above; 0 for the root.
    pub(crate) parent: u32,
}

impl SchemaNode {
    pub(super) fn new(field: Field, parent: u32) -> Self {
        let layout = Layout::of(field.data_type());
        Self { field, layout, parent }
    }
}
