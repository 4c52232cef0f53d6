//! `Schema` and `DataType`, and what a consumer may ask a producer for.

use arrow_device::{DataType, Field, IntervalUnit, Schema};
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyCapsule, PyDict, PyIterator, PyList, PyNotImplemented, PyString, PyTuple,
};

use crate::error::{OrRaise, refused};
use crate::live::{Kind, Live};
use crate::{capsule, pickle};

/// A type with its name, nullability and metadata: of an array, of a column, or of a record batch.
///
/// >>> import arrow_device as ad, pyarrow as pa
/// >>> fields = [pa.field("id", pa.int64(), nullable=False), ("name", pa.string())]
/// >>> schema = ad.schema(pa.schema(fields))
/// >>> schema.names
/// ['id', 'name']
/// >>> schema.field("id").nullable
/// False
#[pyclass(frozen, module = "arrow_device", name = "Schema")]
#[derive(Debug)]
pub(crate) struct PySchema {
    schema: Schema,
    _live: Live,
}

impl PySchema {
    pub(crate) fn new(schema: Schema) -> Self {
        Self { schema, _live: Live::new(Kind::Schema) }
    }

    fn of_field(field: &Field) -> PyResult<Self> {
        Schema::new(field.clone()).or_raise().map(Self::new)
    }
}

#[pymethods]
impl PySchema {
    /// The name; empty at the top.
    #[getter]
    fn name(&self) -> &str {
        self.schema.field().name()
    }

    /// The type.
    #[getter]
    fn r#type(&self) -> PyDataType {
        PyDataType { schema: self.schema.clone() }
    }

    /// Whether elements may be null.
    #[getter]
    fn nullable(&self) -> bool {
        self.schema.field().is_nullable()
    }

    /// The metadata, as bytes.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let metadata = PyDict::new(py);
        for (key, value) in self.schema.metadata().iter() {
            metadata.set_item(PyBytes::new(py, key), PyBytes::new(py, value))?;
        }
        Ok(metadata)
    }

    /// The fields of a record batch or of a nested type.
    #[getter]
    fn fields(&self) -> PyResult<Vec<Self>> {
        self.schema.data_type().children().map(Self::of_field).collect()
    }

    /// The names of the fields.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.schema.data_type().children().map(|field| field.name().to_owned()).collect()
    }

    /// A field by its name or its place.
    fn field(&self, key: &Bound<'_, PyAny>) -> PyResult<Self> {
        let count = self.schema.data_type().child_count();
        let index = position(key, count, |name| self.schema.column_index(name))?;
        let field = self.schema.data_type().child(index);
        field.map(Self::of_field).unwrap_or_else(|| Err(PyIndexError::new_err(index)))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        pickle::reduce_schema(py, &self.schema, "_unpickle_schema")
    }

    /// The fields, one after the other.
    fn __iter__(slf: &Bound<'_, Self>) -> PyResult<Py<PyIterator>> {
        Ok(PyList::new(slf.py(), slf.get().fields()?)?.try_iter()?.unbind())
    }

    /// A field by its name or its place.
    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.field(key)
    }

    /// How many fields.
    fn __len__(&self) -> usize {
        self.schema.data_type().child_count()
    }

    fn __eq__(&self, other: &Bound<'_, Self>) -> bool {
        self.schema == other.get().schema
    }

    fn __repr__(&self) -> String {
        format!("<arrow_device.Schema {}>", self.schema)
    }

    /// The Arrow PyCapsule protocol: a capsule with an ``ArrowSchema``.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::of_schema(py, &self.schema)
    }
}

/// Which one of so many a number means, which counts from the end where it is negative.
pub(crate) fn at(number: isize, count: usize) -> Option<usize> {
    let index = if number < 0 { number.checked_add_unsigned(count) } else { Some(number) };
    index.and_then(|index| usize::try_from(index).ok()).filter(|index| *index < count)
}

/// Which one of so many is meant: by number, also from the end, or by name.
pub(crate) fn position(
    key: &Bound<'_, PyAny>,
    count: usize,
    find: impl FnOnce(&str) -> Option<usize>,
) -> PyResult<usize> {
    if let Ok(name) = key.extract::<String>() {
        return find(&name).ok_or_else(|| pyo3::exceptions::PyKeyError::new_err(name));
    }
    let Ok(number) = key.extract::<isize>() else {
        let message = format!("expected a name or a number, got {}", key.get_type());
        return Err(PyTypeError::new_err(message));
    };
    at(number, count)
        .ok_or_else(|| PyIndexError::new_err(format!("number {number} of {count} is out of range")))
}

/// The type of an array's elements. Prints as people write it, and equals that text.
///
/// >>> import arrow_device as ad, pyarrow as pa
/// >>> ad.array(pa.array([[1, 2]])).type
/// DataType('list<item: int64>')
/// >>> ad.array(pa.array([1, 2])).type == "int64"
/// True
#[pyclass(frozen, module = "arrow_device", name = "DataType")]
#[derive(Debug)]
pub(crate) struct PyDataType {
    schema: Schema,
}

impl PyDataType {
    pub(crate) fn new(schema: Schema) -> Self {
        Self { schema }
    }
}

#[pymethods]
impl PyDataType {
    /// The format string of the Arrow C data interface.
    #[getter]
    fn format(&self) -> String {
        self.schema.data_type().format().as_str().to_owned()
    }

    /// The fields of a nested type.
    #[getter]
    fn fields(&self) -> PyResult<Vec<PySchema>> {
        self.schema.data_type().children().map(PySchema::of_field).collect()
    }

    fn __eq__<'py>(&self, other: &Bound<'py, PyAny>) -> Bound<'py, PyAny> {
        let mine = self.schema.data_type();
        let is_equal = if let Ok(other) = other.cast::<Self>() {
            mine.equals_ignoring_metadata(other.get().schema.data_type())
        } else if let Ok(text) = other.cast::<PyString>() {
            *text == mine.to_string().as_str()
        } else {
            return PyNotImplemented::get(other.py()).to_owned().into_any();
        };
        PyBool::new(other.py(), is_equal).to_owned().into_any()
    }

    /// That of the text, which the type is equal to.
    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        PyString::new(py, &self.schema.data_type().to_string()).hash()
    }

    fn __str__(&self) -> String {
        self.schema.data_type().to_string()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        pickle::reduce_schema(py, &self.schema, "_unpickle_type")
    }

    fn __repr__(&self) -> String {
        format!("DataType('{}')", self.schema.data_type())
    }

    /// The Arrow PyCapsule protocol: a capsule with an ``ArrowSchema``.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::of_schema(py, &self.schema)
    }
}

/// Checks what a consumer asked for in `requested_schema`. Nothing is converted. A request for
/// another representation of the same values gets the data as it is, which the specification
/// allows, and anything else is refused, which the specification asks for.
pub(crate) fn check_request(requested: Option<&Bound<'_, PyAny>>, have: &Schema) -> PyResult<()> {
    let Some(capsule) = requested else { return Ok(()) };
    let wanted = capsule::take_schema(capsule)?;
    if is_representation(have.data_type(), wanted.data_type()) {
        return Ok(());
    }
    Err(refused(format!(
        "the data is {}, which cannot be handed over as {}; take it as it is and convert it afterwards",
        have.data_type(),
        wanted.data_type()
    )))
}

/// Whether both types represent the same values: those of one kind, in fields of the same number
/// and names.
fn is_representation(have: &DataType, wanted: &DataType) -> bool {
    if let Some(values) = encoded_values(have) {
        return is_representation(values, wanted);
    }
    if let Some(values) = encoded_values(wanted) {
        return is_representation(have, values);
    }
    // Those of lists and maps are names that somebody gave who had to.
    let names_matter = matches!(have, DataType::Struct(_) | DataType::Union { .. });
    kind(have) == kind(wanted)
        && have.child_count() == wanted.child_count()
        && have.children().zip(wanted.children()).all(|(have, wanted)| {
            (!names_matter || have.name() == wanted.name())
                && is_representation(have.data_type(), wanted.data_type())
        })
}

/// The type of the values of what is encoded.
fn encoded_values(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::Dictionary { .. } => data_type.dictionary_values().map(Field::data_type),
        DataType::RunEndEncoded { .. } => data_type.child(1).map(Field::data_type),
        _ => None,
    }
}

/// What a type holds, however wide it is and however it is laid out.
fn kind(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Null => "null",
        DataType::Boolean => "boolean",
        _ if data_type.is_integer() => "integer",
        _ if data_type.is_floating() => "floating",
        _ if data_type.is_decimal() => "decimal",
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Time32(_) | DataType::Time64(_) => "time",
        // A time on the clock of some place, and a point in time.
        DataType::Timestamp(_, None) => "local timestamp",
        DataType::Timestamp(_, Some(_)) => "timestamp",
        DataType::Duration(_) => "duration",
        DataType::Interval(IntervalUnit::YearMonth) => "months",
        DataType::Interval(IntervalUnit::DayTime) => "days and milliseconds",
        DataType::Interval(IntervalUnit::MonthDayNano) => "months, days and nanoseconds",
        _ if data_type.is_text() => "text",
        DataType::FixedSizeBinary(_) => "bytes",
        _ if data_type.is_binary() => "bytes",
        DataType::Struct(_) => "struct",
        DataType::Map { .. } => "map",
        DataType::Union { .. } => "union",
        _ => "list",
    }
}
