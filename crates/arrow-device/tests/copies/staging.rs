//! What a copy takes of the memory that data passes through, counted.
//!
//! The tests have processes of their own, because blocks come back by way of the one list of
//! pending releases: while another test's thread has that list, a copy takes a new block instead of
//! waiting, and the count would be one of luck.

use arrow_device::copy::Options;
use arrow_device::{Array, DataType, Device, Queue};
use arrow_device_testkit::manual::{Manual, ManualCopies};
use arrow_device_testkit::recipe::samples;
use arrow_device_testkit::{process, release_until};

use crate::device;

#[test]
fn data_that_passes_through_the_host_uses_the_drivers_memory_for_that() {
    process::alone(copies_take_few_blocks);
}

fn copies_take_few_blocks() {
    let (one, _source) = device::open(10);
    let can = device::Abilities { stage: true, ..Default::default() };
    let (two, state) = device::open_with(11, can);
    let (from, to) = (one.open_queue().unwrap(), two.open_queue().unwrap());
    let chunks = Options::new().chunk(64);
    for recipe in samples().into_iter().step_by(if cfg!(miri) { 5 } else { 1 }) {
        let array = recipe.build().unwrap();
        let there = array.copy_to(&from).unwrap().copy_with(&to, &chunks).unwrap();
        assert!(there.to_host().unwrap().equals(&array).unwrap(), "{array:?}");
    }
    // Many copies of many chunks, and few blocks.
    let (staging, staged) = {
        let state = state.lock().unwrap();
        (state.staging, state.staged)
    };
    assert!((1..=4).contains(&staging), "{staging}");
    assert!(staged <= 40, "{staged}");
    assert!(two.held().staging <= 4 * 64);
    to.synchronize().unwrap();
    drop((from, to, two));
    assert!(release_until(|| state.lock().unwrap().blocks() == 0));
    assert!(release_until(|| state.lock().unwrap().staging == 0));
    assert_eq!(state.lock().unwrap().mistakes, Vec::<String>::new());
}

/// Two devices without a common path, which move no byte, and an array of 4 MiB on the first one.
struct Flood {
    first: Manual,
    source: Queue,
    second: Manual,
    device: Device,
    queue: Queue,
    array: Array,
}

const MEBIBYTE: u64 = 1 << 20;

impl Flood {
    fn new() -> Self {
        let [(first, one), (second, device)] = [(); 2].map(|()| Manual::open());
        [&first, &second].into_iter().for_each(|one| one.set_copies(ManualCopies::Submitted));
        let (source, queue) = (one.open_queue().unwrap(), device.open_queue().unwrap());
        let numbers = Array::from_values(DataType::Int64, (0..MEBIBYTE as i64 / 2).map(Some));
        let array = numbers.unwrap().copy_to(&source).unwrap();
        first.complete(&source);
        Self { first, source, second, device, queue, array }
    }

    fn options(&self) -> Options {
        Options::new().through(&self.source)
    }
}

#[test]
fn copies_wait_where_the_device_takes_less_than_comes() {
    process::alone(|| {
        let flood = Flood::new();
        let held = (0..100).map(|_| {
            drop(flood.array.copy_with(&flood.queue, &flood.options()).unwrap());
            flood.device.held().staging
        });
        let most = held.max().unwrap();
        // What is on its way, and what is kept for the next copy.
        assert!((200 * MEBIBYTE..=320 * MEBIBYTE).contains(&most), "{most}");
        flood.second.complete(&flood.queue);
    });
}

// Requirement: SAF-21
#[test]
fn a_polled_copy_comes_back_where_the_device_takes_less_than_comes() {
    process::alone(|| {
        let flood = Flood::new();
        let copied = || {
            let begun = flood.array.copy_polled(&flood.queue, &flood.options());
            let mut copy = begun.unwrap();
            // The lengths and the data of the source, and then there is nothing to wait for.
            for _ in 0..8 {
                flood.first.complete(&flood.source);
                if copy.poll().unwrap().is_some() {
                    return None;
                }
            }
            Some(copy)
        };
        let count = (0..100).map_while(|_| copied().is_none().then_some(())).count();
        assert!((60..=64).contains(&count), "{count} copies of 4 MiB");
        let mut copy = copied().expect("the others are on their way");
        flood.second.complete(&flood.queue);
        assert!((0..8).any(|_| {
            flood.first.complete(&flood.source);
            copy.poll().unwrap().is_some()
        }));
        flood.second.complete(&flood.queue);
    });
}

// Requirement: SAF-25
#[test]
fn copies_on_many_queues_do_not_each_ask_about_all_queues() {
    process::alone(|| {
        let count = if cfg!(miri) { 40 } else { 1000 };
        let [(first, one), (second, device)] = [(); 2].map(|()| Manual::open());
        [&first, &second].into_iter().for_each(|one| one.set_copies(ManualCopies::Submitted));
        let source = one.open_queue().unwrap();
        let numbers = Array::from_values(DataType::Int64, (0..8_i64).map(Some)).unwrap();
        let array = numbers.copy_to(&source).unwrap();
        let queues: Vec<Queue> = (0..count).map(|_| device.open_queue().unwrap()).collect();
        let copy_to = |queue: &Queue| {
            first.complete(&source);
            array.copy_to(queue).unwrap()
        };
        let copies: Vec<Array> = queues.iter().map(copy_to).collect();
        let questions = second.questions();
        assert!(questions <= 64 * count, "{questions} questions for {count} copies");
        queues.iter().for_each(|queue| second.complete(queue));
        drop(copies);
        assert!(release_until(|| second.live_memory() == 0));
    });
}
