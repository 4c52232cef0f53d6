//! Random schedules, many of them, from a seed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(not(loom))]

mod locks {
    pub(crate) use shuttle::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    pub(crate) use shuttle::sync::{Arc, Mutex, MutexGuard};

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }
}

mod threads {
    pub(crate) use shuttle::thread::{JoinHandle, spawn};
}

#[allow(dead_code)]
#[path = "../../../crates/arrow-device/src/device/numbered_list.rs"]
mod numbered_list;
mod scenarios;
#[allow(dead_code)]
#[path = "../../../crates/arrow-device/src/device/deferred/timeline.rs"]
mod timeline;

use std::panic::{AssertUnwindSafe, catch_unwind};

use shuttle::scheduler::PctScheduler;
use shuttle::{Config, FailurePersistence, Runner};

const PREEMPTIONS: usize = 3;
/// Schedules of each scenario.
const RUNS: usize = 1500;

// Requirement: ARR-20, SAF-13, SAF-16, SAF-17, SAF-23
#[test]
fn no_random_schedule_releases_early_and_each_rule_is_missed() {
    let seed = std::env::var("ARROW_DEVICE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(20_240_607_u64);
    println!("ARROW_DEVICE_SEED={seed}");
    let survives = |scenario: scenarios::Scenario| {
        let mut config = Config::new();
        config.failure_persistence = FailurePersistence::None;
        // Schedules with few preemptions at random places: the harm needs one or two of them.
        let runner = Runner::new(PctScheduler::new_from_seed(seed, PREEMPTIONS, RUNS), config);
        catch_unwind(AssertUnwindSafe(|| runner.run(scenario))).is_ok()
    };
    scenarios::run_all(survives);
}
