//! Initialisation, devices, errors.

use std::ffi::{c_char, c_int, c_uint};

use crate::call::{call, give};
use crate::code::{self, Code};

/// What the driver says it is, unless told otherwise: CUDA 13.0, which has all functions of the
/// newest list.
const VERSION: c_int = 13000;

const NAME: &str = "Simulated CUDA device";

/// A flag other than 0 is an invalid value; without a device there is nothing to initialise.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuInit(flags: c_uint) -> c_int {
    call("cuInit", &[("flags", u64::from(flags))], |machine| {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if machine.devices.is_empty() {
            return Err(Code::NO_DEVICE);
        }
        if !std::mem::replace(&mut machine.initialised, true) {
            machine.registers_its_end();
        }
        Ok(())
    })
}

/// May be called before `cuInit`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_int {
    call("cuDriverGetVersion", &[], |machine| {
        let configured = machine.config.version;
        let value = if configured == 0 { VERSION } else { configured };
        // SAFETY: as the module says.
        unsafe { give(version, value) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> c_int {
    call("cuDeviceGetCount", &[], |machine| {
        machine.must_be_initialised()?;
        // SAFETY: as the module says.
        unsafe { give(count, machine.devices.len() as c_int) }
    })
}

/// A number below 0 or beyond the last device is an invalid device.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> c_int {
    call("cuDeviceGet", &[("ordinal", ordinal as u64)], |machine| {
        machine.must_be_initialised()?;
        machine.device_number(ordinal)?;
        // SAFETY: as the module says.
        unsafe { give(device, ordinal) }
    })
}

/// Writes at most `len` bytes, the ending zero among them.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) -> c_int {
    call("cuDeviceGetName", &[("device", device as u64)], |machine| {
        machine.must_be_initialised()?;
        machine.device_number(device)?;
        // SAFETY: as the module says: there is room for `len` bytes.
        unsafe { crate::call::give_text(name, len, NAME) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) -> c_int {
    call("cuDeviceGetUuid_v2", &[("device", device as u64)], |machine| {
        machine.must_be_initialised()?;
        let number = machine.device_number(device)?;
        let mut value = *b"simulated-cuda-0";
        value[15] = b'0'.wrapping_add(number as u8);
        // SAFETY: as the module says.
        unsafe { give(uuid, value) }
    })
}

/// Writes at most `len` bytes, the ending zero among them: domain, bus, device and function.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetPCIBusId(out: *mut c_char, len: c_int, device: c_int) -> c_int {
    call("cuDeviceGetPCIBusId", &[("device", device as u64)], |machine| {
        machine.must_be_initialised()?;
        let number = machine.device_number(device)?;
        // SAFETY: as the module says: there is room for `len` bytes.
        unsafe { crate::call::give_text(out, len, &format!("0000:{number:02x}:00.0")) }
    })
}

/// What `cuda.h` numbers so; all else that it numbers is 0 here.
fn attribute(config: &crate::config::Config, attribute: c_int) -> c_int {
    match attribute {
        1 => 1024, // threads of a block
        10 => 32,  // of a warp
        14 => 512, // alignment of textures
        16 => 4,   // multiprocessors
        // Integrated; reads ordinary memory, by the host's page tables; the host reaches managed
        // memory on the device.
        18 | 88 | 100 | 101 => c_int::from(config.coherent),
        19 | 31 | 41 => 1, // maps host memory, concurrent kernels, one address space
        40 => 2,           // copy engines
        75 => config.capability, // compute capability
        83 => c_int::from(config.managed), // managed memory
        89 => c_int::from(config.concurrent_managed),
        // Mapping by hand, and descriptors for that.
        102 | 103 => c_int::from(config.mapping),
        115 => c_int::from(config.pools), // allocation in the order of a stream
        _ => 0,
    }
}

/// The last attribute that this version of the driver numbers.
const LAST_ATTRIBUTE: c_int = 150;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetAttribute(out: *mut c_int, which: c_int, device: c_int) -> c_int {
    let arguments = [("attribute", which as u64), ("device", device as u64)];
    call("cuDeviceGetAttribute", &arguments, |machine| {
        machine.must_be_initialised()?;
        let number = machine.device_number(device)?;
        if !(1..=LAST_ATTRIBUTE).contains(&which) {
            return Err(Code::INVALID_VALUE);
        }
        // Where the device is: each has a slot of its own.
        let value = if which == 34 { number as c_int } else { attribute(&machine.config, which) };
        // SAFETY: as the module says.
        unsafe { give(out, value) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> c_int {
    call("cuDeviceTotalMem_v2", &[("device", device as u64)], |machine| {
        machine.must_be_initialised()?;
        let number = machine.device_number(device)?;
        // SAFETY: as the module says.
        unsafe { give(bytes, machine.memory_info(number).1) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceCanAccessPeer(out: *mut c_int, device: c_int, peer: c_int) -> c_int {
    let arguments = [("device", device as u64), ("peer", peer as u64)];
    call("cuDeviceCanAccessPeer", &arguments, |machine| {
        machine.must_be_initialised()?;
        let (one, other) = (machine.device_number(device)?, machine.device_number(peer)?);
        // SAFETY: as the module says.
        unsafe { give(out, c_int::from(machine.config.peers && one != other)) }
    })
}

/// A code that does not exist gets a null pointer and is an invalid value. May be called before
/// `cuInit`.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorName(error: c_int, out: *mut *const c_char) -> c_int {
    call("cuGetErrorName", &[("error", error as u64)], |_| {
        let name = code::cuda_name(error);
        // SAFETY: as the module says.
        unsafe { give(out, name.map_or(std::ptr::null(), |name| name.as_ptr())) }?;
        name.map(|_| ()).ok_or(Code::INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuGetErrorString(error: c_int, out: *mut *const c_char) -> c_int {
    call("cuGetErrorString", &[("error", error as u64)], |_| {
        let text = code::text(error);
        // SAFETY: as the module says.
        unsafe { give(out, text.map_or(std::ptr::null(), |text| text.as_ptr())) }?;
        text.map(|_| ()).ok_or(Code::INVALID_VALUE)
    })
}
