//! The compiled part of the Python package `arrow_device`.
//!
//! Each module makes one part of the library a Python class, or speaks one of Python's protocols.
//! The package's own Python files (`package/arrow_device`) say what of it is public. Three rules
//! hold everywhere:
//!
//! * Whatever may block does so while Python is detached, and what a user would call a wait can be
//!   interrupted.
//! * While Python is detached, data is used through a share of one's own, and not through that of
//!   an object of Python's: see [`buffer::visit_held`].
//! * What is freed here needs no interpreter: a release callback or a deleter runs on any thread,
//!   with the interpreter's lock or without it, also while Python ends (see [`attach`]).

mod array;
mod attach;
mod backends;
mod batch;
mod buffer;
mod capsule;
mod compose;
mod cuda_array;
mod described;
mod device;
mod digits;
mod dlpack_in;
mod error;
mod exchange;
mod found;
mod gpus;
mod host_buffer;
mod html;
mod infer;
mod interrupt;
mod items;
mod iterable;
mod kwargs;
mod leaf;
mod live;
mod numpy_times;
mod pickle;
mod pylist;
mod schema;
#[cfg(target_os = "linux")]
mod share;
mod sizes;
mod software;
mod stream;
mod streams;
mod sycl_array;
mod take;
mod tensor;
mod to_numpy;
mod types;
mod values;

use pyo3::prelude::*;

/// The compiled module.
// What is dropped without the interpreter is given up by one thread at a time, by its lock.
#[pymodule(gil_used = true)]
mod _native {
    use pyo3::prelude::*;
    use pyo3::types::{PyDict, PyTuple};

    #[pymodule_export]
    use crate::array::PyArray;
    #[pymodule_export]
    use crate::batch::PyBatch;
    #[pymodule_export]
    use crate::device::{PyDevice, PyQueue};
    #[pymodule_export]
    use crate::schema::{PyDataType, PySchema};
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use crate::share::{PyReceiver, PySender, PyTicket, as_array, open, to_shareable};
    #[pymodule_export]
    use crate::stream::PyStream;
    #[pymodule_export]
    use crate::tensor::PyTensor;

    use crate::attach::{self, AtEnd};
    use crate::{
        array, backends, compose, device, dlpack_in, interrupt, iterable, live, pickle, software,
        take, types,
    };

    #[pymodule_export]
    #[allow(non_upper_case_globals)] // Python's name.
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Takes data over from any object that speaks the Arrow PyCapsule protocol, DLPack or Python's
    /// buffer protocol.
    ///
    /// Nothing is copied where the protocol shares memory, and nobody may write to that memory as
    /// long as the array lives. With a device, the data is copied there unless it is there already.
    ///
    /// >>> import arrow_device as ad, array
    /// >>> ad.array(array.array("d", [0.5, 1.5]))
    /// <arrow_device.Array float64, 2 elements, 0 nulls, on cpu>
    ///
    /// A list, a tuple or any other iterable is taken for Python values, which are copied; ``None``
    /// is a null. Their type is found out, or ``type``: a ``DataType``, a type of another library,
    /// or the name of one. Of anything else ``type`` has to be the type: nothing is converted.
    ///
    /// >>> ad.array([1, None, 2]).type, ad.array([1, None, 2], type="int8").to_pylist()
    /// (DataType('int64'), [1, None, 2])
    #[pyfunction(name = "array")]
    #[pyo3(signature = (obj, device=None, *, r#type=None))]
    fn make_array(
        obj: &Bound<'_, PyAny>,
        device: Option<&Bound<'_, PyAny>>,
        r#type: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyArray>> {
        let _end = AtEnd::of(obj.py());
        let of = r#type.map(types::named).transpose()?;
        let array = take::array_or_values(obj, of.as_ref())?;
        array::wrap(obj.py(), moved(obj.py(), array, device)?, false)
    }

    /// Takes a record batch over, like ``array``: an object of a struct type, a table in one chunk,
    /// a dictionary of columns, or a list of dictionaries.
    ///
    /// >>> import arrow_device as ad, numpy as np
    /// >>> ad.record_batch({"x": np.arange(3), "y": np.ones(3)}).column_names
    /// ['x', 'y']
    #[pyfunction]
    #[pyo3(signature = (obj, device=None))]
    fn record_batch(
        obj: &Bound<'_, PyAny>,
        device: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyArray>> {
        let _end = AtEnd::of(obj.py());
        let array = moved(obj.py(), take::batch(obj)?, device)?;
        array::wrap(obj.py(), array, true)
    }

    fn moved(
        py: Python<'_>,
        array: arrow_device::Array,
        device: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<arrow_device::Array> {
        match device {
            Some(device) => {
                let (to, queue) = device::destination(device)?;
                array::to_device(py, &array, to, queue)
            }
            None => Ok(array),
        }
    }

    /// Takes a stream over: of a table, a reader or a query result of another library, of one
    /// array, or of an iterable of arrays.
    ///
    /// The schema of an iterable is that of its first array; an empty one needs ``schema``. Of
    /// anything else ``schema`` has to be the schema: nothing is converted.
    ///
    /// >>> import arrow_device as ad, numpy as np
    /// >>> [len(chunk) for chunk in ad.stream(np.zeros(n) for n in (1, 2))]
    /// [1, 2]
    #[pyfunction]
    #[pyo3(signature = (obj, schema=None))]
    fn stream(obj: &Bound<'_, PyAny>, schema: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyStream>> {
        let _end = AtEnd::of(obj.py());
        let schema = schema.map(take::schema).transpose()?;
        if let Ok(stream) = obj.cast::<PyStream>() {
            stream.get().require_type(schema.as_ref())?;
            return Ok(stream.clone().unbind());
        }
        Py::new(obj.py(), crate::stream::of(obj, schema)?)
    }

    /// Takes a tensor over from any object with ``__dlpack__`` and ``__dlpack_device__``.
    ///
    /// Memory is shared unless ``copy`` is true or it has to get to another ``device``;
    /// ``copy=False`` never copies. Nobody may write to shared memory as long as the tensor lives:
    /// other libraries' arrays can be written to, and what they write would show here. Tensors on a
    /// device that is not supported are a ``TypeError``.
    ///
    /// >>> import arrow_device as ad, numpy as np
    /// >>> ad.from_dlpack(np.eye(2)).shape
    /// (2, 2)
    #[pyfunction]
    #[pyo3(signature = (x, /, *, device=None, copy=None))]
    fn from_dlpack(
        x: &Bound<'_, PyAny>,
        device: Option<&Bound<'_, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<PyTensor> {
        let _end = AtEnd::of(x.py());
        let to = device.map(device::destination).transpose()?;
        let (device, queue) = to.map_or((None, None), |(device, queue)| (Some(device), queue));
        let taken = match (device, copy) {
            (None, None | Some(false)) => take::tensor(x, copy),
            _ => dlpack_in::take(x, device, queue, copy),
        };
        taken.map(PyTensor::new)
    }

    /// Several arrays or record batches of one type as one, in host memory: a copy.
    ///
    /// Takes whatever ``array`` takes. Those that live on a device are refused, unless copies were
    /// allowed by ``with_host_copies``, or ``device`` says where the result shall be: then all goes
    /// through the host and from there to that device.
    ///
    /// >>> import arrow_device as ad
    /// >>> ad.concat([ad.array([1, 2]), ad.array([None, 3])]).to_pylist()
    /// [1, 2, None, 3]
    #[pyfunction]
    #[pyo3(signature = (arrays, device=None))]
    fn concat(
        arrays: &Bound<'_, PyAny>,
        device: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyArray>> {
        let py = arrays.py();
        let _end = AtEnd::of(py);
        let to = device.map(device::destination).transpose()?;
        let parts = iterable::all(arrays, |item| match item.cast::<PyArray>() {
            Ok(array) => Ok(array.clone()),
            Err(_) => Ok(array::wrap(py, take::array(&item)?, false)?.into_bound(py)),
        })?;
        let is_batch =
            !parts.is_empty() && parts.iter().all(|part| part.is_instance_of::<PyBatch>());
        array::wrap(py, compose::concat(py, &parts, to)?, is_batch)
    }

    /// The schema of any object with ``__arrow_c_schema__``, or with a ``schema`` that has it: a
    /// table, a reader, a record batch. Reads no data.
    ///
    /// >>> import arrow_device as ad, pyarrow as pa
    /// >>> ad.schema(pa.int32()).type
    /// DataType('int32')
    #[pyfunction(name = "schema")]
    fn make_schema(obj: &Bound<'_, PyAny>) -> PyResult<PySchema> {
        take::schema(obj).map(PySchema::new)
    }

    /// A device by its name, such as ``"cuda:0"``, or by type and number. Opens nothing.
    ///
    /// >>> import arrow_device as ad
    /// >>> ad.device("opencl").id
    /// 0
    #[pyfunction(name = "device")]
    fn make_device(name: &Bound<'_, PyAny>) -> PyResult<PyDevice> {
        let id = device::named(name)?;
        if id.device_type == arrow_device::DeviceType::EXT_DEV {
            // Arrays carry a number of their own for a software device.
            return Ok(PyDevice::new(device::open(name.py(), id)?.device.id()));
        }
        Ok(PyDevice::new(id))
    }

    /// All devices that there are, and for each backend without one the reason.
    #[pyfunction]
    fn _found(py: Python<'_>) -> PyResult<(Vec<PyDevice>, Bound<'_, PyDict>)> {
        let (found, missing) = py.detach(backends::found);
        let reasons = PyDict::new(py);
        for (name, why) in missing {
            reasons.set_item(name, why.to_string())?;
        }
        Ok((found.into_iter().map(|found| PyDevice::new(found.id)).collect(), reasons))
    }

    /// What a pickle has, validated in full. Nobody may write to the buffers as long as it lives.
    #[pyfunction]
    #[pyo3(signature = (header, *buffers))]
    fn _unpickle<'py>(
        py: Python<'py>,
        header: &[u8],
        buffers: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _end = AtEnd::of(py);
        pickle::read(py, header, buffers)
    }

    /// The schema that a pickle has.
    #[pyfunction]
    fn _unpickle_schema(header: &[u8]) -> PyResult<PySchema> {
        pickle::read_schema(header).map(PySchema::new)
    }

    /// The type that a pickle has.
    #[pyfunction]
    fn _unpickle_type(header: &[u8]) -> PyResult<PyDataType> {
        pickle::read_schema(header).map(PyDataType::new)
    }

    /// Releases memory whose last use on a device has passed; returns how many pieces. Nothing
    /// needs this, because every import, allocation and drop does the same; it is for programs that
    /// do none of these for a long time.
    #[pyfunction]
    fn release_finished(py: Python<'_>) -> usize {
        let _end = AtEnd::of(py);
        py.detach(arrow_device::deferred::release_finished)
    }

    /// Waits until the last use of all memory that was given back has passed, and releases it.
    /// Ctrl-C ends the wait.
    #[pyfunction]
    #[pyo3(signature = (timeout=10.0))]
    fn wait_until_released(py: Python<'_>, timeout: f64) -> PyResult<()> {
        let _end = AtEnd::of(py);
        interrupt::wait_until_released(py, interrupt::seconds(timeout)?)
    }

    /// How many things are held back because a queue may still use them.
    #[pyfunction]
    fn held_back() -> usize {
        let held_back = arrow_device::deferred::held_back();
        held_back.in_use + held_back.being_released
    }

    /// Says how many seconds an allocation that finds no memory waits for memory that is held back:
    /// 10, where nothing else was set.
    #[pyfunction]
    fn set_allocation_timeout(timeout: f64) -> PyResult<()> {
        arrow_device::deferred::set_allocation_timeout(interrupt::seconds(timeout)?);
        Ok(())
    }

    /// How many objects of each kind are alive.
    #[pyfunction]
    fn _live(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        attach::let_go(py);
        let counts = PyDict::new(py);
        for (name, count) in live::counts() {
            counts.set_item(name, count)?;
        }
        counts.set_item("held back", held_back())?;
        Ok(counts)
    }

    /// What the software device has found to be wrong since the last call.
    #[pyfunction]
    fn _reports(py: Python<'_>) -> Vec<String> {
        py.detach(software::take_reports)
    }

    /// Lets the software device do all work that was submitted and can run.
    #[pyfunction]
    fn _run_until_idle(py: Python<'_>) {
        py.detach(software::run_until_idle);
    }
}
