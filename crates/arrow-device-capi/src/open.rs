//! Opening devices: by number, with a choice of memory, in a context of the application's, for an
//! array of somebody else's.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use arrow_device::{Device, DeviceId, DeviceType, Error, ErrorKind, Result};

use crate::backends::{backend, no_such_memory, not_built_in};
use crate::call::{Out, null, run};
use crate::device::ArdevDevice;
use crate::error::ArdevError;
use crate::memory_kinds::ARDEV_MEMORY_AUTOMATIC;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_device_open(
    device_type: i32,
    device_id: i64,
    out: *mut *mut ArdevDevice,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        out.give(ArdevDevice(open(DeviceId::new(DeviceType(device_type), device_id))?))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

fn open(id: DeviceId) -> Result<Device> {
    match backend(id.device_type) {
        Some(backend) => (backend.open)(id.id),
        None => Device::find(id).ok_or_else(|| not_built_in(id.device_type)),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_device_open_with(
    device_type: i32,
    device_id: i64,
    memory: i32,
    out: *mut *mut ArdevDevice,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        let device_type = DeviceType(device_type);
        let open_with = backend(device_type).and_then(|backend| backend.open_with);
        let device = match (memory, open_with) {
            (ARDEV_MEMORY_AUTOMATIC, _) => open(DeviceId::new(device_type, device_id))?,
            (_, Some(open_with)) => open_with(device_id, memory)?,
            (_, None) => return Err(no_such_memory(device_type, memory)),
        };
        out.give(ArdevDevice(device))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_device_open_in(
    device_type: i32,
    context: *mut c_void,
    device: *mut c_void,
    memory: i32,
    out: *mut *mut ArdevDevice,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        let context = NonNull::new(context).ok_or_else(|| null("context"))?;
        let device = NonNull::new(device).ok_or_else(|| null("device"))?;
        let device_type = DeviceType(device_type);
        let open_in = backend(device_type)
            .and_then(|backend| backend.open_in)
            .ok_or_else(|| no_context(device_type))?;
        // SAFETY: the header asks for the type's own context and device.
        out.give(ArdevDevice(unsafe { open_in(context, device, memory) }?))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

fn no_context(device_type: DeviceType) -> Error {
    let instead = match device_type {
        DeviceType::VULKAN => "give its handles to ardev_device_open_vulkan",
        DeviceType::ONEAPI => "give a queue of the context to ardev_device_open_oneapi",
        DeviceType::CUDA
        | DeviceType::CUDA_HOST
        | DeviceType::CUDA_MANAGED
        | DeviceType::ROCM
        | DeviceType::ROCM_HOST => {
            "all data is in the primary context of its device, so use ardev_device_open, and streams of that context"
        }
        _ => "use ardev_device_open",
    };
    let message =
        format!("devices of type {device_type} have no context to be opened in: {instead}");
    Error::new(ErrorKind::Unsupported, message).during("open")
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_device_open_for(
    device_type: i32,
    memory: *const c_void,
    device_id: i64,
    out: *mut *mut ArdevDevice,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        let device_type = DeviceType(device_type);
        let device = match backend(device_type).and_then(|backend| backend.open_for) {
            // SAFETY: the header asks for memory of this type of device.
            Some(open_for) => unsafe { open_for(memory, device_id) }?,
            None => open(DeviceId::new(device_type, device_id))?,
        };
        out.give(ArdevDevice(device))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}
