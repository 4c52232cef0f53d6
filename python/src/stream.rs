//! `Stream`: arrays of one schema on one type of device, one after the other.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_device::abi::{ArrowArrayStream, ArrowDeviceArrayStream};
use arrow_device::driver::Turns;
use arrow_device::{Array, ArrayStream, DeviceType, Error, ErrorKind, Queue, Result, Schema};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple, PyType};
use pyo3::{PyTraverseError, PyVisit};

use crate::array::{self, PyArray, wrap_chunk};
use crate::attach::{AtEnd, LastField, Seen};
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
/// To ask for the next array waits for as long as the producer takes, and with ``to`` for the copy
/// where the target is the host or a device without events. Ctrl-C ends the copy at once, and the
/// producer's part when the producer returns.
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
    /// Empty as long as nothing of an iterable was asked for.
    device_type: OnceLock<DeviceType>,
    /// `None` once it was handed over. Waited for only while Python is detached, for whoever has
    /// the turn may need Python.
    stream: Turns<Option<Source>>,
    failure: Failure,
    /// Where each array is copied to on its way.
    onto: Option<Queue>,
    host_copies: bool,
    /// The iterator that the source reads, where it is one of Python's.
    seen: Option<Seen>,
    /// Whether the source is still here. What was handed over is not shown to the collector.
    is_here: AtomicBool,
    _live: Live,
    _last: LastField,
}

/// Where the arrays come from.
#[derive(Debug)]
enum Source {
    /// A stream of which the type of device is known.
    Stream(ArrayStream),
    /// An iterable of which nothing was asked for yet. `None` only while the first array is.
    Unasked(Schema, Option<Items>),
}

impl Source {
    /// The type of device. Asks for the first array of an iterable, to learn the type from that.
    fn start(&mut self) -> Result<DeviceType> {
        let (schema, mut items) = match self {
            Self::Stream(stream) => return Ok(stream.device_type()),
            Self::Unasked(schema, items) => (schema.clone(), items.take()),
        };
        let of = items.as_mut().map_or(Ok(DeviceType::CPU), Items::device_type);
        // An error ends the stream.
        let items = items.filter(|_| of.is_ok()).into_iter().flatten();
        let device_type = of.as_ref().map_or(DeviceType::CPU, |of| *of);
        *self = Self::Stream(ArrayStream::new(schema, device_type, items));
        of
    }

    /// A stream of arrays on this type of device. Asks for nothing.
    fn into_stream_of(self, device_type: DeviceType) -> ArrayStream {
        match self {
            Self::Stream(stream) => stream,
            Self::Unasked(schema, items) => {
                ArrayStream::new(schema, device_type, items.into_iter().flatten())
            }
        }
    }
}

impl Iterator for Source {
    type Item = Result<Array>;

    fn next(&mut self) -> Option<Result<Array>> {
        match (self.start(), self) {
            (Err(error), _) => Some(Err(error)),
            (Ok(_), Self::Stream(stream)) => stream.next(),
            (Ok(_), Self::Unasked(..)) => None,
        }
    }
}

/// What becomes of each array on its way.
struct Copies {
    source: Source,
    queue: Queue,
}

impl Iterator for Copies {
    type Item = Result<Array>;

    fn next(&mut self) -> Option<Result<Array>> {
        let copy = |array: Array| {
            backends::open(array.device())?;
            array.copy_to(&self.queue)
        };
        self.source.next().map(|array| array.and_then(copy))
    }
}

impl PyStream {
    pub(crate) fn new(stream: ArrayStream, failure: Failure) -> Self {
        Self::reading(stream.schema().clone(), Source::Stream(stream), failure, None)
    }

    fn reading(schema: Schema, source: Source, failure: Failure, seen: Option<Seen>) -> Self {
        let device_type = match &source {
            Source::Stream(stream) => OnceLock::from(stream.device_type()),
            Source::Unasked(..) => OnceLock::new(),
        };
        Self {
            schema,
            device_type,
            stream: Turns::new(Some(source)),
            failure,
            onto: None,
            host_copies: false,
            seen,
            is_here: AtomicBool::new(true),
            _live: Live::new(Kind::Stream),
            _last: LastField,
        }
    }

    /// Does something with the stream while no other thread can.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Option<Source>) -> T + Send,
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

    /// Takes out what is handed over: a source whose arrays are where they have to be; and what the
    /// collector is shown of it.
    fn take(&self, py: Python<'_>) -> PyResult<(Source, Option<Seen>)> {
        let (source, seen) = self.take_source(py)?;
        Ok(match &self.onto {
            None => (source, seen),
            Some(queue) => (Source::Stream(self.copying(source, queue.clone())), seen),
        })
    }

    /// Takes out the source, whose arrays are where it has them.
    fn take_source(&self, py: Python<'_>) -> PyResult<(Source, Option<Seen>)> {
        // Before the source is anywhere else, and for good: two threads may be here.
        let was_here = self.is_here.swap(false, Ordering::Relaxed);
        let source = self.with(py, Option::take)?.ok_or_else(handed_over)?;
        Ok((source, self.seen.clone().filter(|_| was_here)))
    }

    /// The type of device, for which the first array of an iterable is asked for.
    fn known_device_type(&self, py: Python<'_>) -> PyResult<DeviceType> {
        if let Some(known) = self.device_type.get() {
            return Ok(*known);
        }
        let started = self.with(py, |source| source.as_mut().map(Source::start))?;
        let of = started.ok_or_else(handed_over)?.map_err(|error| self.raised(py, error))?;
        Ok(*self.device_type.get_or_init(|| of))
    }

    /// The next array. The exception of an iterator of Python's comes out as it was raised.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Array>> {
        let next = self.with(py, |source| source.as_mut().map(Iterator::next))?;
        let next = next.ok_or_else(handed_over)?;
        let next = next.transpose().map_err(|error| self.raised(py, error))?;
        let (Some(queue), Some(array)) = (&self.onto, &next) else { return Ok(next) };
        let copy = array::to_device(py, array, queue.device().id(), Some(queue.clone()));
        if copy.is_err() {
            // Whoever went on reading would miss this array.
            self.close(py)?;
        }
        copy.map(Some)
    }

    /// What is left, wherever its arrays are, for a reader on any thread.
    pub(crate) fn hand_over(&self, py: Python<'_>) -> PyResult<ArrayStream> {
        let of = self.known_device_type(py)?;
        Ok(self.take(py)?.0.into_stream_of(of))
    }

    /// The exception of an iterator of Python's as it was raised, or the error as one.
    pub(crate) fn raised(&self, py: Python<'_>, error: Error) -> PyErr {
        match (self.failure.take(), Err::<(), _>(error).or_raise()) {
            (Some(raised), _) => raised.into_exception(py),
            (None, Err(exception)) => exception,
            (None, Ok(())) => handed_over(),
        }
    }

    /// The stream with each array copied to a device in the order of a queue there. Asks for
    /// nothing.
    fn copied(&self, py: Python<'_>, queue: Queue) -> PyResult<ArrayStream> {
        Ok(self.copying(self.take(py)?.0, queue))
    }

    fn copying(&self, source: Source, queue: Queue) -> ArrayStream {
        let of = queue.device().id().device_type;
        ArrayStream::new(self.schema.clone(), of, Copies { source, queue })
    }

    /// The same source read by another object.
    fn handed_to(&self, source: Source, seen: Option<Seen>) -> Self {
        let made = Self::reading(self.schema.clone(), source, self.failure.clone(), seen);
        Self { host_copies: self.host_copies, ..made }
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
    // Before its Arrow methods, if it has any: they would leave out application metadata.
    if take::is_flight_reader(object)? {
        let known = take::schema(object)?;
        is_wanted(&known)?;
        return of_flight(object, known);
    }
    // A batch of ours on a device is one array: its method for streams promises host memory.
    let is_there = object.cast::<PyArray>().is_ok_and(|array| array.get().stays_on_device());
    if !is_there && let Some(stream) = take::stream(object)? {
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
    if object.hasattr(intern!(object.py(), "collect"))? {
        return Err(take::not_collected(object));
    }
    let Ok(iterator) = object.try_iter() else {
        let message = format!(
            "{} speaks neither the Arrow PyCapsule protocol (__arrow_c_device_stream__, __arrow_c_stream__, \
             __arrow_c_device_array__, __arrow_c_array__) nor is it an iterable of arrays",
            object.get_type()
        );
        return Err(PyTypeError::new_err(message));
    };
    let failure = Failure::default();
    let (schema, first) = match schema {
        Some(schema) => (schema, None),
        None => match items::next(&iterator)? {
            Some(first) => (first.schema().or_raise()?, Some(first)),
            None => return Err(invalid("the iterable is empty: say which schema the stream has")),
        },
    };
    let of = first.as_ref().map(|first| first.device().device_type);
    let items = Items::new(iterator, first, failure.clone());
    let seen = Some(items.seen());
    let source = match of {
        Some(of) => Source::Stream(ArrayStream::new(schema.clone(), of, items)),
        None => Source::Unasked(schema.clone(), Some(items)),
    };
    Ok(PyStream::reading(schema, source, failure, seen))
}

/// A stream of the batches of a Flight reader, of which none is asked for here.
fn of_flight(reader: &Bound<'_, PyAny>, schema: Schema) -> PyResult<PyStream> {
    let module = reader.py().import("arrow_device.flight")?;
    let batches = module.getattr("_Batches")?.call1((reader,))?;
    let failure = Failure::default();
    let items = Items::new(batches.try_iter()?, None, failure.clone());
    let seen = Some(items.seen());
    let stream = ArrayStream::new(schema.clone(), DeviceType::CPU, items);
    Ok(PyStream::reading(schema, Source::Stream(stream), failure, seen))
}

#[pymethods]
impl PyStream {
    /// The schema of every array. Asks nobody.
    #[getter]
    fn schema(&self) -> PySchema {
        PySchema::new(self.schema.clone())
    }

    /// The type of device that every array is on, such as ``"cuda"``. Of an iterable with
    /// ``schema=...`` of which nothing was asked for yet, this asks for the first array.
    #[getter]
    fn device_type(&self, py: Python<'_>) -> PyResult<String> {
        self.known_device_type(py).map(|of| of.to_string())
    }

    /// The iterator belongs to whoever has the source.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match &self.seen {
            Some(seen) if self.is_here.load(Ordering::Relaxed) => seen.visit(&visit),
            _ => Ok(()),
        }
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyArray>>> {
        self.next(py)?.map(|array| wrap_chunk(py, array)).transpose()
    }

    /// ``Stream[Array]`` and ``Stream[RecordBatch]`` are for annotations: which arrays it gives.
    #[classmethod]
    fn __class_getitem__<'py>(
        cls: &Bound<'py, PyType>,
        item: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        cls.py().import("types")?.getattr("GenericAlias")?.call1((cls, item))
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
        let (source, seen) = self.take(py)?;
        let device_type = OnceLock::from(queue.device().id().device_type);
        Ok(Self { onto: Some(queue), device_type, ..self.handed_to(source, seen) })
    }

    /// The same stream for libraries of the host: ``__arrow_c_stream__`` and
    /// ``__arrow_c_device_stream__`` copy data that lives on a device to the host. This one is
    /// handed over to it.
    fn with_host_copies(&self, py: Python<'_>) -> PyResult<Self> {
        let (source, seen) = self.take(py)?;
        Ok(Self { host_copies: true, ..self.handed_to(source, seen) })
    }

    /// Lets go of the stream and of what it reads from. Done by a ``with`` block at its end; a
    /// stream that is handed over is left alone.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let _end = AtEnd::of(py);
        self.is_here.store(false, Ordering::Relaxed);
        let source = self.with(py, Option::take)?;
        // A release may run for long, and may need Python.
        py.detach(|| drop(source));
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
        let on = match self.device_type.get() {
            Some(of) => format!(" on {of}"),
            None => ", not read yet".into(),
        };
        format!("<arrow_device.Stream {}{on}>", self.schema.data_type())
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
        // What nobody asked for yet is asked for by whoever reads, who is told where it is not in
        // host memory.
        let of = self.device_type.get().copied().unwrap_or(DeviceType::CPU);
        let stream = if self.host_copies {
            self.copied(py, Queue::host())?
        } else if of == DeviceType::CPU {
            self.take(py)?.0.into_stream_of(of)
        } else {
            let message = format!(
                "__arrow_c_stream__ is for host memory, and these arrays live on {of}; use __arrow_c_device_stream__, copy them \
                 with to('cpu'), or allow copies with with_host_copies()"
            );
            return Err(Error::new(ErrorKind::Unsupported, message)).or_raise();
        };
        self.failure.forget();
        let mut out = ArrowArrayStream::empty();
        stream.export_host(&mut out).or_raise()?;
        capsule::wrap(py, out)
    }

    /// The Arrow PyCapsule protocol: a capsule with an ``ArrowDeviceArrayStream`` of arrays
    /// wherever they live.
    ///
    /// Copies nothing and waits for nothing: the event that each array is ready after goes along.
    /// Only where copies were allowed by ``with_host_copies``, these are the copies in host memory.
    #[pyo3(signature = (requested_schema=None, **kwargs))]
    fn __arrow_c_device_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        kwargs::refuse_unknown("__arrow_c_device_stream__", kwargs)?;
        check_request(requested_schema, &self.schema)?;
        let stream =
            if self.host_copies { self.copied(py, Queue::host())? } else { self.hand_over(py)? };
        self.failure.forget();
        let mut out = ArrowDeviceArrayStream::empty();
        stream.export(&mut out);
        capsule::wrap(py, out)
    }
}
