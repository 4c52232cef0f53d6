//! Waiting until everything is released makes software devices work, whoever submitted the work.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use arrow_device::copy::Options;
use arrow_device::{Array, Buffer, DataType, Memory, deferred};
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

/// Memory that goes when its owner has taken some time.
struct Slow {
    begun: mpsc::Sender<()>,
    _memory: Memory,
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.begun.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
}

// Requirement: SAF-22
#[test]
fn a_polled_copy_hopes_for_memory_that_another_thread_is_just_releasing() {
    // In a process of its own: what other tests hold back would be hoped for as well.
    alone(|| {
        let sim = Sim::builder().memory_limit(4096).backtraces(false).build();
        let queue = sim.device().open_queue().unwrap();
        let numbers = Array::from_values(DataType::Int64, (0..300_i64).map(Some)).unwrap();
        let mut memory = queue.allocate(2400).unwrap();
        let address = memory.spot(&queue).unwrap().base.as_ptr().cast_const().cast();
        let (begun, has_begun) = mpsc::channel();
        let owner = Slow { begun, _memory: memory };
        // SAFETY: the owner has the memory (UNS-16).
        let buffer = unsafe { Buffer::foreign(sim.device().id(), address, 2400, owner) };
        let array = Array::builder(DataType::Int64).len(300).buffers([None, Some(buffer)]);
        let array = array.finish_ready().unwrap();
        let view = array.on(&queue).unwrap();
        sim.kernel("work").launch(&queue, |_| {}).unwrap();
        drop((view, array));

        let mut copy = numbers.copy_polled(&queue, &Options::new()).unwrap();
        assert!(copy.poll().unwrap().is_none(), "the memory is held back");
        std::thread::scope(|threads| {
            threads.spawn(|| {
                sim.run_until_idle();
                deferred::release_finished();
            });
            has_begun.recv().unwrap();
            // The owner stands on no timeline any more, and its memory is not there yet.
            while copy.poll().unwrap().is_none() {
                sim.run_until_idle();
                std::thread::yield_now();
            }
        });
    });
}
