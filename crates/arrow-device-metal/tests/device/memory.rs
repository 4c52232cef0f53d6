//! Memory: addresses, buffers behind them, limits, and what is given back.

use std::ptr;

use arrow_device::driver::{Addressing, HostAccess, Raw, Region, Route, Spot};
use arrow_device::{Array, DataType, Device, DeviceType, ErrorKind};
use arrow_device_metal::{NamedBuffer, buffer_of};
use arrow_device_testkit::{process, release_until, trips};
use metal_stand_in::Gate;

use crate::support::Bench;

#[test]
fn a_device_says_what_it_is_like() {
    let Some(bench) = Bench::new() else { return };
    assert_eq!(bench.id().device_type, DeviceType::METAL);
    let properties = bench.properties();
    assert_eq!(properties.addressing, Addressing::Address);
    assert_eq!((properties.host_access, properties.copy_unit), (HostAccess::Mapped, 4));
    assert!(properties.alignment >= 4096);
    let listed = arrow_device_metal::devices().unwrap();
    assert_eq!((&*listed[0].name, listed[0].id), (&*properties.name, bench.id()));
    assert!(listed[0].memory >= 1 << 20, "{listed:?}");
    // The runtime does not list the default device first.
    assert_eq!(listed.len(), 2);
    assert_eq!((&*listed[1].name, listed[1].index), ("Stand-in for Metal, second", 1));
    assert!(Device::find(bench.id()).is_some());
}

#[test]
fn an_address_leads_to_its_buffer() {
    let Some(bench) = Bench::new() else { return };
    let queue = bench.open_queue().unwrap();
    let mut memory = queue.allocate(10_000).unwrap();
    let address = memory.spot(&queue).unwrap().base.as_ptr();
    let (buffer, offset) = buffer_of(address).unwrap();
    assert_eq!((buffer_of(address.wrapping_byte_add(9_999)), offset), (Some((buffer, 9_999)), 0));
    let application = bench.stand_in.application();
    let contents: *mut std::ffi::c_void = unsafe { application.send(buffer.as_ptr(), "contents") };
    assert!(ptr::eq(contents, address));
    assert_eq!(address.addr() % bench.properties().alignment, 0);
    assert!(buffer_of(ptr::from_ref(&offset).cast()).is_none());
    let found = unsafe { bench.driver().locate(Raw::from_ptr(address)) }.unwrap().unwrap();
    assert_eq!((found.device, found.remaining), (bench.id(), 10_000));
    let found = unsafe { bench.driver().locate(Raw::from_ptr(address.wrapping_byte_add(6_000))) };
    assert_eq!(found.unwrap().unwrap().remaining, 4_000);
}

#[test]
fn more_than_there_is_is_out_of_memory() {
    let Some(bench) = Bench::new() else { return };
    let queue = bench.open_queue().unwrap();
    for error in [bench.allocate(1 << 40).unwrap_err(), queue.allocate(u64::MAX).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        assert_eq!(error.device(), Some(bench.id()));
    }
}

// Requirement: DRV-10
#[test]
fn memory_that_was_freed_is_there_again() {
    process::alone(|| {
        let Some(bench) = Bench::new() else { return };
        let queue = bench.open_queue().unwrap();
        bench.stand_in.set_room(1 << 20);
        let held = queue.allocate(1 << 20).unwrap();
        assert_eq!(queue.allocate(1).unwrap_err().kind(), ErrorKind::OutOfMemory);
        drop(held);
        queue.allocate(1 << 20).unwrap();
    });
}

#[test]
fn a_copy_outside_of_a_buffer_is_refused() {
    let Some(bench) = Bench::new() else { return };
    let queue = bench.open_queue().unwrap();
    let mut memory = queue.allocate(64).unwrap();
    let from = memory.spot(&queue).unwrap();
    let mut bytes = [0_u8; 128];
    let to = Spot { base: Raw::from_ptr(bytes.as_mut_ptr().cast()), offset: 0 };
    let region = Region { from, to, len: 128 };
    let error = unsafe { queue.copy(Route::ToHost, &[region]) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(error.device(), Some(bench.id()));
}

#[test]
fn an_array_is_read_in_place() {
    let Some(bench) = Bench::new() else { return };
    let queue = bench.open_queue().unwrap();
    let array = Array::from_values(DataType::Int32, [Some(5), None, Some(7)]).unwrap();
    let there = array.copy_to(&queue).unwrap();
    there.wait().unwrap();
    let read = there.host().unwrap();
    let bytes = read.buffer(1).unwrap();
    assert_eq!(bytes.get(8..12).unwrap(), 7_i32.to_ne_bytes());
    assert!(buffer_of(bytes.as_ptr().cast()).is_some());
}

// Requirement: SAF-8
#[test]
fn the_host_does_not_fill_memory_that_a_queue_still_reads() {
    let Some(bench) = Bench::new() else { return };
    trips::an_allocator_gives_what_its_queue_still_reads(
        &bench,
        |queue| {
            let gate = Gate::new();
            unsafe { gate.before(queue.raw().as_ptr()) };
            gate
        },
        |mut gate| gate.open(),
    );
}

#[test]
fn a_buffer_of_the_application_is_named_and_used() {
    let Some(bench) = Bench::new() else { return };
    let application = bench.stand_in.application();
    let queue = bench.open_queue().unwrap();
    let device = application.default_device();
    let buffer: *mut std::ffi::c_void =
        unsafe { application.send_2(device, "newBufferWithLength:options:", 4096_usize, 0_usize) };
    let pointer = ptr::NonNull::new(buffer).unwrap();
    let named = unsafe { NamedBuffer::new(&bench, pointer) }.unwrap();
    let again = unsafe { NamedBuffer::new(&bench, pointer) }.unwrap();
    unsafe { application.release(buffer) };
    assert_eq!((named.address(), named.len()), (again.address(), 4096));
    drop(again);
    assert_eq!(buffer_of(named.address()), Some((pointer, 0)));
    let mut bytes = *b"by the queue";
    let from = Spot { base: Raw::from_ptr(bytes.as_mut_ptr().cast()), offset: 0 };
    let to = Spot { base: Raw::from_ptr(named.address()), offset: 16 };
    unsafe { queue.copy(Route::FromHost, &[Region { from, to, len: 12 }]) }.unwrap();
    queue.synchronize().unwrap();
    let written = unsafe { named.address().cast::<[u8; 12]>().byte_add(16).read() };
    assert_eq!(written, bytes);
    let address = named.address();
    drop(named);
    assert_eq!(buffer_of(address), None);

    // Another storage mode, another kind of object, another device.
    let private: *mut std::ffi::c_void =
        unsafe { application.send_2(device, "newBufferWithLength:options:", 64_usize, 0x20_usize) };
    for (what, object) in [("private", private), ("no buffer", device)] {
        let object = ptr::NonNull::new(object).unwrap();
        let refused = unsafe { NamedBuffer::new(&bench, object) }.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{what}: {refused}");
    }
    let second = arrow_device_metal::open(1).unwrap();
    let refused = unsafe { NamedBuffer::new(&second, ptr::NonNull::new(private).unwrap()) };
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let refused = unsafe { NamedBuffer::new(&Device::host(), ptr::NonNull::new(private).unwrap()) };
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    unsafe { application.release(private) };
    unsafe { application.release(device) };
}

/// Makes a buffer of the application's around pages of its own.
fn around(bench: &Bench, pages: *mut u8, len: usize) -> ptr::NonNull<std::ffi::c_void> {
    let application = bench.stand_in.application();
    let device = application.default_device();
    let none: *mut std::ffi::c_void = ptr::null_mut();
    let name = "newBufferWithBytesNoCopy:length:options:deallocator:";
    let buffer: *mut std::ffi::c_void =
        unsafe { application.send_4(device, name, pages, len, 0_usize, none) };
    unsafe { application.release(device) };
    ptr::NonNull::new(buffer).unwrap()
}

#[test]
fn bytes_have_the_name_of_one_buffer() {
    let Some(bench) = Bench::new() else { return };
    let queue = bench.open_queue().unwrap();
    let layout = std::alloc::Layout::from_size_align(4 * 4096, 4096).unwrap();
    let pages = unsafe { std::alloc::alloc_zeroed(layout) };
    let at = |page: usize| pages.wrapping_add(page * 4096);
    let middle = around(&bench, at(1), 2 * 4096);
    let named = unsafe { NamedBuffer::new(&bench, middle) }.unwrap();
    for (what, page, count) in
        [("the same bytes", 1, 2), ("its end", 2, 2), ("its begin", 0, 2), ("more", 0, 4)]
    {
        let buffer = around(&bench, at(page), count * 4096);
        let refused = unsafe { NamedBuffer::new(&bench, buffer) }.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{what}: {refused}");
        unsafe { bench.stand_in.application().release(buffer.as_ptr()) };
    }
    assert_eq!(buffer_of(named.address()), Some((middle, 0)));
    let (before, behind) = (around(&bench, at(0), 4096), around(&bench, at(3), 4096));
    let sides = [before, behind].map(|buffer| unsafe { NamedBuffer::new(&bench, buffer) }.unwrap());
    assert_eq!(buffer_of(at(3).wrapping_add(7).cast()), Some((behind, 7)));
    // The buffer of this crate's own memory may be named, too.
    let mut memory = queue.allocate(64).unwrap();
    let address = memory.spot(&queue).unwrap().base.as_ptr();
    let (buffer, _) = buffer_of(address).unwrap();
    let again = unsafe { NamedBuffer::new(&bench, buffer) }.unwrap();
    drop((memory, queue));
    assert_eq!(buffer_of(address), Some((buffer, 0)));
    drop((again, named, sides));
    assert_eq!(buffer_of(at(1).cast()), None);
    for buffer in [before, middle, behind] {
        unsafe { bench.stand_in.application().release(buffer.as_ptr()) };
    }
    unsafe { std::alloc::dealloc(pages, layout) };
}

/// As an external GPU that Metal does not list any more, or a device on iOS.
#[test]
fn a_buffer_of_a_device_that_is_not_listed_is_named() {
    process::alone(|| {
        let Some(bench) = Bench::new() else { return };
        let second = arrow_device_metal::open(1).unwrap();
        let mut memory = second.allocate(64).unwrap();
        let queue = second.open_queue().unwrap();
        let (buffer, _) = buffer_of(memory.spot(&queue).unwrap().base.as_ptr()).unwrap();
        for devices in [1, 0] {
            bench.stand_in.set_devices(devices);
            assert_eq!(unsafe { NamedBuffer::new(&second, buffer) }.unwrap().len(), 4096);
        }
        bench.stand_in.set_devices(2);
    });
}

#[test]
fn everything_is_given_back() {
    process::alone(|| {
        let Some(bench) = Bench::new() else { return };
        let before = bench.stand_in.objects();
        for _ in 0..3 {
            let (queue, other) = (bench.open_queue().unwrap(), bench.open_queue().unwrap());
            let array = Array::from_values(DataType::Int64, [Some(5_i64), None, Some(7)]).unwrap();
            let there = array.copy_to(&queue).unwrap();
            assert!(trips::imported(&there).copy_to(&other).unwrap().to_host().is_ok());
            drop((array, there, queue, other));
        }
        assert!(release_until(|| bench.stand_in.objects() <= before), "{before}");
    });
}
