//! Types that somebody asks for: `type=`.

use arrow_device::{DataType, IntervalUnit, Schema, TimeUnit};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::error::{OrRaise, invalid};
use crate::take;

/// The type that an object is, has or names.
pub(crate) fn named(object: &Bound<'_, PyAny>) -> PyResult<Schema> {
    let Ok(text) = object.cast::<PyString>() else {
        return take::schema(object).map_err(|error| {
            if !error.is_instance_of::<PyTypeError>(object.py()) {
                return error;
            }
            let of = object.get_type();
            PyTypeError::new_err(format!("`type` is a type or the name of one, and not {of}"))
        });
    };
    let text = text.to_cow()?;
    let found = simple().find(|each| each.to_string() == *text).or_else(|| alias(&text));
    let Some(found) = found else {
        return Err(invalid(format!(
            "no type without parameters is called {text:?}; pass a type of another library, such as pyarrow.list_(..), \
             or that of an array"
        )));
    };
    Schema::new(found).or_raise()
}

/// Other names that people use.
fn alias(text: &str) -> Option<DataType> {
    Some(match text {
        "bool" => DataType::Boolean,
        "string" => DataType::Utf8,
        "large_string" => DataType::LargeUtf8,
        "string_view" => DataType::Utf8View,
        "float" => DataType::Float32,
        "double" => DataType::Float64,
        _ => return None,
    })
}

/// All types that have no parameter but a unit.
fn simple() -> impl Iterator<Item = DataType> {
    use DataType as T;
    let units =
        [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
    let intervals = [IntervalUnit::YearMonth, IntervalUnit::DayTime, IntervalUnit::MonthDayNano];
    let plain = [
        T::Null,
        T::Boolean,
        T::Int8,
        T::Int16,
        T::Int32,
        T::Int64,
        T::UInt8,
        T::UInt16,
        T::UInt32,
        T::UInt64,
        T::Float16,
        T::Float32,
        T::Float64,
        T::Date32,
        T::Date64,
        T::Binary,
        T::LargeBinary,
        T::BinaryView,
        T::Utf8,
        T::LargeUtf8,
        T::Utf8View,
        T::Time32(TimeUnit::Second),
        T::Time32(TimeUnit::Millisecond),
        T::Time64(TimeUnit::Microsecond),
        T::Time64(TimeUnit::Nanosecond),
    ];
    let timed = units.into_iter().flat_map(|unit| [T::Timestamp(unit, None), T::Duration(unit)]);
    plain.into_iter().chain(timed).chain(intervals.map(T::Interval))
}
