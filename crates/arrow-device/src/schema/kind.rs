//! [`NodeKind`]: what a format string says of a node; and keys, by which format strings are
//! compared.
//!
//! The key of a format string is its first eight bytes as a number, with zeros behind its end. A
//! string of at most seven bytes is whole in its key, so one comparison of numbers compares the
//! strings.

use std::ffi::c_char;

use super::check::Nullability;
use super::text::TextSpan;
use crate::numbered::numbered;

/// What a format string says of a node, whatever is below the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeKind {
    pub(super) role: Role,
    pub(super) nulls: Nullability,
    /// How many children there must be; `None` where any number will do.
    pub(super) children: Option<u32>,
}

/// What nodes of a kind mean to their parent or their children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The node means nothing in particular.
    Plain,
    /// The node may be the indices of a dictionary.
    Index,
    /// The node may be the indices of a dictionary, or the run ends of a run-end encoded node.
    IndexOrRunEnds,
    /// The node may be the entries of a map, if it has two children.
    Struct,
    /// The node is the parent of entries.
    Map,
    /// The node is the parent of run ends and values.
    RunEndEncoded,
}

/// A kind of a schema, with its format string. Its number in the schema is also the number of its
/// rule.
#[derive(Clone, Copy)]
pub(super) struct NamedKind {
    pub(super) key: u64,
    pub(super) kind: NodeKind,
    /// The place of the format string in the text, if the string is longer than its key.
    pub(super) format: TextSpan,
}

impl NamedKind {
    /// Calls `read` with the format string, and with its place if it is in the text.
    pub(super) fn with_format<T>(
        &self,
        text: &str,
        read: impl FnOnce(&[u8], Option<TextSpan>) -> T,
    ) -> T {
        if is_whole(self.key) {
            let (bytes, len) = whole(self.key);
            read(numbered(bytes.get(..len)), None)
        } else {
            read(self.format.bytes(text.as_bytes()), Some(self.format))
        }
    }
}

pub(super) const NO_TEXT: TextSpan = TextSpan { start: 0, len: 0 };

/// The first eight bytes of a string, with zeros behind its end.
///
/// # Safety
/// `text` is NUL-terminated.
pub(super) unsafe fn key_of(text: *const c_char) -> u64 {
    let mut key = 0;
    for index in 0..8 {
        // SAFETY: no byte before this one was the NUL, so this one belongs to the string.
        let byte = unsafe { text.wrapping_add(index).cast::<u8>().read() };
        if byte == 0 {
            break;
        }
        key |= u64::from(byte) << (8 * index);
    }
    key
}

/// The bytes of a string that is whole in its key, and their number.
pub(super) fn whole(key: u64) -> ([u8; 8], usize) {
    (key.to_le_bytes(), (u64::BITS - key.leading_zeros()).div_ceil(8) as usize)
}

/// Whether the whole string is in its key, NUL byte included.
pub(super) fn is_whole(key: u64) -> bool {
    key >> 56 == 0
}
