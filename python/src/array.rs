//! `Array`, and `RecordBatch`, which is one with columns.

use std::ffi::c_int;

use arrow_device::abi::{ArrowArray, ArrowDeviceArray};
use arrow_device::driver::ForkMutex;
use arrow_device::{Array, Batch, DataType, DeviceId, DeviceType, Queue, Ready, View};
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PySlice, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use crate::attach::LastField;
use crate::batch::PyBatch;
use crate::capsule::{self, Moved};
use crate::device::{self, PyDevice, PyQueue};
use crate::error::{OrRaise, invalid};
use crate::live::{Kind, Live};
use crate::pylist::{self, PyElements};
use crate::schema::{PyDataType, PySchema, at, check_request};
use crate::tensor::PyTensor;
use crate::{
    backends, buffer, cuda_array, exchange, host_buffer, html, interrupt, kwargs, pickle, sizes,
    sycl_array, tensor, to_numpy,
};

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
    shown: Shown,
    /// Whether the methods for host memory may copy.
    host_copies: bool,
    /// Queues that were told to wait for this: the memory is kept until they have passed what is
    /// submitted before this goes.
    used_on: ForkMutex<Vec<View>>,
    _live: Live,
    _last: LastField,
}

/// What an object has one share of.
#[derive(Debug)]
enum Shown {
    Array(Array),
    Batch(Batch),
}

impl PyArray {
    pub(crate) fn new(array: Array) -> Self {
        Self::showing(Shown::Array(array))
    }

    fn showing(shown: Shown) -> Self {
        let used_on = ForkMutex::default();
        let _live = Live::new(Kind::Array);
        Self { shown, host_copies: false, used_on, _live, _last: LastField }
    }

    pub(crate) fn array(&self) -> &Array {
        match &self.shown {
            Shown::Array(array) => array,
            Shown::Batch(batch) => batch.as_array(),
        }
    }

    /// The batch that a ``RecordBatch`` is.
    pub(crate) fn batch(&self) -> Option<&Batch> {
        match &self.shown {
            Shown::Array(_) => None,
            Shown::Batch(batch) => Some(batch),
        }
    }

    pub(crate) fn is_on_host(&self) -> bool {
        self.array().device().device_type == DeviceType::CPU
    }

    /// Whether the methods that promise host memory refuse.
    pub(crate) fn stays_on_device(&self) -> bool {
        !self.is_on_host() && !self.host_copies
    }

    /// The array in host memory, for the methods that promise that.
    pub(crate) fn for_host(&self, py: Python<'_>, method: &str, instead: &str) -> PyResult<Array> {
        if self.is_on_host() {
            return Ok(self.array().clone());
        }
        if self.host_copies {
            return to_device(py, self.array(), DeviceId::CPU, None);
        }
        let message = format!(
            "{method} is for host memory, and this lives on {}; use {instead}, copy it with to_host(), or allow copies with \
             with_host_copies()",
            self.array().device()
        );
        Err(arrow_device::Error::new(arrow_device::ErrorKind::Unsupported, message)).or_raise()
    }
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
    let base = PyArray { host_copies, ..PyArray::showing(Shown::Batch(batch)) };
    let whole = PyClassInitializer::from(base).add_subclass(PyBatch);
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
    let is_long = array.device().device_type != DeviceType::CPU || self::is_long(&array);
    interrupt::run_if(py, is_long, move || array.copy_to(&queue))?.or_raise()
}

#[pymethods]
impl PyArray {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        buffer::visit_held(&visit, |each| self.array().for_each_sole_import(each))
    }

    /// The type of the elements.
    #[getter]
    fn r#type(&self) -> PyResult<PyDataType> {
        self.array().schema().or_raise().map(PyDataType::new)
    }

    /// The type with its name, nullability and metadata.
    #[getter]
    fn schema(&self) -> PyResult<PySchema> {
        self.array().schema().or_raise().map(PySchema::new)
    }

    /// Where the data lives.
    #[getter]
    pub(crate) fn device(&self) -> PyDevice {
        PyDevice::new(self.array().device())
    }

    fn __len__(&self) -> usize {
        self.array().len()
    }

    /// How many elements are null; ``None`` while nobody has counted them, which would read the
    /// device.
    #[getter]
    fn null_count(&self) -> Option<usize> {
        self.array().null_count()
    }

    /// How many bytes the elements take, as far as that is known without asking a device; ``None``
    /// where it is not.
    ///
    /// In host memory that is what a copy would move, so a slice counts for what it shows. On a
    /// device it is the length of the buffers; only the device knows how long those of strings are.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let array = self.array().clone();
        py.detach(move || sizes::nbytes(&array)).or_raise()
    }

    /// Whether the data may be used by now. Asks the device where there is an event; never waits.
    #[getter]
    fn ready(&self, py: Python<'_>) -> PyResult<bool> {
        if self.array().ready() == Ready::Now {
            return Ok(true);
        }
        device::open(py, self.array().device())?;
        is_ready(py, self.array())
    }

    /// Waits until the data may be used; Ctrl-C ends the wait. With a queue, makes that queue wait
    /// instead and returns at once.
    ///
    /// The memory is then kept until the queue has passed what is submitted to it before this
    /// object goes.
    #[pyo3(signature = (queue=None))]
    fn wait(&self, py: Python<'_>, queue: Option<&Bound<'_, PyQueue>>) -> PyResult<()> {
        let Some(queue) = queue else {
            if self.array().ready() != Ready::Now {
                device::open(py, self.array().device())?;
            }
            return interrupt::wait(py, self.array());
        };
        self.used_by(py, queue.get().queue())
    }

    /// Copies the array to a device, or to the device of a queue and in its order. What is there
    /// already is shared.
    ///
    /// The result is ready after an event; on the host, and on devices without events, this waits.
    fn to(slf: &Bound<'_, Self>, device: &Bound<'_, PyAny>) -> PyResult<Py<Self>> {
        let (to, queue) = device::destination(device)?;
        let copy = to_device(slf.py(), slf.get().array(), to, queue)?;
        like(slf, copy)
    }

    /// Copies the array to host memory and waits for it. What is there already is shared.
    fn to_host(slf: &Bound<'_, Self>) -> PyResult<Py<Self>> {
        let this = slf.get();
        let copy = to_device(slf.py(), this.array(), DeviceId::CPU, None)?;
        interrupt::wait(slf.py(), &copy)?;
        like(slf, copy)
    }

    /// The same array for libraries of the host: data that lives on a device is copied to the host
    /// where such a library asks for it, by ``__arrow_c_array__``, ``__arrow_c_device_array__``,
    /// ``__arrow_c_stream__`` or ``__array__``, and where Python values are read.
    fn with_host_copies(slf: &Bound<'_, Self>) -> PyResult<Py<Self>> {
        let array = slf.get().array().clone();
        wrap_like(slf.py(), array, slf.is_instance_of::<PyBatch>(), true)
    }

    /// ``length`` elements from ``offset`` on; without a length, all of the rest. Copies nothing.
    #[pyo3(signature = (offset, length=None))]
    fn slice(slf: &Bound<'_, Self>, offset: usize, length: Option<usize>) -> PyResult<Py<Self>> {
        let array = slf.get().array();
        let length = length.unwrap_or_else(|| array.len().saturating_sub(offset));
        like(slf, array.slice(offset, length).or_raise()?)
    }

    /// With a number an element as ``to_pylist`` has it, with a slice a part of the array.
    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if key.is_instance_of::<PySlice>() {
            return Ok(Self::part(slf, key)?.into_bound(slf.py()).into_any());
        }
        let number = key.extract::<isize>().map_err(|error| {
            if !error.is_instance_of::<PyTypeError>(slf.py()) {
                return error;
            }
            let of = key.get_type();
            let message = format!("an array has elements, a[2], and parts, a[2:5]; got {of}");
            PyTypeError::new_err(message)
        })?;
        let this = slf.get();
        let Some(index) = at(number, this.array().len()) else {
            let count = this.array().len();
            let message = format!("number {number} of {count} elements is out of range");
            return Err(PyIndexError::new_err(message));
        };
        // Only what is asked for is copied, where it is.
        let one = Self {
            host_copies: this.host_copies,
            ..Self::new(this.array().slice(index, 1).or_raise()?)
        };
        let host = one.for_host(slf.py(), "an element of an array", "to_host()")?;
        pylist::element(slf.py(), &host, 0)
    }

    /// The elements, as ``to_pylist`` has them, one after the other.
    fn __iter__(&self, py: Python<'_>) -> PyResult<PyElements> {
        Ok(PyElements::new(self.for_host(py, "iteration", "__arrow_c_device_array__")?))
    }

    /// All elements as Python objects: numbers, text, bytes, ``datetime``, ``Decimal``, lists,
    /// dictionaries for structs, lists of pairs for maps; an extension type is its storage.
    ///
    /// Nanoseconds that are no whole microseconds are a ``DataError``, because Python's types hold
    /// no less. For data on a device this raises ``NotSupportedError``, unless copies were allowed
    /// by ``with_host_copies``.
    ///
    /// >>> import arrow_device as ad
    /// >>> ad.array([{"x": 1}, None]).to_pylist()
    /// [{'x': 1}, None]
    fn to_pylist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        pylist::list(py, &self.for_host(py, "to_pylist", "__arrow_c_device_array__")?)
    }

    /// How many children the type has.
    #[getter]
    fn num_children(&self) -> usize {
        self.array().child_count()
    }

    /// A child as it lies, without this array's offset and length. For the columns of a batch see
    /// ``RecordBatch.column``.
    fn child(&self, index: isize) -> PyResult<Self> {
        let count = self.array().child_count();
        let Some(index) = at(index, count) else {
            let message = format!("{} has {count} children", self.array().data_type());
            return Err(PyIndexError::new_err(message));
        };
        self.array().child(index).or_raise().map(Self::new)
    }

    /// The values of a dictionary-encoded array; ``None`` for any other.
    #[getter]
    fn dictionary(&self) -> Option<Self> {
        self.array().dictionary().map(Self::new)
    }

    /// Checks what another library handed over: the structure and, with ``full``, offsets, keys and
    /// text, for which data on a device is copied to the host. Raises a ``DataError`` that names
    /// the place.
    #[pyo3(signature = (full=false))]
    fn validate(&self, py: Python<'_>, full: bool) -> PyResult<()> {
        if !full {
            return self.array().validate_layout().or_raise();
        }
        let queue = device::open(py, self.array().device())?.queue;
        let (array, is_on_host) = (self.array().clone(), self.is_on_host());
        let is_long = !is_on_host || self::is_long(&array);
        let validate =
            move || if is_on_host { array.validate() } else { array.validate_on(&queue) };
        interrupt::run_if(py, is_long, validate)?.or_raise()
    }

    /// Whether both are of one type and hold the same values, wherever they live. Reads both on the
    /// host; Ctrl-C ends that.
    fn __eq__(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<bool> {
        if slf.is(other) {
            return Ok(true);
        }
        let (py, one, other) = (slf.py(), slf.get().array(), other.get().array());
        let is_long = is_long(one);
        if one.len() != other.len() && one.data_type().equals_ignoring_metadata(other.data_type()) {
            return Ok(false);
        }
        let one = to_device(py, one, DeviceId::CPU, None)?;
        let other = to_device(py, other, DeviceId::CPU, None)?;
        interrupt::run_if(py, is_long, move || one.equals(&other))?.or_raise()
    }

    /// The tree of columns as text: types, lengths, nulls and buffers. Reads no buffer and asks no
    /// device.
    fn describe(&self) -> String {
        backends::in_words(self.array().describe())
    }

    fn __repr__(slf: &Bound<'_, Self>) -> String {
        let array = slf.get().array();
        let pending = if array.ready() == Ready::Now { "" } else { ", not waited for" };
        let on = format!("on {}{pending}", backends::called(array.device()));
        if let Some(batch) = slf.get().batch() {
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

    fn _repr_html_(slf: &Bound<'_, Self>) -> String {
        html::whole(slf.get().array(), slf.get().batch())
    }

    /// The array as a tensor, without a copy wherever its memory allows one.
    ///
    /// ``nulls`` says what stands for a null: without it they are an error, ``"nan"`` is that, and
    /// a number is that number. ``as_integers`` gives times, dates, small decimals and dictionary
    /// keys as the integers that they are in memory. Waits for the device where there may be nulls,
    /// and where bits become bytes.
    #[pyo3(signature = (*, copy=None, nulls=None, as_integers=false))]
    fn to_tensor(
        &self,
        py: Python<'_>,
        copy: Option<bool>,
        nulls: Option<&Bound<'_, PyAny>>,
        as_integers: bool,
    ) -> PyResult<PyTensor> {
        tensor::of_array(py, self.array(), copy, nulls, as_integers)
    }

    /// The Arrow PyCapsule protocol: a capsule with an ``ArrowSchema``.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::of_schema(py, &self.array().schema().or_raise()?)
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
        let schema = self.array().schema().or_raise()?;
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
    /// Only where copies were allowed by ``with_host_copies``, this is the copy in host memory.
    #[pyo3(signature = (requested_schema=None, **kwargs))]
    fn __arrow_c_device_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Capsules<'py>> {
        kwargs::refuse_unknown("__arrow_c_device_array__", kwargs)?;
        let schema = self.array().schema().or_raise()?;
        check_request(requested_schema, &schema)?;
        let array = match self.host_copies {
            true => self.for_host(py, "__arrow_c_device_array__", "to_host()")?,
            false => self.array().clone(),
        };
        let mut out = ArrowDeviceArray::empty();
        if matches!(array.ready(), Ready::AfterEvents(_)) {
            // One event has to stand for several.
            let queue = device::open(py, array.device())?.queue;
            let export = move || {
                let mut out = ArrowDeviceArray::empty();
                array.export_on(&queue, &mut out).map(|()| Moved(out))
            };
            out = py.detach(export).or_raise()?.into_inner();
        } else {
            array.export(&mut out).or_raise()?;
        }
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
        request.export_array(py, self.array())
    }

    /// DLPack: the type and the number of the device, as DLPack counts them.
    fn __dlpack_device__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        tensor::device_pair(py, self.array().device())
    }

    #[classattr]
    fn __dlpack_c_exchange_api__(py: Python<'_>) -> PyResult<Py<PyCapsule>> {
        exchange::table(py)
    }

    /// Pickle. With protocol 5 buffers in host memory can be handed over beside the pickle, without
    /// a copy. Data on a device goes through the host, and on arrival back to the same device;
    /// where that cannot be opened, a ``DeviceError`` says so.
    fn __reduce_ex__<'py>(slf: &Bound<'py, Self>, protocol: i64) -> PyResult<Bound<'py, PyTuple>> {
        let is_batch = slf.is_instance_of::<PyBatch>();
        pickle::reduce_array(slf.py(), slf.get().array(), is_batch, protocol)
    }

    /// An array does not change, and so it is its own copy.
    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// An array does not change, and so it is its own copy.
    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    /// numpy's protocol: the array as one of numpy's, in host memory, shared where it can be and
    /// ``copy`` is not true.
    ///
    /// Timestamps and durations become ``datetime64`` and ``timedelta64``, with ``NaT`` for nulls;
    /// other nulls are an error, unless ``dtype`` is ``object``.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        if copy == Some(false) && !this.is_on_host() {
            let on = this.array().device();
            return Err(invalid(format!("an array on {on} gets into host memory by a copy only")));
        }
        let array = wrap(py, this.for_host(py, "__array__", "DLPack")?, false)?;
        let asarray =
            py.import(intern!(py, "arrow_device._numpy"))?.getattr(intern!(py, "asarray"))?;
        asarray.call1((array, dtype, copy))
    }

    /// The array as one of numpy's, as ``numpy.asarray`` makes it, and read-only where the memory
    /// is shared.
    ///
    /// For data on a device this raises ``NotSupportedError``, unless copies were allowed by
    /// ``with_host_copies``.
    fn to_numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        if this.is_on_host() {
            return to_numpy::array(slf.as_any(), this.array());
        }
        let copy = Self::new(this.for_host(py, "to_numpy", "to_host()")?);
        let copy = Bound::new(py, copy)?;
        to_numpy::array(copy.as_any(), copy.get().array())
    }

    /// The CUDA array interface, version 3, of numbers without nulls on a CUDA device. This object
    /// has to live as long as the memory is used.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (about, waits) = cuda_array::of_array(py, self.array())?;
        if let Some(queue) = waits {
            self.used_by(py, &queue)?;
        }
        Ok(about)
    }

    /// The SYCL USM array interface, version 1, of numbers without nulls on a oneAPI device, for
    /// dpctl and dpnp. This object has to live as long as the memory is used, and nobody may write
    /// to the memory.
    #[getter]
    fn __sycl_usm_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (about, queue) = sycl_array::of_array(py, self.array())?;
        self.used_by(py, &queue)?;
        Ok(about)
    }

    /// The buffer protocol, of numbers without nulls in host memory.
    ///
    /// # Safety
    /// Called by Python, with a struct that is to be filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        host_buffer::fill(slf, view, flags)
    }

    /// The end of a buffer.
    ///
    /// # Safety
    /// Called by Python, once, with a struct that was filled.
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: Python's documentation of `releasebufferproc`, which this is.
        unsafe { host_buffer::release(view) }
    }
}

impl PyArray {
    /// Makes a queue wait for the data, and keeps that until the queue has passed its use.
    fn used_by(&self, py: Python<'_>, queue: &Queue) -> PyResult<()> {
        let (array, on) = (self.array().clone(), queue.clone());
        // No queue knows the events of another runtime's extension device: the host waits for them.
        let may_wait = array.device().device_type == DeviceType::EXT_DEV && !is_ready(py, &array)?;
        let view = interrupt::run_if(py, may_wait, move || array.on(&on))?.or_raise()?;
        let mut used_on = self.used_on.lock().or_raise()?;
        let is_known = |known: &View| known.queue().is_same(queue);
        if !used_on.iter().any(is_known) {
            used_on.push(view);
        }
        Ok(())
    }

    /// The part of an array that a slice names.
    pub(crate) fn part(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<Py<Self>> {
        let length = isize::try_from(slf.get().array().len()).unwrap_or(isize::MAX);
        let parts = key.cast::<PySlice>()?.indices(length)?;
        if parts.step != 1 {
            return Err(invalid(format!("a slice has the step 1 and not {}", parts.step)));
        }
        let offset = usize::try_from(parts.start).unwrap_or(0);
        Self::slice(slf, offset, Some(parts.slicelength))
    }
}

/// Whether the data may be used by now; never waits.
fn is_ready(py: Python<'_>, array: &Array) -> PyResult<bool> {
    let array = array.clone();
    py.detach(move || array.is_ready()).or_raise()
}

/// So many elements are compared, copied or checked without looking for Ctrl-C: some ten
/// milliseconds. Looking takes a thread.
pub(crate) const LONG: usize = 16_000_000;

/// Whether going through all elements takes so long that Ctrl-C has to be looked for.
pub(crate) fn is_long(array: &Array) -> bool {
    elements(array) >= LONG
}

/// How many elements a comparison goes through; more than there can be where those of lists or
/// dictionaries, which it can visit often, are among them.
fn elements(array: &Array) -> usize {
    let is_struct = matches!(array.data_type(), DataType::Struct(_));
    if array.dictionary().is_some() || array.child_count() > 0 && !is_struct {
        return usize::MAX;
    }
    let children = (0..array.child_count()).map(|index| array.child(index));
    children.fold(array.len(), |sum, child| {
        sum.saturating_add(child.map_or(usize::MAX, |child| elements(&child)))
    })
}

/// An array of the class and with the permissions of another.
pub(crate) fn like(slf: &Bound<'_, PyArray>, array: Array) -> PyResult<Py<PyArray>> {
    wrap_like(slf.py(), array, slf.is_instance_of::<PyBatch>(), slf.get().host_copies)
}
