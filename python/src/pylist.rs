//! Elements as Python objects: `to_pylist`, iteration, `array[i]`.
//!
//! A column is converted as a whole, and a nested one part by part, so that what is null is never
//! looked at. The depth of a type is bounded by the library, and with it the recursion.

use std::collections::{HashMap, HashSet, VecDeque};

use arrow_device::{Array, DataType, HostArray, IntervalUnit, Native, TimeUnit, Value};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyMemoryError, PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyList, PyString, PyTuple, PyType};

use crate::attach::LastField;
use crate::error::{OrRaise, invalid};
use crate::interrupt;

type Objects<'py> = Vec<Bound<'py, PyAny>>;

/// So many elements are converted between two looks for Ctrl-C.
const PART: usize = 4096;

/// All elements of an array in host memory.
pub(crate) fn list<'py>(py: Python<'py>, array: &Array) -> PyResult<Bound<'py, PyList>> {
    interrupt::wait(py, array)?;
    let host = py.detach(|| array.host()).or_raise()?;
    let mut all = reserved(host.len())?;
    for start in (0..host.len()).step_by(PART) {
        let part = host.slice(start, PART.min(host.len() - start)).or_raise()?;
        all.append(&mut objects(py, &part)?);
    }
    PyList::new(py, all)
}

/// One element of an array in host memory.
pub(crate) fn element<'py>(
    py: Python<'py>,
    array: &Array,
    index: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let one = array.slice(index, 1).or_raise()?;
    interrupt::wait(py, &one)?;
    let host = py.detach(|| one.host()).or_raise()?;
    let found = objects(py, &host)?.pop();
    found.ok_or_else(|| invalid(format!("there is no element {index}")))
}

/// The elements of an array, one after the other.
#[pyclass(module = "arrow_device", name = "_Elements")]
#[derive(Debug)]
pub(crate) struct PyElements {
    array: Array,
    next: usize,
    ready: VecDeque<Py<PyAny>>,
    _last: LastField,
}

impl PyElements {
    pub(crate) fn new(array: Array) -> Self {
        Self { array, next: 0, ready: VecDeque::new(), _last: LastField }
    }
}

#[pymethods]
impl PyElements {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __length_hint__(&self) -> usize {
        self.ready.len() + (self.array.len() - self.next)
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if self.ready.is_empty() && self.next < self.array.len() {
            let length = PART.min(self.array.len() - self.next);
            let part = self.array.slice(self.next, length).or_raise()?;
            interrupt::wait(py, &part)?;
            let host = py.detach(|| part.host()).or_raise()?;
            self.ready.extend(objects(py, &host)?.into_iter().map(Bound::unbind));
            self.next += length;
        }
        Ok(self.ready.pop_front())
    }
}

fn reserved<T>(count: usize) -> PyResult<Vec<T>> {
    let mut all = Vec::new();
    let failed = |_| PyMemoryError::new_err(format!("no memory for {count} objects"));
    all.try_reserve_exact(count).map_err(failed)?;
    Ok(all)
}

fn objects<'py>(py: Python<'py>, host: &HostArray) -> PyResult<Objects<'py>> {
    py.check_signals()?;
    let mut all = reserved(host.len())?;
    match host.data_type() {
        DataType::Null => all.resize(host.len(), none(py)),
        DataType::Boolean => {
            let of = |bit| PyBool::new(py, bit).to_owned().into_any();
            let bits = host.bools().or_raise()?;
            all.extend(bits.iter().map(|bit| bit.map_or_else(|| none(py), of)));
        }
        DataType::Int8 => numbers::<i8>(py, host, &mut all)?,
        DataType::Int16 => numbers::<i16>(py, host, &mut all)?,
        DataType::Int32 => numbers::<i32>(py, host, &mut all)?,
        DataType::Int64 => numbers::<i64>(py, host, &mut all)?,
        DataType::UInt8 => numbers::<u8>(py, host, &mut all)?,
        DataType::UInt16 => numbers::<u16>(py, host, &mut all)?,
        DataType::UInt32 => numbers::<u32>(py, host, &mut all)?,
        DataType::UInt64 => numbers::<u64>(py, host, &mut all)?,
        DataType::Float32 => numbers::<f32>(py, host, &mut all)?,
        DataType::Float64 => numbers::<f64>(py, host, &mut all)?,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            for text in host.texts().or_raise()?.iter() {
                all.push(match text {
                    Some(text) => PyString::from_bytes(py, text.as_bytes())?.into_any(),
                    None => none(py),
                });
            }
        }
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => {
            for bytes in host.bytes().or_raise()?.iter() {
                all.push(match bytes {
                    Some(bytes) => {
                        let fill = |to: &mut [u8]| {
                            to.copy_from_slice(bytes);
                            Ok(())
                        };
                        PyBytes::new_with(py, bytes.len(), fill)?.into_any()
                    }
                    None => none(py),
                });
            }
        }
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::FixedSizeList(..) => {
            let lists = host.lists().or_raise()?;
            for index in 0..lists.len() {
                all.push(match lists.get(index).or_raise()? {
                    Some(items) => PyList::new(py, objects(py, &items)?)?.into_any(),
                    None => none(py),
                });
            }
        }
        DataType::Map { .. } => maps(py, host, &mut all)?,
        DataType::Struct(_) => structs(py, host, &mut all)?,
        DataType::Union { .. } | DataType::Dictionary { .. } | DataType::RunEndEncoded { .. } => {
            followed(py, host, &mut all)?;
        }
        DataType::Timestamp(_, zone) => {
            let zone = zone.as_ref().map(|zone| time_zone(py, zone.as_str())).transpose()?;
            for index in 0..host.len() {
                all.push(match host.value(index).or_raise()? {
                    Value::Timestamp(count, unit, _) => moment(py, count, unit, zone.as_ref())?,
                    _ => none(py),
                });
            }
        }
        _ => {
            for index in 0..host.len() {
                all.push(leaf(py, &host.value(index).or_raise()?)?);
            }
        }
    }
    Ok(all)
}

fn none(py: Python<'_>) -> Bound<'_, PyAny> {
    py.None().into_bound(py)
}

fn numbers<'py, T>(py: Python<'py>, host: &HostArray, all: &mut Objects<'py>) -> PyResult<()>
where
    T: Native + IntoPyObject<'py>,
{
    for number in host.values::<T>().or_raise()?.iter() {
        all.push(match number {
            Some(number) => number.into_bound_py_any(py)?,
            None => none(py),
        });
    }
    Ok(())
}

/// A map is a list of pairs, as it may have a key twice.
fn maps<'py>(py: Python<'py>, host: &HostArray, all: &mut Objects<'py>) -> PyResult<()> {
    let lists = host.lists().or_raise()?;
    for index in 0..lists.len() {
        let Some(entries) = lists.get(index).or_raise()? else {
            all.push(none(py));
            continue;
        };
        for number in 0..entries.len() {
            if entries.is_null(number).or_raise()? {
                return Err(invalid(format!("entry {number} of a map is null, and none may be")));
            }
        }
        let keys = objects(py, &child(&entries, 0, 0, entries.len())?)?;
        let values = objects(py, &child(&entries, 1, 0, entries.len())?)?;
        let pairs = keys.into_iter().zip(values).map(|pair| pair.into_pyobject(py));
        all.push(PyList::new(py, pairs.collect::<PyResult<Vec<_>>>()?)?.into_any());
    }
    Ok(())
}

/// The elements of a child that belong to these elements of a struct.
fn child(host: &HostArray, number: usize, start: usize, length: usize) -> PyResult<HostArray> {
    let child = host.child(number).or_raise()?;
    child.slice(host.array().offset().saturating_add(start), length).or_raise()
}

fn structs<'py>(py: Python<'py>, host: &HostArray, all: &mut Objects<'py>) -> PyResult<()> {
    let fields = host.data_type().children();
    let mut known = HashSet::new();
    if let Some(twice) = fields.clone().find(|field| !known.insert(field.name())) {
        return Err(invalid(format!(
            "two fields are called {:?}, and a dictionary has each key once; read the columns one by one",
            twice.name()
        )));
    }
    let names: Vec<_> = fields.map(|field| PyString::intern(py, field.name())).collect();
    let mut start = 0;
    while start < host.len() {
        if host.is_null(start).or_raise()? {
            all.push(none(py));
            start += 1;
            continue;
        }
        let mut end = start + 1;
        while end < host.len() && !host.is_null(end).or_raise()? {
            end += 1;
        }
        let first = all.len();
        for _ in start..end {
            all.push(PyDict::new(py).into_any());
        }
        for (number, name) in names.iter().enumerate() {
            let column = objects(py, &child(host, number, start, end - start)?)?;
            for (row, value) in all.iter().skip(first).zip(column) {
                row.cast::<PyDict>()?.set_item(name, value)?;
            }
        }
        start = end;
    }
    Ok(())
}

/// Elements that lie elsewhere. One that many share is made once, where nobody can change it.
fn followed<'py>(py: Python<'py>, host: &HostArray, all: &mut Objects<'py>) -> PyResult<()> {
    let shared = match host.data_type() {
        DataType::Dictionary { values, .. } | DataType::RunEndEncoded { values, .. } => {
            !values.data_type().is_nested()
        }
        _ => false,
    };
    let mut made: HashMap<usize, Bound<'py, PyAny>> = HashMap::new();
    for index in 0..host.len() {
        let Some((values, number)) = host.follow(index).or_raise()? else {
            all.push(none(py));
            continue;
        };
        if let Some(known) = made.get(&number) {
            all.push(known.clone());
            continue;
        }
        let one = values.slice(number, 1).or_raise()?;
        let Some(object) = objects(py, &one)?.pop() else { continue };
        if shared {
            made.insert(number, object.clone());
        }
        all.push(object);
    }
    Ok(())
}

/// A class of a module of Python's, imported when it is first needed.
pub(crate) fn class<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyType>>,
    module: &str,
    name: &str,
) -> PyResult<&'py Bound<'py, PyType>> {
    cell.import(py, module, name)
}

pub(crate) static DATE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
pub(crate) static DATETIME: PyOnceLock<Py<PyType>> = PyOnceLock::new();
pub(crate) static TIME: PyOnceLock<Py<PyType>> = PyOnceLock::new();
pub(crate) static TIMEDELTA: PyOnceLock<Py<PyType>> = PyOnceLock::new();
pub(crate) static TIMEZONE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
pub(crate) static DECIMAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
pub(crate) static INTERVAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static ZONE_INFO: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Days from 0001-01-01, which is day 1 of Python's, to 1970-01-01.
pub(crate) const EPOCH_ORDINAL: i64 = 719_163;

const MILLISECONDS_OF_A_DAY: i64 = 86_400_000;
const MICROSECONDS_OF_A_DAY: i64 = 86_400_000_000;

fn leaf<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Float16(number) => PyFloat::new(py, f64::from(*number)).into_any(),
        Value::Decimal(number) => {
            class(py, &DECIMAL, "decimal", "Decimal")?.call1((number.to_string(),))?
        }
        Value::Date(days) => date(py, *days)?,
        Value::DateMilliseconds(count) => date(py, count.div_euclid(MILLISECONDS_OF_A_DAY))?,
        Value::Time(count, unit) => time(py, *count, *unit)?,
        Value::Duration(count, unit) => {
            let (days, rest) = split(*count, *unit)?;
            let made = class(py, &TIMEDELTA, "datetime", "timedelta")?.call1((days, 0, rest));
            in_range(py, made, || format!("{count} {}", name(*unit)))?
        }
        Value::Interval { months, days, nanoseconds } => {
            interval(py)?.call1((*months, *days, *nanoseconds))?
        }
        _ => none(py),
    })
}

/// The class of intervals.
pub(crate) fn interval(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    class(py, &INTERVAL, "arrow_device._values", "MonthDayNano")
}

/// The same exception for all that is beyond what Python's types hold.
fn in_range<'py>(
    py: Python<'py>,
    made: PyResult<Bound<'py, PyAny>>,
    what: impl FnOnce() -> String,
) -> PyResult<Bound<'py, PyAny>> {
    made.map_err(|error| {
        let is_range =
            error.is_instance_of::<PyOverflowError>(py) || error.is_instance_of::<PyValueError>(py);
        if !is_range {
            return error;
        }
        invalid(format!("{} is beyond what Python's datetime holds", what()))
    })
}

fn date(py: Python<'_>, days: i64) -> PyResult<Bound<'_, PyAny>> {
    let ordinal = days.saturating_add(EPOCH_ORDINAL);
    let made = class(py, &DATE, "datetime", "date")?.call_method1("fromordinal", (ordinal,));
    in_range(py, made, || format!("the date {days} days after 1970"))
}

fn time(py: Python<'_>, count: i64, unit: TimeUnit) -> PyResult<Bound<'_, PyAny>> {
    let (days, rest) = split(count, unit)?;
    if days != 0 {
        return Err(invalid(format!("{count} {} is no time of a day", name(unit))));
    }
    let (seconds, part) = (rest / 1_000_000, rest % 1_000_000);
    let parts = (seconds / 3600, seconds / 60 % 60, seconds % 60, part);
    class(py, &TIME, "datetime", "time")?.call1(parts)
}

/// A point in time, in a time zone where there is one.
fn moment<'py>(
    py: Python<'py>,
    count: i64,
    unit: TimeUnit,
    zone: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (days, rest) = split(count, unit)?;
    let what = || format!("{count} {} after 1970", name(unit));
    let after = class(py, &TIMEDELTA, "datetime", "timedelta")?.call1((days, 0, rest));
    let after = in_range(py, after, what)?;
    let moment = in_range(py, epoch(py, zone.is_some())?.add(after), what)?;
    match zone {
        Some(zone) => in_range(py, moment.call_method1("astimezone", (zone,)), what),
        None => Ok(moment),
    }
}

/// 1970-01-01, in UTC or in no time zone.
pub(crate) fn epoch(py: Python<'_>, aware: bool) -> PyResult<Bound<'_, PyAny>> {
    let datetime = class(py, &DATETIME, "datetime", "datetime")?;
    if !aware {
        return datetime.call1((1970, 1, 1));
    }
    datetime.call1((1970, 1, 1, 0, 0, 0, 0, utc(py)?))
}

fn utc(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    class(py, &TIMEZONE, "datetime", "timezone")?.getattr("utc")
}

/// Whole days, and the microseconds of the last one. Python's types hold no less than those.
fn split(count: i64, unit: TimeUnit) -> PyResult<(i64, i64)> {
    let of_a_day = match unit {
        TimeUnit::Second => 86_400,
        TimeUnit::Millisecond => MILLISECONDS_OF_A_DAY,
        TimeUnit::Microsecond => MICROSECONDS_OF_A_DAY,
        TimeUnit::Nanosecond => 1_000 * MICROSECONDS_OF_A_DAY,
    };
    let (days, rest) = (count.div_euclid(of_a_day), count.rem_euclid(of_a_day));
    let rest = match unit {
        TimeUnit::Second => rest * 1_000_000,
        TimeUnit::Millisecond => rest * 1_000,
        TimeUnit::Microsecond => rest,
        TimeUnit::Nanosecond if rest % 1_000 == 0 => rest / 1_000,
        TimeUnit::Nanosecond => {
            return Err(invalid(format!(
                "{count} ns is no whole number of microseconds, and Python's datetime holds no less; \
                 numpy.asarray(array) and to_tensor(as_integers=True) keep nanoseconds"
            )));
        }
    };
    Ok((days, rest))
}

pub(crate) fn name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

/// A time zone by its name in the database, or by its distance from UTC.
fn time_zone<'py>(py: Python<'py>, zone: &str) -> PyResult<Bound<'py, PyAny>> {
    if matches!(zone, "UTC" | "utc" | "Z" | "z") {
        return utc(py);
    }
    if let Some(minutes) = distance(zone) {
        let delta = class(py, &TIMEDELTA, "datetime", "timedelta")?.call1((0, 60 * minutes))?;
        return class(py, &TIMEZONE, "datetime", "timezone")?.call1((delta,));
    }
    let found = class(py, &ZONE_INFO, "zoneinfo", "ZoneInfo")?.call1((zone,));
    found.map_err(|error| {
        let raised = invalid(format!("Python's zoneinfo has no time zone {zone:?}"));
        raised.set_cause(py, Some(error));
        raised
    })
}

/// Minutes east of UTC, of `+05:30`, `+0530` or `+05`.
fn distance(zone: &str) -> Option<i64> {
    let (sign, digits) = match zone.as_bytes() {
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match digits {
        [a, b] => ([*a, *b], *b"00"),
        [a, b, c, d] | [a, b, b':', c, d] => ([*a, *b], [*c, *d]),
        _ => return None,
    };
    let number = |digits: [u8; 2]| -> Option<i64> {
        let [tens, ones] = digits.map(|digit| char::from(digit).to_digit(10));
        Some(i64::from(10 * tens? + ones?))
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (60 * hours + minutes))
}

/// Whether intervals of this unit hold such parts.
pub(crate) fn fits_interval(unit: IntervalUnit, months: i32, days: i32, nanoseconds: i64) -> bool {
    match unit {
        IntervalUnit::YearMonth => days == 0 && nanoseconds == 0,
        IntervalUnit::DayTime => {
            months == 0
                && nanoseconds % 1_000_000 == 0
                && i32::try_from(nanoseconds / 1_000_000).is_ok()
        }
        IntervalUnit::MonthDayNano => true,
    }
}

/// A tuple of two, for those who look at pairs.
pub(crate) fn pair_of<'py>(object: &Bound<'py, PyAny>) -> Option<[Bound<'py, PyAny>; 2]> {
    let (one, other) = if let Ok(tuple) = object.cast::<PyTuple>() {
        if tuple.len() != 2 {
            return None;
        }
        (tuple.get_item(0).ok()?, tuple.get_item(1).ok()?)
    } else {
        let list = object.cast::<PyList>().ok()?;
        if list.len() != 2 {
            return None;
        }
        (list.get_item(0).ok()?, list.get_item(1).ok()?)
    };
    Some([one, other])
}
