//! What is known of an address.

use std::ffi::{c_int, c_uint};

use arrow_device_sim::hardware::{Located, Placement};

use crate::call::give;
use crate::code::Code;
use crate::hip::call::call;
use crate::machine::Machine;

/// The type of ordinary memory, since HIP 6.
const UNREGISTERED: c_uint = 0;

/// One attribute of an address that the driver knows. Any other address is an invalid value, but
/// for its type where the driver tells that.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipPointerGetAttribute(out: *mut u8, which: c_int, address: usize) -> c_int {
    let arguments = [("attribute", which as u64), ("address", address as u64)];
    call("hipPointerGetAttribute", &arguments, |machine| {
        machine.chosen()?;
        let Some(found) = machine.pointer(address) else {
            if which == 2 && machine.config.unregistered {
                // SAFETY: as the module says.
                return unsafe { give(out.cast(), UNREGISTERED) };
            }
            return Err(Code::INVALID_VALUE);
        };
        let is_host = found.placement.is_for_host();
        let wide = match which {
            1 => machine.context(found.device),
            2 => {
                let kind = memory_type(machine, found);
                // SAFETY: as the module says.
                return unsafe { give(out.cast(), kind) };
            }
            4 if is_host => address,
            3 => address,
            7 => found.number + 1,
            8 | 13 => {
                let is = which == 13 || found.placement == Placement::Managed;
                // SAFETY: as the module says.
                return unsafe { give(out, u8::from(is)) };
            }
            // SAFETY: as the module says.
            9 => return unsafe { give(out.cast(), found.device as c_int) },
            11 => found.base,
            // Only four bytes, as HIP's own sources have it: the size modulo 2^32.
            // SAFETY: as the module says.
            12 => return unsafe { give(out.cast(), found.len as u32) },
            _ => return Err(Code::INVALID_VALUE),
        };
        // SAFETY: as the module says.
        unsafe { give(out.cast(), wide) }
    })
}

/// The numbers changed with HIP 6, which took those of CUDA.
fn memory_type(machine: &Machine, found: Located) -> c_uint {
    let version = machine.config.version;
    let is_old = version != 0 && version < 60_000_000;
    match (found.placement, is_old) {
        (Placement::Pinned, true) => 0,
        (Placement::Pinned, false)
        | (Placement::Device | Placement::Pooled(_) | Placement::Mapped(_), true) => 1,
        (Placement::Device | Placement::Pooled(_) | Placement::Mapped(_), false) => 2,
        (Placement::Managed, true) => 4,
        (Placement::Managed, false) => 3,
    }
}

/// `hipPointerAttribute_t`: its first members are the same in all versions.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct PointerAttributes {
    memory_type: c_uint,
    device: c_int,
    device_address: usize,
    host_address: usize,
    is_managed: c_int,
    flags: c_uint,
}

/// An address that the driver does not know is an invalid value.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipPointerGetAttributes(out: *mut u8, address: usize) -> c_int {
    call("hipPointerGetAttributes", &[("address", address as u64)], |machine| {
        machine.chosen()?;
        let found = machine.pointer(address).ok_or(Code::INVALID_VALUE)?;
        let is_host = found.placement.is_for_host();
        let attributes = PointerAttributes {
            memory_type: memory_type(machine, found),
            device: found.device as c_int,
            device_address: address,
            host_address: if is_host { address } else { 0 },
            is_managed: c_int::from(found.placement == Placement::Managed),
            flags: 0,
        };
        // SAFETY: as the module says.
        unsafe { give(out.cast(), attributes) }
    })
}

/// An address that is in no allocation is not found.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipMemGetAddressRange(
    base: *mut usize,
    len: *mut usize,
    address: usize,
) -> c_int {
    call("hipMemGetAddressRange", &[("address", address as u64)], |machine| {
        machine.chosen()?;
        let found = machine.pointer(address).ok_or(Code::NOT_FOUND)?;
        // SAFETY: as the module says.
        unsafe { give(base, found.base) }?;
        // SAFETY: as the module says.
        unsafe { give(len, found.len as usize) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hipHostGetDevicePointer(
    out: *mut usize,
    address: usize,
    flags: c_uint,
) -> c_int {
    call("hipHostGetDevicePointer", &[("address", address as u64)], |machine| {
        machine.chosen()?;
        let found = machine.pointer(address);
        let is_pinned = found.is_some_and(|found| found.placement == Placement::Pinned);
        if flags != 0 || !is_pinned {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: as the module says.
        unsafe { give(out, address) }
    })
}
