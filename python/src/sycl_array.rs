//! The SYCL USM array interface, `__sycl_usm_array_interface__`, both ways, and where dpctl is.
//!
//! The interface is that of dpctl and dpnp. Its dictionary names a queue, by which the data is
//! ordered: what was submitted to the queue before comes first, and whoever uses the memory submits
//! to that queue, or to one that waits for it. Nothing tells the producer that a consumer is done.
//! An object of the producer has to live as long as its memory is used.
//!
//! Queues are passed in capsules with the address of a `sycl::queue`, which an object makes in its
//! method `_get_capsule`. A consumer copies the queue, and the capsule gives back its own
//! reference.

use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::Once;

use arrow_device::dlpack::{Conversion, CopyPolicy, Tensor, TensorView};
use arrow_device::driver::Raw;
use arrow_device::{Array, DeviceId, DeviceType, Error, ErrorKind, Queue};
use arrow_device_oneapi::{Kind, SyclQueue};
use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyDict, PyTuple};

use crate::attach::attached;
use crate::backends::{self, Opened};
use crate::described::{Described, compact, dtype, type_string};
use crate::device;
use crate::error::{OrRaise, refused};
use crate::streams::Ordered;

/// The version of the interface.
const VERSION: i64 = 1;
const QUEUE: &CStr = c"SyclQueueRef";
/// What a capsule is called whose queue was copied.
const USED_QUEUE: &CStr = c"used_SyclQueueRef";

/// Names dpctl's library, where the package is installed and nobody named another library. Comes
/// before whatever loads the library.
pub(crate) fn find_library() {
    static LOOKED: Once = Once::new();
    if LOOKED.is_completed() || std::env::var_os("ARROW_DEVICE_ONEAPI_LIBRARY").is_some() {
        return;
    }
    let found = attached(|py| beside_dpctl(py).ok().flatten()).flatten();
    LOOKED.call_once(|| {
        if let Some(path) = found {
            // SAFETY: UNS-31: the file is dpctl's, of the package of that name. Where the library
            // is not loaded, the next one who asks for devices is told.
            let _ = unsafe { arrow_device_oneapi::use_library(path) };
        }
    });
}

/// The library in the folder of the package, which is not imported.
fn beside_dpctl(py: Python<'_>) -> PyResult<Option<String>> {
    let specification = py.import("importlib.util")?.call_method1("find_spec", ("dpctl",))?;
    if specification.is_none() {
        return Ok(None);
    }
    let folders = specification.getattr("submodule_search_locations")?;
    let name = match cfg!(windows) {
        true => "DPCTLSyclInterface.dll",
        false => "libDPCTLSyclInterface.so",
    };
    for folder in folders.try_iter()? {
        let path = std::path::Path::new(&folder?.extract::<String>()?).join(name);
        if path.is_file() {
            return Ok(path.to_str().map(str::to_owned));
        }
    }
    Ok(None)
}

/// A queue of this package, for libraries that take the interface.
#[pyclass(frozen, module = "arrow_device", name = "SyclQueue")]
#[derive(Debug)]
pub(crate) struct PySyclQueue {
    queue: Queue,
}

#[pymethods]
impl PySyclQueue {
    /// A capsule with the address of the ``sycl::queue``, for ``dpctl.SyclQueue``.
    fn _get_capsule<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let queue = SyclQueue::of(&self.queue).or_raise()?;
        let raw = queue.into_raw();
        let address = NonNull::new(raw).ok_or_else(|| refused("a queue without an address"))?;
        // SAFETY: the address is valid until the destructor gives it back, on whatever thread.
        let capsule = unsafe {
            PyCapsule::new_with_pointer_and_destructor(py, address, QUEUE, Some(destroy))
        };
        capsule.inspect_err(|_| {
            // SAFETY: `into_raw` gave it, and no capsule has it.
            drop(unsafe { SyclQueue::from_raw(address) });
        })
    }
}

/// The destructor of the capsules that are made here. Whoever renamed the capsule has copied the
/// queue.
///
/// # Safety
/// Called by Python, once, for a capsule that `_get_capsule` made.
unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
    for name in [QUEUE, USED_QUEUE] {
        // SAFETY: Python passes the capsule that is being destroyed.
        if unsafe { ffi::PyCapsule_IsValid(capsule, name.as_ptr()) } == 0 {
            continue;
        }
        // SAFETY: the capsule is alive, and has this name, so that no exception is set.
        let address = unsafe { ffi::PyCapsule_GetPointer(capsule, name.as_ptr()) };
        if let Some(address) = NonNull::new(address) {
            // SAFETY: `into_raw` gave it to the capsule, which is destroyed once.
            drop(unsafe { SyclQueue::from_raw(address) });
        }
    }
}

/// The dictionary for an array on a oneAPI device, and the queue that it names, which has to be
/// told to wait for the data.
pub(crate) fn of_array<'py>(
    py: Python<'py>,
    array: &Array,
) -> PyResult<(Bound<'py, PyDict>, Queue)> {
    require_oneapi(array.device())?;
    let conversion = Conversion::new().copying(CopyPolicy::Never);
    let shared = array.clone();
    let tensor = py.detach(move || shared.to_tensor(&conversion)).or_refuse().map_err(|error| {
        let message = "the SYCL USM array interface gets arrays of numbers without nulls, for it has no mask; use DLPack with \
                       to_tensor(nulls=..), or the Arrow PyCapsule protocol";
        let raised = refused(message);
        raised.set_cause(py, Some(error));
        raised
    })?;
    let (about, view) = of_tensor(py, &tensor)?;
    Ok((about, view.queue().clone()))
}

/// The dictionary for a tensor on a oneAPI device, and the view of it on the queue that the
/// dictionary names: the queue waits for the data, and the memory is kept until the queue has
/// passed what is submitted before the view goes.
pub(crate) fn of_tensor<'py>(
    py: Python<'py>,
    tensor: &Tensor,
) -> PyResult<(Bound<'py, PyDict>, TensorView)> {
    require_oneapi(tensor.device())?;
    let dtype = type_string(tensor.dtype())?;
    let queue = device::open(py, tensor.device())?.queue;
    let view = py.detach(|| tensor.on(&queue)).or_refuse()?;
    let about = PyDict::new(py);
    about.set_item("version", VERSION)?;
    about.set_item("shape", PyTuple::new(py, tensor.shape())?)?;
    about.set_item("typestr", dtype)?;
    let address = if tensor.is_empty() { 0 } else { view.location().address().addr() };
    about.set_item("data", (address, true))?;
    let strides = (!tensor.is_compact()).then(|| PyTuple::new(py, tensor.strides()));
    about.set_item("strides", strides.transpose()?)?;
    about.set_item("offset", 0)?;
    about.set_item("syclobj", PySyclQueue { queue })?;
    Ok((about, view))
}

fn require_oneapi(on: DeviceId) -> PyResult<()> {
    if on.device_type == DeviceType::ONEAPI {
        return Ok(());
    }
    let on = backends::called(on);
    let message =
        format!("__sycl_usm_array_interface__ is for oneAPI devices, and this lives on {on}");
    Err(PyAttributeError::new_err(message))
}

/// What an object with `__sycl_usm_array_interface__` has, without a copy.
pub(crate) fn take(object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let py = object.py();
    let about = about(object)?;
    let needed = |name: &str| needed(&about, name);
    let version = needed("version")?.extract::<i64>()?;
    if version != VERSION {
        let message =
            format!("__sycl_usm_array_interface__ has the version {version}, and 1 is known");
        return Err(refused(message));
    }
    let dtype = dtype(&needed("typestr")?.extract::<String>()?)?;
    let shape = needed("shape")?.extract::<Vec<i64>>()?;
    let strides = match about.get_item("strides")?.filter(|strides| !strides.is_none()) {
        Some(strides) => strides.extract::<Vec<i64>>()?,
        None => compact(&shape)?,
    };
    if strides.len() != shape.len() {
        let message =
            format!("{} strides do not belong to {} dimensions", strides.len(), shape.len());
        return Err(refused(message));
    }
    let (base, is_read_only) = needed("data")?.extract::<(usize, bool)>()?;
    let offset = match about.get_item("offset")?.filter(|offset| !offset.is_none()) {
        Some(offset) => offset.extract::<i64>()?,
        None => 0,
    };
    let first = i128::from(offset) * i128::from(dtype.bits / 8) + base as i128;
    let outside = || refused(format!("an offset of {offset} elements from {base:#x} is no place"));
    let address = usize::try_from(first).map_err(|_| outside())?;
    let opened = ordered(py, &needed("syclobj")?)?;
    let driver = opened.device.driver();
    // SAFETY: UNS-22 and the documentation of `Driver::holds`: an address of any kind may be asked
    // about, and this is read by nobody.
    let is_there = || unsafe { driver.holds(Raw::from_bits(address)) } != Some(false);
    if !shape.contains(&0) && !py.detach(is_there) {
        let on = opened.device.id();
        return Err(refused(format!(
            "the context of the queue on {on} has no USM at {address:#x}"
        )));
    }
    let on = opened.device.id();
    let described = Described { on, address, is_read_only, dtype, shape, strides };
    described.tensor(object, &Ordered::On(opened.queue))
}

/// A queue of this package that waits for what was submitted to the object's queue by now. `None`
/// for an object without the interface.
pub(crate) fn order_of(object: &Bound<'_, PyAny>) -> PyResult<Option<Opened>> {
    if !object.hasattr(intern!(object.py(), "__sycl_usm_array_interface__"))? {
        return Ok(None);
    }
    let about = about(object)?;
    ordered(object.py(), &needed(&about, "syclobj")?).map(Some)
}

fn about<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let about = object.getattr(intern!(object.py(), "__sycl_usm_array_interface__"))?;
    about.cast_into::<PyDict>().map_err(|error| {
        let of = error.into_inner().get_type();
        PyTypeError::new_err(format!("__sycl_usm_array_interface__ is a dictionary, and not {of}"))
    })
}

fn needed<'py>(about: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let value = about.get_item(name)?;
    value.ok_or_else(|| refused(format!("__sycl_usm_array_interface__ has no {name:?}")))
}

/// The device of the queue that an object stands for, with a queue of this package that waits for
/// what was submitted to that queue by now. The object's queue may be gone when the tensor is used,
/// so that the tensor itself is not tied to it.
fn ordered(py: Python<'_>, syclobj: &Bound<'_, PyAny>) -> PyResult<Opened> {
    let capsule = match syclobj.cast::<PyCapsule>() {
        Ok(capsule) => capsule.clone(),
        Err(_) => match syclobj.getattr_opt(intern!(py, "_get_capsule"))? {
            Some(make) => make.call0()?.cast_into::<PyCapsule>()?,
            None => return Err(no_queue(syclobj)),
        },
    };
    if !capsule.is_valid_checked(Some(QUEUE)) {
        return Err(no_queue(syclobj));
    }
    let theirs = capsule.pointer_checked(Some(QUEUE))?;
    find_library();
    // SAFETY: UNS-29: a capsule of this name has a `sycl::queue`, as dpctl's documentation says,
    // and the capsule is alive.
    let copy = unsafe { SyclQueue::copy_of(theirs) }.or_raise()?;
    let work = move || {
        let raw = Raw::from_ptr(copy.as_ptr());
        let theirs = NonNull::new(copy.as_ptr()).ok_or_else(|| {
            Error::new(ErrorKind::Driver, "SYCL makes no copy of the queue").during("open")
        })?;
        // SAFETY: UNS-29: the copy is alive in its owner.
        let device = unsafe { arrow_device_oneapi::open_from(theirs, Kind::Device) }?;
        let opened = backends::open_as(device)?;
        // SAFETY: UNS-20: the queue is open as long as its copy, which is the owner.
        let theirs = unsafe { opened.device.adopt_queue_of(raw, copy) };
        opened.queue.wait(&theirs.record()?)?;
        Ok(opened)
    };
    py.detach(work).or_raise()
}

fn no_queue(syclobj: &Bound<'_, PyAny>) -> PyErr {
    refused(format!(
        "`syclobj` has to be a queue, such as a dpctl.SyclQueue, which tells when the data is complete; this is {}",
        syclobj.get_type()
    ))
}
