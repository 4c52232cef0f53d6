//! What the driver may do that is unkind, one by one.

use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_device_testkit::process::{self, Child};
use simulated_gpu_drivers::{Builder, Simulated, Vendor};

use crate::support::{Driver, call, started_with};

fn with(change: impl FnOnce(Builder) -> Builder) -> Driver {
    started_with(change(Simulated::builder(Vendor::Cuda)))
}

#[test]
fn frees_of_memory_that_is_of_no_pool_wait() {
    static RAN: AtomicBool = AtomicBool::new(false);
    for waits in [false, true] {
        let driver = with(|builder| builder.frees_wait(waits));
        let stream = driver.made("cuStreamCreate", &[1]);
        let pooled = driver.made("cuMemAllocAsync", &[8, stream as u64]);
        assert_eq!(call!(driver, "cuStreamSynchronize", stream), 0);
        for (allocate, more, free, of_a_pool) in [
            ("cuMemAlloc_v2", &[8][..], "cuMemFree_v2", false),
            ("cuMemHostAlloc", &[8, 0], "cuMemFreeHost", false),
            ("cuMemAllocManaged", &[8, 1], "cuMemFree_v2", false),
            ("", &[], "cuMemFree_v2", true),
        ] {
            let memory = if of_a_pool { pooled } else { driver.made(allocate, more) };
            RAN.store(false, Ordering::Relaxed);
            let kernel = driver.sim.kernel("work");
            kernel.launch(stream as u64, |_| RAN.store(true, Ordering::Relaxed));
            assert_eq!(driver.call(free, &[memory as u64]), 0);
            assert_eq!(RAN.load(Ordering::Relaxed), waits && !of_a_pool, "{allocate} {free}");
            assert_eq!(call!(driver, "cuStreamSynchronize", stream), 0);
        }
        assert_eq!(call!(driver, "cuStreamDestroy_v2", stream), 0);
        driver.finish();
    }
}

#[test]
fn copies_of_ordinary_memory_may_be_done_with_it_later() {
    let driver = with(|builder| builder.pageable_waits(false));
    let stream = driver.made("cuStreamCreate", &[1]);
    let memory = driver.made("cuMemAlloc_v2", &[8]);
    let mut bytes = [1_u8; 8];
    assert_eq!(call!(driver, "cuMemcpyHtoDAsync_v2", memory, &bytes[..], 8, stream), 0);
    assert_eq!(call!(driver, "cuStreamQuery", stream), 600);
    bytes.fill(2);
    assert_eq!(call!(driver, "cuStreamSynchronize", stream), 0);
    assert_eq!(driver.kinds(), ["HostSourceChanged"]);
    let mut out = [0_u8; 8];
    assert_eq!(call!(driver, "cuMemsetD8Async", memory, 7, 8, stream), 0);
    assert_eq!(call!(driver, "cuMemcpyDtoHAsync_v2", &mut out, memory, 8, stream), 0);
    assert_eq!(call!(driver, "cuStreamQuery", stream), 600);
    assert_eq!(call!(driver, "cuStreamSynchronize", stream), 0);
    assert_eq!(out, [7; 8]);
    assert_eq!(call!(driver, "cuMemFree_v2", memory), 0);
    assert_eq!(call!(driver, "cuStreamDestroy_v2", stream), 0);
    driver.finish();
}

#[test]
fn handles_may_be_used_again() {
    let driver = with(|builder| builder.reuses_handles(true));
    for (make, destroy) in
        [("cuStreamCreate", "cuStreamDestroy_v2"), ("cuEventCreate", "cuEventDestroy_v2")]
    {
        let first = driver.made(make, &[0]);
        assert_eq!(driver.call(destroy, &[first as u64]), 0);
        let second = driver.made(make, &[0]);
        assert_eq!((first, driver.call(destroy, &[second as u64])), (second, 0), "{make}");
    }
    driver.finish();
}

#[test]
fn a_range_may_be_that_of_a_reservation() {
    let driver = with(|builder| builder.reservations(true));
    let memory = driver.made("cuMemAlloc_v2", &[100]);
    let ask = |attribute: i32| {
        let mut value = 0_usize;
        assert_eq!(call!(driver, "cuPointerGetAttribute", &mut value, attribute, memory + 9), 0);
        value
    };
    let (start, len) = (ask(11), ask(12));
    assert!(start <= memory && start + len >= memory + 100, "{start:#x} {len:#x}");
    assert_eq!((start % (2 << 20), len % (2 << 20)), (0, 0));
    assert_eq!(call!(driver, "cuMemFree_v2", memory), 0);
    driver.finish();
}

#[test]
fn a_handle_after_its_end_may_end_the_process() {
    if !process::is_child() {
        let ended = Child::of_this_test().run();
        assert_eq!(ended.status.signal(), Some(libc::SIGABRT), "{ended:?}");
        return;
    }
    let driver = with(|builder| builder.crashes(true));
    let stream = driver.made("cuStreamCreate", &[1]);
    assert_eq!(call!(driver, "cuStreamDestroy_v2", stream), 0);
    call!(driver, "cuStreamQuery", stream);
}

#[test]
fn a_context_that_was_reset_says_so_for_good() {
    let driver = with(|builder| builder);
    let stream = driver.made("cuStreamCreate", &[1]);
    let memory = driver.made("cuMemAlloc_v2", &[8]);
    assert_eq!(call!(driver, "cuDevicePrimaryCtxReset_v2", 0), 0);
    assert_eq!(call!(driver, "cuStreamSynchronize", stream), 709);
    assert_eq!(call!(driver, "cuMemFree_v2", memory), 709);
    driver.finish();
}
