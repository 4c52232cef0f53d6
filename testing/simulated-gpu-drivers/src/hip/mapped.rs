//! Memory that is mapped by hand, and shared by descriptors.

use std::ffi::{c_int, c_void};

use crate::call::give;
use crate::code::Code;
use crate::hip::call::{call, call_then};
use crate::mapped::descriptor;

/// The version from which on a descriptor is given in place of a pointer.
const POINTERS_END: c_int = 70_100_000;

/// Option 0 asks for the smallest unit of sizes, 1 for the one that is recommended.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemGetAllocationGranularity(
    out: *mut usize,
    properties: *const c_void,
    option: c_int,
) -> c_int {
    call("hipMemGetAllocationGranularity", &[("option", option as u64)], |machine| {
        machine.chosen()?;
        // SAFETY: as the module says.
        let unit = unsafe { machine.granularity(properties.cast(), option, false) }?;
        // SAFETY: as the module says.
        unsafe { give(out, unit) }
    })
}

/// The size is a multiple of the smallest unit, the flags are 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemCreate(
    out: *mut usize,
    len: usize,
    properties: *const c_void,
    flags: u64,
) -> c_int {
    call("hipMemCreate", &[("bytes", len as u64)], |machine| {
        machine.chosen()?;
        if out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: as the module says.
        let handle = unsafe { machine.make_physical(len, properties.cast(), flags, false) }?;
        // SAFETY: as the module says.
        unsafe { give(out, handle) }
    })
}

/// May be called while the memory is mapped.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemRelease(handle: usize) -> c_int {
    call("hipMemRelease", &[("handle", handle as u64)], |machine| {
        machine.chosen()?;
        machine.release_physical(handle)
    })
}

/// The address that is wanted is a hint, and not followed here.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemAddressReserve(
    out: *mut usize,
    len: usize,
    alignment: usize,
    _wanted: usize,
    flags: u64,
) -> c_int {
    call("hipMemAddressReserve", &[("bytes", len as u64)], |machine| {
        machine.chosen()?;
        if out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let address = machine.reserve(len, alignment, flags, false)?;
        // SAFETY: as the module says.
        unsafe { give(out, address) }
    })
}

/// Both have to be those of the reservation.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemAddressFree(address: usize, len: usize) -> c_int {
    call("hipMemAddressFree", &[("address", address as u64), ("bytes", len as u64)], |machine| {
        machine.chosen()?;
        machine.free_space(address, len)
    })
}

/// Nobody has access before it is given.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemMap(
    address: usize,
    len: usize,
    offset: usize,
    handle: usize,
    flags: u64,
) -> c_int {
    let arguments = [("address", address as u64), ("bytes", len as u64), ("handle", handle as u64)];
    call("hipMemMap", &arguments, |machine| {
        machine.chosen()?;
        machine.map((address, len), offset, handle, flags)
    })
}

/// Both have to be those of the mapping. May wait.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemUnmap(address: usize, len: usize) -> c_int {
    call_then("hipMemUnmap", &[("address", address as u64), ("bytes", len as u64)], |machine| {
        machine.chosen()?;
        machine.unmap(address, len)
    })
}

/// The range has to be mapped as a whole. Peer access is not enough for such memory: this is how
/// another device gets it.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemSetAccess(
    address: usize,
    len: usize,
    list: *const c_void,
    count: usize,
) -> c_int {
    let arguments = [("address", address as u64), ("bytes", len as u64), ("count", count as u64)];
    call("hipMemSetAccess", &arguments, |machine| {
        machine.chosen()?;
        // SAFETY: as the module says.
        unsafe { machine.give_mapped(address, len, list.cast(), count) }
    })
}

/// Of a type that the memory was made for. The descriptor belongs to the caller.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemExportToShareableHandle(
    out: *mut c_void,
    handle: usize,
    kind: c_int,
    flags: u64,
) -> c_int {
    let arguments = [("handle", handle as u64), ("kind", kind as u64)];
    call("hipMemExportToShareableHandle", &arguments, |machine| {
        machine.chosen()?;
        if out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let descriptor = machine.export(handle, kind, flags)?;
        // SAFETY: as the module says: an `int` for descriptors.
        unsafe { give(out.cast::<c_int>(), descriptor) }
    })
}

/// The descriptor is given in place of a pointer since HIP 7.1, and by a pointer to it before.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemImportFromShareableHandle(
    out: *mut usize,
    given: *mut c_void,
    kind: c_int,
) -> c_int {
    let given = given.expose_provenance();
    let arguments = [("given", given as u64), ("kind", kind as u64)];
    call("hipMemImportFromShareableHandle", &arguments, |machine| {
        machine.chosen()?;
        if out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: as the module says.
        let descriptor = unsafe { descriptor(given, machine.is_older_than(POINTERS_END)) }?;
        let handle = machine.import(descriptor, kind, false)?;
        // SAFETY: as the module says.
        unsafe { give(out, handle) }
    })
}
