//! Finds the elements of a child, or the bytes of a data buffer, that the indices of list views,
//! views and dense unions refer to; and the runs of the elements of run-end encoded arrays. The
//! host has the indices.
//!
//! Indices take two passes over plain bytes. The first pass checks each index and widens a range to
//! what the index refers to. The second pass subtracts the beginning of the range, so that the
//! indices count from there. Runs take two binary searches, and run ends are not changed.
//!
//! An index that leads outside makes the answer `None`. The children then travel whole with the old
//! indices, and the result is as wrong as the source was.
//!
//! What must stay true: each index is read as a signed number and checked before it widens the
//! range, so that the subtraction neither overflows nor becomes negative. The starts of empty lists
//! become 0, as do all bytes of null views, because the range need not cover what these refer to.

use std::ops::Range;

/// The elements that list views refer to, from the smallest to the largest. The starts are changed
/// to count from the smallest one. The first `skip` list views are not looked at, and their starts
/// become 0.
pub(in crate::copy) fn list_views<const WIDTH: usize>(
    starts: &mut [u8],
    sizes: &[u8],
    skip: usize,
    child_len: i64,
    read: impl Fn([u8; WIDTH]) -> i64,
    write: impl Fn(i64) -> [u8; WIDTH],
) -> Option<Range<i64>> {
    let starts = starts.as_chunks_mut::<WIDTH>().0;
    let sizes = sizes.as_chunks::<WIDTH>().0;
    let mut all = Reach::default();
    for (start, size) in starts.iter().zip(sizes).skip(skip) {
        let (start, size) = (read(*start), read(*size));
        let is_inside = start >= 0 && size >= 0 && start <= child_len && size <= child_len - start;
        if !is_inside {
            return None;
        }
        if size > 0 {
            all.cover(start..start + size);
        }
    }
    let range = all.range();
    for (index, (start, size)) in starts.iter_mut().zip(sizes).enumerate() {
        let is_empty = index < skip || read(*size) == 0;
        *start = write(if is_empty { 0 } else { read(*start) - range.start });
    }
    Some(range)
}

/// The elements of each child that a dense union refers to. The offsets are changed to count from
/// the first one of their child.
pub(in crate::copy) fn union_offsets(
    type_ids: &[u8],
    offsets: &mut [u8],
    known: &[i8],
    child_lens: &[i64],
) -> Option<Vec<Range<i64>>> {
    let offsets = offsets.as_chunks_mut::<4>().0;
    let mut reaches = vec![Reach::default(); child_lens.len()];
    let child_of = |id: u8| known.iter().position(|known| known.to_ne_bytes() == [id]);
    for (id, offset) in type_ids.iter().zip(offsets.iter()) {
        let child = child_of(*id)?;
        let offset = i64::from(i32::from_ne_bytes(*offset));
        if offset < 0 || offset >= *child_lens.get(child)? {
            return None;
        }
        reaches.get_mut(child)?.cover(offset..offset + 1);
    }
    let ranges: Vec<Range<i64>> = reaches.iter().map(Reach::range).collect();
    for (id, offset) in type_ids.iter().zip(offsets.iter_mut()) {
        let first =
            child_of(*id).and_then(|child| ranges.get(child)).map_or(0, |range| range.start);
        // The offset and `first` have 32 bits, and their difference is not negative.
        *offset = i32::from_ne_bytes(*offset).wrapping_sub(first as i32).to_ne_bytes();
    }
    Some(ranges)
}

/// The bytes of each data buffer that views refer to. The views are changed to count from the first
/// one of their buffer. Views that are null, and the first `skip` views, become empty.
pub(in crate::copy) fn views(
    views: &mut [u8],
    is_live: impl Fn(usize) -> bool,
    data_lens: &[u64],
) -> Option<Vec<Range<i64>>> {
    let views = views.as_chunks_mut::<16>().0;
    let mut reaches = vec![Reach::default(); data_lens.len()];
    for (index, view) in views.iter().enumerate() {
        if !is_live(index) {
            continue;
        }
        let [len, _, buffer, offset] = words(view);
        if len < 0 {
            return None;
        }
        if len <= INLINE {
            continue;
        }
        let data = usize::try_from(buffer).ok()?;
        let data_len = i64::try_from(*data_lens.get(data)?).ok()?;
        let (begin, end) = (i64::from(offset), i64::from(offset) + i64::from(len));
        if begin < 0 || end > data_len {
            return None;
        }
        reaches.get_mut(data)?.cover(begin..end);
    }
    let ranges: Vec<Range<i64>> = reaches.iter().map(Reach::range).collect();
    for (index, view) in views.iter_mut().enumerate() {
        if !is_live(index) {
            *view = [0; 16];
            continue;
        }
        let [len, _, buffer, offset] = words(view);
        if len > INLINE
            && let Some(range) = usize::try_from(buffer).ok().and_then(|data| ranges.get(data))
            && let Some(place) = view.last_chunk_mut::<4>()
        {
            // The new offset is not negative, and not larger than the old one.
            *place = offset.wrapping_sub(range.start as i32).to_ne_bytes();
        }
    }
    Some(ranges)
}

/// The runs that hold the elements: from the first run that ends after `elements.start` to the run
/// of the last element. Found by two binary searches, in which `run_end(n)` reads the end of a run.
pub(in crate::copy) fn runs<E>(
    elements: Range<i64>,
    count: i64,
    mut run_end: impl FnMut(i64) -> Result<i64, E>,
) -> Result<Option<Range<i64>>, E> {
    // The first run, from `low` on, that ends after the element.
    let mut holder = |element: i64, mut low: i64| {
        let mut high = count;
        while low < high {
            let middle = low + (high - low) / 2;
            if run_end(middle)? > element {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(low)
    };
    let first = holder(elements.start, 0)?;
    let last = holder(elements.end - 1, first)?;
    Ok((last < count).then_some(first..last + 1))
}

/// Strings of at most this length lie in the view itself.
const INLINE: i32 = 12;

fn words(view: &[u8; 16]) -> [i32; 4] {
    let (words, _) = view.as_chunks::<4>();
    let word = |index: usize| words.get(index).map_or(0, |word| i32::from_ne_bytes(*word));
    [word(0), word(1), word(2), word(3)]
}

/// The range from the smallest to the largest number seen.
#[derive(Clone, Default)]
struct Reach(Option<Range<i64>>);

impl Reach {
    fn cover(&mut self, more: Range<i64>) {
        self.0 = Some(match &self.0 {
            None => more,
            Some(known) => known.start.min(more.start)..known.end.max(more.end),
        });
    }

    fn range(&self) -> Range<i64> {
        self.0.clone().unwrap_or(0..0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(numbers: &[i32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    #[test]
    fn list_views_begin_where_the_first_one_begins() {
        let mut starts = bytes(&[99, 7, 5, 0]);
        let sizes = bytes(&[99, 2, 1, 0]);
        let widen = |bytes| i64::from(i32::from_ne_bytes(bytes));
        let narrow = |number: i64| (number as i32).to_ne_bytes();
        let range = list_views(&mut starts, &sizes, 1, 9, widen, narrow);
        assert_eq!((range, starts), (Some(5..9), bytes(&[0, 2, 0, 0])));
        let mut outside = bytes(&[8]);
        assert_eq!(list_views(&mut outside, &bytes(&[2]), 0, 9, widen, narrow), None);
    }

    #[test]
    fn each_child_of_a_dense_union_is_cut_by_itself() {
        let mut offsets = bytes(&[4, 9, 6]);
        let ranges = union_offsets(&[5, 7, 5], &mut offsets, &[5, 7], &[10, 10]);
        assert_eq!((ranges, offsets), (Some(vec![4..7, 9..10]), bytes(&[0, 0, 2])));
        assert_eq!(union_offsets(&[6], &mut bytes(&[0]), &[5, 7], &[10, 10]), None);
        assert_eq!(union_offsets(&[5], &mut bytes(&[10]), &[5, 7], &[10, 10]), None);
    }

    #[test]
    fn views_point_to_what_is_left_of_their_buffer() {
        let mut all =
            [bytes(&[20, 0, 1, 30]), bytes(&[3, 0, 0, 0]), bytes(&[13, 0, 1, 40]), vec![0xff; 16]]
                .concat();
        let ranges = views(&mut all, |index| index < 3, &[100, 100]);
        assert_eq!(ranges, Some(vec![0..0, 30..53]));
        let expected =
            [bytes(&[20, 0, 1, 0]), bytes(&[3, 0, 0, 0]), bytes(&[13, 0, 1, 10]), vec![0; 16]];
        assert_eq!(all, expected.concat());
        assert_eq!(views(&mut bytes(&[20, 0, 2, 0]), |_| true, &[100, 100]), None);
        assert_eq!(views(&mut bytes(&[20, 0, 1, 81]), |_| true, &[100, 100]), None);
    }

    #[test]
    fn the_runs_of_some_elements_are_found() {
        let ends = [2_i64, 5, 9];
        let of = |elements| {
            runs(elements, 3, |run| Ok::<_, std::convert::Infallible>(ends[run as usize])).unwrap()
        };
        assert_eq!(of(0..1), Some(0..1));
        assert_eq!(of(1..3), Some(0..2));
        assert_eq!(of(5..9), Some(2..3));
        assert_eq!(of(8..10), None);
    }
}
