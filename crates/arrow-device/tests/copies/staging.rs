//! What a copy takes of the memory that data passes through, counted.
//!
//! The test has a process of its own, because blocks come back by way of the one list of pending
//! releases: while another test's thread has that list, a copy takes a new block instead of
//! waiting, and the count would be one of luck.

use arrow_device::copy::Options;
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
