//! Taking tensors over from any object that speaks DLPack.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use arrow_device::abi::dlpack::{
    DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned, DLPACK_MAJOR_VERSION,
    DLPACK_MINOR_VERSION,
};
use arrow_device::dlpack::{Order, Tensor, dl_device};
use arrow_device::{DeviceId, DeviceType, Queue};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::critical_section::with_critical_section;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyDict};

use crate::capsule;
use crate::error::{OrRaise, refused};
use crate::tensor::{LEGACY, VERSIONED, is_long, moved, supported};
use crate::{interrupt, streams, sycl_array};

/// What a consumed capsule is called.
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";
const USED_LEGACY: &CStr = c"used_dltensor";

/// The tensor of an object with `__dlpack__` and `__dlpack_device__`, or of a capsule of DLPack;
/// copied in the order of a queue, where it has to get to the device of one.
pub(crate) fn take(
    object: &Bound<'_, PyAny>,
    device: Option<DeviceId>,
    on: Option<Queue>,
    copy: Option<bool>,
) -> PyResult<Tensor> {
    let py = object.py();
    // The host is one device, whatever number it is asked for by.
    let device =
        device.map(|id| if id.device_type == DeviceType::CPU { DeviceId::CPU } else { id });
    if let Ok(capsule) = object.cast::<PyCapsule>() {
        let tensor = consume(capsule, Order::Host)?;
        return arrange(py, tensor, device, on, copy, copy == Some(true));
    }
    let export = object.getattr(intern!(py, "__dlpack__"))?;
    let of = object.call_method0(intern!(py, "__dlpack_device__"))?.extract::<(i32, i64)>()?;
    let asks_host = device == Some(DeviceId::CPU) && of.0 != DeviceType::CPU.0;
    let mut given = if asks_host { (DeviceId::CPU, Queue::host()) } else { place(py, of)? };
    // Those that even old producers know.
    let old = |(id, queue): &(DeviceId, Queue)| {
        let arguments = PyDict::new(py);
        if streams::are_passed(id.device_type) {
            // The queue that will use the tensor is ours; the producer makes it wait.
            arguments.set_item(intern!(py, "stream"), queue.raw().bits())?;
        }
        PyResult::Ok(arguments)
    };
    let new = old(&given)?;
    new.set_item(intern!(py, "max_version"), (DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION))?;
    if asks_host {
        let host = dl_device(DeviceId::CPU).or_refuse()?;
        new.set_item("dl_device", (host.device_type.0, host.device_id))?;
    }
    if let Some(copy) = copy {
        new.set_item("copy", copy)?;
    }
    let (made, was_told) = match export.call((), Some(&new)) {
        Ok(made) => (made, true),
        // A signature from before these arguments.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            if asks_host {
                // It knows of no other device than its own, and gives the tensor there.
                given = place(py, of)?;
            }
            (export.call((), Some(&old(&given)?))?, false)
        }
        Err(error) => return Err(error),
    };
    let capsule = made.cast_into::<PyCapsule>().map_err(|error| {
        PyTypeError::new_err(format!("__dlpack__ gives a capsule, and this gave {error}"))
    })?;
    let mut is_ordered = streams::are_passed(given.0.device_type);
    // Arrays of dpnp tell nothing by DLPack that a consumer has to wait for.
    if given.0.device_type == DeviceType::ONEAPI
        && let Some(waiting) = sycl_array::order_of(object)?
    {
        given = (waiting.device.id(), waiting.queue);
        is_ordered = true;
    }
    let (_, queue) = &given;
    let order = if is_ordered { Order::On(queue) } else { Order::Host };
    let tensor = consume(&capsule, order)?;
    arrange(py, tensor, device, on, copy, copy == Some(true) && !was_told)
}

/// The device that a producer names, if tensors there can be taken over.
fn place(py: Python<'_>, (device_type, device_id): (i32, i64)) -> PyResult<(DeviceId, Queue)> {
    let unsupported = |why: String| {
        let name = arrow_device::DeviceType(device_type);
        PyTypeError::new_err(format!("tensors on {name}:{device_id} are not supported here: {why}"))
    };
    let device_id = i32::try_from(device_id).map_err(|error| unsupported(error.to_string()))?;
    let device = DLDevice { device_type: DLDeviceType(device_type), device_id };
    supported(py, device).map_err(|error| unsupported(error.to_string()))
}

/// Does what the producer was not asked, or did not know, to do.
fn arrange(
    py: Python<'_>,
    tensor: Tensor,
    device: Option<DeviceId>,
    on: Option<Queue>,
    copy: Option<bool>,
    copy_here: bool,
) -> PyResult<Tensor> {
    // SAFETY: `from_dlpack` tells its callers that nobody may write to a tensor that is shared as
    // long as it is.
    let tensor = unsafe { tensor.assume_frozen() };
    if let Some(device) = device.filter(|device| *device != tensor.device()) {
        if copy == Some(false) {
            let from = tensor.device();
            return Err(refused(format!("a tensor on {from} gets to {device} by a copy only")));
        }
        let before = tensor.device();
        let tensor = moved(py, &tensor, device, on)?;
        if tensor.device() != before {
            return Ok(tensor);
        }
        return copied(py, tensor, copy_here);
    }
    copied(py, tensor, copy_here)
}

fn copied(py: Python<'_>, tensor: Tensor, copy_here: bool) -> PyResult<Tensor> {
    if !copy_here {
        return Ok(tensor);
    }
    let queue = crate::device::open(py, tensor.device())?.queue;
    let is_long = is_long(&tensor);
    interrupt::run_if(py, is_long, move || tensor.copy(&queue))?.or_refuse()
}

/// Takes the tensor out of a capsule. It is renamed before anything can fail, and from then on the
/// tensor is deleted here.
pub(crate) fn consume(capsule: &Bound<'_, PyCapsule>, order: Order<'_>) -> PyResult<Tensor> {
    let taken = with_critical_section(capsule, || {
        if let Some(pointer) = take_out(capsule, VERSIONED, USED_VERSIONED)? {
            return Ok(Some((pointer, true)));
        }
        Ok::<_, PyErr>(take_out(capsule, LEGACY, USED_LEGACY)?.map(|pointer| (pointer, false)))
    })?;
    let Some((pointer, is_versioned)) = taken else {
        let name = capsule::name(capsule);
        let message = if name.starts_with("'used_dltensor") {
            "the capsule was consumed already; each is for one consumer".to_owned()
        } else {
            format!("expected a capsule named 'dltensor' or 'dltensor_versioned', got {name}")
        };
        return Err(PyValueError::new_err(message));
    };
    let (versioned, legacy) = (
        pointer.as_ptr().cast::<DLManagedTensorVersioned>(),
        pointer.as_ptr().cast::<DLManagedTensor>(),
    );
    let tensor = if is_versioned {
        // SAFETY: a capsule of this name has such a tensor, and it was taken out of it.
        unsafe { Tensor::import(versioned, order) }
    } else {
        // SAFETY: a capsule of this name has such a tensor, and it was taken out of it.
        unsafe { Tensor::import(legacy, order) }
    };
    tensor.or_refuse()
}

/// The pointer of a capsule with this name, which gets the other one.
fn take_out(
    capsule: &Bound<'_, PyCapsule>,
    name: &'static CStr,
    used: &'static CStr,
) -> PyResult<Option<NonNull<c_void>>> {
    if !capsule.is_valid_checked(Some(name)) {
        return Ok(None);
    }
    let pointer = capsule.pointer_checked(Some(name))?;
    // SAFETY: a capsule, and a name that lives as long as the process.
    let failed = unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) };
    if failed != 0 { Err(PyErr::fetch(capsule.py())) } else { Ok(Some(pointer)) }
}
