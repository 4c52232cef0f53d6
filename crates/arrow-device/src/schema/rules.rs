//! What the C struct of a node has to keep to, worked out once for each node of a schema.
//!
//! Arrays are checked often and schemas are made seldom, so everything about a type that a check
//! needs is a number here.

use super::check::{Check, Nullability};
use super::node::SchemaNode;
use super::{BufferKind, DataType, Layout};
use crate::numbered::numbered;

/// What a node's C struct has to keep to because of its type. Nodes of like types share one, so
/// that a wide table of checks stays small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// `offset + length` is at most this, so that no size in bytes overflows.
    pub(crate) largest_end: i64,
    /// Each child has at least this many elements for each of this node's; 0 where only the data
    /// tells.
    pub(crate) elements_in_child: u32,
    /// How many buffers more than `buffers` there may be: none, unless the type is variadic, and
    /// one for the null type, whose producers may have a buffer of their own that is never read.
    pub(crate) more_buffers: u32,
    /// How many buffers; for a variadic type, the fewest.
    pub(crate) buffers: u8,
    /// How many of them are known by their type: all, but for the sizes of the variadic ones.
    pub(crate) fixed_buffers: u8,
    /// The buffers that may not be null where there are elements, as bits.
    pub(crate) required: u8,
    /// The buffers that may not be null where there are nulls, as bits; one more than there are
    /// where there can be no nulls.
    pub(crate) required_for_nulls: u8,
    /// A bitmap and then one more buffer that elements need: what nearly all types have.
    pub(crate) is_ordinary: bool,
    /// A bitmap, and then elements of so many bytes, and no more; or, where there are three
    /// buffers, offsets of so many bytes and the bytes that they lead to. 0 for all other types,
    /// and for wider elements.
    pub(crate) width: u16,
    /// The children are run ends and values.
    pub(crate) is_run_ends: bool,
}

impl Rule {
    /// The rule of nothing.
    pub(super) const NONE: Self = Self {
        largest_end: 0,
        elements_in_child: 0,
        more_buffers: 0,
        buffers: 0,
        fixed_buffers: 0,
        required: 0,
        required_for_nulls: 0,
        is_ordinary: false,
        width: 0,
        is_run_ends: false,
    };

    /// The rule of a type, whatever its children are.
    pub(crate) fn new(data_type: &DataType, layout: &Layout) -> Self {
        let kinds = layout.buffers();
        let required = kinds
            .iter()
            .enumerate()
            .map(|(index, kind)| u8::from(!can_be_absent(*kind)) << index)
            .sum();
        let nulls = Nullability::of(data_type, layout);
        let widest = kinds.iter().map(|kind| bytes_of(*kind)).max().unwrap_or(1);
        let elements_in_child = match data_type {
            DataType::Struct(_) | DataType::Union { mode: super::UnionMode::Sparse, .. } => 1,
            _ => layout.list_size().unwrap_or(0),
        };
        // One element more than the length, for offsets; and a byte's worth of rounding. No buffer
        // is larger than what addresses reach, which is less where they have 32 bits. What has no
        // buffers is counted as far as `usize` goes, and the elements of children in 64 bits.
        let reach = if kinds.is_empty() { usize::MAX } else { isize::MAX.unsigned_abs() };
        let reach = i64::try_from(reach).unwrap_or(i64::MAX);
        let in_memory = (reach / i64::from(widest.max(1)) - 8).max(0);
        let in_children = i64::MAX / i64::from(elements_in_child.max(1)) - 8;
        // The sizes of the variadic buffers are one more buffer.
        let buffers = kinds.len() as i64 + i64::from(layout.is_variadic());
        Self {
            largest_end: in_memory.min(in_children),
            elements_in_child,
            more_buffers: match data_type {
                _ if layout.is_variadic() => (MAX_BUFFERS - buffers) as u32,
                DataType::Null => 1,
                _ => 0,
            },
            buffers: buffers as u8,
            fixed_buffers: kinds.len() as u8,
            required,
            required_for_nulls: match nulls {
                Nullability::InBitmap => 1,
                Nullability::All => 0,
                Nullability::None => NO_BUFFER,
            },
            is_ordinary: nulls == Nullability::InBitmap && required == 0b10,
            width: match kinds {
                // All of these have a bitmap first.
                [_, BufferKind::Fixed { width }] => u16::try_from(*width).unwrap_or(0),
                [_, BufferKind::Offsets32, BufferKind::VariableBytes] => 4,
                [_, BufferKind::Offsets64, BufferKind::VariableBytes] => 8,
                _ => 0,
            },
            is_run_ends: matches!(data_type, DataType::RunEndEncoded { .. }),
        }
    }

    /// Whether the last buffer has the sizes of the variadic ones.
    pub(crate) fn has_sizes(&self) -> bool {
        self.buffers > self.fixed_buffers
    }
}

impl Check {
    /// The checks of all nodes, and the rules that they name.
    pub(crate) fn all(nodes: &[SchemaNode]) -> (Vec<Self>, Vec<Rule>) {
        let mut rules: Vec<Rule> = Vec::new();
        let mut number_of = |rule: Rule| {
            // Like columns stand together, and there are few rules; a schema with many is not
            // searched for long.
            let recent = rules.iter().enumerate().rev().take(16);
            if let Some((number, _)) = recent.into_iter().find(|(_, known)| **known == rule) {
                return number as u32;
            }
            rules.push(rule);
            rules.len() as u32 - 1
        };
        let has_nothing_below =
            |number: u32| numbered(nodes.get(number as usize)).below().is_empty();
        let check = |node: &SchemaNode| Self {
            rule: number_of(Rule::new(node.field.data_type(), &node.layout)),
            first_child: node.below().start,
            children: node.children().len() as u32,
            nulls: Nullability::of(node.field.data_type(), &node.layout),
            has_dictionary: node.dictionary().is_some(),
            is_leaf: node.below().is_empty(),
            has_only_leaves: node.below().all(has_nothing_below),
        };
        (nodes.iter().map(check).collect(), rules)
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
