//! The application's commands and Arrow data in one order.

use std::sync::Arc;
use std::time::Duration;

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, Device, Memory, Queue, Schema};
use arrow_device_hexagon::{Mapping, Progress, Ring, open_with, place_of};
use arrow_device_testkit::process::alone;
use arrow_device_testkit::release_until;
use simulated_hexagon::{Dsp, Work, memory};

use crate::support::{self, array_of, filled, place, values_of};

const VALUES: [i32; 4] = [1, 2, 3, 4];
const SUMS: [i32; 4] = [11, 12, 13, 14];

/// [`VALUES`], and as many zeros.
fn before(queue: &Queue) -> [Memory; 2] {
    [filled(queue, &VALUES), filled(queue, &[0; 4])]
}

/// Submits a command that adds 10 to [`VALUES`], and makes an array of the results.
fn sums(dsp: &Dsp, queue: &Queue) -> Array {
    let [mut from, mut to] = before(queue);
    dsp.submit(Work::Add(place(&mut from, queue), place(&mut to, queue), 4, 10));
    queue.keep_until_done(from);
    array_of(to, 4, queue)
}

#[test]
fn an_event_has_not_passed_before_the_dsp_is_done() {
    let Some((dsp, device)) = support::with_ring() else { return };
    let queue = device.open_queue().unwrap();
    let (first, memory) = (queue.record().unwrap(), before(&queue));
    dsp.close_gate();
    let [mut from, mut to] = memory;
    dsp.submit(Work::Add(place(&mut from, &queue), place(&mut to, &queue), 4, 10));
    let event = queue.record().unwrap();
    assert!(first.is_complete().unwrap());
    assert!(!event.is_complete().unwrap() && !queue.is_idle().unwrap());
    assert!(!event.wait_timeout(Duration::from_millis(1)).unwrap());
    dsp.open_gate();
    event.synchronize().unwrap();
    assert!(event.is_complete().unwrap() && queue.is_idle().unwrap());
    assert_eq!(values_of(&array_of(to, 4, &queue)), SUMS);
}

/// A ring that says that everything is done.
#[derive(Debug)]
struct Hasty(Arc<Dsp>);

// It breaks the contract, which is what the test is about.
unsafe impl Ring for Hasty {
    fn submitted(&self) -> u64 {
        self.0.submitted()
    }

    fn progress(&self, _number: u64) -> Progress {
        Progress::Completed
    }

    fn wait(&self, _number: u64, _timeout: Option<Duration>) -> Progress {
        Progress::Completed
    }

    fn is_lost(&self) -> bool {
        false
    }
}

/// Exports what the DSP computes, and reads it as a consumer does that knows no events.
///
/// The gate is opened before the array is finished, or after it was read. The memory stays until
/// the DSP is done, whatever the ring says of that.
fn exchanged(dsp: &Dsp, device: &Device, opens_first: bool) -> Vec<i32> {
    let queue = device.open_queue().unwrap();
    let [mut from, mut to] = before(&queue);
    dsp.close_gate();
    dsp.submit(Work::Spin(100_000));
    dsp.submit(Work::Add(place(&mut from, &queue), place(&mut to, &queue), 4, 10));
    if opens_first {
        dsp.open_gate();
    }
    let array = array_of(to, 4, &queue);
    let (mut schema, mut there) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    array.schema().unwrap().export(&mut schema).unwrap();
    array.export(&mut there).unwrap();
    assert!(there.sync_event.is_null());
    let schema = unsafe { Schema::import(&mut schema) }.unwrap();
    let there = unsafe { Array::import(&mut there, &schema) }.unwrap();
    let values = values_of(&there);
    dsp.open_gate();
    assert_eq!(dsp.wait(dsp.submitted(), None), Progress::Completed);
    drop((from, array, there));
    values
}

// Requirement: ARR-7
#[test]
fn an_array_is_finished_when_the_dsp_is_and_without_the_wait_its_values_are_missing() {
    for _ in 0..5 {
        let Some((dsp, device)) = support::with_ring() else { return };
        assert_eq!(exchanged(&dsp, &device, true), SUMS);
        let opening = support::opening().with_ring(Arc::new(Hasty(dsp.clone())));
        let device = open_with(opening).unwrap();
        assert_eq!(exchanged(&dsp, &device, false), [0; 4]);
    }
}

#[test]
fn a_copy_comes_after_the_commands_before_it_and_before_those_behind_it() {
    let Some((dsp, device)) = support::with_ring() else { return };
    let queue = device.open_queue().unwrap();
    for _ in 0..20 {
        dsp.submit(Work::Spin(1_000_000));
        let first = sums(&dsp, &queue);
        let copy = first.copy_to(&queue).unwrap();
        let mut to = filled(&queue, &[0; 4]);
        let view = copy.on(&queue).unwrap();
        let from = place_of(view.buffer(1).location().spot()).unwrap();
        dsp.submit(Work::Add(from, place(&mut to, &queue), 4, 100));
        drop(view);
        assert_eq!(values_of(&array_of(to, 4, &queue)), SUMS.map(|sum| sum + 100));
    }
}

/// Memory that was written by a command is not written by the host, or given to somebody else,
/// before the command is done.
// Requirement: SAF-13
#[test]
fn memory_is_kept_until_the_ring_has_passed_its_last_use() {
    alone(|| {
        let Some((dsp, device)) = support::with_ring() else { return };
        let queue = device.open_queue().unwrap();
        let array = array_of(filled(&queue, &VALUES), 4, &queue);
        let mut to = filled(&queue, &[0; 4]);
        dsp.close_gate();
        let view = array.on(&queue).unwrap();
        let from = place_of(view.buffer(1).location().spot()).unwrap();
        dsp.submit(Work::Copy(from, place(&mut to, &queue), 16));
        drop((view, array));
        arrow_device::deferred::release_finished();
        assert_eq!(memory::counts().allocations, 2);
        dsp.open_gate();
        let sums = array_of(to, 4, &queue);
        assert_eq!(values_of(&sums), VALUES);
        assert!(release_until(|| memory::counts().allocations == 1));
        drop(sums);
        assert!(release_until(|| memory::counts().allocations == 0));
        assert_eq!(memory::counts().mistakes, 0);
    });
}

#[test]
fn a_queue_of_another_device_has_the_host_wait_for_the_ring() {
    let Some((dsp, device)) = support::with_ring() else { return };
    let (queue, other) = (device.open_queue().unwrap(), support::device().open_queue().unwrap());
    let array = sums(&dsp, &queue);
    dsp.submit(Work::Spin(1_000_000));
    let event = queue.record().unwrap();
    other.wait(&event).unwrap();
    assert!(event.is_complete().unwrap());
    assert_eq!(values_of(&array.copy_to(&other).unwrap()), SUMS);
}

#[test]
fn an_application_filters_a_column_whose_length_is_known_later() {
    let Some((dsp, device)) = support::with_ring() else { return };
    let queue = device.open_queue().unwrap();
    let values: Vec<i32> = (0..100_000).map(|row| row % 1000 - 500).collect();
    let kept: Vec<i32> = values.iter().copied().filter(|value| *value > 490).collect();
    let mut from = filled(&queue, &values);
    let (mut to, mut count) = (queue.allocate(400_000).unwrap(), filled(&queue, &[-1]));
    let places = [&mut from, &mut to, &mut count].map(|memory| place(memory, &queue));
    dsp.submit(Work::Filter(places[0], places[1], places[2], 100_000, 490));
    queue.keep_until_done(from);
    // SAFETY: UNS-33: the command writes as many as it counts.
    unsafe { to.assume_written(400_000) };
    let len = values_of(&array_of(count, 1, &queue))[0] as usize;
    assert_eq!(len, kept.len());
    assert_eq!(values_of(&array_of(to, len, &queue))[..len], kept);
}

#[test]
fn threads_submit_to_one_ring() {
    let Some((dsp, device)) = support::with_ring() else { return };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let queue = device.open_queue().unwrap();
                for _ in 0..50 {
                    let array = sums(&dsp, &queue);
                    let copy = array.copy_to(&queue).unwrap();
                    drop(array);
                    assert_eq!(values_of(&copy), SUMS);
                }
            });
        }
    });
}

#[test]
fn one_device_stands_for_each_ring() {
    let (Some((dsp, device)), Some(other)) = (support::with_ring(), support::dsp()) else { return };
    let opening = support::opening().with_ring(other.clone()).with_mapping(Mapping::WhileAllocated);
    let second = open_with(opening).unwrap();
    let queue = device.open_queue().unwrap();
    dsp.close_gate();
    dsp.submit(Work::Spin(1));
    let elsewhere = second.open_queue().unwrap();
    assert_eq!(values_of(&sums(&other, &elsewhere)), SUMS);
    assert!(!queue.is_idle().unwrap() && elsewhere.is_idle().unwrap());
    dsp.open_gate();
    queue.synchronize().unwrap();
}
