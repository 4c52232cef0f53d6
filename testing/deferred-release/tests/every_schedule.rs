//! Every schedule, without a bound on preemptions.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(loom)]

mod locks {
    pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    pub(crate) use loom::sync::{Arc, Mutex, MutexGuard};

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }
}

mod threads {
    pub(crate) use loom::thread::{JoinHandle, spawn};
}

#[allow(dead_code)]
#[path = "../../../crates/arrow-device/src/device/numbered_list.rs"]
mod numbered_list;
mod scenarios;
#[allow(dead_code)]
#[path = "../../../crates/arrow-device/src/device/deferred/timeline.rs"]
mod timeline;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

// Requirement: ARR-20, SAF-13, SAF-16, SAF-17, SAF-23
#[test]
fn no_schedule_releases_early_and_each_rule_is_missed() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let survives = |scenario: scenarios::Scenario| {
        let explore = AssertUnwindSafe(|| {
            loom::model(move || {
                RUNS.fetch_add(1, Ordering::Relaxed);
                scenario();
            });
        });
        catch_unwind(explore).is_ok()
    };
    scenarios::run_all(survives);
    println!("{} schedules", RUNS.load(Ordering::Relaxed));
}
