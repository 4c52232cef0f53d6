//! Runs any sequence of calls of the safe interface, on devices that are watched.
//!
//! The bytes choose the devices, and then one call after the other. Memory is allocated and written
//! by kernels and by the host. Arrays are made of it, viewed on queues, sliced, taken apart, put
//! together, exported, imported, streamed, made tensors, copied, and dropped here or on another
//! thread. Where the bytes say so, calls of the driver fail and devices are lost. Allocators hand
//! out memory with work in flight, and owners panic or call the library when they are dropped.
//!
//! Safe code cannot break a promise, so every complaint is a finding: a report of the software
//! device, bytes that differ from those that were written, an owner that is dropped twice or never,
//! memory that is held back at the end.
//!
//! After a call that was told to fail, errors are no findings, and neither are other values on the
//! host, nor owners that are kept. A lost device excuses less: an error may say that this device is
//! lost, and everything else is judged as before.

mod exchange;
mod owners;
mod sequence;
mod twins;
mod values;
mod world;

use std::sync::Mutex;

use crate::generate::Choices;
use world::{Common, World};

/// The most steps of a sequence, so that a person can look at what is found.
const MOST_STEPS: usize = 120;

/// Runs a sequence of safe calls on software devices, with one thread or with two that share
/// arrays. Panics where something is wrong. For fuzzing.
///
/// # Panics
/// Panics on a finding.
pub fn api(bytes: &[u8]) {
    run_sequence(bytes, false);
}

/// Runs the sequences of [`api`] on two runtimes, where the device of the second has the id of the
/// first device of the first. Panics where something is wrong. For fuzzing.
///
/// From the first such sequence on, until the process ends, the library asks the drivers which
/// memory is whose. So `api` has to run in another process, where the library does not ask.
///
/// # Panics
/// Panics on a finding.
pub fn twins(bytes: &[u8]) {
    run_sequence(bytes, true);
}

fn run_sequence(bytes: &[u8], are_twins: bool) {
    // Deferred releases are shared by the process, and a test runs beside others.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut choices = Choices::new(bytes);
    let shared = Common::new(&mut choices, are_twins);
    if choices.once_in(6) {
        let rest = choices.rest();
        let (one, other) = rest.split_at(rest.len() / 2);
        std::thread::scope(|threads| {
            let working = [one, other].map(|half| {
                let shared = &shared;
                threads.spawn(move || run(World::new(shared), &mut Choices::new(half)))
            });
            for thread in working {
                assert!(thread.join().is_ok(), "a thread of the sequence panicked");
            }
        });
    } else {
        run(World::new(&shared), &mut choices);
    }
    shared.judge();
}

fn run(mut world: World<'_>, choices: &mut Choices<'_>) {
    for _ in 0..MOST_STEPS {
        if choices.is_over() {
            break;
        }
        world.step(choices);
    }
    world.end();
}
