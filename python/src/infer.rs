//! The type of an array of Python values, where nobody says it.

use std::collections::HashMap;

use arrow_device::{DataType, Field, IntervalUnit, TimeUnit};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyAnyMethods, PyDict, PyList, PyString, PyTuple};

use crate::error::invalid;
use crate::iterable;
use crate::leaf::{Digits, Leaf, LeafKind};

/// So many lists and dictionaries can lie in each other, as many as types can.
const DEEPEST: usize = 62;
/// More different keys than this are a mistake, or a map.
const MOST_KEYS: usize = 10_000;
/// The dictionaries of a list may have together so many places for values, and so many for each
/// value that is there. Where each has keys of its own, a list would otherwise take the square of
/// its length.
const FREE_PLACES: u64 = 1 << 26;
const PLACES_FOR_EACH: u64 = 64;
/// Integers up to this are floats, too.
const EXACT: i128 = 1 << 53;

/// Where a value is in what somebody handed over, for messages.
pub(crate) enum Place<'a> {
    Top,
    /// In a list: the lengths of all lists, of which the values are one after the other.
    Item(&'a Place<'a>, &'a [usize]),
    /// In a dictionary of the same number.
    Key(&'a Place<'a>, &'a str),
}

impl Place<'_> {
    pub(crate) fn of(&self, index: usize) -> String {
        match self {
            Self::Top => format!("[{index}]"),
            Self::Item(outer, lengths) => {
                let mut left = index;
                for (number, length) in lengths.iter().enumerate() {
                    if left < *length {
                        return format!("{}[{left}]", outer.of(number));
                    }
                    left -= length;
                }
                format!("[{index}]")
            }
            Self::Key(outer, key) => format!("{}[{key:?}]", outer.of(index)),
        }
    }

    /// The same exception, which says where.
    pub(crate) fn locate(&self, py: Python<'_>, index: usize, error: PyErr) -> PyErr {
        if error.is_instance_of::<PyTypeError>(py) {
            return PyTypeError::new_err(format!("{}: {}", self.of(index), error.value(py)));
        }
        error
    }

    pub(crate) fn wrong_type(&self, index: usize, what: impl std::fmt::Display) -> PyErr {
        PyTypeError::new_err(format!("{}: {what}", self.of(index)))
    }

    pub(crate) fn wrong_value(&self, index: usize, what: impl std::fmt::Display) -> PyErr {
        invalid(format!("{}: {what}", self.of(index)))
    }
}

/// The values of a list, a tuple or any other iterable, as they are now.
pub(crate) fn snapshot<'py>(object: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if let Ok(tuple) = object.cast::<PyTuple>() {
        let mut all = iterable::with_room(tuple.len())?;
        all.extend(tuple.iter());
        return Ok(all);
    }
    if let Ok(list) = object.cast::<PyList>() {
        let mut all = iterable::with_room(list.len())?;
        all.extend(list.iter());
        return Ok(all);
    }
    iterable::all(object, Ok)
}

/// Refuses what is nested too deep, or in itself.
pub(crate) fn check_depth(values: &[Bound<'_, PyAny>], depth: usize) -> PyResult<()> {
    for value in values {
        let inner = if let Ok(pairs) = value.cast::<PyDict>() {
            iterable::pairs(pairs)?.into_iter().map(|(_, value)| value).collect()
        } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
            snapshot(value)?
        } else {
            continue;
        };
        if depth == DEEPEST {
            let message = format!("more than {DEEPEST} lists and dictionaries are in each other");
            return Err(invalid(message));
        }
        check_depth(&inner, depth + 1)?;
    }
    values.first().map_or(Ok(()), |first| first.py().check_signals())
}

/// What is known of all values that were looked at.
#[derive(Default)]
struct SeenValues<'py> {
    kind: Option<LeafKind>,
    /// The type that all scalars of numpy had, if there was nothing else.
    scalars: Option<Option<DataType>>,
    least: i128,
    largest: i128,
    whole: i64,
    places: i64,
    unit: Option<TimeUnit>,
    zone: Option<Bound<'py, PyAny>>,
}

/// How many places for values all dictionaries have, and how many values there are.
#[derive(Default)]
struct Places {
    all: u64,
    used: u64,
}

/// The type of these values.
pub(crate) fn data_type(
    py: Python<'_>,
    values: &[Bound<'_, PyAny>],
    place: &Place<'_>,
) -> PyResult<DataType> {
    type_of(py, values, place, &mut Places::default())
}

fn type_of(
    py: Python<'_>,
    values: &[Bound<'_, PyAny>],
    place: &Place<'_>,
    places: &mut Places,
) -> PyResult<DataType> {
    let mut seen = SeenValues::default();
    for (index, value) in values.iter().enumerate() {
        if index % 4096 == 0 {
            py.check_signals()?;
        }
        let (leaf, scalar) = Leaf::of(value).map_err(|error| place.locate(py, index, error))?;
        seen.look(&leaf, scalar, index, place)?;
    }
    let Some(kind) = seen.kind else { return Ok(DataType::Null) };
    if let Some(Some(scalar)) = seen.scalars {
        return Ok(scalar);
    }
    let unit = seen.unit.unwrap_or(TimeUnit::Microsecond);
    Ok(match kind {
        LeafKind::Bool => DataType::Boolean,
        LeafKind::Int if seen.largest <= i64::MAX.into() && seen.least >= i64::MIN.into() => {
            DataType::Int64
        }
        LeafKind::Int if seen.largest <= u64::MAX.into() && seen.least >= 0 => DataType::UInt64,
        LeafKind::Int => {
            let (least, largest) = (seen.least, seen.largest);
            let message = format!("integers from {least} to {largest} fit no integer type");
            return Err(invalid(message));
        }
        LeafKind::Float if seen.largest > EXACT || seen.least < -EXACT => {
            return Err(invalid(
                "integers beyond 2**53 stand beside floats, and would be rounded; make them floats, or pass `type`",
            ));
        }
        LeafKind::Float => DataType::Float64,
        LeafKind::Text => DataType::Utf8,
        LeafKind::Bytes => DataType::Binary,
        LeafKind::Moment => DataType::Timestamp(unit, None),
        LeafKind::ZonedMoment => {
            let zone = seen.zone.as_ref().map(zone_name).transpose()?.unwrap_or_default();
            DataType::Timestamp(unit, Some(zone.as_str().into()))
        }
        LeafKind::Date => DataType::Date32,
        LeafKind::Time => DataType::Time64(TimeUnit::Microsecond),
        LeafKind::Delta => DataType::Duration(unit),
        LeafKind::Decimal => decimal(seen.whole, seen.places)?,
        LeafKind::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
        LeafKind::List => list(py, values, place, places)?,
        LeafKind::Dict => structure(py, values, place, places)?,
    })
}

impl<'py> SeenValues<'py> {
    fn look(
        &mut self,
        leaf: &Leaf<'py>,
        scalar: Option<DataType>,
        index: usize,
        place: &Place<'_>,
    ) -> PyResult<()> {
        let Some(kind) = leaf.kind() else { return Ok(()) };
        self.kind = Some(match self.kind {
            None => kind,
            Some(known) if known == kind => kind,
            Some(LeafKind::Int | LeafKind::Float)
                if matches!(kind, LeafKind::Int | LeafKind::Float) =>
            {
                LeafKind::Float
            }
            Some(known) => {
                return Err(place.wrong_type(index, format!("{kind} after values of {known}")));
            }
        });
        self.scalars = Some(match self.scalars.take() {
            None => scalar,
            Some(known) if known == scalar => known,
            Some(_) => None,
        });
        match leaf {
            Leaf::Int(number) => {
                self.least = self.least.min(*number);
                self.largest = self.largest.max(*number);
            }
            Leaf::Moment { unit, zone, .. } => {
                self.finer(*unit);
                self.zone = self.zone.take().or_else(|| zone.clone());
            }
            Leaf::Delta { unit, .. } => self.finer(*unit),
            Leaf::Decimal(Digits { digits, exponent, .. }) => {
                let count = i64::try_from(digits.len()).unwrap_or(i64::MAX);
                self.whole = self.whole.max(count.saturating_add(*exponent));
                self.places = self.places.max(exponent.saturating_neg());
            }
            _ => {}
        }
        Ok(())
    }

    fn finer(&mut self, unit: TimeUnit) {
        let order = |unit| crate::leaf::nanoseconds_of(unit);
        self.unit = Some(
            self.unit.map_or(unit, |known| if order(unit) < order(known) { unit } else { known }),
        );
    }
}

fn decimal(whole: i64, places: i64) -> PyResult<DataType> {
    let digits = whole.max(0).saturating_add(places.max(0)).max(1);
    let (Ok(precision), Ok(scale)) = (u8::try_from(digits), i32::try_from(places.max(0))) else {
        return Err(invalid(format!("decimals with {digits} digits in all fit no decimal type")));
    };
    match precision {
        0..=38 => Ok(DataType::Decimal128 { precision, scale }),
        39..=76 => Ok(DataType::Decimal256 { precision, scale }),
        _ => Err(invalid(format!("decimals with {digits} digits in all fit no decimal type"))),
    }
}

/// The name of a time zone of Python's.
fn zone_name(zone: &Bound<'_, PyAny>) -> PyResult<String> {
    for name in ["key", "zone"] {
        if let Some(key) = zone.getattr_opt(name)?
            && let Ok(key) = key.extract::<String>()
        {
            return Ok(key);
        }
    }
    let text = zone.str()?.extract::<String>()?;
    match text.strip_prefix("UTC") {
        Some("") => Ok("UTC".into()),
        Some(distance) if distance.len() == 6 => Ok(distance.into()),
        _ => Err(PyTypeError::new_err(format!(
            "the time zone {text} has no name in the database, and is no whole number of minutes from UTC"
        ))),
    }
}

/// All items of lists, and the length of each list.
type Flat<'py> = (Vec<Bound<'py, PyAny>>, Vec<usize>);

fn flatten<'py>(values: &[Bound<'py, PyAny>]) -> PyResult<Flat<'py>> {
    let (mut items, mut lengths) = (Vec::new(), Vec::with_capacity(values.len()));
    for value in values {
        let before = items.len();
        if let (Leaf::List(list), _) = Leaf::of(value)? {
            items.append(&mut snapshot(&list)?);
        }
        lengths.push(items.len() - before);
    }
    Ok((items, lengths))
}

fn list(
    py: Python<'_>,
    values: &[Bound<'_, PyAny>],
    place: &Place<'_>,
    places: &mut Places,
) -> PyResult<DataType> {
    let (items, lengths) = flatten(values)?;
    Ok(DataType::list(type_of(py, &items, &Place::Item(place, &lengths), places)?))
}

/// The fields are the keys, in the order in which they come.
fn structure(
    py: Python<'_>,
    values: &[Bound<'_, PyAny>],
    place: &Place<'_>,
    places: &mut Places,
) -> PyResult<DataType> {
    let mut names: Vec<String> = Vec::new();
    let mut known: HashMap<String, Vec<(usize, Bound<'_, PyAny>)>> = HashMap::new();
    for (index, value) in values.iter().enumerate() {
        let Ok(pairs) = value.cast::<PyDict>() else { continue };
        for (key, value) in iterable::pairs(pairs)? {
            let Ok(key) = key.cast::<PyString>() else {
                let of = key.get_type();
                let what = format!(
                    "a key is of {of} and no str; a dictionary is a struct, unless `type` is a map"
                );
                return Err(place.wrong_type(index, what));
            };
            let key = key.to_str()?;
            if let Some(column) = known.get_mut(key) {
                column.push((index, value));
            } else {
                names.push(key.to_owned());
                known.insert(key.to_owned(), vec![(index, value)]);
            }
        }
        if names.len() > MOST_KEYS {
            let what =
                format!("the dictionaries have more than {MOST_KEYS} different keys; pass `type`");
            return Err(place.wrong_value(index, what));
        }
    }
    places.used += known.values().map(|column| column.len() as u64).sum::<u64>();
    places.all += (names.len() as u64).saturating_mul(values.len() as u64);
    if places.all > places.used.saturating_mul(PLACES_FOR_EACH).saturating_add(FREE_PLACES) {
        let (all, used) = (places.all, places.used);
        let what = format!(
            "the dictionaries have {used} values for {all} places, one for each key in each dictionary; pass `type`"
        );
        return Err(place.wrong_value(0, what));
    }
    let mut fields = Vec::with_capacity(names.len());
    for name in names {
        let mut column = vec![py.None().into_bound(py); values.len()];
        for (index, value) in known.remove(&name).unwrap_or_default() {
            if let Some(slot) = column.get_mut(index) {
                *slot = value;
            }
        }
        let of = type_of(py, &column, &Place::Key(place, &name), places)?;
        fields.push(Field::new(name.as_str(), of, true));
    }
    Ok(DataType::struct_(fields))
}
