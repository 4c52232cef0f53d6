//! The ids of devices in DLPack and in Arrow.
//!
//! The types have the same numbers. The ids differ: DLPack has 32 bits, and 0 for all host memory.
//! Arrow has 64 bits, -1 for the CPU, and on some types a handle or a tag in place of a number.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Mutex;

use crate::abi::dlpack::{DLDevice, DLDeviceType};
use crate::driver::Raw;
use crate::process::PerProcess;
use crate::sync::lock;
use crate::{Device, DeviceId, DeviceType, Error, ErrorKind, Result};

/// The id in Arrow of the device that a tensor names.
///
/// All numbers of the CPU are one device. A number that [`dl_device`] of this process gave to a
/// device leads back to that device.
#[inline]
pub fn device_id(device: DLDevice) -> Result<DeviceId> {
    if device.device_type.0 == DeviceType::CPU.0 { Ok(DeviceId::CPU) } else { other_id(device) }
}

fn other_id(device: DLDevice) -> Result<DeviceId> {
    let device_type = DeviceType(device.device_type.0);
    let id = i64::from(device.device_id);
    let named = DeviceId::new(device_type, id);
    match device_type {
        _ if device_type.0 <= 0 => {
            let message = format!("{} is no type of device", device_type.0);
            Err(Error::new(ErrorKind::Malformed, message))
        }
        _ if id < 0 => {
            let message = format!("there is no {device_type} with the number {id}");
            Err(Error::new(ErrorKind::Malformed, message))
        }
        DeviceType::METAL => given_away(named).map_or_else(|| default_metal(named), Ok),
        _ => Ok(given_away(named).unwrap_or(named)),
    }
}

/// The id in DLPack of a device of Arrow, as `__dlpack_device__` returns it.
///
/// Metal's default device is number 0, once a device of Metal is open. Where Arrow's number is a
/// handle or a tag (Vulkan, WebGPU, extension devices, other devices of Metal) and needs more than
/// 32 bits, the device gets a number that is valid in this process, from 2^30 on. On other
/// types of device such a number is refused.
///
/// ```
/// use arrow_device::{DeviceId, DeviceType, dlpack};
///
/// assert_eq!(dlpack::dl_device(DeviceId::CPU)?.device_id, 0);
/// assert_eq!(dlpack::dl_device(DeviceId::new(DeviceType::CUDA_HOST, 3))?.device_id, 0);
/// assert!(dlpack::dl_device(DeviceId::new(DeviceType::CUDA, 1 << 40)).is_err());
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[inline]
pub fn dl_device(device: DeviceId) -> Result<DLDevice> {
    if device.device_type == DeviceType::CPU {
        return Ok(DLDevice { device_type: DLDeviceType(DeviceType::CPU.0), device_id: 0 });
    }
    other_dl_device(device)
}

fn other_dl_device(device: DeviceId) -> Result<DLDevice> {
    let fits = i32::try_from(device.id).ok().filter(|id| *id >= 0);
    let id = match device.device_type {
        DeviceType::CUDA_HOST | DeviceType::CUDA_MANAGED | DeviceType::ROCM_HOST => 0,
        DeviceType::METAL if is_default_metal(device)? => 0,
        DeviceType::METAL => number_of(device)?,
        DeviceType::VULKAN | DeviceType::WEBGPU | DeviceType::EXT_DEV => match fits {
            Some(id) if id < FIRST_NUMBER => id,
            _ => number_of(device)?,
        },
        _ => fits.ok_or_else(|| {
            let message = format!("DLPack has no room for the device number {}", device.id);
            Error::new(ErrorKind::LimitExceeded, message).on_device(device)
        })?,
    };
    Ok(DLDevice { device_type: DLDeviceType(device.device_type.0), device_id: id })
}

/// The id of Metal's default device that every backend of Metal knows.
const DEFAULT_METAL: DeviceId = DeviceId::new(DeviceType::METAL, -1);

/// The open driver of Metal's default device, which translates between addresses and objects.
fn metal(device: DeviceId) -> Result<Device> {
    Device::find(DEFAULT_METAL).ok_or_else(|| no_metal(device))
}

fn default_metal(named: DeviceId) -> Result<DeviceId> {
    metal(named)?;
    if named.id == 0 { Ok(DEFAULT_METAL) } else { Err(no_metal(named)) }
}

fn is_default_metal(device: DeviceId) -> Result<bool> {
    Ok(metal(device)?.driver().reaches(device).is_ok())
}

/// The device and the address of the `MTLBuffer` that a tensor names.
///
/// # Safety
/// UNS-24: the object is the `data` of a tensor on Metal that is alive.
#[cold]
pub(super) unsafe fn metal_memory(
    device: DeviceId,
    data: *mut c_void,
) -> Result<(DeviceId, *mut c_void)> {
    let Some(object) = NonNull::new(data) else { return Ok((device, data)) };
    let opened = metal(device)?;
    // SAFETY: the object is the `data` of a tensor that is alive, as the caller promises.
    let found = unsafe { opened.driver().memory_of(object) }?;
    let (device, memory) = found.ok_or_else(|| no_metal(device))?;
    Ok((device, memory.as_ptr()))
}

/// The `MTLBuffer` and the offset for an address in the memory of a device of Metal.
///
/// # Safety
/// UNS-22: the memory is the device's, and alive.
#[cold]
pub(super) unsafe fn metal_object(
    device: &Device,
    address: *mut c_void,
) -> Result<(*mut c_void, u64)> {
    // SAFETY: the memory is the device's, as the caller promises.
    let found = unsafe { device.driver().object_of(Raw::from_ptr(address)) }?;
    let spot = found.ok_or_else(|| {
        let message = "no MTLBuffer is known for this memory, and DLPack asks for one; copy it";
        Error::new(ErrorKind::Unsupported, message).on_device(device.id())
    })?;
    Ok((spot.base.as_ptr(), spot.offset))
}

/// Whether there is a `MTLBuffer` for an address in the memory of a device of Metal.
///
/// # Safety
/// UNS-22: the memory is the device's, and alive.
pub(super) unsafe fn knows_metal_object(device: &Device, address: *mut c_void) -> Result<bool> {
    // SAFETY: the memory is the device's, as the caller promises.
    unsafe { device.driver().object_of(Raw::from_ptr(address)) }.map(|found| found.is_some())
}

fn no_metal(device: DeviceId) -> Error {
    let message =
        "DLPack's `data` is an MTLBuffer there and Arrow's an address; copy it to the host";
    Error::new(ErrorKind::Unsupported, message).on_device(device)
}

/// Devices whose ids do not fit, in the order in which they were first seen. A position in this
/// list stays with its device.
///
/// A child of `fork` begins with an empty list, because a thread of its parent may have held the
/// lock.
static NUMBERED: PerProcess<Mutex<Vec<DeviceId>>> = PerProcess::new(Mutex::new(Vec::new()));
/// Larger than any number that a library gives to a device.
const FIRST_NUMBER: i32 = 1 << 30;

fn number_of(device: DeviceId) -> Result<i32> {
    let mut numbered = lock(NUMBERED.get());
    let place = match numbered.iter().rposition(|known| *known == device) {
        Some(place) => place,
        None => {
            numbered.push(device);
            numbered.len() - 1
        }
    };
    i32::try_from(place).ok().and_then(|place| FIRST_NUMBER.checked_add(place)).ok_or_else(|| {
        let message = "this process has no number left for one more device";
        Error::new(ErrorKind::LimitExceeded, message).on_device(device)
    })
}

fn given_away(device: DeviceId) -> Option<DeviceId> {
    let place = usize::try_from(device.id - i64::from(FIRST_NUMBER)).ok()?;
    let known = lock(NUMBERED.get()).get(place).copied();
    known.filter(|known| known.device_type == device.device_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: DLP-1
    #[test]
    fn ids_are_translated_both_ways() {
        let there = |device_type, id| dl_device(DeviceId::new(device_type, id)).unwrap().device_id;
        for host in [DeviceType::CPU, DeviceType::CUDA_HOST, DeviceType::ROCM_HOST] {
            assert_eq!((there(host, -1), there(host, 7)), (0, 0), "{host}");
        }
        assert_eq!(there(DeviceType::CUDA, 5), 5);
        let tagged = DeviceId::new(DeviceType::EXT_DEV, 77 << 33);
        let number = dl_device(tagged).unwrap();
        assert_eq!(number, dl_device(tagged).unwrap());
        assert_eq!(device_id(number).unwrap(), tagged);
        let unseen = DLDevice { device_type: DLDeviceType(12), device_id: i32::MAX };
        assert_eq!(device_id(unseen).unwrap().id, i64::from(i32::MAX));
        let of_another_type = DLDevice { device_type: DLDeviceType(15), ..number };
        assert_eq!(device_id(of_another_type).unwrap().id, i64::from(number.device_id));
    }

    #[test]
    fn what_cannot_be_translated_is_refused() {
        for (device, kind) in [
            (DeviceId::new(DeviceType::CUDA, 1 << 31), ErrorKind::LimitExceeded),
            (DeviceId::new(DeviceType::ROCM, -1), ErrorKind::LimitExceeded),
            (DeviceId::new(DeviceType::METAL, 1), ErrorKind::Unsupported),
        ] {
            assert_eq!(dl_device(device).unwrap_err().kind(), kind, "{device}");
        }
        for (device_type, id, kind) in [
            (0, 0, ErrorKind::Malformed),
            (-1, 0, ErrorKind::Malformed),
            (2, -1, ErrorKind::Malformed),
            (8, 0, ErrorKind::Unsupported),
        ] {
            let device = DLDevice { device_type: DLDeviceType(device_type), device_id: id };
            assert_eq!(device_id(device).unwrap_err().kind(), kind, "{device:?}");
        }
        let far = DLDevice { device_type: DLDeviceType(4711), device_id: 3 };
        assert_eq!(device_id(far).unwrap(), DeviceId::new(DeviceType(4711), 3));
    }
}
