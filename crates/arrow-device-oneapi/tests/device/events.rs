//! Order and events: gates, foreign events, queues out of order, and work that fails.

use std::time::Duration;

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::driver::{Raw, Region, Route, Spot, SyncEvent, Waiting};
use arrow_device::{Array, DataType, Device, ErrorKind, Event, Queue, Ready};
use arrow_device_testkit::process;

use crate::support::{self, Gate, Handle, runtime};

const SIZE: usize = 256;

fn bench() -> Option<(Device, Queue)> {
    let device = support::device()?;
    let queue = device.open_queue().unwrap();
    runtime().has_gates().then_some((device, queue))
}

fn host(bytes: &[u8]) -> Spot {
    Spot { base: Raw::from_ptr(bytes.as_ptr().cast_mut().cast()), offset: 0 }
}

fn submit(queue: &Queue, route: Route<'_>, from: Spot, to: Spot) {
    let region = Region { from, to, len: SIZE as u64 };
    unsafe { queue.copy(route, &[region]) }.unwrap();
}

/// An array of so many bytes 7, which is still to be written when the gate opens.
fn gated(queue: &Queue) -> (Array, Gate) {
    let mut memory = queue.allocate(SIZE as u64).unwrap();
    memory.write(queue, &[0xff; SIZE]).unwrap();
    let to = memory.spot(queue).unwrap();
    let gate = Gate::before(queue);
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
    let Some((_, queue)) = bench() else { return };
    let mut gate = Gate::before(&queue);
    let event = queue.record().unwrap();
    assert!(!event.is_complete().unwrap() && !queue.is_idle().unwrap());
    assert!(!event.wait_timeout(Duration::from_millis(5)).unwrap());
    gate.open();
    event.synchronize().unwrap();
    assert!(event.is_complete().unwrap() && event.wait_timeout(Duration::ZERO).unwrap());
    queue.synchronize().unwrap();
    // An empty queue says so as soon as the runtime gets to it.
    assert!((0..10_000).any(|_| queue.is_idle().unwrap()));
}

// Requirement: ARR-5, ARR-20
#[test]
fn a_queue_waits_for_another_one_and_no_host_does() {
    let Some((device, producer)) = bench() else { return };
    let consumer = device.open_queue().unwrap();
    let (array, mut gate) = gated(&producer);
    assert_eq!((array.ready(), array.is_ready().unwrap()), (Ready::AfterEvent, false));
    let bytes = vec![0; SIZE];
    let view = array.on(&consumer).unwrap();
    submit(&consumer, Route::ToHost, view.buffer(1).location().spot(), host(&bytes));
    drop(view);
    assert!(!consumer.is_idle().unwrap());
    gate.open();
    consumer.synchronize().unwrap();
    assert_eq!(bytes, [7; SIZE]);
}

/// The convention: `sync_event` is the address of the `sycl::event` itself.
// Requirement: ARR-20, DRV-22
#[test]
fn an_exported_array_shows_the_event_itself() {
    let Some((device, queue)) = bench() else { return };
    let (array, mut gate) = gated(&queue);
    let mut c_array = ArrowDeviceArray::empty();
    array.export(&mut c_array).unwrap();
    let status: unsafe extern "C" fn(Handle) -> i32 =
        runtime().function("DPCTLEvent_GetCommandExecutionStatus");
    let shown = c_array.sync_event;
    assert!(matches!(unsafe { status(shown) }, 1 | 2));
    let again = unsafe { Array::import(&mut c_array, &array.schema().unwrap()) }.unwrap();
    assert!(!again.is_ready().unwrap());
    gate.open();
    let consumer = device.open_queue().unwrap();
    assert_eq!(read_on(&consumer, &again), [7; SIZE]);
    assert_eq!(unsafe { status(shown) }, 3);
}

/// An array whose `sync_event` is an event of the application's, which its own queue passes when
/// the gate opens. The queue and the event are to be given back.
fn behind_own_event(device: &Device, queue: &Queue) -> (Array, Gate, Handle, Handle) {
    let runtime = runtime();
    let (array, gate) = gated(queue);
    drop(gate);
    array.wait().unwrap();
    let mut c_array = ArrowDeviceArray::empty();
    array.export(&mut c_array).unwrap();
    let sycl_device = runtime.device(device.id().id as usize);
    let context = runtime.default_context(sycl_device);
    let own = runtime.new_queue(context, sycl_device, support::IN_ORDER);
    let gate = Gate::before_raw(own);
    let event = runtime.barrier(own);
    c_array.sync_event = event;
    let again = unsafe { Array::import(&mut c_array, &array.schema().unwrap()) }.unwrap();
    runtime.delete("Context", context);
    runtime.delete("Device", sycl_device);
    (again, gate, own, event)
}

// Requirement: ARR-20
#[test]
fn a_foreign_event_is_waited_for_and_not_deleted() {
    let Some((device, queue)) = bench() else { return };
    let (again, mut gate, own, event) = behind_own_event(&device, &queue);
    let consumer = device.open_queue().unwrap();
    assert!(!again.is_ready().unwrap());
    drop(again.on(&consumer).unwrap());
    assert!(!consumer.is_idle().unwrap());
    gate.open();
    assert_eq!(read_on(&consumer, &again), [7; SIZE]);
    drop(again);
    // The application's own.
    runtime().delete("Event", event);
    runtime().delete("Queue", own);
    runtime().assert_no_mistakes();
}

#[test]
fn an_address_that_no_event_can_have_is_malformed() {
    let Some((_, queue)) = bench() else { return };
    let array = Array::from_values(DataType::Int32, [Some(1)]).unwrap().copy_to(&queue).unwrap();
    let mut c_array = ArrowDeviceArray::empty();
    array.export(&mut c_array).unwrap();
    let variable = [0_u64; 2];
    c_array.sync_event = variable.as_ptr().cast_mut().cast::<u8>().wrapping_add(1).cast();
    let again = unsafe { Array::import(&mut c_array, &array.schema().unwrap()) }.unwrap();
    assert_eq!(again.on(&queue).unwrap_err().kind(), ErrorKind::Malformed);
    assert!(matches!(queue.record().unwrap().sync_event().unwrap(), SyncEvent::Address(_)));
}

// Requirement: ARR-5, ARR-20, DRV-4
#[test]
fn an_adopted_queue_that_is_out_of_order_is_kept_in_order() {
    let Some((device, queue)) = bench() else { return };
    let runtime = runtime();
    let sycl_device = runtime.device(0);
    let context = runtime.default_context(sycl_device);
    let raw = runtime.new_queue(context, sycl_device, 0);
    let loose = unsafe { device.adopt_queue(Raw::from_ptr(raw)) };
    for round in 0..20 {
        // A chain of copies that goes wrong when any two of them change places.
        let mut memory = [(); 3].map(|()| loose.allocate(SIZE as u64).unwrap());
        for memory in &mut memory {
            memory.write(&loose, &[0xff; SIZE]).unwrap();
        }
        let [a, b, c] = memory.each_mut().map(|memory| memory.spot(&loose).unwrap());
        let (first, bytes) = (vec![round; SIZE], vec![0; SIZE]);
        let mut gate = Gate::before_raw(raw);
        submit(&loose, Route::FromHost, host(&first), a);
        submit(&loose, Route::Within, a, b);
        submit(&loose, Route::Within, b, c);
        submit(&loose, Route::ToHost, c, host(&bytes));
        let event = loose.record().unwrap();
        assert!(!event.is_complete().unwrap());
        gate.open();
        event.synchronize().unwrap();
        assert_eq!(bytes, first);
        // The host waits for an event of another queue.
        let (array, mut gate) = gated(&queue);
        let event = queue.record().unwrap();
        let waiting = unsafe { device.driver().wait(loose.raw(), event.raw()) }.unwrap();
        assert_eq!(waiting, Waiting::HostMustWait);
        let bytes = std::thread::scope(|scope| {
            let reading = scope.spawn(|| read_on(&loose, &array));
            assert!(!event.is_complete().unwrap());
            gate.open();
            reading.join().unwrap()
        });
        assert_eq!(bytes, [7; SIZE]);
    }
    drop(loose);
    runtime.delete("Queue", raw);
    runtime.delete("Context", context);
    runtime.delete("Device", sycl_device);
    runtime.assert_no_mistakes();
}

// Requirement: DRV-5, DRV-16
#[test]
fn a_queue_may_be_closed_before_its_work_is_done() {
    let Some((device, queue)) = bench() else { return };
    let other = device.open_queue().unwrap();
    let (array, mut gate) = gated(&other);
    let event = other.record().unwrap();
    drop(other);
    assert!(!event.is_complete().unwrap());
    gate.open();
    event.synchronize().unwrap();
    assert_eq!(read_on(&queue, &array), [7; SIZE]);
}

/// dpctl tells no more of a failed event than that its status is unknown.
// Requirement: SAF-16
#[test]
fn work_of_which_nothing_is_known_is_an_error_and_its_memory_stays() {
    process::alone(|| {
        let Some(runtime) = support::simulated() else { return };
        let device = arrow_device_oneapi::open(0).unwrap();
        let (queue, other) = (device.open_queue().unwrap(), device.open_queue().unwrap());
        let mut memory = queue.allocate(SIZE as u64).unwrap();
        memory.write(&queue, &[0xff; SIZE]).unwrap();
        let to = memory.spot(&queue).unwrap();
        let fail: unsafe extern "C" fn() = runtime.function("simulated_sycl_fail_next");
        unsafe { fail() };
        static SEVENS: [u8; SIZE] = [7; SIZE];
        submit(&queue, Route::FromHost, host(&SEVENS), to);
        let buffers = [None, Some(memory.into_buffer())];
        let array = Array::builder(DataType::UInt8).len(SIZE).buffers(buffers);
        let array = array.finish_on(&queue).unwrap();
        let event = queue.record().unwrap();
        for error in [
            event.synchronize().unwrap_err(),
            event.wait_timeout(Duration::from_secs(20)).unwrap_err(),
            event.is_complete().unwrap_err(),
            queue.synchronize().unwrap_err(),
            array.wait().unwrap_err(),
            array.on(&other).map(drop).unwrap_err(),
            array.to_host().unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Driver, "{error}");
            assert!(error.message().contains("it may have failed"), "{error}");
        }
        drop((array, event));
        arrow_device::deferred::release_finished();
        assert_eq!(runtime.live(0), 1);
        // Other queues go on.
        other.synchronize().unwrap();
    });
}

// Requirement: DRV-20
#[test]
fn a_queue_is_told_to_wait_for_an_event_that_has_not_passed() {
    let Some((device, queue)) = bench() else { return };
    let consumer = device.open_queue().unwrap();
    let mut gate = Gate::before(&queue);
    let event: Event = queue.record().unwrap();
    let waiting = unsafe { device.driver().wait(consumer.raw(), event.raw()) }.unwrap();
    assert_eq!(waiting, Waiting::Queued);
    let behind = consumer.record().unwrap();
    assert!(!behind.wait_timeout(Duration::from_millis(5)).unwrap());
    gate.open();
    behind.synchronize().unwrap();
}
