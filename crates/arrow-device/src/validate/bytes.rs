//! Checks of text and bytes, with offsets and as views.

use super::bitmap::Validity;
use super::elements::elements;
use super::errors::invalid_element;
use super::lists::check_order;
use crate::array::host::read_i32;
use crate::utf8::{Utf8Check, distinct_bytes};
use crate::{BufferKind, Extent, HostArray, HostBytes, Result};

/// Checks that offsets stay within the data, and that text is UTF-8.
pub(super) fn check_offsets(node: &HostArray) -> Result<()> {
    match node.array().buffer_kind(1) {
        Some(BufferKind::Offsets64) => check_wide(node, i64::from_ne_bytes),
        _ => check_wide(node, |bytes| i32::from_ne_bytes(bytes).into()),
    }
}

fn check_wide<const SIZE: usize>(node: &HostArray, read: impl Fn([u8; SIZE]) -> i64) -> Result<()> {
    let array = node.array();
    let limit = match array.extent(2) {
        Extent::Exact(len) => i64::try_from(len).unwrap_or(i64::MAX),
        _ => i64::MAX,
    };
    let bytes = node.buffer(1)?;
    let offsets: &[[u8; SIZE]] = elements(node, &bytes, 1)?;
    check_order(offsets, &read, limit)?;
    if !array.data_type().is_text() {
        return Ok(());
    }
    // Only now it is known that the last offset is the largest.
    let data = node.buffer(2)?;
    // Negative offsets were refused before.
    let place = |offset: &[u8; SIZE]| usize::try_from(read(*offset)).unwrap_or(usize::MAX);
    let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return Ok(()) };
    let whole = data.get(place(first)..place(last)).unwrap_or_default();
    if std::str::from_utf8(whole).is_ok()
        && offsets.iter().all(|offset| begins_character(&data, place(offset)))
    {
        return Ok(());
    }
    // Some of the text is not UTF-8. That does no harm in an element that is null.
    let validity = Validity::of(node)?;
    for (index, (begin, end)) in offsets.iter().zip(offsets.iter().skip(1)).enumerate() {
        if validity.is_valid(index) {
            check_text(index, data.get(place(begin)..place(end)).unwrap_or_default())?;
        }
    }
    Ok(())
}

/// Whether a character begins here, in text that is UTF-8 as a whole. The end of the text counts
/// too.
fn begins_character(text: &[u8], at: usize) -> bool {
    text.get(at).is_none_or(|byte| byte & 0xc0 != 0x80)
}

fn check_text(index: usize, text: &[u8]) -> Result<()> {
    std::str::from_utf8(text).map(|_| ()).map_err(|error| {
        let byte = error.valid_up_to();
        invalid_element(index, format_args!("not UTF-8 from byte {byte} of {} on", text.len()))
    })
}

/// Checks that views stay within the data buffers, and that text is UTF-8. Views of null elements
/// may be anything.
pub(super) fn check_views(node: &HostArray) -> Result<()> {
    let array = node.array();
    // Validity and views come before the data buffers, and their sizes after them.
    let data: Vec<HostBytes<'_>> = (2..array.buffer_count().saturating_sub(1))
        .map(|index| node.buffer(index))
        .collect::<Result<_>>()?;
    let validity = Validity::of(node)?;
    let is_text = array.data_type().is_text();
    let bytes = node.buffer(1)?;
    // Short texts lie in their views.
    let room = distinct_bytes(data.iter().map(|data| &**data)).saturating_add(bytes.len());
    let mut utf8 = Utf8Check::within(room);
    let mut check = |(index, view)| {
        if !validity.is_valid(index) {
            return Ok(());
        }
        let value = resolve(view, &data).map_err(|message| invalid_element(index, message))?;
        if is_text && !utf8.admits(index, value) {
            return check_text(index, value);
        }
        Ok(())
    };
    let checked = elements::<16>(node, &bytes, 0)?.iter().enumerate().try_for_each(&mut check);
    // The texts that were kept have smaller numbers than the one that ended the loop.
    match utf8.first_wrong() {
        Some((index, value)) => check_text(index, value),
        None => checked,
    }
}

/// The bytes that a view stands for.
fn resolve<'a>(view: &'a [u8; 16], data: &'a [HostBytes<'_>]) -> Result<&'a [u8], String> {
    let number = |at| read_i32(view, at).unwrap_or(-1);
    let told = number(0);
    let Ok(len) = usize::try_from(told) else {
        return Err(format!("the length of the view is {told}"));
    };
    let [_, _, _, _, short @ ..] = view;
    if let Some((value, padding)) = short.split_at_checked(len) {
        // "Data (padded with 0)": readers compare whole views.
        if padding.iter().any(|byte| *byte != 0) {
            return Err(format!("the view of {len} bytes is not filled up with zeros"));
        }
        return Ok(value);
    }
    let (buffer, offset) = (number(2), number(3));
    let holder = usize::try_from(buffer).ok().and_then(|buffer| data.get(buffer));
    let Some(holder) = holder else {
        return Err(format!("the view is into buffer {buffer} of {}", data.len()));
    };
    let value =
        usize::try_from(offset).ok().and_then(|begin| holder.get(begin..begin.checked_add(len)?));
    let Some(value) = value else {
        let bytes = holder.len();
        return Err(format!(
            "bytes {offset}+{len} are not within the {bytes} of data buffer {buffer}"
        ));
    };
    if value.first_chunk::<4>() != short.first_chunk() {
        return Err("the prefix in the view is not how the data begins".into());
    }
    Ok(value)
}
