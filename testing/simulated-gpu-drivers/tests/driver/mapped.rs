//! Memory that is mapped by hand: what has to fit, who has access, and what a descriptor is of.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use simulated_gpu_drivers::{Simulated, Vendor};

use crate::support::{Driver, call, hip, started_with};

const UNIT: usize = 2 << 20;

fn driver() -> Driver {
    started_with(Simulated::builder(Vendor::Cuda).devices(2).memory(8 << 20).peers(true))
}

/// Properties of memory of a device that has descriptors.
fn properties(device: u64) -> [u64; 4] {
    [1 | 1 << 32, 1 | device << 32, 0, 0]
}

fn create(driver: &Driver, device: u64, len: usize) -> (i32, usize) {
    let mut handle = 0_usize;
    let code = call!(driver, "cuMemCreate", &mut handle, len, &properties(device)[..], 0);
    (code, handle)
}

fn made(driver: &Driver, len: usize) -> usize {
    let (code, handle) = create(driver, 0, len);
    assert_eq!(code, 0);
    handle
}

fn reserve(driver: &Driver, len: usize) -> usize {
    driver.made("cuMemAddressReserve", &[len as u64, 0, 0, 0])
}

fn give(driver: &Driver, address: usize, device: i32, rights: i32) -> i32 {
    let access = [1, device, rights];
    call!(driver, "cuMemSetAccess", address, UNIT, &access[..], 1)
}

/// What is mapped and given to device 0: the handle and the address.
fn mapped(driver: &Driver) -> (usize, usize) {
    let (handle, address) = (made(driver, UNIT), reserve(driver, UNIT));
    assert_eq!(call!(driver, "cuMemMap", address, UNIT, 0, handle, 0), 0);
    assert_eq!(give(driver, address, 0, 3), 0);
    (handle, address)
}

fn give_back(driver: &Driver, handle: usize, address: usize) {
    assert_eq!(call!(driver, "cuMemUnmap", address, UNIT), 0);
    assert_eq!(call!(driver, "cuMemRelease", handle), 0);
    assert_eq!(call!(driver, "cuMemAddressFree", address, UNIT), 0);
}

fn fill(driver: &Driver, address: usize, value: u8) -> Vec<String> {
    let stream = driver.made("cuStreamCreate", &[1]);
    call!(driver, "cuMemsetD8Async", address, u32::from(value), 8, stream);
    assert_eq!(call!(driver, "cuStreamSynchronize", stream), 0);
    assert_eq!(call!(driver, "cuStreamDestroy_v2", stream), 0);
    driver.kinds()
}

fn read(driver: &Driver, address: usize) -> [u8; 8] {
    let (mut bytes, stream) = ([0_u8; 8], driver.made("cuStreamCreate", &[1]));
    let to = bytes.as_mut_ptr();
    assert_eq!(call!(driver, "cuMemcpyDtoHAsync_v2", to, address, 8, stream), 0);
    assert_eq!(call!(driver, "cuStreamSynchronize", stream), 0);
    assert_eq!(call!(driver, "cuStreamDestroy_v2", stream), 0);
    bytes
}

fn export(driver: &Driver, handle: usize) -> OwnedFd {
    let mut descriptor = -1_i32;
    let out = &mut descriptor;
    assert_eq!(call!(driver, "cuMemExportToShareableHandle", out, handle, 1, 0), 0);
    // SAFETY: the driver gave the descriptor to its caller.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

fn import(driver: &Driver, descriptor: &OwnedFd) -> (i32, usize) {
    let (mut handle, number) = (0_usize, descriptor.as_raw_fd());
    let code = call!(driver, "cuMemImportFromShareableHandle", &mut handle, number, 1);
    (code, handle)
}

#[test]
fn sizes_flags_and_ranges_have_to_fit() {
    let driver = driver();
    let granularity =
        driver.made("cuMemGetAllocationGranularity", &[properties(0).as_ptr() as u64]);
    assert_eq!(granularity, UNIT);
    assert_eq!(create(&driver, 0, UNIT + 4096).0, 1, "no multiple of the unit");
    assert_eq!(create(&driver, 0, 0).0, 1);
    assert_eq!(create(&driver, 7, UNIT).0, 101, "no such device");
    assert_eq!(create(&driver, 0, 10 << 20).0, 2, "more than there is");
    let handle = made(&driver, UNIT);
    let twice = reserve(&driver, 2 * UNIT);
    assert_eq!(call!(driver, "cuMemMap", twice, 2 * UNIT, 0, handle, 0), 1, "too much");
    assert_eq!(call!(driver, "cuMemAddressFree", twice, UNIT), 1, "a part");
    assert_eq!(call!(driver, "cuMemAddressFree", twice, 2 * UNIT), 0);
    let address = reserve(&driver, UNIT);
    assert_eq!(give(&driver, address, 0, 3), 1, "nothing is mapped");
    assert_eq!(call!(driver, "cuMemUnmap", address, UNIT), 1);
    assert_eq!(call!(driver, "cuMemMap", address, UNIT, 4096, handle, 0), 1, "an offset");
    assert_eq!(call!(driver, "cuMemMap", address, UNIT, 0, handle, 0), 0);
    assert_eq!(call!(driver, "cuMemMap", address, UNIT, 0, handle, 0), 1, "twice");
    assert_eq!(driver.kinds(), [""; 0]);
    assert_eq!(call!(driver, "cuMemAddressFree", address, UNIT), 1);
    assert_eq!(call!(driver, "cuMemFree_v2", address), 1);
    assert_eq!(driver.kinds(), ["WrongFree"; 2]);
    // The memory is there as long as something has it, and counts as long.
    assert_eq!(call!(driver, "cuMemRelease", handle), 0);
    assert_eq!(call!(driver, "cuMemRelease", handle), 1);
    assert_eq!(driver.kinds(), ["UnknownHandle"]);
    assert_eq!(create(&driver, 0, 8 << 20).0, 2);
    assert_eq!(call!(driver, "cuMemUnmap", address, UNIT), 0);
    assert_eq!(call!(driver, "cuMemAddressFree", address, UNIT), 0);
    let (code, all) = create(&driver, 0, 8 << 20);
    assert_eq!((code, call!(driver, "cuMemRelease", all)), (0, 0));
    driver.finish();
}

#[test]
fn nobody_has_access_before_it_is_given() {
    let driver = driver();
    let (handle, address) = (made(&driver, UNIT), reserve(&driver, UNIT));
    assert_eq!(call!(driver, "cuMemMap", address, UNIT, 0, handle, 0), 0);
    assert_eq!(fill(&driver, address, 3), ["UnreachableMemory"]);
    assert_eq!(give(&driver, address, 0, 2), 1, "no such rights");
    assert_eq!(give(&driver, address, 0, 1), 0);
    assert_eq!(read(&driver, address)[0], 0x9d, "what nobody has written is garbage");
    assert_eq!(fill(&driver, address, 3), ["WriteToShared"], "for reading alone");
    give_back(&driver, handle, address);
    // Access to a peer is not access to what is mapped there.
    let (handle, address) = mapped(&driver);
    assert_eq!(fill(&driver, address, 5), [""; 0]);
    let home = driver.context(0);
    let other = driver.context(1);
    assert_eq!(call!(driver, "cuCtxPushCurrent_v2", other), 0);
    assert_eq!(call!(driver, "cuCtxEnablePeerAccess", home, 0), 0);
    assert_eq!(fill(&driver, address, 6), ["UnreachableMemory"]);
    assert_eq!(give(&driver, address, 1, 3), 0);
    assert_eq!(fill(&driver, address, 6), [""; 0]);
    assert_eq!(read(&driver, address), [6; 8]);
    let mut out = 0_usize;
    assert_eq!(call!(driver, "cuCtxPopCurrent_v2", &mut out), 0);
    give_back(&driver, handle, address);
    driver.finish();
}

#[test]
fn a_descriptor_is_of_the_same_pages_and_of_nothing_else() {
    let driver = driver();
    let (handle, address) = mapped(&driver);
    let mut number = -1_i32;
    let out = &mut number;
    assert_eq!(call!(driver, "cuMemExportToShareableHandle", out, handle, 2, 0), 1, "a type");
    let descriptor = export(&driver, handle);
    let (code, again) = import(&driver, &descriptor);
    assert_eq!(code, 0);
    drop(descriptor);
    let there = reserve(&driver, UNIT);
    assert_eq!(call!(driver, "cuMemMap", there, UNIT, 0, again, 0), 0);
    assert_eq!(give(&driver, there, 0, 3), 0);
    assert_eq!(fill(&driver, address, 9), [""; 0]);
    assert_eq!(read(&driver, there), [9; 8]);
    // The pages stay when whoever made them is done.
    give_back(&driver, handle, address);
    assert_eq!(read(&driver, there), [9; 8]);
    give_back(&driver, again, there);
    for path in ["/dev/zero", "/proc/self/exe", "/"] {
        let wrong = OwnedFd::from(std::fs::File::open(path).unwrap());
        assert_eq!(import(&driver, &wrong).0, 1, "{path}");
    }
    driver.finish();
}

#[test]
fn what_is_used_is_not_unmapped_and_what_is_left_is_told() {
    let driver = driver();
    let (handle, address) = mapped(&driver);
    let stream = driver.made("cuStreamCreate", &[1]);
    let kernel = driver.sim.kernel("late").reads(address as u64, 8);
    assert_eq!(kernel.launch(stream as u64, |_| {}), 0);
    assert_eq!(call!(driver, "cuMemUnmap", address, UNIT), 0);
    assert_eq!(driver.kinds(), ["FreedInUse"]);
    assert_eq!(call!(driver, "cuStreamDestroy_v2", stream), 0);
    let left: Vec<String> = driver.sim.left().into_iter().map(|report| report.kind).collect();
    assert_eq!(left, ["LeakedHandle", "LeakedSpace"]);
    assert_eq!(call!(driver, "cuMemRelease", handle), 0);
    assert_eq!(call!(driver, "cuMemAddressFree", address, UNIT), 0);
    driver.finish();
}

/// A driver that has none of it says so, as its attributes do.
#[test]
fn a_device_without_mapping_says_so() {
    let driver = started_with(Simulated::builder(Vendor::Cuda).mapping(false));
    for attribute in [102, 103] {
        let mut value = 7_i32;
        assert_eq!(call!(driver, "cuDeviceGetAttribute", &mut value, attribute, 0), 0);
        assert_eq!(value, 0);
    }
    assert_eq!(create(&driver, 0, UNIT).0, 801);
    let read_only = started_with(Simulated::builder(Vendor::Cuda).read_only(false));
    let (handle, address) = mapped(&read_only);
    assert_eq!(give(&read_only, address, 0, 1), 801);
    give_back(&read_only, handle, address);
    read_only.finish();
    driver.finish();
}

/// HIP took a pointer to the descriptor before 7.1.
#[test]
fn hip_takes_a_descriptor_as_its_version_has_it() {
    let newer = crate::support::with(Simulated::builder(Vendor::Hip).version(70_100_000));
    for (driver, is_pointer) in [(hip(), true), (newer, false)] {
        let mut handle = 0_usize;
        assert_eq!(call!(driver, "hipMemCreate", &mut handle, 4096, &properties(0)[..], 0), 0);
        let mut number = -1_i32;
        let out = &mut number;
        assert_eq!(call!(driver, "hipMemExportToShareableHandle", out, handle, 1, 0), 0);
        // SAFETY: the driver gave the descriptor to its caller.
        let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
        let place = (&raw const number) as u64;
        let (right, wrong) =
            if is_pointer { (place, number as u64) } else { (number as u64, place) };
        let mut again = 0_usize;
        assert_eq!(call!(driver, "hipMemImportFromShareableHandle", &mut again, wrong, 1), 1);
        assert_eq!(call!(driver, "hipMemImportFromShareableHandle", &mut again, right, 1), 0);
        drop(descriptor);
        for handle in [handle, again] {
            assert_eq!(call!(driver, "hipMemRelease", handle), 0);
        }
        driver.finish();
    }
}
