//! Copies that are polled, on software devices of every kind on which nobody may wait.

use std::collections::BTreeSet;

use arrow_device::copy::{Options, PolledCopy};
use arrow_device::deferred::{held_back, release_finished};
use arrow_device::{Array, ErrorKind, Queue, Result};
use arrow_device_sim::{Builder, Kind, Sim};
use arrow_device_testkit::{
    generate, oracle, recipe, release_until, release_what_has_passed, trips,
};

use super::faults::lists;

/// Polls to the end. The devices work between two polls.
pub(super) fn polled(sim: &Sim, copy: Result<PolledCopy>) -> Result<Array> {
    let mut copy = copy?;
    for _ in 0..1000 {
        if let Some(array) = copy.poll()? {
            return Ok(array);
        }
        sim.run_until_idle();
    }
    panic!("never done");
}

/// There, within the device, to another device and back.
fn journey(sim: &Sim, array: &Array, options: &Options) -> Result<Array> {
    let (one, other) = (sim.device().open_queue()?, sim.device_number(1).open_queue()?);
    // With what is before the elements, which is cut off on the next way.
    let there = polled(sim, array.copy_polled(&one, &options.clone().trim(false)))?;
    let within = polled(sim, there.copy_polled(&one, &options.clone().always(true)))?;
    let further = polled(sim, within.copy_polled(&other, options))?;
    polled(sim, further.copy_polled(&Queue::host(), options))
}

/// Every kind, with devices that reach each other and with devices that do not.
fn all_kinds() -> impl Iterator<Item = Builder> {
    Kind::ALL.into_iter().flat_map(|kind| {
        let builder =
            move || Sim::builder().kind(kind).parts(true).may_wait(false).backtraces(false);
        [builder().devices(2), builder().peers(2)]
    })
}

// Requirement: SAF-21
#[test]
fn arrays_of_all_types_travel_on_devices_of_all_kinds_where_nobody_may_wait() {
    for builder in all_kinds() {
        builder.sweep(0..2, |sim| {
            for recipe in recipe::samples() {
                let array = recipe.build().unwrap();
                for array in [array.slice(array.len() / 3, array.len() / 2).unwrap(), array] {
                    let back = journey(sim, &array, &Options::new().chunk(128)).unwrap();
                    assert!(back.equals(&array).unwrap(), "{array:?}");
                }
            }
            for (number, generated) in generate::samples(10, 7).enumerate() {
                let (array, expected) = trips::built(&generated.plan);
                let back = journey(sim, &array, &trips::ways_to_copy(number)).unwrap();
                trips::assert_is(&back, &expected, "there and back");
                drop(oracle::plan_of(&back).unwrap());
            }
            sim.run_until_idle();
            assert!(release_until(|| {
                release_finished();
                sim.allocated() == 0
            }));
        });
    }
}

#[test]
fn any_call_that_fails_ends_a_polled_copy_with_the_step_and_leaves_nothing() {
    let array = lists();
    let mut steps = BTreeSet::new();
    for builder in all_kinds() {
        let runs = builder.for_each_fault(|sim| {
            match journey(sim, &array, &Options::new().chunk(128)) {
                Ok(back) => assert!(back.equals(&array).unwrap()),
                Err(error) => {
                    let kinds = [ErrorKind::OutOfMemory, ErrorKind::Driver, ErrorKind::DeviceLost];
                    assert!(kinds.contains(&error.kind()), "{error}");
                    assert!(error.device().is_some(), "{error}");
                    steps.insert(error.operation().expect("a step"));
                }
            }
            sim.run_until_idle();
        });
        assert!(runs > 20, "{runs}");
    }
    let expected = [
        "copy, allocating the destination",
        "copy, fetching offsets",
        "copy, opening a queue at the source",
        "copy, ordering a queue behind the source",
        "copy, reading a chunk",
        "copy, reading lengths",
        "copy, recording the end",
        "copy, submitting",
        "copy, writing a chunk",
    ];
    for step in expected {
        assert!(steps.contains(step), "{step} is not among {steps:?}");
    }
}

#[test]
fn a_copy_that_is_dropped_at_any_step_is_no_mistake() {
    for builder in all_kinds() {
        let mut steps = 0;
        builder.sweep(0..1, |sim| {
            let (array, host) = (lists(), Queue::host());
            let (one, other) =
                (sim.device().open_queue().unwrap(), sim.device_number(1).open_queue().unwrap());
            let options = Options::new().chunk(128).always(true);
            let there = polled(sim, array.copy_polled(&one, &options)).unwrap();
            for queue in [&host, &one, &other] {
                for polls in 0.. {
                    let mut copy = there.copy_polled(queue, &options).unwrap();
                    let mut is_done = false;
                    for _ in 0..polls {
                        sim.run_until_idle();
                        is_done = copy.poll().unwrap().is_some();
                    }
                    steps = steps.max(polls);
                    drop(copy);
                    if is_done || polls > 50 {
                        break;
                    }
                }
            }
            drop(there);
            sim.run_until_idle();
            assert!(release_until(|| {
                release_finished();
                sim.allocated() == 0
            }));
        });
        assert!((2..50).contains(&steps), "{steps}");
    }
}

#[test]
fn memory_that_comes_back_lets_a_polled_copy_go_on() {
    let sim = Sim::builder().may_wait(false).memory_limit(4096).build();
    let queue = sim.device().open_queue().unwrap();
    let array = Array::from_values(arrow_device::DataType::Int64, (0..300_i64).map(Some)).unwrap();
    let first = array.copy_polled(&queue, &Options::new()).unwrap().poll().unwrap().unwrap();
    sim.run_until_idle();
    release_what_has_passed();
    let error = array.copy_polled(&queue, &Options::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "nothing is held back that may help");
    // Still used by the copy that was submitted.
    drop(first.fetch().unwrap());
    drop(first);
    assert!(held_back().in_use > 0);
    let mut second = array.copy_polled(&queue, &Options::new()).unwrap();
    assert!(second.poll().unwrap().is_none(), "it waits for memory");
    let second = polled(&sim, Ok(second)).expect("there is memory again");
    assert!(polled(&sim, second.fetch()).unwrap().equals(&array).unwrap());
}

#[test]
fn a_large_copy_to_the_host_goes_in_several_turns() {
    let sim = Sim::builder().may_wait(false).backtraces(false).build();
    let queue = sim.device().open_queue().unwrap();
    let count = (64 << 20) + 5;
    let bytes = Array::builder(arrow_device::DataType::UInt8)
        .len(count)
        .buffers([None, Some((0..count).map(|byte| byte as u8).collect::<Vec<u8>>().into())]);
    let array = bytes.finish_ready().unwrap();
    let there = polled(&sim, array.copy_polled(&queue, &Options::new())).unwrap();
    sim.run_until_idle();
    let mut copy = there.fetch().unwrap();
    sim.run_until_idle();
    assert!(copy.poll().unwrap().is_none(), "the rest was submitted");
    let back = polled(&sim, Ok(copy)).unwrap();
    let (back, array) = (back.host().unwrap(), array.host().unwrap());
    assert!(back.buffer(1).unwrap()[..] == array.buffer(1).unwrap()[..]);
}

#[test]
fn an_allocator_that_panics_ends_the_copy() {
    #[derive(Debug)]
    struct Panics;
    impl arrow_device::Allocator for Panics {
        fn allocate(
            &self,
            _device: &arrow_device::Device,
            _len: u64,
            _queue: Option<&Queue>,
        ) -> Result<arrow_device::Memory> {
            panic!("planted");
        }
    }
    let sim = Sim::builder().may_wait(false).backtraces(false).build();
    let queue = sim.device().open_queue().unwrap();
    let there = polled(&sim, lists().copy_polled(&queue, &Options::new())).unwrap();
    let mut copy = there.copy_polled(&Queue::host(), &Options::new().allocator(Panics)).unwrap();
    let error = loop {
        sim.run_until_idle();
        let poll = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| copy.poll()));
        match poll {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(_))) => panic!("there is no memory"),
            Ok(Err(error)) => break error,
            Err(_) => break copy.poll().unwrap_err(),
        }
    };
    assert!([ErrorKind::Panicked, ErrorKind::InvalidArgument].contains(&error.kind()), "{error}");
    drop((copy, there));
    sim.run_until_idle();
    assert!(release_until(|| {
        release_finished();
        sim.allocated() == 0
    }));
}
