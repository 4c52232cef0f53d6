//! What is known of an address.

use std::ffi::{c_int, c_uint};

use arrow_device_sim::hardware::{Located, Placement};

use crate::call::{call, entries, give};
use crate::code::{Answer, Code};
use crate::machine::Machine;

/// The value of an attribute, as bytes.
pub(crate) enum Value {
    Int(c_uint),
    Wide(u64),
    Bool(bool),
}

const HOST: c_uint = 1;
const DEVICE: c_uint = 2;

/// The attributes that `cuda.h` numbers so. Whether an address is mapped is known of every address,
/// all else of the driver's own only.
fn attribute(
    machine: &Machine,
    found: Option<Located>,
    which: c_int,
    address: usize,
) -> Answer<Value> {
    if which == 13 {
        return Ok(Value::Bool(found.is_some()));
    }
    let found = found.ok_or(Code::INVALID_VALUE)?;
    let is_host = found.placement.is_for_host();
    Ok(match which {
        1 => Value::Wide(machine.context(found.device) as u64),
        2 => Value::Int(if found.placement == Placement::Pinned { HOST } else { DEVICE }),
        3 => Value::Wide(address as u64),
        // The host has no address for memory of the device alone.
        4 if is_host => Value::Wide(address as u64),
        4 => return Err(Code::INVALID_VALUE),
        7 => Value::Wide(found.number as u64 + 1),
        8 => Value::Bool(found.placement == Placement::Managed),
        9 => Value::Int(found.device as c_uint),
        11 => Value::Wide(range(machine, found).0),
        12 => Value::Wide(range(machine, found).1),
        _ => return Err(Code::INVALID_VALUE),
    })
}

/// Where the range around an address begins, and how long it is: an allocation, or the reservation
/// that the allocation is mapped to a part of.
fn range(machine: &Machine, found: Located) -> (u64, u64) {
    const GRANULE: u64 = 2 << 20;
    let (base, len) = (found.base as u64, found.len);
    if !machine.config.reservations {
        return (base, len);
    }
    let start = base / GRANULE * GRANULE;
    (start, (base + len).div_ceil(GRANULE) * GRANULE - start)
}

/// # Safety
/// `out` may be written for as many bytes as the value has.
unsafe fn give_value(out: *mut u8, value: Value) -> Answer {
    match value {
        // SAFETY: `out` may be written for as many bytes as the value has, as the caller promises.
        Value::Int(value) => unsafe { give(out.cast::<c_uint>(), value) },
        // SAFETY: `out` may be written for as many bytes as the value has, as the caller promises.
        Value::Wide(value) => unsafe { give(out.cast::<u64>(), value) },
        // SAFETY: `out` may be written for as many bytes as the value has, as the caller promises.
        Value::Bool(value) => unsafe { give(out, u8::from(value)) },
    }
}

/// An address that the driver does not know is an invalid value.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuPointerGetAttribute(out: *mut u8, which: c_int, address: usize) -> c_int {
    let arguments = [("attribute", which as u64), ("address", address as u64)];
    call("cuPointerGetAttribute", &arguments, |machine| {
        machine.must_be_initialised()?;
        let found = machine.pointer(address);
        let value = attribute(machine, found, which, address)?;
        // SAFETY: as the module says.
        unsafe { give_value(out, value) }
    })
}

/// For an address that the driver does not know each attribute is 0 or null, and the call succeeds.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuPointerGetAttributes(
    count: c_uint,
    which: *const c_int,
    out: *const *mut u8,
    address: usize,
) -> c_int {
    let arguments = [("count", u64::from(count)), ("address", address as u64)];
    call("cuPointerGetAttributes", &arguments, |machine| {
        machine.must_be_initialised()?;
        if which.is_null() || out.is_null() || count == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let found = machine.pointer(address);
        // SAFETY: as the module says.
        let which = unsafe { entries(which, count as usize) };
        // SAFETY: as the module says.
        let out = unsafe { entries(out, count as usize) };
        for (which, out) in which.into_iter().zip(out) {
            let value = match attribute(machine, found, which, address) {
                Ok(value) => value,
                Err(_) => none(which)?,
            };
            // SAFETY: as the module says.
            unsafe { give_value(out, value) }?;
        }
        Ok(())
    })
}

/// An attribute of nothing.
fn none(which: c_int) -> Answer<Value> {
    Ok(match which {
        2 => Value::Int(0),
        9 => Value::Int(c_uint::MAX - 1),
        8 | 13 => Value::Bool(false),
        1 | 3 | 4 | 7 | 11 | 12 => Value::Wide(0),
        _ => return Err(Code::INVALID_VALUE),
    })
}

/// An address that is in no allocation is not found. Either result may be left out.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemGetAddressRange_v2(
    base: *mut usize,
    len: *mut usize,
    address: usize,
) -> c_int {
    call("cuMemGetAddressRange_v2", &[("address", address as u64)], |machine| {
        machine.current()?;
        let found = machine.pointer(address).ok_or(Code::NOT_FOUND)?;
        if !base.is_null() {
            // SAFETY: as the module says.
            unsafe { give(base, found.base) }?;
        }
        if !len.is_null() {
            // SAFETY: as the module says.
            unsafe { give(len, found.len as usize) }?;
        }
        Ok(())
    })
}

/// The flags are reserved and have to be 0. Pinned memory has one address for all.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemHostGetDevicePointer_v2(
    out: *mut usize,
    address: usize,
    flags: c_uint,
) -> c_int {
    call("cuMemHostGetDevicePointer_v2", &[("address", address as u64)], |machine| {
        machine.current()?;
        let found = machine.pointer(address);
        let is_pinned = found.is_some_and(|found| found.placement == Placement::Pinned);
        if flags != 0 || !is_pinned {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: as the module says.
        unsafe { give(out, address) }
    })
}
