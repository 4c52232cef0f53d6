//! Arrays of Python values: `ad.array([1, None, 2])`.
//!
//! The type is asked for, or found out first (`infer`). Then each level of it is built as a whole:
//! the items of all lists are one column. A list may change while it is read, as conversions may
//! run Python code; every list is copied before its items are looked at, and nothing that was seen
//! before is relied on.

use std::collections::HashMap;

use arrow_device::abi::ArrowArray;
use arrow_device::{Array, DataType, Field, Schema, TimeUnit, UnionMode};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyString};

use crate::digits::{half, unscaled, wide};
use crate::error::{OrRaise, invalid};
use crate::infer::{Place, check_depth, data_type, snapshot};
use crate::iterable;
use crate::leaf::{Leaf, nanoseconds_of};
use crate::pylist::{fits_interval, pair_of};

/// How many binary digits a `float16` has, as `f32::MANTISSA_DIGITS` says of `float32`.
const HALF_DIGITS: u32 = 11;

type Given<'py> = Vec<Bound<'py, PyAny>>;

/// The array of these values.
pub(crate) fn array(values: &Bound<'_, PyAny>, of: Option<&Schema>) -> PyResult<Array> {
    let py = values.py();
    let values = snapshot(values)?;
    check_depth(&values, 0)?;
    let Some(schema) = of else {
        let of = data_type(py, &values, &Place::Top)?;
        return build(py, &of, values, &Place::Top);
    };
    let array = build(py, schema.data_type(), values, &Place::Top)?;
    typed(&array, schema)
}

/// The same memory as an array of another type that is laid out in the same way.
pub(crate) fn typed(array: &Array, schema: &Schema) -> PyResult<Array> {
    let mut out = ArrowArray::empty();
    array.export_host(&mut out).or_raise()?;
    // SAFETY: UNS-1: the struct was exported here, nobody else has it, and its buffers are those of
    // an array of this layout.
    unsafe { Array::import_host(&mut out, schema) }.or_raise()
}

/// Whether Python values are meant, and no object that speaks a protocol.
pub(crate) fn are_values(object: &Bound<'_, PyAny>) -> bool {
    let is_one = object.is_instance_of::<PyString>()
        || object.is_instance_of::<PyBytes>()
        || object.is_instance_of::<PyDict>();
    // A query that has not run can often be iterated, and has no values yet.
    let has = |name| object.hasattr(name).unwrap_or(false);
    !is_one && has("__iter__") && !has("collect")
}

fn build(py: Python<'_>, of: &DataType, values: Given<'_>, place: &Place<'_>) -> PyResult<Array> {
    match of {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => lists(py, of, item, None, values, place),
        DataType::FixedSizeList(item, size) => {
            let size = usize::try_from(*size).unwrap_or(0);
            lists(py, of, item, Some(size), values, place)
        }
        DataType::Map { entries, .. } => maps(py, of, entries, values, place),
        DataType::Struct(fields) => structs(py, of, fields, values, place),
        DataType::Union { mode, type_ids, fields } => {
            union(py, of, (*mode, type_ids, fields), values, place)
        }
        DataType::Dictionary { values: words, .. } => {
            dictionary(py, of, words.data_type(), values, place)
        }
        DataType::RunEndEncoded { values: runs, .. } => {
            let lengths = run_lengths(&values);
            let mut firsts = Vec::with_capacity(lengths.len());
            let mut at = 0;
            for length in &lengths {
                firsts.extend(values.get(at).cloned());
                at += length;
            }
            let firsts = build(py, runs.data_type(), firsts, place)?;
            Array::from_runs(of.clone(), lengths, firsts).or_raise()
        }
        _ => leaves(py, of, &values, place),
    }
}

fn leaves(
    py: Python<'_>,
    of: &DataType,
    values: &[Bound<'_, PyAny>],
    place: &Place<'_>,
) -> PyResult<Array> {
    let column = Column { py, of, values, place };
    match of {
        DataType::Null => {
            column.read(|_| None::<Fit<()>>)?;
            Array::nulls(values.len()).or_raise()
        }
        DataType::Boolean => {
            let bits = column.read(|leaf| match leaf {
                Leaf::Bool(bit) => Some(Fit(Some(bit))),
                _ => None,
            })?;
            Array::from_bools(bits).or_raise()
        }
        DataType::Int8 => column.integers::<i8>(),
        DataType::Int16 => column.integers::<i16>(),
        DataType::Int32 => column.integers::<i32>(),
        DataType::Int64 => column.integers::<i64>(),
        DataType::UInt8 => column.integers::<u8>(),
        DataType::UInt16 => column.integers::<u16>(),
        DataType::UInt32 => column.integers::<u32>(),
        DataType::UInt64 => column.integers::<u64>(),
        DataType::Float16 => column.floats(HALF_DIGITS, |number| {
            let bits = half(number);
            (bits & 0x7fff != 0x7c00 || number.is_infinite()).then_some(bits)
        }),
        DataType::Float32 => column.floats(f32::MANTISSA_DIGITS, |number| {
            let short = number as f32;
            (short.is_finite() || !number.is_finite()).then_some(short)
        }),
        DataType::Float64 => column.floats(f64::MANTISSA_DIGITS, Some),
        DataType::Decimal32 { precision, scale } => {
            column.decimals(*precision, *scale, |number| i32::try_from(number).ok())
        }
        DataType::Decimal64 { precision, scale } => {
            column.decimals(*precision, *scale, |number| i64::try_from(number).ok())
        }
        DataType::Decimal128 { precision, scale } => column.decimals(*precision, *scale, Some),
        DataType::Decimal256 { precision, scale } => {
            let numbers = column.read(|leaf| Some(wide(&leaf, *precision, *scale)?.into()))?;
            Array::from_values(of.clone(), numbers).or_raise()
        }
        DataType::Date32 => column.counts(|leaf| match leaf {
            Leaf::Date(days) => Some(i32::try_from(*days).ok()),
            Leaf::Int(count) => Some(i32::try_from(*count).ok()),
            _ => None,
        }),
        DataType::Date64 => column.counts(|leaf| match leaf {
            Leaf::Date(days) => Some(days.checked_mul(86_400_000)),
            Leaf::Int(count) => Some(i64::try_from(*count).ok()),
            _ => None,
        }),
        DataType::Time32(unit) => column.counts(|leaf| match leaf {
            Leaf::Time(count) => Some(in_unit((*count).into(), *unit).and_then(small)),
            Leaf::Int(count) => Some(i32::try_from(*count).ok()),
            _ => None,
        }),
        DataType::Time64(unit) => column.counts(|leaf| match leaf {
            Leaf::Time(count) => Some(in_unit((*count).into(), *unit)),
            Leaf::Int(count) => Some(i64::try_from(*count).ok()),
            _ => None,
        }),
        DataType::Timestamp(unit, zone) => column.counts(|leaf| match leaf {
            // Moments of numpy and of the wall have no zone; those of UTC need one.
            Leaf::Moment { nanoseconds, zone: of, .. } if of.is_some() == zone.is_some() => {
                Some(in_unit(*nanoseconds, *unit))
            }
            Leaf::Int(count) => Some(i64::try_from(*count).ok()),
            _ => None,
        }),
        DataType::Duration(unit) => column.counts(|leaf| match leaf {
            Leaf::Delta { nanoseconds, .. } => Some(in_unit(*nanoseconds, *unit)),
            Leaf::Int(count) => Some(i64::try_from(*count).ok()),
            _ => None,
        }),
        DataType::Interval(unit) => column.intervals(*unit),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => column.texts(),
        _ => column.bytes(),
    }
}

fn small(count: i64) -> Option<i32> {
    i32::try_from(count).ok()
}

/// Nanoseconds in this unit, if it is a whole number of them.
fn in_unit(nanoseconds: i128, unit: TimeUnit) -> Option<i64> {
    let size = i128::from(nanoseconds_of(unit));
    if nanoseconds % size != 0 { None } else { i64::try_from(nanoseconds / size).ok() }
}

/// What a value of the right kind is in the array; `None` where the array cannot hold it.
struct Fit<T>(Option<T>);

impl<T> From<Option<T>> for Fit<T> {
    fn from(value: Option<T>) -> Self {
        Self(value)
    }
}

/// Values that become an array of a type without children.
struct Column<'a, 'py> {
    py: Python<'py>,
    of: &'a DataType,
    values: &'a [Bound<'py, PyAny>],
    place: &'a Place<'a>,
}

impl<'py> Column<'_, 'py> {
    /// Each value as `convert` has it, which says `None` to what is of another kind.
    fn read<T>(&self, convert: impl Fn(Leaf<'py>) -> Option<Fit<T>>) -> PyResult<Vec<Option<T>>> {
        let mut all = iterable::with_room(self.values.len())?;
        for (index, value) in self.values.iter().enumerate() {
            if index % 4096 == 0 {
                self.py.check_signals()?;
            }
            let leaf =
                self.leaf(value).map_err(|error| self.place.locate(self.py, index, error))?;
            let Some(kind) = leaf.kind() else {
                all.push(None);
                continue;
            };
            match convert(leaf) {
                Some(Fit(Some(value))) => all.push(Some(value)),
                Some(Fit(None)) => return Err(self.does_not_fit(index, value)),
                None => {
                    let what = format!("{kind} is no {}", self.of);
                    return Err(self.place.wrong_type(index, what));
                }
            }
        }
        Ok(all)
    }

    fn does_not_fit(&self, index: usize, value: &Bound<'_, PyAny>) -> PyErr {
        let shown = match value.repr() {
            Ok(text) => text.to_string(),
            Err(raised) => return raised,
        };
        let shown: String = shown.chars().take(80).collect();
        self.place.wrong_value(index, format!("{shown} does not fit into {}", self.of))
    }

    /// What counts as an integer where integers are asked for.
    fn leaf(&self, value: &Bound<'py, PyAny>) -> PyResult<Leaf<'py>> {
        let error = match Leaf::of(value) {
            Ok((leaf, _)) => return Ok(leaf),
            Err(error) => error,
        };
        if error.is_instance_of::<PyOverflowError>(self.py) {
            return Err(invalid(format!("an integer does not fit into {}", self.of)));
        }
        if self.of.is_integer()
            && error.is_instance_of::<PyTypeError>(self.py)
            && value.hasattr("__index__")?
        {
            return value.extract::<i128>().map(Leaf::Int);
        }
        Err(error)
    }

    fn integers<T: arrow_device::Native + TryFrom<i128>>(&self) -> PyResult<Array> {
        let numbers = self.read(|leaf| match leaf {
            Leaf::Int(number) => Some(T::try_from(number).ok().into()),
            _ => None,
        })?;
        Array::from_values(self.of.clone(), numbers).or_raise()
    }

    /// Floats that become the nearest ones of the type, and integers that have no more than so many
    /// binary digits before their last zeros, so that none of them is rounded.
    fn floats<T: arrow_device::Native>(
        &self,
        digits: u32,
        fit: impl Fn(f64) -> Option<T>,
    ) -> PyResult<Array> {
        let numbers = self.read(|leaf| match leaf {
            Leaf::Float(number) => Some(fit(number).into()),
            Leaf::Int(number) => {
                let size = number.unsigned_abs();
                let used = 128 - size.leading_zeros();
                let is_exact = used.saturating_sub(size.trailing_zeros()) <= digits;
                Some(if is_exact { fit(number as f64).into() } else { Fit(None) })
            }
            _ => None,
        })?;
        Array::from_values(self.of.clone(), numbers).or_raise()
    }

    fn decimals<T: arrow_device::Native>(
        &self,
        precision: u8,
        scale: i32,
        fit: impl Fn(i128) -> Option<T>,
    ) -> PyResult<Array> {
        let numbers = self.read(|leaf| {
            let digits = unscaled(&leaf, precision, scale)?;
            let number = digits.and_then(|(negative, digits)| {
                let number = digits.parse::<i128>().ok()?;
                fit(if negative { -number } else { number })
            });
            Some(number.into())
        })?;
        Array::from_values(self.of.clone(), numbers).or_raise()
    }

    fn counts<T: arrow_device::Native>(
        &self,
        convert: impl Fn(&Leaf<'py>) -> Option<Option<T>>,
    ) -> PyResult<Array> {
        let counts = self.read(|leaf| convert(&leaf).map(Fit))?;
        Array::from_values(self.of.clone(), counts).or_raise()
    }

    fn intervals(&self, unit: arrow_device::IntervalUnit) -> PyResult<Array> {
        use arrow_device::IntervalUnit::{DayTime, MonthDayNano, YearMonth};
        let parts = self.read(|leaf| match leaf {
            Leaf::Interval(months, days, rest) => {
                let fits = fits_interval(unit, months, days, rest);
                Some(fits.then_some((months, days, rest)).into())
            }
            _ => None,
        })?;
        let of = self.of.clone();
        match unit {
            MonthDayNano => Array::from_values(of, parts),
            YearMonth => Array::from_values(
                of,
                parts.into_iter().map(|each| each.map(|(months, ..)| months)),
            ),
            DayTime => {
                // It was seen to fit.
                let milliseconds = |rest: i64| i32::try_from(rest / 1_000_000).unwrap_or(0);
                let parts = parts.into_iter();
                let parts =
                    parts.map(|each| each.map(|(_, days, rest)| (days, milliseconds(rest))));
                Array::from_values(of, parts)
            }
        }
        .or_raise()
    }

    fn texts(&self) -> PyResult<Array> {
        let texts = self.read(|leaf| match leaf {
            Leaf::Text(text) => Some(Fit(Some(text))),
            _ => None,
        })?;
        let mut read = Vec::with_capacity(texts.len());
        for (index, text) in texts.iter().enumerate() {
            let text = text.as_ref().map(|text| text.to_cow()).transpose();
            read.push(text.map_err(|error| self.place.wrong_value(index, error))?);
        }
        Array::from_texts(self.of.clone(), read).or_raise()
    }

    fn bytes(&self) -> PyResult<Array> {
        let size = match self.of {
            DataType::FixedSizeBinary(size) => usize::try_from(*size).ok(),
            _ => None,
        };
        let all = self.read(|leaf| match leaf {
            Leaf::Bytes(bytes) => {
                let bytes = match bytes.cast::<PyBytes>() {
                    Ok(bytes) => bytes.as_bytes().to_vec(),
                    Err(_) => bytes.cast::<PyByteArray>().ok()?.to_vec(),
                };
                Some(Fit(size.is_none_or(|size| size == bytes.len()).then_some(bytes)))
            }
            _ => None,
        })?;
        Array::from_bytes(self.of.clone(), all).or_raise()
    }
}

/// Items of lists or values of fields may be null only where their field says so.
fn check_null(
    field: &Field,
    value: &Bound<'_, PyAny>,
    index: usize,
    place: &Place<'_>,
) -> PyResult<()> {
    if field.is_nullable() || !value.is_none() {
        return Ok(());
    }
    Err(place.wrong_value(index, format!("{:?} is not nullable, and has a None", field.name())))
}

fn no_container(leaf: &Leaf<'_>, of: &DataType, index: usize, place: &Place<'_>) -> PyErr {
    let kind = leaf.kind().map(|kind| kind.to_string()).unwrap_or_default();
    place.wrong_type(index, format!("{kind} is no {of}"))
}

fn lists(
    py: Python<'_>,
    of: &DataType,
    item: &Field,
    size: Option<usize>,
    values: Given<'_>,
    place: &Place<'_>,
) -> PyResult<Array> {
    let (mut items, mut lengths, mut present) = (Vec::new(), Vec::new(), Vec::new());
    for (index, value) in values.iter().enumerate() {
        let before = items.len();
        match Leaf::of(value).map_err(|error| place.locate(py, index, error))?.0 {
            Leaf::Null => {
                present.push(None);
                items.resize(before + size.unwrap_or(0), py.None().into_bound(py));
            }
            Leaf::List(list) => {
                let new = snapshot(&list)?;
                if let Some(size) = size.filter(|size| *size != new.len()) {
                    let what = format!("a list of {} is no list of {size}", new.len());
                    return Err(place.wrong_value(index, what));
                }
                for value in &new {
                    check_null(item, value, index, place)?;
                }
                present.push(Some(new.len()));
                items.extend(new);
            }
            other => return Err(no_container(&other, of, index, place)),
        }
        lengths.push(items.len() - before);
    }
    let items = build(py, item.data_type(), items, &Place::Item(place, &lengths))?;
    Array::from_lists(of.clone(), present, items).or_raise()
}

fn maps(
    py: Python<'_>,
    of: &DataType,
    entries: &Field,
    values: Given<'_>,
    place: &Place<'_>,
) -> PyResult<Array> {
    let mut fields = entries.data_type().children();
    let (Some(key), Some(value_field)) = (fields.next(), fields.next()) else {
        return Err(invalid(format!("{of} has no keys and values")));
    };
    let (mut keys, mut items, mut lengths, mut present) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (index, value) in values.iter().enumerate() {
        let before = keys.len();
        let pairs = match Leaf::of(value).map_err(|error| place.locate(py, index, error))?.0 {
            Leaf::Null => None,
            Leaf::List(list) => Some(snapshot(&list)?.iter().map(pair_of).collect::<Vec<_>>()),
            Leaf::Dict(pairs) => {
                let pairs = iterable::pairs(&pairs)?.into_iter();
                Some(pairs.map(|(key, value)| Some([key, value])).collect())
            }
            other => return Err(no_container(&other, of, index, place)),
        };
        present.push(pairs.as_ref().map(Vec::len));
        for pair in pairs.into_iter().flatten() {
            let Some([one, other]) = pair else {
                return Err(place.wrong_type(index, "an entry of a map is a pair"));
            };
            if one.is_none() {
                return Err(place.wrong_value(index, "a key of a map is None, and none may be"));
            }
            check_null(value_field, &other, index, place)?;
            keys.push(one);
            items.push(other);
        }
        lengths.push(keys.len() - before);
    }
    let (count, inner) = (keys.len(), Place::Item(place, &lengths));
    let columns = [
        build(py, key.data_type(), keys, &inner)?,
        build(py, value_field.data_type(), items, &inner)?,
    ];
    let pairs = Array::from_fields(entries.data_type().clone(), vec![true; count], columns);
    Array::from_lists(of.clone(), present, pairs.or_raise()?).or_raise()
}

fn structs(
    py: Python<'_>,
    of: &DataType,
    fields: &[Field],
    values: Given<'_>,
    place: &Place<'_>,
) -> PyResult<Array> {
    let mut numbers = HashMap::new();
    for (number, field) in fields.iter().enumerate() {
        if numbers.insert(field.name(), number).is_some() {
            let name = field.name();
            return Err(invalid(format!("two fields are called {name:?}, and a key names one")));
        }
    }
    let mut columns = vec![vec![py.None().into_bound(py); values.len()]; fields.len()];
    let mut present = Vec::with_capacity(values.len());
    for (index, value) in values.iter().enumerate() {
        let pairs = match Leaf::of(value).map_err(|error| place.locate(py, index, error))?.0 {
            Leaf::Null => {
                present.push(false);
                continue;
            }
            Leaf::Dict(pairs) => pairs,
            other => return Err(no_container(&other, of, index, place)),
        };
        present.push(true);
        for (key, value) in iterable::pairs(&pairs)? {
            let text = key.cast::<PyString>().ok().and_then(|key| key.to_cow().ok());
            let slot = text
                .and_then(|text| numbers.get(&*text))
                .and_then(|number| columns.get_mut(*number)?.get_mut(index));
            let Some(slot) = slot else {
                return Err(place.wrong_value(index, format!("{of} has no field {}", key.repr()?)));
            };
            *slot = value;
        }
        for (field, column) in fields.iter().zip(&columns) {
            if let Some(value) = column.get(index) {
                check_null(field, value, index, place)?;
            }
        }
    }
    let mut built = Vec::with_capacity(fields.len());
    for (field, column) in fields.iter().zip(columns) {
        built.push(build(py, field.data_type(), column, &Place::Key(place, field.name()))?);
    }
    Array::from_fields(of.clone(), present, built).or_raise()
}

/// Each value goes to the first field that takes it.
fn union(
    py: Python<'_>,
    of: &DataType,
    (mode, type_ids, fields): (UnionMode, &[i8], &[Field]),
    values: Given<'_>,
    place: &Place<'_>,
) -> PyResult<Array> {
    let mut columns = vec![Vec::new(); fields.len()];
    let mut ids = Vec::with_capacity(values.len());
    for (index, value) in values.into_iter().enumerate() {
        let mut chosen = None;
        for (number, field) in fields.iter().enumerate() {
            if value.is_none() && !field.is_nullable() {
                continue;
            }
            match build(py, field.data_type(), vec![value.clone()], place) {
                Ok(_) => {
                    chosen = Some(number);
                    break;
                }
                Err(error) if refuses(py, &error) => {}
                Err(error) => return Err(error),
            }
        }
        let Some((number, id)) = chosen.and_then(|number| Some((number, *type_ids.get(number)?)))
        else {
            let what = format!("a value of {} is of no field of {of}", value.get_type());
            return Err(place.wrong_type(index, what));
        };
        ids.push(id);
        for (other, column) in columns.iter_mut().enumerate() {
            if other == number {
                column.push(value.clone());
            } else if mode == UnionMode::Sparse {
                column.push(py.None().into_bound(py));
            }
        }
    }
    let mut built = Vec::with_capacity(fields.len());
    for (field, column) in fields.iter().zip(columns) {
        built.push(build(py, field.data_type(), column, place)?);
    }
    Array::from_variants(of.clone(), ids, built).or_raise()
}

fn refuses(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyTypeError>(py) || error.is_instance_of::<PyValueError>(py)
}

/// Equal values get one key. What cannot be hashed, and floats, whose equality is not that of their
/// bits, are told apart by their text.
fn dictionary(
    py: Python<'_>,
    of: &DataType,
    words: &DataType,
    values: Given<'_>,
    place: &Place<'_>,
) -> PyResult<Array> {
    let known = PyDict::new(py);
    let (mut keys, mut firsts) = (Vec::with_capacity(values.len()), Vec::new());
    for value in values {
        if value.is_none() {
            keys.push(None);
            continue;
        }
        let by_text = value.is_instance_of::<PyFloat>() || value.hash().is_err();
        let key = if by_text { value.repr()?.into_any() } else { value.clone() };
        let number = match known.get_item((value.get_type(), by_text, &key))? {
            Some(number) => number.extract::<usize>()?,
            None => {
                known.set_item((value.get_type(), by_text, key), firsts.len())?;
                firsts.push(value);
                firsts.len() - 1
            }
        };
        keys.push(Some(number));
    }
    let firsts = build(py, words, firsts, place)?;
    Array::from_keys(of.clone(), keys, firsts).or_raise()
}

/// How many values are the same one after the other. Only of what Python compares without any code
/// of others are there runs.
fn run_lengths(values: &[Bound<'_, PyAny>]) -> Vec<usize> {
    let mut lengths: Vec<usize> = Vec::new();
    let mut before: Option<&Bound<'_, PyAny>> = None;
    for value in values {
        let is_same = before.is_some_and(|before| {
            let is_plain = value.is_exact_instance_of::<PyString>()
                || value.is_exact_instance_of::<PyInt>()
                || value.is_exact_instance_of::<PyBytes>();
            let is_equal = is_plain && before.get_type().is(value.get_type());
            before.is(value) || is_equal && before.eq(value).unwrap_or(false)
        });
        match lengths.last_mut().filter(|_| is_same) {
            Some(last) => *last += 1,
            None => lengths.push(1),
        }
        before = Some(value);
    }
    lengths
}
