//! [`Value`]: one element of any type.

use super::Decimal;
use crate::{Text, TimeUnit};

/// One element of an array of any type, as a value of its own.
///
/// What is dictionary-encoded or run-end encoded is the value itself. It prints as people read it:
/// `2024-02-29`, `12.50`, `[1, null]`, `{x: 1}`.
///
/// Two floats are equal where their bits are, so that a value always equals a copy of itself.
///
/// ```
/// use arrow_device::{Array, DataType, Value};
///
/// let numbers = Array::from_values(DataType::UInt16, [Some(7_u16), None])?;
/// assert_eq!(numbers.host()?.value(0)?, Value::UInt(7));
/// assert_eq!(numbers.host()?.value(1)?.to_string(), "null");
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value {
    /// No value.
    Null,
    /// True or false.
    Boolean(bool),
    /// A signed integer of any width.
    Int(i64),
    /// An unsigned integer of any width.
    UInt(u64),
    /// A floating point number of 16 bits, as the 32-bit number that is the same.
    Float16(f32),
    /// A floating point number of 32 bits.
    Float32(f32),
    /// A floating point number of 64 bits.
    Float64(f64),
    /// A decimal number of any width.
    Decimal(Decimal),
    /// Days since 1970-01-01.
    Date(i64),
    /// Milliseconds since 1970-01-01, which a `date64` counts.
    DateMilliseconds(i64),
    /// The time of a day.
    Time(i64, TimeUnit),
    /// A point in time since 1970-01-01; in UTC where there is a time zone.
    Timestamp(i64, TimeUnit, Option<Text>),
    /// A length of time.
    Duration(i64, TimeUnit),
    /// A length of time by the calendar.
    Interval {
        /// Months.
        months: i32,
        /// Days.
        days: i32,
        /// The rest.
        nanoseconds: i64,
    },
    /// Bytes.
    Bytes(Vec<u8>),
    /// Text.
    Text(String),
    /// The elements of a list.
    List(Vec<Value>),
    /// The names and values of fields.
    Struct(Vec<(Text, Value)>),
    /// Keys and values.
    Map(Vec<(Value, Value)>),
    /// A value of one of several fields.
    Union {
        /// The name of the field.
        field: Text,
        /// The value.
        value: Box<Value>,
    },
}

impl Value {
    /// Whether there is no value. A union whose value is null is null.
    pub fn is_null(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Union { value, .. } => value.is_null(),
            _ => false,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Boolean(one), Self::Boolean(other)) => one == other,
            (Self::Int(one), Self::Int(other)) => one == other,
            (Self::UInt(one), Self::UInt(other)) => one == other,
            (Self::Float16(one), Self::Float16(other))
            | (Self::Float32(one), Self::Float32(other)) => one.to_bits() == other.to_bits(),
            (Self::Float64(one), Self::Float64(other)) => one.to_bits() == other.to_bits(),
            (Self::Decimal(one), Self::Decimal(other)) => one == other,
            (Self::Date(one), Self::Date(other))
            | (Self::DateMilliseconds(one), Self::DateMilliseconds(other)) => one == other,
            (Self::Time(one, unit), Self::Time(other, others_unit))
            | (Self::Duration(one, unit), Self::Duration(other, others_unit)) => {
                (one, unit) == (other, others_unit)
            }
            (
                Self::Timestamp(one, unit, zone),
                Self::Timestamp(other, others_unit, others_zone),
            ) => (one, unit, zone) == (other, others_unit, others_zone),
            (
                Self::Interval { months, days, nanoseconds },
                Self::Interval { months: m, days: d, nanoseconds: n },
            ) => (months, days, nanoseconds) == (m, d, n),
            (Self::Bytes(one), Self::Bytes(other)) => one == other,
            (Self::Text(one), Self::Text(other)) => one == other,
            (Self::List(one), Self::List(other)) => one == other,
            (Self::Struct(one), Self::Struct(other)) => one == other,
            (Self::Map(one), Self::Map(other)) => one == other,
            (Self::Union { field, value }, Self::Union { field: others, value: other }) => {
                field == others && value == other
            }
            _ => false,
        }
    }
}

impl Eq for Value {}
