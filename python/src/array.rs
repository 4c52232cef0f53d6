//! `Array`, and `RecordBatch`, which is one with columns.

use arrow_device::abi::{ArrowArray, ArrowArrayStream, ArrowDeviceArray};
use arrow_device::driver::ForkMutex;
use arrow_device::{Array, ArrayStream, Batch, DataType, DeviceId, DeviceType, Queue, Ready, View};
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PySlice, PyString, PyTuple};

use crate::attach::LastField;
use crate::capsule::{self, Moved};
use crate::device::{self, PyDevice, PyQueue};
use crate::error::{OrRaise, invalid};
use crate::live::{Kind, Live};
use crate::schema::{PyDataType, PySchema, at, check_request, position};
use crate::tensor::PyTensor;
use crate::{backends, exchange, html, interrupt, kwargs, sizes, tensor};

/// Two capsules: a schema's and an array's.
type Capsules<'py> = (Bound<'py, PyCapsule>, Bound<'py, PyCapsule>);

/// An Arrow array on a device: immutable, shared, ready now or after an event.
///
/// Made by ``ad.array(obj)`` from whatever speaks the Arrow PyCapsule protocol, DLPack or Python's
/// buffer protocol, without a copy. It speaks the first two itself, so other libraries take it as
/// it is.
///
/// >>> import arrow_device as ad, pyarrow as pa
/// >>> a = ad.array(pa.array([1, None, 3]))
/// >>> a
/// <arrow_device.Array int64, 3 elements, 1 null, on cpu>
/// >>> len(a), a.type, a.null_count
/// (3, DataType('int64'), 1)
/// >>> pa.array(a.slice(1, 2)).to_pylist()
/// [None, 3]
#[pyclass(frozen, subclass, weakref, module = "arrow_device", name = "Array")]
#[derive(Debug)]
pub(crate) struct PyArray {
    array: Array,
    /// Whether the methods for host memory may copy.
    host_copies: bool,
    /// Queues that were told to wait for this: the memory is kept until they have passed what is
    /// submitted before this goes.
    used_on: ForkMutex<Vec<View>>,
    _live: Live,
    _last: LastField,
}

impl PyArray {
    pub(crate) fn new(array: Array) -> Self {
        let used_on = ForkMutex::default();
        let _live = Live::new(Kind::Array);
        Self { array, host_copies: false, used_on, _live, _last: LastField }
    }

    pub(crate) fn array(&self) -> &Array {
        &self.array
    }

    fn is_on_host(&self) -> bool {
        self.array.device().device_type == DeviceType::CPU
    }

    /// The array in host memory, for the methods that promise that.
    fn for_host(&self, py: Python<'_>, method: &str, instead: &str) -> PyResult<Array> {
        if self.is_on_host() {
            return Ok(self.array.clone());
        }
        if self.host_copies {
            return to_device(py, &self.array, DeviceId::CPU, None);
        }
        let message = format!(
            "{method} is for host memory, and this lives on {}; use {instead}, copy it with to_host(), or allow copies with \
             with_host_copies()",
            self.array.device()
        );
        Err(arrow_device::Error::new(arrow_device::ErrorKind::Unsupported, message)).or_raise()
    }
}

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
pub(crate) struct PyBatch {
    batch: Batch,
}

/// An array as an object of the class that it should have.
pub(crate) fn wrap(py: Python<'_>, array: Array, as_batch: bool) -> PyResult<Py<PyArray>> {
    wrap_like(py, array, as_batch, false)
}

fn wrap_like(
    py: Python<'_>,
    array: Array,
    as_batch: bool,
    host_copies: bool,
) -> PyResult<Py<PyArray>> {
    if !as_batch {
        return Py::new(py, PyArray { host_copies, ..PyArray::new(array) });
    }
    let batch = Batch::try_from(array).or_raise()?;
    // The batch's array, which never leaves with an offset: other libraries refuse a batch with
    // one.
    let base = PyArray { host_copies, ..PyArray::new(batch.as_array().clone()) };
    let whole = PyClassInitializer::from(base).add_subclass(PyBatch { batch });
    Ok(Py::new(py, whole)?.into_bound(py).cast_into::<PyArray>()?.unbind())
}

/// A chunk of a stream: a batch where its type is a struct and no row is null as a whole, else an
/// array.
pub(crate) fn wrap_chunk(py: Python<'_>, array: Array) -> PyResult<Py<PyArray>> {
    let is_batch =
        matches!(array.data_type(), DataType::Struct(_)) && Batch::try_from(array.clone()).is_ok();
    wrap(py, array, is_batch)
}

/// Copies an array to a device, or shares it where it is there. Waits where the device has no
/// events, and Ctrl-C ends that.
pub(crate) fn to_device(
    py: Python<'_>,
    array: &Array,
    to: DeviceId,
    queue: Option<Queue>,
) -> PyResult<Array> {
    if queue.is_none() && backends::called(array.device()) == to {
        return Ok(array.clone());
    }
    device::open(py, array.device())?;
    let queue = match queue {
        Some(queue) => queue,
        None => device::open(py, to)?.queue,
    };
    let array = array.clone();
    if array.device().device_type == DeviceType::CPU {
        return py.detach(move || array.copy_to(&queue)).or_raise();
    }
    interrupt::interruptible(py, move || array.copy_to(&queue))
}

#[pymethods]
impl PyArray {
    /// The type of the elements.
    #[getter]
    fn r#type(&self) -> PyResult<PyDataType> {
        self.array.schema().or_raise().map(PyDataType::new)
    }

    /// The type with its name, nullability and metadata.
    #[getter]
    fn schema(&self) -> PyResult<PySchema> {
        self.array.schema().or_raise().map(PySchema::new)
    }

    /// Where the data lives.
    #[getter]
    pub(crate) fn device(&self) -> PyDevice {
        PyDevice::new(self.array.device())
    }

    fn __len__(&self) -> usize {
        self.array.len()
    }

    /// How many elements are null; ``None`` while nobody has counted them, which would read the
    /// device.
    #[getter]
    fn null_count(&self) -> Option<usize> {
        self.array.null_count()
    }

    /// How many bytes the elements take, as far as that is known without asking a device; ``None``
    /// where it is not.
    ///
    /// In host memory that is what a copy would move, so a slice counts for what it shows. On a
    /// device it is the length of the buffers; only the device knows how long those of strings are.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        py.detach(|| sizes::nbytes(&self.array)).or_raise()
    }

    /// Whether the data may be used by now. Asks the device where there is an event; never waits.
    #[getter]
    fn ready(&self, py: Python<'_>) -> PyResult<bool> {
        if self.array.ready() == Ready::Now {
            return Ok(true);
        }
        device::open(py, self.array.device())?;
        py.detach(|| self.array.is_ready()).or_raise()
    }

    /// Waits until the data may be used; Ctrl-C ends the wait. With a queue, makes that queue wait
    /// instead and returns at once.
    ///
    /// The memory is then kept until the queue has passed what is submitted to it before this
    /// object goes.
    #[pyo3(signature = (queue=None))]
    fn wait(&self, py: Python<'_>, queue: Option<&Bound<'_, PyQueue>>) -> PyResult<()> {
        let Some(queue) = queue else {
            if self.array.ready() != Ready::Now {
                device::open(py, self.array.device())?;
            }
            return interrupt::wait(py, &self.array);
        };
        let queue = queue.get().queue().clone();
        let view = py.detach(|| self.array.on(&queue)).or_raise()?;
        let mut used_on = self.used_on.lock().or_raise()?;
        let is_known = |known: &View| known.queue().is_same(&queue);
        if !used_on.iter().any(is_known) {
            used_on.push(view);
        }
        Ok(())
    }

    /// Copies the array to a device, or to the device of a queue and in its order. What is there
    /// already is shared.
    ///
    /// The result is ready after an event; on the host, and on devices without events, this waits.
    fn to(slf: &Bound<'_, Self>, device: &Bound<'_, PyAny>) -> PyResult<Py<Self>> {
        let (to, queue) = match device.cast::<PyQueue>() {
            Ok(queue) => {
                let queue = queue.get().queue().clone();
                (queue.device().id(), Some(queue))
            }
            Err(_) => (device::named(device)?, None),
        };
        let copy = to_device(slf.py(), &slf.get().array, to, queue)?;
        like(slf, copy)
    }

    /// Copies the array to host memory and waits for it. What is there already is shared.
    fn to_host(slf: &Bound<'_, Self>) -> PyResult<Py<Self>> {
        let this = slf.get();
        let copy = to_device(slf.py(), &this.array, DeviceId::CPU, None)?;
        interrupt::wait(slf.py(), &copy)?;
        like(slf, copy)
    }

    /// The same array, whose methods for host memory (``__arrow_c_array__``, and so most of other
    /// libraries) copy data that lives on a device instead of refusing it.
    fn with_host_copies(slf: &Bound<'_, Self>) -> PyResult<Py<Self>> {
        let array = slf.get().array.clone();
        wrap_like(slf.py(), array, slf.is_instance_of::<PyBatch>(), true)
    }

    /// ``length`` elements from ``offset`` on; without a length, all of the rest. Copies nothing.
    #[pyo3(signature = (offset, length=None))]
    fn slice(slf: &Bound<'_, Self>, offset: usize, length: Option<usize>) -> PyResult<Py<Self>> {
        let array = &slf.get().array;
        let length = length.unwrap_or_else(|| array.len().saturating_sub(offset));
        like(slf, array.slice(offset, length).or_raise()?)
    }

    fn __getitem__(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<Py<Self>> {
        let Ok(slice) = key.cast::<PySlice>() else {
            let message = "an array is cut with a slice, such as a[2:5]; for values use pyarrow.array(a) or numpy.from_dlpack(a)";
            return Err(PyTypeError::new_err(message));
        };
        let length = isize::try_from(slf.get().array.len()).unwrap_or(isize::MAX);
        let parts = slice.indices(length)?;
        if parts.step != 1 {
            return Err(invalid(format!("a slice has the step 1 and not {}", parts.step)));
        }
        let offset = usize::try_from(parts.start).unwrap_or(0);
        Self::slice(slf, offset, Some(parts.slicelength))
    }

    /// How many children the type has.
    #[getter]
    fn num_children(&self) -> usize {
        self.array.child_count()
    }

    /// A child as it lies, without this array's offset and length. For the columns of a batch see
    /// ``RecordBatch.column``.
    fn child(&self, index: isize) -> PyResult<Self> {
        let count = self.array.child_count();
        let Some(index) = at(index, count) else {
            let message = format!("{} has {count} children", self.array.data_type());
            return Err(PyIndexError::new_err(message));
        };
        self.array.child(index).or_raise().map(Self::new)
    }

    /// The values of a dictionary-encoded array; ``None`` for any other.
    #[getter]
    fn dictionary(&self) -> Option<Self> {
        self.array.dictionary().map(Self::new)
    }

    /// Checks what another library handed over: the structure and, with ``full``, offsets, keys and
    /// text, for which data on a device is copied to the host. Raises a ``DataError`` that names
    /// the place.
    #[pyo3(signature = (full=false))]
    fn validate(&self, py: Python<'_>, full: bool) -> PyResult<()> {
        if !full {
            return self.array.validate_layout().or_raise();
        }
        let queue = device::open(py, self.array.device())?.queue;
        let (array, is_on_host) = (self.array.clone(), self.is_on_host());
        py.detach(move || if is_on_host { array.validate() } else { array.validate_on(&queue) })
            .or_raise()
    }

    /// Whether both are of one type and hold the same values, wherever they live. Reads both on the
    /// host; Ctrl-C ends that.
    fn __eq__(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<bool> {
        if slf.is(other) {
            return Ok(true);
        }
        let (py, one, other) = (slf.py(), &slf.get().array, &other.get().array);
        let is_short = one.child_count() == 0 && one.len() < LONG;
        if one.len() != other.len() && one.data_type().equals_ignoring_metadata(other.data_type()) {
            return Ok(false);
        }
        let one = to_device(py, one, DeviceId::CPU, None)?;
        let other = to_device(py, other, DeviceId::CPU, None)?;
        if is_short {
            return py.detach(|| one.equals(&other)).or_raise();
        }
        interrupt::interruptible(py, move || one.equals(&other))
    }

    /// The tree of columns as text: types, lengths, nulls and buffers. Reads no buffer and asks no
    /// device.
    fn describe(&self) -> String {
        self.array.describe()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> String {
        let array = &slf.get().array;
        let pending = if array.ready() == Ready::Now { "" } else { ", not waited for" };
        let on = format!("on {}{pending}", backends::called(array.device()));
        if let Ok(batch) = slf.cast::<PyBatch>() {
            let batch = &batch.get().batch;
            let rows = html::counted(batch.row_count(), "row");
            let columns = html::counted(batch.column_count(), "column");
            let table = html::preview(batch).map(|table| format!("\n{table}")).unwrap_or_default();
            return format!("<arrow_device.RecordBatch {rows}, {columns}, {on}>{table}");
        }
        let elements = html::counted(array.len(), "element");
        let nulls = match array.null_count() {
            Some(count) => html::counted(count, "null"),
            None => "nulls not counted".into(),
        };
        format!("<arrow_device.Array {}, {elements}, {nulls}, {on}>", array.data_type())
    }

    fn _repr_html_(&self) -> String {
        html::tree(&self.array)
    }

    /// The array as a tensor, without a copy wherever its memory allows one.
    ///
    /// ``nulls`` says what stands for a null: without it they are an error, ``"nan"`` is that, and
    /// a number is that number. ``as_integers`` gives times, dates, small decimals and dictionary
    /// keys as the integers that they are in memory.
    #[pyo3(signature = (*, copy=None, nulls=None, as_integers=false))]
    fn to_tensor(
        &self,
        py: Python<'_>,
        copy: Option<bool>,
        nulls: Option<&Bound<'_, PyAny>>,
        as_integers: bool,
    ) -> PyResult<PyTensor> {
        tensor::of_array(py, &self.array, copy, nulls, as_integers)
    }

    /// The Arrow PyCapsule protocol: a capsule with an ``ArrowSchema``.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::of_schema(py, &self.array.schema().or_raise()?)
    }

    /// The Arrow PyCapsule protocol: capsules with an ``ArrowSchema`` and an ``ArrowArray``, which
    /// lives in host memory.
    ///
    /// For data on a device this raises ``NotSupportedError``, unless copies were allowed by
    /// ``with_host_copies``.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Capsules<'py>> {
        let schema = self.array.schema().or_raise()?;
        check_request(requested_schema, &schema)?;
        let array = self.for_host(py, "__arrow_c_array__", "__arrow_c_device_array__")?;
        let mut out = ArrowArray::empty();
        array.export_host(&mut out).or_raise()?;
        let out = capsule::wrap(py, out)?;
        Ok((capsule::of_schema(py, &schema)?, out))
    }

    /// The Arrow PyCapsule protocol: capsules with an ``ArrowSchema`` and an ``ArrowDeviceArray``,
    /// wherever the data lives.
    ///
    /// Copies nothing and waits for nothing: the event that the data is ready after goes along.
    #[pyo3(signature = (requested_schema=None, **kwargs))]
    fn __arrow_c_device_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Capsules<'py>> {
        kwargs::refuse_unknown("__arrow_c_device_array__", kwargs)?;
        let schema = self.array.schema().or_raise()?;
        check_request(requested_schema, &schema)?;
        let out = if matches!(self.array.ready(), Ready::AfterEvents(_)) {
            // One event has to stand for several.
            let queue = device::open(py, self.array.device())?.queue;
            let export = || {
                let mut out = ArrowDeviceArray::empty();
                self.array.export_on(&queue, &mut out).map(|()| Moved(out))
            };
            py.detach(export).or_raise()?.into_inner()
        } else {
            let mut out = ArrowDeviceArray::empty();
            self.array.export(&mut out).or_raise()?;
            out
        };
        let out = capsule::wrap(py, out)?;
        Ok((capsule::of_schema(py, &schema)?, out))
    }

    /// DLPack: a capsule with the array as a tensor. What cannot be one, or not in this way, is a
    /// ``BufferError``.
    ///
    /// ``stream`` waits for the data. The consumer may delete the tensor while that stream still
    /// reads it, and keeps the stream open until then.
    ///
    /// Memory is shared and read-only where that is possible and ``copy`` is not true. The form of
    /// DLPack before 1.0, for which a consumer asks that passes no ``max_version``, cannot say
    /// read-only; memory is copied for it.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<&Bound<'py, PyAny>>,
        dl_device: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let request = tensor::Request::new(stream, max_version, dl_device, copy)?;
        request.export_array(py, &self.array)
    }

    /// DLPack: the type and the number of the device, as DLPack counts them.
    fn __dlpack_device__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        tensor::device_pair(py, self.array.device())
    }

    #[classattr]
    fn __dlpack_c_exchange_api__(py: Python<'_>) -> PyResult<Py<PyCapsule>> {
        exchange::table(py)
    }
}

/// So many elements are compared without looking for Ctrl-C.
const LONG: usize = 10_000;

/// An array of the class and with the permissions of another.
fn like(slf: &Bound<'_, PyArray>, array: Array) -> PyResult<Py<PyArray>> {
    wrap_like(slf.py(), array, slf.is_instance_of::<PyBatch>(), slf.get().host_copies)
}

#[pymethods]
impl PyBatch {
    /// A column by its name, or rows by a slice.
    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if key.is_instance_of::<PyString>() {
            let column = slf.get().column(key)?;
            return Ok(Bound::new(slf.py(), column)?.into_any());
        }
        let rows = PyArray::__getitem__(slf.as_super(), key)?;
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
        let schema = this.array.schema().or_raise()?;
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
    fn num_rows(&self) -> usize {
        self.batch.row_count()
    }

    /// How many columns.
    #[getter]
    fn num_columns(&self) -> usize {
        self.batch.column_count()
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch.fields().iter().map(|field| field.name().to_owned()).collect()
    }

    /// The columns. One that is kept keeps the memory of the whole batch only where another library
    /// made it.
    #[getter]
    fn columns(&self) -> PyResult<Vec<PyArray>> {
        let columns = self.batch.columns().or_raise()?;
        Ok(columns.into_iter().map(PyArray::new).collect())
    }

    /// A column by its name or its place.
    fn column(&self, key: &Bound<'_, PyAny>) -> PyResult<PyArray> {
        let fields = self.batch.fields();
        let find = |name: &str| fields.iter().position(|field| field.name() == name);
        let index = position(key, fields.len(), find)?;
        self.batch.column(index).or_raise().map(PyArray::new)
    }
}
