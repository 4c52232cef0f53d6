//! What the C struct of a node has to keep to, worked out once for each node of a schema.
//!
//! Arrays are checked often and schemas are made seldom, so everything about a type that a check needs is a number here.

use super::table::Node;
use super::{BufferKind, DataType};

/// The rules for one node's C struct.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Check {
    /// How many buffers; for a variadic type, the fewest.
    pub(crate) buffers: u8,
    /// Any number of buffers may follow.
    pub(crate) is_variadic: bool,
    /// The first buffer is a validity bitmap.
    pub(crate) has_validity: bool,
    /// Bit `i` is set where buffer `i` may be null although there are elements.
    pub(crate) may_be_null: u8,
    /// All elements are null (the null type).
    pub(crate) is_all_null: bool,
    /// The children are run ends and values.
    pub(crate) is_run_ends: bool,
    /// The number of the first child.
    pub(crate) first_child: u32,
    /// Children, the dictionary not counted.
    pub(crate) children: u32,
    pub(crate) has_dictionary: bool,
    /// Each child has at least this many elements for each of this node's; 0 where only the data tells.
    pub(crate) elements_in_child: u32,
    /// `offset + length` is at most this, so that no size in bytes overflows.
    pub(crate) largest_end: i64,
}

impl Check {
    pub(crate) fn new(node: &Node) -> Self {
        let data_type = node.field.data_type();
        let layout = &node.layout;
        let kinds = layout.buffers();
        let may_be_null = kinds
            .iter()
            .enumerate()
            .map(|(index, kind)| u8::from(can_be_absent(*kind)) << index)
            .sum();
        let widest = kinds.iter().map(|kind| bytes_of(*kind)).max().unwrap_or(1);
        let elements_in_child = match data_type {
            DataType::Struct(_) | DataType::Union { mode: super::UnionMode::Sparse, .. } => 1,
            _ => layout.list_size().unwrap_or(0),
        };
        // One element more than the length, for offsets; and a byte's worth of rounding.
        let divisor = i64::from(widest.max(elements_in_child).max(1));
        Self {
            // The sizes of the variadic buffers are one more buffer.
            buffers: kinds.len() as u8 + u8::from(layout.is_variadic()),
            is_variadic: layout.is_variadic(),
            has_validity: layout.has_validity(),
            may_be_null,
            is_all_null: matches!(data_type, DataType::Null),
            is_run_ends: matches!(data_type, DataType::RunEndEncoded { .. }),
            first_child: node.below().start,
            children: node.children().len() as u32,
            has_dictionary: node.dictionary().is_some(),
            elements_in_child,
            largest_end: i64::MAX / divisor - 8,
        }
    }
}

/// Whether the buffer may be null where there are elements.
pub(crate) fn can_be_absent(kind: BufferKind) -> bool {
    // All strings may be empty; and elements of no bytes need none.
    matches!(
        kind,
        BufferKind::Validity | BufferKind::VariableBytes | BufferKind::Fixed { width: 0 }
    )
}

fn bytes_of(kind: BufferKind) -> u32 {
    match kind {
        BufferKind::Fixed { width } => width,
        BufferKind::Views => 16,
        _ => 8,
    }
}
