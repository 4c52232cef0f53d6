//! The CUDA array interface of version 3, `__cuda_array_interface__`, both ways.
//!
//! It is older than DLPack and says less: nothing of the device, and nothing that is told when a
//! consumer is done. An object of the producer has to live as long as its memory is used.

use arrow_device::dlpack::{Conversion, CopyPolicy, Tensor};
use arrow_device::driver::Raw;
use arrow_device::{Array, DeviceId, DeviceType, Queue, Ready};
use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::backends;
use crate::described::{Described, compact, dtype, type_string};
use crate::device;
use crate::error::{OrRaise, refused};
use crate::gpus;
use crate::streams::{self, Ordered};

/// The version of the interface.
const VERSION: i64 = 3;

/// The dictionary for an array on a CUDA device, and the queue that the consumer has to wait for.
pub(crate) fn of_array<'py>(
    py: Python<'py>,
    array: &Array,
) -> PyResult<(Bound<'py, PyDict>, Option<Queue>)> {
    let on = array.device();
    if !matches!(on.device_type, DeviceType::CUDA | DeviceType::CUDA_MANAGED) {
        let on = backends::called(on);
        let message =
            format!("__cuda_array_interface__ is for CUDA devices, and this lives on {on}");
        return Err(PyAttributeError::new_err(message));
    }
    let opened = device::open(py, on)?;
    let conversion = Conversion::new().copying(CopyPolicy::Never);
    let shared = array.clone();
    let tensor = py.detach(move || shared.to_tensor(&conversion)).or_refuse().map_err(|error| {
        let message = "the CUDA array interface gets arrays of numbers without nulls, for its mask is of bytes; use DLPack with \
                       to_tensor(nulls=..), or the Arrow PyCapsule protocol";
        let raised = refused(message);
        raised.set_cause(py, Some(error));
        raised
    })?;
    let waits = array.ready() != Ready::Now && {
        let array = array.clone();
        !py.detach(move || array.is_ready()).or_raise()?
    };
    let queue = opened.advertised;
    let view = py.detach(|| tensor.on(&queue)).or_refuse()?;
    let about = PyDict::new(py);
    about.set_item("version", VERSION)?;
    about.set_item("shape", PyTuple::new(py, tensor.shape())?)?;
    about.set_item("typestr", type_string(tensor.dtype())?)?;
    let address = if tensor.is_empty() { 0 } else { view.location().address().addr() };
    about.set_item("data", (address, true))?;
    about.set_item("strides", py.None())?;
    let stream = waits.then(|| queue.raw().bits());
    about.set_item("stream", stream)?;
    Ok((about, waits.then_some(queue)))
}

/// What an object with `__cuda_array_interface__` has, without a copy.
pub(crate) fn take(object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let py = object.py();
    let about = object.getattr(intern!(py, "__cuda_array_interface__"))?;
    let about = about.cast::<PyDict>().map_err(|_| {
        let of = about.get_type();
        PyTypeError::new_err(format!("__cuda_array_interface__ is a dictionary, and not {of}"))
    })?;
    let needed = |name: &str| {
        let value = about.get_item(name)?;
        value.ok_or_else(|| refused(format!("__cuda_array_interface__ has no {name:?}")))
    };
    if about.get_item("mask")?.is_some_and(|mask| !mask.is_none()) {
        return Err(refused(
            "a mask of the CUDA array interface is not taken over, for its bytes are no bits; use DLPack, or the Arrow \
             PyCapsule protocol",
        ));
    }
    let dtype = dtype(&needed("typestr")?.extract::<String>()?)?;
    let shape = needed("shape")?.extract::<Vec<i64>>()?;
    let bytes = i64::from(dtype.bits / 8);
    let strides = match about.get_item("strides")?.filter(|strides| !strides.is_none()) {
        Some(strides) => strides_of(&strides.extract::<Vec<i64>>()?, shape.len(), bytes)?,
        None => compact(&shape)?,
    };
    let (address, is_read_only) = needed("data")?.extract::<(usize, bool)>()?;
    let version = needed("version")?.extract::<i64>()?;
    let stream = match about.get_item("stream")? {
        _ if version < VERSION => Some(1),
        Some(stream) => stream.extract::<Option<i64>>()?,
        None => None,
    };
    let is_empty = shape.contains(&0);
    let on = if is_empty {
        DeviceId::new(DeviceType::CUDA, 0)
    } else {
        holder(py, address, span(&shape, &strides, bytes))?
    };
    let order = match stream {
        None => Ordered::Host,
        Some(stream) => ordered(py, on, stream)?,
    };
    let described = Described { on, address, is_read_only, dtype, shape, strides };
    described.tensor(object, &order)
}

/// How many bytes the elements lie before their first one, and how many from there on.
fn span(lengths: &[i64], strides: &[i64], bytes: i64) -> (i128, i128) {
    let reach = |(length, stride): (&i64, &i64)| {
        let elements = i128::from(length.saturating_sub(1)) * i128::from(*stride);
        elements.saturating_mul(i128::from(bytes))
    };
    let (mut before, mut behind) = (0_i128, i128::from(bytes));
    for reach in lengths.iter().zip(strides).map(reach) {
        before = before.saturating_sub(reach.min(0));
        behind = behind.saturating_add(reach.max(0));
    }
    (before, behind)
}

/// The device whose memory an address is in, which the interface does not say. All elements have
/// to be in that memory.
fn holder(py: Python<'_>, address: usize, (before, behind): (i128, i128)) -> PyResult<DeviceId> {
    let first = usize::try_from(address as i128 - before).unwrap_or(0);
    for found in py.detach(gpus::list_cuda).or_raise()? {
        if found.id.device_type != DeviceType::CUDA {
            continue;
        }
        let device = device::open(py, found.id)?.device;
        // SAFETY: UNS-22 and the documentation of `Driver::locate`: an address of any kind may be
        // asked about, and this is read by nobody.
        let located = py.detach(|| unsafe { device.driver().locate(Raw::from_bits(first)) });
        if let Some(allocation) = located.or_raise()? {
            let (there, needed) = (allocation.remaining, before.saturating_add(behind));
            if needed <= i128::from(there) {
                return Ok(allocation.device);
            }
            return Err(refused(format!(
                "the elements take {needed} bytes from {first:#x} on, and the memory there has {there}"
            )));
        }
    }
    Err(refused(format!("no CUDA device has memory at {first:#x}")))
}

/// Our own queue, which waits for what was submitted to the producer's stream by now. The stream
/// may be gone when the tensor is used, so that the tensor itself is not tied to it.
fn ordered(py: Python<'_>, on: DeviceId, stream: i64) -> PyResult<Ordered> {
    let Ordered::On(theirs) = streams::order(py, on, Some(stream))? else {
        return Ok(Ordered::Host);
    };
    let opened = device::open(py, on)?;
    let wait = || {
        let event = theirs.record()?;
        opened.queue.wait(&event)
    };
    py.detach(wait).or_raise()?;
    Ok(Ordered::On(opened.queue))
}

fn strides_of(strides: &[i64], ndim: usize, bytes: i64) -> PyResult<Vec<i64>> {
    if strides.len() != ndim {
        let message = format!("{} strides do not belong to {ndim} dimensions", strides.len());
        return Err(refused(message));
    }
    let in_elements = |stride: &i64| match stride.checked_rem(bytes) {
        Some(0) => Ok(stride / bytes),
        _ => {
            Err(refused(format!("elements of {bytes} bytes lie {stride} bytes apart, no multiple")))
        }
    };
    strides.iter().map(in_elements).collect()
}
