//! Allocating and freeing.

use std::ffi::{c_int, c_uint};

use arrow_device_sim::hardware::Placement;

use crate::call::{Then, give};
use crate::code::Code;
use crate::hip::call::{call, call_then};

#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> c_int {
    call("hipMemGetInfo", &[], |machine| {
        let device = machine.chosen()?;
        let (left, all) = machine.memory_info(device);
        // SAFETY: as the module says.
        unsafe { give(free, left) }?;
        // SAFETY: as the module says.
        unsafe { give(total, all) }
    })
}

/// A size of 0 gives a null pointer and success.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipMalloc(out: *mut usize, len: usize) -> c_int {
    call("hipMalloc", &[("bytes", len as u64)], |machine| {
        let device = machine.chosen()?;
        if out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let address =
            if len == 0 { 0 } else { machine.allocate(device, len, Placement::Device)? };
        // SAFETY: as the module says.
        unsafe { give(out, address) }
    })
}

/// A null pointer is freed with success. What pinned memory has is freed by `hipHostFree`.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipFree(address: usize) -> c_int {
    call_then("hipFree", &[("address", address as u64)], |machine| {
        machine.chosen()?;
        machine.free(address, false)
    })
}

/// Flags: portable 1, mapped 2, write-combined 4, NUMA 0x20000000, coherent 0x40000000 or not
/// 0x80000000.
const KNOWN_FLAGS: c_uint = 0xe000_0007;

#[unsafe(no_mangle)]
unsafe extern "C" fn hipHostMalloc(out: *mut usize, len: usize, flags: c_uint) -> c_int {
    let arguments = [("bytes", len as u64), ("flags", u64::from(flags))];
    call("hipHostMalloc", &arguments, |machine| {
        let device = machine.chosen()?;
        if out.is_null() || flags & !KNOWN_FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let address =
            if len == 0 { 0 } else { machine.allocate(device, len, Placement::Pinned)? };
        // SAFETY: as the module says.
        unsafe { give(out, address) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipHostFree(address: usize) -> c_int {
    call_then("hipHostFree", &[("address", address as u64)], |machine| {
        machine.chosen()?;
        if address == 0 { Ok(Then::Return) } else { machine.free(address, true) }
    })
}

/// The flag is 1 (global) or 2 (host).
#[unsafe(no_mangle)]
unsafe extern "C" fn hipMallocManaged(out: *mut usize, len: usize, flags: c_uint) -> c_int {
    let arguments = [("bytes", len as u64), ("flags", u64::from(flags))];
    call("hipMallocManaged", &arguments, |machine| {
        let device = machine.chosen()?;
        if out.is_null() || !matches!(flags, 1 | 2) {
            return Err(Code::INVALID_VALUE);
        }
        let address = machine.allocate(device, len, Placement::Managed)?;
        // SAFETY: as the module says.
        unsafe { give(out, address) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipMallocAsync(out: *mut usize, len: usize, stream: usize) -> c_int {
    let arguments = [("bytes", len as u64), ("stream", stream as u64)];
    call("hipMallocAsync", &arguments, |machine| {
        let device = machine.chosen()?;
        if out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let address =
            if len == 0 { 0 } else { machine.allocate_in_order(device, len, None, stream)? };
        // SAFETY: as the module says.
        unsafe { give(out, address) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipFreeAsync(address: usize, stream: usize) -> c_int {
    let arguments = [("address", address as u64), ("stream", stream as u64)];
    call("hipFreeAsync", &arguments, |machine| {
        let device = machine.chosen()?;
        machine.free_in_order(device, address, stream)
    })
}
