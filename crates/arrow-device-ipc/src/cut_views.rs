//! [`CutViews`]: a slice of views, with no more data than its views name.
//!
//! All rows of an array of views share its data buffers. A batch that is sent in parts would send
//! all data with each part, however few rows the part has. So the data of a slice is cut:
//!
//! 1. A first pass over the views finds which bytes of each data buffer they name: the first byte,
//!    the last one, and how many they name together.
//! 2. A data buffer that is named by no view is left out. Of another one the bytes from the first
//!    to the last are written from where they lie. If less than half of those are named, as in rows
//!    that were sorted, the bytes of the views are gathered instead, one behind the other.
//! 3. A second pass changes the views to name the cut buffers.
//!
//! What must stay true: a view that leads outside of its buffer stays one that leads outside.

use std::ops::Range;

use arrow_device::{Error, ErrorKind, HostArray, Result};

use crate::problem::refused;

/// The bytes of a view.
const VIEW: usize = 16;
/// A value of at most this many bytes lies in the view itself.
const INLINE: u32 = 12;
/// The bytes behind the last view by which a slice is told from a whole array.
const SPARE: u64 = 64;
/// The number of a buffer that no array has.
const NO_BUFFER: i32 = -1;

/// The views of a slice and their data.
pub(crate) struct CutViews {
    pub(crate) views: Vec<u8>,
    /// The number of each data buffer that is left, and its bytes.
    pub(crate) data: Vec<(usize, CutData)>,
}

/// The bytes of a data buffer that views name.
pub(crate) enum CutData {
    Range(Range<u64>),
    Gathered(Vec<u8>),
}

/// A data buffer that views name, and which of its bytes they name.
struct Named<'a> {
    number: usize,
    all: &'a [u8],
    /// The bytes from the first to the last one, empty where none is named.
    range: Range<usize>,
    /// How many bytes the views name, where each byte counts as often as it is named.
    bytes: usize,
    /// The place among the buffers that are left.
    place: usize,
}

impl<'a> Named<'a> {
    fn new(number: usize, all: &'a [u8]) -> Self {
        Self { number, all, range: 0..0, bytes: 0, place: 0 }
    }
}

/// The bytes that a view names.
struct ViewedBytes {
    /// The place of the buffer among those that are named.
    index: usize,
    range: Range<usize>,
}

fn word(view: &[u8; VIEW], index: usize) -> [u8; 4] {
    view.as_chunks::<4>().0.get(index).copied().unwrap_or_default()
}

/// Whether the bytes of a view lie in a data buffer.
fn is_long(view: &[u8; VIEW]) -> bool {
    u32::from_ne_bytes(word(view, 0)) > INLINE
}

/// The number of the buffer of a view, `None` where the number is negative.
fn number_of(view: &[u8; VIEW]) -> Option<usize> {
    usize::try_from(i32::from_ne_bytes(word(view, 2))).ok()
}

/// Returns the data buffers below `count` that views name, in order: each part of a batch looks at
/// the buffers of its own views, and not at all of the array.
fn named_by(views: &[[u8; VIEW]], count: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = Vec::new();
    for number in views.iter().filter(|view| is_long(view)).filter_map(number_of) {
        // Neighbours mostly share a buffer.
        if number < count && numbers.last() != Some(&number) {
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Returns where the data of a view lies, `None` where the view leads outside. The buffers are in
/// the order of their numbers.
fn place_of(view: &[u8; VIEW], named: &[Named<'_>]) -> Option<ViewedBytes> {
    let size = usize::try_from(i32::from_ne_bytes(word(view, 0))).ok()?;
    let number = number_of(view)?;
    let start = usize::try_from(i32::from_ne_bytes(word(view, 3))).ok()?;
    let end = start.checked_add(size)?;
    let index = named.binary_search_by_key(&number, |named| named.number).ok()?;
    (end <= named.get(index)?.all.len()).then_some(ViewedBytes { index, range: start..end })
}

/// Changes the number of the buffer of a view, and where its data begins there.
fn set_place(view: &mut [u8; VIEW], number: i32, start: i32) {
    if let ([_, _, of_number, of_start], _) = view.as_chunks_mut::<4>() {
        *of_number = number.to_ne_bytes();
        *of_start = start.to_ne_bytes();
    }
}

#[cold]
fn short(array: &HostArray) -> Error {
    let message = format!("a buffer of {} is too short", array.array().data_type());
    refused(ErrorKind::InvalidData, message)
}

impl CutViews {
    /// Cuts the data of an array with `count` data buffers. `None` where the array has all elements
    /// of its buffers, whose data is not cut.
    pub(crate) fn of_slice(array: &HostArray, count: usize) -> Result<Option<Self>> {
        let (offset, len) = (array.array().offset(), array.len());
        if len == 0 || count == 0 {
            return Ok(None);
        }
        // Buffers may be rounded up, so a few views behind the last one say nothing.
        let there = array.array().extent(1).at_least();
        if offset == 0 && there < (len as u64).saturating_mul(VIEW as u64).saturating_add(SPARE) {
            return Ok(None);
        }
        let all = array.buffer(1)?;
        let all = all.as_chunks::<VIEW>().0;
        let end = offset.checked_add(len).ok_or_else(|| short(array))?;
        let mut views = all.get(offset..end).ok_or_else(|| short(array))?.to_vec();
        let numbers = named_by(&views, count);
        let buffers = numbers.iter().map(|number| array.buffer(2 + number));
        let buffers = buffers.collect::<Result<Vec<_>>>()?;
        let named = numbers.into_iter().zip(&buffers);
        let named = named.map(|(number, buffer)| Named::new(number, buffer)).collect();
        let data = cut(&mut views, named);
        Ok(Some(Self { views: views.into_flattened(), data }))
    }
}

/// Changes views to name the data that is returned. `all` are the buffers that the views name, in
/// the order of their numbers.
fn cut(views: &mut [[u8; VIEW]], mut all: Vec<Named<'_>>) -> Vec<(usize, CutData)> {
    for view in views.iter().filter(|view| is_long(view)) {
        if let Some(ViewedBytes { index, range }) = place_of(view, &all)
            && let Some(named) = all.get_mut(index)
        {
            named.bytes = named.bytes.saturating_add(range.len());
            named.range = match named.range.is_empty() {
                true => range,
                false => named.range.start.min(range.start)..named.range.end.max(range.end),
            };
        }
    }
    let mut data = Vec::new();
    for named in all.iter_mut().filter(|named| named.bytes > 0) {
        named.place = data.len();
        let range = &named.range;
        let is_sparse = named.bytes < range.len() / 2;
        data.push((
            named.number,
            match is_sparse {
                true => CutData::Gathered(Vec::with_capacity(named.bytes)),
                false => CutData::Range(range.start as u64..range.end as u64),
            },
        ));
    }
    for view in views.iter_mut().filter(|view| is_long(view)) {
        let place = place_of(view, &all);
        let named = place.and_then(|place| Some((all.get(place.index)?, place)));
        let found = named.and_then(|(named, ViewedBytes { range, .. })| {
            let bytes = named.all.get(range.clone())?;
            let start = match &mut data.get_mut(named.place)?.1 {
                CutData::Range(_) => range.start - named.range.start,
                CutData::Gathered(gathered) => {
                    gathered.extend_from_slice(bytes);
                    gathered.len() - bytes.len()
                }
            };
            i32::try_from(named.place).ok().zip(i32::try_from(start).ok())
        });
        let (number, start) = found.unwrap_or((NO_BUFFER, 0));
        set_place(view, number, start);
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(size: i32, number: i32, start: i32) -> [u8; VIEW] {
        let mut view = [0; VIEW];
        let (words, _) = view.as_chunks_mut::<4>();
        let all = [size, 0, number, start];
        words.iter_mut().zip(all).for_each(|(word, value)| *word = value.to_ne_bytes());
        view
    }

    fn cut_of(views: &mut [[u8; VIEW]], buffers: &[&[u8]]) -> Vec<(usize, CutData)> {
        let numbers = named_by(views, buffers.len());
        let named = numbers.into_iter().map(|number| Named::new(number, buffers[number]));
        cut(views, named.collect())
    }

    fn ranges(data: &[(usize, CutData)]) -> Vec<(usize, Option<Range<u64>>, Vec<u8>)> {
        let all = data.iter().map(|(number, data)| match data {
            CutData::Range(range) => (*number, Some(range.clone()), Vec::new()),
            CutData::Gathered(bytes) => (*number, None, bytes.clone()),
        });
        all.collect()
    }

    #[test]
    fn data_is_cut_to_what_views_name() {
        let bytes: Vec<u8> = (0..=255).collect();
        let buffers: [&[u8]; 3] = [&bytes, &bytes, &bytes];
        let mut views = [view(20, 2, 100), view(5, 7, 7), view(20, 2, 90), view(13, 2, 110)];
        let data = cut_of(&mut views, &buffers);
        assert_eq!(ranges(&data), [(2, Some(90..123), Vec::new())]);
        assert_eq!(views, [view(20, 0, 10), view(5, 7, 7), view(20, 0, 0), view(13, 0, 20)]);
    }

    #[test]
    fn data_that_lies_apart_is_gathered() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut views = [view(13, 0, 240), view(13, 0, 0)];
        let data = cut_of(&mut views, &[&bytes]);
        let gathered = [&bytes[240..253], &bytes[..13]].concat();
        assert_eq!(ranges(&data), [(0, None, gathered)]);
        assert_eq!(views, [view(13, 0, 0), view(13, 0, 13)]);
    }

    #[test]
    fn a_view_that_leads_outside_still_does() {
        let bytes = [0; 100];
        for (size, number, start) in
            [(20, 0, 81), (20, 1, 0), (20, -1, 0), (20, 0, -1), (-1, 0, 0), (i32::MAX, 0, 1)]
        {
            let mut views = [view(20, 0, 5), view(size, number, start)];
            let data = cut_of(&mut views, &[&bytes]);
            assert_eq!(ranges(&data), [(0, Some(5..25), Vec::new())]);
            assert_eq!(views, [view(20, 0, 0), view(size, NO_BUFFER, 0)]);
        }
    }
}
