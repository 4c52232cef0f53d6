//! Rules for the C structs of nodes, computed once for each type of a schema.
//!
//! Arrays are checked often and schemas are made seldom. So everything that a check needs of a type
//! is a number here: a check compares numbers, and never looks at a type.

use super::check::{Check, Nullability};
use super::node::SchemaNode;
use super::{BufferKind, DataType, Layout};
use crate::numbered::all_numbered;

/// What the C struct of a node has to keep to because of its type. Nodes of one type usually share
/// a rule, so that the checks of a wide table stay small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The largest allowed `offset + length`, so that no size in bytes overflows.
    pub(crate) largest_end: i64,
    /// How many elements each child has at least for each element of the node; 0 where only the
    /// data tells.
    pub(crate) elements_in_child: u32,
    /// How many more buffers than `buffers` there may be. None, but for two types: variadic types,
    /// and the null type, whose producers may have a buffer of their own that is never read.
    pub(crate) more_buffers: u32,
    /// The number of buffers; for a variadic type, the smallest number.
    pub(crate) buffers: u8,
    /// How many of the buffers follow from the type: all but the sizes of variadic buffers.
    pub(crate) fixed_buffers: u8,
    /// The buffers that may not be null where there are elements, as bits.
    pub(crate) required: u8,
    /// The buffers that may not be null where there are nulls, as bits. Where there can be no
    /// nulls, this is the bit of a buffer that the type does not have.
    pub(crate) required_for_nulls: u8,
    /// Whether there is a bitmap and then a buffer that elements need, as in nearly all types.
    pub(crate) is_ordinary: bool,
    /// With two buffers, a bitmap and elements: the number of bytes of an element. With three
    /// buffers, a bitmap, offsets and bytes: the number of bytes of an offset. 0 for all other
    /// types, and for wider elements.
    pub(crate) width: u16,
    /// Whether the children are run ends and values.
    pub(crate) is_run_ends: bool,
}

impl Rule {
    /// A rule without any type.
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
        // One element more than the length, for offsets, and seven bits for rounding. No buffer is
        // larger than the memory that addresses reach, which is less where addresses have 32 bits.
        // Types without buffers are only limited by `usize`, and the elements of children by 64
        // bits.
        let reach = if kinds.is_empty() { usize::MAX } else { isize::MAX.unsigned_abs() };
        let reach = i64::try_from(reach).unwrap_or(i64::MAX);
        let in_memory = (reach / i64::from(widest.max(1)) - 8).max(0);
        let in_children = i64::MAX / i64::from(elements_in_child.max(1)) - 8;
        // The sizes of variadic buffers take one more buffer.
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
    /// The checks of all nodes, and the rules that the checks name.
    pub(crate) fn all(nodes: &[SchemaNode]) -> (Vec<Self>, Vec<Rule>) {
        let mut rules: Vec<Rule> = Vec::new();
        let mut number_of = |rule: Rule| {
            // Columns of one type usually follow each other, and there are few rules. A schema with
            // many rules is not searched for long.
            let recent = rules.iter().enumerate().rev().take(16);
            if let Some((number, _)) = recent.into_iter().find(|(_, known)| **known == rule) {
                return number as u32;
            }
            rules.push(rule);
            rules.len() as u32 - 1
        };
        let mut next = 1;
        let check = |node: &SchemaNode| {
            let data_type = node.field.data_type();
            let has_dictionary = data_type.dictionary_values().is_some();
            let check = Self {
                rule: number_of(Rule::new(data_type, &node.layout)),
                first_child: next,
                children: data_type.children().count() as u32,
                has_dictionary,
                ..Self::leaf(Nullability::of(data_type, &node.layout))
            };
            next = check.below().all().end;
            Self { is_leaf: check.below().all().is_empty(), ..check }
        };
        let mut checks: Vec<Self> = nodes.iter().map(check).collect();
        // The children of a node come behind the node.
        let (mut rest, mut passed) = (&mut *checks, 0);
        while let Some((check, behind)) = rest.split_first_mut() {
            passed += 1;
            let below = check.below().all();
            let below = below.start as usize - passed..below.end as usize - passed;
            check.has_only_leaves = all_numbered(behind, below).iter().all(|child| child.is_leaf);
            rest = behind;
        }
        (checks, rules)
    }
}

/// The largest number of buffers of an array.
pub(crate) const MAX_BUFFERS: i64 = i32::MAX as i64;

/// The bit of a buffer that no type has.
pub(crate) const NO_BUFFER: u8 = 0x80;

/// Whether the buffer may be null where there are elements.
pub(crate) fn can_be_absent(kind: BufferKind) -> bool {
    // All strings may be empty, and elements of no bytes need no memory.
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
