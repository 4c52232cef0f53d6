//! Buffers: parts, memory of others, what the driver knows of it, and errors that say what is
//! wrong.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::copy::Way;
use arrow_device::driver::{Addressing, HostAccess, Raw, Region, Route, Spot};
use arrow_device::{
    Array, DataType, Device, DeviceId, DeviceType, ErrorKind, Memory, Queue, dlpack,
};
use arrow_device_testkit::application::vulkan::{HostEventGate, Vulkan};
use arrow_device_testkit::{oracle, release_until, trips};
use arrow_device_vulkan::{
    Binding, Handles, Placement, adopt_memory, handles_of, open_for, open_from,
};
use ash::vk::{self as api, Handle};

use crate::shader::handles;
use crate::support;
use crate::support::Bench;

fn bench() -> Option<(Bench, Queue)> {
    let bench = Bench::new()?;
    let queue = bench.open_queue().unwrap();
    Some((bench, queue))
}

fn host(bytes: &mut [u8]) -> Spot {
    Spot { base: Raw::from_ptr(bytes.as_mut_ptr().cast()), offset: 0 }
}

fn numbers() -> Array {
    Array::from_values(DataType::Int32, [Some(5), None, Some(7)]).unwrap()
}

#[track_caller]
fn assert_is(found: &Array, expected: &Array) {
    let [found, expected] = [found, expected].map(|array| oracle::plan_of(array).unwrap());
    oracle::require_equal(&expected, &found).unwrap();
}

#[test]
fn a_device_says_what_it_is_like() {
    let Some((bench, _)) = bench() else { return };
    let handle = bench.vulkan().device.handle().as_raw();
    assert_eq!(bench.id(), DeviceId::new(DeviceType::VULKAN, handle.cast_signed()));
    let properties = bench.properties();
    assert_eq!((properties.addressing, properties.parts), (Addressing::Handle, true));
    assert!(properties.alignment >= 64 && properties.alignment.is_power_of_two());
    let listed = arrow_device_vulkan::devices().unwrap();
    let first = listed.first().unwrap();
    assert_eq!(first.name, properties.name);
    assert!(first.memory > 1 << 20 && !first.driver_version.is_empty(), "{first:?}");
    for (placement, access) in
        [(Placement::HostVisible, HostAccess::Mapped), (Placement::DeviceOnly, HostAccess::None)]
    {
        let device = unsafe { open_from(handles(bench.vulkan()), placement) }.unwrap();
        assert_eq!(device.properties().host_access, access);
    }
}

#[test]
fn whoever_opens_a_device_by_number_gets_the_same() {
    if !support::is_there() {
        return;
    }
    let [one, other] = [(); 2].map(|()| arrow_device_vulkan::open(0).unwrap());
    assert_eq!((one.id(), one.driver().runtime()), (other.id(), other.driver().runtime()));
    let there = numbers().copy_to(&one.open_queue().unwrap()).unwrap();
    there.on(&other.open_queue().unwrap()).unwrap();
    assert_is(&there.to_host().unwrap(), &numbers());
    // An application can use it.
    let handles = handles_of(&one).unwrap();
    assert_eq!(handles.device.cast_signed(), one.id().id);
    assert_eq!(handles.queues.len(), 1);
    let again = unsafe { open_from(handles, Placement::DeviceOnly) }.unwrap();
    assert_eq!(again.driver().runtime(), one.driver().runtime());
}

#[test]
fn a_device_is_found_by_the_number_of_an_array() {
    let Some((bench, queue)) = bench() else { return };
    let array = numbers().copy_to(&queue).unwrap();
    let mut c_array = ArrowDeviceArray::empty();
    array.export(&mut c_array).unwrap();
    assert_eq!(c_array.device_type, DeviceType::VULKAN.0);
    let found = open_for(c_array.device_id).unwrap();
    assert_eq!(found.driver().runtime(), bench.driver().runtime());
    let again = unsafe { Array::import(&mut c_array, &array.schema().unwrap()) }.unwrap();
    assert_is(&again.to_host().unwrap(), &numbers());

    let error = open_for(0x1234).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceMissing, "{error}");
    assert!(error.to_string().contains("open_from"), "{error}");
}

#[test]
fn what_is_not_a_device_is_refused() {
    let Some((bench, _)) = bench() else { return };
    let vulkan = bench.vulkan();
    let refuse = |handles: Handles, word: &str| {
        let error = unsafe { open_from(handles, Placement::Automatic) }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    };
    let Handles { instance, physical_device, device, .. } = handles(vulkan);
    refuse(Handles::new(0, physical_device, device), "null");
    refuse(Handles::new(instance, physical_device, device ^ 1), "queue");
    let lock = Arc::new(Mutex::new(()));
    refuse(handles(vulkan).with_queue(0x40, 0, lock), "other queues");
    // A queue that was not given with the device.
    let stranger = unsafe { bench.adopt_queue(Raw::from_bits(0x40)) };
    for error in [stranger.synchronize().unwrap_err(), stranger.record().unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert_eq!(error.device(), Some(bench.id()));
    }
    // Its own can be adopted.
    let own = unsafe { bench.adopt_queue(Raw::from_bits(vulkan.queue.as_raw() as usize)) };
    own.synchronize().unwrap();
    let error = handles_of(&Device::host()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

#[test]
fn whoever_opens_a_device_again_has_their_owner_kept_too() {
    let Some((bench, _)) = bench() else { return };
    let owner = Arc::new(());
    let handles = handles(bench.vulkan()).kept_by(owner.clone());
    let again = unsafe { open_from(handles, Placement::Automatic) }.unwrap();
    assert_eq!(Arc::strong_count(&owner), 2);
    drop(again);
    assert_eq!(Arc::strong_count(&owner), 1);
}

#[test]
fn the_driver_tells_how_large_a_buffer_is() {
    let Some((bench, queue)) = bench() else { return };
    let mut memory = queue.allocate(1000).unwrap();
    let base = memory.spot(&queue).unwrap().base;
    let found = unsafe { bench.driver().locate(base) }.unwrap().unwrap();
    assert_eq!((found.device, found.remaining), (bench.id(), 1000));
    assert_eq!(unsafe { bench.driver().locate(Raw::from_bits(0x1230)) }.unwrap(), None);
}

#[test]
fn a_part_of_a_part_is_a_part_of_the_whole() {
    let Some((bench, queue)) = bench() else { return };
    let (driver, step) = (bench.driver(), bench.properties().alignment as u64);
    let mut memory = queue.allocate(4 * step).unwrap();
    let bytes: Vec<u8> = (0..4 * step).map(|index| (index / step) as u8).collect();
    memory.write(&queue, &bytes).unwrap();
    let base = memory.spot(&queue).unwrap().base;
    let outer = unsafe { driver.part(base, step, 3 * step) }.unwrap();
    let inner = unsafe { driver.part(outer, step, step) }.unwrap();
    assert_eq!(unsafe { driver.locate(inner) }.unwrap().unwrap().remaining, step);
    let mut read = vec![0_u8; step as usize];
    let from = Spot { base: inner, offset: 0 };
    let region = Region { from, to: host(&mut read), len: step };
    unsafe { queue.copy(Route::ToHost, &[region]) }.unwrap();
    queue.synchronize().unwrap();
    assert!(read.iter().all(|byte| *byte == 2));
    for (offset, len) in [(1, step), (2 * step, 2 * step), (0, 0), (u64::MAX, step)] {
        let error = unsafe { driver.part(outer, offset, len) }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    unsafe { driver.free_part(inner) };
    unsafe { driver.free_part(outer) };
}

#[test]
fn a_packed_table_is_several_buffers_of_one_memory() {
    let Some((bench, queue)) = bench() else { return };
    let there = numbers().copy_to(&queue).unwrap();
    let view = there.on(&queue).unwrap();
    let [one, two] = [0, 1].map(|index| view.buffer(index).location().spot());
    assert_ne!(one.base, two.base);
    assert_eq!((one.offset, two.offset), (0, 0));
    drop(view);
    let held = bench.held().allocated;
    // The packed result, and no more.
    assert!(held > 0 && held <= 4 * bench.properties().alignment as u64, "{held}");
    drop(there);
    assert!(release_until(|| bench.held().allocated == 0));
}

#[test]
fn more_than_there_is_is_out_of_memory() {
    let Some((bench, queue)) = bench() else { return };
    for error in [bench.allocate(1 << 50).unwrap_err(), queue.allocate(u64::MAX).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        assert_eq!(error.device(), Some(bench.id()));
    }
}

#[test]
fn a_copy_outside_of_a_buffer_is_refused() {
    let Some((bench, queue)) = bench() else { return };
    let mut memory = queue.allocate(64).unwrap();
    let from = memory.spot(&queue).unwrap();
    let mut bytes = [0_u8; 128];
    for (offset, len) in [(0, 128), (64, 1), (u64::MAX, 2)] {
        let from = Spot { offset, ..from };
        let region = Region { from, to: host(&mut bytes), len };
        let error = unsafe { queue.copy(Route::ToHost, &[region]) }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert_eq!(error.device(), Some(bench.id()));
    }
    // An empty copy is none.
    let region = Region { from, to: host(&mut bytes), len: 0 };
    unsafe { queue.copy(Route::ToHost, &[region]) }.unwrap();
    queue.synchronize().unwrap();
}

#[test]
fn an_array_is_read_in_place_where_the_host_sees_it() {
    for placement in [Placement::HostVisible, Placement::DeviceOnly] {
        let Some(bench) = Bench::with(placement) else { return };
        let there = numbers().copy_to(&bench.open_queue().unwrap()).unwrap();
        match placement {
            Placement::HostVisible => {
                let plan = there.plan_copy(&Queue::host(), &Default::default()).unwrap();
                assert_eq!(plan.hops().first().unwrap().way, Way::HostCopy);
                let read = there.host().unwrap();
                assert_eq!(read.buffer(1).unwrap()[8..12], 7_i32.to_ne_bytes());
            }
            _ => assert_eq!(there.host().unwrap_err().kind(), ErrorKind::Unsupported),
        }
    }
}

#[test]
fn memory_that_copies_are_fast_with_is_used_directly() {
    let Some((bench, queue)) = bench() else { return };
    let driver = bench.driver();
    let staging = unsafe { driver.allocate_staging(4096) }.unwrap().unwrap();
    let mut memory = queue.allocate(64).unwrap();
    let on_device = memory.spot(&queue).unwrap();
    let pinned = Spot { base: Raw::from_ptr(staging.as_ptr().cast()), offset: 100 };
    unsafe { staging.add(100).write_bytes(9, 64) };
    let [there, back] = [(pinned, on_device), (on_device, Spot { offset: 1000, ..pinned })]
        .map(|(from, to)| [Region { from, to, len: 64 }]);
    unsafe { queue.copy(Route::FromHost, &there) }.unwrap();
    unsafe { queue.copy(Route::ToHost, &back) }.unwrap();
    queue.synchronize().unwrap();
    let read = unsafe { std::slice::from_raw_parts(staging.add(1000).as_ptr(), 64) };
    assert_eq!(read, [9; 64]);
    unsafe { driver.free_staging(staging, 4096) };
}

/// A `VkBuffer` that an application made, with memory of its own.
struct Foreign {
    vulkan: Arc<Vulkan>,
    buffer: api::Buffer,
    memory: api::DeviceMemory,
    mapped: *mut c_void,
}

unsafe impl Send for Foreign {}
unsafe impl Sync for Foreign {}

impl Foreign {
    /// At this offset of a memory that is larger.
    fn new(vulkan: &Arc<Vulkan>, offset: u64, len: u64) -> Self {
        let device = &vulkan.device;
        let usage = api::BufferUsageFlags::STORAGE_BUFFER
            | api::BufferUsageFlags::TRANSFER_SRC
            | api::BufferUsageFlags::TRANSFER_DST;
        let info = api::BufferCreateInfo::default().size(len).usage(usage);
        let info_of_memory =
            api::MemoryAllocateInfo::default().allocation_size(offset + len + 4096);
        unsafe {
            let buffer = device.create_buffer(&info, None).unwrap();
            let memory = device.allocate_memory(&info_of_memory, None).unwrap();
            device.bind_buffer_memory(buffer, memory, offset).unwrap();
            let mapped = device
                .map_memory(memory, offset, api::WHOLE_SIZE, api::MemoryMapFlags::empty())
                .unwrap();
            Self { vulkan: vulkan.clone(), buffer, memory, mapped }
        }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        unsafe {
            self.vulkan.device.destroy_buffer(self.buffer, None);
            self.vulkan.device.free_memory(self.memory, None);
        }
    }
}

/// Of somebody else's buffer only the handle is known.
#[test]
fn buffers_that_others_made_are_read_through_staging() {
    for placement in [Placement::HostVisible, Placement::DeviceOnly] {
        let Some(bench) = Bench::with(placement) else { return };
        let queue = bench.open_queue().unwrap();
        let foreign = Foreign::new(bench.vulkan(), 0, 64);
        unsafe { foreign.mapped.cast::<i32>().copy_from([5, 6, 7].as_ptr(), 3) };
        let base = Raw::from_bits(foreign.buffer.as_raw() as usize);
        let mut memory = unsafe { Memory::adopt(&bench, base, 64, foreign) };
        unsafe { memory.assume_written(64) };
        let buffers = [None, Some(memory.into_buffer())];
        let array = Array::builder(DataType::Int32).len(3).buffers(buffers).finish_ready().unwrap();
        let expected = Array::from_values(DataType::Int32, [5, 6, 7].map(Some)).unwrap();
        // By one list of copies, and not one mapping after the other.
        let plan = array.plan_copy(&Queue::host(), &Default::default()).unwrap();
        assert_eq!(plan.hops().first().unwrap().way, Way::ToHost);
        assert_is(&array.to_host().unwrap(), &expected);
        assert_is(&array.slice(1, 1).unwrap().to_host().unwrap(), &expected.slice(1, 1).unwrap());
        let copy = array.copy_with(&queue, &arrow_device::copy::Options::new().always(true));
        assert_is(&copy.unwrap().to_host().unwrap(), &expected);
        if placement == Placement::HostVisible {
            let read = array.host().unwrap();
            assert_eq!(read.buffer(1).unwrap()[4..8], 6_i32.to_ne_bytes());
        }
    }
}

#[test]
fn an_application_allocates_by_itself() {
    for is_mapped in [true, false] {
        let Some(bench) = Bench::new() else { return };
        let made = Arc::new(AtomicUsize::new(0));
        let (vulkan, count) = (bench.vulkan().clone(), made.clone());
        let device = bench.with_allocator(move |device: &Device, len: u64, _: Option<&Queue>| {
            count.fetch_add(1, Ordering::Relaxed);
            let foreign = Foreign::new(&vulkan, 1024, len);
            let binding = Binding {
                buffer: foreign.buffer.as_raw(),
                memory: foreign.memory.as_raw(),
                offset: 1024,
                len,
                mapped: NonNull::new(foreign.mapped).filter(|_| is_mapped),
            };
            unsafe { adopt_memory(device, binding, foreign) }
        });
        let there = numbers().copy_to(&device.open_queue().unwrap()).unwrap();
        assert_eq!(made.load(Ordering::Relaxed), 1);
        assert!(device.held().allocated > 0);
        assert_is(&there.to_host().unwrap(), &numbers());
        drop(there);
        assert!(release_until(|| device.held().allocated == 0));
    }
}

// Requirement: SAF-8
#[test]
fn the_host_does_not_fill_memory_that_a_queue_still_reads() {
    for placement in [Placement::HostVisible, Placement::DeviceOnly] {
        let Some(bench) = Bench::with(placement) else { return };
        trips::an_allocator_gives_what_its_queue_still_reads(
            &bench,
            |_| HostEventGate::before(bench.vulkan()).unwrap(),
            |mut gate| gate.open().unwrap(),
        );
    }
}

#[test]
fn what_cannot_be_adopted_is_refused() {
    let Some((bench, _)) = bench() else { return };
    for (buffer, memory, offset, len) in [(0, 1, 0, 64), (1, 0, 0, 64), (1, 1, 3, 64), (1, 1, 0, 0)]
    {
        let binding = Binding { buffer, memory, offset, len, mapped: None };
        let error = unsafe { adopt_memory(&bench, binding, ()) }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    // Without what it is bound to, no part of it can get a buffer of its own.
    let error = unsafe { bench.driver().part(Raw::from_bits(0x1230), 0, 64) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("adopt_memory"), "{error}");
}

#[test]
fn dlpack_has_a_number_for_the_device() {
    let Some((bench, queue)) = bench() else { return };
    let there = dlpack::dl_device(bench.id()).unwrap();
    assert_eq!(there.device_type.0, DeviceType::VULKAN.0);
    assert_eq!(dlpack::device_id(there).unwrap(), bench.id());
    drop(queue);
}

#[test]
fn parts_of_a_buffer_become_columns() {
    let Some((_device, queue)) = bench() else { return };
    trips::columns_in_one_allocation(&queue);
}
