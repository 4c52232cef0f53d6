//! Order and events: user events, failures, queues out of order, and who holds which reference.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::driver::{HostAccess, Raw, Region, Route, Spot, SyncEvent};
use arrow_device::{Array, DataType, Device, ErrorKind, Event, Queue, Ready};
use arrow_device_testkit::application::opencl::{Cl, ClHandle, UserEventGate};
use arrow_device_testkit::release_until;

use crate::support;

const MEMORY_REFERENCES: u32 = 0x1105;
const EVENT_REFERENCES: u32 = 0x11d2;
const QUEUE_REFERENCES: u32 = 0x1092;
const SIZE: usize = 256;

fn bench() -> Option<(Cl, Device, Queue)> {
    let device = support::device()?;
    let queue = device.open_queue().unwrap();
    Some((Cl::load().unwrap(), device, queue))
}

fn host(bytes: &[u8]) -> Spot {
    Spot { base: Raw::from_ptr(bytes.as_ptr().cast_mut().cast()), offset: 0 }
}

fn submit(queue: &Queue, route: Route<'_>, from: Spot, to: Spot) {
    let region = Region { from, to, len: SIZE as u64 };
    unsafe { queue.copy(route, &[region]) }.unwrap();
}

/// An array of so many bytes 7, which is still to be written when the gate opens.
fn gated<'cl>(cl: &'cl Cl, queue: &Queue) -> (Array, UserEventGate<'cl>) {
    let mut memory = queue.allocate(SIZE as u64).unwrap();
    memory.write(queue, &[0xff; SIZE]).unwrap();
    let to = memory.spot(queue).unwrap();
    let gate = UserEventGate::before(cl, queue.raw().as_ptr()).unwrap();
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

struct Tell(std::sync::Mutex<std::sync::mpsc::Sender<()>>);

impl std::task::Wake for Tell {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.lock().unwrap().send(()).unwrap();
    }
}

/// A waker, and who is told of it.
fn telling() -> (std::task::Waker, std::sync::mpsc::Receiver<()>) {
    let (tell, told) = std::sync::mpsc::channel();
    (std::sync::Arc::new(Tell(std::sync::Mutex::new(tell))).into(), told)
}

fn poll_once<F: Future + Unpin>(
    future: &mut F,
    waker: &std::task::Waker,
) -> std::task::Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut std::task::Context::from_waker(waker))
}

// Requirement: SAF-40
#[test]
fn whoever_awaits_an_event_is_told_by_the_runtime() {
    let Some((cl, _, queue)) = bench() else { return };
    let (array, mut gate) = gated(&cl, &queue);
    let (waker, told) = telling();
    let mut ready = array.until_ready();
    let mut fetched = array.to_host_async();
    assert!(poll_once(&mut ready, &waker).is_pending());
    assert!(poll_once(&mut fetched, &waker).is_pending());
    assert!(told.recv_timeout(Duration::from_millis(30)).is_err(), "told too early");
    gate.open().unwrap();
    told.recv_timeout(Duration::from_secs(20)).unwrap();
    arrow_device::async_stream::block_on(ready).unwrap();
    let fetched = arrow_device::async_stream::block_on(fetched).unwrap();
    let sevens = Array::from_values(DataType::UInt8, [Some(7_u8); SIZE]).unwrap();
    assert!(fetched.equals(&sevens).unwrap());
}

// Requirement: SAF-40
#[test]
fn an_awaited_event_may_go_before_the_runtime_tells_of_it() {
    let Some((cl, _, queue)) = bench() else { return };
    for _ in 0..20 {
        let (array, mut gate) = gated(&cl, &queue);
        let (waker, told) = telling();
        let event = queue.record().unwrap();
        let mut awaited = event.into_future();
        assert!(poll_once(&mut awaited, &waker).is_pending());
        drop((awaited, waker));
        gate.open().unwrap();
        array.wait().unwrap();
        assert!(told.recv_timeout(Duration::from_millis(1)).is_err(), "nobody waits any more");
    }
}

#[test]
fn whoever_awaits_failed_work_gets_the_error() {
    let Some((cl, _, queue)) = bench() else { return };
    let (_variable, mut gate, array) = behind_user_event(&cl, &queue);
    let mut ready = array.until_ready();
    let (waker, told) = telling();
    assert!(poll_once(&mut ready, &waker).is_pending());
    gate.end(-5).unwrap();
    told.recv_timeout(Duration::from_secs(20)).unwrap();
    let error = arrow_device::async_stream::block_on(ready).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WorkFailed);
}

// Requirement: ARR-20
#[test]
fn an_event_passes_when_its_work_has() {
    let Some((cl, _, queue)) = bench() else { return };
    let mut gate = UserEventGate::before(&cl, queue.raw().as_ptr()).unwrap();
    let event = queue.record().unwrap();
    assert!(!event.is_complete().unwrap() && !queue.is_idle().unwrap());
    assert!(!event.wait_timeout(Duration::from_millis(5)).unwrap());
    gate.open().unwrap();
    event.synchronize().unwrap();
    assert!(event.is_complete().unwrap() && event.wait_timeout(Duration::ZERO).unwrap());
    queue.synchronize().unwrap();
    // An empty queue says so as soon as the driver gets to it.
    assert!((0..10_000).any(|_| queue.is_idle().unwrap()));
}

// Requirement: ARR-5, ARR-20
#[test]
fn a_queue_waits_for_another_one_and_no_host_does() {
    let Some((cl, device, producer)) = bench() else { return };
    let consumer = device.open_queue().unwrap();
    let (array, mut gate) = gated(&cl, &producer);
    assert_eq!((array.ready(), array.is_ready().unwrap()), (Ready::AfterEvent, false));
    let bytes = vec![0; SIZE];
    let view = array.on(&consumer).unwrap();
    submit(&consumer, Route::ToHost, view.buffer(1).location().spot(), host(&bytes));
    drop(view);
    assert!(!consumer.is_idle().unwrap());
    gate.open().unwrap();
    consumer.synchronize().unwrap();
    assert_eq!(bytes, [7; SIZE]);
}

// Requirement: ARR-20
#[test]
fn the_exporter_holds_one_reference_and_the_importer_none() {
    let Some((cl, device, producer)) = bench() else { return };
    let consumer = device.open_queue().unwrap();
    let mut memory = producer.allocate(64).unwrap();
    memory.write(&producer, &[1; 64]).unwrap();
    let handle = memory.spot(&producer).unwrap().base.as_ptr();
    let buffers = [None, Some(memory.into_buffer())];
    let made = Array::builder(DataType::UInt8).len(64).buffers(buffers);
    let made = made.finish_on(&producer).unwrap();
    let mut c_array = ArrowDeviceArray::empty();
    made.export(&mut c_array).unwrap();
    producer.synchronize().unwrap();
    let event = unsafe { *c_array.sync_event.cast::<ClHandle>() };
    // One more of each is the test's, to ask after all others are gone.
    cl.call("clRetainMemObject", handle).unwrap();
    cl.call("clRetainEvent", event).unwrap();
    let references = || {
        let memory = cl.references("clGetMemObjectInfo", handle, MEMORY_REFERENCES).unwrap();
        (memory, cl.references("clGetEventInfo", event, EVENT_REFERENCES).unwrap())
    };
    // The driver lets go of its own when it gets to it, and the library of what waits for a queue
    // when it is called.
    let settle = |expected: (u32, u32)| {
        let start = Instant::now();
        while references() != expected && start.elapsed() < Duration::from_secs(10) {
            producer.synchronize().unwrap();
            arrow_device::deferred::release_finished();
        }
        assert_eq!(references(), expected);
    };
    settle((2, 2));
    let array = unsafe { Array::import(&mut c_array, &made.schema().unwrap()) }.unwrap();
    drop(made);
    assert_eq!(references(), (2, 2));
    array.on(&consumer).unwrap();
    consumer.synchronize().unwrap();
    settle((2, 2));
    drop(array);
    settle((1, 1));
    cl.call("clReleaseMemObject", handle).unwrap();
    cl.call("clReleaseEvent", event).unwrap();
}

/// OpenCL does not say that an event holds its queue, which is flushed for whoever asks the event.
// Requirement: SAF-19
#[test]
fn an_event_holds_its_queue() {
    let Some((cl, device, queue)) = bench() else { return };
    let raw = queue.raw().as_ptr();
    let references = || cl.references("clGetCommandQueueInfo", raw, QUEUE_REFERENCES).unwrap();
    // What the runtime does by itself.
    let before = references();
    let plain = cl.record(raw).unwrap();
    let by_itself = references() - before;
    cl.call("clFinish", raw).unwrap();
    cl.call("clReleaseEvent", plain).unwrap();
    let settled = || {
        cl.call("clFinish", raw).unwrap();
        references()
    };
    assert!(release_until(|| settled() == before));
    let event = queue.record().unwrap();
    assert_eq!(references() - before, by_itself + 1);
    drop(event);
    assert!(release_until(|| settled() == before));
    // So does that of memory which the host filled.
    let array = Array::from_values(DataType::Int32, [Some(1)]).unwrap().copy_to(&queue).unwrap();
    array.wait().unwrap();
    if device.properties().host_access == HostAccess::Mapped {
        assert!(settled() > before + by_itself);
    }
    drop(array);
    assert!(release_until(|| settled() == before));
}

/// A queue is closed while others ask what was recorded on it.
// Requirement: SAF-19
#[test]
fn an_event_is_asked_while_its_queue_is_closed() {
    let Some((cl, device, _)) = bench() else { return };
    for _ in 0..50 {
        let queue = device.open_queue().unwrap();
        let mut gate = UserEventGate::before(&cl, queue.raw().as_ptr()).unwrap();
        let event = queue.record().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| while !event.is_complete().unwrap() {});
            }
            drop(queue);
            gate.open().unwrap();
        });
    }
}

#[test]
fn a_failed_event_is_an_error_with_its_status() {
    let Some((cl, device, queue)) = bench() else { return };
    let mut gate = UserEventGate::alone(&cl, cl.home_of(queue.raw().as_ptr()).unwrap().0).unwrap();
    let event = unsafe { Event::adopt(&device, Raw::from_ptr(gate.event())) };
    assert!(!event.is_complete().unwrap());
    gate.end(-77).unwrap();
    for result in [
        event.synchronize(),
        event.wait_timeout(Duration::from_secs(1)).map(drop),
        queue.wait(&event),
        event.is_complete().map(drop),
    ] {
        let error = result.unwrap_err();
        assert_eq!((error.kind(), error.vendor().unwrap().code), (ErrorKind::WorkFailed, -77));
        assert_eq!(error.device(), Some(device.id()));
    }
    // The queue goes on.
    let array = Array::from_values(DataType::Int32, [Some(1)]).unwrap();
    array.copy_to(&queue).unwrap().to_host().unwrap();
}

// Commands that were queued behind an event before it failed are not tried: PoCL 3.1 ends the
// process then.
#[test]
fn whoever_waits_when_an_event_fails_is_told() {
    let Some((cl, device, queue)) = bench() else { return };
    let mut gate = UserEventGate::alone(&cl, cl.home_of(queue.raw().as_ptr()).unwrap().0).unwrap();
    let event = unsafe { Event::adopt(&device, Raw::from_ptr(gate.event())) };
    std::thread::scope(|scope| {
        let waiting = [
            scope.spawn(|| event.synchronize()),
            scope.spawn(|| event.wait_timeout(Duration::from_secs(60)).map(drop)),
        ];
        gate.end(-77).unwrap();
        for waiting in waiting {
            let error = waiting.join().unwrap().unwrap_err();
            assert_eq!((error.kind(), error.vendor().unwrap().code), (ErrorKind::WorkFailed, -77));
        }
    });
}

// Requirement: ARR-5, ARR-20, DRV-4
#[test]
fn an_adopted_queue_that_is_out_of_order_is_kept_in_order() {
    let Some((cl, device, queue)) = bench() else { return };
    let (context, cl_device) = cl.home_of(queue.raw().as_ptr()).unwrap();
    let raw = cl.create_out_of_order_queue(context, cl_device).unwrap();
    let loose = unsafe { device.adopt_queue(Raw::from_ptr(raw)) };
    for round in 0..20 {
        // A chain of copies that goes wrong when any two of them change places.
        let mut memory = [(); 3].map(|()| loose.allocate(SIZE as u64).unwrap());
        for memory in &mut memory {
            memory.write(&loose, &[0xff; SIZE]).unwrap();
        }
        let [a, b, c] = memory.each_mut().map(|memory| memory.spot(&loose).unwrap());
        let (first, bytes) = (vec![round; SIZE], vec![0; SIZE]);
        let mut gate = UserEventGate::before(&cl, raw).unwrap();
        submit(&loose, Route::FromHost, host(&first), a);
        submit(&loose, Route::Within, a, b);
        submit(&loose, Route::Within, b, c);
        submit(&loose, Route::ToHost, c, host(&bytes));
        let event = loose.record().unwrap();
        assert!(!event.is_complete().unwrap());
        gate.open().unwrap();
        event.synchronize().unwrap();
        assert_eq!(bytes, first);
        // And behind an event of another queue.
        let (array, mut gate) = gated(&cl, &queue);
        let view = array.on(&loose).unwrap();
        submit(&loose, Route::Within, view.buffer(1).location().spot(), a);
        submit(&loose, Route::ToHost, a, host(&bytes));
        assert!(!loose.is_idle().unwrap());
        gate.open().unwrap();
        loose.synchronize().unwrap();
        assert_eq!(bytes, [7; SIZE]);
    }
    drop(loose);
    cl.call("clReleaseCommandQueue", raw).unwrap();
}

/// The variable that the `sync_event` of an array points to, an event that only the host can end,
/// and the array, whose data is there.
fn behind_user_event<'cl>(
    cl: &'cl Cl,
    queue: &Queue,
) -> (Box<ClHandle>, UserEventGate<'cl>, Array) {
    let (array, gate) = gated(cl, queue);
    drop(gate);
    array.wait().unwrap();
    let mut c_array = ArrowDeviceArray::empty();
    array.export(&mut c_array).unwrap();
    let gate = UserEventGate::alone(cl, cl.home_of(queue.raw().as_ptr()).unwrap().0).unwrap();
    let mut variable = Box::new(gate.event());
    c_array.sync_event = (&raw mut *variable).cast::<c_void>();
    let again = unsafe { Array::import(&mut c_array, &array.schema().unwrap()) }.unwrap();
    (variable, gate, again)
}

// Requirement: ARR-20
#[test]
fn a_foreign_user_event_is_waited_for() {
    let Some((cl, device, queue)) = bench() else { return };
    let (_variable, mut gate, again) = behind_user_event(&cl, &queue);
    let consumer = device.open_queue().unwrap();
    assert!(!again.is_ready().unwrap());
    drop(again.on(&consumer).unwrap());
    assert!(!consumer.is_idle().unwrap());
    gate.open().unwrap();
    assert_eq!(read_on(&consumer, &again), [7; SIZE]);
    drop(again);
}

// Requirement: SAF-39, DRV-19, DRV-27
#[test]
fn an_array_behind_an_event_that_failed_is_never_ready() {
    let Some((cl, device, queue)) = bench() else { return };
    let (_variable, mut gate, again) = behind_user_event(&cl, &queue);
    gate.end(-9999).unwrap();
    for _ in 0..2 {
        assert_eq!(again.is_ready().unwrap_err().kind(), ErrorKind::WorkFailed);
        assert_eq!(again.wait().unwrap_err().kind(), ErrorKind::WorkFailed);
        let consumer = device.open_queue().unwrap();
        assert_eq!(again.on(&consumer).map(drop).unwrap_err().kind(), ErrorKind::WorkFailed);
        assert_eq!(again.to_host().unwrap_err().kind(), ErrorKind::WorkFailed);
    }
}

#[test]
fn a_pointer_to_no_event_is_malformed() {
    let Some((_, device, queue)) = bench() else { return };
    let array = Array::from_values(DataType::Int32, [Some(1)]).unwrap().copy_to(&queue).unwrap();
    let mut c_array = ArrowDeviceArray::empty();
    array.export(&mut c_array).unwrap();
    let mut variable: ClHandle = std::ptr::null_mut();
    c_array.sync_event = (&raw mut variable).cast::<c_void>();
    let again = unsafe { Array::import(&mut c_array, &array.schema().unwrap()) }.unwrap();
    assert_eq!(again.on(&queue).unwrap_err().kind(), ErrorKind::Malformed);
    assert!(
        matches!(queue.record().unwrap().sync_event().unwrap(), SyncEvent::Handle(event) if !event.is_null())
    );
    drop(device);
}
