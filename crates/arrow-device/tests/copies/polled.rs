//! Copies that are polled, by a driver that counts the calls that may wait.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::copy::{Options, PolledCopy};
use arrow_device::{
    Array, DeviceId, DeviceType, ErrorKind, Memory, Queue, Ready, Result, deferred,
};
use arrow_device_testkit::process::alone;
use arrow_device_testkit::recipe::*;
use arrow_device_testkit::release_until;

use crate::copies::list_of_one;
use crate::device::{self, Abilities, State};

type Device = Mutex<State>;

/// Polls to the end, and lets the devices work between two polls. Returns the array, and how often
/// a poll had nothing to return.
fn poll_with(mut copy: PolledCopy, devices: &[&Device]) -> Result<(Array, usize)> {
    let mut turns = 0;
    loop {
        match copy.poll()? {
            Some(array) => return Ok((array, turns)),
            None => turns += 1,
        }
        assert!(turns < 10_000, "never done");
        devices.iter().for_each(|device| device.lock().unwrap().finish());
    }
}

fn may_wait(device: &Device) -> usize {
    device.lock().unwrap().may_wait
}

fn copies(device: &Device) -> usize {
    device.lock().unwrap().copies
}

fn assert_clean(device: &Device) {
    assert!(release_until(|| {
        let state = device.lock().unwrap();
        state.blocks() == 0 && state.events == 0
    }));
    assert_eq!(device.lock().unwrap().mistakes, Vec::<String>::new());
}

/// Strings in lists in lists: three levels of lengths.
fn nested() -> Array {
    list_of_one(list(text())).build().unwrap()
}

// Requirement: SAF-21
#[test]
fn every_sample_is_fetched_by_as_many_copies_and_without_a_wait() {
    let (device, state) = device::open(401);
    let queue = device.open_queue().unwrap();
    for recipe in samples().into_iter().step_by(if cfg!(miri) { 5 } else { 1 }) {
        let array = recipe.build().unwrap();
        for array in [array.slice(array.len() / 3, array.len() / 2).unwrap(), array] {
            let there = array.copy_to(&queue).unwrap();
            there.wait().unwrap();
            let before = copies(&state);
            let expected = there.to_host().unwrap();
            let (of_waiting, waits) = (copies(&state) - before, may_wait(&state));
            let (fetched, turns) = poll_with(there.fetch().unwrap(), &[&state]).unwrap();
            assert_eq!(copies(&state) - before, 2 * of_waiting, "{array:?}");
            assert_eq!(may_wait(&state), waits, "{array:?}");
            assert_eq!(turns, of_waiting, "a turn for each copy: {array:?}");
            assert_eq!((fetched.device(), fetched.ready()), (DeviceId::CPU, Ready::Now));
            fetched.validate().unwrap();
            assert!(fetched.equals(&expected).unwrap(), "{array:?}");
        }
    }
    drop(queue);
    assert_clean(&state);
}

// Requirement: SAF-21
#[test]
fn a_copy_goes_to_a_device_and_to_another_one_without_a_wait() {
    for can in [
        Abilities::default(),
        Abilities { gather: true, ..Abilities::default() },
        Abilities { fill: true, ..Abilities::default() },
    ] {
        let ((one, state), (other, others)) =
            (device::open_with(402, can), device::open_with(403, can));
        let (from, to) = (one.open_queue().unwrap(), other.open_queue().unwrap());
        for recipe in samples().into_iter().step_by(if cfg!(miri) { 20 } else { 1 }) {
            let array = recipe.build().unwrap();
            let devices = [&*state, &*others];
            let before = [may_wait(&state), may_wait(&others)];
            // Small chunks, so that more are on their way than may be.
            for options in [Options::new().chunk(64), Options::new().separate(true)] {
                let there = array.copy_polled(&from, &options).unwrap();
                let (there, _) = poll_with(there, &devices).unwrap();
                // The source is not ready yet: its copy was only submitted.
                let further = there.copy_polled(&to, &options).unwrap();
                let (further, _) = poll_with(further, &devices).unwrap();
                let back = further.copy_polled(&Queue::host(), &options).unwrap();
                let (back, _) = poll_with(back, &devices).unwrap();
                assert!(back.equals(&array).unwrap(), "{array:?}");
            }
            assert_eq!([may_wait(&state), may_wait(&others)], before, "{array:?}");
        }
        drop((from, to));
        assert_clean(&state);
        assert_clean(&others);
    }
}

#[test]
fn a_source_whose_event_has_not_passed_is_not_waited_for() {
    let (device, state) = device::open(404);
    let queue = device.open_queue().unwrap();
    let array = numbers().build().unwrap();
    let there = array.copy_to(&queue).unwrap();
    let mut copy = there.fetch().unwrap();
    for _ in 0..3 {
        assert!(copy.poll().unwrap().is_none());
    }
    assert_eq!((may_wait(&state), copies(&state)), (0, 2), "there, and back");
    state.lock().unwrap().finish();
    assert!(copy.poll().unwrap().unwrap().equals(&array).unwrap());
    let error = copy.poll().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "the result is given once: {error}");
}

#[test]
fn an_event_that_only_the_host_can_wait_for_is_asked_for() {
    let ((one, state), (other, others)) = (device::open(405), device::open(406));
    let (queue, another) = (one.open_queue().unwrap(), other.open_queue().unwrap());
    // Memory of the first device that is written by work on the second one, as far as its event
    // says: neither runtime can wait for the event of the other.
    numbers().build().unwrap().copy_to(&another).unwrap();
    let mut memory = queue.allocate(16).unwrap();
    memory.write(&queue, &[1; 16]).unwrap();
    let array = Array::builder(arrow_device::DataType::Int64)
        .len(2)
        .buffers([None, Some(memory.into_buffer())]);
    let array = unsafe { array.finish_after(another.record().unwrap()) }.unwrap();
    let before = [may_wait(&state), may_wait(&others)];
    let mut copy = array.fetch().unwrap();
    assert!(copy.poll().unwrap().is_none());
    state.lock().unwrap().finish();
    assert!(copy.poll().unwrap().is_none(), "the other device has not done its work");
    let (copy, turns) = poll_with(copy, &[&state, &others]).unwrap();
    assert_eq!([may_wait(&state), may_wait(&others)], before);
    assert_eq!(turns, 2, "one for the event, one for the copy");
    assert_eq!(copy.host().unwrap().buffer(1).unwrap()[..], [1; 16]);
}

/// Host memory that is counted as long as it is there.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicUsize>);

struct CountedBytes(Arc<AtomicUsize>, #[expect(dead_code, reason = "kept alive")] Vec<u64>);

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl arrow_device::Allocator for Counted {
    fn allocate(
        &self,
        device: &arrow_device::Device,
        len: u64,
        _queue: Option<&Queue>,
    ) -> Result<Memory> {
        let mut bytes = vec![0_u64; (len as usize).div_ceil(8)];
        let raw = arrow_device::driver::Raw::from_ptr(bytes.as_mut_ptr().cast());
        self.0.fetch_add(1, Ordering::SeqCst);
        let owner = CountedBytes(self.0.clone(), bytes);
        Ok(unsafe { Memory::adopt(device, raw, len, owner) })
    }
}

// Requirement: SAF-13, SAF-14
#[test]
fn a_copy_that_is_dropped_at_any_step_keeps_what_the_device_still_writes_to() {
    let (device, state) = device::open(407);
    let queue = device.open_queue().unwrap();
    let array = nested();
    let there = array.copy_to(&queue).unwrap();
    there.wait().unwrap();
    for steps in 0..5 {
        let memory = Counted::default();
        let options = Options::new().allocator(memory.clone()).through(&queue);
        let mut copy = there.copy_polled(&Queue::host(), &options).unwrap();
        let mut done = None;
        for _ in 0..steps {
            state.lock().unwrap().finish();
            done = copy.poll().unwrap();
        }
        drop(copy);
        deferred::release_finished();
        match steps {
            4 => assert!(done.unwrap().equals(&array).unwrap(), "three levels, and the rest"),
            _ => {
                // One makes the source ready, one ends its use, and one that of memory of the host.
                let are_three = || state.lock().unwrap().events == 3;
                assert!(release_until(are_three), "after {steps} steps");
                let is_there = memory.0.load(Ordering::SeqCst);
                assert_eq!(is_there, usize::from(steps == 3), "after {steps} steps");
            }
        }
        state.lock().unwrap().finish();
        assert!(release_until(|| memory.0.load(Ordering::SeqCst) == 0), "after {steps} steps");
    }
    drop((there, queue));
    assert_clean(&state);
}

// Requirement: SAF-18
#[test]
fn a_device_that_is_lost_meanwhile_ends_the_copy() {
    for steps in 0..4 {
        let (device, state) = device::open(410 + steps);
        let queue = device.open_queue().unwrap();
        let there = nested().copy_to(&queue).unwrap();
        there.wait().unwrap();
        let memory = Counted::default();
        let options = Options::new().allocator(memory.clone());
        let mut copy = there.copy_polled(&Queue::host(), &options).unwrap();
        for _ in 0..steps {
            state.lock().unwrap().finish();
            assert!(copy.poll().unwrap().is_none());
        }
        state.lock().unwrap().is_lost = true;
        let error = copy.poll().unwrap_err();
        assert_eq!((error.kind(), error.device()), (ErrorKind::DeviceLost, Some(device.id())));
        assert!(error.operation().unwrap().starts_with("copy, "), "{error}");
        assert_eq!(copy.poll().unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert!(release_until(|| memory.0.load(Ordering::SeqCst) == 0));
    }
}

#[test]
fn ten_thousand_copies_go_on_at_once() {
    let count = if cfg!(miri) { 20 } else { 10_000 };
    let (device, state) = device::open(420);
    let queue = device.open_queue().unwrap();
    let array = list(text()).build().unwrap();
    let there = array.copy_to(&queue).unwrap();
    there.wait().unwrap();
    let before = may_wait(&state);
    let options = Options::new().through(&queue);
    let mut copies: Vec<PolledCopy> =
        (0..count).map(|_| there.copy_polled(&Queue::host(), &options).unwrap()).collect();
    let mut done = 0;
    while !copies.is_empty() {
        state.lock().unwrap().finish();
        copies.retain_mut(|copy| match copy.poll().unwrap() {
            None => true,
            Some(back) => {
                assert!(done % 100 > 0 || back.equals(&array).unwrap());
                done += 1;
                false
            }
        });
    }
    assert_eq!((done, may_wait(&state)), (count, before));
    drop((there, queue, options));
    assert_clean(&state);
}

#[test]
fn a_future_wakes_when_the_program_says_so() {
    let (device, state) = device::open(421);
    let queue = device.open_queue().unwrap();
    let array = nested();
    let there = array.copy_to(&queue).unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let soon = move |waker: Waker| {
        counted.fetch_add(1, Ordering::SeqCst);
        let state = state.clone();
        std::thread::spawn(move || {
            state.lock().unwrap().finish();
            waker.wake();
        });
    };
    let copy = there.fetch().unwrap().woken_by(soon);
    let back = arrow_device::async_stream::block_on(copy).unwrap();
    assert!(back.equals(&array).unwrap());
    assert_eq!(calls.load(Ordering::SeqCst), 4, "three levels, and the rest");
}

#[test]
fn on_a_driver_that_may_not_wait_polled_copies_work_and_the_others_say_so() {
    // In a process of its own: what other tests hold back is waited for as well.
    alone(nobody_waits);
}

fn nobody_waits() {
    let (device, state) =
        device::open_with(422, Abilities { not_wait: true, ..Abilities::default() });
    let queue = device.open_queue().unwrap();
    let array = nested();
    let there = array.copy_to(&queue).unwrap();
    let mut memory = queue.allocate(16).unwrap();
    let began = std::time::Instant::now();
    let errors = [
        queue.synchronize().unwrap_err(),
        there.wait().unwrap_err(),
        there.to_host().unwrap_err(),
        there.validate_on(&queue).unwrap_err(),
        memory.write(&queue, &[7; 16]).unwrap_err(),
        deferred::wait_until_released(Duration::from_secs(60)).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");
        assert!(error.to_string().contains("may not wait"), "{error}");
    }
    drop(memory);
    assert!(!there.is_ready().unwrap());
    // What a refused copy was to write to is kept as long as the device may write there.
    let plain = numbers().build().unwrap().copy_to(&queue).unwrap();
    let counted = Counted::default();
    let options = Options::new().allocator(counted.clone());
    let refused = plain.copy_with(&Queue::host(), &options).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotReady, "{refused}");
    deferred::release_finished();
    assert_eq!(counted.0.load(Ordering::SeqCst), 1);
    drop(plain);
    // An allocation that finds no memory does not wait for what is held back, either.
    assert_eq!(queue.allocate(1 << 21).unwrap_err().kind(), ErrorKind::OutOfMemory);
    // Miri takes its time without any wait.
    assert!(cfg!(miri) || began.elapsed() < Duration::from_secs(5), "somebody waited");
    let (back, _) = poll_with(there.fetch().unwrap(), &[&state]).unwrap();
    assert!(back.equals(&array).unwrap());
    // What is finished can be waited for.
    there.wait().unwrap();
    drop((there, queue));
    state.lock().unwrap().finish();
    assert_clean(&state);
    assert!(release_until(|| counted.0.load(Ordering::SeqCst) == 0));
}

#[test]
fn sizes_that_a_producer_left_on_the_device_are_read_without_a_wait() {
    let can = Abilities { locate: true, ..Abilities::default() };
    let (device, state) = device::open_as(423, DeviceId::new(DeviceType::CUDA, 423), can);
    let queue = device.open_queue().unwrap();
    let array = list(views()).build().unwrap();
    let there = array.copy_to(&queue).unwrap();
    let mut c_array = ArrowDeviceArray::empty();
    there.export(&mut c_array).unwrap();
    // The sizes go where the data is.
    let mut sizes = queue.allocate(64).unwrap();
    let views = unsafe { &mut **c_array.array.children };
    let buffers = unsafe { std::slice::from_raw_parts(views.buffers, views.n_buffers as usize) };
    let mut buffers = buffers.to_vec();
    let (count, last) = (buffers.len() - 3, buffers.last_mut().unwrap());
    assert!(count > 0 && !last.is_null());
    let bytes = unsafe { std::slice::from_raw_parts(last.cast::<u8>(), 8 * count) };
    sizes.write(&queue, bytes).unwrap();
    *last = sizes.spot(&queue).unwrap().base.as_ptr().cast_const();
    views.buffers = buffers.as_mut_ptr();
    let imported = unsafe { Array::import(&mut c_array, &there.schema().unwrap()) }.unwrap();
    let before = may_wait(&state);
    let (back, turns) = poll_with(imported.fetch().unwrap(), &[&state]).unwrap();
    assert!(back.equals(&array).unwrap());
    assert_eq!((turns, may_wait(&state)), (3, before), "sizes, lengths, and the rest");
    drop((there, imported, sizes, queue));
    assert_clean(&state);
}

// Requirement: SAF-21
#[test]
fn places_between_units_are_read_without_a_wait() {
    for (number, unit) in [(430, 4), (431, 16), (432, 512)] {
        let can = Abilities { unit, ..Abilities::default() };
        let (device, state) = device::open_with(number, can);
        let queue = device.open_queue().unwrap();
        let array = list(text()).build().unwrap();
        let there = array.copy_to(&queue).unwrap();
        there.wait().unwrap();
        for start in 0..3.min(array.len()) {
            let part = there.slice(start, array.len() - start).unwrap();
            let expected = array.slice(start, array.len() - start).unwrap();
            let waits = may_wait(&state);
            let (back, _) = poll_with(part.fetch().unwrap(), &[&state]).unwrap();
            assert!(back.equals(&expected).unwrap(), "unit {unit}, from {start}");
            // Given up at each step.
            for steps in 0..3 {
                let mut copy = part.fetch().unwrap();
                for _ in 0..steps {
                    state.lock().unwrap().finish();
                    drop(copy.poll().unwrap());
                }
            }
            assert_eq!(may_wait(&state), waits, "unit {unit}, from {start}");
        }
        drop((there, queue));
        state.lock().unwrap().finish();
        assert_clean(&state);
    }
}

// Requirement: SAF-22
#[test]
fn a_copy_that_finds_memory_for_a_part_of_its_result_gives_the_part_back_once() {
    let (device, state) = device::open(433);
    let queue = device.open_queue().unwrap();
    let array = numbers().build().unwrap();
    // Work that is not done yet, and that something is kept for.
    let there = array.copy_to(&queue).unwrap();
    queue.keep_until_done(());
    let before = state.lock().unwrap().blocks();
    state.lock().unwrap().room = Some(1);
    let options = Options::new().separate(true);
    let texts = list(text()).build().unwrap();
    let mut copy = texts.copy_polled(&queue, &options).unwrap();
    for _ in 0..if cfg!(miri) { 5 } else { 1000 } {
        assert!(copy.poll().unwrap().is_none());
        let state = state.lock().unwrap();
        assert_eq!((state.blocks(), state.room), (before + 1, Some(0)));
    }
    state.lock().unwrap().finish();
    // Nothing is held back any more, and there is room for one block. What other tests release at
    // the moment might help.
    let error = loop {
        match copy.poll() {
            Ok(None) => std::thread::yield_now(),
            Ok(Some(_)) => panic!("there is no room for a result"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert!(error.to_string().contains("in which memory was waited for"), "{error}");
    let is_back = || state.lock().unwrap().room == Some(1);
    assert!(release_until(is_back), "what was taken is back");
    drop((there, queue));
    assert_clean(&state);
}
