//! Initialisation, devices, errors.

use std::ffi::{c_char, c_int, c_uint};

use crate::call::{Then, give, give_text};
use crate::code::{self, Code};
use crate::hip::call::{call, call_then};
use crate::thread;

/// What the driver says it is, unless told otherwise: HIP 6.4, as major, minor and patch in decimal
/// groups.
pub(crate) const VERSION: c_int = 60_400_000;

const NAME: &str = "Simulated HIP device";

#[unsafe(no_mangle)]
unsafe extern "C" fn hipInit(flags: c_uint) -> c_int {
    call("hipInit", &[("flags", u64::from(flags))], |machine| {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        machine.hip_devices().map(|_| ())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipDriverGetVersion(version: *mut c_int) -> c_int {
    call("hipDriverGetVersion", &[], |machine| {
        let configured = machine.config.version;
        // SAFETY: as the module says.
        unsafe { give(version, if configured == 0 { VERSION } else { configured }) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipRuntimeGetVersion(version: *mut c_int) -> c_int {
    call("hipRuntimeGetVersion", &[], |machine| {
        let configured = machine.config.version;
        // SAFETY: as the module says.
        unsafe { give(version, if configured == 0 { VERSION } else { configured }) }
    })
}

/// Without a device, "no device" and a count of 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipGetDeviceCount(count: *mut c_int) -> c_int {
    call("hipGetDeviceCount", &[], |machine| {
        let devices = machine.devices.len();
        // SAFETY: as the module says.
        unsafe { give(count, devices as c_int) }?;
        machine.hip_devices().map(|_| ())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipGetDevice(device: *mut c_int) -> c_int {
    call("hipGetDevice", &[], |machine| {
        machine.hip_devices()?;
        let chosen = thread::with(|thread| thread.device).unwrap_or(0);
        // SAFETY: as the module says.
        unsafe { give(device, chosen as c_int) }
    })
}

/// A number without a device is an invalid device. The choice is this thread's.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipSetDevice(device: c_int) -> c_int {
    call("hipSetDevice", &[("device", device as u64)], |machine| {
        machine.hip_devices()?;
        let number = machine.device_number(device)?;
        thread::with(|thread| thread.device = number);
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipDeviceGetName(name: *mut c_char, len: c_int, device: c_int) -> c_int {
    call("hipDeviceGetName", &[("device", device as u64)], |machine| {
        machine.hip_devices()?;
        machine.device_number(device)?;
        // SAFETY: as the module says: there is room for `len` bytes.
        unsafe { give_text(name, len, NAME) }
    })
}

/// What the header of HIP 5 and 6 numbers so; all else is 0 here.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipDeviceGetAttribute(out: *mut c_int, which: c_int, device: c_int) -> c_int {
    let arguments = [("attribute", which as u64), ("device", device as u64)];
    call("hipDeviceGetAttribute", &arguments, |machine| {
        machine.hip_devices()?;
        let number = machine.device_number(device)?;
        let config = &machine.config;
        let value = match which {
            ATTRIBUTE_CONCURRENT_MANAGED => c_int::from(config.concurrent_managed),
            ATTRIBUTE_MANAGED => c_int::from(config.managed),
            ATTRIBUTE_MAPPING => c_int::from(config.mapping),
            ATTRIBUTE_POOLS => c_int::from(config.pools),
            ATTRIBUTE_CAN_MAP | ATTRIBUTE_UNIFIED => 1,
            ATTRIBUTE_PCI_DEVICE => number as c_int,
            0.. => 0,
            _ => return Err(Code::INVALID_VALUE),
        };
        // SAFETY: as the module says.
        unsafe { give(out, value) }
    })
}

const ATTRIBUTE_CAN_MAP: c_int = 3;
const ATTRIBUTE_CONCURRENT_MANAGED: c_int = 9;
const ATTRIBUTE_MANAGED: c_int = 24;
const ATTRIBUTE_PCI_DEVICE: c_int = 68;
const ATTRIBUTE_UNIFIED: c_int = 85;
const ATTRIBUTE_POOLS: c_int = 88;
const ATTRIBUTE_MAPPING: c_int = 89;

/// Devices without a number of their own all have the same.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) -> c_int {
    call("hipDeviceGetUuid", &[("device", device as u64)], |machine| {
        machine.hip_devices()?;
        machine.device_number(device)?;
        // SAFETY: as the module says.
        unsafe { give(uuid, *b"GPU-XX\0\0\0\0\0\0\0\0\0\0") }
    })
}

/// Writes at most `len` bytes, the ending zero among them: domain, bus, device and function.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipDeviceGetPCIBusId(out: *mut c_char, len: c_int, device: c_int) -> c_int {
    call("hipDeviceGetPCIBusId", &[("device", device as u64)], |machine| {
        machine.hip_devices()?;
        let number = machine.device_number(device)?;
        // SAFETY: as the module says: there is room for `len` bytes.
        unsafe { give_text(out, len, &format!("0000:{number:02x}:00.0")) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipDeviceTotalMem(bytes: *mut usize, device: c_int) -> c_int {
    call("hipDeviceTotalMem", &[("device", device as u64)], |machine| {
        machine.hip_devices()?;
        let number = machine.device_number(device)?;
        // SAFETY: as the module says.
        unsafe { give(bytes, machine.memory_info(number).1) }
    })
}

/// Waits for all streams of the thread's device.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipDeviceSynchronize() -> c_int {
    call_then("hipDeviceSynchronize", &[], |machine| {
        let device = machine.chosen()?;
        machine.must_be_safe()?;
        Ok(Then::ForDevice(device))
    })
}

/// All that the thread's device has is gone.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipDeviceReset() -> c_int {
    call("hipDeviceReset", &[], |machine| {
        let device = machine.chosen()?;
        machine.lose(device, Code::CONTEXT_IS_DESTROYED.0);
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipDeviceCanAccessPeer(out: *mut c_int, device: c_int, peer: c_int) -> c_int {
    let arguments = [("device", device as u64), ("peer", peer as u64)];
    call("hipDeviceCanAccessPeer", &arguments, |machine| {
        machine.hip_devices()?;
        let (one, other) = (machine.device_number(device)?, machine.device_number(peer)?);
        // SAFETY: as the module says.
        unsafe { give(out, c_int::from(machine.config.peers && one != other)) }
    })
}

/// The flags have to be 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipDeviceEnablePeerAccess(peer: c_int, flags: c_uint) -> c_int {
    call("hipDeviceEnablePeerAccess", &[("peer", peer as u64)], |machine| {
        let device = machine.chosen()?;
        let peer = machine.device_number(peer)?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        machine.enable_peer(device, peer)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipGetErrorName(error: c_int) -> *const c_char {
    crate::call::call("hipGetErrorName", &[("error", error as u64)], |_| Ok(()));
    code::hip_name(error).unwrap_or(c"hipErrorUnknown").as_ptr()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipGetErrorString(error: c_int) -> *const c_char {
    crate::call::call("hipGetErrorString", &[("error", error as u64)], |_| Ok(()));
    code::text(error).unwrap_or(c"something else went wrong").as_ptr()
}

/// The code of this thread's last call that failed, which is forgotten then.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipGetLastError() -> c_int {
    crate::call::call("hipGetLastError", &[], |_| Ok(()));
    thread::with(|thread| std::mem::take(&mut thread.last_error)).unwrap_or(0)
}

/// The same, and it is not forgotten.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipPeekAtLastError() -> c_int {
    crate::call::call("hipPeekAtLastError", &[], |_| Ok(()));
    thread::with(|thread| thread.last_error).unwrap_or(0)
}
