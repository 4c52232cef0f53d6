//! Reads one element of any type.

use std::ops::Range;

use super::bytes::{text_of, with_element};
use super::concat::bytes_in;
use super::decimal::Decimal;
use super::lists::Lists;
use super::native::Native;
use super::rows::{Rows, past_the_end};
use super::value::Value;
use crate::{DataType, Error, ErrorKind, HostArray, IntervalUnit, Result};

/// The largest number of parts of a value.
const MOST_PARTS: usize = 1 << 20;
/// A value has at most so many bytes of texts, plus as many as the array has.
const FREE_BYTES: usize = 64 << 20;

impl HostArray {
    /// The value of one element of any type.
    ///
    /// Reads only what belongs to this element. An element that leads outside the buffers is
    /// [`InvalidData`](ErrorKind::InvalidData). A nested value of more than a million parts is
    /// [`LimitExceeded`](ErrorKind::LimitExceeded), since a few bytes can claim any number of
    /// nulls. So is a nested value with more bytes of texts than the array has, plus 64 MiB, since
    /// keys can name one text any number of times.
    ///
    /// ```
    /// # use arrow_device::{Array, DataType};
    /// let prices = DataType::Decimal128 { precision: 9, scale: 2 };
    /// let prices = Array::from_values(prices, [Some(-5_i128), None])?;
    /// assert_eq!(prices.host()?.value(0)?.to_string(), "-0.05");
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn value(&self, index: usize) -> Result<Value> {
        self.value_within(index, &mut PartBudget::new(self, MOST_PARTS, true))
    }

    /// The beginning of an element: at least its first `parts` parts, to show the element in little
    /// room. Parts are the items of lists, the entries of maps, the fields of structs, and the
    /// characters or bytes of texts. At most a million parts are read, or 1,048,576, however many
    /// are asked for.
    ///
    /// ```
    /// # use arrow_device::{Array, DataType};
    /// let numbers = Array::from_values(DataType::Int32, [Some(7)])?;
    /// assert_eq!(numbers.host()?.preview(0, 10)?.to_string(), "7");
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn preview(&self, index: usize, parts: usize) -> Result<Value> {
        self.value_within(index, &mut PartBudget::new(self, parts.min(MOST_PARTS), false))
    }

    fn value_within(&self, index: usize, parts: &mut PartBudget<'_>) -> Result<Value> {
        let Some((values, number)) = self.follow(index)? else { return Ok(Value::Null) };
        match self.data_type() {
            DataType::Dictionary { .. } | DataType::RunEndEncoded { .. } => {
                values.value_within(number, parts)
            }
            DataType::Union { .. } => {
                let field = values.array().field().name_text().clone();
                let value = Box::new(values.value_within(number, parts)?);
                Ok(Value::Union { field, value })
            }
            DataType::Struct(_) => self.fields(index, parts).map(Value::Struct),
            DataType::Map { .. } => {
                let lists = Lists::of(self)?;
                let entries = lists.at(self, index)?.unwrap_or(0..0);
                pairs(lists.items(), entries, parts).map(Value::Map)
            }
            DataType::List(_)
            | DataType::LargeList(_)
            | DataType::ListView(_)
            | DataType::LargeListView(_)
            | DataType::FixedSizeList(..) => {
                let lists = Lists::of(self)?;
                let range = lists.at(self, index)?.unwrap_or(0..0);
                let mut list = Vec::new();
                for number in range {
                    if !parts.take(self)? {
                        break;
                    }
                    list.push(lists.items().value_within(number, parts)?);
                }
                Ok(Value::List(list))
            }
            of if (of.is_text() || has_bytes(of)) && !parts.is_strict => {
                self.beginning(index, parts)
            }
            _ => {
                let leaf = self.leaf(index)?;
                match &leaf {
                    Value::Text(text) => parts.take_bytes(text.len())?,
                    Value::Bytes(bytes) => parts.take_bytes(bytes.len())?,
                    _ => {}
                }
                Ok(leaf)
            }
        }
    }

    fn fields(
        &self,
        index: usize,
        parts: &mut PartBudget<'_>,
    ) -> Result<Vec<(crate::Text, Value)>> {
        let mut fields = Vec::new();
        for number in 0..self.array().child_count() {
            if !parts.take(self)? {
                break;
            }
            let child = self.node_child(number)?;
            let value = child.value_within(self.array().offset() + index, parts)?;
            fields.push((child.array().field().name_text().clone(), value));
        }
        Ok(fields)
    }

    /// The beginning of a text, or of bytes: as many characters, or bytes, as there may be parts.
    /// Something is shown of each text for which there was a part.
    fn beginning(&self, index: usize, parts: &mut PartBudget<'_>) -> Result<Value> {
        with_element(self, index, |bytes| {
            let Some(bytes) = bytes else { return Ok(Value::Null) };
            let most = parts.left.max(1);
            if !self.data_type().is_text() {
                let first = bytes.get(..most).unwrap_or(bytes);
                parts.left = parts.left.saturating_sub(first.len());
                return Ok(Value::Bytes(first.to_owned()));
            }
            // A character takes at most four bytes.
            let first = bytes.get(..4 * most).unwrap_or(bytes);
            let text = match str::from_utf8(first) {
                // The last character continues behind the bytes that are read.
                Err(error) if error.error_len().is_none() && first.len() < bytes.len() => {
                    first.get(..error.valid_up_to()).unwrap_or_default()
                }
                _ => first,
            };
            let text = text_of(self, index, text)?;
            let end = text.char_indices().nth(most).map_or(text.len(), |(end, _)| end);
            let text = text.get(..end).unwrap_or(text);
            parts.left = parts.left.saturating_sub(text.chars().count());
            Ok(Value::Text(text.to_owned()))
        })
    }

    /// The value of an element of a type without children.
    pub(super) fn leaf(&self, index: usize) -> Result<Value> {
        if index >= self.len() {
            return Err(past_the_end(self, index));
        }
        Ok(match self.data_type() {
            DataType::Boolean => or_null(self.bools()?.get(index), Value::Boolean),
            DataType::Int8 => self.number(index, |value: i8| Value::Int(value.into()))?,
            DataType::Int16 => self.number(index, |value: i16| Value::Int(value.into()))?,
            DataType::Int32 => self.number(index, |value: i32| Value::Int(value.into()))?,
            DataType::Int64 => self.number(index, Value::Int)?,
            DataType::UInt8 => self.number(index, |value: u8| Value::UInt(value.into()))?,
            DataType::UInt16 => self.number(index, |value: u16| Value::UInt(value.into()))?,
            DataType::UInt32 => self.number(index, |value: u32| Value::UInt(value.into()))?,
            DataType::UInt64 => self.number(index, Value::UInt)?,
            DataType::Float16 => self.number(index, |bits| Value::Float16(from_half(bits)))?,
            DataType::Float32 => self.number(index, Value::Float32)?,
            DataType::Float64 => self.number(index, Value::Float64)?,
            DataType::Decimal32 { scale, .. } => {
                self.number(index, |value: i32| Value::Decimal(Decimal::new(value.into(), *scale)))?
            }
            DataType::Decimal64 { scale, .. } => {
                self.number(index, |value: i64| Value::Decimal(Decimal::new(value.into(), *scale)))?
            }
            DataType::Decimal128 { scale, .. } => {
                self.number(index, |value| Value::Decimal(Decimal::new(value, *scale)))?
            }
            DataType::Decimal256 { scale, .. } => {
                self.number(index, |bytes| Value::Decimal(Decimal::from_bytes(bytes, *scale)))?
            }
            DataType::Date32 => self.number(index, |days: i32| Value::Date(days.into()))?,
            DataType::Date64 => self.number(index, Value::DateMilliseconds)?,
            DataType::Time32(unit) => {
                self.number(index, |count: i32| Value::Time(count.into(), *unit))?
            }
            DataType::Time64(unit) => self.number(index, |count| Value::Time(count, *unit))?,
            DataType::Timestamp(unit, zone) => {
                self.number(index, |count| Value::Timestamp(count, *unit, zone.clone()))?
            }
            DataType::Duration(unit) => {
                self.number(index, |count| Value::Duration(count, *unit))?
            }
            DataType::Interval(IntervalUnit::YearMonth) => {
                self.number(index, |months| Value::Interval { months, days: 0, nanoseconds: 0 })?
            }
            DataType::Interval(IntervalUnit::DayTime) => {
                self.number(index, |(days, milliseconds): (i32, i32)| {
                    let nanoseconds = i64::from(milliseconds) * 1_000_000;
                    Value::Interval { months: 0, days, nanoseconds }
                })?
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                self.number(index, |(months, days, nanoseconds)| Value::Interval {
                    months,
                    days,
                    nanoseconds,
                })?
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                with_element(self, index, |bytes| match bytes {
                    Some(bytes) => Ok(Value::Text(text_of(self, index, bytes)?.to_owned())),
                    None => Ok(Value::Null),
                })?
            }
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => with_element(self, index, |bytes| {
                Ok(or_null(bytes, |bytes| Value::Bytes(bytes.to_owned())))
            })?,
            _ => Value::Null,
        })
    }

    fn number<T: Native>(&self, index: usize, value: impl FnOnce(T) -> Value) -> Result<Value> {
        Ok(or_null(self.values::<T>()?.get(index), value))
    }
}

/// Whether the elements are bytes, of one length or of any.
fn has_bytes(of: &DataType) -> bool {
    of.is_binary() || matches!(of, DataType::FixedSizeBinary(_))
}

fn or_null<T>(element: Option<T>, value: impl FnOnce(T) -> Value) -> Value {
    element.map_or(Value::Null, value)
}

/// The keys and values of these entries of a map.
fn pairs(
    entries: &HostArray,
    range: Range<usize>,
    parts: &mut PartBudget<'_>,
) -> Result<Vec<(Value, Value)>> {
    let (keys, values) = (entries.node_child(0)?, entries.node_child(1)?);
    let rows = Rows::of(entries)?;
    let mut pairs = Vec::new();
    for number in range {
        if !parts.take(entries)? {
            break;
        }
        if !rows.is_present(number) {
            return Err(entries.invalid(format!("entry {number} is null, and none may be")));
        }
        let number = rows.offset + number;
        pairs.push((keys.value_within(number, parts)?, values.value_within(number, parts)?));
    }
    Ok(pairs)
}

/// How many more parts a value may have.
struct PartBudget<'array> {
    left: usize,
    /// Whether a part beyond the budget is an error. Otherwise it is left out.
    is_strict: bool,
    bytes_left: usize,
    /// The array of the value. Its bytes are counted once the value has many bytes.
    uncounted: Option<&'array HostArray>,
}

impl<'array> PartBudget<'array> {
    fn new(of: &'array HostArray, left: usize, is_strict: bool) -> Self {
        Self { left, is_strict, bytes_left: FREE_BYTES, uncounted: Some(of) }
    }

    fn take_bytes(&mut self, len: usize) -> Result<()> {
        if len > self.bytes_left
            && let Some(array) = self.uncounted.take()
        {
            self.bytes_left = self.bytes_left.saturating_add(bytes_in(array)?);
        }
        let left = self.bytes_left.checked_sub(len);
        self.bytes_left = left.ok_or_else(|| {
            let message =
                "a value has more bytes of text than can be read in one piece; read its parts";
            Error::new(ErrorKind::LimitExceeded, message).during("read")
        })?;
        Ok(())
    }

    fn take(&mut self, host: &HostArray) -> Result<bool> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(true)
            }
            None if self.is_strict => {
                let place = host.array().tree().schema.place(host.array().node_number());
                let message =
                    format!("a value has more than {MOST_PARTS} parts; read them one by one");
                Err(Error::new(ErrorKind::LimitExceeded, message).during("read").at(place))
            }
            None => Ok(false),
        }
    }
}

/// The number with these bits of a `float16`.
fn from_half(bits: u16) -> f32 {
    let bits = u32::from(bits);
    let (sign, exponent, fraction) = (bits >> 15, bits >> 10 & 0x1f, bits & 0x3ff);
    let magnitude = match (exponent, fraction) {
        // Zero, and numbers that are too small for an exponent: a multiple of 2^-24.
        (0, _) => (fraction as f32 / 16_777_216.0).to_bits(),
        (0x1f, _) => 0x7f80_0000 | fraction << 13,
        _ => (exponent + 112) << 23 | fraction << 13,
    };
    f32::from_bits(sign << 31 | magnitude)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_floats_are_the_numbers_that_the_standard_says() {
        for (bits, number) in [
            (0x0000, 0.0_f32),
            (0x8000, -0.0),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x0400, 6.103_515_6e-5),
            (0x3c00, 1.0),
            (0x3555, 0.333_251_95),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x7c00, f32::INFINITY),
            (0xfc00, f32::NEG_INFINITY),
        ] {
            assert_eq!(from_half(bits).to_bits(), number.to_bits(), "{bits:#06x}");
        }
        assert!(from_half(0x7e00).is_nan());
    }
}
