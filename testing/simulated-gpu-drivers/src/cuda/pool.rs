//! Pools of memory that is allocated in the order of streams.

use std::ffi::{c_int, c_void};

use crate::call::{call, give};
use crate::code::Code;

/// The pool that a device has from the beginning.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetDefaultMemPool(out: *mut usize, device: c_int) -> c_int {
    call("cuDeviceGetDefaultMemPool", &[("device", device as u64)], |machine| {
        machine.must_be_initialised()?;
        let pool = machine.default_pool(device)?;
        // SAFETY: as the module says.
        unsafe { give(out, pool) }
    })
}

/// The pool that allocates where none is named.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceGetMemPool(out: *mut usize, device: c_int) -> c_int {
    call("cuDeviceGetMemPool", &[("device", device as u64)], |machine| {
        machine.must_be_initialised()?;
        let pool = machine.current_pool(device)?;
        // SAFETY: as the module says.
        unsafe { give(out, pool) }
    })
}

/// The pool has to be one of the device.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDeviceSetMemPool(device: c_int, pool: usize) -> c_int {
    let arguments = [("device", device as u64), ("pool", pool as u64)];
    call("cuDeviceSetMemPool", &arguments, |machine| {
        machine.must_be_initialised()?;
        machine.set_current_pool(device, pool)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolCreate(out: *mut usize, properties: *const c_void) -> c_int {
    call("cuMemPoolCreate", &[], |machine| {
        machine.must_be_initialised()?;
        if out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: as the module says.
        let pool = unsafe { machine.make_pool(properties.cast()) }?;
        // SAFETY: as the module says.
        unsafe { give(out, pool) }
    })
}

/// What was allocated from it stays. A default pool cannot be destroyed.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolDestroy(pool: usize) -> c_int {
    call("cuMemPoolDestroy", &[("pool", pool as u64)], |machine| {
        machine.must_be_initialised()?;
        machine.destroy_pool(pool)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolSetAttribute(pool: usize, which: c_int, value: *mut c_void) -> c_int {
    let arguments = [("pool", pool as u64), ("attribute", which as u64)];
    call("cuMemPoolSetAttribute", &arguments, |machine| {
        machine.must_be_initialised()?;
        if value.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: as the module says: eight bytes for the attributes that are known here.
        let value = unsafe { value.cast::<u64>().read_unaligned() };
        machine.set_pool_attribute(pool, which, value)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolGetAttribute(pool: usize, which: c_int, value: *mut c_void) -> c_int {
    let arguments = [("pool", pool as u64), ("attribute", which as u64)];
    call("cuMemPoolGetAttribute", &arguments, |machine| {
        machine.must_be_initialised()?;
        let found = machine.pool_attribute(pool, which)?;
        // SAFETY: as the module says.
        unsafe { give(value.cast(), found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolTrimTo(pool: usize, keep: usize) -> c_int {
    call("cuMemPoolTrimTo", &[("pool", pool as u64), ("keep", keep as u64)], |machine| {
        machine.must_be_initialised()?;
        machine.trim_pool(pool, keep as u64)
    })
}

/// Peer access is not enough for memory of a pool: this is how another device gets it.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemPoolSetAccess(pool: usize, list: *const c_void, count: usize) -> c_int {
    call("cuMemPoolSetAccess", &[("pool", pool as u64), ("count", count as u64)], |machine| {
        machine.must_be_initialised()?;
        // SAFETY: as the module says.
        unsafe { machine.give_pool(pool, list.cast(), count) }
    })
}

/// As an allocation from the current pool, from another one.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuMemAllocFromPoolAsync(
    out: *mut usize,
    len: usize,
    pool: usize,
    stream: usize,
) -> c_int {
    let arguments = [("bytes", len as u64), ("pool", pool as u64), ("stream", stream as u64)];
    call("cuMemAllocFromPoolAsync", &arguments, |machine| {
        let device = machine.current()?;
        if out.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let address = machine.allocate_in_order(device, len, Some(pool), stream)?;
        // SAFETY: as the module says.
        unsafe { give(out, address) }
    })
}
