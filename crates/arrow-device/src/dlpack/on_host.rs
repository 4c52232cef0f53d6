//! Loops over elements in host memory, compiled for each width of elements.
//!
//! 1. Dimensions that lie one behind the other in memory are counted as one.
//! 2. If the last two dimensions are transposed in memory, the copy goes by square tiles of 16 or 8
//!    elements a side. A tile whose columns lie in one piece each is read column by column, and
//!    written row by row. Without tiles, each element of a row would be read from another cache
//!    line, which may be gone when the next row needs it.
//! 3. Otherwise the copy goes row by row.
//! 4. Nulls are replaced 64 elements at a time, by one word of the bitmap ([`fill`]).
//!
//! The width is a constant of each loop, so that an element is one register and the compiler can
//! vectorise the loop. For other widths the functions do nothing, and return `false`.

use std::mem::MaybeUninit;
use std::{ptr, slice};

use super::dims::Dims;
use crate::bits::{low_bits, word_at};
use crate::numbered::numbered;

/// Copies all elements in row-major order. Returns false, and copies nothing, where there is no
/// loop for the width of the elements.
///
/// # Safety
/// Each element of `dims` lies at its place, counted in elements from `from`, and may be read.
/// `to` has room for all of them, and nobody else uses that.
pub(super) unsafe fn gather(dims: &Dims, from: *const u8, width: u64, to: *mut u8) -> bool {
    match width {
        // SAFETY: the caller's promise.
        1 => unsafe { gather_wide::<1>(dims, from, to) },
        // SAFETY: the caller's promise.
        2 => unsafe { gather_wide::<2>(dims, from, to) },
        // SAFETY: the caller's promise.
        4 => unsafe { gather_wide::<4>(dims, from, to) },
        // SAFETY: the caller's promise.
        8 => unsafe { gather_wide::<8>(dims, from, to) },
        // SAFETY: the caller's promise.
        16 => unsafe { gather_wide::<16>(dims, from, to) },
        _ => return false,
    }
    true
}

/// A dimension: the number of elements, and the number of bytes from one to the next.
#[derive(Clone, Copy)]
struct Axis {
    len: usize,
    step: isize,
}

/// # Safety
/// The obligations of [`gather`], for elements of `W` bytes.
unsafe fn gather_wide<const W: usize>(dims: &Dims, from: *const u8, mut to: *mut u8) {
    let mut axes = axes::<W>(dims);
    let columns = axes.pop().unwrap_or(Axis { len: 1, step: 0 });
    let rows = axes.pop().unwrap_or(Axis { len: 1, step: 0 });
    let planes = axes.iter().fold(1_usize, |count, axis| count.saturating_mul(axis.len));
    for plane in 0..planes {
        let mut start = from;
        let mut rest = plane;
        for axis in axes.iter().rev() {
            let index = rest % axis.len.max(1);
            rest /= axis.len.max(1);
            start = start.wrapping_offset(axis.step.wrapping_mul(index.cast_signed()));
        }
        // SAFETY: the caller's promise, for the elements of this plane, which are the next ones.
        unsafe { gather_plane::<W>(start, rows, columns, to) };
        to = to.wrapping_add(rows.len * columns.len * W);
    }
}

/// The dimensions with strides in bytes. Dimensions that can be counted as one are joined.
fn axes<const W: usize>(dims: &Dims) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::new();
    for (len, stride) in dims.shape().iter().zip(dims.strides()) {
        let len = usize::try_from(*len).unwrap_or(0);
        let step = isize::try_from(*stride).unwrap_or(0).wrapping_mul(W.cast_signed());
        if len == 1 {
            continue;
        }
        match axes.last_mut() {
            Some(last) if last.step == step.wrapping_mul(len.cast_signed()) => {
                *last = Axis { len: last.len * len, step };
            }
            _ => axes.push(Axis { len, step }),
        }
    }
    axes
}

/// # Safety
/// The obligations of [`gather`], for these rows and columns.
unsafe fn gather_plane<const W: usize>(from: *const u8, rows: Axis, columns: Axis, to: *mut u8) {
    let is_across = columns.step.unsigned_abs() > rows.step.unsigned_abs() && rows.len > 1;
    match is_across {
        // SAFETY: the caller's promise.
        true if W <= 4 => unsafe { gather_tiles::<W, 16>(from, rows, columns, to) },
        // SAFETY: the caller's promise.
        true => unsafe { gather_tiles::<W, 8>(from, rows, columns, to) },
        // SAFETY: the caller's promise.
        false => unsafe { gather_rows::<W>(from, rows, columns, to, columns.len) },
    }
}

/// Copies rows in tiles. Neighbours in a row lie further apart than neighbours in a column.
///
/// # Safety
/// The obligations of [`gather`], for these rows and columns.
unsafe fn gather_tiles<const W: usize, const SIDE: usize>(
    from: *const u8,
    rows: Axis,
    columns: Axis,
    to: *mut u8,
) {
    let width = columns.len;
    let at = |axis: Axis, index: usize| axis.step.wrapping_mul(index.cast_signed());
    let (tall, wide) = (rows.len - rows.len % SIDE, width - width % SIDE);
    let place = |row: usize, column: usize| {
        let from = from.wrapping_offset(at(rows, row)).wrapping_offset(at(columns, column));
        (from, to.wrapping_add((row * width + column) * W))
    };
    // Downwards first, so that columns are read from beginning to end.
    for column in (0..wide).step_by(SIDE) {
        for row in (0..tall).step_by(SIDE) {
            let (from, to) = place(row, column);
            if rows.step == W.cast_signed() {
                // SAFETY: the caller's promise, for a tile with elements of columns one behind the
                // other.
                unsafe { turn_tile::<W, SIDE>(from, columns.step, to, width * W) };
            } else {
                let (rows, columns) = (Axis { len: SIDE, ..rows }, Axis { len: SIDE, ..columns });
                // SAFETY: the caller's promise, for a tile.
                unsafe { gather_rows::<W>(from, rows, columns, to, width) };
            }
        }
    }
    // The remaining elements, on the right of the tiles and below them.
    let (start, target) = place(0, wide);
    let right = Axis { len: width - wide, ..columns };
    // SAFETY: the caller's promise, for a part of the rows.
    unsafe { gather_rows::<W>(start, Axis { len: tall, ..rows }, right, target, width) };
    let (start, target) = place(tall, 0);
    let below = Axis { len: rows.len - tall, ..rows };
    // SAFETY: the caller's promise, for the last rows.
    unsafe { gather_rows::<W>(start, below, columns, target, width) };
}

/// Copies a tile. Each of its columns lies in one piece.
///
/// # Safety
/// The obligations of [`gather`], for this tile. A row of the target has so many bytes.
#[inline]
unsafe fn turn_tile<const W: usize, const SIDE: usize>(
    from: *const u8,
    column_step: isize,
    to: *mut u8,
    row_bytes: usize,
) {
    let mut columns = [[[0_u8; W]; SIDE]; SIDE];
    for (index, column) in columns.iter_mut().enumerate() {
        let place = from.wrapping_offset(column_step.wrapping_mul(index.cast_signed()));
        // SAFETY: the caller's promise; bytes need no alignment.
        *column = unsafe { place.cast::<[[u8; W]; SIDE]>().read() };
    }
    for index in 0..SIDE {
        let mut row = [[0_u8; W]; SIDE];
        for (element, column) in row.iter_mut().zip(&columns) {
            *element = *numbered(column.get(index));
        }
        let place = to.wrapping_add(index * row_bytes);
        // SAFETY: the caller's promise; bytes need no alignment.
        unsafe { place.cast::<[[u8; W]; SIDE]>().write(row) };
    }
}

/// Copies row by row, into rows of `width` elements.
///
/// # Safety
/// The obligations of [`gather`], for these rows and columns.
unsafe fn gather_rows<const W: usize>(
    from: *const u8,
    rows: Axis,
    columns: Axis,
    to: *mut u8,
    width: usize,
) {
    if columns.len == 0 {
        return;
    }
    for row in 0..rows.len {
        let start = from.wrapping_offset(rows.step.wrapping_mul(row.cast_signed()));
        // SAFETY: the caller's promise, for a row.
        unsafe { gather_row::<W>(start, columns, to.wrapping_add(row * width * W)) };
    }
}

/// # Safety
/// The obligations of [`gather`], for this row.
#[inline]
unsafe fn gather_row<const W: usize>(from: *const u8, row: Axis, to: *mut u8) {
    if row.step == W.cast_signed() {
        // SAFETY: the caller's promise: the elements lie one behind the other, and the target is
        // nobody else's.
        return unsafe { ptr::copy_nonoverlapping(from, to, row.len * W) };
    }
    let place = to.cast::<MaybeUninit<[u8; W]>>();
    // SAFETY: the caller's promise; bytes need no alignment, and may be anything before.
    let out = unsafe { slice::from_raw_parts_mut(place, row.len) };
    for (index, out) in out.iter_mut().enumerate() {
        let place = from.wrapping_offset(row.step.wrapping_mul(index.cast_signed()));
        // SAFETY: the caller's promise; bytes need no alignment.
        out.write(unsafe { place.cast::<[u8; W]>().read() });
    }
}

/// Elements of which some are null.
pub(super) struct Gaps<'host> {
    /// The elements, from the first one on.
    pub(super) values: &'host [u8],
    pub(super) bitmap: &'host [u8],
    /// The position of the first element in the bitmap.
    pub(super) first_bit: usize,
}

/// Whether no element is null.
pub(super) fn are_all_set(bitmap: &[u8], first: usize, count: usize) -> bool {
    let is_all = |at: usize| !word_at(bitmap, first + at) & low_bits(count - at) == 0;
    (0..count).step_by(64).all(is_all)
}

/// Writes `count` elements, with the pattern in place of nulls. Returns false, and writes nothing,
/// where there is no loop for the size of the pattern or values are missing.
///
/// # Safety
/// `to` has room for so many elements of the pattern's size, and nobody else uses that.
pub(super) unsafe fn fill(gaps: &Gaps<'_>, pattern: &[u8], to: *mut u8, count: usize) -> bool {
    match pattern.len() {
        // SAFETY: the caller's promise.
        1 => unsafe { fill_wide::<1>(gaps, pattern, to, count) },
        // SAFETY: the caller's promise.
        2 => unsafe { fill_wide::<2>(gaps, pattern, to, count) },
        // SAFETY: the caller's promise.
        4 => unsafe { fill_wide::<4>(gaps, pattern, to, count) },
        // SAFETY: the caller's promise.
        8 => unsafe { fill_wide::<8>(gaps, pattern, to, count) },
        // SAFETY: the caller's promise.
        16 => unsafe { fill_wide::<16>(gaps, pattern, to, count) },
        _ => false,
    }
}

/// # Safety
/// The obligations of [`fill`], for elements of `W` bytes.
unsafe fn fill_wide<const W: usize>(
    gaps: &Gaps<'_>,
    pattern: &[u8],
    to: *mut u8,
    count: usize,
) -> bool {
    let (Some(values), Some(pattern)) =
        (gaps.values.as_chunks::<W>().0.get(..count), pattern.first_chunk::<W>())
    else {
        return false;
    };
    let place = to.cast::<MaybeUninit<[u8; W]>>();
    // SAFETY: the caller's promise; bytes need no alignment, and may be anything before.
    let out = unsafe { slice::from_raw_parts_mut(place, count) };
    for (block, (out, values)) in out.chunks_mut(64).zip(values.chunks(64)).enumerate() {
        let word = word_at(gaps.bitmap, gaps.first_bit + 64 * block);
        for (bit, (out, value)) in out.iter_mut().zip(values).enumerate() {
            out.write(if word >> bit & 1 == 1 { *value } else { *pattern });
        }
    }
    true
}
