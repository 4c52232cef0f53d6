//! A copy waits for its source, and whoever uses the result waits for the copy. Each wait, taken
//! out, is missed.

use arrow_device::copy::Options;
use arrow_device::{Array, DataType, Device, Queue};
use arrow_device_sim::{Builder, Kind, Mistake, Sim};

use arrow_device_testkit::faulty::{Fault, Faulty};

const SEEDS: u64 = if cfg!(miri) { 1 } else { 24 };
const COUNT: usize = 200;

/// Numbers that a kernel still has to write.
fn pending_numbers(sim: &Sim, queue: &Queue) -> Array {
    let len = 8 * COUNT as u64;
    let mut memory = queue.device().allocate(len).unwrap();
    let spot = memory.spot(queue).unwrap();
    let kernel = sim.kernel("produce").writes(spot, len);
    kernel.launch(queue, |memory| memory.set_values(0, &numbers())).unwrap();
    unsafe { memory.assume_written(len) };
    let buffers = [None, Some(memory.into_buffer())];
    Array::builder(DataType::Int64).len(COUNT).buffers(buffers).finish_on(queue).unwrap()
}

fn numbers() -> Vec<i64> {
    (0..COUNT as i64).map(|number| number * number).collect()
}

fn expected() -> Array {
    Array::from_values(DataType::Int64, numbers().into_iter().map(Some)).unwrap()
}

/// Submits a kernel that reads a copy on a queue of its own.
fn consume(sim: &Sim, copy: &Array, queue: &Queue) {
    let view = copy.on(queue).unwrap();
    let spot = view.buffer(1).location().spot();
    sim.kernel("consume").reads(spot, 8 * COUNT as u64).launch(queue, |_| {}).unwrap();
}

/// The ways from one device to another, or the same.
fn ways() -> [(&'static str, Builder, usize); 3] {
    let builder = || Sim::builder().backtraces(false);
    [
        ("within", builder(), 0),
        ("peers", builder().peers(2), 1),
        ("strangers", builder().devices(2), 1),
    ]
}

/// Copies numbers that are still to be written, and uses the copy on one more queue. The devices
/// are those of the simulator, or leave something out: the one that is copied from, and the one
/// that is copied to.
fn exchange(sim: &Sim, from: &Device, to: &Device) -> Array {
    let [producer, other, consumer] = [from, to, to].map(|device| device.open_queue().unwrap());
    let source = pending_numbers(sim, &producer);
    let copy = source.copy_with(&other, &Options::new().always(true).chunk(64)).unwrap();
    drop(source);
    consume(sim, &copy, &consumer);
    copy
}

/// The kinds of mistakes that were reported, each once.
fn mistakes(sim: Sim) -> Vec<Mistake> {
    let mut kinds: Vec<Mistake> = sim.finish().iter().map(|report| report.kind).collect();
    kinds.dedup();
    kinds
}

// Requirement: SAF-7
#[test]
fn a_copy_is_ordered_behind_its_source_and_before_its_use() {
    for (name, builder, target) in ways() {
        for seed in 0..SEEDS {
            let sim = builder.clone().seed(seed).build();
            let copy = exchange(&sim, &sim.device(), &sim.device_number(target));
            assert!(copy.to_host().unwrap().equals(&expected()).unwrap(), "{name}, seed {seed}");
            drop(copy);
            assert_eq!(mistakes(sim), [], "{name}, seed {seed}");
        }
    }
}

#[test]
fn a_copy_from_readable_memory_is_ordered_too() {
    for seed in 0..SEEDS {
        let sim = Sim::builder().kind(Kind::HostReadable).seed(seed).backtraces(false).build();
        let source = pending_numbers(&sim, &sim.device().open_queue().unwrap());
        assert!(source.to_host().unwrap().equals(&expected()).unwrap(), "seed {seed}");
        drop(source);
        assert_eq!(mistakes(sim), [], "seed {seed}");
    }
}

#[test]
fn without_the_wait_of_queues_every_way_is_reported() {
    for (name, builder, target) in ways() {
        for seed in 0..SEEDS {
            let sim = builder.clone().seed(seed).build();
            // The copy does not wait for the kernel; for peers that is the other device's part.
            let faulty = Faulty::of(&sim.device_number(target)).fault(Fault::QueueWait).open();
            let source_faulty = Faulty::of(&sim.device()).fault(Fault::QueueWait).open();
            drop(exchange(&sim, &source_faulty, &faulty));
            assert_eq!(mistakes(sim), [Mistake::UnorderedRead], "{name}, seed {seed}");
        }
    }
}

#[test]
fn without_the_event_of_the_result_its_use_is_reported() {
    for seed in 0..SEEDS {
        let sim = Sim::builder().seed(seed).backtraces(false).build();
        let queue = sim.device().open_queue().unwrap();
        let copy = expected().copy_to(&queue).unwrap();
        let faulty = Faulty::of(&sim.device()).fault(Fault::QueueWait).open().open_queue().unwrap();
        consume(&sim, &copy, &faulty);
        drop((copy, queue, faulty));
        assert_eq!(mistakes(sim), [Mistake::UnorderedRead], "seed {seed}");
    }
}

#[test]
fn without_the_wait_of_the_host_what_arrives_is_wrong() {
    for seed in 0..SEEDS {
        let sim = Sim::builder().devices(2).seed(seed).backtraces(false).build();
        let queue = sim.device().open_queue().unwrap();
        let source = expected().copy_to(&queue).unwrap();
        let words = super::words::words(COUNT).copy_to(&queue).unwrap();
        let faulty = Faulty::of(&sim.device()).fault(Fault::Synchronize).open();
        let lane = Options::new().through(&faulty.open_queue().unwrap());
        // To the host, lengths that are read, and through the host.
        let back = source.copy_with(&Queue::host(), &lane).unwrap();
        assert!(!back.equals(&expected()).unwrap(), "seed {seed}");
        assert!(words.copy_with(&Queue::host(), &lane).is_err(), "seed {seed}");
        let other = sim.device_number(1).open_queue().unwrap();
        let copy = source.copy_with(&other, &lane).unwrap();
        assert!(!copy.to_host().unwrap().equals(&expected()).unwrap(), "seed {seed}");
    }
}

#[test]
fn staging_memory_that_is_used_again_too_early_is_reported() {
    for seed in 0..SEEDS {
        let sim = Sim::builder().devices(2).seed(seed).backtraces(false).build();
        let queue = sim.device_number(1).open_queue().unwrap();
        let source = expected().copy_to(&queue).unwrap();
        source.wait().unwrap();
        let faulty = Faulty::of(&sim.device()).fault(Fault::HostWait).open().open_queue().unwrap();
        drop(source.copy_with(&faulty, &Options::new().chunk(64)).unwrap());
        drop((source, queue, faulty));
        assert_eq!(mistakes(sim), [Mistake::UnorderedWrite], "seed {seed}");
    }
}

#[test]
fn a_source_or_a_result_that_is_freed_before_the_copy_has_passed_is_reported() {
    for seed in 0..SEEDS {
        let sim = Sim::builder().seed(seed).backtraces(false).build();
        let queue = sim.device().open_queue().unwrap();
        let source = expected().copy_to(&queue).unwrap();
        source.wait().unwrap();
        // Says of everything that it has passed.
        let faulty =
            Faulty::of(&sim.device()).fault(Fault::EventsComplete).open().open_queue().unwrap();
        drop(source.copy_with(&faulty, &Options::new().always(true)).unwrap());
        drop((source, queue, faulty));
        assert_eq!(mistakes(sim), [Mistake::FreedInUse], "seed {seed}");
    }
}
