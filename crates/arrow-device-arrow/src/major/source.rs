//! Writes arrays of arrow-rs as C structs.
//!
//! The walk is led by this library's type. First the structs, pointers and sizes of a tree are
//! counted, then they are written into the block. Nothing goes through `ArrayData`, which allocates
//! for each array.
//!
//! arrow-rs slices each buffer by itself, but C has one offset for all buffers of a node. A bitmap
//! that begins in the middle of a byte needs an offset of up to 7. The other buffers of the node
//! then have to begin as many elements earlier. They can where they are slices of memory that
//! reaches that far back. Otherwise only the bitmap is copied, to begin with a byte. What must stay
//! true: the counting and the writing look at an array in the same way.

use std::ffi::c_void;
use std::ptr;

use arrow_device::abi::ArrowArray;
use arrow_device::{DataType, Error, ErrorKind, Field, Result};

use super::arrow::array::{Array, ArrayRef, RecordBatch};
use super::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use super::arrow::schema::Fields;
use super::parts::{ArrayParts, Below, Buffers, Leaf, leaf, parts};
use super::types;
use crate::block::{Lane, Needs, Room, mark_released};

/// Adds what the columns of a batch need in a block. Refuses a batch whose columns have other
/// names. A second loop for the names alone would take twice as many instructions for each name.
pub(super) fn count_batch(fields: &[Field], batch: &RecordBatch, needs: &mut Needs) -> Result<()> {
    let others = batch.schema_ref().fields();
    needs.nodes += fields.len();
    needs.pointers += fields.len() + 1;
    for ((field, other), array) in fields.iter().zip(others).zip(batch.columns()) {
        let data_type = field.data_type();
        if field.name_text() != other.name().as_str() {
            return Err(otherwise_named(fields, others));
        }
        match usual_count(data_type) {
            0 if types::other_name(data_type, other.data_type()).is_some() => {
                return Err(otherwise_named(fields, others));
            }
            0 => count_array(data_type, &**array, needs)?,
            buffers => needs.pointers += buffers,
        }
    }
    Ok(())
}

/// Says which column has another name.
#[cold]
fn otherwise_named(fields: &[Field], others: &Fields) -> Error {
    types::other_column(fields, others).map_or_else(changed, |other| other.refusal_from_arrow())
}

/// Writes the columns of a batch, and returns the struct around them.
pub(super) fn write_batch(
    fields: &[Field],
    batch: &RecordBatch,
    room: &mut Room<'_>,
) -> Result<ArrowArray> {
    room.is_plain = true;
    let (buffers, length) = (Buffers::Bitmap, batch.num_rows());
    let below = Below::Columns(fields, batch.columns());
    write(ArrayParts { length, nulls: None, buffers, below }, room)
}

/// Writes an array's tables and everything below it, and returns its struct.
pub(super) fn write_array(
    data_type: &DataType,
    array: &dyn Array,
    room: &mut Room<'_>,
) -> Result<ArrowArray> {
    write(parts(data_type, array)?, room)
}

/// Adds what an array needs in a block, its own struct left aside.
pub(super) fn count_array(
    data_type: &DataType,
    array: &dyn Array,
    needs: &mut Needs,
) -> Result<()> {
    let ArrayParts { buffers, below, .. } = parts(data_type, array)?;
    if let Buffers::Views(_, data) = buffers {
        needs.sizes += data.len();
    }
    needs.pointers += buffers.count();
    match below {
        Below::Nothing => Ok(()),
        Below::Values(data_type, array) => {
            needs.nodes += 1;
            count_array(data_type, array, needs)
        }
        Below::Item(data_type, array) => {
            needs.nodes += 1;
            needs.pointers += 1;
            count_array(data_type, array, needs)
        }
        Below::Columns(fields, columns) => count_all(fields, columns, needs),
        Below::Members(type_ids, fields, array) => {
            needs.nodes += fields.len();
            needs.pointers += fields.len();
            let mut members = type_ids.iter().zip(fields);
            members.try_for_each(|(type_id, field)| {
                count_array(field.data_type(), &**array.child(*type_id), needs)
            })
        }
        Below::Runs { run_ends, values, array, .. } => {
            needs.nodes += 2;
            needs.pointers += 2 + Buffers::Elements(run_ends, 0).count();
            count_array(values, array, needs)
        }
    }
}

/// Adds what siblings need in a block, and their entries in the table of their parent.
fn count_all(fields: &[Field], arrays: &[ArrayRef], needs: &mut Needs) -> Result<()> {
    needs.nodes += fields.len();
    needs.pointers += fields.len();
    for (field, array) in fields.iter().zip(arrays) {
        match usual_count(field.data_type()) {
            0 => count_array(field.data_type(), &**array, needs)?,
            buffers => needs.pointers += buffers,
        }
    }
    Ok(())
}

/// Returns the number of buffers of an array of this type, where arrays of the type need nothing
/// else; 0 where they may need more.
fn usual_count(data_type: &DataType) -> usize {
    match data_type {
        DataType::Binary | DataType::LargeBinary | DataType::Utf8 | DataType::LargeUtf8 => 3,
        DataType::Null
        | DataType::BinaryView
        | DataType::Utf8View
        | DataType::List(_)
        | DataType::LargeList(_)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::FixedSizeList(..)
        | DataType::Struct(_)
        | DataType::Map { .. }
        | DataType::Union { .. }
        | DataType::Dictionary { .. }
        | DataType::RunEndEncoded { .. } => 0,
        _ => 2,
    }
}

#[inline(always)]
fn write(parts: ArrayParts<'_>, room: &mut Room<'_>) -> Result<ArrowArray> {
    let ArrayParts { length, nulls, buffers, below } = parts;
    let count = buffers.count();
    let (offset, table) = match buffers {
        Buffers::None => (0, room.pointers.put([])),
        Buffers::NoneFrom(first) => (first, room.pointers.put([])),
        Buffers::Bitmap => {
            let (_, bitmap, []) = begin(nulls, [], room);
            (0, room.pointers.put([bitmap.cast()]))
        }
        Buffers::Bits(values) => {
            let (offset, bitmap) = begin_bits(nulls, values, room);
            let bits = values.inner().as_ptr().wrapping_add(values.offset() / 8);
            (offset, room.pointers.put([bitmap, bits].map(<*const u8>::cast)))
        }
        Buffers::Elements(elements, width) => {
            let (offset, bitmap, [elements]) = begin(nulls, [(elements, width)], room);
            (offset, room.pointers.put([bitmap, elements].map(<*const u8>::cast)))
        }
        Buffers::Text(offsets, width, bytes) => {
            let (offset, bitmap, [offsets]) = begin(nulls, [(offsets, width)], room);
            (offset, room.pointers.put([bitmap, offsets, bytes].map(<*const u8>::cast)))
        }
        Buffers::Ranges(offsets, sizes, width) => {
            let both = [(offsets, width), (sizes, width)];
            let (offset, bitmap, [offsets, sizes]) = begin(nulls, both, room);
            (offset, room.pointers.put([bitmap, offsets, sizes].map(<*const u8>::cast)))
        }
        Buffers::Views(views, data) => {
            let (offset, bitmap, [views]) = begin(nulls, [(views, size_of::<u128>())], room);
            (offset, view_table([bitmap, views], data, room))
        }
        Buffers::TypeIds(ids) => (0, room.pointers.put([ids.as_ptr().cast()])),
        Buffers::TypeIdsAndOffsets(ids, offsets) => {
            let both = [ids.as_ptr(), offsets.as_ptr()];
            (0, room.pointers.put(both.map(<*const u8>::cast)))
        }
    };
    let mut node = ArrowArray {
        length: as_i64(length),
        null_count: nulls.map_or(0, |nulls| as_i64(nulls.null_count())),
        offset: as_i64(offset),
        n_buffers: as_i64(count),
        buffers: table.ok_or_else(changed)?.cast(),
        release: Some(mark_released),
        ..ArrowArray::empty()
    };
    if !matches!(below, Below::Nothing) {
        write_below(below, &mut node, room)?;
    }
    Ok(node)
}

/// Writes the table of buffers of views. The sizes of the data buffers come last; arrow-rs does not
/// keep them in memory.
#[inline(never)]
fn view_table(
    first: [*const u8; 2],
    data: &[Buffer],
    room: &mut Room<'_>,
) -> Option<*mut *const c_void> {
    let table = room.pointers.put(first.map(<*const u8>::cast))?;
    let sizes = room.sizes.start();
    for buffer in data {
        room.pointers.put([buffer.as_ptr().cast()])?;
        room.sizes.put([as_i64(buffer.len())])?;
    }
    room.pointers.put([sizes.cast_const().cast()])?;
    Some(table)
}

/// Writes what lies below an array, and enters it into the array's struct.
#[inline(never)]
fn write_below(below: Below<'_>, node: &mut ArrowArray, room: &mut Room<'_>) -> Result<()> {
    match below {
        Below::Nothing => {}
        Below::Values(data_type, array) => {
            let values = write_array(data_type, array, room)?;
            node.dictionary = room.nodes.put([values]).ok_or_else(changed)?;
        }
        Below::Item(data_type, array) => {
            let item = write_array(data_type, array, room)?;
            write_children([item], node, room)?;
        }
        Below::Columns(fields, columns) => {
            if fields.len() != columns.len() {
                return Err(changed());
            }
            let mut structs = room.nodes.take(fields.len()).ok_or_else(changed)?;
            let mut places = room.pointers.take(fields.len()).ok_or_else(changed)?;
            (node.n_children, node.children) = (as_i64(fields.len()), places.start().cast());
            for (field, column) in fields.iter().zip(columns) {
                let (data_type, column) = (field.data_type(), &**column);
                let usual = leaf(data_type, column).filter(Leaf::begins_with_a_byte);
                let column = match usual {
                    Some(leaf) => write_leaf(leaf, &mut structs, room),
                    None => structs.put([write_unusual(data_type, column, room)?]),
                };
                let column = column.ok_or_else(changed)?.cast_const();
                places.put([column.cast()]).ok_or_else(changed)?;
            }
        }
        Below::Members(type_ids, fields, array) => {
            let mut places = room.pointers.take(fields.len()).ok_or_else(changed)?;
            (node.n_children, node.children) = (as_i64(fields.len()), places.start().cast());
            for (type_id, field) in type_ids.iter().zip(fields) {
                let member = write_array(field.data_type(), &**array.child(*type_id), room)?;
                let member = room.nodes.put([member]).ok_or_else(changed)?;
                places.put([member.cast_const().cast()]).ok_or_else(changed)?;
            }
        }
        Below::Runs { run_ends, count, values, array } => {
            let buffers = Buffers::Elements(run_ends, 0);
            let run_ends =
                ArrayParts { length: count, nulls: None, buffers, below: Below::Nothing };
            let both = [write(run_ends, room)?, write_array(values, array, room)?];
            write_children(both, node, room)?;
        }
    }
    Ok(())
}

/// Writes the struct and the table of a leaf whose bitmap begins with a byte. `None` where the
/// block has no place left.
#[inline(always)]
fn write_leaf(
    leaf: Leaf<'_>,
    structs: &mut Lane<'_, ArrowArray>,
    room: &mut Room<'_>,
) -> Option<*mut ArrowArray> {
    let Leaf { length, nulls, elements, bytes, .. } = leaf;
    let (bitmap, elements) = (bitmap(nulls).cast(), elements.as_ptr().cast());
    let (n_buffers, table) = match bytes.is_null() {
        true => (2, room.pointers.put([bitmap, elements])),
        false => (3, room.pointers.put([bitmap, elements, bytes.cast()])),
    };
    structs.put([ArrowArray {
        length: as_i64(length),
        null_count: nulls.map_or(0, |nulls| as_i64(nulls.null_count())),
        n_buffers,
        buffers: table?.cast(),
        release: Some(mark_released),
        ..ArrowArray::empty()
    }])
}

/// Writes the struct of a column that is no leaf whose bitmap begins with a byte.
#[inline(never)]
fn write_unusual(
    data_type: &DataType,
    array: &dyn Array,
    room: &mut Room<'_>,
) -> Result<ArrowArray> {
    room.is_plain = false;
    write_array(data_type, array, room)
}

fn write_children<const N: usize>(
    children: [ArrowArray; N],
    node: &mut ArrowArray,
    room: &mut Room<'_>,
) -> Result<()> {
    let first = room.nodes.put(children).ok_or_else(changed)?;
    let places = std::array::from_fn(|index| first.wrapping_add(index).cast_const().cast());
    let places: [_; N] = places;
    node.children = room.pointers.put(places).ok_or_else(changed)?.cast();
    node.n_children = as_i64(N);
    Ok(())
}

/// Returns the offset of a node, its bitmap, and the addresses at which its buffers begin. The
/// buffers begin as many elements before the array's first one as the offset says.
#[inline(always)]
fn begin<const N: usize>(
    nulls: Option<&NullBuffer>,
    buffers: [(&Buffer, usize); N],
    room: &mut Room<'_>,
) -> (usize, *const u8, [*const u8; N]) {
    match nulls {
        Some(nulls) if nulls.offset() % 8 != 0 => begin_inside_a_byte(nulls, buffers, room),
        _ => (0, bitmap(nulls), buffers.map(|(buffer, _)| buffer.as_ptr())),
    }
}

#[inline(never)]
fn begin_inside_a_byte<const N: usize>(
    nulls: &NullBuffer,
    buffers: [(&Buffer, usize); N],
    room: &mut Room<'_>,
) -> (usize, *const u8, [*const u8; N]) {
    let before = nulls.offset() % 8;
    // The children of a parent without buffers begin with its first element, and cannot begin
    // earlier.
    let is_there =
        N > 0 && buffers.iter().all(|(buffer, width)| buffer.ptr_offset() >= before * width);
    if !is_there {
        let moved = room.keep(moved_bitmap(nulls, 0));
        return (0, moved, buffers.map(|(buffer, _)| buffer.as_ptr()));
    }
    (
        before,
        bitmap(Some(nulls)),
        buffers.map(|(buffer, width)| before_start(buffer, before * width)),
    )
}

/// Returns the offset of an array of booleans, in bits, and its bitmap.
fn begin_bits(
    nulls: Option<&NullBuffer>,
    values: &BooleanBuffer,
    room: &mut Room<'_>,
) -> (usize, *const u8) {
    let before = values.offset() % 8;
    match nulls {
        Some(nulls) if nulls.offset() % 8 != before => {
            (before, room.keep(moved_bitmap(nulls, before)))
        }
        _ => (before, bitmap(nulls)),
    }
}

/// Returns the address some bytes before a buffer, but inside the memory that the buffer is a part
/// of.
fn before_start(buffer: &Buffer, bytes: usize) -> *const u8 {
    let memory = buffer.data_ptr().as_ptr().cast_const();
    memory.wrapping_add(buffer.ptr_offset().saturating_sub(bytes))
}

/// Returns the byte that contains the first bit; null where there is no bitmap.
fn bitmap(nulls: Option<&NullBuffer>) -> *const u8 {
    nulls.map_or(ptr::null(), |nulls| nulls.buffer().as_ptr().wrapping_add(nulls.offset() / 8))
}

/// Returns a copy of a bitmap whose bits begin after `before` bits.
#[inline(never)]
fn moved_bitmap(nulls: &NullBuffer, before: usize) -> Vec<u8> {
    let is_valid = |bit: usize| bit.checked_sub(before).is_some_and(|index| nulls.is_valid(index));
    BooleanBuffer::collect_bool(before + nulls.len(), is_valid).values().to_vec()
}

/// Converts a length of memory. None is larger than an `i64`.
fn as_i64(number: usize) -> i64 {
    number as i64
}

#[cold]
fn changed() -> Error {
    let message = "the array changed while it was looked at";
    Error::new(ErrorKind::InvalidArgument, message).during("from_arrow")
}
