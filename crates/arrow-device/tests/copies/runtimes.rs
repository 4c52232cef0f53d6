//! Several runtimes that are open by one id. The test has a process of its own, because from then
//! on memory is asked whose it is.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::copy::{Options, Way};
use arrow_device::deferred::{held_back, wait_until_released};
use arrow_device::driver::{PlaceOwner, Watched};
use arrow_device::{
    Array, Batch, Buffer, DataType, DeviceId, DeviceType, Error, ErrorKind, Field, IndexType,
    Queue, Result,
};
use arrow_device_testkit::process;
use arrow_device_testkit::trips::imported;

use crate::device::{self, Abilities};

/// The runtimes, as an error names them.
const NAMES: [&str; 2] = ["lazy 0x1", "lazy 0x2"];

fn buffer(queue: &Queue, bytes: &[u8]) -> Buffer {
    let mut memory = queue.allocate(bytes.len() as u64).unwrap();
    memory.write(queue, bytes).unwrap();
    memory.into_buffer()
}

fn numbers(queue: &Queue) -> Array {
    let values = Array::from_values(DataType::Int32, (0..4).map(Some)).unwrap();
    values.copy_to(queue).unwrap()
}

fn with_nulls(validity: &Queue, values: &Queue) -> Result<Array> {
    let buffers = [Some(buffer(validity, &[0b1011])), Some(buffer(values, &[1; 16]))];
    Array::builder(DataType::Int32).len(4).buffers(buffers).finish_ready()
}

fn batch(columns: [Array; 2]) -> Result<Batch> {
    let [one, other] = columns;
    Batch::from_columns([("one", one), ("other", other)])
}

/// The words on a 12-byte view each that lies in the first data buffer.
fn words(views: &Queue, data: &Queue) -> Result<Array> {
    let view = [20_u32.to_le_bytes(), *b"aaaa", 0_u32.to_le_bytes(), 0_u32.to_le_bytes()].concat();
    let buffers = [None, Some(buffer(views, &view)), Some(buffer(data, &[b'a'; 20]))];
    Array::builder(DataType::Utf8View).len(1).buffers(buffers).finish_ready()
}

fn dictionary(indices: &Queue, values: Array) -> Result<Array> {
    let data_type = DataType::dictionary(IndexType::Int8, DataType::Int32);
    let buffers = [None, Some(buffer(indices, &[0, 1]))];
    Array::builder(data_type).len(2).buffers(buffers).dictionary(values).finish_ready()
}

fn assert_names_both(refused: &Error, parts: [&str; 2]) {
    let told = refused.to_string();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{told}");
    for words in NAMES.iter().chain(&parts) {
        assert!(told.contains(words), "`{words}` is not in: {told}");
    }
}

// Requirement: SAF-12
#[test]
fn memory_is_not_taken_for_that_of_a_runtime_that_cannot_tell() {
    process::alone(runtimes_that_cannot_tell_are_open_by_one_id);
}

fn runtimes_that_cannot_tell_are_open_by_one_id() {
    let silent = Abilities { not_tell: true, ..Abilities::default() };
    let [silent_one, silent_two] =
        [1, 2].map(|runtime| device::open_in(runtime, 7, silent).0.open_queue().unwrap());
    let array = with_nulls(&silent_one, &silent_one);
    assert!(array.is_err(), "nobody can tell that both parts are of one runtime");
    let array = numbers(&silent_one);
    for queue in [&silent_one, &silent_two] {
        assert_eq!(array.on(queue).unwrap_err().kind(), ErrorKind::NotReachable);
    }
    drop((array, silent_two));

    // One that tells is enough to tell two apart.
    let telling = device::open_in(3, 7, Abilities::default()).0.open_queue().unwrap();
    for (mine, other) in [(&telling, &silent_one), (&silent_one, &telling)] {
        let array = numbers(mine);
        array.on(mine).unwrap();
        assert_eq!(array.on(other).unwrap_err().kind(), ErrorKind::NotReachable);
        let part = Some(buffer(mine, &[1; 16]));
        let part = || Array::builder(DataType::Int32).len(4).buffers([None, part.clone()]);
        buffer(mine, &[1; 16]).on(mine).unwrap();
        let refused = buffer(mine, &[1; 16]).on(other).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotReachable);
        let mut memory = mine.allocate(16).unwrap();
        assert_eq!(memory.spot(other).unwrap_err().kind(), ErrorKind::NotReachable);
        assert_eq!(memory.write(other, &[1]).unwrap_err().kind(), ErrorKind::NotReachable);
        part().finish_on(mine).unwrap();
        assert_eq!(part().finish_on(other).unwrap_err().kind(), ErrorKind::NotReachable);
    }
    // Host memory is of no runtime that is open by another id.
    Buffer::from(vec![1_i32]).on(&Queue::host()).unwrap();
}

// Requirement: SAF-12
/// One test, since all of it is about which devices are open.
#[test]
fn an_array_is_put_together_from_the_memory_of_one_runtime() {
    process::alone(two_runtimes_are_open_by_one_id);
}

fn two_runtimes_are_open_by_one_id() {
    let abilities = Abilities::default();
    let (alone, of_alone) = device::open_in(3, 3, abilities);
    let (one, of_one) = device::open_in(1, 7, abilities);
    let (alone, one) = (alone.open_queue().unwrap(), one.open_queue().unwrap());
    with_nulls(&one, &one).unwrap();
    assert_eq!(of_one.lock().unwrap().asked, 0, "there is one runtime, and it was asked");

    let (other, of_other) = device::open_in(2, 7, abilities);
    let other = other.open_queue().unwrap();
    assert_eq!(one.device().id(), other.device().id());
    for queue in [&one, &other] {
        with_nulls(queue, queue).unwrap();
        batch([numbers(queue), numbers(queue)]).unwrap();
        batch([numbers(queue), imported(&numbers(queue))]).unwrap();
        dictionary(queue, numbers(queue)).unwrap();
        words(queue, queue).unwrap();
        // What has no memory is of every runtime.
        batch([numbers(queue), Array::nulls(4).unwrap().copy_to(queue).unwrap()]).unwrap();
    }
    assert!(of_one.lock().unwrap().asked > 0 && of_other.lock().unwrap().asked > 0);

    for (one, other) in [(&one, &other), (&other, &one)] {
        let refused = with_nulls(one, other).unwrap_err();
        assert_names_both(&refused, ["buffer 0", "buffer 1"]);
        let refused = words(one, other).unwrap_err();
        assert_names_both(&refused, ["buffer 1", "buffer 2"]);
        let refused = dictionary(one, numbers(other)).unwrap_err();
        assert_names_both(&refused, ["buffer 1", "the dictionary"]);
        for elsewhere in
            [numbers(other), imported(&numbers(other)), numbers(other).slice(1, 3).unwrap()]
        {
            let here = numbers(one).slice(0, elsewhere.len()).unwrap();
            let refused = batch([here, elsewhere]).unwrap_err();
            assert_names_both(&refused, ["child 0", "child 1"]);
        }
    }

    // A device whose id is one runtime's is not asked.
    with_nulls(&alone, &alone).unwrap();
    assert_eq!(of_alone.lock().unwrap().asked, 0);
}

// Requirement: SAF-12
#[test]
fn a_peer_of_the_same_number_may_be_of_another_runtime() {
    process::alone(|| {
        for (number, not_tell) in [(40, false), (50, true)] {
            a_number_is_reached_that_another_runtime_has(number, not_tell);
        }
    });
}

fn a_number_is_reached_that_another_runtime_has(number: i64, not_tell: bool) {
    // Another runtime is open by the number that `one` reaches.
    let [at, peer] = [number, number + 1];
    let reaching = Abilities { peer: Some(peer), not_tell, ..Abilities::default() };
    let one = device::open_in(number as usize, at, reaching).0.open_queue().unwrap();
    let can = Abilities { not_tell, ..Abilities::default() };
    let other = device::open_in(number as usize + 1, peer, can).0.open_queue().unwrap();
    one.reaches(other.device().id()).unwrap();
    let values = Array::from_values(DataType::Int32, (0..4).map(Some)).unwrap();
    for away in [numbers(&other), imported(&numbers(&other))] {
        assert_eq!(away.on(&one).unwrap_err().kind(), ErrorKind::NotReachable);
        let plan = away.plan_copy(&one, &Options::new()).unwrap();
        let ways: Vec<Way> = plan.hops().iter().map(|hop| hop.way).collect();
        assert_eq!(ways, [Way::ToHost, Way::FromHost], "{plan}");
        let moved = plan.run().unwrap();
        assert!(moved.to_host().unwrap().equals(&values).unwrap());
    }
    let refused = buffer(&other, &[1; 16]).on(&one).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotReachable);
    let mut memory = other.allocate(16).unwrap();
    assert_eq!(memory.spot(&one).unwrap_err().kind(), ErrorKind::NotReachable);
    assert_eq!(memory.write(&one, &[1]).unwrap_err().kind(), ErrorKind::NotReachable);
    let part = Some(buffer(&other, &[1; 16]));
    let part = Array::builder(DataType::Int32).len(4).buffers([None, part]);
    assert_eq!(part.finish_on(&one).unwrap_err().kind(), ErrorKind::NotReachable);
}

// Requirement: DRV-2
#[test]
fn the_runtime_that_has_the_memory_is_told_what_becomes_of_it() {
    process::alone(|| {
        let watches = Abilities { watch: true, ..Abilities::default() };
        let (one, of_one) = device::open_in(1, 7, watches);
        let (other, of_other) = device::open_in(2, 7, watches);
        let told = [&of_one, &of_other];
        let [one, other] = [one, other].map(|device| device.open_queue().unwrap());
        for (queue, mine) in [(&one, 0), (&other, 1)] {
            let array = numbers(queue);
            drop(array.on(queue).unwrap());
            drop(imported(&array));
            drop(array);
            queue.synchronize().unwrap();
            wait_until_released(Duration::from_secs(10)).unwrap();
            let [mine, others] = [told[mine], told[1 - mine]]
                .map(|state| std::mem::take(&mut state.lock().unwrap().watched));
            assert_eq!(others, []);
            use Watched::{Built, Dropped, Exported, Imported, Released, Told, Withdrawn};
            let (from, to) =
                (Told(queue.raw(), PlaceOwner::OfView), Withdrawn(queue.raw(), PlaceOwner::OfView));
            let all = [Built, from, to, Exported, Imported, Dropped, Dropped, Released, Released];
            let without_order = |mut told: Vec<Watched>| {
                told.sort_by_key(|told| format!("{told:?}"));
                told
            };
            assert_eq!(without_order(mine), without_order(all.into()));
        }
    });
}

// Requirement: DRV-2
#[test]
fn every_driver_that_was_told_a_place_is_told_its_release() {
    process::alone(|| {
        let watches = Abilities { watch: true, not_tell: true, ..Abilities::default() };
        let (home, of_home) = device::open_in(5, 60, watches);
        let reaching = Abilities { peer: Some(60), ..watches };
        let (guest, of_guest) = device::open_in(5, 61, reaching);
        let [home, guest] = [home, guest].map(|device| device.open_queue().unwrap());
        let array = numbers(&home);
        for queue in [&guest, &guest, &home] {
            drop(array.on(queue).unwrap());
        }
        drop(array);
        home.synchronize().unwrap();
        wait_until_released(Duration::from_secs(10)).unwrap();
        for (state, times) in [(of_home, 1), (of_guest, 2)] {
            let told = &state.lock().unwrap().watched;
            let count =
                |is_it: fn(&Watched) -> bool| told.iter().filter(|told| is_it(told)).count();
            assert_eq!(count(|told| matches!(told, Watched::Withdrawn(..))), times, "{told:?}");
            assert_eq!(count(|told| *told == Watched::Released), 1, "{told:?}");
        }
    });
}

// Requirement: SAF-24
/// Whoever opens a device asks the devices that are open, and keeps them for as long as that takes.
#[test]
fn who_waits_for_all_releases_waits_for_a_device_that_is_asked_by_another_thread() {
    process::alone(|| {
        let (asked, state) = device::open_in(1, 80, Abilities::default());
        let barrier = Arc::new(Barrier::new(2));
        state.lock().unwrap().held_reach = Some(barrier.clone());
        let opener = std::thread::spawn(|| device::open_in(2, 81, Abilities::default()));
        barrier.wait();
        drop(asked);
        assert_eq!(Arc::strong_count(&state), 2, "it is being asked");
        assert_eq!(held_back().being_released, 1);
        // An interpreter on a machine with other work takes long.
        let patience = Duration::from_secs(if cfg!(miri) { 300 } else { 30 });
        let waiter = std::thread::spawn(move || wait_until_released(patience));
        std::thread::sleep(Duration::from_millis(50));
        barrier.wait();
        waiter.join().unwrap().unwrap();
        assert_eq!(Arc::strong_count(&state), 1, "its driver is still there");
        opener.join().unwrap();
    });
}

/// An array without memory that waits for an event of its producer's.
fn empty_with_event(queue: &Queue) -> Array {
    let device = queue.device().id();
    let empty = Array::builder(DataType::Int32).device(device).len(0).buffers([None, None]);
    imported(&empty.finish_on(queue).unwrap())
}

// Requirement: SAF-11, SAF-12
#[test]
fn an_event_of_which_nothing_tells_the_runtime_is_waited_for_by_nobody() {
    process::alone(|| {
        let open =
            |runtime| device::open_in(runtime, 90, Abilities::default()).0.open_queue().unwrap();
        let one = open(1);
        let array = empty_with_event(&one);
        array.on(&one).unwrap();
        array.wait().unwrap();
        let other = open(2);
        let array = empty_with_event(&one);
        let kind = |error: Error| error.kind();
        for queue in [&one, &other] {
            assert_eq!(array.on(queue).map_err(kind).err(), Some(ErrorKind::NotReachable));
            let structs = || {
                let field = Field::new("a", DataType::Int32, true);
                let builder = Array::builder(DataType::struct_([field])).len(0).null_count(0);
                builder.buffers([None]).children([array.clone()])
            };
            let refused = structs().finish_on(queue).map_err(kind).err();
            assert_eq!(refused, Some(ErrorKind::InvalidArgument));
            let empty = numbers(queue).slice(0, 0).unwrap();
            let refused = batch([empty, array.clone()]).map_err(kind).err();
            assert_eq!(refused, Some(ErrorKind::InvalidArgument));
        }
        assert_eq!(array.wait().map_err(kind).err(), Some(ErrorKind::DeviceMissing));
        assert_eq!(array.is_ready().map_err(kind).err(), Some(ErrorKind::DeviceMissing));
    });
}

// Requirement: SAF-11, SAF-12
#[test]
fn memory_of_a_runtime_that_is_closed_is_not_taken_for_that_of_another() {
    process::alone(|| {
        let (one, state) = device::open_in(1, 91, Abilities::default());
        // SAFETY: a handle of the device's, which nobody gives back.
        let base = unsafe { one.driver().allocate(16, None) }.unwrap().as_ptr();
        let left = [(); 2].map(|()| {
            // SAFETY: the handle stands for as many bytes.
            let buffer = unsafe { Buffer::foreign(one.id(), base, 16, ()) };
            let builder = Array::builder(DataType::Int32).len(4).buffers([None, Some(buffer)]);
            builder.finish_ready().unwrap()
        });
        drop(one);
        assert_eq!(Arc::strong_count(&state), 1, "it is closed");
        let other = device::open_in(2, 91, Abilities::default()).0.open_queue().unwrap();
        for array in &left {
            assert_eq!(array.on(&other).unwrap_err().kind(), ErrorKind::NotReachable);
            assert_eq!(array.to_host().unwrap_err().kind(), ErrorKind::DeviceMissing);
            let refused = batch([numbers(&other), array.clone()]).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        }
        numbers(&other).on(&other).unwrap();
    });
}

// Requirement: SAF-11, SAF-12
#[test]
fn memory_of_all_devices_of_a_runtime_is_told_from_that_of_another_runtime() {
    process::alone(|| {
        let open = |runtime, number| {
            let id = DeviceId::new(DeviceType::CUDA_HOST, number);
            let can = Abilities { peer: Some(-1), ..Abilities::default() };
            device::open_as(runtime, id, can).0.open_queue().unwrap()
        };
        let queues = [open(1, 0), open(2, 1)];
        for queue in &queues {
            let array = numbers(queue);
            let schema = array.schema().unwrap();
            let mut c_array = ArrowDeviceArray::empty();
            array.export(&mut c_array).unwrap();
            // Producers write this for memory that is of no device in particular.
            c_array.device_id = -1;
            let array = unsafe { Array::import(&mut c_array, &schema) }.unwrap();
            let values = Array::from_values(DataType::Int32, (0..4).map(Some)).unwrap();
            assert!(array.to_host().unwrap().equals(&values).unwrap());
        }
    });
}
