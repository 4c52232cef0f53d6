//! Which buffers an array of a type has, and how large each must be.
//!
//! Pure data about types: no array and no memory is looked at here.

use super::{DataType, IntervalUnit, UnionMode};
use crate::numbered::numbered;

/// The buffers and children that an array of some type has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    buffers: [BufferKind; 3],
    buffer_count: u8,
    is_variadic: bool,
    child_count: usize,
    list_size: Option<u32>,
}

/// What one buffer of an array holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BufferKind {
    /// A bit for each element that says whether the element is not null. The buffer may be null
    /// where no element is.
    Validity,
    /// A bit for each element, which is its value.
    Bits,
    /// Elements of this many bytes.
    Fixed {
        /// The size of an element in bytes; 0 for `fixed_size_binary[0]`.
        width: u32,
    },
    /// Where each element begins and the last one ends, in 32 bits.
    Offsets32,
    /// Where each element begins and the last one ends, in 64 bits.
    Offsets64,
    /// Where each list of a list view begins, in 32 bits.
    Starts32,
    /// Where each list of a list view begins, in 64 bits.
    Starts64,
    /// How long each list of a list view is, in 32 bits.
    Sizes32,
    /// How long each list of a list view is, in 64 bits.
    Sizes64,
    /// Which field of a union each element is of, in 8 bits.
    TypeIds,
    /// Where each element is in its child of a dense union, in 32 bits.
    UnionOffsets,
    /// The bytes that offsets or views point into.
    VariableBytes,
    /// Views of 16 bytes: the length and the text itself, or the length, a prefix, and a place in a
    /// data buffer.
    Views,
}

impl Layout {
    /// The layout of a type.
    pub fn of(data_type: &DataType) -> Self {
        use BufferKind::*;
        let (first, second) = match data_type {
            DataType::Dictionary { index, .. } => return Self::of(index.data_type()),
            DataType::Null | DataType::RunEndEncoded { .. } => return Self::new(&[], data_type),
            DataType::Union { mode: UnionMode::Sparse, .. } => {
                return Self::new(&[TypeIds], data_type);
            }
            DataType::Union { mode: UnionMode::Dense, .. } => {
                return Self::new(&[TypeIds, UnionOffsets], data_type);
            }
            DataType::Struct(_) | DataType::FixedSizeList(..) => (None, None),
            DataType::Boolean => (Some(Bits), None),
            DataType::Int8 | DataType::UInt8 => (Some(Fixed { width: 1 }), None),
            DataType::Int16 | DataType::UInt16 | DataType::Float16 => {
                (Some(Fixed { width: 2 }), None)
            }
            DataType::Int32
            | DataType::UInt32
            | DataType::Float32
            | DataType::Decimal32 { .. }
            | DataType::Date32
            | DataType::Time32(_)
            | DataType::Interval(IntervalUnit::YearMonth) => (Some(Fixed { width: 4 }), None),
            DataType::Int64
            | DataType::UInt64
            | DataType::Float64
            | DataType::Decimal64 { .. }
            | DataType::Date64
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Duration(_)
            | DataType::Interval(IntervalUnit::DayTime) => (Some(Fixed { width: 8 }), None),
            DataType::Decimal128 { .. } | DataType::Interval(IntervalUnit::MonthDayNano) => {
                (Some(Fixed { width: 16 }), None)
            }
            DataType::Decimal256 { .. } => (Some(Fixed { width: 32 }), None),
            DataType::FixedSizeBinary(width) => {
                (Some(Fixed { width: u32::try_from(*width).unwrap_or(0) }), None)
            }
            DataType::Binary | DataType::Utf8 => (Some(Offsets32), Some(VariableBytes)),
            DataType::LargeBinary | DataType::LargeUtf8 => (Some(Offsets64), Some(VariableBytes)),
            DataType::BinaryView | DataType::Utf8View => (Some(Views), None),
            DataType::List(_) | DataType::Map { .. } => (Some(Offsets32), None),
            DataType::LargeList(_) => (Some(Offsets64), None),
            DataType::ListView(_) => (Some(Starts32), Some(Sizes32)),
            DataType::LargeListView(_) => (Some(Starts64), Some(Sizes64)),
        };
        match (first, second) {
            (None, _) => Self::new(&[Validity], data_type),
            (Some(first), None) => Self::new(&[Validity, first], data_type),
            (Some(first), Some(second)) => Self::new(&[Validity, first, second], data_type),
        }
    }

    fn new(kinds: &[BufferKind], data_type: &DataType) -> Self {
        let mut buffers = [BufferKind::Validity; 3];
        let mut buffer_count = 0;
        for (slot, kind) in buffers.iter_mut().zip(kinds) {
            *slot = *kind;
            buffer_count += 1;
        }
        let list_size = match data_type {
            DataType::FixedSizeList(_, size) => Some(u32::try_from(*size).unwrap_or(0)),
            _ => None,
        };
        let is_variadic = matches!(data_type, DataType::BinaryView | DataType::Utf8View);
        Self { buffers, buffer_count, is_variadic, child_count: data_type.child_count(), list_size }
    }

    /// The buffers that every array of this type has, in the order of the C struct.
    pub fn buffers(&self) -> &[BufferKind] {
        numbered(self.buffers.get(..usize::from(self.buffer_count)))
    }

    /// Whether the buffers are followed by any number of data buffers, and then by one more buffer
    /// with the size of each data buffer as an `int64`.
    ///
    /// That last buffer is host memory, wherever the others are.
    pub fn is_variadic(&self) -> bool {
        self.is_variadic
    }

    /// Whether the first buffer is a validity bitmap.
    pub fn has_validity(&self) -> bool {
        self.buffers().first() == Some(&BufferKind::Validity)
    }

    /// How many children an array of this type has.
    pub fn child_count(&self) -> usize {
        self.child_count
    }

    /// For a fixed-size list, how many elements of the child each of its elements takes.
    pub fn list_size(&self) -> Option<u32> {
        self.list_size
    }
}

impl BufferKind {
    /// Whether the buffer has one entry more than there are elements, as the offsets of texts and
    /// lists have. An array without elements has one such entry, and consumers read this entry.
    ///
    /// ```
    /// use arrow_device::BufferKind;
    ///
    /// assert!(BufferKind::Offsets32.has_one_more() && BufferKind::Offsets64.has_one_more());
    /// assert!(!BufferKind::Starts32.has_one_more());
    /// ```
    pub const fn has_one_more(self) -> bool {
        matches!(self, Self::Offsets32 | Self::Offsets64)
    }

    /// The smallest length in bytes of a buffer for this many elements, elements before the array's
    /// offset included.
    ///
    /// `None` where only the data tells. A length that does not fit is `u64::MAX`, which no buffer
    /// has.
    ///
    /// ```
    /// use arrow_device::BufferKind;
    ///
    /// assert_eq!(BufferKind::Bits.byte_len(9), Some(2));
    /// assert_eq!(BufferKind::Offsets32.byte_len(9), Some(40));
    /// assert_eq!(BufferKind::VariableBytes.byte_len(9), None);
    /// ```
    pub fn byte_len(self, elements: u64) -> Option<u64> {
        Some(match self {
            Self::Validity | Self::Bits => elements.div_ceil(8),
            Self::Fixed { width } => elements.saturating_mul(u64::from(width)),
            Self::Offsets32 => elements.saturating_add(1).saturating_mul(4),
            Self::Offsets64 => elements.saturating_add(1).saturating_mul(8),
            Self::Starts32 | Self::Sizes32 | Self::UnionOffsets => elements.saturating_mul(4),
            Self::Starts64 | Self::Sizes64 => elements.saturating_mul(8),
            Self::TypeIds => elements,
            Self::Views => elements.saturating_mul(16),
            Self::VariableBytes => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::examples;
    use super::BufferKind::*;
    use super::*;
    use crate::IndexType;

    /// The buffers of a format, as the table of the columnar specification has them.
    fn expected(format: &str) -> Vec<BufferKind> {
        let (letters, parameters) = format.split_once(':').unwrap_or((format, ""));
        let fixed = |width| vec![Validity, Fixed { width }];
        let bits = || parameters.split(',').nth(2).map_or(128, |bits| bits.parse::<u32>().unwrap());
        match letters {
            "n" | "+r" => vec![],
            "b" => vec![Validity, Bits],
            "c" | "C" => fixed(1),
            "s" | "S" | "e" => fixed(2),
            "i" | "I" | "f" | "tdD" | "tts" | "ttm" | "tiM" => fixed(4),
            "l" | "L" | "g" | "tdm" | "ttu" | "ttn" | "tiD" => fixed(8),
            "tss" | "tsm" | "tsu" | "tsn" | "tDs" | "tDm" | "tDu" | "tDn" => fixed(8),
            "tin" => fixed(16),
            "d" => fixed(bits() / 8),
            "w" => fixed(parameters.parse().unwrap()),
            "z" | "u" => vec![Validity, Offsets32, VariableBytes],
            "Z" | "U" => vec![Validity, Offsets64, VariableBytes],
            "vz" | "vu" => vec![Validity, Views],
            "+l" | "+m" => vec![Validity, Offsets32],
            "+L" => vec![Validity, Offsets64],
            "+vl" => vec![Validity, Starts32, Sizes32],
            "+vL" => vec![Validity, Starts64, Sizes64],
            "+w" | "+s" => vec![Validity],
            "+us" => vec![TypeIds],
            "+ud" => vec![TypeIds, UnionOffsets],
            _ => panic!("`{format}` is not in the table"),
        }
    }

    #[test]
    fn every_type_has_the_buffers_of_the_specification() {
        for example in examples() {
            let format = example.format;
            let layout = Layout::of(&example.data_type);
            let buffers = expected(format);
            assert_eq!(layout.buffers(), buffers, "{format}");
            assert_eq!(layout.has_validity(), buffers.contains(&Validity), "{format}");
            assert_eq!(layout.is_variadic(), buffers.contains(&Views), "{format}");
            assert_eq!(layout.child_count(), example.children.len(), "{format}");
            let list_size = format.strip_prefix("+w:").map(|size| size.parse().unwrap());
            assert_eq!(layout.list_size(), list_size, "{format}");
        }
    }

    #[test]
    fn a_dictionary_lies_as_its_indices_do() {
        let dictionary = DataType::dictionary(IndexType::UInt16, DataType::list(DataType::Utf8));
        assert_eq!(Layout::of(&dictionary), Layout::of(&DataType::UInt16));
    }

    #[test]
    fn the_fewest_bytes_of_a_buffer_are_known_from_its_elements() {
        for (kind, of_none, of_nine) in [
            (Validity, 0, 2),
            (Bits, 0, 2),
            (Fixed { width: 0 }, 0, 0),
            (Fixed { width: 3 }, 0, 27),
            (Offsets32, 4, 40),
            (Offsets64, 8, 80),
            (Starts32, 0, 36),
            (Starts64, 0, 72),
            (Sizes32, 0, 36),
            (Sizes64, 0, 72),
            (TypeIds, 0, 9),
            (UnionOffsets, 0, 36),
            (Views, 0, 144),
        ] {
            assert_eq!(kind.byte_len(0), Some(of_none), "{kind:?}");
            assert_eq!(kind.byte_len(9), Some(of_nine), "{kind:?}");
        }
        assert_eq!(VariableBytes.byte_len(0), None);
    }

    #[test]
    fn a_length_that_fits_nowhere_is_the_largest_number() {
        assert_eq!(Validity.byte_len(u64::MAX), Some(1 << 61));
        for kind in [Fixed { width: 2 }, Offsets32, Offsets64, Sizes32, Views] {
            assert_eq!(kind.byte_len(u64::MAX), Some(u64::MAX), "{kind:?}");
        }
    }
}
