//! Pools: what stays reserved, what is given back, and who reaches it.

use simulated_gpu_drivers::{Simulated, Vendor};

use crate::support::{Driver, call, started_with};

const MIB: usize = 1 << 20;

fn driver() -> Driver {
    started_with(Simulated::builder(Vendor::Cuda).devices(2).memory(16 * MIB as u64).peers(true))
}

/// A pool of a device.
fn make(driver: &Driver, device: u64) -> usize {
    let (mut pool, mut properties) = (0_usize, [0_u64; 11]);
    properties[0] = 1;
    properties[1] = 1 | device << 32;
    assert_eq!(call!(driver, "cuMemPoolCreate", &mut pool, &properties[..]), 0);
    properties[10] = 1;
    let mut none = 0_usize;
    assert_eq!(call!(driver, "cuMemPoolCreate", &mut none, &properties[..]), 1, "reserved");
    pool
}

fn attribute(driver: &Driver, pool: usize, which: i32) -> u64 {
    let mut value = 9_u64;
    assert_eq!(call!(driver, "cuMemPoolGetAttribute", pool, which, &mut value), 0);
    value
}

#[test]
fn a_pool_gives_back_what_is_beyond_its_threshold_when_somebody_waits() {
    let driver = driver();
    let (pool, stream) = (make(&driver, 0), driver.made("cuStreamCreate", &[1]));
    let allocate = |bytes: usize| {
        let mut address = 0_usize;
        let code = call!(driver, "cuMemAllocFromPoolAsync", &mut address, bytes, pool, stream);
        (code, address)
    };
    let reserved = || attribute(&driver, pool, 5);
    for (threshold, kept) in [(0_u64, 0), (3 * MIB as u64, 3 * MIB as u64), (u64::MAX, 8 << 20)] {
        assert_eq!(call!(driver, "cuMemPoolSetAttribute", pool, 4, &mut { threshold }), 0);
        let (code, address) = allocate(8 * MIB);
        assert_eq!((code, reserved(), attribute(&driver, pool, 7)), (0, 8 << 20, 8 << 20));
        assert_eq!(call!(driver, "cuMemFreeAsync", address, stream), 0);
        assert_eq!((reserved(), attribute(&driver, pool, 7)), (8 << 20, 0), "nobody has waited");
        assert_eq!(call!(driver, "cuStreamSynchronize", stream), 0);
        assert_eq!(reserved(), kept);
    }
    // What is reserved is nobody else's, until it is given back.
    let mut other = 0_usize;
    assert_eq!(call!(driver, "cuMemAlloc_v2", &mut other, 12 * MIB), 2);
    assert_eq!(call!(driver, "cuMemAllocAsync", &mut other, 12 * MIB, stream), 2);
    let (growths, trims) = (driver.sim.pool_growths(), driver.sim.pool_trims());
    assert_eq!(call!(driver, "cuMemPoolTrimTo", pool, 0), 0);
    assert_eq!((reserved(), driver.sim.pool_trims()), (0, trims + 1));
    let memory = driver.made("cuMemAlloc_v2", &[12 << 20]);
    assert_eq!(call!(driver, "cuMemFree_v2", memory), 0);
    let (code, address) = allocate(MIB);
    assert_eq!((code, driver.sim.pool_growths()), (0, growths + 1));
    // The pool goes, and its memory stays.
    assert_eq!(call!(driver, "cuMemPoolDestroy", pool), 0);
    assert_eq!(call!(driver, "cuMemsetD8Async", address, 1, 8, stream), 0);
    assert_eq!(call!(driver, "cuMemFreeAsync", address, stream), 0);
    assert_eq!(allocate(MIB).0, 1);
    assert_eq!(driver.kinds(), ["UnknownHandle"]);
    assert_eq!(call!(driver, "cuStreamDestroy_v2", stream), 0);
    driver.finish();
}

#[test]
fn a_device_allocates_from_the_pool_that_is_current_to_it() {
    let driver = driver();
    let (pool, stream) = (make(&driver, 0), driver.made("cuStreamCreate", &[1]));
    let current = || driver.made("cuDeviceGetMemPool", &[0]);
    let default = driver.made("cuDeviceGetDefaultMemPool", &[0]);
    assert_eq!(current(), default);
    assert_eq!(call!(driver, "cuDeviceSetMemPool", 1, pool), 101, "it is the other device's");
    assert_eq!(call!(driver, "cuDeviceSetMemPool", 0, pool), 0);
    assert_eq!((current(), call!(driver, "cuMemPoolDestroy", default)), (pool, 1));
    let memory = driver.made("cuMemAllocAsync", &[8, stream as u64]);
    assert_eq!([pool, default].map(|pool| attribute(&driver, pool, 7)), [8, 0]);
    assert_eq!(call!(driver, "cuMemFree_v2", memory), 0);
    assert_eq!(attribute(&driver, pool, 7), 0);
    assert_eq!(call!(driver, "cuStreamDestroy_v2", stream), 0);
    driver.finish();
}

#[test]
fn access_is_that_of_one_pool() {
    let driver = driver();
    let (pool, stream) = (make(&driver, 0), driver.made("cuStreamCreate", &[1]));
    let default = driver.made("cuDeviceGetDefaultMemPool", &[0]);
    let mut ours = 0_usize;
    assert_eq!(call!(driver, "cuMemAllocFromPoolAsync", &mut ours, 8, pool, stream), 0);
    assert_eq!(call!(driver, "cuMemsetD8Async", ours, 1, 8, stream), 0);
    assert_eq!(call!(driver, "cuStreamSynchronize", stream), 0);
    let context = driver.context(1);
    assert_eq!(call!(driver, "cuCtxPushCurrent_v2", context), 0);
    let elsewhere = driver.made("cuStreamCreate", &[1]);
    let access = [1_i32, 1, 3];
    assert_eq!(call!(driver, "cuMemPoolSetAccess", default, &access[..], 1), 0);
    let read = || {
        let kernel = driver.sim.kernel("read").reads(ours as u64, 8);
        assert_eq!(kernel.launch(elsewhere as u64, |_| {}), 0);
        assert_eq!(call!(driver, "cuStreamSynchronize", elsewhere), 0);
        driver.kinds()
    };
    assert_eq!(read(), ["UnreachableMemory"]);
    assert_eq!(call!(driver, "cuMemPoolSetAccess", pool, &access[..], 1), 0);
    assert_eq!(read(), [""; 0]);
}
