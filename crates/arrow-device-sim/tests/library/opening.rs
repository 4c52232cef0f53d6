//! Arrays of devices that are opened later, or at the same time as another runtime's by their id.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use arrow_device::abi::dlpack::DLManagedTensorVersioned;
use arrow_device::abi::{ArrowArray, ArrowDeviceArray};
use arrow_device::copy::Options;
use arrow_device::dlpack::{Conversion, CopyPolicy, Managed, Order, Tensor};
use arrow_device::driver::{
    Driver, Properties, Raw, Readiness, Region, Route, Runtime, Spot, SyncEvent, Waiting, Watched,
    WatchedPlace,
};
use arrow_device::{
    Array, Batch, Buffer, DataType, Device, DeviceId, DeviceType, Error, ErrorKind, Event, Memory,
    Queue, Ready, Result, Schema, async_stream,
};
use arrow_device_sim::{Call, KernelMemory, Kind, Schedule, Sim};

/// A device of a simulator by an id of its own. Its memory may lie on a device of another id.
#[derive(Debug)]
pub(super) struct Renamed {
    pub(super) driver: Arc<dyn Driver>,
    pub(super) id: DeviceId,
    pub(super) properties: Properties,
    /// An id of which the device reaches the memory.
    pub(super) reached: Option<DeviceId>,
    /// The runtime that the device says it is of.
    pub(super) runtime: Option<Runtime>,
    /// Whether it tells whose memory is whose.
    pub(super) tells: bool,
    /// Whether it can say now what it reaches.
    pub(super) answers: Arc<AtomicBool>,
    /// Somebody who is told of each question what the device reaches, and waited for.
    pub(super) asking: Option<Asking>,
}

#[derive(Debug)]
pub(super) struct Asking {
    asked: mpsc::Sender<()>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

impl Renamed {
    pub(super) fn new(driver: Arc<dyn Driver>, id: DeviceId) -> Self {
        let properties = driver.properties().clone();
        let answers = Arc::new(AtomicBool::new(true));
        let (reached, runtime, tells, asking) = (None, None, true, None);
        Self { driver, id, properties, reached, runtime, tells, answers, asking }
    }
}

// SAFETY: another id for a device of a simulator; all operations are those of its driver.
unsafe impl Driver for Renamed {
    fn id(&self) -> DeviceId {
        self.id
    }

    fn runtime(&self) -> Runtime {
        self.runtime.unwrap_or_else(|| self.driver.runtime())
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn reaches(&self, memory: DeviceId) -> Result<()> {
        if let Some(Asking { asked, go_on }) = &self.asking
            && asked.send(()).is_ok()
        {
            let _ = go_on.lock().unwrap().recv_timeout(Duration::from_secs(20));
        }
        if !self.answers.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::NotReachable, "it does not say so yet"));
        }
        let is_own = memory == self.id || Some(memory) == self.reached;
        if is_own { Ok(()) } else { self.driver.reaches(memory) }
    }

    unsafe fn allocate(&self, len: u64, queue: Option<Raw<Queue>>) -> Result<Raw<Memory>> {
        unsafe { self.driver.allocate(len.next_multiple_of(self.properties.copy_unit), queue) }
    }

    unsafe fn free(&self, memory: Raw<Memory>, len: u64) {
        unsafe { self.driver.free(memory, len.next_multiple_of(self.properties.copy_unit)) }
    }

    fn watch(&self, what: Watched, places: &[WatchedPlace]) {
        self.driver.watch(what, places);
    }

    unsafe fn part(&self, memory: Raw<Memory>, offset: u64, len: u64) -> Result<Raw<Memory>> {
        assert!(len.is_multiple_of(self.properties.copy_unit), "a part of {len} bytes");
        unsafe { self.driver.part(memory, offset, len) }
    }

    unsafe fn free_part(&self, part: Raw<Memory>) {
        unsafe { self.driver.free_part(part) }
    }

    fn open_queue(&self) -> Result<Raw<Queue>> {
        self.driver.open_queue()
    }

    unsafe fn close_queue(&self, queue: Raw<Queue>) {
        unsafe { self.driver.close_queue(queue) }
    }

    unsafe fn synchronize(&self, queue: Raw<Queue>) -> Result<()> {
        unsafe { self.driver.synchronize(queue) }
    }

    unsafe fn is_idle(&self, queue: Raw<Queue>) -> Result<bool> {
        unsafe { self.driver.is_idle(queue) }
    }

    fn make_event(&self) -> Result<Raw<Event>> {
        self.driver.make_event()
    }

    unsafe fn destroy_event(&self, event: Raw<Event>) {
        unsafe { self.driver.destroy_event(event) }
    }

    unsafe fn record(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Raw<Event>> {
        unsafe { self.driver.record(queue, event) }
    }

    unsafe fn wait(&self, queue: Raw<Queue>, event: Raw<Event>) -> Result<Waiting> {
        unsafe { self.driver.wait(queue, event) }
    }

    unsafe fn is_complete(&self, event: Raw<Event>) -> Result<bool> {
        unsafe { self.driver.is_complete(event) }
    }

    unsafe fn wait_on_host(&self, event: Raw<Event>, timeout: Option<Duration>) -> Result<bool> {
        unsafe { self.driver.wait_on_host(event, timeout) }
    }

    fn sync_event(&self, event: Raw<Event>) -> Result<SyncEvent> {
        self.driver.sync_event(event)
    }

    unsafe fn read_sync_event(&self, sync_event: NonNull<c_void>) -> Result<Raw<Event>> {
        unsafe { self.driver.read_sync_event(sync_event) }
    }

    unsafe fn copy(&self, queue: Raw<Queue>, route: Route<'_>, regions: &[Region]) -> Result<()> {
        unsafe { self.driver.copy(queue, route, regions) }
    }

    unsafe fn map(&self, spot: Spot, len: u64) -> Result<NonNull<u8>> {
        unsafe { self.driver.map(spot, len) }
    }

    unsafe fn unmap(&self, spot: Spot, len: u64, address: NonNull<u8>) {
        unsafe { self.driver.unmap(spot, len, address) }
    }

    unsafe fn holds(&self, base: Raw<Memory>) -> Option<bool> {
        if self.tells { unsafe { self.driver.holds(base) } } else { None }
    }
}

/// What a producer keeps that uses the runtime by itself.
struct Produced {
    driver: Arc<dyn Driver>,
    memory: Raw<Memory>,
    event: Raw<Event>,
    buffers: [*const c_void; 2],
    /// Whether it was released while the work was unfinished.
    is_early: Arc<AtomicBool>,
}

unsafe extern "C" fn release(array: *mut ArrowArray) {
    unsafe {
        let Produced { driver, memory, event, is_early, .. } =
            *Box::from_raw((*array).private_data.cast::<Produced>());
        is_early.store(!driver.is_complete(event).unwrap(), Ordering::SeqCst);
        driver.wait_on_host(event, None).unwrap();
        driver.free(memory, 64);
        driver.destroy_event(event);
        (*array).release = None;
    }
}

/// Numbers that a kernel on the queue still has to write, from a producer that shows no event
/// (UNS-5: the work is submitted).
pub(super) fn produced(sim: &Sim, queue: &Queue, id: DeviceId) -> Array {
    produced_with(sim, queue, id, false).0
}

/// Numbers as those of [`produced`], with an event that is shown or without one; and whether the
/// array was released before the kernel had ended.
pub(super) fn produced_with(
    sim: &Sim,
    queue: &Queue,
    id: DeviceId,
    shows_event: bool,
) -> (Array, Arc<AtomicBool>) {
    let driver = sim.device().driver().clone();
    let memory = unsafe { driver.allocate(64, None) }.unwrap();
    let write = |memory: &mut KernelMemory| memory.set_values(0, &[7_i64; 8]);
    let spot = Spot { base: memory, offset: 0 };
    sim.kernel("produce").writes(spot, 64).launch(queue, write).unwrap();
    let event = driver.make_event().unwrap();
    let event = unsafe { driver.record(queue.raw(), event) }.unwrap();
    let buffers = [std::ptr::null(), memory.as_ptr().cast_const()];
    let is_early = Arc::new(AtomicBool::new(false));
    let kept = Produced { driver, memory, event, buffers, is_early: is_early.clone() };
    let kept = Box::into_raw(Box::new(kept));
    let mut c_array = ArrowDeviceArray::empty();
    if shows_event {
        c_array.sync_event = event.as_ptr();
    }
    (c_array.device_type, c_array.device_id) = (id.device_type.0, id.id);
    c_array.array.length = 8;
    c_array.array.n_buffers = 2;
    c_array.array.buffers = unsafe { (&raw mut (*kept).buffers).cast() };
    c_array.array.release = Some(release);
    c_array.array.private_data = kept.cast();
    let schema = Schema::try_from(DataType::Int64).unwrap();
    (unsafe { Array::import(&raw mut c_array, &schema) }.unwrap(), is_early)
}

fn late(kind: Kind) -> Sim {
    Sim::builder().kind(kind).peers(2).schedule(Schedule::Late).build()
}

// Requirement: SAF-7, SAF-9
#[test]
fn what_was_built_of_an_array_is_waited_for_when_its_device_is_opened_later() {
    let sim = late(Kind::OneQueueReadable);
    let queue = sim.device().open_queue().unwrap();
    let id = DeviceId::new(DeviceType::EXT_DEV, 77_001);
    let batch = Batch::from_columns([("n", produced(&sim, &queue, id))]).unwrap();
    let nested = Batch::from_columns([("b", batch.as_array().clone())]).unwrap();
    // Nobody knows what the tensor would wait for.
    let error = batch.to_tensor(&Conversion::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceMissing);
    let device = Device::new(Renamed::new(sim.device().driver().clone(), id));
    assert!(!nested.as_array().is_ready().unwrap());
    let host = nested.as_array().host().unwrap();
    let column = host.child(0).unwrap().child(0).unwrap();
    assert_eq!(*column.buffer(1).unwrap(), *[7_i64; 8].map(i64::to_ne_bytes).concat());
    drop((column, host, nested, batch, device));
}

/// Numbers that are complete, in memory of a device that is not open, with an event behind the work
/// that was submitted to this queue.
#[cfg(not(miri))]
fn behind(queue: &Queue, sim: &Sim, id: DeviceId) -> Array {
    let mut memory = sim.device().allocate(64).unwrap();
    let own = sim.device().open_queue().unwrap();
    memory.write(&own, &[0; 64]).unwrap();
    let memory = memory.into_buffer();
    let base = memory.on(&own).unwrap().location().address();
    // SAFETY: the memory is complete, and the owner keeps it.
    let buffer = unsafe { Buffer::foreign(id, base, 64, memory) }.written_on(queue);
    Array::builder(DataType::Int64).len(8).buffers([None, Some(buffer)]).finish_ready().unwrap()
}

// Requirement: SAF-6, SAF-9, SAF-10
#[cfg(not(miri))]
#[test]
fn an_event_beside_an_array_does_not_hide_in_whose_order_the_array_is() {
    // Other tests open devices by ids that are ambiguous.
    arrow_device_testkit::process::alone(|| {
        let sim = late(Kind::OneQueueReadable);
        let (queue, events) = (sim.device().open_queue().unwrap(), late(Kind::Discrete));
        let other = events.device().open_queue().unwrap();
        let id = DeviceId::new(DeviceType::EXT_DEV, 77_007);
        let columns = [("with", behind(&other, &sim, id)), ("without", produced(&sim, &queue, id))];
        let batch = Batch::from_columns(columns).unwrap();
        // The event of the one column would tell nothing of the other one.
        let mut c_array = ArrowDeviceArray::empty();
        let mut export = || batch.as_array().export(&mut c_array).unwrap_err().kind();
        assert_eq!(export(), ErrorKind::DeviceMissing);
        let device = Device::new(Renamed::new(sim.device().driver().clone(), id));
        assert_eq!(export(), ErrorKind::NotReady);
        assert_eq!(batch.as_array().ready(), Ready::AfterEvents(2));
        assert!(!batch.as_array().is_ready().unwrap());
        let host = batch.as_array().host().unwrap();
        let column = host.child(1).unwrap();
        assert_eq!(*column.buffer(1).unwrap(), *[7_i64; 8].map(i64::to_ne_bytes).concat());
        drop((column, host, batch, device, queue, other));
    });
}

// Requirement: SAF-6, SAF-9
#[test]
fn an_array_of_a_tensor_is_waited_for_when_its_device_is_opened_later() {
    let sim = late(Kind::OneQueueReadable);
    let queue = sim.device().open_queue().unwrap();
    let id = DeviceId::new(DeviceType::EXT_DEV, 77_008);
    let tensor = produced(&sim, &queue, id).to_tensor(&Conversion::new()).unwrap();
    let part = tensor.sliced(0, 1, 4, 1).unwrap().to_array(&Conversion::new()).unwrap();
    let device = Device::new(Renamed::new(sim.device().driver().clone(), id));
    assert!(!part.is_ready().unwrap());
    let host = part.host().unwrap();
    assert_eq!(host.value(0).unwrap().to_string(), "7");
    drop((host, part, tensor, device, queue));
}

// Requirement: SAF-6, SAF-36
#[test]
fn a_tensor_is_not_handed_over_as_complete_where_nobody_knows_in_whose_order_it_is() {
    let sim = late(Kind::OneQueueReadable);
    let queue = sim.device().open_queue().unwrap();
    let id = DeviceId::new(DeviceType::EXT_DEV, 77_009);
    let tensor = produced(&sim, &queue, id).to_tensor(&Conversion::new()).unwrap();
    let export = |tensor: &Tensor, order: Order<'_>| -> Result<Managed<DLManagedTensorVersioned>> {
        tensor.clone().export(order, CopyPolicy::Never)
    };
    assert_eq!(export(&tensor, Order::Host).unwrap_err().kind(), ErrorKind::DeviceMissing);
    let device = Device::new(Renamed::new(sim.device().driver().clone(), id));
    drop(export(&tensor, Order::Host).unwrap());
    assert!(queue.is_idle().unwrap(), "and was waited for");
    drop((tensor, device));

    // Of a tensor that came by DLPack its producer says that it is complete.
    let id = DeviceId::new(DeviceType::EXT_DEV, 77_010);
    let other = produced(&sim, &queue, id).to_tensor(&Conversion::new()).unwrap();
    let exported = export(&other, Order::Unordered).unwrap();
    queue.synchronize().unwrap();
    // SAFETY: exported just now.
    let came = unsafe { Tensor::import(exported.into_raw(), Order::Host) }.unwrap();
    let part = came.sliced(0, 1, 4, 1).unwrap().to_array(&Conversion::new()).unwrap();
    drop((export(&came, Order::Host).unwrap(), part, came, other, queue));
}

// Requirement: SAF-7
#[test]
fn a_queue_of_another_device_is_refused_where_the_arrays_device_is_not_open() {
    let sim = late(Kind::OneQueueReadable);
    let queue = sim.device().open_queue().unwrap();
    let [id, other] = [77_002, 77_003].map(|number| DeviceId::new(DeviceType::EXT_DEV, number));
    let array = produced(&sim, &queue, id);
    let peer = sim.device_number(1).driver().clone();
    let peer = Device::new(Renamed { reached: Some(id), ..Renamed::new(peer, other) });
    let peers_queue = peer.open_queue().unwrap();
    let error = array.on(&peers_queue).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceMissing);
    let device = Device::new(Renamed::new(sim.device().driver().clone(), id));
    let view = array.on(&peers_queue).unwrap();
    let read = |memory: &mut KernelMemory| assert_eq!(memory.values::<i64>(0), [7; 8]);
    let kernel = sim.kernel("consume").reads(view.buffer(1).location().spot(), 64);
    kernel.launch(&peers_queue, read).unwrap();
    drop((view, array, peers_queue, peer, device, queue));
}

// Requirement: SAF-6, SAF-9
#[test]
fn an_array_without_an_event_counts_as_ready_only_where_its_device_is_open() {
    let sim = late(Kind::OneQueueReadable);
    let queue = sim.device().open_queue().unwrap();
    let id = DeviceId::new(DeviceType::EXT_DEV, 77_011);
    let array = produced(&sim, &queue, id);
    let unknown =
        |result: Result<bool>| assert_eq!(result.unwrap_err().kind(), ErrorKind::DeviceMissing);
    assert_eq!(array.ready(), Ready::AfterEvent);
    unknown(array.is_ready());
    unknown(array.wait().map(|()| true));
    unknown(async_stream::block_on(array.until_ready()).map(|()| true));
    let device = Device::new(Renamed::new(sim.device().driver().clone(), id));
    assert!(!array.is_ready().unwrap());
    array.wait().unwrap();
    assert!(queue.is_idle().unwrap(), "and was waited for");
    drop((array, device, queue));
}

// Requirement: SAF-7
#[test]
fn a_queue_with_events_is_refused_an_array_in_whose_order_nobody_knows() {
    // A device of queue order that another test opens would decide otherwise.
    arrow_device_testkit::process::alone(|| {
        let sim = late(Kind::OneQueueReadable);
        let queue = sim.device().open_queue().unwrap();
        let [id, other] = [77_012, 77_013].map(|number| DeviceId::new(DeviceType::EXT_DEV, number));
        let peer = sim.device_number(1).driver().clone();
        let properties = peer.properties().clone().with_readiness(Readiness::HostWait);
        let peer = Renamed { reached: Some(id), properties, ..Renamed::new(peer, other) };
        let peer = Device::new(peer);
        let peers_queue = peer.open_queue().unwrap();
        let array = produced(&sim, &queue, id);
        assert_eq!(array.on(&peers_queue).unwrap_err().kind(), ErrorKind::DeviceMissing);
        drop((array, peers_queue, peer, queue));
    });
}

#[cfg(not(miri))]
// Requirement: SAF-12
#[test]
fn a_device_is_not_found_before_it_is_known_whether_its_id_is_ambiguous() {
    // Other tests open devices by ids that are ambiguous, after which nobody is asked any more.
    arrow_device_testkit::process::alone(|| {
        let (one, two) = (late(Kind::HostReadable), late(Kind::HostReadable));
        let id = DeviceId::new(DeviceType::EXT_DEV, 77_004);
        // Another runtime is open, whose devices the new one is asked about.
        let first = one.device();
        let (asked, is_asked) = mpsc::channel();
        let (go, go_on) = mpsc::channel();
        let second = Renamed {
            asking: Some(Asking { asked, go_on: Mutex::new(go_on) }),
            ..Renamed::new(two.device().driver().clone(), id)
        };
        let opener = std::thread::spawn(|| Device::new(second));
        let mut was_found = Vec::new();
        while !opener.is_finished() {
            if is_asked.recv_timeout(Duration::from_millis(20)).is_ok() {
                was_found.push(Device::find(id).is_some());
                go.send(()).unwrap();
            }
        }
        drop(is_asked);
        let second = opener.join().unwrap();
        // Later questions may be those of other tests, which open devices meanwhile.
        assert_eq!(was_found.first(), Some(&false));
        assert!(Device::find(id).is_some());
        drop((first, second));
    });
}

// Requirement: SAF-2
#[test]
fn a_queue_that_copies_units_is_refused_memory_without_such() {
    let sim = Sim::builder().peers(2).build();
    let (device, id) = (sim.device(), DeviceId::new(DeviceType::EXT_DEV, 77_005));
    let driver = sim.device_number(1).driver().clone();
    let properties = driver.properties().clone().with_copy_unit(4);
    let units = Renamed { reached: Some(DeviceId::CPU), properties, ..Renamed::new(driver, id) };
    let units = Device::new(units);
    let queue = units.open_queue().unwrap();
    let bytes = Array::from_values(DataType::Int8, (0..5_i8).map(Some)).unwrap();
    let there = bytes.copy_to(&device.open_queue().unwrap()).unwrap();
    let tensor = there.to_tensor(&Conversion::new()).unwrap();
    let through = Options::new().through(&queue);
    let refused = [
        device.allocate(5).unwrap().write(&queue, &[1; 5]).unwrap_err(),
        Device::host().allocate(5).unwrap().write(&queue, &[1; 5]).unwrap_err(),
        tensor.copy(&queue).unwrap_err(),
        tensor.copy_to_host(&queue).unwrap_err(),
        there.copy_with(&Queue::host(), &through).unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::NotReachable, "{error}");
    }
    // Its own memory has units.
    units.allocate(5).unwrap().write(&queue, &[1; 5]).unwrap();
    drop((there, tensor, queue, units));
}

// Requirement: DRV-12
#[test]
fn parts_of_a_device_that_copies_units_have_whole_units() {
    let sim = Sim::builder().kind(Kind::Handles).parts(true).build();
    let id = DeviceId::new(DeviceType::EXT_DEV, 77_006);
    let driver = sim.device().driver().clone();
    let properties = driver.properties().clone().with_copy_unit(4);
    let device = Device::new(Renamed { properties, ..Renamed::new(driver, id) });
    let queue = device.open_queue().unwrap();
    let values = Array::from_values(DataType::Int8, [Some(1_i8), None, Some(3)]).unwrap();
    let there = values.copy_to(&queue).unwrap();
    assert!(there.to_host().unwrap().equals(&values).unwrap());
    let mut memory = queue.allocate(300).unwrap();
    memory.write(&queue, &[1; 300]).unwrap();
    let part = memory.into_buffer().slice(256, 5).unwrap();
    let buffers = [None, Some(part)];
    let array = Array::builder(DataType::UInt8).len(5).buffers(buffers).finish_ready().unwrap();
    drop((array, there, queue, device));
}

// Requirement: SAF-13, SAF-19
#[test]
fn a_polled_copy_that_fails_keeps_the_array_whose_event_its_queue_waits_for() {
    let sim = Sim::builder().schedule(Schedule::Late).build();
    let (writer, queue) = (sim.device().open_queue().unwrap(), sim.device().open_queue().unwrap());
    let (array, is_early) = produced_with(&sim, &writer, sim.device().id(), true);
    // No event is made: neither that behind the wait nor that of the view, which keep the array.
    (1..=2).for_each(|number| sim.fail(Call::MakeEvent, number));
    let copy = array.copy_polled(&queue, &Options::new().always(true));
    assert!(copy.is_err(), "{copy:?}");
    drop(array);
    assert!(!is_early.load(Ordering::SeqCst));
    sim.run_until_idle();
    drop((writer, queue));
}

// Requirement: DRV-6
#[test]
fn operations_that_are_safe_to_call_bear_any_handle_and_length() {
    let sim = Sim::builder().backtraces(false).build();
    let driver = sim.device().driver().clone();
    // SAFETY: UNS-22: the memory is asked for without a queue, and freed below.
    let memory = unsafe { driver.allocate(64, None) }.unwrap();
    let inside = Raw::from_bits(memory.bits() + 32);
    let handles = [Raw::NULL, Raw::from_bits(1), Raw::from_bits(usize::MAX), memory, inside];
    for handle in handles {
        for len in [0, 1, 64, u64::MAX] {
            driver.share(handle, len);
            driver.reuse(handle, len);
        }
        driver.maps_in_place(handle);
        drop(driver.sync_event(Raw::from_bits(handle.bits())));
        #[cfg(all(target_os = "linux", not(miri)))]
        assert!(driver.sharing().unwrap().find(handle).is_none());
    }
    // SAFETY: UNS-22: the memory was allocated above, and nothing uses it.
    unsafe { driver.free(memory, 64) };
    assert!(sim.finish().is_empty());
}
