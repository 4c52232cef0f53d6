//! Columns as arrays of numpy, all columns of a batch in one call.
//!
//! Numbers and times of 64 bits without nulls that lie in host memory are shared: numpy is told
//! their address, and which object keeps the memory. That object is the batch, and not one for
//! each column, which is most of what makes this way short. Every other column is what
//! `numpy.asarray` makes of it.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};

use arrow_device::{Array, Batch, DataType, Error, ErrorKind, HostArray, TimeUnit};
use numpy::datetime::{Datetime, Timedelta, units};
use numpy::npyffi::{self, NpyTypes, PY_ARRAY_API, PyArrayObject, npy_intp};
use numpy::{Element, PyArrayDescr, PyArrayDescrMethods as _};
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyDict};
use pyo3::{PyErr, intern};

use crate::array::PyArray;
use crate::error::{OrRaise, invalid};
use crate::interrupt;

/// The columns of a batch in host memory by their names. `owner` is a Python object that keeps the
/// batch's memory.
pub(crate) fn columns<'py>(
    owner: &Bound<'py, PyAny>,
    batch: &Batch,
) -> PyResult<Bound<'py, PyDict>> {
    let py = owner.py();
    let rows = readable(py, batch.as_array())?;
    let range = (rows.array().offset(), rows.len());
    let columns = PyDict::new(py);
    for (index, field) in batch.fields().iter().enumerate() {
        let column = rows.child(index).or_raise()?;
        let made = match shared(owner, &column, range)? {
            Some(shared) => shared,
            None => {
                let column = batch.column(index).or_raise()?;
                converted(py, &column).map_err(|error| at_column(py, error, field.name()))?
            }
        };
        columns.set_item(field.name(), made)?;
    }
    if columns.len() != batch.column_count() {
        let message = "two columns have one name, and a dictionary has each once: rename them, or take column by column";
        return Err(invalid(message));
    }
    Ok(columns)
}

/// An array in host memory. `owner` is a Python object that keeps the array's memory.
pub(crate) fn array<'py>(owner: &Bound<'py, PyAny>, array: &Array) -> PyResult<Bound<'py, PyAny>> {
    let py = owner.py();
    let host = readable(py, array)?;
    match shared(owner, &host, (0, host.len()))? {
        Some(shared) => Ok(shared),
        None => converted(py, array),
    }
}

/// Waits for an array, and loads numpy.
fn readable(py: Python<'_>, array: &Array) -> PyResult<HostArray> {
    interrupt::wait(py, array)?;
    load(py)?;
    array.host().or_raise()
}

/// Loads numpy, and its C interface, without which the functions of the crate panic.
fn load(py: Python<'_>) -> PyResult<()> {
    static LOADED: PyOnceLock<()> = PyOnceLock::new();
    LOADED.get_or_try_init(py, || {
        // Runs code of Python, which a signal may end and which is not there in a module that is
        // numpy by name alone. The crate keeps the answer.
        let module = numpy::get_array_module(py)?;
        module.getattr(intern!(py, "_ARRAY_API"))?.cast_into::<PyCapsule>()?;
        // Now the first use runs no code of Python. What is left is a version of numpy that the
        // crate does not know.
        // SAFETY: the function asks for nothing but the interpreter.
        let first = || unsafe { PY_ARRAY_API.PyArray_GetNDArrayCFeatureVersion(py) };
        catch_unwind(AssertUnwindSafe(first)).map(drop).map_err(|_| {
            PyImportError::new_err("this version of numpy has another C interface than is known")
        })
    })?;
    Ok(())
}

/// What `numpy.asarray` makes of an array.
fn converted<'py>(py: Python<'py>, array: &Array) -> PyResult<Bound<'py, PyAny>> {
    let module = py.import(intern!(py, "arrow_device._numpy"))?;
    let object = Py::new(py, PyArray::new(array.clone()))?;
    module.getattr(intern!(py, "asarray"))?.call1((object, py.None(), py.None()))
}

/// The exception with a note that says which column it is about.
fn at_column(py: Python<'_>, error: PyErr, name: &str) -> PyErr {
    let note = format!("in column {name:?}; select() leaves columns out");
    let noted = error.value(py).call_method1(intern!(py, "add_note"), (note,));
    // Without its note the exception is still the exception.
    noted.map_or_else(|failed| failed, |_| error)
}

/// An array of numpy over some of the elements, from an offset on, where they lie; `None` where
/// numpy has no such type, and where an element is null or could be.
fn shared<'py>(
    owner: &Bound<'py, PyAny>,
    host: &HostArray,
    (offset, len): (usize, usize),
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (py, array) = (owner.py(), host.array());
    if array.null_count() != Some(0) {
        return Ok(None);
    }
    let Some(descr) = descr(py, array.data_type())? else { return Ok(None) };
    let bytes = host.buffer(1).or_raise()?;
    let width = descr.itemsize();
    let first = array.offset().saturating_add(offset);
    let place = first.checked_mul(width).zip(len.checked_mul(width));
    let elements = place.and_then(|(start, bytes_long)| bytes.get(start..)?.get(..bytes_long));
    let address = match elements {
        // Any aligned address will do: numpy makes memory of its own where it gets none.
        _ if len == 0 => NonNull::<u64>::dangling().as_ptr().cast::<u8>(),
        Some(elements) => elements.as_ptr().cast_mut(),
        None => {
            let message = "the buffer ends before the elements";
            return Err(Error::new(ErrorKind::InvalidData, message).during("to_numpy")).or_raise();
        }
    };
    let mut dims = [npy_intp::try_from(len)?];
    // SAFETY: numpy is loaded, as its type of the elements says, and this is a type of numpy's.
    let class = unsafe { npyffi::get_type_object(py, NpyTypes::PyArray_Type) };
    // SAFETY: numpy's documentation of `PyArray_NewFromDescr`: the interpreter is attached, the
    // type is numpy's own, a reference to the type of the elements is handed over, there are as
    // many lengths as dimensions, and without strides the elements lie one behind the other.
    // `buffer` says that the bytes of all elements are there; where there is no element, numpy
    // reads nothing. No flag is set, so that numpy writes nothing.
    let made = unsafe {
        PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            class,
            descr.into_dtype_ptr(),
            1,
            dims.as_mut_ptr(),
            ptr::null_mut(),
            address.cast::<c_void>(),
            0,
            ptr::null_mut(),
        )
    };
    // SAFETY: the documentation of `PyArray_NewFromDescr`: a new reference, or null with an
    // exception set.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, made) }?;
    let base = owner.clone().into_ptr();
    // SAFETY: numpy's documentation of `PyArray_SetBaseObject`: the array has no base yet, and a
    // reference to the base is handed over. The base keeps the memory, as the caller promises, for
    // an object of this package does not change.
    let set = unsafe {
        PY_ARRAY_API.PyArray_SetBaseObject(py, made.as_ptr().cast::<PyArrayObject>(), base)
    };
    if set == 0 { Ok(Some(made)) } else { Err(PyErr::fetch(py)) }
}

/// numpy's type for elements that numpy has as they lie.
fn descr<'py>(py: Python<'py>, of: &DataType) -> PyResult<Option<Bound<'py, PyArrayDescr>>> {
    static HALF: PyOnceLock<Py<PyArrayDescr>> = PyOnceLock::new();
    Ok(Some(match of {
        DataType::Int8 => i8::get_dtype(py),
        DataType::Int16 => i16::get_dtype(py),
        DataType::Int32 => i32::get_dtype(py),
        DataType::Int64 => i64::get_dtype(py),
        DataType::UInt8 => u8::get_dtype(py),
        DataType::UInt16 => u16::get_dtype(py),
        DataType::UInt32 => u32::get_dtype(py),
        DataType::UInt64 => u64::get_dtype(py),
        DataType::Float16 => {
            let half = HALF.get_or_try_init(py, || PyArrayDescr::new(py, "e").map(Bound::unbind));
            half?.bind(py).clone()
        }
        DataType::Float32 => f32::get_dtype(py),
        DataType::Float64 => f64::get_dtype(py),
        DataType::Date64 => Datetime::<units::Milliseconds>::get_dtype(py),
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => Datetime::<units::Seconds>::get_dtype(py),
            TimeUnit::Millisecond => Datetime::<units::Milliseconds>::get_dtype(py),
            TimeUnit::Microsecond => Datetime::<units::Microseconds>::get_dtype(py),
            TimeUnit::Nanosecond => Datetime::<units::Nanoseconds>::get_dtype(py),
        },
        DataType::Duration(unit) => match unit {
            TimeUnit::Second => Timedelta::<units::Seconds>::get_dtype(py),
            TimeUnit::Millisecond => Timedelta::<units::Milliseconds>::get_dtype(py),
            TimeUnit::Microsecond => Timedelta::<units::Microseconds>::get_dtype(py),
            TimeUnit::Nanosecond => Timedelta::<units::Nanoseconds>::get_dtype(py),
        },
        _ => return Ok(None),
    }))
}
