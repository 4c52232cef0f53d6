//! [`Value`]: one element of any type.

use super::Decimal;
use crate::{Text, TimeUnit};

/// One element of an array of any type, as a value of its own.
///
/// For dictionary-encoded and run-end encoded arrays this is the value itself, and not its key or
/// run. A value is printed for people: `2024-02-29`, `12.50`, `[1, null]`, `{x: 1}`. The names of
/// fields are printed for each struct, however long they are.
///
/// Two floats are equal if their bits are, so a value always equals a copy of itself.
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
    /// The null value.
    Null,
    /// A boolean.
    Boolean(bool),
    /// A signed integer of any width.
    Int(i64),
    /// An unsigned integer of any width.
    UInt(u64),
    /// A floating-point number of 16 bits, as a number of 32 bits with the same value.
    Float16(f32),
    /// A floating-point number of 32 bits.
    Float32(f32),
    /// A floating-point number of 64 bits.
    Float64(f64),
    /// A decimal number of any width.
    Decimal(Decimal),
    /// A date: days since 1970-01-01.
    Date(i64),
    /// A date of a `date64`: milliseconds since 1970-01-01.
    DateMilliseconds(i64),
    /// The time of a day.
    Time(i64, TimeUnit),
    /// A point in time since 1970-01-01. With a time zone it counts in UTC.
    Timestamp(i64, TimeUnit, Option<Text>),
    /// A length of time.
    Duration(i64, TimeUnit),
    /// A length of time by the calendar.
    Interval {
        /// The number of months.
        months: i32,
        /// The number of days.
        days: i32,
        /// The number of nanoseconds.
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
    /// The keys and values of a map.
    Map(Vec<(Value, Value)>),
    /// A value of a union, which is of one of several fields.
    Union {
        /// The name of the field.
        field: Text,
        /// The value.
        value: Box<Value>,
    },
}

impl Value {
    /// Whether the value is null. A union is null if its value is.
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
