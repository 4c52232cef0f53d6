//! What the C struct of a node has to keep to, worked out once for each node of a schema.
//!
//! Arrays are checked often and schemas are made seldom, so everything about a type that a check needs is a number here.

use super::table::Node;
use super::{BufferKind, DataType};
use crate::exchange::arena::Below;

/// The rules for one node's C struct.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Check {
    /// `offset + length` is at most this, so that no size in bytes overflows.
    pub(crate) largest_end: i64,
    /// The number of the first child.
    pub(crate) first_child: u32,
    /// Children, the dictionary not counted.
    pub(crate) children: u32,
    /// Each child has at least this many elements for each of this node's; 0 where only the data tells.
    pub(crate) elements_in_child: u32,
    /// How many buffers more than `buffers` there may be: none, unless the type is variadic.
    pub(crate) more_buffers: u32,
    /// How many buffers; for a variadic type, the fewest.
    pub(crate) buffers: u8,
    /// How many of them are known by their type: all, but for the sizes of the variadic ones.
    pub(crate) fixed_buffers: u8,
    /// The buffers that may not be null where there are elements, as bits.
    pub(crate) required: u8,
    /// The buffers that may not be null where there are nulls, as bits; one more than there are where there can be no nulls.
    pub(crate) required_for_nulls: u8,
    /// The first buffer is a validity bitmap.
    pub(crate) has_validity: bool,
    /// All elements are null (the null type).
    pub(crate) is_all_null: bool,
    /// The children are run ends and values.
    pub(crate) is_run_ends: bool,
    pub(crate) has_dictionary: bool,
    /// There is nothing below this node.
    pub(crate) is_leaf: bool,
}

impl Check {
    pub(crate) fn new(node: &Node) -> Self {
        let data_type = node.field.data_type();
        let layout = &node.layout;
        let kinds = layout.buffers();
        let required = kinds
            .iter()
            .enumerate()
            .map(|(index, kind)| u8::from(!can_be_absent(*kind)) << index)
            .sum();
        let is_all_null = matches!(data_type, DataType::Null);
        let widest = kinds.iter().map(|kind| bytes_of(*kind)).max().unwrap_or(1);
        let elements_in_child = match data_type {
            DataType::Struct(_) | DataType::Union { mode: super::UnionMode::Sparse, .. } => 1,
            _ => layout.list_size().unwrap_or(0),
        };
        // One element more than the length, for offsets; and a byte's worth of rounding.
        let divisor = i64::from(widest.max(elements_in_child).max(1));
        // The sizes of the variadic buffers are one more buffer.
        let buffers = kinds.len() as i64 + i64::from(layout.is_variadic());
        Self {
            largest_end: i64::MAX / divisor - 8,
            first_child: node.below().start,
            children: node.children().len() as u32,
            elements_in_child,
            more_buffers: if layout.is_variadic() { (MAX_BUFFERS - buffers) as u32 } else { 0 },
            fixed_buffers: kinds.len() as u8,
            buffers: buffers as u8,
            required,
            required_for_nulls: match (layout.has_validity(), is_all_null) {
                (true, _) => 1,
                (false, true) => 0,
                (false, false) => NO_BUFFER,
            },
            has_validity: layout.has_validity(),
            is_all_null,
            is_run_ends: matches!(data_type, DataType::RunEndEncoded { .. }),
            has_dictionary: node.dictionary().is_some(),
            is_leaf: node.below().is_empty(),
        }
    }
}

impl Check {
    /// Where the children of a node are, by its number in the table.
    #[inline(always)]
    pub(crate) fn below(node: Option<&Self>) -> Below {
        match node {
            Some(Self { first_child, children, has_dictionary, .. }) => Below {
                first: *first_child,
                count: children + u32::from(*has_dictionary),
                has_dictionary: *has_dictionary,
            },
            None => Below { first: 0, count: 0, has_dictionary: false },
        }
    }
}

/// No array has more buffers than this.
pub(crate) const MAX_BUFFERS: i64 = i32::MAX as i64;

/// The bit of a buffer that no type has.
pub(crate) const NO_BUFFER: u8 = 0x80;

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
