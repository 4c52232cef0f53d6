//! The elements of one buffer, and the errors about them.

use super::errors::invalid;
use crate::{HostArray, Result};

/// The elements of the array in one of its buffers, and `more` elements after the last one. Each is
/// given as its bytes, because elements need not be aligned.
pub(super) fn elements<'bytes, const SIZE: usize>(
    node: &HostArray,
    bytes: &'bytes [u8],
    more: usize,
) -> Result<&'bytes [[u8; SIZE]]> {
    let (pieces, _) = bytes.as_chunks::<SIZE>();
    let (from, count) = (node.array().offset(), node.array().len());
    let end = from.saturating_add(count).saturating_add(more);
    pieces
        .get(from..end)
        .ok_or_else(|| invalid(format!("{} bytes are too few for {end} times {SIZE}", bytes.len())))
}
