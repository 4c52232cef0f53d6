//! Planted mistakes: each is reported, and the right program next to it is not.

use simulated_gpu_drivers::{Simulated, Vendor};

use crate::support::{Driver, call, started, started_with};

/// Two streams that are not ordered with the default stream, and memory that the first one fills.
struct Scene {
    driver: Driver,
    first: usize,
    second: usize,
    event: usize,
    memory: usize,
}

fn scene(seed: u64) -> Scene {
    let driver = started_with(Simulated::builder(Vendor::Cuda).seed(seed));
    let (first, second) =
        (driver.made("cuStreamCreate", &[1]), driver.made("cuStreamCreate", &[1]));
    let event = driver.made("cuEventCreate", &[2]);
    let memory = driver.made("cuMemAlloc_v2", &[64]);
    assert_eq!(call!(driver, "cuMemsetD8Async", memory, 7, 64, first), 0);
    Scene { driver, first, second, event, memory }
}

impl Scene {
    fn read_on(&self, stream: usize) -> Vec<u8> {
        let mut out = vec![0_u8; 64];
        assert_eq!(
            call!(self.driver, "cuMemcpyDtoHAsync_v2", out.as_mut_ptr(), self.memory, 64, stream),
            0
        );
        out
    }

    fn record_and_wait(&self) {
        assert_eq!(call!(self.driver, "cuEventRecord", self.event, self.first), 0);
        assert_eq!(call!(self.driver, "cuStreamWaitEvent", self.second, self.event, 0), 0);
    }

    fn free_all(self) -> Driver {
        assert_eq!(call!(self.driver, "cuMemFree_v2", self.memory), 0);
        assert_eq!(call!(self.driver, "cuEventDestroy_v2", self.event), 0);
        assert_eq!(call!(self.driver, "cuStreamDestroy_v2", self.first), 0);
        assert_eq!(call!(self.driver, "cuStreamDestroy_v2", self.second), 0);
        self.driver
    }
}

#[test]
fn a_program_that_waits_is_never_reported_whatever_the_seed() {
    for seed in 0..20 {
        let scene = scene(seed);
        scene.record_and_wait();
        assert_eq!(scene.read_on(scene.second), [7; 64], "seed {seed}");
        scene.free_all().finish();
    }
}

#[test]
fn a_missing_wait_is_reported_whatever_the_seed() {
    for seed in 0..20 {
        let scene = scene(seed);
        scene.read_on(scene.second);
        assert_eq!(scene.driver.kinds(), ["UnorderedRead"], "seed {seed}");
    }
}

#[test]
fn a_wait_on_the_wrong_stream_is_reported() {
    let scene = scene(0);
    assert_eq!(call!(scene.driver, "cuEventRecord", scene.event, scene.first), 0);
    assert_eq!(call!(scene.driver, "cuStreamWaitEvent", scene.first, scene.event, 0), 0);
    scene.read_on(scene.second);
    assert_eq!(scene.driver.kinds(), ["UnorderedRead"]);
}

#[test]
fn an_event_that_is_recorded_too_early_orders_nothing() {
    let scene = scene(0);
    scene.record_and_wait();
    assert_eq!(call!(scene.driver, "cuMemsetD8Async", scene.memory, 8, 64, scene.first), 0);
    scene.read_on(scene.second);
    assert_eq!(scene.driver.kinds(), ["UnorderedRead"]);
}

#[test]
fn a_wait_for_an_event_that_was_never_recorded_is_legal_and_orders_nothing() {
    let scene = scene(0);
    assert_eq!(call!(scene.driver, "cuStreamWaitEvent", scene.second, scene.event, 0), 0);
    assert!(scene.driver.kinds().is_empty());
    scene.read_on(scene.second);
    assert_eq!(scene.driver.kinds(), ["UnorderedRead"]);
}

#[test]
fn an_event_may_be_recorded_again_and_stands_for_the_later_work() {
    let scene = scene(0);
    assert_eq!(call!(scene.driver, "cuEventRecord", scene.event, scene.first), 0);
    assert_eq!(call!(scene.driver, "cuMemsetD8Async", scene.memory, 8, 64, scene.first), 0);
    scene.record_and_wait();
    assert_eq!(scene.read_on(scene.second), [8; 64]);
    scene.free_all().finish();
}

#[test]
fn memory_that_is_freed_while_work_may_use_it_is_reported() {
    let scene = scene(0);
    assert_eq!(call!(scene.driver, "cuMemFree_v2", scene.memory), 0);
    assert_eq!(scene.driver.kinds(), ["FreedInUse"]);
}

#[test]
fn memory_that_is_used_after_it_was_freed_is_reported() {
    let scene = scene(0);
    assert_eq!(call!(scene.driver, "cuStreamSynchronize", scene.first), 0);
    assert_eq!(call!(scene.driver, "cuMemFree_v2", scene.memory), 0);
    assert_eq!(call!(scene.driver, "cuMemsetD8Async", scene.memory, 7, 64, scene.first), 1);
    assert_eq!(scene.driver.kinds(), ["UseAfterFree"]);
    assert_eq!(call!(scene.driver, "cuMemFree_v2", scene.memory), 1);
    assert_eq!(scene.driver.kinds(), ["FreedTwice"]);
}

#[test]
fn an_event_that_is_destroyed_before_it_is_waited_for_is_reported() {
    let scene = scene(0);
    assert_eq!(call!(scene.driver, "cuEventRecord", scene.event, scene.first), 0);
    assert_eq!(call!(scene.driver, "cuEventDestroy_v2", scene.event), 0);
    assert_eq!(call!(scene.driver, "cuStreamWaitEvent", scene.second, scene.event, 0), 400);
    let reports = scene.driver.sim.take_reports();
    assert_eq!(reports[0].kind, "EventDestroyed");
    assert!(reports[0].text().contains("CUDA_ERROR_INVALID_HANDLE"), "{}", reports[0].text());
    assert!(reports[0].text().contains("destroyed, at"), "{}", reports[0].text());
}

#[test]
fn an_event_may_be_destroyed_once_the_wait_is_submitted() {
    let scene = scene(0);
    scene.record_and_wait();
    assert_eq!(call!(scene.driver, "cuEventDestroy_v2", scene.event), 0);
    assert_eq!(scene.read_on(scene.second), [7; 64]);
    assert!(scene.driver.kinds().is_empty());
}

#[test]
fn writes_without_order_are_reported() {
    let scene = scene(0);
    assert_eq!(call!(scene.driver, "cuMemsetD32Async", scene.memory, 8, 16, scene.second), 0);
    assert_eq!(scene.driver.kinds(), ["UnorderedWrite"]);
}

#[test]
fn bytes_behind_the_end_are_reported() {
    let scene = scene(0);
    assert_eq!(call!(scene.driver, "cuMemsetD8Async", scene.memory, 1, 65, scene.first), 1);
    assert_eq!(scene.driver.kinds(), ["OutOfBounds"]);
    let kernel = scene.driver.sim.kernel("wide").reads(scene.memory as u64 + 60, 5);
    assert_eq!(kernel.launch(scene.first as u64, |_| {}), 0);
    assert_eq!(scene.driver.kinds(), ["OutOfBounds"]);
}

#[test]
fn an_address_of_the_host_is_no_memory_of_the_device() {
    let scene = scene(0);
    let bytes = [0_u8; 64];
    let code =
        call!(scene.driver, "cuMemcpyDtoDAsync_v2", scene.memory, &bytes[..], 64, scene.first);
    assert_eq!(code, 1);
    assert_eq!(scene.driver.kinds(), ["HostAddressOnDevice"]);
}

#[test]
fn memory_of_another_device_needs_access() {
    let driver = started_with(Simulated::builder(Vendor::Cuda).devices(2).peers(true));
    let stream = driver.made("cuStreamCreate", &[1]);
    let other = driver.context(1);
    assert_eq!(call!(driver, "cuCtxPushCurrent_v2", other), 0);
    let memory = driver.made("cuMemAlloc_v2", &[64]);
    let pooled = driver.made("cuMemAllocAsync", &[64, 0]);
    assert_eq!(call!(driver, "cuCtxSynchronize"), 0);
    assert_eq!(call!(driver, "cuCtxPopCurrent_v2", 0), 0);
    let read = |address: usize| {
        let kernel = driver.sim.kernel("read").reads(address as u64, 64);
        assert_eq!(kernel.launch(stream as u64, |_| {}), 0);
        driver.kinds()
    };
    assert_eq!(read(memory), ["UnreachableMemory"]);
    assert_eq!(call!(driver, "cuCtxEnablePeerAccess", other, 0), 0);
    assert!(read(memory).is_empty());
    assert_eq!(read(pooled), ["UnreachableMemory"], "the pool has its own rights");
    let pool = driver.made("cuDeviceGetDefaultMemPool", &[1]);
    let rights = [1_i32, 0, 3];
    assert_eq!(call!(driver, "cuMemPoolSetAccess", pool, &rights[..], 1), 0);
    assert!(read(pooled).is_empty());
}

#[test]
fn the_source_of_a_pending_copy_must_stay_as_it_is() {
    let driver = started();
    let stream = driver.made("cuStreamCreate", &[1]);
    let memory = driver.made("cuMemAlloc_v2", &[8]);
    let pinned = driver.made("cuMemHostAlloc", &[8, 0]);
    let bytes = std::ptr::with_exposed_provenance_mut::<u8>(pinned);
    // SAFETY: pinned memory, which the host may write.
    unsafe { bytes.write_bytes(1, 8) };
    assert_eq!(call!(driver, "cuMemcpyHtoDAsync_v2", memory, pinned, 8, stream), 0);
    // SAFETY: pinned memory, which the host may write.
    unsafe { bytes.write_bytes(2, 8) };
    assert_eq!(call!(driver, "cuStreamSynchronize", stream), 0);
    assert_eq!(driver.kinds(), ["HostSourceChanged"]);
}

#[test]
fn what_is_left_behind_is_reported_at_the_end() {
    let scene = scene(0);
    let mut kinds: Vec<String> =
        scene.driver.sim.finish().into_iter().map(|report| report.kind).collect();
    kinds.sort();
    assert_eq!(kinds, ["LeakedAllocation", "LeakedEvent", "LeakedQueue", "LeakedQueue"]);
}

#[test]
#[should_panic(expected = "UnorderedRead")]
fn mistakes_that_nobody_looks_at_fail_the_test() {
    let scene = scene(0);
    scene.read_on(scene.second);
}
