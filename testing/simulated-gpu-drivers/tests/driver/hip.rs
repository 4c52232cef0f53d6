//! What is another thing in HIP than in CUDA.

use simulated_gpu_drivers::{Simulated, Vendor};

use crate::support::{Driver, call, hip, with};

const STREAM: &[u64] = &[1];

fn two_devices() -> Driver {
    with(Simulated::builder(Vendor::Hip).devices(2).peers(true))
}

#[test]
fn nothing_needs_to_be_initialised() {
    let driver = hip();
    let memory = driver.made("hipMalloc", &[8]);
    let stream = driver.made("hipStreamCreateWithFlags", STREAM);
    let (bytes, mut out) = ([3_u8; 8], [0_u8; 8]);
    assert_eq!(call!(driver, "hipMemcpyAsync", memory, &bytes[..], 8, 1, stream), 0);
    assert_eq!(call!(driver, "hipMemcpyAsync", &mut out, memory, 8, 4, stream), 0);
    assert_eq!(out, bytes);
    assert_eq!(call!(driver, "hipFree", memory), 0);
    assert_eq!(call!(driver, "hipStreamDestroy", stream), 0);
    driver.finish();
}

#[test]
fn without_a_device_every_call_says_so() {
    let driver = with(Simulated::builder(Vendor::Hip).devices(0));
    let mut out = 9_usize;
    let codes = [
        call!(driver, "hipInit", 0),
        call!(driver, "hipGetDeviceCount", &mut out),
        call!(driver, "hipMalloc", &mut out, 8),
        call!(driver, "hipSetDevice", 0),
        call!(driver, "hipStreamCreateWithFlags", &mut out, 0),
    ];
    assert_eq!(codes, [100; 5]);
    assert_eq!(call!(driver, "hipDriverGetVersion", &mut out), 0);
    driver.finish();
}

#[test]
fn each_thread_chooses_its_device() {
    let driver = two_devices();
    let mut device = 9_i32;
    assert_eq!((call!(driver, "hipGetDevice", &mut device), device), (0, 0));
    assert_eq!(call!(driver, "hipSetDevice", 1), 0);
    assert_eq!(call!(driver, "hipSetDevice", 2), 101);
    assert_eq!((call!(driver, "hipGetDevice", &mut device), device), (0, 1));
    let stream = driver.made("hipStreamCreateWithFlags", STREAM);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut here = 9_i32;
            assert_eq!((call!(driver, "hipGetDevice", &mut here), here), (0, 0));
            assert_eq!((call!(driver, "hipStreamGetDevice", stream, &mut here), here), (0, 1));
            let event = driver.made("hipEventCreateWithFlags", &[2]);
            assert_eq!(call!(driver, "hipEventRecord", event, stream), 400);
            assert_eq!(call!(driver, "hipEventDestroy", event), 0);
        });
    });
    assert_eq!(driver.kinds(), ["WrongContext"]);
}

#[test]
fn the_last_error_stays_until_it_is_asked_for() {
    let driver = hip();
    assert_eq!(call!(driver, "hipGetLastError"), 0);
    assert_eq!(call!(driver, "hipSetDevice", 7), 101);
    let memory = driver.made("hipMalloc", &[8]);
    assert_eq!(call!(driver, "hipPeekAtLastError"), 101, "success changes nothing");
    assert_eq!(call!(driver, "hipGetLastError"), 101);
    assert_eq!(call!(driver, "hipGetLastError"), 0);
    let stream = driver.made("hipStreamCreateWithFlags", STREAM);
    assert_eq!(call!(driver, "hipMemsetAsync", memory, 1, 8, stream), 0);
    assert_eq!(call!(driver, "hipStreamQuery", stream), 600);
    assert_eq!(call!(driver, "hipGetLastError"), 0, "not ready is no error");
    assert_eq!(call!(driver, "hipStreamSynchronize", stream), 0);
    assert_eq!(call!(driver, "hipFree", memory), 0);
    assert_eq!(call!(driver, "hipStreamDestroy", stream), 0);
    driver.finish();
}

#[test]
fn an_allocation_of_nothing_is_a_null_pointer() {
    let driver = hip();
    for name in ["hipMalloc", "hipHostMalloc"] {
        assert_eq!(driver.made(name, &[0, 0]), 0);
    }
    assert_eq!(call!(driver, "hipFree", 0), 0);
    assert_eq!(call!(driver, "hipHostFree", 0), 0);
    let mut out = 0_usize;
    assert_eq!(call!(driver, "hipMalloc", 0, 8), 1);
    assert_eq!(call!(driver, "hipMallocManaged", &mut out, 8, 3), 1);
    assert_eq!(call!(driver, "hipHostMalloc", &mut out, 8, 64), 1);
    driver.finish();
}

#[test]
fn a_copy_goes_in_the_direction_that_it_names() {
    let driver = hip();
    let memory = driver.made("hipMalloc", &[8]);
    let bytes = [0_u8; 8];
    assert_eq!(call!(driver, "hipMemcpyAsync", memory, &bytes[..], 8, 5, 0), 21);
    assert_eq!(call!(driver, "hipMemcpyAsync", memory, &bytes[..], 8, 3, 0), 1);
    assert_eq!(call!(driver, "hipMemcpyHtoDAsync", memory, memory, 4, 0), 1);
    assert_eq!(driver.kinds(), ["WrongDirection"; 2]);
    assert_eq!(call!(driver, "hipFree", memory), 0);
    driver.finish();
}

#[test]
fn copies_of_ordinary_memory_have_run_when_they_return() {
    let driver = hip();
    let stream = driver.made("hipStreamCreateWithFlags", STREAM);
    let memory = driver.made("hipMalloc", &[8]);
    let bytes = [1_u8; 8];
    assert_eq!(call!(driver, "hipMemcpyHtoDAsync", memory, &bytes[..], 8, stream), 0);
    assert_eq!(call!(driver, "hipStreamQuery", stream), 0);
    let pinned = driver.made("hipHostMalloc", &[8, 0]);
    assert_eq!(call!(driver, "hipMemcpyDtoHAsync", pinned, memory, 8, stream), 0);
    assert_eq!(call!(driver, "hipStreamQuery", stream), 600, "pinned memory is written later");
    assert_eq!(call!(driver, "hipDeviceSynchronize"), 0);
    assert_eq!(call!(driver, "hipHostFree", pinned), 0);
    assert_eq!(call!(driver, "hipFree", memory), 0);
    assert_eq!(call!(driver, "hipStreamDestroy", stream), 0);
    driver.finish();
}

#[test]
fn mistakes_are_reported_as_in_cuda() {
    for seed in 0..10 {
        let driver = with(Simulated::builder(Vendor::Hip).seed(seed));
        let (one, other) = (
            driver.made("hipStreamCreateWithFlags", STREAM),
            driver.made("hipStreamCreateWithFlags", STREAM),
        );
        let event = driver.made("hipEventCreateWithFlags", &[2]);
        let memory = driver.made("hipMalloc", &[8]);
        assert_eq!(call!(driver, "hipMemsetAsync", memory, 0x107, 8, one), 0);
        let mut out = [0_u8; 8];
        assert_eq!(call!(driver, "hipMemcpyDtoHAsync", &mut out, memory, 8, other), 0);
        assert_eq!(driver.kinds(), ["UnorderedRead"], "seed {seed}");
        assert_eq!(call!(driver, "hipEventRecord", event, one), 0);
        assert_eq!(call!(driver, "hipStreamWaitEvent", other, event, 0), 0);
        assert_eq!(call!(driver, "hipMemcpyDtoHAsync", &mut out, memory, 8, other), 0);
        assert_eq!((out, driver.kinds()), ([7; 8], vec![]));
        assert_eq!(call!(driver, "hipMemsetAsync", memory, 1, 8, other), 0);
        assert_eq!(call!(driver, "hipFree", memory), 0);
        assert_eq!(driver.kinds(), ["FreedInUse"]);
        assert_eq!(call!(driver, "hipEventDestroy", event), 0);
        assert_eq!(call!(driver, "hipEventQuery", event), 400);
        assert_eq!(driver.kinds(), ["EventDestroyed"]);
    }
}

#[test]
fn the_kinds_of_memory_have_the_numbers_of_the_version() {
    for (version, numbers) in [(50_300_000, [1_u32, 0, 4]), (60_400_000, [2, 1, 3])] {
        let driver = with(Simulated::builder(Vendor::Hip).version(version));
        let all = [
            driver.made("hipMalloc", &[8]),
            driver.made("hipHostMalloc", &[8, 0]),
            driver.made("hipMallocManaged", &[8, 1]),
        ];
        let kinds = all.map(|address| {
            let mut attributes = [0_u32; 8];
            assert_eq!(call!(driver, "hipPointerGetAttributes", &mut attributes, address), 0);
            let mut kind = 9_u32;
            assert_eq!(call!(driver, "hipPointerGetAttribute", &mut kind, 2, address), 0);
            assert_eq!(attributes[0], kind);
            kind
        });
        assert_eq!(kinds, numbers);
        let here = 0_u8;
        let mut attributes = [0_u32; 8];
        assert_eq!(call!(driver, "hipPointerGetAttributes", &mut attributes, &raw const here), 1);
        let (mut base, mut len) = (0_usize, 0_usize);
        assert_eq!(call!(driver, "hipMemGetAddressRange", &mut base, &mut len, all[0] + 3), 0);
        assert_eq!((base, len), (all[0], 8));
    }
}

#[test]
fn a_captured_stream_is_refused_as_in_cuda() {
    let driver = hip();
    let stream = driver.made("hipStreamCreateWithFlags", STREAM);
    let mut status = 9_i32;
    assert_eq!(call!(driver, "hipStreamBeginCapture", stream, 0), 0);
    assert_eq!((call!(driver, "hipStreamIsCapturing", stream, &mut status), status), (0, 1));
    let mut out = 0_usize;
    assert_eq!(call!(driver, "hipMalloc", &mut out, 8), 900);
    assert_eq!(call!(driver, "hipStreamEndCapture", stream, &mut out), 901);
    assert_eq!(driver.kinds(), ["Capture"]);
}

#[test]
fn a_batch_is_copied() {
    let driver = hip();
    let stream = driver.made("hipStreamCreateWithFlags", STREAM);
    let memory = driver.made("hipMalloc", &[8]);
    let bytes = [1_u8, 2, 3, 4, 5, 6, 7, 8];
    let (to, from) = ([memory, memory + 4], [bytes.as_ptr() as usize + 4, bytes.as_ptr() as usize]);
    let (lengths, starts, attributes, mut fail) =
        ([4_usize, 4], [0_usize], [2_i32, 0, 0, 0, 0, 0], 9_usize);
    let code = call!(
        driver,
        "hipMemcpyBatchAsync",
        &to[..],
        &from[..],
        &lengths[..],
        2,
        &attributes[..],
        &starts[..],
        1,
        &mut fail,
        stream
    );
    assert_eq!(code, 0);
    let mut out = [0_u8; 8];
    assert_eq!(call!(driver, "hipMemcpyDtoHAsync", &mut out, memory, 8, stream), 0);
    assert_eq!(out, [5, 6, 7, 8, 1, 2, 3, 4]);
    assert!(driver.kinds().is_empty());
}

#[test]
fn the_type_of_ordinary_memory_is_told_where_it_is_asked_for() {
    for (is_told, expected) in [(false, (1, 9)), (true, (0, 0))] {
        let builder = Simulated::builder(Vendor::Hip).unregistered(is_told);
        let driver = with(builder);
        let (plain, mut kind) = (0_u64, 9_u32);
        let code = call!(driver, "hipPointerGetAttribute", &mut kind, 2, &raw const plain);
        assert_eq!((code, kind), expected);
        // Nothing else is told.
        assert_eq!(call!(driver, "hipPointerGetAttribute", &mut kind, 8, &raw const plain), 1);
    }
}

#[test]
fn a_lost_device_says_so() {
    let driver = two_devices();
    let stream = driver.made("hipStreamCreateWithFlags", STREAM);
    driver.sim.lose(0, 719);
    assert_eq!(call!(driver, "hipStreamSynchronize", stream), 719);
    assert_eq!(call!(driver, "hipDeviceSynchronize"), 719);
    assert_eq!(call!(driver, "hipSetDevice", 1), 0);
    assert_eq!(call!(driver, "hipDeviceSynchronize"), 0);
    driver.finish();
}
