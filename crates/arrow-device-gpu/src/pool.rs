//! The pool of each device, for memory that is allocated in the order of queues.
//!
//! A pool is made when its device is made ready, and stays for the life of the process, as the
//! device's context does, because memory that was exported outlives whoever opened the device. An
//! empty pool takes no memory of the device.

use std::ptr;

use crate::driver::Apart;
use crate::{Api, Functions, GpuDriver, Handle, MemoryLocation, PoolAccess, ReadyDevice};

/// The kind of memory that pools have, and where it lies.
const PINNED: i32 = 1;
const LOCATION_DEVICE: i32 = 1;
const READ_WRITE: i32 = 3;
/// The attribute that sets how many bytes the pool keeps.
const RELEASE_THRESHOLD: i32 = 4;

/// `CUmemPoolProps` and `hipMemPoolProps`.
#[repr(C)]
#[derive(Debug, Default)]
pub struct PoolProperties {
    memory: i32,
    handles: i32,
    location: MemoryLocation,
    security: usize,
    reserved: [u64; 8],
}

/// Makes the pool of a device. Returns null where the device or the driver cannot have one, or
/// making it fails. Memory then comes from the device's current pool.
pub(crate) fn make(api: &impl Api, device: &ReadyDevice) -> Handle {
    let Functions { pool_create, pool_set_attribute, pool_alloc_async, .. } = api.functions();
    let (Some(create), Some(_), Some(_)) = (pool_create, pool_set_attribute, pool_alloc_async)
    else {
        return ptr::null_mut();
    };
    let location = MemoryLocation { kind: LOCATION_DEVICE, id: device.ordinal };
    let properties = PoolProperties { memory: PINNED, location, ..PoolProperties::default() };
    let mut pool = ptr::null_mut();
    let _apart = Apart::new(api);
    // SAFETY: a handle is written; one description is read.
    if api.succeeded(unsafe { create(&mut pool, &properties) }) { pool } else { ptr::null_mut() }
}

impl<A: Api> GpuDriver<A> {
    /// Sets how many bytes the device's own pool keeps. Where that fails, the number stays as it
    /// was.
    pub(crate) fn keep_in_pool(&self, bytes: u64) {
        let set = self.api.functions().pool_set_attribute;
        let (Some(set), false) = (set, self.device.pool.is_null()) else { return };
        let mut bytes = bytes;
        let _apart = Apart::new(self.api);
        // SAFETY: the pool is never destroyed; the value of this attribute is a number of 8 bytes.
        let code = unsafe { set(self.device.pool, RELEASE_THRESHOLD, (&raw mut bytes).cast()) };
        self.api.succeeded(code);
    }

    /// Gives all unused memory of the device's own pool back to the device.
    pub(crate) fn trim_pool(&self) {
        let trim = self.api.functions().pool_trim;
        let (Some(trim), false) = (trim, self.device.pool.is_null()) else { return };
        let _apart = Apart::new(self.api);
        // SAFETY: the pool is never destroyed.
        self.api.succeeded(unsafe { trim(self.device.pool, 0) });
    }

    /// Lets this device reach what another device allocates in the order of its streams: from this
    /// library's pool, and from the current pool of that device. Returns whether all such memory is
    /// reached, which is so where the other device has no pools.
    pub(crate) fn reach_pools(&self, peer: &ReadyDevice) -> bool {
        let functions = self.api.functions();
        let (Some(current_pool), Some(set_access)) =
            (functions.current_pool, functions.set_pool_access)
        else {
            return true;
        };
        let mut current = ptr::null_mut();
        // SAFETY: a handle is written.
        let asked = self.api.succeeded(unsafe { current_pool(&mut current, peer.device) });
        if !asked {
            // A device that has a pool of this library also has a current pool.
            return peer.pool.is_null();
        }
        let location = MemoryLocation { kind: LOCATION_DEVICE, id: self.device.ordinal };
        let access = PoolAccess { location, flags: READ_WRITE };
        let mut pools = [peer.pool, current].into_iter().filter(|pool| !pool.is_null());
        pools.all(|pool| {
            // SAFETY: one description is read. The pool is the library's own, which is never
            // destroyed, or the one that the driver has just named.
            self.api.succeeded(unsafe { set_access(pool, &access, 1) })
        })
    }
}
