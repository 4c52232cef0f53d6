//! Copies that are polled and find no memory: what they hold back meanwhile, and how they end.

use arrow_device::copy::{Options, PolledCopy};
use arrow_device::deferred::{held_back, release_finished};
use arrow_device::{Array, Batch, DataType, Device, ErrorKind, Queue};
use arrow_device_sim::{Builder, Kind, Sim};
use arrow_device_testkit::process::alone;
use arrow_device_testkit::release_until;

use super::polled::polled;

const MIB: u64 = 1 << 20;

/// Without waits and with eight MiB of memory.
fn small(kind: Kind) -> Builder {
    Sim::builder().kind(kind).may_wait(false).memory_limit(8 * MIB).backtraces(false)
}

/// Memory that is held back until the queue has done the work that was submitted to it.
fn hold_back(sim: &Sim, queue: &Queue, bytes: u64) {
    let mut memory = queue.allocate(bytes).unwrap();
    let spot = memory.spot(queue).unwrap();
    sim.fill(queue, spot, 64, 0).unwrap();
    drop(memory);
}

/// Numbers with nulls: a bitmap and five MiB of values.
fn numbers() -> Array {
    let values = (0..5 * MIB as i64 / 8).map(|number| (number % 3 > 0).then_some(number));
    Array::from_values(DataType::Int64, values).unwrap()
}

/// One text: eight bytes of offsets, and so many MiB.
fn text(mib: u64) -> Array {
    Array::from_texts(DataType::Utf8, [Some("x".repeat((mib * MIB) as usize))]).unwrap()
}

fn assert_clean(sim: Sim, device: Device, queue: Queue) {
    drop((device, queue));
    assert!(release_until(|| {
        sim.run_until_idle();
        release_finished();
        sim.allocated() == 0
    }));
    assert!(sim.finish().is_empty());
}

// Requirement: SAF-22
#[test]
fn a_polled_copy_without_memory_holds_no_more_back_however_often_it_is_polled() {
    alone(|| {
        let separate = Options::new().separate(true);
        for (kind, array, options) in [
            (Kind::Discrete, numbers(), Options::new()),
            (Kind::Discrete, numbers(), separate.clone()),
            (Kind::Discrete, text(5), separate),
            (Kind::Handles, text(5), Options::new()),
        ] {
            let sim = small(kind).build();
            let device = sim.device();
            let queue = device.open_queue().unwrap();
            hold_back(&sim, &queue, 4 * MIB);
            let mut copy = array.copy_polled(&queue, &options).unwrap();
            let (first, allocated) = (held_back(), sim.allocated());
            for _ in 0..1000 {
                assert!(copy.poll().unwrap().is_none(), "the memory is still used");
            }
            assert_eq!(held_back().in_use, first.in_use, "{kind:?} {options:?}");
            assert_eq!(sim.allocated(), allocated, "{kind:?} {options:?}");
            sim.run_until_idle();
            let there = copy.poll().unwrap().expect("the memory came back");
            let back = polled(&sim, there.fetch()).unwrap();
            assert!(back.equals(&array).unwrap());
            drop((there, copy, back));
            assert_clean(sim, device, queue);
        }
    });
}

// Requirement: SAF-22
#[test]
fn a_polled_copy_that_finds_no_memory_hopes_for_nothing_that_it_gave_back_itself() {
    alone(|| {
        for kind in [Kind::Discrete, Kind::Handles] {
            let sim = small(kind).build();
            let device = sim.device();
            let queue = device.open_queue().unwrap();
            let options = Options::new().separate(true);
            let error = text(9).copy_polled(&queue, &options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{kind:?}: {error}");
            assert_clean(sim, device, queue);
        }
    });
}

// Requirement: SAF-22
#[test]
fn a_polled_copy_ends_when_all_that_could_help_has_come_back_and_is_not_enough() {
    alone(|| {
        for options in [Options::new(), Options::new().separate(true)] {
            let sim = small(Kind::Discrete).build();
            let device = sim.device();
            let queue = device.open_queue().unwrap();
            hold_back(&sim, &queue, 4 * MIB);
            let mut copy = text(9).copy_polled(&queue, &options).unwrap();
            for _ in 0..10 {
                assert!(copy.poll().unwrap().is_none(), "what is held back may help");
            }
            let began = std::time::Instant::now();
            sim.run_until_idle();
            let error =
                (0..3).find_map(|_| copy.poll().err()).expect("nothing is left to hope for");
            assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
            assert!(began.elapsed() < arrow_device::deferred::allocation_timeout() / 2);
            drop(copy);
            assert_clean(sim, device, queue);
        }
    });
}

/// Two texts of so many MiB.
fn texts(mib: [u64; 2]) -> Array {
    let [one, other] = mib.map(text);
    Batch::from_columns([("one", one), ("other", other)]).unwrap().into()
}

/// Each of them has room, and both together have not: what each one takes before it finds no more
/// memory would be missing for the other one, for ever.
// Requirement: SAF-22
#[test]
fn polled_copies_without_memory_do_not_keep_it_from_each_other() {
    alone(|| {
        let sim = small(Kind::Discrete).memory_limit(12 * MIB + 4096).build();
        let device = sim.device();
        let queues = [device.open_queue().unwrap(), device.open_queue().unwrap()];
        let mut busy = queues.each_ref().map(|queue| queue.allocate(64).unwrap());
        let [one, other] = &mut busy;
        let spots = [one.spot(&queues[0]).unwrap(), other.spot(&queues[1]).unwrap()];
        let work = || {
            for (queue, spot) in queues.iter().zip(spots) {
                sim.fill(queue, spot, 64, 1).unwrap();
            }
        };
        hold_back(&sim, &queues[0], 4 * MIB);
        work();
        let options = Options::new().separate(true);
        let begin = |(queue, mib): (&Queue, [u64; 2])| {
            Some(texts(mib).copy_polled(queue, &options).unwrap())
        };
        let mut copies: [Option<PolledCopy>; 2] =
            [(&queues[0], [5, 5]), (&queues[1], [3, 7])].map(begin);
        for _ in 0..4 {
            for copy in &mut copies {
                sim.run_until_idle();
                // The queues never have a pause.
                work();
                let done = copy.as_mut().and_then(|copy| copy.poll().unwrap());
                if done.is_some() {
                    *copy = None;
                }
            }
        }
        assert!(copies.iter().all(Option::is_none), "{copies:?}");
        drop((copies, busy));
        let [one, other] = queues;
        drop(other);
        assert_clean(sim, device, one);
    });
}

/// A copy that waits for what it has given back, which never comes back in a child.
#[cfg(all(unix, not(miri)))]
// Requirement: SAF-27
#[test]
fn a_polled_copy_that_waits_for_memory_ends_in_a_child_of_fork() {
    use arrow_device_testkit::process::forked;

    alone(|| {
        arrow_device::deferred::set_allocation_timeout(std::time::Duration::MAX);
        let sim = small(Kind::Discrete).build();
        let device = sim.device();
        let queue = device.open_queue().unwrap();
        hold_back(&sim, &queue, 3 * MIB);
        let options = Options::new().separate(true);
        let columns = [("a", text(4)), ("b", text(4))];
        let columns: Array = Batch::from_columns(columns).unwrap().into();
        let mut copy = columns.copy_polled(&queue, &options).unwrap();
        assert!(copy.poll().unwrap().is_none());
        forked(|| {
            for _ in 0..100 {
                match copy.poll() {
                    Ok(None) => std::thread::sleep(std::time::Duration::from_millis(1)),
                    Ok(Some(_)) => return Err("a result".into()),
                    Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(()),
                    Err(error) => return Err(error.to_string()),
                }
            }
            Err("no end".into())
        });
        drop(copy);
        assert_clean(sim, device, queue);
    });
}
