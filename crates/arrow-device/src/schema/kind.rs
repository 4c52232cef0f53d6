//! [`Kind`]: what a format says of a node; and keys, by which the formats of kinds are compared.

use std::ffi::c_char;

use super::check::Nullability;
use super::text::TextSpan;
use crate::numbered::numbered;

/// What a format says of a node, whatever lies below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) role: Role,
    pub(super) nulls: Nullability,
    /// How many children there must be; `None` where any number will do.
    pub(super) children: Option<u32>,
}

/// What a node of a kind can be for those beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Nothing in particular.
    Plain,
    /// The indices of a dictionary.
    Index,
    /// The same, or the run ends of a run-end encoded node.
    IndexOrRunEnds,
    /// The entries of a map, if it has two children.
    Struct,
    /// A parent of entries.
    Map,
    /// A parent of run ends and values.
    RunEndEncoded,
}

/// A kind of a schema, with its format. Its number there is also that of its rule.
#[derive(Clone, Copy)]
pub(super) struct Named {
    pub(super) key: u64,
    pub(super) kind: Kind,
    /// Where in the text the format string is, if it is longer than its key.
    pub(super) format: TextSpan,
}

impl Named {
    /// Gives the format, and where in the text it is, if it is there, to a reader.
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

/// The first eight bytes of a string, with zeros for those behind its end.
///
/// # Safety
/// `text` is NUL-terminated.
#[inline(always)]
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

/// The bytes of a string that is whole in its key, and how many of them it has.
#[inline(always)]
pub(super) fn whole(key: u64) -> ([u8; 8], usize) {
    (key.to_le_bytes(), (u64::BITS - key.leading_zeros()).div_ceil(8) as usize)
}

/// Whether the whole string is in its key: whether a NUL is.
#[inline(always)]
pub(super) fn is_whole(key: u64) -> bool {
    key >> 56 == 0
}
