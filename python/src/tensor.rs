//! `Tensor`, and handing tensors over by DLPack.

use std::ffi::CStr;
use std::ptr::NonNull;

use arrow_device::abi::dlpack::{
    DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned, kDLCPU,
};
use arrow_device::dlpack::{
    Conversion, CopyPolicy, Dtype, Exported, Form, Managed, Nulls, Tensor, TensorView, device_id,
    dl_device,
};
use arrow_device::driver::ForkMutex;
use arrow_device::{Array, DataType, DeviceId, DeviceType, Error, ErrorKind, Queue, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use crate::array::{self, PyArray, wrap};
use crate::attach::LastField;
use crate::backends::{self, Opened};
use crate::capsule::keeping_exception;
use crate::device::{self, PyDevice};
use crate::error::{OrRaise, invalid, refused};
use crate::live::{self, Kind, Live};
use crate::streams::{self, Ordered};
use crate::{buffer, exchange, html, interrupt, pickle, sycl_array};

/// The name of a capsule with a tensor of version 1.0 or later.
pub(crate) const VERSIONED: &CStr = c"dltensor_versioned";
/// The name of a capsule with a tensor of before.
pub(crate) const LEGACY: &CStr = c"dltensor";

/// A tensor on a device: elements of one type in any number of dimensions.
///
/// Made by ``ad.from_dlpack(x)`` or ``array.to_tensor()``, without a copy. It speaks DLPack, so
/// numpy, torch, jax and cupy take it as it is; ``to_array`` makes it an Arrow array.
///
/// >>> import arrow_device as ad, numpy as np
/// >>> t = ad.from_dlpack(np.arange(6, dtype="float32").reshape(2, 3))
/// >>> t
/// <arrow_device.Tensor float32, shape (2, 3), on cpu>
/// >>> np.from_dlpack(t).sum()
/// np.float32(15.0)
/// >>> t.to_array().type
/// DataType('fixed_size_list<item: float32 not null>[3]')
#[pyclass(frozen, weakref, module = "arrow_device", name = "Tensor")]
#[derive(Debug)]
pub(crate) struct PyTensor {
    tensor: Tensor,
    /// On the queue that the SYCL interface names, once somebody asked for that: the memory is kept
    /// until the queue has passed what is submitted before this goes.
    used_on: ForkMutex<Option<TensorView>>,
    _live: Live,
    _last: LastField,
}

impl PyTensor {
    pub(crate) fn new(tensor: Tensor) -> Self {
        let used_on = ForkMutex::default();
        Self { tensor, used_on, _live: Live::new(Kind::Tensor), _last: LastField }
    }

    pub(crate) fn tensor(&self) -> &Tensor {
        &self.tensor
    }
}

#[pymethods]
impl PyTensor {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        buffer::visit_held(&visit, |each| self.tensor.for_each_sole_import(each))
    }

    /// The length of each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor.shape())
    }

    /// How many elements lie between neighbours in each dimension.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor.strides())
    }

    /// How many dimensions.
    #[getter]
    fn ndim(&self) -> usize {
        self.tensor.shape().len()
    }

    /// How many elements.
    #[getter]
    fn size(&self) -> u64 {
        self.tensor.len()
    }

    /// How many bytes they take without gaps.
    #[getter]
    fn nbytes(&self) -> u64 {
        let Dtype { bits, lanes, .. } = self.tensor.dtype();
        let bits = if self.tensor.is_padded() { 8 } else { u64::from(bits) };
        (self.tensor.len().saturating_mul(bits * u64::from(lanes))).div_ceil(8)
    }

    /// What the elements are, such as ``"float32"``.
    #[getter]
    fn dtype(&self) -> String {
        self.tensor.dtype().to_string()
    }

    /// Where the elements live.
    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice::new(self.tensor.device())
    }

    /// Whether the elements may be used by now. Never waits.
    #[getter]
    fn ready(&self, py: Python<'_>) -> PyResult<bool> {
        let tensor = self.tensor.clone();
        py.detach(move || tensor.is_ready()).or_raise()
    }

    /// Waits until the elements may be used. Ctrl-C ends the wait.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        wait(py, &self.tensor)
    }

    fn __len__(&self) -> PyResult<usize> {
        let first = self.tensor.shape().first().and_then(|length| usize::try_from(*length).ok());
        first.ok_or_else(|| {
            pyo3::exceptions::PyTypeError::new_err("a tensor without dimensions has no length")
        })
    }

    /// Copies the tensor to a device, or to the device of a queue and in its order. What is there
    /// already is shared.
    fn to(&self, device: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (to, queue) = device::destination(device)?;
        moved(device.py(), &self.tensor, to, queue).map(Self::new)
    }

    /// Copies the tensor to host memory and waits for it. What is there already is shared.
    fn to_host(&self, py: Python<'_>) -> PyResult<Self> {
        moved(py, &self.tensor, DeviceId::CPU, None).map(Self::new)
    }

    /// The same elements with the dimensions in another order: the first one of the result is
    /// number ``axes[0]`` of this.
    fn permute(&self, axes: Vec<usize>) -> PyResult<Self> {
        self.tensor.permuted(&axes).or_raise().map(Self::new)
    }

    /// The tensor as an array, without a copy wherever its strides allow one.
    ///
    /// One dimension becomes numbers; several become an ``arrow.fixed_shape_tensor`` whose first
    /// dimension is the array's length, or with ``as_lists`` lists of fixed size in each other.
    /// ``bool`` becomes ``arrow.bool8``, or with ``pack_bools`` an array of bits. ``copy=False``
    /// raises a ``BufferError`` instead of copying.
    #[pyo3(signature = (*, copy=None, as_lists=false, pack_bools=false, as_integers=false))]
    fn to_array(
        &self,
        py: Python<'_>,
        copy: Option<bool>,
        as_lists: bool,
        pack_bools: bool,
        as_integers: bool,
    ) -> PyResult<Py<PyArray>> {
        let conversion = Conversion::new()
            .copying(copying(copy))
            .as_lists(as_lists)
            .pack_bools(pack_bools)
            .as_integers(as_integers);
        let tensor = self.tensor.clone();
        let is_long = is_long(&tensor);
        let convert = move || tensor.to_array(&conversion);
        wrap(py, interrupt::run_if(py, is_long, convert)?.or_refuse()?, false)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let shape = self.shape(py)?.repr()?;
        let (dtype, device) = (self.tensor.dtype(), backends::called(self.tensor.device()));
        Ok(format!("<arrow_device.Tensor {dtype}, shape {shape}, on {device}>"))
    }

    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let shape = self.shape(py)?.repr()?;
        let (dtype, bytes) = (self.tensor.dtype(), self.nbytes());
        let device = backends::called(self.tensor.device());
        Ok(html::tensor(&dtype.to_string(), &shape.to_string(), &device.to_string(), bytes))
    }

    /// DLPack: a capsule with the tensor. What cannot be handed over, or not in this way, is a
    /// ``BufferError``.
    ///
    /// ``stream`` waits for the data. The consumer may delete the tensor while that stream still
    /// reads it, and keeps the stream open until then.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<&Bound<'py, PyAny>>,
        dl_device: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        Request::new(stream, max_version, dl_device, copy)?.export(py, self.tensor.clone())
    }

    /// DLPack: the type and the number of the device, as DLPack counts them.
    fn __dlpack_device__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        device_pair(py, self.tensor.device())
    }

    /// The SYCL USM array interface, version 1, of numbers on a oneAPI device, for dpctl and dpnp.
    /// This object has to live as long as the memory is used, and nobody may write to the memory.
    #[getter]
    fn __sycl_usm_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (about, view) = sycl_array::of_tensor(py, &self.tensor)?;
        // One is enough, because the queue is the same each time.
        self.used_on.lock().or_raise()?.get_or_insert(view);
        Ok(about)
    }

    /// Pickle, as that of an array: through the host, and on arrival to the same device.
    fn __reduce_ex__<'py>(&self, py: Python<'py>, protocol: i64) -> PyResult<Bound<'py, PyTuple>> {
        pickle::reduce_tensor(py, &self.tensor, protocol)
    }

    #[classattr]
    fn __dlpack_c_exchange_api__(py: Python<'_>) -> PyResult<Py<PyCapsule>> {
        exchange::table(py)
    }
}

/// What `copy` stands for in DLPack's methods.
pub(crate) fn copying(copy: Option<bool>) -> CopyPolicy {
    match copy {
        None => CopyPolicy::IfNeeded,
        Some(true) => CopyPolicy::Always,
        Some(false) => CopyPolicy::Never,
    }
}

/// The device of a tensor, as DLPack counts it.
pub(crate) fn device_pair(py: Python<'_>, device: DeviceId) -> PyResult<Bound<'_, PyTuple>> {
    let DLDevice { device_type, device_id } = dl_device(device).or_refuse()?;
    PyTuple::new(py, [device_type.0, device_id])
}

/// An array as a tensor, with the choices of `Array.to_tensor`.
pub(crate) fn of_array(
    py: Python<'_>,
    array: &Array,
    copy: Option<bool>,
    nulls: Option<&Bound<'_, PyAny>>,
    as_integers: bool,
) -> PyResult<PyTensor> {
    let mut conversion = Conversion::new().copying(copying(copy)).as_integers(as_integers);
    if let Some(nulls) = nulls {
        conversion = conversion.nulls(stand_in(array, nulls, as_integers)?);
    }
    // Where nothing has to be read or copied, the device need not be open.
    let _ = py.detach(|| backends::open(array.device()));
    let array = array.clone();
    let may_wait = may_wait(&array);
    let convert = move || array.to_tensor(&conversion);
    interrupt::run_if(py, may_wait, convert)?.or_refuse().map(PyTensor::new)
}

/// Whether to make a tensor of an array may take long: where nulls are looked for on a device, or
/// in many elements.
fn may_wait(array: &Array) -> bool {
    !has_only_numbers(array) && (array.device() != DeviceId::CPU || array::is_long(array))
}

/// Whether the elements are numbers of which none is null, so that nobody has to look at them.
fn has_only_numbers(array: &Array) -> bool {
    array.null_count() == Some(0) && is_number(array.data_type())
}

/// What shall stand for nulls, as an element of the tensor that the array will be.
fn stand_in(array: &Array, nulls: &Bound<'_, PyAny>, as_integers: bool) -> PyResult<Nulls> {
    if let Ok(text) = nulls.extract::<String>() {
        let message = || format!("`nulls` is \"nan\" or an element, such as 0, and not {text:?}");
        return if text == "nan" { Ok(Nulls::NaN) } else { Err(invalid(message())) };
    }
    let empty = array.slice(0, 0).or_raise()?;
    if !nulls.hasattr("__float__")? && !nulls.hasattr("__index__")? {
        let class = nulls.get_type();
        let message = format!("`nulls` is \"nan\" or an element, such as 0, and not {class}");
        return Err(PyTypeError::new_err(message));
    }
    let any = Conversion::new().copying(CopyPolicy::IfNeeded).as_integers(as_integers);
    let dtype = empty.to_tensor(&any).or_refuse()?.dtype();
    let fill = match dtype {
        Dtype::BOOL => Nulls::Fill { dtype, value: vec![u8::from(nulls.extract::<bool>()?)] },
        Dtype::INT8 => Nulls::fill(nulls.extract::<i8>()?),
        Dtype::INT16 => Nulls::fill(nulls.extract::<i16>()?),
        Dtype::INT32 => Nulls::fill(nulls.extract::<i32>()?),
        Dtype::INT64 => Nulls::fill(nulls.extract::<i64>()?),
        Dtype::UINT8 => Nulls::fill(nulls.extract::<u8>()?),
        Dtype::UINT16 => Nulls::fill(nulls.extract::<u16>()?),
        Dtype::UINT32 => Nulls::fill(nulls.extract::<u32>()?),
        Dtype::UINT64 => Nulls::fill(nulls.extract::<u64>()?),
        Dtype::FLOAT32 => Nulls::fill(nulls.extract::<f32>()?),
        Dtype::FLOAT64 => Nulls::fill(nulls.extract::<f64>()?),
        other => return Err(invalid(format!("{other} is filled with \"nan\" only"))),
    };
    Ok(fill)
}

/// Whether going through all elements takes so long that Ctrl-C has to be looked for.
pub(crate) fn is_long(tensor: &Tensor) -> bool {
    tensor.len() >= array::LONG as u64
}

/// Waits until a tensor may be used.
pub(crate) fn wait(py: Python<'_>, tensor: &Tensor) -> PyResult<()> {
    if tensor.is_ready().is_ok_and(|ready| ready) {
        return Ok(());
    }
    device::open(py, tensor.device())?;
    let tensor = tensor.clone();
    interrupt::interruptible(py, move || tensor.wait())
}

/// The tensor on another device, in the order of a queue there if there is one.
pub(crate) fn moved(
    py: Python<'_>,
    tensor: &Tensor,
    to: DeviceId,
    queue: Option<Queue>,
) -> PyResult<Tensor> {
    if backends::called(tensor.device()) == to {
        return Ok(tensor.clone());
    }
    let (from, mut to) = (device::open(py, tensor.device())?, device::open(py, to)?);
    to.queue = queue.unwrap_or(to.queue);
    if to.device.id() == tensor.device() {
        return Ok(tensor.clone());
    }
    let tensor = tensor.clone();
    interrupt::interruptible(py, move || carry(&tensor, &from, &to))
}

/// By way of the host.
fn carry(tensor: &Tensor, from: &Opened, to: &Opened) -> Result<Tensor> {
    let on_host = tensor.copy_to_host(&from.queue)?;
    if to.device.id() == DeviceId::CPU {
        return Ok(on_host);
    }
    if tensor.is_padded() {
        let message = format!("{} with padding cannot be moved to a device", tensor.dtype());
        return Err(Error::new(ErrorKind::Unsupported, message).on_device(to.device.id()));
    }
    let bytes = on_host.host()?.to_bytes()?;
    let mut memory = to.device.allocate(bytes.len() as u64)?;
    memory.write(&to.queue, &bytes)?;
    Tensor::from_buffer(memory.into_buffer(), tensor.dtype(), tensor.shape())
}

/// What a consumer asks of `__dlpack__`.
#[derive(Debug)]
pub(crate) struct Request {
    stream: Option<i64>,
    max_version: Option<(u32, u32)>,
    device: Option<DLDevice>,
    copying: CopyPolicy,
}

impl Request {
    /// Arguments that are none are a `ValueError`: a `TypeError` would say that this object has an
    /// old signature.
    pub(crate) fn new(
        stream: Option<&Bound<'_, PyAny>>,
        max_version: Option<&Bound<'_, PyAny>>,
        dl_device: Option<&Bound<'_, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Self> {
        let stream = stream.map(|stream| {
            stream.extract::<i64>().map_err(|_| invalid("`stream` is an integer or None"))
        });
        let max_version = max_version.map(|version| {
            let pair = version.extract::<(u32, u32)>();
            pair.map_err(|_| invalid("`max_version` is a pair of integers or None"))
        });
        let device = dl_device.map(|device| {
            let pair = device.extract::<(i32, i32)>();
            pair.map_err(|_| invalid("`dl_device` is a pair of integers or None"))
        });
        let device = device.transpose()?.map(|(device_type, device_id)| DLDevice {
            device_type: DLDeviceType(device_type),
            device_id,
        });
        Ok(Self {
            stream: stream.transpose()?,
            max_version: max_version.transpose()?,
            device,
            copying: copying(copy),
        })
    }

    /// The array in a capsule, as a tensor in the form, on the device and in the order that were
    /// asked for.
    pub(crate) fn export_array<'py>(
        &self,
        py: Python<'py>,
        array: &Array,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let moves = self.moves(array.device())?;
        // What is copied on the way to the host is not copied before.
        let copying = if moves { CopyPolicy::IfNeeded } else { self.copying };
        let conversion = Conversion::new().copying(copying);
        if array.device() != DeviceId::CPU {
            // Where nothing has to be read or copied, the device need not be open.
            let _ = py.detach(|| backends::open(array.device()));
        }
        let shared = array.clone();
        let convert = move || shared.to_tensor(&conversion);
        let reads_nothing = array.device() == DeviceId::CPU
            && copying == CopyPolicy::IfNeeded
            && has_only_numbers(array);
        // Letting go of the interpreter costs more than to share memory.
        let tensor = match reads_nothing {
            true => convert(),
            false => interrupt::run_if(py, may_wait(array), convert)?,
        };
        self.finish(py, tensor.or_refuse()?, moves, copying == CopyPolicy::Always)
    }

    /// The tensor in a capsule, in the same way.
    pub(crate) fn export<'py>(
        &self,
        py: Python<'py>,
        tensor: Tensor,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let moves = self.moves(tensor.device())?;
        self.finish(py, tensor, moves, false)
    }

    fn finish<'py>(
        &self,
        py: Python<'py>,
        tensor: Tensor,
        moves: bool,
        is_copied: bool,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let from = tensor.device();
        let tensor = if moves { moved(py, &tensor, DeviceId::CPU, None)? } else { tensor };
        // A copy that was made for this consumer is not copied again.
        let copying = if moves || is_copied { CopyPolicy::IfNeeded } else { self.copying };
        let ordered = match moves {
            // The stream is one of the device that the data comes from, and need not wait for a
            // copy that the host has waited for.
            true => streams::check(from, self.stream).map(|()| Ordered::Host)?,
            false => streams::order(py, from, self.stream)?,
        };
        if matches!(ordered, Ordered::Host) {
            wait(py, &tensor)?;
        }
        let is_on_host = tensor.device() == DeviceId::CPU;
        let export = move || tensor.export_for(self.max_version, ordered.order(), copying);
        // Host memory is shared with those who understand that it is read-only.
        let shares = is_on_host
            && copying != CopyPolicy::Always
            && self.max_version.is_some_and(|(major, _)| major > 0);
        match if shares { export() } else { py.detach(export) }.or_refuse()? {
            Exported::Versioned(managed) => wrap_managed(py, managed, VERSIONED),
            Exported::Legacy(managed) => wrap_managed(py, managed, LEGACY),
        }
    }

    /// Whether a tensor on this device has to be brought to another one, which can be the host
    /// only.
    fn moves(&self, from: DeviceId) -> PyResult<bool> {
        let own = dl_device(from).or_refuse()?;
        let Some(wanted) = self.device.filter(|wanted| *wanted != own) else { return Ok(false) };
        let is_host = |device: DLDevice| device.device_type == kDLCPU;
        if is_host(wanted) && is_host(own) {
            return Ok(false);
        }
        if !is_host(wanted) {
            return Err(refused(format!(
                "a tensor on {from} is handed over there or in host memory, and not on device {:?}",
                (wanted.device_type.0, wanted.device_id)
            )));
        }
        if self.copying == CopyPolicy::Never {
            let message = format!("a tensor on {from} gets into host memory by a copy only");
            return Err(refused(message));
        }
        Ok(true)
    }
}

/// Whether elements are numbers in memory, which are shared and not looked at.
fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_floating()
}

/// A tensor in a capsule, which deletes it if nobody takes it out.
fn wrap_managed<'py, F: Form>(
    py: Python<'py>,
    managed: Managed<F>,
    name: &'static CStr,
) -> PyResult<Bound<'py, PyCapsule>>
where
    Managed<F>: 'static,
{
    let raw = managed.into_raw();
    let Some(address) = NonNull::new(raw) else {
        return Err(refused("a tensor without a struct"));
    };
    live::add(Kind::Capsule);
    // SAFETY: the tensor stays valid until its deleter is called, which can happen on any thread;
    // whoever takes it out of the capsule renames that, and then the destructor leaves it alone.
    let capsule = unsafe {
        PyCapsule::new_with_pointer_and_destructor(py, address.cast(), name, Some(destroy))
    };
    capsule.inspect_err(|_| {
        live::remove(Kind::Capsule);
        // SAFETY: no capsule has it.
        drop(unsafe { Managed::from_raw(raw) });
    })
}

/// The destructor of the capsules that are made here.
///
/// # Safety
/// Called by Python, once, for a capsule that `wrap_managed` made.
unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
    live::remove(Kind::Capsule);
    // SAFETY: Python passes the capsule that is being destroyed.
    let legacy = unsafe { unconsumed::<DLManagedTensor>(capsule, LEGACY) };
    // SAFETY: Python passes the capsule that is being destroyed.
    let versioned = unsafe { unconsumed::<DLManagedTensorVersioned>(capsule, VERSIONED) };
    keeping_exception(|| drop((legacy, versioned)));
}

/// The tensor of a capsule that nobody has consumed, which would have renamed it.
///
/// # Safety
/// A capsule that is being destroyed; with this name it has such a tensor.
unsafe fn unconsumed<F: Form>(capsule: *mut ffi::PyObject, name: &CStr) -> Option<Managed<F>> {
    // SAFETY: a capsule that is being destroyed; with this name it has such a tensor, as the caller
    // promises.
    if unsafe { ffi::PyCapsule_IsValid(capsule, name.as_ptr()) } == 0 {
        return None;
    }
    // SAFETY: the object is alive, as the caller promises, and a capsule of this name, so that no
    // exception is set.
    let address = unsafe { ffi::PyCapsule_GetPointer(capsule, name.as_ptr()) };
    // SAFETY: nobody took the tensor out, and nobody can any more.
    unsafe { Managed::from_raw(address.cast()) }.ok()
}

/// Whether tensors on a device can be taken over: on the host, and where there is a backend that
/// opens it.
pub(crate) fn supported(py: Python<'_>, device: DLDevice) -> Result<(DeviceId, Queue)> {
    let id = device_id(device)?;
    if id.device_type == DeviceType::CPU {
        return Ok((id, Queue::host()));
    }
    if backends::backend(id.device_type).is_none() {
        return Err(backends::no_backend(id));
    }
    py.detach(|| backends::open(id)).map(|opened| (id, opened.queue))
}
