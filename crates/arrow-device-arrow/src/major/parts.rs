//! Takes an array of arrow-rs apart, led by this library's type of it.
//!
//! Each array is looked at once, as the array of arrow-rs that its type demands. An array of
//! another type is refused. Most columns are [leaves](Leaf), whose few parts are passed in
//! registers. All other arrays are described by [`ArrayParts`].

use std::ptr;

use arrow_device::{DataType, Error, ErrorKind, Field, IntervalUnit, Result, TimeUnit, UnionMode};

use super::arrow::array::cast::AsArray;
use super::arrow::array::{self as rs, types as of};
use super::arrow::array::{Array, ArrayRef, OffsetSizeTrait, RunArray, UnionArray};
use super::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use super::arrow::schema;
use super::{mismatch, types};

/// The parts of an array of arrow-rs.
pub(super) struct ArrayParts<'a> {
    pub(super) length: usize,
    pub(super) nulls: Option<&'a NullBuffer>,
    pub(super) buffers: Buffers<'a>,
    pub(super) below: Below<'a>,
}

/// The buffers of an array, each beginning with the array's first element. A `usize` is the width
/// of an element in bytes.
pub(super) enum Buffers<'a> {
    None,
    /// No buffers, and this offset, as run-end encoded arrays have.
    NoneFrom(usize),
    /// The validity bitmap alone. All of the following but unions have one too.
    Bitmap,
    Bits(&'a BooleanBuffer),
    Elements(&'a Buffer, usize),
    /// Offsets, their width, and the bytes that they lead to.
    Text(&'a Buffer, usize, *const u8),
    /// Offsets, sizes, and the width of both.
    Ranges(&'a Buffer, &'a Buffer, usize),
    /// Views, and the data buffers that they point into.
    Views(&'a Buffer, &'a [Buffer]),
    TypeIds(&'a Buffer),
    TypeIdsAndOffsets(&'a Buffer, &'a Buffer),
}

/// The arrays below an array.
pub(super) enum Below<'a> {
    Nothing,
    Columns(&'a [Field], &'a [ArrayRef]),
    Item(&'a DataType, &'a dyn Array),
    /// The values of a dictionary.
    Values(&'a DataType, &'a dyn Array),
    /// The children of a union, which are found by their type ids.
    Members(&'a [i8], &'a [Field], &'a UnionArray),
    /// The run ends, which arrow-rs does not keep as an array, and the values.
    Runs {
        run_ends: &'a Buffer,
        count: usize,
        values: &'a DataType,
        array: &'a dyn Array,
    },
}

impl Buffers<'_> {
    pub(super) fn count(&self) -> usize {
        match self {
            Self::None | Self::NoneFrom(_) => 0,
            Self::Bitmap | Self::TypeIds(_) => 1,
            Self::Bits(_) | Self::Elements(..) | Self::TypeIdsAndOffsets(..) => 2,
            Self::Text(..) | Self::Ranges(..) => 3,
            Self::Views(_, data) => 3 + data.len(),
        }
    }
}

/// An array with nothing below it, and with two or three buffers. Most arrays are leaves.
pub(super) struct Leaf<'a> {
    pub(super) length: usize,
    pub(super) nulls: Option<&'a NullBuffer>,
    /// The elements or the offsets, each of `width` bytes.
    pub(super) elements: &'a Buffer,
    pub(super) width: usize,
    /// The bytes that the offsets lead to; null for an array without offsets.
    pub(super) bytes: *const u8,
}

impl<'a> Leaf<'a> {
    pub(super) fn begins_with_a_byte(&self) -> bool {
        self.nulls.is_none_or(|nulls| nulls.offset() % 8 == 0)
    }

    fn parts(self) -> ArrayParts<'a> {
        let Self { length, nulls, elements, width, bytes } = self;
        let buffers = match bytes.is_null() {
            true => Buffers::Elements(elements, width),
            false => Buffers::Text(elements, width, bytes),
        };
        ArrayParts { length, nulls, buffers, below: Below::Nothing }
    }
}

/// Takes an array apart that is a leaf. `None` where it is not, or is not of this type.
#[inline(always)]
pub(super) fn leaf<'a>(data_type: &DataType, array: &'a dyn Array) -> Option<Leaf<'a>> {
    match data_type {
        DataType::Int8 => plain::<of::Int8Type>(array),
        DataType::Int16 => plain::<of::Int16Type>(array),
        DataType::Int32 => plain::<of::Int32Type>(array),
        DataType::Int64 => plain::<of::Int64Type>(array),
        DataType::UInt8 => plain::<of::UInt8Type>(array),
        DataType::UInt16 => plain::<of::UInt16Type>(array),
        DataType::UInt32 => plain::<of::UInt32Type>(array),
        DataType::UInt64 => plain::<of::UInt64Type>(array),
        DataType::Float16 => plain::<of::Float16Type>(array),
        DataType::Float32 => plain::<of::Float32Type>(array),
        DataType::Float64 => plain::<of::Float64Type>(array),
        DataType::Decimal32 { .. } => parametrised::<of::Decimal32Type>(data_type, array),
        DataType::Decimal64 { .. } => parametrised::<of::Decimal64Type>(data_type, array),
        DataType::Decimal128 { .. } => parametrised::<of::Decimal128Type>(data_type, array),
        DataType::Decimal256 { .. } => parametrised::<of::Decimal256Type>(data_type, array),
        DataType::Date32 => plain::<of::Date32Type>(array),
        DataType::Date64 => plain::<of::Date64Type>(array),
        DataType::Time32(TimeUnit::Second) => plain::<of::Time32SecondType>(array),
        DataType::Time32(TimeUnit::Millisecond) => plain::<of::Time32MillisecondType>(array),
        DataType::Time64(TimeUnit::Microsecond) => plain::<of::Time64MicrosecondType>(array),
        DataType::Time64(TimeUnit::Nanosecond) => plain::<of::Time64NanosecondType>(array),
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => parametrised::<of::TimestampSecondType>(data_type, array),
            TimeUnit::Millisecond => parametrised::<of::TimestampMillisecondType>(data_type, array),
            TimeUnit::Microsecond => parametrised::<of::TimestampMicrosecondType>(data_type, array),
            TimeUnit::Nanosecond => parametrised::<of::TimestampNanosecondType>(data_type, array),
        },
        DataType::Duration(unit) => match unit {
            TimeUnit::Second => plain::<of::DurationSecondType>(array),
            TimeUnit::Millisecond => plain::<of::DurationMillisecondType>(array),
            TimeUnit::Microsecond => plain::<of::DurationMicrosecondType>(array),
            TimeUnit::Nanosecond => plain::<of::DurationNanosecondType>(array),
        },
        DataType::Interval(unit) => match unit {
            IntervalUnit::YearMonth => plain::<of::IntervalYearMonthType>(array),
            IntervalUnit::DayTime => plain::<of::IntervalDayTimeType>(array),
            IntervalUnit::MonthDayNano => plain::<of::IntervalMonthDayNanoType>(array),
        },
        DataType::Binary => text::<of::BinaryType>(array),
        DataType::LargeBinary => text::<of::LargeBinaryType>(array),
        DataType::Utf8 => text::<of::Utf8Type>(array),
        DataType::LargeUtf8 => text::<of::LargeUtf8Type>(array),
        DataType::Boolean => bits(array),
        _ => None,
    }
}

/// Takes apart an array whose type in arrow-rs has no parameters.
fn plain<T: of::ArrowPrimitiveType>(array: &dyn Array) -> Option<Leaf<'_>> {
    let array = array.as_primitive_opt::<T>()?;
    Some(Leaf {
        length: array.values().len(),
        nulls: array.nulls(),
        elements: array.values().inner(),
        width: size_of::<T::Native>(),
        bytes: ptr::null(),
    })
}

/// Takes apart an array whose type has parameters, such as a scale or a time zone, which have to be
/// equal.
fn parametrised<'a, T: of::ArrowPrimitiveType>(
    data_type: &DataType,
    array: &'a dyn Array,
) -> Option<Leaf<'a>> {
    let leaf = plain::<T>(array)?;
    types::is_laid_out_as(data_type, array.data_type()).then_some(leaf)
}

fn text<T: of::ByteArrayType>(array: &dyn Array) -> Option<Leaf<'_>> {
    let array = array.as_bytes_opt::<T>()?;
    Some(Leaf {
        length: array.len(),
        nulls: array.nulls(),
        elements: array.offsets().inner().inner(),
        width: size_of::<T::Offset>(),
        bytes: array.values().as_ptr(),
    })
}

/// Takes apart booleans that begin with the first bit of their buffer.
fn bits(array: &dyn Array) -> Option<Leaf<'_>> {
    let array = array.as_boolean_opt()?;
    let (values, nulls) = (array.values(), array.nulls());
    let leaf = Leaf {
        length: values.len(),
        nulls,
        elements: values.inner(),
        width: 0,
        bytes: ptr::null(),
    };
    (values.offset() == 0 && leaf.begins_with_a_byte()).then_some(leaf)
}

/// Takes an array apart.
///
/// # Errors
/// The array is not the one that arrow-rs has for this type.
#[inline(never)]
pub(super) fn parts<'a>(data_type: &'a DataType, array: &'a dyn Array) -> Result<ArrayParts<'a>> {
    known_parts(data_type, array).ok_or_else(|| refused(data_type, array))
}

fn known_parts<'a>(data_type: &'a DataType, array: &'a dyn Array) -> Option<ArrayParts<'a>> {
    if let Some(leaf) = leaf(data_type, array) {
        return Some(leaf.parts());
    }
    match data_type {
        DataType::Boolean => {
            let array = array.as_boolean_opt()?;
            let values = array.values();
            Some(childless(values.len(), array.nulls(), Buffers::Bits(values)))
        }
        DataType::BinaryView => views::<of::BinaryViewType>(array),
        DataType::Utf8View => views::<of::StringViewType>(array),
        DataType::Null => {
            let length = array.as_any().downcast_ref::<rs::NullArray>()?.len();
            Some(childless(length, None, Buffers::None))
        }
        DataType::FixedSizeBinary(width) => {
            let array = array.as_fixed_size_binary_opt()?;
            let is_as_wide = array.value_length() == *width;
            let buffers = Buffers::Elements(array.values(), usize::try_from(*width).ok()?);
            is_as_wide.then(|| childless(array.len(), array.nulls(), buffers))
        }
        DataType::List(item) => list::<i32>(item, array),
        DataType::LargeList(item) => list::<i64>(item, array),
        DataType::ListView(item) => list_view::<i32>(item, array),
        DataType::LargeListView(item) => list_view::<i64>(item, array),
        DataType::FixedSizeList(item, size) => {
            let array = array.as_fixed_size_list_opt()?;
            let below = Below::Item(item.data_type(), &**array.values());
            let parts = childless(array.len(), array.nulls(), Buffers::Bitmap);
            (array.value_length() == *size).then_some(ArrayParts { below, ..parts })
        }
        DataType::Map { entries, .. } => {
            let array = array.as_map_opt()?;
            let offsets = Buffers::Elements(array.offsets().inner().inner(), size_of::<i32>());
            let below = Below::Item(entries.data_type(), array.entries());
            Some(ArrayParts { below, ..childless(array.len(), array.nulls(), offsets) })
        }
        DataType::Struct(fields) => {
            let array = array.as_struct_opt()?;
            let columns = array.columns();
            let below = Below::Columns(fields, columns);
            let parts = childless(array.len(), array.nulls(), Buffers::Bitmap);
            (columns.len() == fields.len()).then_some(ArrayParts { below, ..parts })
        }
        DataType::Union { mode, type_ids, fields } => {
            let schema::DataType::Union(members, _) = array.data_type() else { return None };
            let array = array.as_union_opt()?;
            let ids = array.type_ids();
            let buffers = match (mode, array.offsets()) {
                (UnionMode::Sparse, None) => Buffers::TypeIds(ids.inner()),
                (UnionMode::Dense, Some(offsets)) => {
                    Buffers::TypeIdsAndOffsets(ids.inner(), offsets.inner())
                }
                _ => return None,
            };
            let are_alike = type_ids.iter().copied().eq(members.iter().map(|(id, _)| id));
            let below = Below::Members(type_ids, fields, array);
            are_alike.then_some(ArrayParts { below, ..childless(ids.len(), None, buffers) })
        }
        DataType::Dictionary { index, values, .. } => {
            let dictionary = array.as_any_dictionary_opt()?;
            let keys = leaf(index.data_type(), dictionary.keys())?.parts();
            let below = Below::Values(values.data_type(), &**dictionary.values());
            Some(ArrayParts { below, ..keys })
        }
        DataType::RunEndEncoded { run_ends, values } => match run_ends.data_type() {
            DataType::Int16 => runs::<of::Int16Type>(values, array),
            DataType::Int32 => runs::<of::Int32Type>(values, array),
            DataType::Int64 => runs::<of::Int64Type>(values, array),
            _ => None,
        },
        _ => None,
    }
}

fn childless<'a>(
    length: usize,
    nulls: Option<&'a NullBuffer>,
    buffers: Buffers<'a>,
) -> ArrayParts<'a> {
    ArrayParts { length, nulls, buffers, below: Below::Nothing }
}

fn views<T: of::ByteViewType>(array: &dyn Array) -> Option<ArrayParts<'_>> {
    let array = array.as_byte_view_opt::<T>()?;
    let buffers = Buffers::Views(array.views().inner(), array.data_buffers());
    Some(childless(array.len(), array.nulls(), buffers))
}

fn list<'a, O: OffsetSizeTrait>(item: &'a Field, array: &'a dyn Array) -> Option<ArrayParts<'a>> {
    let array = array.as_list_opt::<O>()?;
    let offsets = Buffers::Elements(array.offsets().inner().inner(), size_of::<O>());
    let below = Below::Item(item.data_type(), &**array.values());
    Some(ArrayParts { below, ..childless(array.len(), array.nulls(), offsets) })
}

fn list_view<'a, O: OffsetSizeTrait>(
    item: &'a Field,
    array: &'a dyn Array,
) -> Option<ArrayParts<'a>> {
    let array = array.as_list_view_opt::<O>()?;
    let (offsets, sizes) = (array.offsets().inner(), array.sizes().inner());
    let below = Below::Item(item.data_type(), &**array.values());
    let ranges = Buffers::Ranges(offsets, sizes, size_of::<O>());
    Some(ArrayParts { below, ..childless(array.len(), array.nulls(), ranges) })
}

fn runs<'a, R: of::RunEndIndexType>(
    values: &'a Field,
    array: &'a dyn Array,
) -> Option<ArrayParts<'a>> {
    let array: &RunArray<R> = array.as_run_opt()?;
    let run_ends = array.run_ends();
    let below = Below::Runs {
        run_ends: run_ends.inner().inner(),
        count: run_ends.inner().len(),
        values: values.data_type(),
        array: &**array.values(),
    };
    Some(ArrayParts { below, ..childless(array.len(), None, Buffers::NoneFrom(run_ends.offset())) })
}

/// Says why an array could not be taken apart.
#[cold]
fn refused(data_type: &DataType, array: &dyn Array) -> Error {
    if !types::is_laid_out_as(data_type, array.data_type()) {
        return mismatch(data_type, array.data_type());
    }
    let message = format!(
        "an array that is no array of arrow-rs for its type, {}; rebuild it with `make_array(array.to_data())`",
        array.data_type()
    );
    Error::new(ErrorKind::Unsupported, message).during("from_arrow")
}
