//! Arrays of arrow-rs, told node by node for the C structs.
//!
//! Nothing here goes through `ArrayData`, which allocates for each array. arrow-rs slices each buffer by itself, where C has
//! one offset for all buffers of a node; so a node's buffers are told from a few elements before its first one on, if its
//! bitmap begins in the middle of a byte and the memory before it is there. Where it is not, the bitmap alone is copied.

use std::ptr;

use arrow_device::{Error, ErrorKind, Result};

use super::arrow::array as rs;
use super::arrow::array::cast::AsArray;
use super::arrow::array::types::{ArrowPrimitiveType, Int16Type, Int32Type, Int64Type};
use super::arrow::array::{Array, OffsetSizeTrait, RecordBatch, RunArray};
use super::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use super::arrow::schema::DataType;
use crate::block::{self, Node, Validity};

/// A node of a tree of arrow-rs.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// The array itself, not the `Arc` that holds it, which would be asked first each time.
    Array(&'a dyn Array),
    /// The columns of a batch, as a struct.
    Batch(&'a RecordBatch),
    /// The run ends of a run-end encoded array, which are no array in arrow-rs.
    RunEnds { buffer: &'a Buffer, length: usize },
}

impl block::Source for Source<'_> {
    fn node(&self) -> Result<Node> {
        match *self {
            Self::Array(array) => array_node(array),
            Self::Batch(batch) => Ok(parents(batch.num_rows(), None, batch.num_columns())),
            Self::RunEnds { buffer, length } => Ok(elements(length, None, [(buffer, 0)])),
        }
    }

    fn aligned_validity(&self) -> Vec<u8> {
        let Self::Array(array) = self else { return Vec::new() };
        let Some(nulls) = array.nulls() else { return Vec::new() };
        let before = array.as_boolean_opt().map_or(0, |array| array.values().offset() % 8);
        let is_valid =
            |bit: usize| bit.checked_sub(before).is_some_and(|index| nulls.is_valid(index));
        BooleanBuffer::collect_bool(before + nulls.len(), is_valid).values().to_vec()
    }

    fn data_buffer(&self, index: usize) -> (*const u8, usize) {
        let buffers = match self {
            Self::Array(array) => data_buffers(*array),
            _ => &[],
        };
        buffers.get(index).map_or((ptr::null(), 0), |buffer| (buffer.as_ptr(), buffer.len()))
    }

    fn child(&self, index: usize) -> Result<Self> {
        match *self {
            Self::Array(array) => child(array, index).ok_or_else(|| unknown(array)),
            Self::Batch(batch) => {
                let column = batch.columns().get(index);
                column.map(|column| Self::Array(&**column)).ok_or_else(no_child)
            }
            Self::RunEnds { .. } => Err(no_child()),
        }
    }

    fn dictionary(&self) -> Result<Self> {
        let Self::Array(array) = *self else { return Err(no_child()) };
        let dictionary = array.as_any_dictionary_opt().ok_or_else(|| unknown(array))?;
        Ok(Self::Array(&**dictionary.values()))
    }
}

fn array_node(array: &dyn Array) -> Result<Node> {
    known_node(array).ok_or_else(|| unknown(array))
}

/// Everything about an array, if it is what its type says.
fn known_node(array: &dyn Array) -> Option<Node> {
    let (length, nulls) = (array.len(), array.nulls());
    macro_rules! primitive {
        ($type:ty) => {{
            let width = size_of::<<$type as ArrowPrimitiveType>::Native>();
            let values = array.as_primitive_opt::<$type>()?.values();
            Some(elements(length, nulls, [(values.inner(), width)]))
        }};
    }
    rs::downcast_primitive! {
        array.data_type() => (primitive),
        DataType::Null => Some(Node { validity: Validity::Never, ..parents(length, None, 0) }),
        DataType::Boolean => Some(bits(array.as_boolean_opt()?.values(), nulls)),
        DataType::FixedSizeBinary(_) => {
            let array = array.as_fixed_size_binary_opt()?;
            let width = usize::try_from(array.value_length()).ok()?;
            Some(elements(length, nulls, [(array.values(), width)]))
        },
        DataType::Utf8 => text(array.as_string_opt::<i32>()?),
        DataType::LargeUtf8 => text(array.as_string_opt::<i64>()?),
        DataType::Binary => text(array.as_binary_opt::<i32>()?),
        DataType::LargeBinary => text(array.as_binary_opt::<i64>()?),
        DataType::Utf8View => views(array.as_string_view_opt()?),
        DataType::BinaryView => views(array.as_binary_view_opt()?),
        DataType::List(_) => list(array.as_list_opt::<i32>()?),
        DataType::LargeList(_) => list(array.as_list_opt::<i64>()?),
        DataType::ListView(_) => list_view(array.as_list_view_opt::<i32>()?),
        DataType::LargeListView(_) => list_view(array.as_list_view_opt::<i64>()?),
        DataType::Map(_, _) => {
            let offsets = array.as_map_opt()?.offsets().inner().inner();
            Some(Node { children: 1, ..elements(length, nulls, [(offsets, size_of::<i32>())]) })
        },
        DataType::FixedSizeList(_, _) => Some(parents(length, nulls, 1)),
        DataType::Struct(fields) => Some(parents(length, nulls, fields.len())),
        DataType::Union(fields, _) => {
            let array = array.as_union_opt()?;
            let type_ids = (array.type_ids().inner(), size_of::<i8>());
            let node = match array.offsets() {
                Some(offsets) => {
                    elements(length, None, [type_ids, (offsets.inner(), size_of::<i32>())])
                }
                None => elements(length, None, [type_ids]),
            };
            Some(Node { validity: Validity::Never, children: fields.len(), ..node })
        },
        DataType::Dictionary(_, _) => {
            let keys = known_node(array.as_any_dictionary_opt()?.keys())?;
            Some(Node { has_dictionary: true, ..keys })
        },
        DataType::RunEndEncoded(run_ends, _) => {
            let offset = match run_ends.data_type() {
                DataType::Int16 => array.as_run_opt::<Int16Type>()?.run_ends().offset(),
                DataType::Int32 => array.as_run_opt::<Int32Type>()?.run_ends().offset(),
                _ => array.as_run_opt::<Int64Type>()?.run_ends().offset(),
            };
            Some(Node { offset, validity: Validity::Never, ..parents(length, None, 2) })
        },
        _ => None,
    }
}

/// Buffers of elements of so many bytes each, all beginning with the first one.
fn elements<const N: usize>(
    length: usize,
    nulls: Option<&NullBuffer>,
    buffers: [(&Buffer, usize); N],
) -> Node {
    let before = nulls.map_or(0, |nulls| nulls.offset() % 8);
    let is_there = buffers.iter().all(|(buffer, width)| buffer.ptr_offset() >= before * width);
    let (offset, validity) = match nulls {
        None => (0, Validity::Absent),
        Some(nulls) if is_there => (before, byte_of(nulls)),
        Some(_) => (0, Validity::Misplaced),
    };
    let mut addresses = [ptr::null(); 2];
    for (address, (buffer, width)) in addresses.iter_mut().zip(buffers) {
        *address = before_start(buffer, offset * width);
    }
    let node = parents(length, nulls, 0);
    Node { offset, validity, buffers: addresses, buffer_count: N, ..node }
}

/// The address some bytes before a buffer, but within the memory that it is a part of.
fn before_start(buffer: &Buffer, bytes: usize) -> *const u8 {
    let memory = buffer.data_ptr().as_ptr().cast_const();
    memory.wrapping_add(buffer.ptr_offset().saturating_sub(bytes))
}

fn bits(values: &BooleanBuffer, nulls: Option<&NullBuffer>) -> Node {
    let offset = values.offset() % 8;
    let validity = match nulls {
        None => Validity::Absent,
        Some(nulls) if nulls.offset() % 8 == offset => byte_of(nulls),
        Some(_) => Validity::Misplaced,
    };
    let address = values.inner().as_ptr().wrapping_add(values.offset() / 8);
    let node = parents(values.len(), nulls, 0);
    Node { offset, validity, buffers: [address, ptr::null()], buffer_count: 1, ..node }
}

/// A node that has at most a validity bitmap itself. Its children begin with its first element, and cannot begin before it.
fn parents(length: usize, nulls: Option<&NullBuffer>, children: usize) -> Node {
    let validity = match nulls {
        None => Validity::Absent,
        Some(nulls) if nulls.offset() % 8 == 0 => byte_of(nulls),
        Some(_) => Validity::Misplaced,
    };
    Node {
        length,
        offset: 0,
        null_count: nulls.map_or(0, NullBuffer::null_count),
        validity,
        buffers: [ptr::null(); 2],
        buffer_count: 0,
        data_buffers: None,
        children,
        has_dictionary: false,
    }
}

/// The byte that the first bit is in.
fn byte_of(nulls: &NullBuffer) -> Validity {
    Validity::At(nulls.buffer().as_ptr().wrapping_add(nulls.offset() / 8))
}

fn text<T: rs::types::ByteArrayType>(array: &rs::GenericByteArray<T>) -> Option<Node> {
    let offsets = (array.offsets().inner().inner(), size_of::<T::Offset>());
    let node = elements(array.len(), array.nulls(), [offsets]);
    let [offsets, _] = node.buffers;
    Some(Node { buffers: [offsets, array.values().as_ptr()], buffer_count: 2, ..node })
}

fn views<T: rs::types::ByteViewType + ?Sized>(array: &rs::GenericByteViewArray<T>) -> Option<Node> {
    let node = elements(array.len(), array.nulls(), [(array.views().inner(), size_of::<u128>())]);
    Some(Node { data_buffers: Some(array.data_buffers().len()), ..node })
}

fn list<O: OffsetSizeTrait>(array: &rs::GenericListArray<O>) -> Option<Node> {
    let offsets = (array.offsets().inner().inner(), size_of::<O>());
    Some(Node { children: 1, ..elements(array.len(), array.nulls(), [offsets]) })
}

fn list_view<O: OffsetSizeTrait>(array: &rs::GenericListViewArray<O>) -> Option<Node> {
    let buffers = [array.offsets().inner(), array.sizes().inner()];
    let buffers = buffers.map(|buffer| (buffer, size_of::<O>()));
    Some(Node { children: 1, ..elements(array.len(), array.nulls(), buffers) })
}

fn data_buffers(array: &dyn Array) -> &[Buffer] {
    match array.data_type() {
        DataType::Utf8View => array.as_string_view_opt().map_or(&[], |array| array.data_buffers()),
        _ => array.as_binary_view_opt().map_or(&[], |array| array.data_buffers()),
    }
}

fn child(array: &dyn Array, index: usize) -> Option<Source<'_>> {
    let values = match array.data_type() {
        DataType::List(_) => array.as_list_opt::<i32>()?.values(),
        DataType::LargeList(_) => array.as_list_opt::<i64>()?.values(),
        DataType::ListView(_) => array.as_list_view_opt::<i32>()?.values(),
        DataType::LargeListView(_) => array.as_list_view_opt::<i64>()?.values(),
        DataType::FixedSizeList(_, _) => array.as_fixed_size_list_opt()?.values(),
        DataType::Map(_, _) => return Some(Source::Array(array.as_map_opt()?.entries())),
        DataType::Struct(_) => array.as_struct_opt()?.columns().get(index)?,
        DataType::Union(fields, _) => {
            let (type_id, _) = fields.iter().nth(index)?;
            array.as_union_opt()?.child(type_id)
        }
        DataType::RunEndEncoded(run_ends, _) => {
            return match run_ends.data_type() {
                DataType::Int16 => Some(run_child(array.as_run_opt::<Int16Type>()?, index)),
                DataType::Int32 => Some(run_child(array.as_run_opt::<Int32Type>()?, index)),
                _ => Some(run_child(array.as_run_opt::<Int64Type>()?, index)),
            };
        }
        _ => return None,
    };
    Some(Source::Array(&**values))
}

fn run_child<R: rs::types::RunEndIndexType>(array: &RunArray<R>, index: usize) -> Source<'_> {
    let run_ends = array.run_ends().inner();
    match index {
        0 => Source::RunEnds { buffer: run_ends.inner(), length: run_ends.len() },
        _ => Source::Array(&**array.values()),
    }
}

fn unknown(array: &dyn Array) -> Error {
    let message = format!(
        "an array that is no array of arrow-rs for its type, {}; rebuild it with `make_array(array.to_data())`",
        array.data_type()
    );
    Error::new(ErrorKind::Unsupported, message).during("from_arrow")
}

fn no_child() -> Error {
    Error::new(ErrorKind::SchemaMismatch, "there is no such child").during("from_arrow")
}
