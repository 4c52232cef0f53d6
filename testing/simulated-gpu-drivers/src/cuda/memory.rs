//! Allocating and freeing.

use std::ffi::{c_int, c_uint};

use arrow_device_sim::hardware::Placement;

use crate::call::{call, call_then, give};
use crate::code::Code;

/// Free and all bytes of the current context's device.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int {
    call("cuMemGetInfo_v2", &[], |machine| {
        let device = machine.current()?;
        let (left, all) = machine.memory_info(device);
        // SAFETY: as the module says.
        unsafe { give(free, left) }?;
        // SAFETY: as the module says.
        unsafe { give(total, all) }
    })
}

/// A size of 0 is an invalid value.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAlloc_v2(out: *mut usize, len: usize) -> c_int {
    call("cuMemAlloc_v2", &[("bytes", len as u64)], |machine| {
        let device = machine.current()?;
        if out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let address = machine.allocate(device, len, Placement::Device)?;
        // SAFETY: as the module says.
        unsafe { give(out, address) }
    })
}

/// The address has to be what `cuMemAlloc` or `cuMemAllocManaged` gave.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFree_v2(address: usize) -> c_int {
    call_then("cuMemFree_v2", &[("address", address as u64)], |machine| {
        machine.current()?;
        machine.free(address, false)
    })
}

/// The memory is in reach of all contexts: the flags change nothing with one address space.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostAlloc(out: *mut usize, len: usize, flags: c_uint) -> c_int {
    let arguments = [("bytes", len as u64), ("flags", u64::from(flags))];
    call("cuMemHostAlloc", &arguments, |machine| {
        let device = machine.current()?;
        // Portable 1, mapped 2, write-combined 4.
        if out.is_null() || flags & !7 != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let len = if machine.config.lenient { len.max(1) } else { len };
        let address = machine.allocate(device, len, Placement::Pinned)?;
        // SAFETY: as the module says.
        unsafe { give(out, address) }
    })
}

/// The same, by the name that has no flags.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocHost_v2(out: *mut usize, len: usize) -> c_int {
    // SAFETY: as the module says.
    unsafe { cuMemHostAlloc(out, len, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFreeHost(address: usize) -> c_int {
    call_then("cuMemFreeHost", &[("address", address as u64)], |machine| {
        machine.current()?;
        machine.free(address, true)
    })
}

/// Of the flags exactly one has to be given: global (1) or host (2).
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocManaged(out: *mut usize, len: usize, flags: c_uint) -> c_int {
    let arguments = [("bytes", len as u64), ("flags", u64::from(flags))];
    call("cuMemAllocManaged", &arguments, |machine| {
        let device = machine.current()?;
        if out.is_null() || !matches!(flags, 1 | 2) {
            return Err(Code::INVALID_VALUE);
        }
        let address = machine.allocate(device, len, Placement::Managed)?;
        // SAFETY: as the module says.
        unsafe { give(out, address) }
    })
}

/// The memory is there for what comes later on the stream, or after it.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocAsync(out: *mut usize, len: usize, stream: usize) -> c_int {
    let arguments = [("bytes", len as u64), ("stream", stream as u64)];
    call("cuMemAllocAsync", &arguments, |machine| {
        let device = machine.current()?;
        if out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let address = machine.allocate_in_order(device, len, None, stream)?;
        // SAFETY: as the module says.
        unsafe { give(out, address) }
    })
}

/// Nothing may use the memory that is not ordered before this.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemFreeAsync(address: usize, stream: usize) -> c_int {
    let arguments = [("address", address as u64), ("stream", stream as u64)];
    call("cuMemFreeAsync", &arguments, |machine| {
        let device = machine.current()?;
        machine.free_in_order(device, address, stream)
    })
}
