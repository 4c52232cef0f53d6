//! Checks of offsets, list views and maps.

use super::bitmap::Validity;
use super::elements::elements;
use super::errors::invalid_element;
use crate::{BufferKind, HostArray, Result};

/// Checks that the offsets of lists stay within the child.
pub(super) fn check_offsets(node: &HostArray) -> Result<()> {
    let child = node.array().node_child(0)?.window().length;
    let bytes = node.buffer(1)?;
    match node.array().buffer_kind(1) {
        Some(BufferKind::Offsets64) => {
            check_order(elements(node, &bytes, 1)?, i64::from_ne_bytes, child)
        }
        _ => {
            check_order(elements(node, &bytes, 1)?, |bytes| i32::from_ne_bytes(bytes).into(), child)
        }
    }
}

/// Checks that no offset is negative, smaller than the one before, or past `limit`.
pub(super) fn check_order<const SIZE: usize>(
    offsets: &[[u8; SIZE]],
    read: impl Fn([u8; SIZE]) -> i64,
    limit: i64,
) -> Result<()> {
    let first = offsets.first().map_or(0, |offset| read(*offset));
    let mut last = first;
    let mut runs_backwards = false;
    for offset in offsets {
        let offset = read(*offset);
        runs_backwards |= offset < last;
        last = offset;
    }
    if first >= 0 && !runs_backwards && last <= limit {
        return Ok(());
    }
    if first < 0 {
        return Err(invalid_element(0, format_args!("offset {first} is negative")));
    }
    let mut begin = first;
    for (index, end) in offsets.iter().skip(1).map(|offset| read(*offset)).enumerate() {
        if end < begin {
            return Err(invalid_element(index, format_args!("offset {end} is before {begin}")));
        }
        if end > limit {
            let message = format!("offset {end} is past the end, which is {limit}");
            return Err(invalid_element(index, message));
        }
        begin = end;
    }
    // A single offset can only be past the end.
    Err(invalid_element(0, format_args!("offset {first} is past the end, which is {limit}")))
}

/// Checks that offset and size of every list stay within the child, even where the list is null:
/// "every list-view value, including null values, has to guarantee the following invariants".
pub(super) fn check_list_views<const SIZE: usize>(
    node: &HostArray,
    read: impl Fn([u8; SIZE]) -> i64,
) -> Result<()> {
    let child = node.array().node_child(0)?.window().length;
    let (starts, sizes) = (node.buffer(1)?, node.buffer(2)?);
    let starts = elements::<SIZE>(node, &starts, 0)?;
    let sizes = elements::<SIZE>(node, &sizes, 0)?;
    for (index, (start, size)) in starts.iter().zip(sizes).enumerate() {
        let (start, size) = (read(*start), read(*size));
        // Compared by subtraction, because the sum may overflow.
        if start < 0 || size < 0 || start > child || size > child - start {
            let message =
                format!("offset {start} and size {size} are not within the {child} of the child");
            return Err(invalid_element(index, message));
        }
    }
    Ok(())
}

/// Checks that the offsets of a map stay within its entries, and that no entry and no key is null:
/// "neither the entries field nor the key field may be nullable". Entries of a null element are not
/// checked.
pub(super) fn check_map(node: &HostArray) -> Result<()> {
    check_offsets(node)?;
    let entries = node.node_child(0)?;
    let keys = entries.node_child(0)?;
    let (entries_validity, keys_validity) = (Validity::of(&entries)?, Validity::of(&keys)?);
    // The number of an entry's key in the array of keys.
    let key_of = |entry: usize| entry.saturating_add(entries.array().offset());
    let bytes = node.buffer(1)?;
    let offsets: &[[u8; 4]] = elements(node, &bytes, 1)?;
    let number = |offset: &[u8; 4]| usize::try_from(i32::from_ne_bytes(*offset)).unwrap_or(0);
    let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return Ok(()) };
    let (first, last) = (number(first), number(last));
    if entries_validity.null_count(first..last) == 0
        && keys_validity.null_count(key_of(first)..key_of(last)) == 0
    {
        return Ok(());
    }
    let validity = Validity::of(node)?;
    for (index, (begin, end)) in offsets.iter().zip(offsets.iter().skip(1)).enumerate() {
        if !validity.is_valid(index) {
            continue;
        }
        for entry in number(begin)..number(end) {
            let null = match () {
                () if !entries_validity.is_valid(entry) => "entry",
                () if !keys_validity.is_valid(key_of(entry)) => "key of entry",
                () => continue,
            };
            return Err(invalid_element(index, format_args!("{null} {entry} is null")));
        }
    }
    Ok(())
}
