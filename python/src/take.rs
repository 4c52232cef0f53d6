//! Taking data over from any object: which protocols it speaks, and which of them is preferred.

use arrow_device::dlpack::{Conversion, CopyPolicy, Tensor};
use arrow_device::{Array, ArrayStream, Batch, Schema};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::array::PyArray;
use crate::error::{OrRaise, invalid};
use crate::items::Failure;
use crate::stream::PyStream;
use crate::tensor::PyTensor;
use crate::{buffer, capsule, dlpack_in};

/// The array of an object that speaks the Arrow PyCapsule protocol, DLPack or the buffer protocol,
/// in that order.
pub(crate) fn array(object: &Bound<'_, PyAny>) -> PyResult<Array> {
    if let Some(array) = arrow_array(object)? {
        return Ok(array);
    }
    if let Ok(tensor) = object.cast::<PyTensor>() {
        return from_tensor(object.py(), tensor.get().tensor());
    }
    if let Some(stream) = stream(object)? {
        return only_chunk(object, stream);
    }
    if object.hasattr(intern!(object.py(), "__dlpack__"))? {
        return from_tensor(object.py(), &dlpack_in::take(object, None, None)?);
    }
    // SAFETY: an object that is alive.
    if unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) } != 0 {
        return from_tensor(object.py(), &buffer::take(object)?);
    }
    let message = format!(
        "{} speaks neither the Arrow PyCapsule protocol (__arrow_c_device_array__, __arrow_c_array__) nor DLPack (__dlpack__) \
         nor the buffer protocol",
        object.get_type()
    );
    Err(PyTypeError::new_err(message))
}

/// The batch of an object, or of a dictionary of columns.
pub(crate) fn batch(object: &Bound<'_, PyAny>) -> PyResult<Array> {
    let array = match object.cast::<PyDict>() {
        Ok(columns) => {
            let mut named = Vec::with_capacity(columns.len());
            // A column's protocol method may change the dictionary.
            for pair in columns.items() {
                let (name, column) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
                named.push((name.extract::<String>()?, array(&column)?));
            }
            Batch::from_columns(named).or_raise()?.into()
        }
        Err(_) => array(object)?,
    };
    Batch::try_from(array).or_raise().map(Array::from)
}

fn from_tensor(py: Python<'_>, tensor: &Tensor) -> PyResult<Array> {
    let conversion = Conversion::new().copying(CopyPolicy::IfNeeded);
    py.detach(|| tensor.to_array(&conversion)).or_raise()
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
        return capsule::take_device_stream(&export.call0()?).map(Some);
    }
    if let Some(export) = object.getattr_opt(intern!(object.py(), "__arrow_c_stream__"))? {
        return capsule::take_stream(&export.call0()?).map(Some);
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

/// The schema of an object with `__arrow_c_schema__`.
pub(crate) fn schema(object: &Bound<'_, PyAny>) -> PyResult<Schema> {
    match object.getattr_opt(intern!(object.py(), "__arrow_c_schema__"))? {
        Some(export) => capsule::take_schema(&export.call0()?),
        None => {
            let message = format!("{} has no __arrow_c_schema__", object.get_type());
            Err(PyTypeError::new_err(message))
        }
    }
}
