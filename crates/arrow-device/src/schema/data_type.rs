//! Every type of the Arrow format.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Field, IndexType, Text};
use crate::{Error, ErrorKind, Result};

/// The type of a column.
///
/// ```
/// use arrow_device::{DataType, Field};
///
/// let point = DataType::struct_([
///     Field::new("x", DataType::Float32, false),
///     Field::new("y", DataType::Float32, false),
/// ]);
/// let path = DataType::list(point);
/// assert_eq!(
///     path.to_string(),
///     "list<item: struct<x: float32 not null, y: float32 not null>>"
/// );
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum DataType {
    /// Nulls only, without any memory.
    Null,
    /// Booleans, one bit each.
    Boolean,
    /// Signed integers of 8 bits.
    Int8,
    /// Signed integers of 16 bits.
    Int16,
    /// Signed integers of 32 bits.
    Int32,
    /// Signed integers of 64 bits.
    Int64,
    /// Unsigned integers of 8 bits.
    UInt8,
    /// Unsigned integers of 16 bits.
    UInt16,
    /// Unsigned integers of 32 bits.
    UInt32,
    /// Unsigned integers of 64 bits.
    UInt64,
    /// Floating-point numbers of 16 bits.
    Float16,
    /// Floating-point numbers of 32 bits.
    Float32,
    /// Floating-point numbers of 64 bits.
    Float64,
    /// Integers of 32 bits, divided by ten to the power of `scale`.
    Decimal32 {
        /// How many digits there can be: 1 to 9.
        precision: u8,
        /// How many of the digits follow the point.
        scale: i32,
    },
    /// Integers of 64 bits, divided by ten to the power of `scale`.
    Decimal64 {
        /// How many digits there can be: 1 to 18.
        precision: u8,
        /// How many of the digits follow the point.
        scale: i32,
    },
    /// Integers of 128 bits, divided by ten to the power of `scale`.
    Decimal128 {
        /// How many digits there can be: 1 to 38.
        precision: u8,
        /// How many of the digits follow the point.
        scale: i32,
    },
    /// Integers of 256 bits, divided by ten to the power of `scale`.
    Decimal256 {
        /// How many digits there can be: 1 to 76.
        precision: u8,
        /// How many of the digits follow the point.
        scale: i32,
    },
    /// Dates: days since 1970-01-01, in 32 bits.
    Date32,
    /// Dates: milliseconds since 1970-01-01 that are whole days, in 64 bits.
    Date64,
    /// Times of a day in 32 bits: in seconds or milliseconds.
    Time32(TimeUnit),
    /// Times of a day in 64 bits: in microseconds or nanoseconds.
    Time64(TimeUnit),
    /// Points in time, counted since 1970-01-01 in 64 bits. With a time zone, they count in UTC and
    /// are shown in that zone. Without one, they are the time of some wall clock.
    Timestamp(TimeUnit, Option<Text>),
    /// Lengths of time in 64 bits.
    Duration(TimeUnit),
    /// Lengths of time by the calendar.
    Interval(IntervalUnit),
    /// Bytes, with 32-bit offsets.
    Binary,
    /// Bytes, with 64-bit offsets.
    LargeBinary,
    /// Bytes, with 16-byte views into any number of data buffers.
    BinaryView,
    /// Text, with 32-bit offsets.
    Utf8,
    /// Text, with 64-bit offsets.
    LargeUtf8,
    /// Text, with 16-byte views into any number of data buffers.
    Utf8View,
    /// Bytes, of which each element has this many.
    FixedSizeBinary(i32),
    /// Lists, with 32-bit offsets.
    List(Arc<Field>),
    /// Lists, with 64-bit offsets.
    LargeList(Arc<Field>),
    /// Lists in any order, with 32-bit offsets and sizes.
    ListView(Arc<Field>),
    /// Lists in any order, with 64-bit offsets and sizes.
    LargeListView(Arc<Field>),
    /// Lists of this many elements each.
    FixedSizeList(Arc<Field>, i32),
    /// Structs: several fields side by side.
    Struct(Arc<[Field]>),
    /// Lists of key-value pairs, with 32-bit offsets.
    Map {
        /// A struct of two fields, the key and the value.
        entries: Arc<Field>,
        /// Whether the keys of each list are sorted.
        keys_sorted: bool,
    },
    /// Unions: each element is a value of one of several fields.
    Union {
        /// How long the children are.
        mode: UnionMode,
        /// The number that stands for each field; 0 to 127, each at most once.
        type_ids: Arc<[i8]>,
        /// The fields.
        fields: Arc<[Field]>,
    },
    /// Dictionary-encoded values: indices into a table of values.
    Dictionary {
        /// The type of the indices.
        index: IndexType,
        /// The values. Their field has a name, a nullability and metadata of its own.
        values: Arc<Field>,
        /// Whether the order of the indices means something.
        ordered: bool,
    },
    /// Run-end encoded values: runs of equal values.
    RunEndEncoded {
        /// Where each run ends: 16, 32 or 64-bit signed integers.
        run_ends: Arc<Field>,
        /// The value of each run.
        values: Arc<Field>,
    },
}

/// The unit of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeUnit {
    /// Seconds.
    Second,
    /// Milliseconds.
    Millisecond,
    /// Microseconds.
    Microsecond,
    /// Nanoseconds.
    Nanosecond,
}

/// The units of lengths of time by the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntervalUnit {
    /// Months, in 32 bits.
    YearMonth,
    /// Days and milliseconds, in 32 bits each.
    DayTime,
    /// Months and days in 32 bits each, and nanoseconds in 64 bits.
    MonthDayNano,
}

/// How long the children of a union are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnionMode {
    /// Each child is as long as the union.
    Sparse,
    /// Each child is as long as needed. An offset says where each value is.
    Dense,
}

impl DataType {
    /// Lists of these items, with 32-bit offsets. A plain type stands for a nullable field called
    /// `item`.
    pub fn list(item: impl Into<Field>) -> Self {
        Self::List(Arc::new(item.into()))
    }

    /// Lists of these items, with 64-bit offsets.
    pub fn large_list(item: impl Into<Field>) -> Self {
        Self::LargeList(Arc::new(item.into()))
    }

    /// Lists of these items in any order, with 32-bit offsets and sizes.
    pub fn list_view(item: impl Into<Field>) -> Self {
        Self::ListView(Arc::new(item.into()))
    }

    /// Lists of these items in any order, with 64-bit offsets and sizes.
    pub fn large_list_view(item: impl Into<Field>) -> Self {
        Self::LargeListView(Arc::new(item.into()))
    }

    /// Lists of `size` items each.
    pub fn fixed_size_list(item: impl Into<Field>, size: i32) -> Self {
        Self::FixedSizeList(Arc::new(item.into()), size)
    }

    /// Structs of these fields.
    pub fn struct_(fields: impl IntoIterator<Item = Field>) -> Self {
        Self::Struct(fields.into_iter().collect())
    }

    /// Lists of unsorted key-value pairs. Keys are never null, values may be.
    pub fn map(key: DataType, value: DataType) -> Self {
        let entries = Self::struct_([
            Field::new(Text::from_static("key\0"), key, false),
            Field::new(Text::from_static("value\0"), value, true),
        ]);
        let entries = Arc::new(Field::new(Text::from_static("entries\0"), entries, false));
        Self::Map { entries, keys_sorted: false }
    }

    /// A union of these fields, whose type ids are 0, 1, 2 and so on.
    pub fn union(mode: UnionMode, fields: impl IntoIterator<Item = Field>) -> Self {
        let fields: Arc<[Field]> = fields.into_iter().collect();
        let type_ids = (0..=i8::MAX).take(fields.len()).collect();
        Self::Union { mode, type_ids, fields }
    }

    /// Indices of this type into a table of nullable values. The order of the indices means
    /// nothing.
    pub fn dictionary(index: IndexType, values: DataType) -> Self {
        let values = Arc::new(Field::new(Text::EMPTY, values, true));
        Self::Dictionary { index, values, ordered: false }
    }

    /// Runs of equal values, which may be null.
    pub fn run_end_encoded(run_ends: DataType, values: DataType) -> Self {
        Self::RunEndEncoded {
            run_ends: Arc::new(Field::new(Text::from_static("run_ends\0"), run_ends, false)),
            values: Arc::new(Field::new(Text::from_static("values\0"), values, true)),
        }
    }

    /// The children, in the order of the C struct. The dictionary is not among them.
    pub fn children(&self) -> impl DoubleEndedIterator<Item = &Field> + Clone {
        let (first, second) = match self {
            Self::Dictionary { .. } => (&[][..], &[][..]),
            _ => self.fields(),
        };
        first.iter().chain(second)
    }

    /// The fields below the type: its children, or the values of a dictionary.
    pub(super) fn fields(&self) -> (&[Field], &[Field]) {
        match self {
            Self::List(field)
            | Self::LargeList(field)
            | Self::ListView(field)
            | Self::LargeListView(field)
            | Self::FixedSizeList(field, _)
            | Self::Map { entries: field, .. }
            | Self::Dictionary { values: field, .. } => (std::slice::from_ref(field), &[]),
            Self::Struct(fields) | Self::Union { fields, .. } => (fields, &[]),
            Self::RunEndEncoded { run_ends, values } => {
                (std::slice::from_ref(run_ends), std::slice::from_ref(values))
            }
            _ => (&[], &[]),
        }
    }

    /// How many children there are.
    pub fn child_count(&self) -> usize {
        match self {
            Self::Struct(fields) | Self::Union { fields, .. } => fields.len(),
            _ => self.children().count(),
        }
    }

    /// The child with this index.
    pub fn child(&self, index: usize) -> Option<&Field> {
        self.children().nth(index)
    }

    /// The values of a dictionary.
    pub fn dictionary_values(&self) -> Option<&Field> {
        match self {
            Self::Dictionary { values, .. } => Some(values),
            _ => None,
        }
    }
}

impl DataType {
    /// The precision, the scale and the number of bits of a decimal type.
    pub(crate) fn decimal(&self) -> Option<(u8, i32, i32)> {
        match *self {
            Self::Decimal32 { precision, scale } => Some((precision, scale, 32)),
            Self::Decimal64 { precision, scale } => Some((precision, scale, 64)),
            Self::Decimal128 { precision, scale } => Some((precision, scale, 128)),
            Self::Decimal256 { precision, scale } => Some((precision, scale, 256)),
            _ => None,
        }
    }
}

/// Rules that the enum itself does not keep.
impl DataType {
    /// Refuses a type that a C struct cannot describe. Of the children only the kind is checked,
    /// and not their own children.
    pub(crate) fn check(&self) -> Result<()> {
        match self.flaw() {
            None => Ok(()),
            Some(flaw) => Err(Error::new(ErrorKind::InvalidArgument, flaw)),
        }
    }

    /// What is wrong with this type, in words. `None` if nothing is.
    pub(crate) fn flaw(&self) -> Option<Cow<'static, str>> {
        if let Some((precision, _, bits)) = self.decimal() {
            let most = max_precision(bits);
            return (!(1..=most).contains(&precision)).then(|| {
                format!("a decimal of {bits} bits has 1 to {most} digits, not {precision}").into()
            });
        }
        let is_wrong = match self {
            Self::Time32(unit) => !matches!(unit, TimeUnit::Second | TimeUnit::Millisecond),
            Self::Time64(unit) => matches!(unit, TimeUnit::Second | TimeUnit::Millisecond),
            Self::Timestamp(_, Some(timezone)) => {
                timezone.is_empty() || timezone.as_c_str().is_none()
            }
            Self::FixedSizeBinary(size) | Self::FixedSizeList(_, size) => *size < 0,
            Self::Map { entries, .. } => {
                !matches!(entries.data_type(), Self::Struct(fields) if fields.len() == 2)
            }
            Self::Union { type_ids, fields, .. } => {
                type_ids.len() != fields.len() || !are_type_ids(type_ids)
            }
            Self::RunEndEncoded { run_ends, .. } => {
                !matches!(run_ends.data_type(), Self::Int16 | Self::Int32 | Self::Int64)
            }
            _ => false,
        };
        is_wrong.then_some(Cow::Borrowed(match self {
            Self::Time32(_) => "a 32-bit time counts seconds or milliseconds",
            Self::Time64(_) => "a 64-bit time counts microseconds or nanoseconds",
            Self::Timestamp(..) => "a time zone is not empty and holds no NUL byte",
            Self::Map { .. } => "the entries of a map are a struct of two fields",
            Self::Union { .. } => {
                "a union has one type id for each field, from 0 to 127, each once"
            }
            Self::RunEndEncoded { .. } => "run ends are signed integers of 16, 32 or 64 bits",
            _ => "a fixed size is not negative",
        }))
    }
}

/// How many digits a decimal of `bits` bits holds.
pub(crate) fn max_precision(bits: i32) -> u8 {
    match bits {
        32 => 9,
        64 => 18,
        128 => 38,
        _ => 76,
    }
}

/// The largest number that can stand for a field of a union.
pub(crate) const MAX_TYPE_ID: i8 = i8::MAX;

fn are_type_ids(ids: &[i8]) -> bool {
    let mut seen = 0_u128;
    ids.iter().all(|id| {
        let bit = u32::try_from(*id).ok().and_then(|id| 1_u128.checked_shl(id)).unwrap_or(0);
        let is_new = bit & !seen != 0;
        seen |= bit;
        is_new
    })
}

#[cfg(test)]
mod tests {
    use super::super::examples::examples;
    use super::*;

    #[test]
    fn a_type_that_c_cannot_say_is_refused() {
        let field = || Field::new("a", DataType::Int8, true);
        let union = |type_ids: &[i8], count| DataType::Union {
            mode: UnionMode::Dense,
            type_ids: type_ids.into(),
            fields: vec![field(); count].into(),
        };
        for wrong in [
            DataType::Decimal32 { precision: 10, scale: 0 },
            DataType::Decimal64 { precision: 19, scale: 0 },
            DataType::Decimal128 { precision: 39, scale: 0 },
            DataType::Decimal256 { precision: 0, scale: 0 },
            DataType::Time32(TimeUnit::Microsecond),
            DataType::Time64(TimeUnit::Second),
            DataType::Timestamp(TimeUnit::Second, Some("".into())),
            DataType::Timestamp(TimeUnit::Second, Some("U\0TC".into())),
            DataType::FixedSizeBinary(-1),
            DataType::fixed_size_list(field(), -1),
            DataType::Map { entries: Arc::new(field()), keys_sorted: false },
            union(&[0], 2),
            union(&[3, 3], 2),
            union(&[-1], 1),
            DataType::union(UnionMode::Sparse, vec![field(); 129]),
            DataType::run_end_encoded(DataType::UInt32, DataType::Utf8),
        ] {
            let Err(error) = wrong.check() else { panic!("{wrong:?} was taken") };
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
        for example in examples() {
            example.data_type.check().unwrap();
        }
        DataType::union(UnionMode::Sparse, vec![field(); 128]).check().unwrap();
    }

    #[test]
    fn children_are_those_of_the_c_struct_in_its_order() {
        for example in examples() {
            let data_type = example.data_type;
            let children: Vec<Field> = data_type.children().cloned().collect();
            assert_eq!(children, example.children, "{data_type}");
            assert_eq!(data_type.child_count(), children.len());
            assert_eq!(data_type.child(1), children.get(1));
            assert_eq!(data_type.is_nested(), example.format.starts_with('+'), "{data_type}");
        }
        let dictionary = DataType::dictionary(IndexType::Int8, DataType::Utf8);
        assert_eq!(dictionary.child_count(), 0);
        assert!(!dictionary.is_nested());
    }
}
