//! `Device` and `Queue`.

use std::fmt;
use std::ptr::NonNull;

use arrow_device::driver::Raw;
use arrow_device::{DeviceId, DeviceType, Queue};
use arrow_device_oneapi::SyclQueue;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::backends::{self, Opened};
use crate::error::{OrRaise, invalid};
use crate::interrupt;
use crate::live::{Kind, Live};

/// A device: where an array or a tensor lives.
///
/// ``ad.device("opencl:0")`` names one, ``ad.devices()`` lists those that there are. Naming a
/// device opens nothing.
///
/// >>> import arrow_device as ad
/// >>> ad.device("cpu")
/// Device('cpu', -1)
/// >>> ad.device("cuda:1") == ad.device(("cuda", 1))
/// True
#[pyclass(frozen, eq, hash, module = "arrow_device", name = "Device")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct PyDevice {
    id: DeviceId,
}

impl PyDevice {
    pub(crate) fn new(id: DeviceId) -> Self {
        Self { id: backends::called(id) }
    }

    pub(crate) fn open(&self, py: Python<'_>) -> PyResult<Opened> {
        open(py, self.id)
    }
}

/// Opens a device, or finds it open.
pub(crate) fn open(py: Python<'_>, id: DeviceId) -> PyResult<Opened> {
    py.detach(|| backends::open(id)).or_raise()
}

#[pymethods]
impl PyDevice {
    /// The type, such as ``"cuda"``; for one without a name its number.
    #[getter]
    fn r#type(&self) -> String {
        self.id.device_type.to_string()
    }

    /// The number of the type, as Arrow and DLPack count them.
    #[getter]
    fn type_id(&self) -> i32 {
        self.id.device_type.0
    }

    /// Which one of this type. -1 for host memory; for Vulkan its place in the driver's list; a
    /// handle or a tag for some types.
    #[getter(id)]
    fn number(&self) -> i64 {
        self.id.id
    }

    /// What the driver calls it; ``None`` for one that is not open and not found.
    #[getter]
    fn name(&self, py: Python<'_>) -> Option<String> {
        if let Some(device) = arrow_device::Device::find(self.id) {
            return Some(device.properties().name.clone());
        }
        let list = backends::backend(self.id.device_type)?.list;
        let listed = py.detach(list).ok()?;
        listed
            .into_iter()
            .find(|found| backends::called(found.id) == self.id)
            .map(|found| found.name)
    }

    /// How many bytes this process holds on the device: allocated here, kept for copies, imported
    /// from other libraries and exported to them. The last two are counted from the first look on.
    #[getter]
    fn held<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let device = self.open(py)?.device;
        device.count_exchanges();
        let held = device.held();
        let parts = PyDict::new(py);
        parts.set_item("allocated", held.allocated)?;
        parts.set_item("staging", held.staging)?;
        parts.set_item("imported", held.imported)?;
        parts.set_item("exported", held.exported)?;
        Ok(parts)
    }

    /// Opens a queue on it: a lane of work, such as a CUDA stream.
    fn queue(&self, py: Python<'_>) -> PyResult<PyQueue> {
        let device = self.open(py)?.device;
        py.detach(|| device.open_queue()).or_raise().map(PyQueue::new)
    }

    fn __str__(&self) -> String {
        self.id.to_string()
    }

    fn __repr__(&self) -> String {
        format!("Device('{}', {})", self.id.device_type, self.id.id)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let make = py.import("arrow_device")?.getattr("device")?;
        let arguments = ((self.id.device_type.0, self.id.id),).into_pyobject(py)?;
        (make, arguments).into_pyobject(py)
    }
}

impl fmt::Debug for PyDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.id, f)
    }
}

/// Where something shall go: the device of a queue and that queue, or a device that was
/// [`named`].
pub(crate) fn destination(
    object: &Bound<'_, PyAny>,
) -> PyResult<(DeviceId, Option<arrow_device::Queue>)> {
    match object.cast::<PyQueue>() {
        Ok(queue) => {
            let queue = queue.get().queue().clone();
            Ok((backends::called(queue.device().id()), Some(queue)))
        }
        Err(_) => named(object).map(|device| (device, None)),
    }
}

/// The device that somebody named: a `Device`, `"cuda:0"`, a pair of type and number, a queue of
/// it, or another library's device.
pub(crate) fn named(object: &Bound<'_, PyAny>) -> PyResult<DeviceId> {
    if let Ok(device) = object.cast::<PyDevice>() {
        return Ok(device.get().id);
    }
    if let Ok(queue) = object.cast::<PyQueue>() {
        return Ok(backends::called(queue.get().queue().device().id()));
    }
    if let Ok(text) = object.extract::<String>() {
        return text.parse().or_raise().map(backends::called);
    }
    if let Ok(pair) = object.cast::<PyTuple>() {
        if let Ok((name, id)) = pair.extract::<(String, i64)>() {
            return Ok(backends::called(DeviceId::new(name.parse().or_raise()?, id)));
        }
        if let Ok((number, id)) = pair.extract::<(i32, i64)>() {
            return Ok(backends::called(DeviceId::new(DeviceType(number), id)));
        }
        return Err(invalid("a device is a pair of its type and its number, such as ('cuda', 0)"));
    }
    if let Some(id) = of_library(object)? {
        return Ok(id);
    }
    let message = format!("expected a device such as 'cuda:0', got {}", object.get_type());
    Err(PyTypeError::new_err(message))
}

/// The device of an object with a `type` and an `index`, as `torch.device` has them.
fn of_library(object: &Bound<'_, PyAny>) -> PyResult<Option<DeviceId>> {
    let (kind, index) = (object.getattr_opt("type")?, object.getattr_opt("index")?);
    let (Some(kind), Some(index)) = (kind, index) else { return Ok(None) };
    let (Ok(kind), Ok(index)) = (kind.extract::<String>(), index.extract::<Option<i64>>()) else {
        return Ok(None);
    };
    let device_type: DeviceType = kind.parse().or_raise()?;
    // All of the host is one device; without an index the first one is meant.
    Ok(Some(match index {
        _ if device_type == DeviceType::CPU => DeviceId::CPU,
        None => kind.parse().or_raise()?,
        Some(index) => backends::called(DeviceId::new(device_type, index)),
    }))
}

/// A lane of work on a device, in order: a CUDA stream, an OpenCL command queue.
///
/// >>> import arrow_device as ad
/// >>> queue = ad.device("cpu").queue()
/// >>> queue.synchronize()
/// >>> queue.device
/// Device('cpu', -1)
#[pyclass(frozen, module = "arrow_device", name = "Queue")]
#[derive(Debug)]
pub(crate) struct PyQueue {
    queue: arrow_device::Queue,
    _live: Live,
}

impl PyQueue {
    pub(crate) fn new(queue: arrow_device::Queue) -> Self {
        Self { queue, _live: Live::new(Kind::Queue) }
    }

    pub(crate) fn queue(&self) -> &arrow_device::Queue {
        &self.queue
    }
}

#[pymethods]
impl PyQueue {
    /// A queue that another library opened, by its handle as an integer: a ``cudaStream_t`` (0 and
    /// 1 are the default stream), a ``hipStream_t``, a ``cl_command_queue``, a ``VkQueue``, a
    /// ``sycl::queue*`` (``dpctl.SyclQueue.addressof_ref()``).
    ///
    /// It has to stay open as long as this object and all that was used on it; of a ``sycl::queue``
    /// a reference is taken, so it need not. A handle that is none is a crash. The default stream
    /// of a thread (2) is refused: it is another one on each thread, and queues are used on all.
    #[staticmethod]
    fn from_handle(device: &Bound<'_, PyAny>, handle: usize) -> PyResult<Self> {
        let device = open(device.py(), named(device)?)?.device;
        let of_thread = device.properties().default_queues.and_then(|queues| queues.of_thread);
        if of_thread == Some(Raw::from_bits(handle)) {
            return Err(invalid("the default stream of a thread is another one on each thread"));
        }
        if let (DeviceType::ONEAPI, Some(queue)) =
            (device.id().device_type, NonNull::new(Raw::<Queue>::from_bits(handle).as_ptr()))
        {
            // SAFETY: UNS-29: what it asks is said above; Python programs pass handles as integers
            // and answer for them.
            let copy = unsafe { SyclQueue::copy_of(queue) }.or_raise()?;
            let raw = Raw::from_ptr(copy.as_ptr());
            // SAFETY: UNS-20: the queue is open as long as its copy, which is the owner.
            return Ok(Self::new(unsafe { device.adopt_queue_of(raw, copy) }));
        }
        // SAFETY: what it asks is said above; Python programs pass handles as integers and answer
        // for them.
        Ok(Self::new(unsafe { device.adopt_queue(Raw::from_bits(handle)) }))
    }

    /// The device that it is on.
    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice::new(self.queue.device().id())
    }

    /// The handle of the driver's own queue, for work of one's own. 0 on the host.
    #[getter]
    fn handle(&self) -> usize {
        self.queue.raw().bits()
    }

    /// Whether all that was submitted has finished. Never waits.
    #[getter]
    fn idle(&self, py: Python<'_>) -> PyResult<bool> {
        py.detach(|| self.queue.is_idle()).or_raise()
    }

    /// Waits until all that was submitted has finished. Ctrl-C ends the wait.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        let queue = self.queue.clone();
        interrupt::interruptible(py, move || queue.synchronize())
    }

    fn __repr__(&self) -> String {
        format!("<arrow_device.Queue on {}>", backends::called(self.queue.device().id()))
    }
}
