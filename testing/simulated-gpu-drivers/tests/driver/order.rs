//! What is ordered without an event: streams in themselves, and the default streams.

use simulated_gpu_drivers::{Simulated, Vendor};

use crate::support::{Driver, call, started_with};

const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

fn driver(seed: u64) -> Driver {
    started_with(Simulated::builder(Vendor::Cuda).seed(seed))
}

/// Fills on one stream and reads on another. What is reported then.
fn fill_and_read(driver: &Driver, fill: usize, read: usize) -> Vec<String> {
    let memory = driver.made("cuMemAlloc_v2", &[16]);
    assert_eq!(call!(driver, "cuMemsetD8Async", memory, 5, 16, fill), 0);
    let mut out = [0_u8; 16];
    assert_eq!(call!(driver, "cuMemcpyDtoHAsync_v2", &mut out, memory, 16, read), 0);
    let kinds = driver.kinds();
    if kinds.is_empty() {
        assert_eq!(out, [5; 16]);
    }
    assert_eq!(call!(driver, "cuCtxSynchronize"), 0);
    assert_eq!(call!(driver, "cuMemFree_v2", memory), 0);
    kinds
}

#[test]
fn the_default_stream_is_ordered_with_blocking_streams_and_with_no_others() {
    for seed in 0..10 {
        let driver = driver(seed);
        let blocking = driver.made("cuStreamCreate", &[0]);
        let other = driver.made("cuStreamCreate", &[0]);
        let apart = driver.made("cuStreamCreate", &[1]);
        let ordered = [
            (0, blocking),
            (blocking, 0),
            (LEGACY, 0),
            (LEGACY, blocking),
            (PER_THREAD, 0),
            (0, PER_THREAD),
            (blocking, blocking),
        ];
        for (fill, read) in ordered {
            assert!(fill_and_read(&driver, fill, read).is_empty(), "{fill:#x} then {read:#x}");
        }
        let unordered = [
            (0, apart),
            (apart, 0),
            (blocking, other),
            (PER_THREAD, blocking),
            (blocking, PER_THREAD),
            (apart, PER_THREAD),
        ];
        for (fill, read) in unordered {
            assert_eq!(
                fill_and_read(&driver, fill, read),
                ["UnorderedRead"],
                "{fill:#x} then {read:#x}"
            );
        }
    }
}

#[test]
fn two_blocking_streams_are_ordered_by_work_of_the_default_stream_between_them() {
    let driver = driver(0);
    let (one, other) = (driver.made("cuStreamCreate", &[0]), driver.made("cuStreamCreate", &[0]));
    let memory = driver.made("cuMemAlloc_v2", &[16]);
    let small = driver.made("cuMemAlloc_v2", &[16]);
    assert_eq!(call!(driver, "cuMemsetD8Async", memory, 5, 16, one), 0);
    assert_eq!(call!(driver, "cuMemsetD8Async", small, 5, 16, 0), 0);
    assert_eq!(call!(driver, "cuMemsetD8Async", memory, 6, 16, other), 0);
    assert!(driver.kinds().is_empty());
}

#[test]
fn each_thread_has_a_default_stream_of_its_own() {
    let driver = driver(0);
    let context = driver.context(0);
    let memory = driver.made("cuMemAlloc_v2", &[16]);
    assert_eq!(call!(driver, "cuMemsetD8Async", memory, 5, 16, PER_THREAD), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(call!(driver, "cuCtxSetCurrent", context), 0);
            assert_eq!(call!(driver, "cuMemsetD8Async", memory, 5, 16, PER_THREAD), 0);
        });
    });
    assert_eq!(driver.kinds(), ["UnorderedWrite"]);
}

#[test]
fn an_event_on_the_default_stream_stands_for_all_blocking_streams() {
    let driver = driver(0);
    let (one, apart) = (driver.made("cuStreamCreate", &[0]), driver.made("cuStreamCreate", &[1]));
    let event = driver.made("cuEventCreate", &[2]);
    let memory = driver.made("cuMemAlloc_v2", &[16]);
    assert_eq!(call!(driver, "cuMemsetD8Async", memory, 5, 16, one), 0);
    assert_eq!(call!(driver, "cuEventRecord", event, 0), 0);
    assert_eq!(call!(driver, "cuStreamWaitEvent", apart, event, 0), 0);
    assert_eq!(call!(driver, "cuMemsetD8Async", memory, 6, 16, apart), 0);
    assert!(driver.kinds().is_empty());
}

#[test]
fn a_destroyed_stream_finishes_its_work() {
    let driver = driver(0);
    let stream = driver.made("cuStreamCreate", &[0]);
    let memory = driver.made("cuMemAlloc_v2", &[16]);
    assert_eq!(call!(driver, "cuMemsetD8Async", memory, 5, 16, stream), 0);
    assert_eq!(call!(driver, "cuStreamDestroy_v2", stream), 0);
    assert_eq!(call!(driver, "cuCtxSynchronize"), 0);
    assert_eq!(call!(driver, "cuMemFree_v2", memory), 0);
    driver.finish();
}

#[test]
fn work_runs_when_somebody_waits_and_not_before() {
    let driver = driver(0);
    let stream = driver.made("cuStreamCreate", &[1]);
    let memory = driver.made("cuMemAlloc_v2", &[4]);
    assert_eq!(call!(driver, "cuMemsetD32Async", memory, 0x0102_0304, 1, stream), 0);
    let (told, seen) = std::sync::mpsc::channel();
    let kernel = driver.sim.kernel("add").reads(memory as u64, 4).writes(memory as u64, 4);
    let code = kernel.launch(stream as u64, move |memory| {
        let input = memory.input(0).to_vec();
        memory.output(0).iter_mut().for_each(|byte| *byte += 1);
        told.send(input).unwrap();
    });
    assert_eq!(code, 0);
    assert!(seen.try_recv().is_err(), "nobody waits yet");
    let mut out = 0_u32;
    assert_eq!(call!(driver, "cuMemcpyDtoHAsync_v2", &mut out, memory, 4, stream), 0);
    assert_eq!(seen.try_recv().unwrap(), 0x0102_0304_u32.to_ne_bytes());
    assert_eq!(out, 0x0203_0405);
    assert_eq!(call!(driver, "cuMemFree_v2", memory), 0);
    assert_eq!(call!(driver, "cuStreamDestroy_v2", stream), 0);
    driver.finish();
}

#[test]
fn threads_share_a_driver() {
    let driver = driver(3);
    let context = driver.context(0);
    std::thread::scope(|scope| {
        for value in 0..8_u8 {
            let driver = &driver;
            scope.spawn(move || {
                assert_eq!(call!(driver, "cuCtxSetCurrent", context), 0);
                let stream = driver.made("cuStreamCreate", &[1]);
                for _ in 0..20 {
                    let memory = driver.made("cuMemAllocAsync", &[64, stream as u64]);
                    let mut out = [0_u8; 64];
                    assert_eq!(
                        call!(driver, "cuMemsetD8Async", memory, u32::from(value), 64, stream),
                        0
                    );
                    assert_eq!(
                        call!(driver, "cuMemcpyDtoHAsync_v2", &mut out, memory, 64, stream),
                        0
                    );
                    assert_eq!(call!(driver, "cuMemFreeAsync", memory, stream), 0);
                    assert_eq!(out, [value; 64]);
                }
                assert_eq!(call!(driver, "cuStreamDestroy_v2", stream), 0);
            });
        }
    });
    driver.finish();
}
