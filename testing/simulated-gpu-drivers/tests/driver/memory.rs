//! Memory: how much there is, whose it is, when it may be freed, how it is copied.

use simulated_gpu_drivers::{Simulated, Vendor};

use crate::support::{Driver, call, started, started_with};

const OUT_OF_MEMORY: i32 = 2;

fn free_bytes(driver: &Driver) -> usize {
    let (mut free, mut total) = (0_usize, 0_usize);
    assert_eq!(call!(driver, "cuMemGetInfo_v2", &mut free, &mut total), 0);
    free
}

#[test]
fn a_device_has_so_many_bytes_and_no_more() {
    let driver = started_with(Simulated::builder(Vendor::Cuda).memory(1 << 20));
    let mut out = 0_usize;
    assert_eq!(free_bytes(&driver), 1 << 20);
    assert_eq!(call!(driver, "cuMemAlloc_v2", &mut out, (1 << 20) + 1), OUT_OF_MEMORY);
    let all = driver.made("cuMemAlloc_v2", &[1 << 20]);
    assert_eq!(free_bytes(&driver), 0);
    assert_eq!(call!(driver, "cuMemAlloc_v2", &mut out, 1), OUT_OF_MEMORY);
    assert_eq!(call!(driver, "cuMemAllocAsync", &mut out, 1, 0), OUT_OF_MEMORY);
    let pinned = driver.made("cuMemHostAlloc", &[8, 0]);
    let managed = driver.made("cuMemAllocManaged", &[1 << 20, 1]);
    assert_eq!(call!(driver, "cuMemFree_v2", all), 0);
    assert_eq!(free_bytes(&driver), 0, "managed memory takes what there is, and may take more");
    assert_eq!(call!(driver, "cuMemFree_v2", managed), 0);
    assert_eq!(call!(driver, "cuMemFreeHost", pinned), 0);
    driver.sim.set_memory(16);
    assert_eq!(free_bytes(&driver), 16);
    driver.finish();
}

#[test]
fn memory_is_freed_by_the_function_for_its_kind() {
    let driver = started();
    let (memory, pinned) =
        (driver.made("cuMemAlloc_v2", &[8]), driver.made("cuMemHostAlloc", &[8, 7]));
    assert_eq!(call!(driver, "cuMemFree_v2", pinned), 1);
    assert_eq!(call!(driver, "cuMemFreeHost", memory), 1);
    assert_eq!(driver.kinds(), ["WrongFree"; 2]);
    assert_eq!(call!(driver, "cuMemFree_v2", memory + 4), 1);
    assert_eq!(driver.kinds(), ["UnknownMemory"]);
    assert_eq!(call!(driver, "cuMemFree_v2", 0), 0);
    assert_eq!(call!(driver, "cuMemFreeHost", 0), 1);
    assert_eq!(call!(driver, "cuMemFree_v2", memory), 0);
    assert_eq!(call!(driver, "cuMemFreeHost", pinned), 0);
    driver.finish();
}

#[test]
fn memory_of_a_pool_is_there_in_the_order_of_its_stream() {
    let driver = started();
    let (one, other) = (driver.made("cuStreamCreate", &[1]), driver.made("cuStreamCreate", &[1]));
    let early = driver.made("cuMemAllocAsync", &[8, one as u64]);
    assert_eq!(call!(driver, "cuMemsetD8Async", early, 1, 8, other), 0);
    assert_eq!(
        driver.kinds(),
        ["UnorderedWrite"],
        "the other stream may come before the allocation"
    );
    let memory = driver.made("cuMemAllocAsync", &[8, one as u64]);
    let mut out = [0_u8; 8];
    assert_eq!(call!(driver, "cuMemsetD8Async", memory, 3, 8, one), 0);
    assert_eq!(call!(driver, "cuMemcpyDtoHAsync_v2", &mut out, memory, 8, one), 0);
    assert_eq!(call!(driver, "cuMemFreeAsync", memory, one), 0);
    assert_eq!(out, [3; 8]);
    assert!(driver.kinds().is_empty());
    assert_eq!(call!(driver, "cuMemsetD8Async", memory, 3, 8, one), 1);
    assert_eq!(driver.kinds(), ["UseAfterFree"]);
    assert_eq!(call!(driver, "cuMemFreeAsync", memory, one), 1);
    assert_eq!(driver.kinds(), ["FreedTwice"]);
    let used = driver.made("cuMemAllocAsync", &[8, one as u64]);
    assert_eq!(call!(driver, "cuMemsetD8Async", used, 3, 8, one), 0);
    assert_eq!(call!(driver, "cuMemFreeAsync", used, other), 0);
    assert_eq!(driver.kinds(), ["FreedInUse"], "the other stream does not wait for the fill");
}

#[test]
fn ordinary_memory_may_change_once_a_copy_from_it_has_returned() {
    let driver = started();
    let stream = driver.made("cuStreamCreate", &[1]);
    let memory = driver.made("cuMemAlloc_v2", &[8]);
    let (mut bytes, mut out) = ([1_u8; 8], [0_u8; 8]);
    assert_eq!(call!(driver, "cuMemcpyHtoDAsync_v2", memory, &bytes[..], 8, stream), 0);
    bytes.fill(2);
    assert_eq!(call!(driver, "cuMemcpyDtoHAsync_v2", &mut out, memory, 8, stream), 0);
    assert_eq!((out, bytes), ([1; 8], [2; 8]), "and a copy to it has run when it returns");
    assert!(driver.kinds().is_empty());
}

#[test]
fn pinned_memory_is_written_when_the_stream_gets_there() {
    let driver = started();
    let stream = driver.made("cuStreamCreate", &[1]);
    let memory = driver.made("cuMemAlloc_v2", &[8]);
    let pinned = driver.made("cuMemHostAlloc", &[8, 0]);
    let first = || {
        // SAFETY: pinned memory, which the host may read; nothing runs meanwhile.
        unsafe { std::ptr::with_exposed_provenance::<u8>(pinned).read_volatile() }
    };
    assert_eq!(call!(driver, "cuMemsetD8Async", memory, 6, 8, stream), 0);
    assert_eq!(call!(driver, "cuMemcpyDtoHAsync_v2", pinned, memory, 8, stream), 0);
    assert_eq!(first(), 0xd5, "no result yet");
    assert_eq!(call!(driver, "cuMemFreeHost", pinned), 0);
    assert_eq!(driver.kinds(), ["FreedInUse"]);
    let pinned = driver.made("cuMemHostAlloc", &[8, 0]);
    assert_eq!(call!(driver, "cuMemcpyAsync", pinned, memory, 8, stream), 0);
    assert_eq!(call!(driver, "cuStreamSynchronize", stream), 0);
    // SAFETY: pinned memory, which the host may read; nothing runs meanwhile.
    assert_eq!(unsafe { std::ptr::with_exposed_provenance::<u8>(pinned).read_volatile() }, 6);
    assert_eq!(call!(driver, "cuMemFreeHost", pinned), 0);
    assert!(driver.kinds().is_empty());
}

#[test]
fn a_read_of_the_host_that_does_not_wait_is_reported_where_it_is_said() {
    let driver = started();
    let stream = driver.made("cuStreamCreate", &[1]);
    let pinned = driver.made("cuMemHostAlloc", &[8, 0]);
    assert_eq!(call!(driver, "cuMemsetD8Async", pinned, 6, 4, stream), 0);
    driver.sim.host_reads(pinned as u64 + 4, 4);
    assert!(driver.kinds().is_empty(), "other bytes");
    driver.sim.host_reads(pinned as u64 + 3, 4);
    assert_eq!(driver.kinds(), ["UnorderedRead"]);
    driver.sim.run_until_idle();
    driver.sim.host_reads(pinned as u64, 8);
    assert_eq!(driver.kinds(), ["UnorderedRead"], "the host has not learnt of it");
    assert_eq!(call!(driver, "cuStreamSynchronize", stream), 0);
    driver.sim.host_reads(pinned as u64, 8);
    assert!(driver.kinds().is_empty());
}

/// Whether this process may read a byte there, without reading it itself.
fn is_readable(address: usize) -> bool {
    let (mut ends, byte) =
        ([0_i32; 2], std::ptr::with_exposed_provenance::<std::ffi::c_void>(address));
    // SAFETY: a place for two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // SAFETY: the system says so when it cannot read the byte.
    let written = unsafe { libc::write(ends[1], byte, 1) };
    for end in ends {
        // SAFETY: opened above, and closed once.
        unsafe { libc::close(end) };
    }
    written == 1
}

#[test]
fn the_host_and_a_device_take_turns_with_managed_memory_where_the_device_says_so() {
    for concurrent in [true, false] {
        let builder = Simulated::builder(Vendor::Cuda).concurrent_managed(concurrent);
        let driver = started_with(builder);
        let mut says = 9_i32;
        assert_eq!(call!(driver, "cuDeviceGetAttribute", &mut says, 89, 0), 0);
        assert_eq!(says, i32::from(concurrent));
        let (one, other) =
            (driver.made("cuStreamCreate", &[1]), driver.made("cuStreamCreate", &[1]));
        let managed = driver.made("cuMemAllocManaged", &[8, 1]);
        let memory = driver.made("cuMemAlloc_v2", &[8]);
        assert!(is_readable(managed) && !is_readable(memory));
        assert_eq!(call!(driver, "cuMemsetD8Async", memory, 6, 4, one), 0);
        assert_eq!(call!(driver, "cuMemsetD8Async", memory + 4, 6, 4, other), 0);
        assert_eq!(is_readable(managed), concurrent);
        assert_eq!(call!(driver, "cuStreamSynchronize", one), 0);
        assert_eq!(is_readable(managed), concurrent, "the other stream still works");
        assert_eq!(call!(driver, "cuStreamSynchronize", other), 0);
        assert!(is_readable(managed));
        assert_eq!(call!(driver, "cuMemsetD8Async", managed, 6, 8, one), 0);
        assert_eq!(is_readable(managed), concurrent);
        assert_eq!(call!(driver, "cuCtxSynchronize"), 0);
        assert!(is_readable(managed));
    }
}

#[test]
fn copies_between_devices_name_the_contexts_of_the_memory() {
    let driver = started_with(Simulated::builder(Vendor::Cuda).devices(2));
    let (one, other) = (driver.context(0), driver.context(1));
    let near = driver.made("cuMemAlloc_v2", &[8]);
    assert_eq!(call!(driver, "cuCtxPushCurrent_v2", other), 0);
    let far = driver.made("cuMemAlloc_v2", &[8]);
    assert_eq!(call!(driver, "cuCtxPopCurrent_v2", 0), 0);
    let stream = driver.made("cuStreamCreate", &[1]);
    assert_eq!(call!(driver, "cuMemsetD8Async", near, 4, 8, stream), 0);
    assert_eq!(call!(driver, "cuMemcpyPeerAsync", far, other, near, one, 8, stream), 0);
    let mut out = [0_u8; 8];
    assert_eq!(call!(driver, "cuMemcpyDtoHAsync_v2", &mut out, far, 8, stream), 0);
    assert_eq!(out, [4; 8]);
    assert!(driver.kinds().is_empty());
    assert_eq!(call!(driver, "cuMemcpyPeerAsync", far, one, near, other, 8, stream), 1);
    assert_eq!(driver.kinds(), ["WrongContext"]);
}

/// The attributes of a batch whose sources are read in that order.
fn attributes(order: i32) -> [i32; 6] {
    [order, 0, 0, 0, 0, 0]
}

#[test]
fn a_batch_copies_all_its_parts_in_no_order() {
    let driver = started();
    let stream = driver.made("cuStreamCreate", &[1]);
    let memory = driver.made("cuMemAlloc_v2", &[32]);
    let bytes: Vec<u8> = (0..16).collect();
    let from = [bytes.as_ptr() as usize, bytes.as_ptr() as usize + 8];
    let (to, lengths, starts) = ([memory + 8, memory], [8_usize, 8], [0_usize]);
    let (during_the_call, mut fail) = (attributes(2), 9_usize);
    let batch = |stream: usize, count: usize, fail: &mut usize| {
        call!(
            driver,
            "cuMemcpyBatchAsync",
            &to[..],
            &from[..],
            &lengths[..],
            count,
            &during_the_call[..],
            &starts[..],
            1,
            fail,
            stream
        )
    };
    assert_eq!(batch(stream, 2, &mut fail), 0);
    assert_eq!(batch(0, 2, &mut fail), 1, "not on the default stream");
    assert_eq!((driver.kinds(), fail), (vec!["DefaultStream".to_owned()], usize::MAX));
    assert_eq!(batch(stream, 0, &mut fail), 1);
    let mut out = [0_u8; 16];
    assert_eq!(call!(driver, "cuMemcpyDtoHAsync_v2", &mut out, memory, 16, stream), 0);
    assert_eq!(out, [8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7]);
    let overlapping = [memory, memory + 4];
    let code = call!(
        driver,
        "cuMemcpyBatchAsync_v2",
        &overlapping[..],
        &from[..],
        &lengths[..],
        2,
        &during_the_call[..],
        &starts[..],
        1,
        stream
    );
    assert_eq!((code, driver.kinds()), (0, vec!["OverlappingRegions".to_owned()]));
}

#[test]
fn a_batch_reads_its_sources_when_its_attributes_say() {
    let driver = started();
    let stream = driver.made("cuStreamCreate", &[1]);
    let memory = driver.made("cuMemAlloc_v2", &[16]);
    let copy = |to: usize, from: usize, order: i32| {
        let (to, from, lengths, starts) = ([to], [from], [8_usize], [0_usize]);
        let attributes = attributes(order);
        call!(
            driver,
            "cuMemcpyBatchAsync_v2",
            &to[..],
            &from[..],
            &lengths[..],
            1,
            &attributes[..],
            &starts[..],
            1,
            stream
        )
    };
    let mut bytes = [1_u8; 8];
    for (order, kinds) in [(1, vec!["HostSourceChanged"]), (2, vec![])] {
        bytes.fill(1);
        assert_eq!(copy(memory, bytes.as_ptr() as usize, order), 0);
        bytes.fill(2);
        assert_eq!(call!(driver, "cuStreamSynchronize", stream), 0);
        assert_eq!(driver.kinds(), kinds, "order {order}");
    }
    assert_eq!(call!(driver, "cuMemsetD8Async", memory, 1, 8, stream), 0);
    assert_eq!((copy(memory + 8, memory, 1), driver.kinds()), (0, vec![]));
    assert_eq!(
        (copy(memory + 8, memory, 3), driver.kinds()),
        (0, vec!["UnorderedRead".to_owned()])
    );
    assert_eq!(copy(memory + 8, memory, 4), 1, "there is no such order");
}

#[test]
fn the_driver_knows_its_addresses_and_no_others() {
    let driver = started_with(Simulated::builder(Vendor::Cuda).devices(2));
    let other = driver.context(1);
    assert_eq!(call!(driver, "cuCtxPushCurrent_v2", other), 0);
    let memory = driver.made("cuMemAlloc_v2", &[100]);
    let pinned = driver.made("cuMemHostAlloc", &[10, 0]);
    let managed = driver.made("cuMemAllocManaged", &[10, 1]);
    let ask = |attribute: i32, address: usize| {
        let mut value = 0_u64;
        let code = call!(driver, "cuPointerGetAttribute", &mut value, attribute, address);
        (code, value)
    };
    assert_eq!(ask(1, memory + 50), (0, other as u64));
    assert_eq!([memory, pinned, managed].map(|address| ask(2, address)), [(0, 2), (0, 1), (0, 2)]);
    assert_eq!([memory, pinned, managed].map(|address| ask(8, address)), [(0, 0), (0, 0), (0, 1)]);
    assert_eq!(
        (ask(9, memory), ask(11, memory + 9), ask(12, memory + 9)),
        ((0, 1), (0, memory as u64), (0, 100))
    );
    assert_eq!((ask(4, memory).0, ask(4, pinned)), (1, (0, pinned as u64)));
    assert_eq!(ask(2, memory + 100).0, 1, "behind the end");
    let here = 0_u8;
    let ours = &raw const here as usize;
    assert_eq!((ask(2, ours).0, ask(13, ours), ask(13, memory)), (1, (0, 0), (0, 1)));
    let (which, mut kind, mut is_managed) = ([2_i32, 8], 9_u32, 9_u8);
    let out = [(&raw mut kind).cast::<u8>(), &raw mut is_managed];
    assert_eq!(call!(driver, "cuPointerGetAttributes", 2, &which[..], &out[..], ours), 0);
    assert_eq!((kind, is_managed), (0, 0), "nothing is known of it, and that is no error");
    assert_eq!(call!(driver, "cuPointerGetAttributes", 2, &which[..], &out[..], managed), 0);
    assert_eq!((kind, is_managed), (2, 1));
    let (mut base, mut len) = (0_usize, 0_usize);
    assert_eq!(call!(driver, "cuMemGetAddressRange_v2", &mut base, &mut len, memory + 7), 0);
    assert_eq!((base, len), (memory, 100));
    assert_eq!(call!(driver, "cuMemGetAddressRange_v2", &mut base, 0, ours), 500);
    assert_eq!(call!(driver, "cuMemHostGetDevicePointer_v2", &mut base, pinned, 0), 0);
    assert_eq!(base, pinned);
    assert_eq!(call!(driver, "cuMemHostGetDevicePointer_v2", &mut base, memory, 0), 1);
    assert_eq!(call!(driver, "cuMemFree_v2", memory), 0);
    assert_eq!(ask(2, memory).0, 1, "freed");
    assert_eq!(call!(driver, "cuMemFree_v2", managed), 0);
    assert_eq!(call!(driver, "cuMemFreeHost", pinned), 0);
    driver.finish();
}
