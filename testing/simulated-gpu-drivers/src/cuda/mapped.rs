//! Memory that is mapped by hand, and shared by descriptors.

use std::ffi::{c_int, c_void};

use crate::call::{call, call_then, give};
use crate::code::Code;
use crate::mapped::descriptor;

/// Option 0 asks for the smallest unit of sizes, 1 for the one that is recommended.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetAllocationGranularity(
    out: *mut usize,
    properties: *const c_void,
    option: c_int,
) -> c_int {
    call("cuMemGetAllocationGranularity", &[("option", option as u64)], |machine| {
        machine.must_be_initialised()?;
        // SAFETY: as the module says.
        let unit = unsafe { machine.granularity(properties.cast(), option, true) }?;
        // SAFETY: as the module says.
        unsafe { give(out, unit) }
    })
}

/// The size is a multiple of the smallest unit, the flags are 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemCreate(
    out: *mut usize,
    len: usize,
    properties: *const c_void,
    flags: u64,
) -> c_int {
    call("cuMemCreate", &[("bytes", len as u64)], |machine| {
        machine.must_be_initialised()?;
        if out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: as the module says.
        let handle = unsafe { machine.make_physical(len, properties.cast(), flags, true) }?;
        // SAFETY: as the module says.
        unsafe { give(out, handle) }
    })
}

/// May be called while the memory is mapped.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemRelease(handle: usize) -> c_int {
    call("cuMemRelease", &[("handle", handle as u64)], |machine| {
        machine.must_be_initialised()?;
        machine.release_physical(handle)
    })
}

/// The address that is wanted is a hint, and not followed here.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAddressReserve(
    out: *mut usize,
    len: usize,
    alignment: usize,
    _wanted: usize,
    flags: u64,
) -> c_int {
    call("cuMemAddressReserve", &[("bytes", len as u64)], |machine| {
        machine.must_be_initialised()?;
        if out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let address = machine.reserve(len, alignment, flags, true)?;
        // SAFETY: as the module says.
        unsafe { give(out, address) }
    })
}

/// Both have to be those of the reservation.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAddressFree(address: usize, len: usize) -> c_int {
    call("cuMemAddressFree", &[("address", address as u64), ("bytes", len as u64)], |machine| {
        machine.must_be_initialised()?;
        machine.free_space(address, len)
    })
}

/// Nobody has access before it is given.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemMap(
    address: usize,
    len: usize,
    offset: usize,
    handle: usize,
    flags: u64,
) -> c_int {
    let arguments = [("address", address as u64), ("bytes", len as u64), ("handle", handle as u64)];
    call("cuMemMap", &arguments, |machine| {
        machine.must_be_initialised()?;
        machine.map((address, len), offset, handle, flags)
    })
}

/// Both have to be those of the mapping. May wait.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemUnmap(address: usize, len: usize) -> c_int {
    call_then("cuMemUnmap", &[("address", address as u64), ("bytes", len as u64)], |machine| {
        machine.must_be_initialised()?;
        machine.unmap(address, len)
    })
}

/// The range has to be mapped as a whole. Peer access is not enough for such memory: this is how
/// another device gets it.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemSetAccess(
    address: usize,
    len: usize,
    list: *const c_void,
    count: usize,
) -> c_int {
    let arguments = [("address", address as u64), ("bytes", len as u64), ("count", count as u64)];
    call("cuMemSetAccess", &arguments, |machine| {
        machine.must_be_initialised()?;
        // SAFETY: as the module says.
        unsafe { machine.give_mapped(address, len, list.cast(), count) }
    })
}

/// Of a type that the memory was made for. The descriptor belongs to the caller.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemExportToShareableHandle(
    out: *mut c_void,
    handle: usize,
    kind: c_int,
    flags: u64,
) -> c_int {
    let arguments = [("handle", handle as u64), ("kind", kind as u64)];
    call("cuMemExportToShareableHandle", &arguments, |machine| {
        machine.must_be_initialised()?;
        if out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let descriptor = machine.export(handle, kind, flags)?;
        // SAFETY: as the module says: an `int` for descriptors.
        unsafe { give(out.cast::<c_int>(), descriptor) }
    })
}

/// The descriptor is given in place of a pointer.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemImportFromShareableHandle(
    out: *mut usize,
    given: *mut c_void,
    kind: c_int,
) -> c_int {
    let given = given.expose_provenance();
    let arguments = [("given", given as u64), ("kind", kind as u64)];
    call("cuMemImportFromShareableHandle", &arguments, |machine| {
        machine.must_be_initialised()?;
        if out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: as the module says.
        let descriptor = unsafe { descriptor(given, false) }?;
        let handle = machine.import(descriptor, kind, true)?;
        // SAFETY: as the module says.
        unsafe { give(out, handle) }
    })
}
