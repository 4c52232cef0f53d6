//! Checks of numbers that refer to other arrays: dictionary keys, type ids and offsets of unions,
//! and run ends.

use super::bitmap::Validity;
use super::elements::elements;
use super::errors::{invalid, invalid_element};
use crate::{DataType, HostArray, IndexType, Result};

/// Checks that keys that are not null point into the dictionary. The bitmap is read only where a
/// key is outside: keys of null elements may be anything.
pub(super) fn check_keys(node: &HostArray, index: IndexType) -> Result<()> {
    // A negative key becomes a number that is larger than any length.
    match index {
        IndexType::Int8 => keys(node, |key| i64::from(i8::from_ne_bytes(key)) as u64),
        IndexType::Int16 => keys(node, |key| i64::from(i16::from_ne_bytes(key)) as u64),
        IndexType::Int32 => keys(node, |key| i64::from(i32::from_ne_bytes(key)) as u64),
        IndexType::Int64 => keys(node, |key| i64::from_ne_bytes(key) as u64),
        IndexType::UInt8 => keys(node, |key| u8::from_ne_bytes(key).into()),
        IndexType::UInt16 => keys(node, |key| u16::from_ne_bytes(key).into()),
        IndexType::UInt32 => keys(node, |key| u32::from_ne_bytes(key).into()),
        IndexType::UInt64 => keys(node, u64::from_ne_bytes),
    }
}

fn keys<const SIZE: usize>(node: &HostArray, read: impl Fn([u8; SIZE]) -> u64) -> Result<()> {
    let values = node.array().node_dictionary().map_or(0, |values| values.len() as u64);
    let bytes = node.buffer(1)?;
    let keys: &[[u8; SIZE]] = elements(node, &bytes, 0)?;
    if keys.iter().all(|key| read(*key) < values) {
        return Ok(());
    }
    let is_signed = matches!(node.array().data_type(), DataType::Dictionary { index, .. } if index.data_type().is_signed_integer());
    let validity = Validity::of(node)?;
    for (index, key) in keys.iter().enumerate() {
        if read(*key) >= values && validity.is_valid(index) {
            let key = read(*key);
            let key = if is_signed { (key as i64).to_string() } else { key.to_string() };
            let message = format!("key {key} is not within the {values} of the dictionary");
            return Err(invalid_element(index, message));
        }
    }
    Ok(())
}

/// Checks that type ids are known, and that offsets of a dense union stay within the child and, in
/// the words of the specification, "must be in order / increasing" for each child. An offset may
/// occur twice in a row, as shipped implementations allow, and never decreases.
pub(super) fn check_union(node: &HostArray, type_ids: &[i8], is_dense: bool) -> Result<()> {
    let mut members = [None::<Member>; 128];
    for (child, id) in type_ids.iter().enumerate() {
        let length = node.array().node_child(child)?.window().length;
        if let Some(member) = usize::try_from(*id).ok().and_then(|id| members.get_mut(id)) {
            *member = Some(Member { child, length, reached: 0 });
        }
    }
    let (ids, offsets) = (node.buffer(0)?, node.buffer(1)?);
    let ids: &[[u8; 1]] = elements(node, &ids, 0)?;
    let offsets: &[[u8; 4]] = if is_dense { elements(node, &offsets, 0)? } else { &[] };
    let mut offsets = offsets.iter().map(|offset| i64::from(i32::from_ne_bytes(*offset)));
    for (index, [id]) in ids.iter().enumerate() {
        let Some(Some(member)) = members.get_mut(usize::from(*id)) else {
            let message = format!("type id {} is none of the union", i8::from_ne_bytes([*id]));
            return Err(invalid_element(index, message));
        };
        // A sparse union has no offsets. Its children are as long as the union.
        let Some(offset) = offsets.next() else { continue };
        let Member { child, length, reached } = *member;
        if offset < 0 || offset >= length {
            let message = format!("offset {offset} is not within the {length} of child {child}");
            return Err(invalid_element(index, message));
        }
        if offset < reached {
            let message = format!(
                "offset {offset} into child {child} is before {reached}, which came earlier"
            );
            return Err(invalid_element(index, message));
        }
        member.reached = offset;
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Member {
    child: usize,
    length: i64,
    /// The largest offset so far.
    reached: i64,
}

/// Checks that run ends are not null, positive and strictly increasing, and that the last one
/// covers the array.
pub(super) fn check_run_ends(node: &HostArray, run_ends: &DataType) -> Result<()> {
    match run_ends {
        DataType::Int16 => runs(node, |end| i16::from_ne_bytes(end).into()),
        DataType::Int32 => runs(node, |end| i32::from_ne_bytes(end).into()),
        _ => runs(node, i64::from_ne_bytes),
    }
}

fn runs<const SIZE: usize>(node: &HostArray, read: impl Fn([u8; SIZE]) -> i64) -> Result<()> {
    let array = node.array();
    let run_ends = node.node_child(0)?;
    let count = run_ends.array().len();
    let mut last = 0;
    if count > 0 {
        let validity = Validity::of(&run_ends)?;
        if validity.null_count(0..count) > 0 {
            let run = (0..count).find(|run| !validity.is_valid(*run)).unwrap_or(0);
            return Err(invalid(format!("run {run}: its end is null")));
        }
        let bytes = run_ends.buffer(1)?;
        for (run, end) in elements::<SIZE>(&run_ends, &bytes, 0)?.iter().enumerate() {
            let end = read(*end);
            if end <= last {
                return Err(invalid(format!("run {run}: it ends at {end}, and begins at {last}")));
            }
            last = end;
        }
    }
    let end = array.window().end();
    if !array.is_empty() && last < end {
        return Err(invalid(format!("the last run ends at {last}, and the array at {end}")));
    }
    Ok(())
}
