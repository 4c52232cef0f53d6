//! The nodes of a tree as an export reads them: of a built tree, of an imported one, and of a
//! record batch, whose columns go out with the rows of the batch.

use std::ops::Range;

use super::Window;
use super::node::ArrayNode;
use super::structs::Structs;
use crate::abi::ArrowArray;
use crate::ffi::node::{ChildNumbers, TreeSource};
use crate::numbered::{all_numbered, numbered};
use crate::schema::Check;

/// The nodes of a tree that was put together here and is being exported.
pub(super) struct BuiltNodes<'tree> {
    pub(super) nodes: &'tree [ArrayNode],
    pub(super) checks: &'tree [Check],
}

impl TreeSource<ArrowArray> for BuiltNodes<'_> {
    fn below(&self, source: u32) -> ChildNumbers {
        numbered(self.checks.get(source as usize)).below()
    }

    fn children(&self, numbers: Range<u32>) -> impl ExactSizeIterator<Item = ArrayNode> {
        all_numbered(self.nodes, numbers.start as usize..numbers.end as usize).iter().copied()
    }
}

/// The nodes of a tree that was imported and is being exported.
pub(super) struct ImportedNodes<'tree> {
    pub(super) structs: &'tree Structs,
    pub(super) checks: &'tree [Check],
}

impl TreeSource<ArrowArray> for ImportedNodes<'_> {
    fn below(&self, source: u32) -> ChildNumbers {
        numbered(self.checks.get(source as usize)).below()
    }

    fn children(&self, numbers: Range<u32>) -> impl ExactSizeIterator<Item = ArrayNode> {
        self.structs.nodes(numbers, self.checks)
    }
}

/// The nodes of a tree whose root is a record batch. Each column has exactly the rows of the batch,
/// and the struct around the columns has no offset. Shipped consumers refuse an offset there, and
/// ignore the length.
pub(super) struct BatchRows<S> {
    pub(super) tables: S,
    /// The numbers of the columns.
    pub(super) columns: Range<u32>,
    /// The window of the batch.
    pub(super) window: Window,
}

impl<S: TreeSource<ArrowArray>> TreeSource<ArrowArray> for BatchRows<S> {
    fn below(&self, source: u32) -> ChildNumbers {
        self.tables.below(source)
    }

    fn children(&self, numbers: Range<u32>) -> impl ExactSizeIterator<Item = ArrayNode> {
        let (rows, are_columns) = (self.window, numbers == self.columns);
        self.tables.children(numbers).map(move |mut node| {
            if are_columns {
                node.window = node.window.part(rows.offset, rows.length);
            }
            node
        })
    }
}

/// Whether the columns have exactly the rows of the batch, as they usually do. Such columns go out
/// unchanged.
pub(super) fn have_rows_of(
    batch: Window,
    tables: &impl TreeSource<ArrowArray>,
    columns: Range<u32>,
) -> bool {
    let are_rows = |node: ArrayNode| node.window.length == batch.length;
    batch.offset == 0 && tables.children(columns).all(are_rows)
}
