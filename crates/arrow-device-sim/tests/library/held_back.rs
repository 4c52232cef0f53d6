//! Waiting until everything is released makes software devices work, whoever submitted the work.

use std::time::{Duration, Instant};

use arrow_device::{Array, DataType, deferred};
use arrow_device_sim::{Call, Schedule, Sim};
use arrow_device_testkit::process::alone;

const PATIENCE: Duration = Duration::from_secs(20);

/// Gives up a view, its array and a memory, all of which work that nobody waits for still uses.
fn give_up(sim: &Sim) {
    let [one, two] = [(); 2].map(|()| sim.device().open_queue().unwrap());
    let mut memory = one.allocate(64).unwrap();
    let spot = memory.spot(&one).unwrap();
    sim.fill(&one, spot, 64, 1).unwrap();
    unsafe { memory.assume_written(64) };
    let buffers = [None, Some(memory.into_buffer())];
    let array = Array::builder(DataType::Int64).len(8).buffers(buffers).finish_on(&one).unwrap();
    let view = array.on(&two).unwrap();
    let place = view.buffer(1).location().spot();
    sim.kernel("consume").reads(place, 64).launch(&two, |_| {}).unwrap();
    drop((view, array));
    let mut other = two.allocate(64).unwrap();
    let spot = other.spot(&two).unwrap();
    sim.fill(&two, spot, 64, 1).unwrap();
}

/// Each in a process of its own: what other tests hold back is waited for as well.
fn is_released_in_time(build: fn(u64) -> Sim) {
    alone(|| {
        for seed in 0..100 {
            let sim = build(seed);
            give_up(&sim);
            assert!(deferred::held_back().in_use > 0, "seed {seed}");
            let begin = Instant::now();
            deferred::wait_until_released(PATIENCE).unwrap();
            assert!(begin.elapsed() < PATIENCE / 2, "seed {seed}");
            assert!(deferred::held_back().is_nothing(), "seed {seed}");
            assert_eq!(sim.allocated(), 0, "seed {seed}");
        }
    });
}

#[test]
fn waiting_until_all_is_released_makes_a_device_work() {
    is_released_in_time(|seed| Sim::builder().seed(seed).schedule(Schedule::Late).build());
}

#[test]
fn waiting_until_all_is_released_makes_a_slow_device_work() {
    is_released_in_time(|seed| {
        Sim::builder().seed(seed).work_time(Duration::from_millis(3)).build()
    });
}

#[test]
fn waiting_until_all_is_released_makes_a_device_work_that_records_no_ends() {
    is_released_in_time(|seed| {
        let sim = Sim::builder().seed(seed).build();
        // The ends of the views and of the memory; the order of the queues is recorded before.
        (2..=4).for_each(|nth| sim.fail(Call::Record, nth));
        sim
    });
}
