//! [`Window`]: which elements of a node an array has.

use crate::abi::ArrowArray;

/// The elements of a node that an array has, counted in the node's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) offset: i64,
    pub(crate) length: i64,
    /// -1 where it is not known.
    pub(crate) null_count: i64,
}

impl Window {
    /// The window of a struct.
    #[inline]
    pub(super) fn of(source: &ArrowArray) -> Self {
        let ArrowArray { length, offset, null_count, .. } = *source;
        Self { offset, length, null_count }
    }

    pub(crate) fn end(self) -> i64 {
        self.offset.saturating_add(self.length)
    }

    /// The part of `length` elements from `offset` on, counted from the window's first element. The
    /// null count stays known if no element or every element is null, or the length stays.
    pub(crate) fn part(self, offset: i64, length: i64) -> Self {
        let null_count = match self.null_count {
            0 => 0,
            _ if length == 0 => 0,
            all if all == self.length => length,
            known if length == self.length => known,
            _ => -1,
        };
        Self { offset: self.offset + offset, length, null_count }
    }
}
