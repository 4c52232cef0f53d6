//! [`PyBatch`]: the class `RecordBatch`.

use arrow_device::abi::ArrowArrayStream;
use arrow_device::{ArrayStream, Batch, DeviceType};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PySlice, PyString};

use crate::array::{self, PyArray, like};
use crate::error::OrRaise;
use crate::schema::{check_request, position};
use crate::{capsule, compose, to_numpy};

/// A record batch: columns of one length on one device. It is an ``Array`` of structs, and has all
/// that an array has.
///
/// >>> import arrow_device as ad, pyarrow as pa
/// >>> b = ad.record_batch(pa.record_batch({"x": [1, 2], "y": ["a", None]}))
/// >>> b
/// <arrow_device.RecordBatch 2 rows, 2 columns, on cpu>
/// x     | y
/// int64 | utf8
/// ------+-----
///     1 | a
///     2 | null
/// >>> b.column("x")
/// <arrow_device.Array int64, 2 elements, 0 nulls, on cpu>
#[pyclass(frozen, extends = PyArray, weakref, module = "arrow_device", name = "RecordBatch")]
#[derive(Debug)]
pub(crate) struct PyBatch;

/// The batch of an object of the class, which its base class has.
fn batch<'a>(slf: &'a Bound<'_, PyBatch>) -> PyResult<&'a Batch> {
    let batch = slf.as_super().get().batch();
    batch.ok_or_else(|| PyTypeError::new_err("this object is no record batch"))
}

#[pymethods]
impl PyBatch {
    /// A column by its name, or rows by a slice.
    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if key.is_instance_of::<PyString>() {
            let column = Self::column(slf, key)?;
            return Ok(Bound::new(slf.py(), column)?.into_any());
        }
        if !key.is_instance_of::<PySlice>() {
            let message = "a record batch is cut with a slice, such as b[2:5], and has columns, b[\"x\"] or b.column(0); \
                           rows are those of b.to_pylist()";
            return Err(PyTypeError::new_err(message));
        }
        let rows = PyArray::part(slf.as_super(), key)?;
        Ok(rows.into_bound(slf.py()).into_any())
    }

    /// The Arrow PyCapsule protocol: a capsule with an ``ArrowArrayStream`` of this one batch in
    /// host memory.
    ///
    /// For data on a device this raises ``NotSupportedError``, unless copies were allowed by
    /// ``with_host_copies``.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        slf: &Bound<'py, Self>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let this = slf.as_super().get();
        let schema = this.array().schema().or_raise()?;
        check_request(requested_schema, &schema)?;
        let instead = "__arrow_c_device_array__";
        let array = this.for_host(slf.py(), "__arrow_c_stream__", instead)?;
        let mut out = ArrowArrayStream::empty();
        let stream = ArrayStream::new(schema, DeviceType::CPU, [Ok(array)]);
        stream.export_host(&mut out).or_raise()?;
        capsule::wrap(slf.py(), out)
    }

    /// How many rows.
    #[getter]
    fn num_rows(slf: &Bound<'_, Self>) -> PyResult<usize> {
        batch(slf).map(Batch::row_count)
    }

    /// How many columns.
    #[getter]
    fn num_columns(slf: &Bound<'_, Self>) -> PyResult<usize> {
        batch(slf).map(Batch::column_count)
    }

    /// The names of the columns.
    #[getter]
    fn column_names(slf: &Bound<'_, Self>) -> PyResult<Vec<String>> {
        Ok(batch(slf)?.fields().iter().map(|field| field.name().to_owned()).collect())
    }

    /// The columns. One that is kept keeps the memory of the whole batch only where another library
    /// made it.
    #[getter]
    fn columns(slf: &Bound<'_, Self>) -> PyResult<Vec<PyArray>> {
        let columns = batch(slf)?.columns().or_raise()?;
        Ok(columns.into_iter().map(PyArray::new).collect())
    }

    /// A column by its name or its place.
    fn column(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        let batch = batch(slf)?;
        let fields = batch.fields();
        let find = |name: &str| fields.iter().position(|field| field.name() == name);
        let index = position(key, fields.len(), find)?;
        batch.column(index).or_raise().map(PyArray::new)
    }

    /// All columns as arrays of numpy, by their names: each as ``numpy.asarray`` makes it, in a
    /// tenth of the time where there are many. Numbers and times without nulls are shared and
    /// read-only, and keep the memory of the whole batch.
    ///
    /// For data on a device this raises ``NotSupportedError``, unless copies were allowed by
    /// ``with_host_copies``.
    ///
    /// >>> import arrow_device as ad
    /// >>> ad.record_batch({"x": [1, 2], "y": [0.5, 1.5]}).to_numpy()
    /// {'x': array([1, 2]), 'y': array([0.5, 1.5])}
    fn to_numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let this = slf.as_super().get();
        if this.is_on_host() {
            return to_numpy::columns(slf.as_any(), batch(slf)?);
        }
        let copy = this.for_host(slf.py(), "to_numpy", "to_host()")?;
        let copy = array::wrap(slf.py(), copy, true)?.into_bound(slf.py());
        let columns = copy.get().batch().map(|batch| to_numpy::columns(copy.as_any(), batch));
        columns.ok_or_else(|| PyTypeError::new_err("this object is no record batch"))?
    }

    /// A batch of these columns, by their names or their places, in this order. Copies nothing.
    fn select(slf: &Bound<'_, Self>, columns: &Bound<'_, PyAny>) -> PyResult<Py<PyArray>> {
        like(slf.as_super(), compose::select(batch(slf)?, columns)?)
    }

    /// The same batch with other names: a list with that of each column, or a dictionary from old
    /// ones to new ones. Copies nothing.
    fn rename(slf: &Bound<'_, Self>, names: &Bound<'_, PyAny>) -> PyResult<Py<PyArray>> {
        like(slf.as_super(), compose::rename(batch(slf)?, names)?)
    }
}
