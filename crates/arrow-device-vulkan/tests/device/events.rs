//! Order and events: work that is held back, events of others, and what is kept until when.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::driver::{Raw, Region, Route, Spot, SyncEvent, Waiting};
use arrow_device::{Array, DataType, ErrorKind, Event, Queue, Ready};
use arrow_device_testkit::application::vulkan::{HostEventGate, Vulkan};
use arrow_device_testkit::release_until;
use arrow_device_vulkan::{Handles, Placement, open_from};
use ash::vk::Handle;

use crate::shader::handles;
use crate::support;
use crate::support::Bench;

const SIZE: usize = 256;
const BOTH: [Placement; 2] = [Placement::HostVisible, Placement::DeviceOnly];

fn host(bytes: &[u8]) -> Spot {
    Spot { base: Raw::from_ptr(bytes.as_ptr().cast_mut().cast()), offset: 0 }
}

fn submit(queue: &Queue, route: Route<'_>, from: Spot, to: Spot) {
    let region = Region { from, to, len: SIZE as u64 };
    unsafe { queue.copy(route, &[region]) }.unwrap();
}

/// An array of so many bytes 7, which is still to be written when the gate opens.
fn gated(vulkan: &Arc<Vulkan>, queue: &Queue) -> (Array, HostEventGate) {
    let mut memory = queue.allocate(SIZE as u64).unwrap();
    memory.write(queue, &[0xff; SIZE]).unwrap();
    let to = memory.spot(queue).unwrap();
    let gate = HostEventGate::before(vulkan).unwrap();
    static SEVENS: [u8; SIZE] = [7; SIZE];
    submit(queue, Route::FromHost, host(&SEVENS), to);
    let buffers = [None, Some(memory.into_buffer())];
    let array = Array::builder(DataType::UInt8).len(SIZE).buffers(buffers);
    (array.finish_on(queue).unwrap(), gate)
}

/// The first bytes of an array, read on a queue.
fn read_on(queue: &Queue, array: &Array) -> Vec<u8> {
    let bytes = vec![0; SIZE];
    let view = array.on(queue).unwrap();
    submit(queue, Route::ToHost, view.buffer(1).location().spot(), host(&bytes));
    drop(view);
    queue.synchronize().unwrap();
    bytes
}

// Requirement: ARR-20
#[test]
fn an_event_passes_when_its_work_has() {
    let Some(bench) = Bench::new() else { return };
    let queue = bench.open_queue().unwrap();
    let mut gate = HostEventGate::before(bench.vulkan()).unwrap();
    let event = queue.record().unwrap();
    assert!(!event.is_complete().unwrap() && !queue.is_idle().unwrap());
    assert!(!event.wait_timeout(Duration::from_millis(5)).unwrap());
    gate.open().unwrap();
    event.synchronize().unwrap();
    assert!(event.is_complete().unwrap() && event.wait_timeout(Duration::ZERO).unwrap());
    // And so do others see it.
    let raw = ash::vk::Event::from_raw(event.raw().bits() as u64);
    assert!(unsafe { bench.vulkan().device.get_event_status(raw) }.unwrap());
    queue.synchronize().unwrap();
    // An empty queue says so as soon as the driver gets to it.
    assert!((0..10_000).any(|_| queue.is_idle().unwrap()));
}

// Requirement: ARR-5, ARR-20
#[test]
fn a_queue_gets_the_data_and_no_host_waits() {
    for placement in BOTH {
        let Some(bench) = Bench::with(placement) else { return };
        let [producer, consumer] = [(); 2].map(|()| bench.open_queue().unwrap());
        let (array, mut gate) = gated(bench.vulkan(), &producer);
        assert_eq!((array.ready(), array.is_ready().unwrap()), (Ready::AfterEvent, false));
        let bytes = vec![0; SIZE];
        let view = array.on(&consumer).unwrap();
        submit(&consumer, Route::ToHost, view.buffer(1).location().spot(), host(&bytes));
        drop(view);
        assert!(!consumer.is_idle().unwrap());
        assert_eq!(bytes, [0; SIZE]);
        gate.open().unwrap();
        consumer.synchronize().unwrap();
        assert_eq!(bytes, [7; SIZE]);
    }
}

// Requirement: ARR-5, ARR-20
#[test]
fn what_the_host_reads_in_place_is_waited_for() {
    let Some(bench) = Bench::with(Placement::HostVisible) else { return };
    let queue = bench.open_queue().unwrap();
    let (array, mut gate) = gated(bench.vulkan(), &queue);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| array.host().unwrap().buffer(1).unwrap().to_vec());
        assert!(!array.is_ready().unwrap() && !reading.is_finished());
        gate.open().unwrap();
        assert_eq!(reading.join().unwrap(), [7; SIZE]);
    });
}

/// What the application submits itself is in the order of the queue, on both sides of what the
/// library submits.
#[test]
fn work_of_the_application_is_in_the_order_of_the_queue() {
    let Some(bench) = Bench::with(Placement::DeviceOnly) else { return };
    let (vulkan, queue) = (bench.vulkan(), bench.open_queue().unwrap());
    let mut memory = queue.allocate(SIZE as u64).unwrap();
    let spot = memory.spot(&queue).unwrap();
    let buffer = ash::vk::Buffer::from_raw(spot.base.bits() as u64);
    for round in 1..20 {
        let mut gate = HostEventGate::before(vulkan).unwrap();
        let value = u32::from_ne_bytes([round; 4]);
        let (pool, fill) = vulkan
            .record(&|commands| unsafe {
                vulkan.device.cmd_fill_buffer(commands, buffer, 0, ash::vk::WHOLE_SIZE, value);
            })
            .unwrap();
        let first = vec![0xff; SIZE];
        submit(&queue, Route::FromHost, host(&first), spot);
        vulkan.submit(&[fill]).unwrap();
        let bytes = vec![0; SIZE];
        submit(&queue, Route::ToHost, spot, host(&bytes));
        let event = queue.record().unwrap();
        assert!(!event.is_complete().unwrap());
        gate.open().unwrap();
        event.synchronize().unwrap();
        assert_eq!(bytes, [round; SIZE]);
        unsafe { vulkan.device.destroy_command_pool(pool, None) };
    }
}

// Requirement: ARR-16, ARR-20
#[test]
fn memory_is_kept_until_the_queue_has_passed() {
    let Some(bench) = Bench::new() else { return };
    let queue = bench.open_queue().unwrap();
    let (made, mut gate) = gated(bench.vulkan(), &queue);
    let mut c_array = ArrowDeviceArray::empty();
    made.export(&mut c_array).unwrap();
    let array = unsafe { Array::import(&mut c_array, &made.schema().unwrap()) }.unwrap();
    drop(made);
    drop(array.on(&queue).unwrap());
    drop(array);
    for _ in 0..100 {
        arrow_device::deferred::release_finished();
    }
    assert_eq!(bench.held().allocated, SIZE as u64);
    gate.open().unwrap();
    assert!(release_until(|| bench.held().allocated == 0));
}

/// An array that somebody else made with Vulkan alone: its own event, set by commands behind a full
/// barrier.
fn foreign(bench: &Bench, array: &Array) -> (ArrowDeviceArray, Box<u64>, impl FnOnce() + use<>) {
    let vulkan = bench.vulkan().clone();
    let info = ash::vk::EventCreateInfo::default();
    let event = unsafe { vulkan.device.create_event(&info, None) }.unwrap();
    let mut c_array = ArrowDeviceArray::empty();
    array.export(&mut c_array).unwrap();
    let mut variable = Box::new(event.as_raw());
    c_array.sync_event = (&raw mut *variable).cast::<c_void>();
    (c_array, variable, move || unsafe { vulkan.device.destroy_event(event, None) })
}

/// Submits commands that set an event behind everything.
fn set_by_commands(vulkan: &Vulkan, event: u64) -> ash::vk::CommandPool {
    let all = ash::vk::PipelineStageFlags::ALL_COMMANDS;
    let (pool, set) = vulkan
        .record(&|commands| unsafe {
            vulkan.device.cmd_set_event(commands, ash::vk::Event::from_raw(event), all);
        })
        .unwrap();
    vulkan.submit(&[set]).unwrap();
    pool
}

// Requirement: ARR-5, ARR-20
#[test]
fn a_foreign_event_is_waited_for_by_a_command_and_by_the_host() {
    let Some(bench) = Bench::with(Placement::HostVisible) else { return };
    let queue = bench.open_queue().unwrap();
    for on_queue in [true, false] {
        let (array, first_gate) = gated(bench.vulkan(), &queue);
        drop(first_gate);
        array.wait().unwrap();
        let (mut c_array, variable, destroy) = foreign(&bench, &array);
        let mut gate = HostEventGate::before(bench.vulkan()).unwrap();
        let pool = set_by_commands(bench.vulkan(), *variable);
        let again = unsafe { Array::import(&mut c_array, &array.schema().unwrap()) }.unwrap();
        assert!(!again.is_ready().unwrap());
        if on_queue {
            // The command is submitted, and this thread is not held up.
            drop(again.on(&queue).unwrap());
            assert!(!queue.is_idle().unwrap());
            gate.open().unwrap();
            assert_eq!(read_on(&queue, &again), [7; SIZE]);
        } else {
            std::thread::scope(|scope| {
                let reading = scope.spawn(|| again.host().unwrap().buffer(1).unwrap().to_vec());
                assert!(!again.is_ready().unwrap() && !reading.is_finished());
                gate.open().unwrap();
                assert_eq!(reading.join().unwrap(), [7; SIZE]);
            });
        }
        queue.synchronize().unwrap();
        drop((again, gate));
        unsafe { bench.vulkan().device.destroy_command_pool(pool, None) };
        destroy();
    }
}

/// The application may have queues that it did not give, and an event may not cross queues.
// Requirement: ARR-5, ARR-20
#[test]
fn the_host_waits_for_a_foreign_event_that_another_queue_may_set() {
    let Some(vulkan) = support::vulkan() else { return };
    let given = handles(&vulkan);
    let lock = given.queues.first().unwrap().lock.clone();
    let some = Handles::new(given.instance, given.physical_device, given.device)
        .with_queue(vulkan.queue.as_raw(), vulkan.family, lock)
        .kept_by(vulkan.clone());
    drop(given);
    let device = unsafe { open_from(some, Placement::Automatic) }.unwrap();
    let queue = device.open_queue().unwrap();
    let raw = unsafe { vulkan.device.create_event(&Default::default(), None) }.unwrap();
    let handle = Raw::from_bits(raw.as_raw() as usize);
    let waiting = unsafe { device.driver().wait(queue.raw(), handle) }.unwrap();
    assert_eq!(waiting, Waiting::HostMustWait);
    let event = unsafe { Event::adopt(&device, handle) };
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| queue.wait(&event));
        assert!(!event.is_complete().unwrap() && !waits.is_finished());
        unsafe { vulkan.device.set_event(raw) }.unwrap();
        waits.join().unwrap().unwrap();
    });
    // Its own events it waits for by order.
    let own = queue.record().unwrap();
    let waiting = unsafe { device.driver().wait(queue.raw(), own.raw()) }.unwrap();
    assert_eq!(waiting, Waiting::Queued);
    drop((event, own));
    unsafe { vulkan.device.destroy_event(raw, None) };
    drop((queue, device));
    support::finish(vulkan);
}

/// The layer wants to know the stages of an event beforehand, and this one is set by the host
/// behind its back.
// Requirement: ARR-5, ARR-20
#[test]
fn a_queue_waits_for_an_event_that_nobody_has_set_yet() {
    if !support::is_there() {
        return;
    }
    let vulkan = Vulkan::new(false).unwrap();
    let device = unsafe { open_from(handles(&vulkan), Placement::Automatic) }.unwrap();
    let queue = device.open_queue().unwrap();
    let raw = unsafe { vulkan.device.create_event(&Default::default(), None) }.unwrap();
    let event = unsafe { Event::adopt(&device, Raw::from_bits(raw.as_raw() as usize)) };
    queue.wait(&event).unwrap();
    let behind = queue.record().unwrap();
    assert!(!behind.wait_timeout(Duration::from_millis(20)).unwrap());
    assert!(!event.wait_timeout(Duration::from_millis(1)).unwrap());
    unsafe { vulkan.device.set_event(raw) }.unwrap();
    behind.synchronize().unwrap();
    event.synchronize().unwrap();
    // Once it is set, nothing has to be submitted for it.
    queue.wait(&event).unwrap();
    queue.synchronize().unwrap();
    drop(event);
    unsafe { vulkan.device.destroy_event(raw, None) };
}

#[test]
fn a_pointer_to_no_event_is_malformed() {
    let Some(bench) = Bench::new() else { return };
    let queue = bench.open_queue().unwrap();
    let array = Array::from_values(DataType::Int32, [Some(1)]).unwrap().copy_to(&queue).unwrap();
    let mut c_array = ArrowDeviceArray::empty();
    array.export(&mut c_array).unwrap();
    let mut variable = 0_u64;
    c_array.sync_event = (&raw mut variable).cast::<c_void>();
    let again = unsafe { Array::import(&mut c_array, &array.schema().unwrap()) }.unwrap();
    assert_eq!(again.on(&queue).unwrap_err().kind(), ErrorKind::Malformed);
    assert!(
        matches!(queue.record().unwrap().sync_event().unwrap(), SyncEvent::Handle(event) if !event.is_null())
    );
}

/// A `VkEvent` may be destroyed only when what sets it is over, and the layer watches.
#[test]
fn events_that_are_let_go_of_early_are_destroyed_later() {
    let Some(bench) = Bench::new() else { return };
    let queue = bench.open_queue().unwrap();
    let mut gate = HostEventGate::before(bench.vulkan()).unwrap();
    for _ in 0..50 {
        drop(queue.record().unwrap());
    }
    gate.open().unwrap();
    queue.synchronize().unwrap();
}

/// Otherwise that it says nothing would mean nothing.
#[test]
fn the_validation_layer_finds_what_lacks_a_barrier() {
    let Some(bench) = Bench::new() else { return };
    drop(bench);
    if !Vulkan::has_layer() {
        return;
    }
    let vulkan = Vulkan::new(true).unwrap();
    let messages = vulkan.messages();
    let device = unsafe { open_from(handles(&vulkan), Placement::Automatic) }.unwrap();
    let queue = device.open_queue().unwrap();
    let mut memory = queue.allocate(64).unwrap();
    let buffer = ash::vk::Buffer::from_raw(memory.spot(&queue).unwrap().base.bits() as u64);
    let (pool, _) = vulkan
        .record(&|commands| {
            for value in [1, 2] {
                unsafe { vulkan.device.cmd_fill_buffer(commands, buffer, 0, 64, value) };
            }
        })
        .unwrap();
    unsafe { vulkan.device.destroy_command_pool(pool, None) };
    let found = messages.lock().unwrap().join("\n");
    assert!(found.contains("SYNC-HAZARD-WRITE-AFTER-WRITE"), "{found}");
}
