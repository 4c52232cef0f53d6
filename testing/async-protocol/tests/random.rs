//! Random schedules, many of them, from a seed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(not(loom))]

mod locks {
    pub(crate) use shuttle::sync::atomic::{AtomicU64, Ordering};
    pub(crate) use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard};

    /// Nothing nests here.
    pub(crate) fn drop_nested<T>(what: T) {
        drop(what);
    }
}

mod threads {
    pub(crate) use shuttle::thread::{spawn, yield_now};
}

#[allow(dead_code)]
#[path = "../../../crates/arrow-device/src/async_stream/protocol/mod.rs"]
mod protocol;
mod scenarios;

use std::panic::{AssertUnwindSafe, catch_unwind};

use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, FailurePersistence, Runner};

/// Schedules of each scenario.
const RUNS: usize = 400;

// Requirement: ASY-13, ASY-14, ASY-16, ASY-20
#[test]
fn no_random_schedule_breaks_the_protocol_and_each_rule_is_missed() {
    let seed = std::env::var("ARROW_DEVICE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(20_240_607_u64);
    println!("ARROW_DEVICE_SEED={seed}");
    let survives = |scenario: scenarios::Scenario| {
        let mut config = Config::new();
        config.failure_persistence = FailurePersistence::None;
        let runner = Runner::new(RandomScheduler::new_from_seed(seed, RUNS), config);
        catch_unwind(AssertUnwindSafe(|| runner.run(scenario))).is_ok()
    };
    scenarios::run_all(survives);
}
