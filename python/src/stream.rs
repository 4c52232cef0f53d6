//! `Stream`: arrays of one schema on one type of device, one after the other.

use std::sync::PoisonError;

use arrow_device::abi::{ArrowArrayStream, ArrowDeviceArrayStream};
use arrow_device::driver::Turns;
use arrow_device::{Array, ArrayStream, DeviceType, Error, ErrorKind, Queue, Result, Schema};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

use crate::array::{PyArray, wrap_chunk};
use crate::attach::{AtEnd, LastField};
use crate::device::{self, PyQueue};
use crate::error::{OrRaise, invalid};
use crate::items::{self, Failure, Items};
use crate::live::{Kind, Live};
use crate::schema::{PySchema, check_request};
use crate::{backends, capsule, kwargs, take};

/// A stream of arrays or record batches, of one schema and on one type of device.
///
/// Made by ``ad.stream(obj)`` from a table, a reader, a query result, or an iterable of arrays. It
/// is read once: by a loop, or by another library that takes it by ``__arrow_c_stream__`` or
/// ``__arrow_c_device_stream__``.
///
/// >>> import arrow_device as ad, pyarrow as pa
/// >>> table = pa.table({"x": [1, 2, 3]})
/// >>> for batch in ad.stream(table):
/// ...     print(batch.num_rows, batch.column_names)
/// 3 ['x']
/// >>> pa.table(ad.stream(table)).equals(table)
/// True
#[pyclass(frozen, weakref, module = "arrow_device", name = "Stream")]
#[derive(Debug)]
pub(crate) struct PyStream {
    schema: Schema,
    device_type: DeviceType,
    /// `None` once it was handed over. Waited for only while Python is detached, for whoever has
    /// the turn may need Python.
    stream: Turns<Option<ArrayStream>>,
    failure: Failure,
    host_copies: bool,
    _live: Live,
    _last: LastField,
}

/// What becomes of each array on its way.
struct Copies {
    stream: ArrayStream,
    queue: Queue,
}

impl Iterator for Copies {
    type Item = Result<Array>;

    fn next(&mut self) -> Option<Result<Array>> {
        let copy = |array: Array| {
            backends::open(array.device())?;
            array.copy_to(&self.queue)
        };
        self.stream.next().map(|array| array.and_then(copy))
    }
}

impl PyStream {
    pub(crate) fn new(stream: ArrayStream, failure: Failure) -> Self {
        Self {
            schema: stream.schema().clone(),
            device_type: stream.device_type(),
            stream: Turns::new(Some(stream)),
            failure,
            host_copies: false,
            _live: Live::new(Kind::Stream),
            _last: LastField,
        }
    }

    /// Does something with the stream while no other thread can.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Option<ArrayStream>) -> T + Send,
    ) -> PyResult<T> {
        let _end = AtEnd::of(py);
        let used = py.detach(|| -> Result<T> {
            let mut stream = self.stream.take_turn("the stream")?;
            Ok(work(&mut stream))
        });
        match used {
            Err(error) if error.kind() == ErrorKind::InvalidArgument => {
                let message = "the stream is being read by this thread already";
                Err(PyRuntimeError::new_err(message))
            }
            used => used.or_raise(),
        }
    }

    /// An exception where another schema is asked for.
    pub(crate) fn require_type(&self, wanted: Option<&Schema>) -> PyResult<()> {
        check_type(wanted, &self.schema)
    }

    /// Takes the stream out, to hand it over.
    fn take(&self, py: Python<'_>) -> PyResult<ArrayStream> {
        self.with(py, Option::take)?.ok_or_else(handed_over)
    }

    /// The next array. The exception of an iterator of Python's comes out as it was raised.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Array>> {
        let next = self.with(py, |stream| stream.as_mut().map(Iterator::next))?;
        match next.ok_or_else(handed_over)?.transpose() {
            Ok(array) => Ok(array),
            Err(error) => {
                let raised = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
                raised
                    .map_or_else(|| Err(error).or_raise(), |raised| Err(raised.into_exception(py)))
            }
        }
    }

    /// The stream with each array copied to a device in the order of a queue there.
    fn copied(&self, py: Python<'_>, queue: Queue) -> PyResult<ArrayStream> {
        let stream = self.take(py)?;
        let (schema, of) = (stream.schema().clone(), queue.device().id().device_type);
        Ok(ArrayStream::new(schema, of, Copies { stream, queue }))
    }
}

fn handed_over() -> PyErr {
    invalid("the stream was handed over already, or closed; it can be read once")
}

/// An exception where another schema is asked for than a stream has.
fn check_type(wanted: Option<&Schema>, known: &Schema) -> PyResult<()> {
    let is_other =
        |wanted: &&Schema| !wanted.data_type().equals_ignoring_metadata(known.data_type());
    let Some(wanted) = wanted.filter(is_other) else { return Ok(()) };
    let (wanted, known) = (wanted.data_type(), known.data_type());
    Err(invalid(format!(
        "`schema` says {wanted}, and what is there is {known}; nothing is converted"
    )))
}

/// A stream of an object: what it says itself, one array, or an iterable of arrays.
pub(crate) fn of(object: &Bound<'_, PyAny>, schema: Option<Schema>) -> PyResult<PyStream> {
    let is_wanted = |known: &Schema| check_type(schema.as_ref(), known);
    if let Some(stream) = take::stream(object)? {
        return match is_wanted(stream.schema()) {
            Ok(()) => Ok(PyStream::new(stream, Failure::default())),
            Err(exception) => Err(take::with_stream(object.py(), exception, stream)),
        };
    }
    if let Some(array) = take::arrow_array(object)? {
        let (schema, of) = (array.schema().or_raise()?, array.device().device_type);
        is_wanted(&schema)?;
        let stream = ArrayStream::new(schema, of, [Ok(array)]);
        return Ok(PyStream::new(stream, Failure::default()));
    }
    let Ok(iterator) = object.try_iter() else {
        let message = format!(
            "{} speaks neither the Arrow PyCapsule protocol (__arrow_c_device_stream__, __arrow_c_stream__, \
             __arrow_c_device_array__, __arrow_c_array__) nor is it an iterable of arrays",
            object.get_type()
        );
        return Err(PyTypeError::new_err(message));
    };
    let first = items::next(&iterator)?;
    let (schema, of) = match (schema, &first) {
        (Some(schema), first) => {
            (schema, first.as_ref().map_or(DeviceType::CPU, |first| first.device().device_type))
        }
        (None, Some(first)) => (first.schema().or_raise()?, first.device().device_type),
        (None, None) => {
            return Err(invalid("the iterable is empty: say which schema the stream has"));
        }
    };
    let failure = Failure::default();
    let items = Items::new(iterator, first, failure.clone());
    Ok(PyStream::new(ArrayStream::new(schema, of, items), failure))
}

#[pymethods]
impl PyStream {
    /// The schema of every array. Asks nobody.
    #[getter]
    fn schema(&self) -> PySchema {
        PySchema::new(self.schema.clone())
    }

    /// The type of device that every array is on, such as ``"cuda"``.
    #[getter]
    fn device_type(&self) -> String {
        self.device_type.to_string()
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyArray>>> {
        self.next(py)?.map(|array| wrap_chunk(py, array)).transpose()
    }

    /// All arrays that are left.
    fn read_all(&self, py: Python<'_>) -> PyResult<Vec<Py<PyArray>>> {
        let mut all = Vec::new();
        while let Some(array) = self.next(py)? {
            py.check_signals()?;
            all.push(wrap_chunk(py, array)?);
        }
        Ok(all)
    }

    /// A stream of the same arrays on a device: each is copied when it is asked for. This stream is
    /// handed over to it.
    fn to(&self, device: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = device.py();
        let queue = match device.cast::<PyQueue>() {
            Ok(queue) => queue.get().queue().clone(),
            Err(_) => device::open(py, device::named(device)?)?.queue,
        };
        let stream = self.copied(py, queue)?;
        let host_copies = self.host_copies;
        Ok(Self { host_copies, ..Self::new(stream, self.failure.clone()) })
    }

    /// The same stream, whose ``__arrow_c_stream__`` copies data that lives on a device instead of
    /// refusing it. This one is handed over to it.
    fn with_host_copies(&self, py: Python<'_>) -> PyResult<Self> {
        let stream = self.take(py)?;
        Ok(Self { host_copies: true, ..Self::new(stream, self.failure.clone()) })
    }

    /// Lets go of the stream and of what it reads from. Done by a ``with`` block at its end; a
    /// stream that is handed over is left alone.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let _end = AtEnd::of(py);
        let stream = self.with(py, Option::take)?;
        // A release may run for long, and may need Python.
        py.detach(|| drop(stream));
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    /// An asynchronous iterator over the arrays: ``async for``, ``await anext(...)``. They are read
    /// on a thread of the event loop's executor.
    fn to_async<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("arrow_device._async")?.getattr("AsyncStream")?.call1((slf,))
    }

    fn __repr__(&self) -> String {
        format!("<arrow_device.Stream {} on {}>", self.schema.data_type(), self.device_type)
    }

    /// The Arrow PyCapsule protocol: a capsule with an ``ArrowSchema``.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::of_schema(py, &self.schema)
    }

    /// The Arrow PyCapsule protocol: a capsule with an ``ArrowArrayStream`` of arrays in host
    /// memory.
    ///
    /// For data on a device this raises ``NotSupportedError``, unless copies were allowed by
    /// ``with_host_copies``.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        check_request(requested_schema, &self.schema)?;
        let stream = if self.device_type == DeviceType::CPU {
            self.take(py)?
        } else if self.host_copies {
            self.copied(py, Queue::host())?
        } else {
            let message = format!(
                "__arrow_c_stream__ is for host memory, and these arrays live on {}; use __arrow_c_device_stream__, copy them \
                 with to('cpu'), or allow copies with with_host_copies()",
                self.device_type
            );
            return Err(Error::new(ErrorKind::Unsupported, message)).or_raise();
        };
        let mut out = ArrowArrayStream::empty();
        stream.export_host(&mut out).or_raise()?;
        capsule::wrap(py, out)
    }

    /// The Arrow PyCapsule protocol: a capsule with an ``ArrowDeviceArrayStream`` of arrays
    /// wherever they live.
    ///
    /// Copies nothing and waits for nothing: the event that each array is ready after goes along.
    #[pyo3(signature = (requested_schema=None, **kwargs))]
    fn __arrow_c_device_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        kwargs::refuse_unknown("__arrow_c_device_stream__", kwargs)?;
        check_request(requested_schema, &self.schema)?;
        let mut out = ArrowDeviceArrayStream::empty();
        self.take(py)?.export(&mut out);
        capsule::wrap(py, out)
    }
}
