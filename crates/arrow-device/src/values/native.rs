//! The Rust types that stand for elements of Arrow types.

use crate::{DataType, IntervalUnit};

/// A Rust type whose values lie in arrays of fixed width.
///
/// | Rust | Arrow |
/// |---|---|
/// | `i8`, `i16`, `u8`, `u32`, `u64`, `f32`, `f64` | the numbers of these names |
/// | `u16` | `uint16`, and the bits of a `float16` |
/// | `i32` | `int32`, `decimal32`, `date32`, `time32`, months |
/// | `i64` | `int64`, `decimal64`, `date64`, `time64`, `timestamp`, `duration` |
/// | `i128` | `decimal128` |
/// | `[u8; 32]` | `decimal256`: the bytes of its number as they lie in memory |
/// | `(i32, i32)` | days and milliseconds |
/// | `(i32, i32, i64)` | months, days and nanoseconds |
///
/// The trait is sealed.
pub trait Native: sealed::NativeElement {}

impl<T: sealed::NativeElement> Native for T {}

mod sealed {
    /// How a value is written to an array and read from it.
    pub trait NativeElement: Copy + 'static {
        /// The name of the type in Rust.
        const NAME: &'static str;
        /// The size of a value in an array, in bytes.
        const WIDTH: usize;
        /// Appends the bytes of the value.
        fn write(self, out: &mut Vec<u8>);
        /// Reads a value from the beginning of these bytes.
        fn read(bytes: &[u8]) -> Option<Self>;
    }
}

pub(super) use sealed::NativeElement;

macro_rules! number {
    ($($type:ident),*) => {$(
        impl NativeElement for $type {
            const NAME: &'static str = stringify!($type);
            const WIDTH: usize = size_of::<$type>();

            fn write(self, out: &mut Vec<u8>) {
                out.extend(self.to_ne_bytes());
            }

            fn read(bytes: &[u8]) -> Option<Self> {
                bytes.first_chunk().map(|bytes| Self::from_ne_bytes(*bytes))
            }
        }
    )*};
}
number!(i8, i16, i32, i64, i128, u8, u16, u32, u64, f32, f64);

impl NativeElement for [u8; 32] {
    const NAME: &'static str = "[u8; 32]";
    const WIDTH: usize = 32;

    fn write(self, out: &mut Vec<u8>) {
        out.extend(self);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().copied()
    }
}

impl NativeElement for (i32, i32) {
    const NAME: &'static str = "(i32, i32)";
    const WIDTH: usize = 8;

    fn write(self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Some((i32::read(bytes)?, i32::read(bytes.get(4..)?)?))
    }
}

impl NativeElement for (i32, i32, i64) {
    const NAME: &'static str = "(i32, i32, i64)";
    const WIDTH: usize = 16;

    fn write(self, out: &mut Vec<u8>) {
        (self.0, self.1).write(out);
        self.2.write(out);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (months, days) = NativeElement::read(bytes)?;
        Some((months, days, i64::read(bytes.get(8..)?)?))
    }
}

/// The name of the Rust type for this Arrow type. For a dictionary, this is the type of its keys.
pub(super) fn native_name(data_type: &DataType) -> Option<&'static str> {
    Some(match data_type {
        DataType::Int8 => i8::NAME,
        DataType::Int16 => i16::NAME,
        DataType::Int32
        | DataType::Decimal32 { .. }
        | DataType::Date32
        | DataType::Time32(_)
        | DataType::Interval(IntervalUnit::YearMonth) => i32::NAME,
        DataType::Int64
        | DataType::Decimal64 { .. }
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_) => i64::NAME,
        DataType::UInt8 => u8::NAME,
        DataType::UInt16 | DataType::Float16 => u16::NAME,
        DataType::UInt32 => u32::NAME,
        DataType::UInt64 => u64::NAME,
        DataType::Float32 => f32::NAME,
        DataType::Float64 => f64::NAME,
        DataType::Decimal128 { .. } => i128::NAME,
        DataType::Decimal256 { .. } => <[u8; 32]>::NAME,
        DataType::Interval(IntervalUnit::DayTime) => <(i32, i32)>::NAME,
        DataType::Interval(IntervalUnit::MonthDayNano) => <(i32, i32, i64)>::NAME,
        DataType::Dictionary { index, .. } => return native_name(index.data_type()),
        _ => return None,
    })
}
