//! The types of arrays and of tensors that correspond to each other.

use super::Dtype;
use super::dtype::Width;
use crate::once::OnceBox;
use crate::{DataType, Field, IntervalUnit, Result, Schema};

/// Bytes that are false where they are 0, and true elsewhere: a canonical extension of Arrow over
/// `int8`.
pub(crate) const BOOL8: &str = "arrow.bool8";
/// The bfloat16 numbers of tensors: an extension over `fixed_size_binary[2]`.
pub(crate) const BFLOAT16: &str = "arrow_device.bfloat16";
/// The complex numbers of tensors: an extension over fixed-size lists of two floats of 16, 32 or 64
/// bits, the real part first.
pub(crate) const COMPLEX: &str = "arrow_device.complex";

/// What the elements of an array become in a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elements {
    /// Numbers that arrays and tensors have alike.
    Same(Dtype),
    /// Bytes, of which any but 0 is true.
    Bool8,
    /// Bits, one for each element.
    Bits,
    /// Complex numbers: pairs in the child of a list.
    Complex(Dtype),
    /// Elements of another meaning that are integers in memory.
    View(Dtype),
}

/// The elements of a field; `None` where no tensor has such elements.
pub(crate) fn elements_of(field: &Field) -> Option<Elements> {
    use Elements::{Same, View};
    let extension = field.extension().map(|extension| extension.name);
    Some(match field.data_type() {
        DataType::Int8 if extension == Some(BOOL8) => Elements::Bool8,
        DataType::Int8 => Same(Dtype::INT8),
        DataType::Int16 => Same(Dtype::INT16),
        DataType::Int32 => Same(Dtype::INT32),
        DataType::Int64 => Same(Dtype::INT64),
        DataType::UInt8 => Same(Dtype::UINT8),
        DataType::UInt16 => Same(Dtype::UINT16),
        DataType::UInt32 => Same(Dtype::UINT32),
        DataType::UInt64 => Same(Dtype::UINT64),
        DataType::Float16 => Same(Dtype::FLOAT16),
        DataType::Float32 => Same(Dtype::FLOAT32),
        DataType::Float64 => Same(Dtype::FLOAT64),
        DataType::Boolean => Elements::Bits,
        DataType::FixedSizeBinary(2) if extension == Some(BFLOAT16) => Same(Dtype::BFLOAT16),
        DataType::FixedSizeList(item, 2) if extension == Some(COMPLEX) => {
            Elements::Complex(match item.data_type() {
                DataType::Float16 => Dtype::COMPLEX32,
                DataType::Float32 => Dtype::COMPLEX64,
                DataType::Float64 => Dtype::COMPLEX128,
                _ => return None,
            })
        }
        DataType::Date32
        | DataType::Time32(_)
        | DataType::Decimal32 { .. }
        | DataType::Interval(IntervalUnit::YearMonth) => View(Dtype::INT32),
        DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_)
        | DataType::Decimal64 { .. } => View(Dtype::INT64),
        DataType::Dictionary { index, .. } => {
            match elements_of(&Field::new("", (*index).into(), true))? {
                Same(dtype) => View(dtype),
                _ => return None,
            }
        }
        _ => return None,
    })
}

/// The numbers that both tensors and arrays have.
static PLAIN: [(Dtype, DataType); 11] = [
    (Dtype::INT8, DataType::Int8),
    (Dtype::INT16, DataType::Int16),
    (Dtype::INT32, DataType::Int32),
    (Dtype::INT64, DataType::Int64),
    (Dtype::UINT8, DataType::UInt8),
    (Dtype::UINT16, DataType::UInt16),
    (Dtype::UINT32, DataType::UInt32),
    (Dtype::UINT64, DataType::UInt64),
    (Dtype::FLOAT16, DataType::Float16),
    (Dtype::FLOAT32, DataType::Float32),
    (Dtype::FLOAT64, DataType::Float64),
];

/// The schema of arrays of such numbers, which is made once; `None` for other types.
pub(crate) fn plain_schema(dtype: Dtype) -> Option<&'static Schema> {
    static SCHEMAS: [OnceBox<Option<Schema>>; PLAIN.len()] =
        [const { OnceBox::new() }; PLAIN.len()];
    let number = PLAIN.iter().position(|(known, _)| *known == dtype)?;
    let (_, data_type) = PLAIN.get(number)?;
    let schema = || Schema::new(Field::new("", data_type.clone(), false)).ok();
    SCHEMAS.get(number)?.get_or_make(schema).as_ref()
}

/// The schema of arrays of a tensor's elements; `None` where Arrow has no such type.
pub(crate) fn schema_of(dtype: Dtype, width: Width, as_integers: bool) -> Result<Option<Schema>> {
    match plain_schema(dtype) {
        Some(schema) => Ok(Some(schema.clone())),
        None => field_of(dtype, width, as_integers)?.map(Schema::new).transpose(),
    }
}

/// The field of elements that are not plain numbers.
fn field_of(dtype: Dtype, width: Width, as_integers: bool) -> Result<Option<Field>> {
    let plain = |data_type| Ok(Some(Field::new("", data_type, false)));
    let complex = |part: DataType| {
        let pair = DataType::fixed_size_list(Field::new("item", part, false), 2);
        Field::new("", pair, false).with_extension(COMPLEX, "").map(Some)
    };
    match dtype {
        Dtype::BOOL => Field::new("", DataType::Int8, false).with_extension(BOOL8, "").map(Some),
        Dtype::BFLOAT16 => Field::new("", DataType::FixedSizeBinary(2), false)
            .with_extension(BFLOAT16, "")
            .map(Some),
        Dtype::COMPLEX32 => complex(DataType::Float16),
        Dtype::COMPLEX64 => complex(DataType::Float32),
        Dtype::COMPLEX128 => complex(DataType::Float64),
        _ if !as_integers => Ok(None),
        // The width, because padded elements take more than the type says.
        _ => match width {
            Width::Bytes(1) => plain(DataType::UInt8),
            Width::Bytes(2) => plain(DataType::UInt16),
            Width::Bytes(4) => plain(DataType::UInt32),
            Width::Bytes(8) => plain(DataType::UInt64),
            _ => Ok(None),
        },
    }
}
