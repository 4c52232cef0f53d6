//! Opened devices, and what is held of them.

use std::ffi::c_int;

use arrow_device::{Device, DeviceId, DeviceType, Error, ErrorKind};

use crate::call::{Out, free, get, run};
use crate::error::ArdevError;
use crate::sized::OutGrows;

#[derive(Debug)]
pub struct ArdevDevice(pub(crate) Device);

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArdevHeld {
    pub struct_size: usize,
    pub allocated: u64,
    pub staging: u64,
    pub imported: u64,
    pub exported: u64,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_device_find(
    device_type: i32,
    device_id: i64,
    out: *mut *mut ArdevDevice,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { Out::object(out) }?;
        let id = DeviceId::new(DeviceType(device_type), device_id);
        let device = Device::find(id).ok_or_else(|| {
            Error::new(ErrorKind::DeviceMissing, "it is not open in this process").on_device(id)
        })?;
        out.give(ArdevDevice(device))
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_device_held(
    device: *const ArdevDevice,
    out: *mut ArdevHeld,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        let out = unsafe { OutGrows::new(out, "out") }?;
        // SAFETY: rule 2 of the header.
        let held = unsafe { get(device, "device") }?.0.held();
        out.put(ArdevHeld {
            struct_size: 0,
            allocated: held.allocated,
            staging: held.staging,
            imported: held.imported,
            exported: held.exported,
        })
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_device_count_exchanges(
    device: *const ArdevDevice,
    error: *mut ArdevError,
) -> c_int {
    let body = || {
        // SAFETY: rule 2 of the header.
        unsafe { get(device, "device") }?.0.count_exchanges();
        Ok(())
    };
    // SAFETY: rule 1 of the header.
    unsafe { run(error, body) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ardev_device_free(device: *mut ArdevDevice) {
    // SAFETY: rule 2 of the header.
    unsafe { free(device) }
}
