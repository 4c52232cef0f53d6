//! [`Check`]: numbers by which the C struct of an array's node is checked against a node of a
//! schema.

use std::ops::Range;

use super::{DataType, Layout};
use crate::ffi::node::ChildNumbers;

/// Which elements of a type may be null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nullability {
    /// The first buffer is a validity bitmap.
    InBitmap,
    /// All elements are null (the null type).
    All,
    /// No element is null, as far as the node itself says.
    None,
}

impl Nullability {
    pub(crate) fn of(data_type: &DataType, layout: &Layout) -> Self {
        match data_type {
            DataType::Null => Self::All,
            _ if layout.has_validity() => Self::InBitmap,
            _ => Self::None,
        }
    }
}

/// A node of a schema: the number of its rule, and the numbers of the nodes below it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Check {
    /// The number of the node's [`Rule`](super::rules::Rule).
    pub(crate) rule: u32,
    /// The number of the first child.
    pub(crate) first_child: u32,
    /// The number of children, without the dictionary.
    pub(crate) children: u32,
    pub(crate) nulls: Nullability,
    pub(crate) has_dictionary: bool,
    /// Whether nothing is below this node.
    pub(crate) is_leaf: bool,
    /// Whether nothing is below any of the children.
    pub(crate) has_only_leaves: bool,
}

impl Check {
    /// A node with nothing below it. Its rule is set later.
    pub(super) const fn leaf(nulls: Nullability) -> Self {
        Self {
            rule: 0,
            first_child: 0,
            children: 0,
            nulls,
            has_dictionary: false,
            is_leaf: true,
            has_only_leaves: true,
        }
    }

    /// The numbers of the children, without the dictionary.
    pub(crate) fn children(&self) -> Range<u32> {
        self.first_child..self.first_child + self.children
    }

    /// The number of the dictionary.
    pub(crate) fn dictionary(&self) -> Option<u32> {
        self.has_dictionary.then(|| self.first_child + self.children)
    }

    /// Whether there are only children with nothing below them, and no dictionary.
    pub(crate) fn has_simple_columns(&self) -> bool {
        self.has_only_leaves && !self.has_dictionary && !self.is_leaf
    }

    /// The numbers of the children. The dictionary comes last.
    pub(crate) fn below(&self) -> ChildNumbers {
        ChildNumbers {
            first: self.first_child,
            count: self.children + u32::from(self.has_dictionary),
            has_dictionary: self.has_dictionary,
            are_leaves: self.has_only_leaves,
        }
    }
}
