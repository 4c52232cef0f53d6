//! Taking data over from any object: which protocols it speaks, and which of them is preferred.

use arrow_device::dlpack::{Conversion, CopyPolicy, Tensor};
use arrow_device::{Array, ArrayStream, Batch, Schema};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};

use crate::array::PyArray;
use crate::error::{OrRaise, invalid};
use crate::items::Failure;
use crate::stream::PyStream;
use crate::tensor::PyTensor;
use crate::{buffer, capsule, cuda_array, dlpack_in, interrupt, numpy_times, sycl_array, values};

/// The array of an object that speaks the Arrow PyCapsule protocol, DLPack or the buffer protocol,
/// in that order.
pub(crate) fn array(object: &Bound<'_, PyAny>) -> PyResult<Array> {
    let py = object.py();
    if let Some(array) = arrow_array(object)? {
        return Ok(array);
    }
    if let Ok(tensor) = object.cast::<PyTensor>() {
        return from_tensor(py, tensor.get().tensor().clone());
    }
    if let Some(stream) = stream(object)? {
        return only_chunk(object, stream);
    }
    if let Some(array) = numpy_times::take(object)? {
        return Ok(array);
    }
    if object.hasattr(intern!(py, "__dlpack__"))? {
        return from_tensor(py, tensor(object, None)?);
    }
    if object.hasattr(intern!(py, "__cuda_array_interface__"))? {
        return from_tensor(py, cuda_array::take(object)?);
    }
    if object.hasattr(intern!(py, "__sycl_usm_array_interface__"))? {
        return from_tensor(py, sycl_array::take(object)?);
    }
    // SAFETY: an object that is alive.
    if unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) } != 0 {
        return from_tensor(py, buffer::take(object)?);
    }
    if object.hasattr(intern!(py, "collect"))? {
        return Err(not_collected(object));
    }
    refuse_flight_reader(object)?;
    let message = format!(
        "{} speaks neither the Arrow PyCapsule protocol (__arrow_c_device_array__, __arrow_c_array__) nor DLPack (__dlpack__) \
         nor the buffer protocol",
        object.get_type()
    );
    Err(PyTypeError::new_err(message))
}

/// A query that has not run, such as a `LazyFrame` of polars.
pub(crate) fn not_collected(object: &Bound<'_, PyAny>) -> PyErr {
    let message = format!(
        "{} has no data yet; collect it first, and pass what `collect()` returns",
        object.get_type()
    );
    PyTypeError::new_err(message)
}

/// Whether an object is a reader of `pyarrow.flight`, whose chunks have application metadata beside
/// the batches.
pub(crate) fn is_flight_reader(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    Ok(object.hasattr(intern!(py, "read_chunk"))? && object.hasattr(intern!(py, "to_reader"))?)
}

/// Refuses such a reader where one array is wanted, before anything of it is read.
fn refuse_flight_reader(object: &Bound<'_, PyAny>) -> PyResult<()> {
    if !is_flight_reader(object)? {
        return Ok(());
    }
    let class = object.get_type();
    let message =
        format!("{class} has any number of batches; read it with arrow_device.stream(obj)");
    Err(PyTypeError::new_err(message))
}

/// Whether DLPack and the buffer protocol are two ways to one memory, of an object that can be part
/// of a cycle: of a class that is derived from numpy's and leaves `__dlpack__` as it is.
fn gives_its_buffer(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let (py, class) = (object.py(), object.get_type());
    // SAFETY: a type that is alive.
    let flags = unsafe { ffi::PyType_GetFlags(class.as_type_ptr()) };
    if flags & ffi::Py_TPFLAGS_HAVE_GC == 0 {
        return Ok(false);
    }
    for base in class.mro() {
        let base = base.cast_into::<PyType>()?;
        if base.module()? == "numpy" && base.name()? == "ndarray" {
            let method = intern!(py, "__dlpack__");
            return Ok(class.getattr(method)?.is(&base.getattr(method)?));
        }
    }
    Ok(false)
}

/// The tensor of an object that speaks DLPack, where it is; `copy` is not true.
pub(crate) fn tensor(object: &Bound<'_, PyAny>, copy: Option<bool>) -> PyResult<Tensor> {
    // What numpy holds of its own for a tensor, the collector of cycles does not see.
    if gives_its_buffer(object)?
        && let Ok(tensor) = buffer::take(object)
    {
        return Ok(tensor);
    }
    dlpack_in::take(object, None, None, copy)
}

/// The batch of an object, or of a dictionary of columns.
pub(crate) fn batch(object: &Bound<'_, PyAny>) -> PyResult<Array> {
    let array = match object.cast::<PyDict>() {
        Ok(columns) => {
            let mut named = Vec::with_capacity(columns.len());
            // A column's protocol method may change the dictionary.
            for pair in columns.items() {
                let (name, column) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
                named.push((name.extract::<String>()?, array_or_values(&column, None)?));
            }
            Batch::from_columns(named).or_raise()?.into()
        }
        Err(_) => array_or_values(object, None)?,
    };
    Batch::try_from(array).or_raise().map(Array::from)
}

/// The array of an object, as above, or of Python values. What speaks a protocol has a type
/// already.
pub(crate) fn array_or_values(object: &Bound<'_, PyAny>, of: Option<&Schema>) -> PyResult<Array> {
    // Lists and tuples speak no protocol, and are not asked.
    let is_list =
        object.is_exact_instance_of::<PyList>() || object.is_exact_instance_of::<PyTuple>();
    if is_list || !speaks(object)? && values::are_values(object) {
        if !is_list {
            refuse_flight_reader(object)?;
        }
        return values::array(object, of);
    }
    if let Some(list) = numpy_times::listed(object)? {
        return values::array(&list, of);
    }
    let array = array(object)?;
    match of {
        Some(of) if !array.data_type().equals_ignoring_metadata(of.data_type()) => {
            let (have, wanted) = (array.data_type(), of.data_type());
            let message =
                format!("the array is of {have} and not of {wanted}, and nothing is converted");
            Err(PyTypeError::new_err(message))
        }
        _ => Ok(array),
    }
}

/// Whether an object speaks a protocol by which data is taken over.
fn speaks(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    let methods = [
        intern!(py, "__arrow_c_device_array__"),
        intern!(py, "__arrow_c_array__"),
        intern!(py, "__arrow_c_device_stream__"),
        intern!(py, "__arrow_c_stream__"),
        intern!(py, "__dlpack__"),
        intern!(py, "__cuda_array_interface__"),
        intern!(py, "__sycl_usm_array_interface__"),
    ];
    for method in methods {
        if object.hasattr(method)? {
            return Ok(true);
        }
    }
    // SAFETY: Python's documentation of `PyObject_CheckBuffer`: it takes any object, which lives.
    Ok(unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) } != 0)
}

fn from_tensor(py: Python<'_>, tensor: Tensor) -> PyResult<Array> {
    let conversion = Conversion::new().copying(CopyPolicy::IfNeeded);
    let is_long = crate::tensor::is_long(&tensor);
    interrupt::run_if(py, is_long, move || tensor.to_array(&conversion))?.or_raise()
}

/// The array of an object that speaks the Arrow PyCapsule protocol for arrays. Where it has both
/// methods, the one for devices is preferred; the other one means host memory.
pub(crate) fn arrow_array(object: &Bound<'_, PyAny>) -> PyResult<Option<Array>> {
    if let Ok(array) = object.cast::<PyArray>() {
        return Ok(Some(array.get().array().clone()));
    }
    if let Some(export) = object.getattr_opt(intern!(object.py(), "__arrow_c_device_array__"))? {
        let (schema, array) = pair(&export.call0()?)?;
        let schema = capsule::take_schema(&schema)?;
        return capsule::take_device_array(&array, &schema).map(Some);
    }
    if let Some(export) = object.getattr_opt(intern!(object.py(), "__arrow_c_array__"))? {
        let (schema, array) = pair(&export.call0()?)?;
        let schema = capsule::take_schema(&schema)?;
        return capsule::take_array(&array, &schema).map(Some);
    }
    Ok(None)
}

fn pair<'py>(answer: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let both = answer.cast::<PyTuple>().ok().filter(|both| both.len() == 2);
    let Some(both) = both else {
        let found = answer.get_type();
        let message = format!("expected two capsules, a schema's and an array's, got {found}");
        return Err(PyTypeError::new_err(message));
    };
    Ok((both.get_item(0)?, both.get_item(1)?))
}

/// The stream of an object that speaks the Arrow PyCapsule protocol for streams, as above.
pub(crate) fn stream(object: &Bound<'_, PyAny>) -> PyResult<Option<ArrayStream>> {
    if let Some(export) = object.getattr_opt(intern!(object.py(), "__arrow_c_device_stream__"))? {
        let taken = capsule::take_device_stream(&export.call0()?);
        return taken.map(Some).map_err(|error| explained(object.py(), error));
    }
    if let Some(export) = object.getattr_opt(intern!(object.py(), "__arrow_c_stream__"))? {
        let taken = capsule::take_stream(&export.call0()?);
        return taken.map(Some).map_err(|error| explained(object.py(), error));
    }
    Ok(None)
}

/// The one array of a stream: a table or a series in one piece is as good as an array, and one
/// without a piece is an array without elements. Where there are several, the exception has the
/// whole stream, for what was read of a reader cannot be put back.
fn only_chunk(object: &Bound<'_, PyAny>, mut stream: ArrayStream) -> PyResult<Array> {
    let (first, more) = object.py().detach(|| {
        let first = stream.next().transpose();
        let more = stream.next().transpose();
        (first, more)
    });
    let schema = stream.schema().clone();
    match (first.or_raise()?, more.or_raise()?) {
        (Some(array), None) => Ok(array),
        (None, _) => Array::empty(schema).or_raise(),
        (Some(first), Some(more)) => {
            let message = format!(
                "{} has several chunks, and an array is one; read it with arrow_device.stream(obj), or go on with this \
                 exception's `stream`, which has all of them",
                object.get_type()
            );
            let of = stream.device_type();
            let whole = [Ok(first), Ok(more)].into_iter().chain(stream);
            Err(with_stream(object.py(), invalid(message), ArrayStream::new(schema, of, whole)))
        }
    }
}

/// An exception that has the stream of which something was read already.
pub(crate) fn with_stream(py: Python<'_>, exception: PyErr, stream: ArrayStream) -> PyErr {
    let attached = Py::new(py, PyStream::new(stream, Failure::default()))
        .and_then(|stream| exception.value(py).setattr(intern!(py, "stream"), stream));
    attached.err().unwrap_or(exception)
}

/// The schema of an object with `__arrow_c_schema__`, or with a `schema` that has it.
pub(crate) fn schema(object: &Bound<'_, PyAny>) -> PyResult<Schema> {
    let method = intern!(object.py(), "__arrow_c_schema__");
    if let Some(export) = object.getattr_opt(method)? {
        return capsule::take_schema(&export.call0()?)
            .map_err(|error| explained(object.py(), error));
    }
    let inner = object.getattr_opt(intern!(object.py(), "schema"))?;
    if let Some(export) = inner.map(|inner| inner.getattr_opt(method)).transpose()?.flatten() {
        return capsule::take_schema(&export.call0()?)
            .map_err(|error| explained(object.py(), error));
    }
    let message =
        format!("{} has no __arrow_c_schema__, and no schema that has it", object.get_type());
    Err(PyTypeError::new_err(message))
}

/// The same exception with what to do about types that are polars' own.
fn explained(py: Python<'_>, error: PyErr) -> PyErr {
    if !error.value(py).to_string().contains("`_pl") {
        return error;
    }
    let message = "a type of polars' own, such as Int128, is no Arrow type; cast it, such as to polars.Decimal(38, 0)";
    let raised = invalid(message);
    raised.set_cause(py, Some(error));
    raised
}
