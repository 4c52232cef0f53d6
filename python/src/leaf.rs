//! One Python value as what an array may hold: the first step from Python's values to arrays.

use std::fmt;

use arrow_device::{DataType, TimeUnit};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple,
};

use crate::pylist::{
    DATE, DATETIME, DECIMAL, EPOCH_ORDINAL, TIME, TIMEDELTA, class, epoch, interval,
};

/// What a value is. Times are in nanoseconds, so that all units have a place.
pub(crate) enum Leaf<'py> {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Bound<'py, PyString>),
    Bytes(Bound<'py, PyAny>),
    /// Since 1970; with a zone, in UTC.
    Moment {
        nanoseconds: i128,
        unit: TimeUnit,
        zone: Option<Bound<'py, PyAny>>,
    },
    /// Days since 1970.
    Date(i64),
    /// Of a day.
    Time(i64),
    Delta {
        nanoseconds: i128,
        unit: TimeUnit,
    },
    Decimal(Digits),
    Interval(i32, i32, i64),
    List(Bound<'py, PyAny>),
    Dict(Bound<'py, PyDict>),
}

/// A decimal number as Python takes it apart.
pub(crate) struct Digits {
    pub(crate) negative: bool,
    pub(crate) digits: Vec<u8>,
    pub(crate) exponent: i64,
}

/// What values of one array have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeafKind {
    Bool,
    Int,
    Float,
    Text,
    Bytes,
    Moment,
    ZonedMoment,
    Date,
    Time,
    Delta,
    Decimal,
    Interval,
    List,
    Dict,
}

impl fmt::Display for LeafKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Float => "float",
            Self::Text => "str",
            Self::Bytes => "bytes",
            Self::Moment => "datetime without a time zone",
            Self::ZonedMoment => "datetime with a time zone",
            Self::Date => "date",
            Self::Time => "time",
            Self::Delta => "timedelta",
            Self::Decimal => "Decimal",
            Self::Interval => "MonthDayNano",
            Self::List => "list",
            Self::Dict => "dict",
        })
    }
}

impl<'py> Leaf<'py> {
    /// `None` for a null, which fits everywhere.
    pub(crate) fn kind(&self) -> Option<LeafKind> {
        Some(match self {
            Self::Null => return None,
            Self::Bool(_) => LeafKind::Bool,
            Self::Int(_) => LeafKind::Int,
            Self::Float(_) => LeafKind::Float,
            Self::Text(_) => LeafKind::Text,
            Self::Bytes(_) => LeafKind::Bytes,
            Self::Moment { zone: None, .. } => LeafKind::Moment,
            Self::Moment { .. } => LeafKind::ZonedMoment,
            Self::Date(_) => LeafKind::Date,
            Self::Time(_) => LeafKind::Time,
            Self::Delta { .. } => LeafKind::Delta,
            Self::Decimal(_) => LeafKind::Decimal,
            Self::Interval(..) => LeafKind::Interval,
            Self::List(_) => LeafKind::List,
            Self::Dict(_) => LeafKind::Dict,
        })
    }

    /// What a value is, and for a scalar of numpy its type.
    pub(crate) fn of(value: &Bound<'py, PyAny>) -> PyResult<(Self, Option<DataType>)> {
        let py = value.py();
        if value.is_none() {
            return Ok((Self::Null, None));
        }
        if let Some(found) = Self::plain(value)? {
            // Python's own types come first; numpy's float64 is a float, too.
            let of_numpy =
                matches!(found, Self::Float(_)) && !value.is_exact_instance_of::<PyFloat>();
            return Ok((found, if of_numpy { scalar_type(value)? } else { None }));
        }
        if is_instance(value, class(py, &DATETIME, "datetime", "datetime")?)? {
            return Ok((Self::moment(value)?, None));
        }
        if is_instance(value, class(py, &DATE, "datetime", "date")?)? {
            let ordinal = value.call_method0("toordinal")?.extract::<i64>()?;
            return Ok((Self::Date(ordinal.saturating_sub(EPOCH_ORDINAL)), None));
        }
        if is_instance(value, class(py, &TIME, "datetime", "time")?)? {
            return Ok((Self::time(value)?, None));
        }
        if is_instance(value, class(py, &TIMEDELTA, "datetime", "timedelta")?)? {
            let nanoseconds = delta(value)?;
            return Ok((Self::Delta { nanoseconds, unit: TimeUnit::Microsecond }, None));
        }
        if is_instance(value, class(py, &DECIMAL, "decimal", "Decimal")?)? {
            return Ok((Self::decimal(value)?, None));
        }
        if let Some(found) = Self::of_numpy(value)? {
            return Ok(found);
        }
        let message = format!("a value of {} has no type that arrays have", value.get_type());
        Err(PyTypeError::new_err(message))
    }

    fn plain(value: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        if let Ok(bit) = value.cast::<PyBool>() {
            return Ok(Some(Self::Bool(bit.is_true())));
        }
        if value.is_instance_of::<PyInt>() {
            return integer(value).map(|number| Some(Self::Int(number)));
        }
        if let Ok(number) = value.cast::<PyFloat>() {
            return Ok(Some(Self::Float(number.value())));
        }
        if let Ok(text) = value.cast::<PyString>() {
            return Ok(Some(Self::Text(text.clone())));
        }
        if value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>() {
            return Ok(Some(Self::Bytes(value.clone())));
        }
        if value.is_exact_instance(interval(value.py())?) {
            let (months, days, nanoseconds) = value.extract::<(i32, i32, i64)>()?;
            return Ok(Some(Self::Interval(months, days, nanoseconds)));
        }
        if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
            return Ok(Some(Self::List(value.clone())));
        }
        Ok(value.cast::<PyDict>().ok().map(|pairs| Self::Dict(pairs.clone())))
    }

    fn moment(value: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = value.py();
        let unit = TimeUnit::Microsecond;
        let zone = value.getattr("tzinfo")?;
        let since = value.sub(epoch(py, !zone.is_none())?)?;
        let zone = (!zone.is_none()).then_some(zone);
        Ok(Self::Moment { nanoseconds: delta(&since)?, unit, zone })
    }

    fn time(value: &Bound<'py, PyAny>) -> PyResult<Self> {
        if !value.getattr("tzinfo")?.is_none() {
            return Err(PyTypeError::new_err("a time of a day with a time zone has no type"));
        }
        let part = |name: &str| value.getattr(name)?.extract::<i64>();
        let seconds = 3600 * part("hour")? + 60 * part("minute")? + part("second")?;
        Ok(Self::Time(1_000 * (1_000_000 * seconds + part("microsecond")?)))
    }

    fn decimal(value: &Bound<'py, PyAny>) -> PyResult<Self> {
        let parts = value.call_method0("as_tuple")?;
        let (sign, digits, exponent) = parts.extract::<(u8, Vec<u8>, Bound<'_, PyAny>)>()?;
        let Ok(exponent) = exponent.extract::<i64>() else {
            return Err(PyValueError::new_err(format!("{value} is no number of digits")));
        };
        Ok(Self::Decimal(Digits { negative: sign != 0, digits, exponent }))
    }

    /// A scalar of numpy that is no Python type's own.
    fn of_numpy(value: &Bound<'py, PyAny>) -> PyResult<Option<(Self, Option<DataType>)>> {
        let is_numpy = value.get_type().module().is_ok_and(|module| module == "numpy");
        if !is_numpy || !value.hasattr("dtype")? {
            return Ok(None);
        }
        let dtype = value.getattr("dtype")?;
        let kind = dtype.getattr("kind")?.extract::<String>()?;
        Ok(match kind.as_str() {
            "b" | "i" | "u" | "f" if value.getattr("ndim")?.extract::<usize>()? == 0 => {
                let item = value.call_method0("item")?;
                let of = scalar_type(value)?;
                Self::plain(&item)?.map(|leaf| (leaf, of))
            }
            "M" | "m" if value.getattr("ndim")?.extract::<usize>()? == 0 => {
                numpy_time(value, kind == "M")?.map(|leaf| (leaf, None))
            }
            _ if value.hasattr("tolist")? && value.getattr("ndim")?.extract::<usize>()? > 0 => {
                let list = value.call_method0("tolist")?;
                list.is_instance_of::<PyList>().then_some((Self::List(list), None))
            }
            _ => None,
        })
    }
}

fn is_instance(value: &Bound<'_, PyAny>, class: &Bound<'_, PyAny>) -> PyResult<bool> {
    value.is_instance(class)
}

/// An integer of any size that matters here.
pub(crate) fn integer(value: &Bound<'_, PyAny>) -> PyResult<i128> {
    if let Ok(number) = value.extract::<i64>() {
        return Ok(number.into());
    }
    value.extract::<i128>()
}

/// The nanoseconds of a `timedelta`.
fn delta(value: &Bound<'_, PyAny>) -> PyResult<i128> {
    let part = |name: &str| value.getattr(name)?.extract::<i64>();
    let seconds = 86_400 * i128::from(part("days")?) + i128::from(part("seconds")?);
    Ok(1_000 * (1_000_000 * seconds + i128::from(part("microseconds")?)))
}

/// The Arrow type of a number of numpy's.
fn scalar_type(value: &Bound<'_, PyAny>) -> PyResult<Option<DataType>> {
    let Some(dtype) = value.getattr_opt("dtype")? else { return Ok(None) };
    let (kind, size) = (dtype.getattr_opt("kind")?, dtype.getattr_opt("itemsize")?);
    let (Some(kind), Some(size)) = (kind, size) else { return Ok(None) };
    let (Ok(kind), Ok(size)) = (kind.cast::<PyString>(), size.cast::<PyInt>()) else {
        return Ok(None);
    };
    Ok(Some(match (kind.to_str()?, size.extract::<usize>()?) {
        ("i", 1) => DataType::Int8,
        ("i", 2) => DataType::Int16,
        ("i", 4) => DataType::Int32,
        ("i", 8) => DataType::Int64,
        ("u", 1) => DataType::UInt8,
        ("u", 2) => DataType::UInt16,
        ("u", 4) => DataType::UInt32,
        ("u", 8) => DataType::UInt64,
        ("f", 2) => DataType::Float16,
        ("f", 4) => DataType::Float32,
        ("f", 8) => DataType::Float64,
        _ => return Ok(None),
    }))
}

/// A `datetime64` or a `timedelta64`, of whatever unit.
fn numpy_time<'py>(value: &Bound<'py, PyAny>, is_moment: bool) -> PyResult<Option<Leaf<'py>>> {
    let dtype = value.getattr("dtype")?;
    let (name, step) = dtype_unit(&dtype)?;
    let count = value.call_method1("astype", ("int64",))?.call_method0("item")?.extract::<i64>()?;
    if count == i64::MIN {
        return Ok(Some(Leaf::Null));
    }
    if is_moment && step == 1 && name == "D" {
        return Ok(Some(Leaf::Date(count)));
    }
    let (count, unit) = match unit_named(&name).filter(|_| step == 1) {
        Some(unit) => (count, unit),
        None => {
            // Years and months by numpy's calendar.
            let kind = if is_moment { "datetime64[s]" } else { "timedelta64[s]" };
            let seconds =
                value.call_method1("astype", (kind,))?.call_method1("astype", ("int64",))?;
            (seconds.call_method0("item")?.extract::<i64>()?, TimeUnit::Second)
        }
    };
    let nanoseconds = i128::from(count) * i128::from(nanoseconds_of(unit));
    Ok(Some(if is_moment {
        Leaf::Moment { nanoseconds, unit, zone: None }
    } else {
        Leaf::Delta { nanoseconds, unit }
    }))
}

/// What a `datetime64` or a `timedelta64` of numpy counts, and how many of them.
pub(crate) fn dtype_unit(dtype: &Bound<'_, PyAny>) -> PyResult<(String, i64)> {
    let numpy = dtype.py().import("numpy")?;
    numpy.call_method1("datetime_data", (dtype,))?.extract()
}

pub(crate) fn unit_named(name: &str) -> Option<TimeUnit> {
    Some(match name {
        "s" => TimeUnit::Second,
        "ms" => TimeUnit::Millisecond,
        "us" => TimeUnit::Microsecond,
        "ns" => TimeUnit::Nanosecond,
        _ => return None,
    })
}

pub(crate) fn nanoseconds_of(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}
