//! Several runtimes by one id, at once and one after the other: whose memory is whose.

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
#[cfg(all(unix, not(miri)))]
use std::time::Duration;

use arrow_device::abi::dlpack::DLManagedTensorVersioned;
use arrow_device::abi::{ArrowArray, ArrowDeviceArray};
use arrow_device::copy::Options;
use arrow_device::deferred::release_finished;
use arrow_device::dlpack::{Conversion, CopyPolicy, Managed, Order, Tensor};
use arrow_device::driver::Runtime;
use arrow_device::{
    Array, Batch, Buffer, DataType, Device, DeviceId, DeviceType, ErrorKind, Memory, Queue, Result,
    Schema,
};
use arrow_device_sim::{Kind, Sim};

use crate::opening::{Renamed, produced};

/// A device that does not tell whose memory is whose.
pub(crate) fn untold(sim: &Sim, id: DeviceId) -> Device {
    Device::new(Renamed { tells: false, ..Renamed::new(sim.device().driver().clone(), id) })
}

/// A type of device whose arrays are complete where they have no event, also while no device of
/// their id is open.
const TOLD: DeviceType = DeviceType::ONEAPI;

/// Numbers of a producer's in memory of the simulator, which are ready.
pub(crate) fn ready_numbers(sim: &Sim, id: DeviceId) -> Array {
    let queue = sim.device().open_queue().unwrap();
    let array = produced(sim, &queue, id);
    queue.synchronize().unwrap();
    array
}

/// An error where the device of this queue takes the array for its own.
pub(crate) fn refusal(array: &Array, queue: &Queue) -> Option<ErrorKind> {
    let view = array.on(queue).map(drop);
    let host = array.to_host().map(drop);
    assert_eq!(view.is_ok(), host.is_ok(), "a view: {view:?}, a copy: {host:?}");
    view.err().map(|error| error.kind())
}

// Requirement: SAF-11, SAF-12
#[test]
fn what_came_while_another_runtime_was_open_is_refused_where_nobody_tells() {
    for (kind, number) in [Kind::Discrete, Kind::Handles, Kind::OneQueue].into_iter().zip(77_010..)
    {
        let id = DeviceId::new(DeviceType::EXT_DEV, number);
        let (old, new) = (Sim::builder().kind(kind).build(), Sim::builder().kind(kind).build());
        let first = untold(&old, id);
        let array = ready_numbers(&old, id);
        // What is made of an array of a device with one queue has an event of the queue, which
        // keeps the device open.
        let made = (kind != Kind::OneQueue).then(|| {
            let batch = Batch::from_columns([("n", array.clone())]).unwrap();
            (batch, array.to_tensor(&Conversion::new()).unwrap())
        });
        drop(first);
        let fresh = ready_numbers(&new, id);
        let again = untold(&new, id);
        let queue = again.open_queue().unwrap();
        let later = ready_numbers(&new, id);
        let rebuilt = Batch::from_columns([("n", array.clone())]).unwrap();
        let mixed = Batch::from_columns([("n", array.clone()), ("m", later.clone())]);
        assert_eq!(mixed.unwrap_err().kind(), ErrorKind::InvalidArgument, "{kind:?}");
        let slice = array.slice(2, 3).unwrap();
        let (batch, tensor) = made.unzip();
        for part in [array, slice, rebuilt.into()].into_iter().chain(batch.map(Array::from)) {
            assert_eq!(refusal(&part, &queue), Some(ErrorKind::NotReachable), "{kind:?}");
            assert!(part.fetch().is_err() && part.copy_to(&queue).is_err(), "{kind:?}");
        }
        if let Some(tensor) = tensor {
            assert!(tensor.copy(&queue).is_err(), "{kind:?}");
            assert!(tensor.copy_to_host(&queue).is_err(), "{kind:?}");
        }
        // Nobody knows what came while no device was open by the id.
        assert_eq!(refusal(&fresh, &queue), Some(ErrorKind::NotReachable), "{kind:?}");
        assert_eq!(refusal(&later, &queue), None, "{kind:?}");
        let of_later = later.to_tensor(&Conversion::new()).unwrap();
        of_later.copy_to_host(&queue).unwrap();
        drop((fresh, later, of_later, queue, again));
        let reports = [old.finish(), new.finish()].concat();
        assert!(reports.is_empty(), "{kind:?}: {reports:?}");
    }
}

// Requirement: SAF-12
#[test]
fn what_came_while_two_runtimes_were_open_is_refused_where_neither_tells() {
    let id = DeviceId::new(DeviceType::EXT_DEV, 77_020);
    let (one, two) = (Sim::builder().build(), Sim::builder().build());
    let first = untold(&one, id);
    let before = ready_numbers(&one, id);
    let second = untold(&two, id);
    let queues = [&first, &second].map(|device| device.open_queue().unwrap());
    let (between, of_two) = (ready_numbers(&one, id), ready_numbers(&two, id));
    let of = |array: &Array| queues.each_ref().map(|queue| array.on(queue).is_ok());
    assert_eq!(of(&before), [true, false]);
    assert_eq!((of(&between), of(&of_two)), ([false; 2], [false; 2]));
    assert!(before.to_host().is_ok() && of_two.to_host().is_err());
    let [queue, second_queue] = queues;
    queue.synchronize().unwrap();
    // What was used keeps its device open.
    drop((queue, first, before));
    release_finished();
    let of = |array: &Array| array.on(&second_queue).is_ok();
    // The first one may have the memory still.
    assert_eq!([&between, &of_two].map(of), [false; 2]);
    let after = ready_numbers(&two, id);
    assert!(of(&after) && after.to_host().is_ok());
    // What is opened behind the import, and closed again, takes nothing away.
    for _ in 0..20 {
        drop(untold(&Sim::builder().build(), id));
    }
    assert!(of(&after) && after.to_host().is_ok());
    assert_eq!([&between, &of_two].map(of), [false; 2]);
    // A runtime that is opened a second time is what it was.
    let same = untold(&two, id);
    drop(second);
    assert!(of(&after) && after.to_host().is_ok());
    drop((between, of_two, after, second_queue, same));
}

// Requirement: SAF-12
#[test]
fn a_runtime_that_comes_and_goes_takes_nothing_from_another_one() {
    let id = DeviceId::new(DeviceType::EXT_DEV, 77_080);
    let (one, two) = (Sim::builder().build(), Sim::builder().build());
    drop(untold(&one, id));
    let second = untold(&two, id);
    let array = ready_numbers(&two, id);
    let queue = second.open_queue().unwrap();
    array.on(&queue).unwrap();
    drop(untold(&one, id));
    array.on(&queue).unwrap();
    drop((array, queue, second));
}

// Requirement: SAF-12
#[test]
fn a_runtime_that_is_opened_again_has_what_came_before() {
    // In a process of its own: of very many ids, each may stand for several runtimes.
    arrow_device_testkit::process::alone(|| {
        let id = DeviceId::new(DeviceType::EXT_DEV, 77_021);
        let sim = Sim::builder().build();
        let early = ready_numbers(&sim, id);
        let first = untold(&sim, id);
        let array = ready_numbers(&sim, id);
        drop(first);
        let again = untold(&sim, id);
        let queue = again.open_queue().unwrap();
        assert_eq!((refusal(&early, &queue), refusal(&array, &queue)), (None, None));
        drop((early, array, queue, again));
    });
}

// Requirement: SAF-12
#[test]
fn what_came_while_another_runtime_was_open_is_refused_on_devices_that_reach_it() {
    let [id, other] = [77_022, 77_023].map(|number| DeviceId::new(TOLD, number));
    let (old, new) = (Sim::builder().build(), Sim::builder().build());
    let first = untold(&old, id);
    let array = ready_numbers(&old, id);
    drop(first);
    let peer = new.device().driver().clone();
    let peer = Renamed { tells: false, reached: Some(id), ..Renamed::new(peer, other) };
    let peer = Device::new(peer);
    let queue = peer.open_queue().unwrap();
    // From here on somebody asks whose memory is whose.
    let again = untold(&new, id);
    drop(again);
    assert_eq!(array.on(&queue).unwrap_err().kind(), ErrorKind::NotReachable);
    let later = ready_numbers(&new, id);
    later.on(&queue).unwrap();
    drop((array, later, queue, peer));
}

// Requirement: SAF-12
#[test]
fn foreign_buffers_and_tensors_are_refused_as_arrays_are() {
    let id = DeviceId::new(DeviceType::EXT_DEV, 77_024);
    let (old, new) = (Sim::builder().build(), Sim::builder().build());
    let first = untold(&old, id);
    let driver = old.device().driver().clone();
    let memory = unsafe { driver.allocate(64, None) }.unwrap();
    let buffer = unsafe { Buffer::foreign(id, memory.as_ptr(), 64, ()) };
    drop(first);
    let again = untold(&new, id);
    let queue = again.open_queue().unwrap();
    assert_eq!(buffer.on(&queue).unwrap_err().kind(), ErrorKind::NotReachable);
    let part = buffer.slice(0, 32).unwrap();
    let array = Array::builder(DataType::Int64).len(4).buffers([None, Some(part)]);
    let array = array.finish_ready().unwrap();
    assert_eq!(refusal(&array, &queue), Some(ErrorKind::NotReachable));
    let tensor = array.to_tensor(&Conversion::new()).unwrap();
    assert!(tensor.copy_to_host(&queue).is_err());
    drop((tensor, array, buffer, queue, again));
    unsafe { driver.free(memory, 64) };
}

#[cfg(not(miri))]
// Requirement: SAF-12
#[test]
fn what_came_before_a_device_that_reaches_a_closed_one_by_its_number_is_refused() {
    // In a process of its own: once an id is ambiguous, every id is looked at.
    arrow_device_testkit::process::alone(|| {
        let [id, other] = [77_025, 77_026].map(|number| DeviceId::new(TOLD, number));
        let (old, new) = (Sim::builder().build(), Sim::builder().build());
        let early = ready_numbers(&old, id);
        let first = untold(&old, id);
        let array = ready_numbers(&old, id);
        drop(first);
        let peer = new.device().driver().clone();
        let peer = Renamed { tells: false, reached: Some(id), ..Renamed::new(peer, other) };
        let peer = Device::new(peer);
        let queue = peer.open_queue().unwrap();
        for array in [early, array] {
            assert_eq!(array.on(&queue).unwrap_err().kind(), ErrorKind::NotReachable);
        }
        let later = ready_numbers(&new, id);
        later.on(&queue).unwrap();
        drop((later, queue, peer));
    });
}

fn managed(tensor: &Tensor, queue: &Queue) -> Managed<DLManagedTensorVersioned> {
    tensor.clone().export(Order::On(queue), CopyPolicy::Never).unwrap()
}

fn words(array: &Array) -> Vec<u8> {
    array
        .to_host()
        .unwrap()
        .host()
        .unwrap()
        .buffer(1)
        .unwrap()
        .chunks(8)
        .map(|word| word[0])
        .collect()
}

// Requirement: SAF-1, SAF-12
#[test]
fn memory_is_named_as_its_own_runtime_names_it() {
    let kinds = [(Kind::Handles, Kind::Discrete), (Kind::Discrete, Kind::Handles)];
    for ((kind, last), number) in kinds.into_iter().zip(77_030..) {
        let id = DeviceId::new(DeviceType::EXT_DEV, number);
        let (one, two) = (Sim::builder().kind(kind).build(), Sim::builder().kind(last).build());
        let of = |sim: &Sim| Device::new(Renamed::new(sim.device().driver().clone(), id));
        let first = of(&one);
        let queue = first.open_queue().unwrap();
        let numbers = Array::from_values(DataType::Int64, (0..8_i64).map(Some)).unwrap();
        let numbers = numbers.copy_to(&queue).unwrap();
        let tensor = numbers.slice(2, 4).unwrap().to_tensor(&Conversion::new()).unwrap();
        let columns = [("a", numbers.slice(0, 2).unwrap()), ("b", numbers.slice(2, 2).unwrap())];
        let columns = Batch::from_columns(columns).unwrap();
        let before = managed(&tensor, &queue);
        let second = of(&two);
        let after = managed(&tensor, &queue);
        let place = |managed: &Managed<DLManagedTensorVersioned>| {
            let tensor = unsafe { &(*managed.as_ptr()).dl_tensor };
            (tensor.data, tensor.byte_offset)
        };
        assert_eq!(place(&before), place(&after), "{kind:?}");
        for (managed, order) in [(before, Order::On(&queue)), (after, Order::Host)] {
            let again = unsafe { Tensor::import(managed.into_raw(), order) }.unwrap();
            assert_eq!(words(&again.to_array(&Conversion::new()).unwrap()), [2, 3, 4, 5]);
            again.copy_to_host(&queue).unwrap();
        }
        assert_eq!(words(&tensor.to_array(&Conversion::new()).unwrap()), [2, 3, 4, 5]);
        columns.to_tensor(&Conversion::new()).unwrap().copy_to_host(&queue).unwrap();
        drop((numbers, tensor, columns, queue, first, second));
        let reports = [one.finish(), two.finish()].concat();
        assert!(reports.is_empty(), "{kind:?}: {reports:?}");
    }
}

// Requirement: SAF-2, SAF-12
#[test]
fn units_are_those_of_the_runtime_that_has_the_memory() {
    let [id, other] = [77_035, 77_036].map(|number| DeviceId::new(DeviceType::EXT_DEV, number));
    let (one, two) = (Sim::builder().peers(2).build(), Sim::builder().build());
    let with_units = |sim: &Sim, device: usize, id, unit, reached| {
        let driver = sim.device_number(device).driver().clone();
        let properties = driver.properties().clone().with_copy_unit(unit);
        Device::new(Renamed { properties, reached, ..Renamed::new(driver, id) })
    };
    let first = with_units(&one, 0, id, 1, None);
    let peer = with_units(&one, 1, other, 4, Some(id));
    let (queue, peers_queue) = (first.open_queue().unwrap(), peer.open_queue().unwrap());
    let bytes = Array::from_values(DataType::Int8, (0..5_i8).map(Some)).unwrap();
    let there = bytes.copy_to(&queue).unwrap();
    let tensor = there.to_tensor(&Conversion::new()).unwrap();
    let last = with_units(&two, 0, id, 512, None);
    let through = Options::new().through(&peers_queue);
    let refused = [
        first.allocate(5).unwrap().write(&peers_queue, &[1; 5]).unwrap_err(),
        tensor.copy(&peers_queue).unwrap_err(),
        tensor.copy_to_host(&peers_queue).unwrap_err(),
        there.copy_with(&Queue::host(), &through).unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::NotReachable, "{error}");
    }
    drop((there, tensor, queue, peers_queue, first, peer, last));
}

// Requirement: SAF-12
#[test]
fn memory_of_all_devices_may_be_of_each_runtime_whatever_the_numbers() {
    let host = |number| DeviceId::new(DeviceType::CUDA_HOST, number);
    let numbers = [(40, 41, 41), (-1, 42, 42), (43, 44, 44), (45, 46, 45), (47, -1, 47)];
    for (first, second, of_memory) in numbers {
        let (one, two) = (Sim::builder().build(), Sim::builder().build());
        let open = |sim: &Sim, number| {
            let driver = sim.device().driver().clone();
            let reached = Some(host(of_memory));
            Device::new(Renamed { tells: false, reached, ..Renamed::new(driver, host(number)) })
        };
        let (first, second) = (open(&one, first), open(&two, second));
        let queues = [&first, &second].map(|device| device.open_queue().unwrap());
        let array = ready_numbers(&one, host(of_memory));
        let views = queues.each_ref().map(|queue| array.on(queue).is_ok());
        assert_eq!((views, array.to_host().is_ok()), ([false; 2], false), "{of_memory}");
        drop((array, queues, first, second));
    }
}

#[cfg(not(miri))]
// Requirement: SAF-12
#[test]
fn what_a_device_reaches_later_is_asked_for_as_well() {
    // In a process of its own: once an id is ambiguous, every id is looked at.
    arrow_device_testkit::process::alone(|| {
        let [id, other] = [77_050, 77_051].map(|number| DeviceId::new(DeviceType::EXT_DEV, number));
        let (old, new) = (Sim::builder().build(), Sim::builder().build());
        let first = untold(&old, id);
        let array = ready_numbers(&old, id);
        let driver = new.device().driver().clone();
        let peer = Renamed { tells: false, reached: Some(id), ..Renamed::new(driver, other) };
        let answers = peer.answers.clone();
        answers.store(false, Ordering::SeqCst);
        let peer = Device::new(peer);
        let queue = peer.open_queue().unwrap();
        answers.store(true, Ordering::SeqCst);
        assert_eq!(array.on(&queue).unwrap_err().kind(), ErrorKind::NotReachable);
        let through = Options::new().through(&queue);
        assert!(array.copy_with(&Queue::host(), &through).is_err());
        drop((array, queue, peer, first));
    });
}

#[cfg(not(miri))]
// Requirement: SAF-12
#[test]
fn what_is_reached_later_by_the_number_of_another_runtime_is_not_that_ones() {
    // In a process of its own: once an id is ambiguous, every id is looked at.
    arrow_device_testkit::process::alone(|| {
        let (old, new) = (Sim::builder().build(), Sim::builder().build());
        let [id, other] = [77_090, 77_091].map(|number| DeviceId::new(TOLD, number));
        let first = Device::new(Renamed::new(old.device().driver().clone(), id));
        let queue = first.open_queue().unwrap();
        let driver = new.device().driver().clone();
        let peer = Renamed { reached: Some(id), ..Renamed::new(driver, other) };
        let answers = peer.answers.clone();
        answers.store(false, Ordering::SeqCst);
        let peer = Device::new(peer);
        let peers_queue = peer.open_queue().unwrap();
        answers.store(true, Ordering::SeqCst);
        let array = ready_numbers(&new, id);
        drop(array.on(&peers_queue).unwrap());
        assert_eq!(refusal(&array, &queue), Some(ErrorKind::NotReachable));
        peers_queue.synchronize().unwrap();
        drop((array, peers_queue, peer, queue, first));
    });
}

#[cfg(all(unix, not(miri)))]
// Requirement: SAF-12
#[test]
fn pinned_memory_is_refused_on_devices_that_reach_it_by_any_number() {
    use arrow_device_testkit::process::{alone, forked};

    let host = |number| DeviceId::new(DeviceType::CUDA_HOST, number);
    let is_refused = |first: i64, reached: i64, of_memory: i64, closes: bool| {
        let (old, new) = (Sim::builder().build(), Sim::builder().build());
        let first = untold(&old, host(first));
        let array = ready_numbers(&old, host(of_memory));
        let first = (!closes).then_some(first);
        let driver = new.device().driver().clone();
        let other = DeviceId::new(DeviceType::EXT_DEV, 77_052);
        let reached = Some(host(reached));
        let peer = Device::new(Renamed { tells: false, reached, ..Renamed::new(driver, other) });
        let queue = peer.open_queue().unwrap();
        let is_refused = array.on(&queue).is_err();
        drop((array, queue, peer, first));
        is_refused
    };
    // Each in a process of its own: once an id is ambiguous, every id is looked at.
    alone(|| {
        for (first, reached, of_memory) in
            [(5, 5, 5), (5, 6, 6), (6, 6, 6), (5, -1, 5), (5, -1, -1), (-1, 5, 5), (5, 20, 20)]
        {
            for closes in [false, true] {
                forked(|| match is_refused(first, reached, of_memory, closes) {
                    true => Ok(()),
                    false => Err(format!("{first} {reached} {of_memory} {closes}")),
                });
            }
        }
    });
}

/// What a producer keeps that owns no memory.
struct Table {
    buffers: [*const c_void; 2],
}

unsafe extern "C" fn release_table(array: *mut ArrowArray) {
    unsafe {
        drop(Box::from_raw((*array).private_data.cast::<Table>()));
        (*array).release = None;
    }
}

/// Numbers of a producer's at a place that it names, ready after an event or at once.
fn foreign(id: DeviceId, length: i64, values: *const c_void, sync_event: *mut c_void) -> Array {
    let table = Box::into_raw(Box::new(Table { buffers: [std::ptr::null(), values] }));
    let mut c_array = ArrowDeviceArray::empty();
    c_array.sync_event = sync_event;
    (c_array.device_type, c_array.device_id) = (id.device_type.0, id.id);
    (c_array.array.length, c_array.array.n_buffers) = (length, 2);
    c_array.array.buffers = unsafe { (&raw mut (*table).buffers).cast() };
    c_array.array.private_data = table.cast();
    c_array.array.release = Some(release_table);
    let schema = Schema::try_from(DataType::Int64).unwrap();
    unsafe { Array::import(&raw mut c_array, &schema) }.unwrap()
}

// Requirement: SAF-11
#[test]
fn an_event_without_memory_is_not_given_to_a_runtime_that_reaches_the_id() {
    for (is_open, tells) in [(true, false), (true, true), (false, false), (false, true)] {
        let number = 77_054 + 4 * i64::from(is_open) + 2 * i64::from(tells);
        let id = |more| DeviceId::new(DeviceType::EXT_DEV, number + more);
        let (old, new) = (Sim::builder().build(), Sim::builder().build());
        let open = |sim: &Sim, id, reached| {
            let driver = sim.device().driver().clone();
            Device::new(Renamed { tells, reached, ..Renamed::new(driver, id) })
        };
        let first = is_open.then(|| open(&old, id(0), None));
        let queue = old.device().open_queue().unwrap();
        let event = queue.record().unwrap();
        let array = foreign(id(0), 0, std::ptr::null(), event.raw().as_ptr());
        let peer = open(&new, id(1), Some(id(0)));
        let peers_queue = peer.open_queue().unwrap();
        assert!(array.on(&peers_queue).is_err(), "{is_open} {tells}");
        // The runtime that has opened the id knows the event.
        if let Some(first) = &first {
            drop(array.on(&first.open_queue().unwrap()).unwrap());
        }
        drop((array, event, queue, peers_queue, peer, first));
        let reports = [old.finish(), new.finish()].concat();
        assert!(reports.is_empty(), "{is_open} {tells}: {reports:?}");
    }
}

// Requirement: SAF-11, SAF-12
#[test]
fn what_came_from_a_device_that_reaches_the_id_is_not_that_of_one_opened_later() {
    // In a process of its own: once an id is ambiguous, every id is looked at.
    arrow_device_testkit::process::alone(|| {
        for (number, is_closed) in [(77_100, false), (77_102, true)] {
            let [id, other] = [number, number + 1].map(|number| DeviceId::new(TOLD, number));
            let (old, new) = (Sim::builder().build(), Sim::builder().build());
            let driver = old.device().driver().clone();
            let peer = Renamed { tells: false, reached: Some(id), ..Renamed::new(driver, other) };
            let peer = Device::new(peer);
            let queue = peer.open_queue().unwrap();
            let array = ready_numbers(&old, id);
            let event = queue.record().unwrap();
            let empty = foreign(id, 0, std::ptr::null(), event.raw().as_ptr());
            // A device that is closed is known by what was used on it.
            drop(array.on(&queue).unwrap());
            queue.synchronize().unwrap();
            let peer = (!is_closed).then_some((peer, event, queue));
            release_finished();
            let later = untold(&new, id);
            let queue = later.open_queue().unwrap();
            assert_eq!(refusal(&array, &queue), Some(ErrorKind::NotReachable), "{is_closed}");
            assert_eq!(empty.on(&queue).unwrap_err().kind(), ErrorKind::NotReachable);
            assert!(empty.wait().is_err() && empty.is_ready().is_err(), "{is_closed}");
            let own = ready_numbers(&new, id);
            assert_eq!(refusal(&own, &queue), None, "{is_closed}");
            drop((array, empty, own, queue, later, peer));
            let reports = [old.finish(), new.finish()].concat();
            assert!(reports.is_empty(), "{is_closed}: {reports:?}");
        }
    });
}

/// What a child of `fork` makes of an array that came before any device was opened.
#[cfg(all(unix, not(miri)))]
// Requirement: SAF-12, SAF-27
#[test]
fn arrays_of_the_parent_are_refused_in_a_child_though_no_device_was_open_before() {
    use arrow_device_testkit::process::{alone, forked};

    alone(|| {
        let id = DeviceId::new(DeviceType::EXT_DEV, 77_070);
        // Numbers of a producer's that uses its runtime by itself.
        let values = std::ptr::without_provenance(64);
        let array = foreign(id, 8, values, std::ptr::null_mut());
        let tensor = array.to_tensor(&Conversion::new()).unwrap();
        let managed: Managed<DLManagedTensorVersioned> =
            tensor.clone().export(Order::Unordered, CopyPolicy::Never).unwrap();
        let imported = unsafe { Tensor::import(managed.into_raw(), Order::Host) }.unwrap();
        forked(|| {
            let new = Sim::builder().build();
            let device = untold(&new, id);
            let queue = device.open_queue().map_err(|error| error.to_string())?;
            let is_used = [
                array.on(&queue).is_ok(),
                array.to_host().is_ok(),
                array.copy_to(&queue).is_ok(),
                tensor.on(&queue).is_ok(),
                tensor.copy_to_host(&queue).is_ok(),
                imported.on(&queue).is_ok(),
                imported.copy_to_host(&queue).is_ok(),
            ];
            drop((queue, device));
            if is_used == [false; 7] { Ok(()) } else { Err(format!("{is_used:?}")) }
        });
    });
}

/// What a child of `fork` makes of memory on a device of its parent, on a new device by the id.
#[cfg(all(unix, not(miri)))]
// Requirement: SAF-12, SAF-27
#[test]
fn a_buffer_of_the_parent_is_refused_on_a_new_device_of_a_child() {
    use arrow_device_testkit::process::{alone, forked};

    alone(|| {
        let kinds = [Kind::Discrete, Kind::Handles, Kind::HostReadable];
        for (kind, number) in kinds.into_iter().zip(77_040..) {
            let id = DeviceId::new(DeviceType::EXT_DEV, number);
            let old = Sim::builder().kind(kind).seed(1).build();
            // Memory of another party, which was named before a device was open.
            let driver = old.device().driver().clone();
            let raw = unsafe { driver.allocate(64, None) }.unwrap();
            let foreign = unsafe { Buffer::foreign(id, raw.as_ptr(), 64, ()) };
            let device = untold(&old, id);
            let queue = device.open_queue().unwrap();
            let mut memory = device.allocate(64).unwrap();
            memory.write(&queue, &[7; 64]).unwrap();
            queue.synchronize().unwrap();
            let buffers = [foreign, memory.into_buffer()];
            let memory_to_share = Mutex::new(Some(device.allocate(64).unwrap()));
            // A vendor's runtime has one number in every process.
            let runtime = Some(Runtime { name: "constant", instance: 0 });
            let constant = |sim: &Sim, id| {
                let driver = sim.device().driver().clone();
                Device::new(Renamed { runtime, ..Renamed::new(driver, id) })
            };
            let other = DeviceId::new(DeviceType::EXT_DEV, number + 1000);
            let vendors = constant(&old, other);
            let memory = Mutex::new(Some(vendors.allocate(64).unwrap()));
            let array = Array::from_values(DataType::Int64, [Some(7_i64)]).unwrap();
            let array = array.copy_to(&queue).unwrap();
            queue.synchronize().unwrap();
            let tensor = array.to_tensor(&Conversion::new()).unwrap();
            forked(|| {
                let new = Sim::builder().kind(kind).seed(2).build();
                let device = untold(&new, id);
                let queue = device.open_queue().map_err(|error| error.to_string())?;
                let mut taken = Vec::new();
                let own = memory_to_share.lock().unwrap().take().map(Memory::into_buffer);
                let shared = own.map(|buffer| buffer.on(&queue).is_ok());
                taken.extend((shared == Some(true)).then(|| "memory that became a buffer".into()));
                let vendors = constant(&new, other);
                let vendors_queue = vendors.open_queue().map_err(|error| error.to_string())?;
                if let Some(mut memory) = memory.lock().unwrap().take() {
                    taken.extend(memory.spot(&vendors_queue).is_ok().then(|| "a place".to_owned()));
                    let written = memory.write(&vendors_queue, &[1; 8]);
                    taken.extend(written.is_ok().then(|| "a write".to_owned()));
                }
                for (number, buffer) in buffers.iter().enumerate() {
                    if buffer.on(&queue).is_ok() {
                        taken.push(format!("a view of buffer {number}"));
                    }
                    let part = buffer.slice(8, 16).unwrap();
                    for part in [buffer.clone(), part] {
                        let len = part.extent().at_least() as usize / 8;
                        let array = Array::builder(DataType::Int64).len(len);
                        if array.buffers([None, Some(part)]).finish_ready().is_ok() {
                            taken.push(format!("an array of buffer {number}"));
                        }
                    }
                }
                let exported = array.export(&mut ArrowDeviceArray::empty());
                let of_tensor = tensor.clone().export(Order::Host, CopyPolicy::Never);
                let of_tensor: Result<Managed<DLManagedTensorVersioned>> = of_tensor;
                for (what, is_made) in [
                    ("a batch", Batch::from_columns([("n", array.clone())]).is_ok()),
                    ("an array of a tensor", tensor.to_array(&Conversion::new()).is_ok()),
                    ("a copy of a tensor", tensor.copy_to_host(&queue).is_ok()),
                    ("a struct", exported.is_ok()),
                    ("a struct of DLPack", of_tensor.is_ok()),
                ] {
                    taken.extend(is_made.then(|| what.to_owned()));
                }
                drop((queue, device, vendors_queue, vendors));
                taken.extend(new.finish().iter().map(|report| format!("{report:?}")));
                if taken.is_empty() { Ok(()) } else { Err(taken.join("; ")) }
            });
            drop((buffers, array, tensor, queue, device, memory, vendors, memory_to_share));
            unsafe { driver.free(raw, 64) };
        }
    });
}

/// What is kept for a default queue of the parent, which nobody had asked for before the fork.
#[cfg(all(unix, not(miri)))]
// Requirement: SAF-27, SAF-28
#[test]
fn nothing_waits_in_a_child_for_a_default_queue_of_its_parent() {
    use arrow_device::deferred::{held_back, wait_until_released};
    use arrow_device::driver::DefaultQueues;
    use arrow_device_testkit::process::{alone, forked};

    alone(|| {
        let sim = Sim::builder().build();
        let opened = sim.device().open_queue().unwrap();
        let id = DeviceId::new(DeviceType::EXT_DEV, 77_081);
        let driver = sim.device().driver().clone();
        let queues = DefaultQueues { of_device: opened.raw(), of_thread: None };
        let properties = driver.properties().clone().with_default_queues(queues);
        let device = Device::new(Renamed { properties, ..Renamed::new(driver, id) });
        forked(|| {
            if let Some(queue) = device.default_queue() {
                queue.keep_until_done(7);
            }
            let (in_use, waited) =
                (held_back().in_use, wait_until_released(Duration::from_secs(1)));
            if in_use == 0 && waited.is_ok() { Ok(()) } else { Err(format!("{in_use} {waited:?}")) }
        });
        drop((device, opened));
    });
}
