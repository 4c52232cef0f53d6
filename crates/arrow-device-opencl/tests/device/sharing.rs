//! Memory that other processes can open: what is exported is opened by the same device, which has
//! the same pages then.

use std::ffi::c_void;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;

use arrow_device::driver::{MemoryHandle, OpenedBuffer, Raw, SharedPlace};
use arrow_device::{Array, Buffer, DataType, Device, ErrorKind, Recycler, Result};
use arrow_device_opencl::{Kind, open_from};
use arrow_device_testkit::application::opencl::Cl;
use arrow_device_testkit::process::{alone, descriptors};
use arrow_device_testkit::release_until;
use arrow_device_testkit::shared_memory::{self, array_of, file_of_memory, filled};

use crate::support;

fn exported(device: &Device, place: SharedPlace, fixed: bool) -> MemoryHandle {
    // SAFETY: UNS-36: the memory is there, and this process writes to it no more.
    unsafe { device.export_shared(place.memory, fixed) }.unwrap()
}

fn opened(device: &Device, handle: MemoryHandle, len: u64) -> Result<OpenedBuffer> {
    // SAFETY: UNS-37: nobody writes to the memory.
    unsafe { device.open_shared(handle, len, ()) }
}

/// The first bytes of a buffer on a device.
fn bytes_of(buffer: &Buffer, len: usize, device: &Device) -> Vec<u8> {
    let array = array_of(buffer.clone(), len, device);
    let copy = shared_memory::bytes_of(&array);
    let there = array.copy_to(&device.open_queue().unwrap()).unwrap();
    assert_eq!(copy, shared_memory::bytes_of(&there), "the device reads the same bytes");
    copy
}

/// How many mappings of this crate's files there are.
fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("memfd:arrow-device-opencl")).count()
}

fn buffers(body: impl Fn(&Device)) {
    if let Some(device) = support::shareable_with(Kind::Buffers) {
        body(&device);
    }
}

fn svm(body: impl Fn(&Device)) {
    alone(|| {
        if let Some(device) = support::shareable_with(Kind::Svm) {
            body(&device);
        }
    });
}

fn goes_through(device: &Device) {
    let bytes: Vec<u8> = (0..10_000).map(|index| (index % 251) as u8).collect();
    for fixed in [false, true] {
        let (memory, place) = filled(device, &bytes);
        assert_eq!((place.offset, place.len), (0, 10_000));
        assert!(place.can_be_fixed, "the device is a processor");
        let OpenedBuffer { buffer, is_fixed } =
            opened(device, exported(device, place, fixed), place.len).unwrap();
        assert_eq!(is_fixed, fixed);
        assert_eq!(bytes_of(&buffer, bytes.len(), device), bytes);
        let part = buffer.slice(128, 100).unwrap();
        assert_eq!(bytes_of(&part, 100, device), bytes[128..228]);
        // What was opened stays when the exporter has freed it.
        drop(memory);
        assert_eq!(bytes_of(&buffer, bytes.len(), device), bytes);
    }
}

#[test]
fn what_is_exported_is_opened() {
    buffers(goes_through);
}

#[test]
fn what_is_exported_of_shared_virtual_memory_is_opened() {
    svm(goes_through);
}

/// Writes to a file of memory from outside of the process's own mappings, as nobody may.
fn try_to_write(file: &OwnedFd) -> bool {
    let byte = [1_u8];
    // SAFETY: one byte.
    unsafe { libc::pwrite(file.as_raw_fd(), byte.as_ptr().cast(), 1, 0) == 1 }
}

/// What the first byte is before and after this process writes by its own mapping.
fn first_byte(file: &OwnedFd) -> u8 {
    let mut byte = [0_u8];
    // SAFETY: one byte.
    assert_eq!(unsafe { libc::pread(file.as_raw_fd(), byte.as_mut_ptr().cast(), 1, 0) }, 1);
    byte[0]
}

fn is_in_place(device: &Device) {
    let recycler = Recycler::new(1 << 20);
    let device = device.with_allocator(recycler).shareable().unwrap();
    let queue = device.open_queue().unwrap();
    let (mut memory, place) = filled(&device, &[7; 100]);
    assert!(!place.can_be_fixed, "it may be given out again");
    let error = unsafe { device.export_shared(place.memory, true) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let handle = exported(&device, place, false);
    let file = handle.descriptor.as_ref().unwrap();
    assert_eq!(first_byte(file), 7);
    memory.write(&queue, &[8; 100]).unwrap();
    queue.synchronize().unwrap();
    assert_eq!(first_byte(file), 8, "the device writes to the file");
    assert!(!try_to_write(file), "nobody else does");
}

#[test]
fn the_device_has_the_pages_of_the_file() {
    buffers(is_in_place);
}

#[test]
fn the_device_has_the_pages_of_the_file_in_shared_virtual_memory() {
    svm(is_in_place);
}

#[test]
fn a_part_is_found_in_its_allocation_and_opened_memory_is_not() {
    let Some(device) = support::shareable_with(Kind::Buffers) else { return };
    let (driver, step) = (device.driver(), device.properties().alignment as u64);
    let (_memory, place) = filled(&device, &vec![3; 4 * step as usize]);
    let outer = unsafe { driver.part(place.memory, step, 3 * step) }.unwrap();
    let inner = unsafe { driver.part(outer, step, step) }.unwrap();
    for (part, offset) in [(place.memory, 0), (outer, step), (inner, 2 * step)] {
        assert_eq!(device.find_shared(part), Some(SharedPlace { offset, ..place }));
    }
    unsafe { driver.free_part(inner) };
    unsafe { driver.free_part(outer) };
    assert_eq!(device.find_shared(inner), None);
    assert_eq!(device.find_shared(Raw::from_bits(0x1230)), None);

    let buffer = opened(&device, exported(&device, place, false), place.len).unwrap().buffer;
    let queue = device.open_queue().unwrap();
    let array = Array::builder(DataType::UInt8).device(device.id()).len(10);
    let array = array.buffers([None, Some(buffer)]).finish_ready().unwrap();
    let base = array.on(&queue).unwrap().buffer(1).location().spot().base;
    assert_eq!(device.find_shared(base), None);
}

#[test]
fn an_address_inside_of_shared_virtual_memory_is_found() {
    svm(|device| {
        let (_memory, place) = filled(device, &[3; 5000]);
        let at = |offset: usize| Raw::from_bits(place.memory.bits() + offset);
        assert_eq!(device.find_shared(at(4999)), Some(SharedPlace { offset: 4999, ..place }));
        assert_eq!(device.find_shared(at(5000)), None);
        assert_eq!(device.find_shared(Raw::from_bits(place.memory.bits() - 1)), None);
    });
}

#[test]
fn memory_that_was_not_made_for_it_is_not_exported() {
    let Some(device) = support::shareable_with(Kind::Buffers) else { return };
    let queue = support::device().unwrap().open_queue().unwrap();
    let mut memory = queue.allocate(100).unwrap();
    let base = memory.spot(&queue).unwrap().base;
    assert_eq!(device.find_shared(base), None);
    let error = unsafe { device.export_shared(base, false) }.unwrap_err();
    assert_eq!((error.kind(), error.device()), (ErrorKind::InvalidArgument, Some(device.id())));
}

#[test]
fn contexts_of_one_device_are_one_domain() {
    alone(|| {
        let Some(device) = support::shareable_with(Kind::Buffers) else { return };
        let cl = Cl::load().unwrap();
        let queue = device.open_queue().unwrap();
        let (_, handle) = cl.home_of(queue.raw().as_ptr()).unwrap();
        let context = cl.create_context(handle).unwrap();
        let [context, handle] =
            [context, handle].map(|one: *mut c_void| NonNull::new(one).unwrap());
        let other = unsafe { open_from(context, handle, Kind::Buffers) }.unwrap();
        assert_eq!(other.sharing_domain(), device.sharing_domain());
        let (_memory, place) = filled(&device, &[6; 1000]);
        let buffer = opened(&other, exported(&device, place, true), place.len).unwrap().buffer;
        assert_eq!(bytes_of(&buffer, 1000, &other), [6; 1000]);
    });
}

/// The seals of memory whose length nobody changes.
const SEALED: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;

fn refuses(device: &Device) {
    let before = descriptors();
    let (read, write) = std::io::pipe().unwrap();
    let socket = std::os::unix::net::UnixStream::pair().unwrap().0;
    let file = |path: &str| OwnedFd::from(std::fs::File::open(path).unwrap());
    let wrong: Vec<(&str, OwnedFd)> = vec![
        ("a device", file("/dev/zero")),
        ("a file", file("/proc/self/exe")),
        ("a folder", file("/")),
        ("a pipe", read.into()),
        ("a pipe's other end", write.into()),
        ("a socket", socket.into()),
        ("memory that is too short", file_of_memory(4999, SEALED)),
        ("memory that can shrink", file_of_memory(1 << 20, libc::F_SEAL_GROW)),
        ("memory that can grow", file_of_memory(1 << 20, libc::F_SEAL_SHRINK)),
    ];
    for (name, descriptor) in wrong {
        let handle = MemoryHandle::from_descriptor(descriptor);
        let error = opened(device, handle, 5000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{name}: {error}");
    }
    let noted = MemoryHandle::from_descriptor(file_of_memory(1 << 20, SEALED)).with_note([1]);
    for handle in [noted, MemoryHandle::default()] {
        assert_eq!(opened(device, handle, 5000).unwrap_err().kind(), ErrorKind::Malformed);
    }
    for len in [1 << 21, 1 << 50, u64::MAX] {
        let handle = MemoryHandle::from_descriptor(file_of_memory(1 << 20, SEALED));
        assert_eq!(opened(device, handle, len).unwrap_err().kind(), ErrorKind::Malformed, "{len}");
    }
    let right = MemoryHandle::from_descriptor(file_of_memory(5000, SEALED));
    assert!(!opened(device, right, 5000).unwrap().is_fixed);
    assert_eq!(descriptors(), before);
}

#[test]
fn handles_of_other_things_are_refused_and_closed() {
    alone(|| buffers(refuses));
}

#[test]
fn handles_of_other_things_are_refused_with_shared_virtual_memory() {
    svm(refuses);
}

fn is_gone_when_freed(device: &Device) {
    let (before, held) = ((descriptors(), mappings()), device.held().allocated);
    for fixed in [false, true].repeat(50) {
        let (memory, place) = filled(device, &[5; 100_000]);
        assert!(mappings() > before.1);
        let opened = opened(device, exported(device, place, fixed), place.len).unwrap();
        assert_eq!(bytes_of(&opened.buffer, 10, device), [5; 10]);
        drop((memory, opened));
    }
    let is_gone = || ((descriptors(), mappings()), device.held().allocated) == (before, held);
    assert!(release_until(is_gone), "{:?}, {before:?}", (descriptors(), mappings()));
}

#[test]
fn what_is_freed_is_gone() {
    alone(|| buffers(is_gone_when_freed));
}

#[test]
fn what_is_freed_of_shared_virtual_memory_is_gone() {
    svm(is_gone_when_freed);
}

/// How many bytes of addresses this process has.
fn addresses() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmSize:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

/// The file's pages are gone either way: this is about the block of the runtime beneath.
#[test]
fn blocks_of_shared_virtual_memory_go_back_to_the_runtime() {
    svm(|device| {
        let before = addresses();
        for _ in 0..64 {
            let memory = device.allocate(16 << 20).unwrap();
            assert!(mappings() > 0);
            drop(memory);
            assert!(release_until(|| mappings() == 0));
        }
        let more = addresses().saturating_sub(before);
        assert!(more < 256 << 20, "{more} of 1 GiB are left");
    });
}

#[test]
fn more_than_there_is_is_out_of_memory() {
    buffers(|device| {
        for len in [1 << 50, u64::MAX] {
            let error = device.allocate(len).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        }
    });
}
