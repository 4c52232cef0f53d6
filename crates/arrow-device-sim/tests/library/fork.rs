//! The software device in a child of `fork`: the parent's does not work there, and a new one does.

use arrow_device::deferred::{held_back, release_finished};
use arrow_device::{Array, DataType, Error, ErrorKind, Queue};
use arrow_device_sim::Sim;
use arrow_device_testkit::process::{alone, forked, while_threads_work};

fn numbers() -> Array {
    Array::from_values(DataType::Int64, [1_i64, 2, 3].map(Some)).unwrap()
}

#[test]
fn a_child_of_fork_has_software_devices_of_its_own_and_not_its_parents() {
    alone(|| {
        let sim = Sim::builder().seed(1).backtraces(false).build();
        let (device, host) = (sim.device(), numbers());
        let queue = device.open_queue().unwrap();
        let there = host.copy_to(&queue).unwrap();
        drop(there.on(&queue).unwrap());
        let again = there.clone();
        forked(|| {
            let is_refused = |outcome: Option<Error>| {
                outcome.is_some_and(|error| error.kind() == ErrorKind::Unsupported)
            };
            let outcomes = [
                there.to_host().err(),
                there.on(&queue).err(),
                there.wait().err(),
                host.copy_to(&queue).err(),
                queue.record().err(),
                device.allocate(64).err(),
            ];
            if !outcomes.into_iter().all(is_refused) {
                return Err("the parent's device was used".into());
            }
            // A device that the child opens, though the parent has one.
            let text = |error: Error| error.to_string();
            let own = Sim::builder().seed(2).backtraces(false).build();
            let own_queue = own.device().open_queue().map_err(text)?;
            if there.on(&own_queue).is_ok() {
                return Err("the parent's data was shown to a queue of the child".into());
            }
            let back = host.copy_to(&own_queue).and_then(|copy| copy.to_host()).map_err(text)?;
            if back.host().map_err(text)?.buffer(1).map_err(text)?[8] != 2 {
                return Err("other bytes".into());
            }
            drop((back, own_queue));
            release_finished();
            let reports = own.finish();
            if !reports.is_empty() {
                return Err(format!("{reports:?}"));
            }
            let before = held_back().abandoned;
            drop((there, again, queue, device));
            if held_back().abandoned > before { Ok(()) } else { Err("nothing is counted".into()) }
        });
        std::mem::forget(sim);
    });
}

// Requirement: SAF-27
#[test]
fn a_polled_copy_of_the_parent_ends_in_a_child() {
    alone(|| {
        let sim = Sim::builder().seed(1).may_wait(false).backtraces(false).build();
        let (queue, host) = (sim.device().open_queue().unwrap(), numbers());
        let there = host.copy_to(&queue).unwrap();
        let mut copy = there.fetch().unwrap();
        let mut dropped = Some(there.fetch().unwrap());
        forked(|| {
            let before = held_back().abandoned;
            drop(dropped.take());
            if held_back().abandoned == before {
                return Err("what the parent's device writes to was given up uncounted".into());
            }
            match copy.poll() {
                Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
                outcome => Err(format!("{outcome:?}")),
            }
        });
        sim.run_until_idle();
        let copy = copy.poll().unwrap().expect("the parent's copy goes on");
        assert!(copy.equals(&host).unwrap());
        sim.run_until_idle();
    });
}

// Requirement: SAF-27
#[test]
fn memory_of_a_child_is_not_the_memory_of_its_parent() {
    alone(|| {
        let array =
            |values: [i64; 3]| Array::from_values(DataType::Int64, values.map(Some)).unwrap();
        let there_and_back = |queue: &Queue, values| {
            let there = array(values).copy_to(queue).unwrap();
            std::thread::sleep(std::time::Duration::from_micros(200));
            there.to_host().unwrap().equals(&array(values)).unwrap()
        };
        let sim = Sim::builder().seed(1).backtraces(false).build();
        let queue = sim.device().open_queue().unwrap();
        let work = || assert!(there_and_back(&queue, [1, 2, 3]), "a child has overwritten it");
        while_threads_work(1, work, || {
            for seed in 0..20 {
                forked(|| {
                    let own = Sim::builder().seed(seed).backtraces(false).build();
                    let queue = own.device().open_queue().unwrap();
                    let is_whole = (0..100).all(|_| there_and_back(&queue, [7, 8, 9]));
                    if is_whole { Ok(()) } else { Err("the parent has overwritten it".into()) }
                });
            }
        });
        std::mem::forget(sim);
    });
}

// Requirement: SAF-27
#[test]
fn a_simulator_of_the_parent_ends_in_a_child_and_says_nothing() {
    alone(|| {
        let sim = Sim::builder().seed(1).backtraces(false).build();
        let (device, pump) = (sim.device(), sim.pump());
        let there = numbers().copy_to(&device.open_queue().unwrap()).unwrap();
        let work = || assert_eq!(sim.allocated() > 0, !there.is_empty());
        while_threads_work(2, work, || {
            for _ in 0..100 {
                forked(|| {
                    // SAFETY: the parent has both in another process.
                    drop(unsafe {
                        (std::ptr::read(&raw const pump), std::ptr::read(&raw const sim))
                    });
                    Ok(())
                });
            }
        });
        assert!(there.to_host().unwrap().equals(&numbers()).unwrap(), "memory was given back");
        drop((there, device, pump));
        assert_eq!(sim.finish().len(), 0);
    });
}
