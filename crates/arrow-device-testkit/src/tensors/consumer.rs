//! A consumer that checks exported tensors against everything that DLPack and this library promise.

use arrow_device::abi::dlpack::{DLManagedTensor, DLManagedTensorVersioned, DLTensor};
use arrow_device::dlpack::Managed;

use crate::{Verdict, require};

/// The promises about one tensor.
#[derive(Clone, Debug)]
pub struct Promise {
    /// The lengths of the dimensions.
    pub shape: Vec<i64>,
    /// The code, the bits and the lanes of the elements' type.
    pub dtype: (u8, u8, u16),
    /// The type and the number of the device.
    pub device: (i32, i32),
    /// All elements in row-major order, for tensors on the host.
    pub bytes: Vec<u8>,
    /// The address of the first element, if the memory is shared.
    pub address: Option<*const u8>,
    /// The flags of the newer form.
    pub flags: u64,
}

/// Checks a tensor of the older form.
pub fn check_legacy(managed: &Managed<DLManagedTensor>, promise: &Promise) -> Verdict {
    let whole = unsafe { &*managed.as_ptr() };
    require(whole.deleter.is_some(), || "there is no deleter".into())?;
    check_tensor(&whole.dl_tensor, promise)
}

/// Checks a tensor of the newer form.
pub fn check_versioned(managed: &Managed<DLManagedTensorVersioned>, promise: &Promise) -> Verdict {
    let whole = unsafe { &*managed.as_ptr() };
    require(whole.deleter.is_some(), || "there is no deleter".into())?;
    let version = (whole.version.major, whole.version.minor);
    require(version == (1, 3), || format!("the version is {version:?}"))?;
    let flags = whole.flags;
    require(flags == promise.flags, || format!("the flags are {flags} and not {}", promise.flags))?;
    check_tensor(&whole.dl_tensor, promise)
}

fn check_tensor(tensor: &DLTensor, promise: &Promise) -> Verdict {
    let dtype = (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes);
    require(dtype == promise.dtype, || format!("the type is {dtype:?}"))?;
    let device = (tensor.device.device_type.0, tensor.device.device_id);
    require(device == promise.device, || format!("the device is {device:?}"))?;
    require(tensor.ndim as usize == promise.shape.len(), || format!("ndim is {}", tensor.ndim))?;
    let ndim = promise.shape.len();
    require(!tensor.strides.is_null() || ndim == 0, || "the strides are not written".into())?;
    let numbers = |from: *const i64| -> Vec<i64> {
        (0..ndim).map(|index| unsafe { from.add(index).read() }).collect()
    };
    let (shape, strides) = (numbers(tensor.shape), numbers(tensor.strides));
    require(shape == promise.shape, || format!("the shape is {shape:?}"))?;
    if shape.contains(&0) {
        return require(tensor.data.is_null() && tensor.byte_offset == 0, || {
            "there is data without elements".into()
        });
    }
    if device.0 != 1 {
        return Ok(());
    }
    let first = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize);
    if let Some(address) = promise.address {
        require(first.cast_const() == address, || "it was copied".into())?;
    }
    let width = dtype.1 as usize * dtype.2 as usize / 8;
    let places = shape.iter().zip(&strides).fold(vec![0_i64], |places, (length, stride)| {
        places.iter().flat_map(|place| (0..*length).map(move |i| place + i * stride)).collect()
    });
    let bytes: Vec<u8> = places
        .iter()
        .flat_map(|place| {
            let element = first.wrapping_offset(*place as isize * width as isize);
            (0..width).map(move |byte| unsafe { element.add(byte).read() })
        })
        .collect();
    require(bytes == promise.bytes, || "the elements are others".into())
}

/// Changes an exported tensor into one of a faulty producer.
pub fn plant<F>(managed: &Managed<F>, fault: impl FnOnce(&mut F))
where
    F: arrow_device::dlpack::Form,
{
    fault(unsafe { &mut *managed.as_ptr().cast_mut() });
}
