//! DLPack's table of functions, with which C and C++ libraries take and make tensors without a
//! Python call for each.
//!
//! The table is a static of this library, and the types `Array` and `Tensor` carry a pointer to it.
//! Its functions are called by foreign code that holds the interpreter's lock, the allocator
//! excepted; they wait for no device.
//!
//! One stream of each device is advertised, and everything is in its order: it waits for what is
//! handed out, and what is taken over is ready after what was submitted to it.

use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};

use arrow_device::abi::dlpack::{
    DLDevice, DLDeviceType, DLManagedTensorVersioned, DLPACK_FLAG_BITMASK_IS_COPIED,
    DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION, DLPackExchangeAPI, DLPackExchangeAPIHeader,
    DLPackVersion, DLTensor,
};
use arrow_device::dlpack::{self, Conversion, CopyPolicy, Dtype, Managed, Order, Tensor};
use arrow_device::{DeviceType, Error, ErrorKind, Memory, Result};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::array::PyArray;
use crate::attach::AtEnd;
use crate::backends;
use crate::error::OrRaise;
use crate::live::{Kind, Live};
use crate::tensor::{self, PyTensor};

struct Table(DLPackExchangeAPI);

// SAFETY: nothing is ever written to it.
unsafe impl Sync for Table {}

static TABLE: Table = Table(DLPackExchangeAPI {
    header: DLPackExchangeAPIHeader {
        version: DLPackVersion { major: DLPACK_MAJOR_VERSION, minor: DLPACK_MINOR_VERSION },
        prev_api: ptr::null_mut(),
    },
    managed_tensor_allocator: Some(allocate),
    managed_tensor_from_py_object_no_sync: Some(from_object),
    managed_tensor_to_py_object_no_sync: Some(to_object),
    // A tensor that stays the object's would show an address to somebody who names no queue.
    dltensor_from_py_object_no_sync: None,
    current_work_stream: Some(current_stream),
});

/// The capsule that types carry.
pub(crate) fn table(py: Python<'_>) -> PyResult<Py<PyCapsule>> {
    let table = NonNull::from(&TABLE.0).cast::<c_void>();
    // SAFETY: a static, which is valid for ever; the capsule has no destructor.
    let capsule = unsafe { PyCapsule::new_with_pointer(py, table, c"dlpack_exchange_api") };
    capsule.map(Bound::unbind)
}

/// 0, or -1 with the exception set. A panic is one.
fn answer(work: impl FnOnce(Python<'_>) -> PyResult<()>) -> c_int {
    // SAFETY: these functions are for callers who hold the interpreter's lock: they take and give
    // Python objects, and "set the Python error indicator".
    let py = unsafe { Python::assume_attached() };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let _end = AtEnd::of(py);
        work(py)
    }));
    match outcome.unwrap_or_else(|_| Err(PyRuntimeError::new_err("a panic"))) {
        Ok(()) => 0,
        Err(error) => {
            error.restore(py);
            -1
        }
    }
}

/// `managed_tensor_from_py_object_no_sync`
unsafe extern "C" fn from_object(
    object: *mut c_void,
    out: *mut *mut DLManagedTensorVersioned,
) -> c_int {
    answer(|py| {
        // SAFETY: the caller passes an object that it has a reference to.
        let object = unsafe { Bound::from_borrowed_ptr_or_opt(py, object.cast::<ffi::PyObject>()) };
        let object = object.ok_or_else(|| PyTypeError::new_err("no object: a null pointer"))?;
        let tensor = match (object.cast::<PyTensor>(), object.cast::<PyArray>()) {
            (Ok(tensor), _) => tensor.get().tensor().clone(),
            (_, Ok(array)) => {
                let conversion = Conversion::new().copying(CopyPolicy::IfNeeded);
                array.get().array().to_tensor(&conversion).or_refuse()?
            }
            _ => {
                let class = object.get_type();
                return Err(PyTypeError::new_err(format!("this table is not for {class}")));
            }
        };
        let managed = in_order(py, tensor)?;
        // SAFETY: the caller passes a place for the pointer.
        unsafe { out.write(managed.into_raw()) };
        Ok(())
    })
}

/// The tensor, for whoever works on the advertised stream of its device.
fn in_order(py: Python<'_>, tensor: Tensor) -> PyResult<Managed<DLManagedTensorVersioned>> {
    let device = tensor.device();
    if device.device_type == DeviceType::CPU {
        tensor::wait(py, &tensor)?;
        return tensor.export(Order::Host, CopyPolicy::IfNeeded).or_refuse();
    }
    let export = || match backends::open(device) {
        Ok(opened) => tensor.export(Order::On(&opened.advertised), CopyPolicy::IfNeeded),
        // What is there needs no queue that waits.
        Err(error) if !tensor.is_ready().is_ok_and(|is_ready| is_ready) => Err(error),
        Err(_) => tensor.export(Order::Unordered, CopyPolicy::IfNeeded),
    };
    py.detach(export).or_refuse()
}

/// `managed_tensor_to_py_object_no_sync`: the tensor is ours from the call on, and deleted if it is
/// refused.
unsafe extern "C" fn to_object(
    tensor: *mut DLManagedTensorVersioned,
    out: *mut *mut c_void,
) -> c_int {
    answer(|py| {
        let advertised =
            |id| py.detach(|| backends::open(id)).map(|opened| Some(opened.advertised));
        // SAFETY: UNS-23 to UNS-25: the caller hands over a tensor of its own.
        let tensor = unsafe { Tensor::import_advertised(tensor, advertised) }.or_refuse()?;
        // SAFETY: UNS-26: `from_dlpack`, for which this function stands, tells its callers that
        // nobody may write to a tensor that is shared as long as it is.
        let tensor = unsafe { tensor.assume_frozen() };
        let object = Py::new(py, PyTensor::new(tensor))?;
        // SAFETY: the caller passes a place for the pointer.
        unsafe { out.write(object.into_ptr().cast()) };
        Ok(())
    })
}

/// `current_work_stream`: the one that is advertised for the device, and none for the host.
unsafe extern "C" fn current_stream(
    device_type: DLDeviceType,
    device_id: i32,
    out: *mut *mut c_void,
) -> c_int {
    if device_type.0 == DeviceType::CPU.0 {
        // SAFETY: the caller passes a place for the pointer.
        unsafe { out.write(ptr::null_mut()) };
        return 0;
    }
    answer(|py| {
        let id = dlpack::device_id(DLDevice { device_type, device_id }).or_raise()?;
        let opened = py.detach(|| backends::open(id)).or_raise()?;
        // SAFETY: the caller passes a place for the pointer.
        unsafe { out.write(opened.advertised.raw().as_ptr()) };
        Ok(())
    })
}

type SetError = Option<unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char)>;

/// `managed_tensor_allocator`: needs no interpreter.
unsafe extern "C" fn allocate(
    prototype: *mut DLTensor,
    out: *mut *mut DLManagedTensorVersioned,
    context: *mut c_void,
    set_error: SetError,
) -> c_int {
    // SAFETY: the caller passes a tensor whose type, shape and device are those that it wants.
    let made = catch_unwind(|| unsafe { AllocatedTensor::like(prototype) });
    let made = made.unwrap_or_else(|_| Err(Error::new(ErrorKind::Panicked, "a panic")));
    match made {
        Ok(block) => {
            // SAFETY: the caller passes a place for the pointer.
            unsafe { out.write(AllocatedTensor::hand_over(block)) };
            0
        }
        Err(error) => {
            let kind = if error.kind() == ErrorKind::OutOfMemory {
                c"MemoryError"
            } else {
                c"BufferError"
            };
            let text = std::ffi::CString::new(error.to_string()).unwrap_or_default();
            if let Some(set_error) = set_error {
                // SAFETY: the caller's own function and context; the texts live until it returns.
                unsafe { set_error(context, kind.as_ptr(), text.as_ptr()) };
            }
            -1
        }
    }
}

/// A tensor that was allocated for a stranger, who fills it.
struct AllocatedTensor {
    managed: DLManagedTensorVersioned,
    /// Lengths, then strides.
    dims: Vec<i64>,
    _memory: Memory,
    _live: Live,
}

impl AllocatedTensor {
    /// # Safety
    /// `prototype` is null or points to a tensor whose shape has as many entries as it has
    /// dimensions.
    unsafe fn like(prototype: *const DLTensor) -> Result<Box<Self>> {
        let wrong = |message: &'static str| Error::new(ErrorKind::InvalidArgument, message);
        // SAFETY: `prototype` is null or points to a tensor whose shape has as many entries as it
        // has dimensions, as the caller promises.
        let wanted =
            unsafe { prototype.as_ref() }.ok_or_else(|| wrong("no tensor: a null pointer"))?;
        let ndim = usize::try_from(wanted.ndim).ok().filter(|ndim| *ndim <= 64);
        let ndim = ndim.ok_or_else(|| wrong("a tensor has 0 to 64 dimensions"))?;
        if ndim > 0 && wanted.shape.is_null() {
            return Err(wrong("`shape` is null"));
        }
        let mut dims = Vec::with_capacity(2 * ndim);
        for index in 0..ndim {
            // SAFETY: `prototype` is null or points to a tensor whose shape has as many entries as
            // it has dimensions, as the caller promises. The read needs no alignment.
            dims.push(unsafe { wanted.shape.wrapping_add(index).read_unaligned() });
        }
        let dtype = Dtype::new(wanted.dtype.code, wanted.dtype.bits, wanted.dtype.lanes);
        let dtype = dtype.checked()?;
        let elements = dims.iter().try_fold(1_i64, |all, length| {
            Some(*length).filter(|length| *length >= 0).and_then(|length| all.checked_mul(length))
        });
        let elements = elements.and_then(|elements| u64::try_from(elements).ok());
        let elements =
            elements.ok_or_else(|| wrong("a length is negative, or all are too much"))?;
        let bits = u64::from(dtype.bits) * u64::from(dtype.lanes);
        let bytes = elements.checked_mul(bits).map(|bits| bits.div_ceil(8));
        let bytes = bytes.ok_or_else(|| wrong("the tensor is larger than any memory"))?;
        let opened = backends::open(dlpack::device_id(wanted.device)?)?;
        let mut memory = opened.device.allocate(bytes)?;
        let data = memory.spot(&opened.advertised)?.base.as_ptr();
        dims.extend(strides(&dims));
        let dl_tensor = DLTensor {
            data,
            device: wanted.device,
            ndim: wanted.ndim,
            dtype: wanted.dtype,
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        };
        let managed = DLManagedTensorVersioned {
            version: DLPackVersion { major: DLPACK_MAJOR_VERSION, minor: DLPACK_MINOR_VERSION },
            manager_ctx: ptr::null_mut(),
            deleter: Some(delete),
            flags: DLPACK_FLAG_BITMASK_IS_COPIED,
            dl_tensor,
        };
        Ok(Box::new(Self { managed, dims, _memory: memory, _live: Live::new(Kind::Allocation) }))
    }

    /// Until the deleter is called.
    fn hand_over(block: Box<Self>) -> *mut DLManagedTensorVersioned {
        let block = Box::leak(block);
        let ndim = block.dims.len() / 2;
        let dims = block.dims.as_mut_ptr();
        block.managed.dl_tensor.shape = dims;
        block.managed.dl_tensor.strides = dims.wrapping_add(ndim);
        let block = ptr::from_mut(block);
        // SAFETY: the block was just leaked, and nobody else has it.
        unsafe { (*block).managed.manager_ctx = block.cast() };
        // SAFETY: the block was just leaked, and nobody else has it; only the place is computed.
        unsafe { &raw mut (*block).managed }
    }
}

/// Those of row-major order.
fn strides(shape: &[i64]) -> Vec<i64> {
    let mut strides: Vec<i64> = shape
        .iter()
        .rev()
        .scan(1_i64, |next, length| {
            let stride = *next;
            *next = next.saturating_mul((*length).max(1));
            Some(stride)
        })
        .collect();
    strides.reverse();
    strides
}

/// The deleter of what was allocated here: on any thread, without the interpreter.
unsafe extern "C" fn delete(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: consumers call it once with the pointer that they were given, and change nothing in
    // it.
    let block = unsafe { (*managed).manager_ctx }.cast::<AllocatedTensor>();
    // SAFETY: `hand_over` leaked this box.
    let block = unsafe { Box::from_raw(block) };
    // A panic must not reach the consumer.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(block)));
}
