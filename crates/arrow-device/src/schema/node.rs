//! [`SchemaNode`]: one node of a schema, with its field and the numbers of what lies below it.

use super::check::Check;
use super::{Field, Layout};

/// A node of a schema. Nodes are numbered level by level, so the children of a node follow each
/// other.
pub(crate) struct SchemaNode {
    pub(crate) field: Field,
    pub(crate) layout: Layout,
    pub(super) parent: u32,
    pub(super) first_child: u32,
    /// The number of children. A dictionary counts as the last one.
    pub(super) children: u32,
    pub(super) has_dictionary: bool,
}

impl SchemaNode {
    /// The number of the node above; 0 for the root.
    pub(crate) fn parent(&self) -> u32 {
        self.parent
    }

    /// The numbers of the children, without the dictionary.
    pub(crate) fn children(&self) -> std::ops::Range<u32> {
        let regular = self.children - u32::from(self.has_dictionary);
        self.first_child..self.first_child + regular
    }

    /// The number of the dictionary.
    pub(crate) fn dictionary(&self) -> Option<u32> {
        self.has_dictionary.then(|| self.first_child + self.children - 1)
    }

    /// The numbers of the children and the dictionary.
    pub(crate) fn below(&self) -> std::ops::Range<u32> {
        self.first_child..self.first_child + self.children
    }
}

impl SchemaNode {
    /// A node whose children have the numbers that its check says.
    pub(super) fn checked(field: Field, parent: u32, check: &Check) -> Self {
        let below = check.below();
        Self {
            first_child: below.first,
            children: below.count,
            has_dictionary: below.has_dictionary,
            ..Self::new(field, parent)
        }
    }

    pub(super) fn new(field: Field, parent: u32) -> Self {
        let layout = Layout::of(field.data_type());
        Self { field, layout, parent, first_child: 0, children: 0, has_dictionary: false }
    }
}
