//! Every schedule, without a bound on preemptions. The whole takes about a second.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(loom)]

mod locks {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
    pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};

    /// Nothing nests here.
    pub(crate) fn drop_nested<T>(what: T) {
        drop(what);
    }
}

mod threads {
    pub(crate) use loom::thread::{spawn, yield_now};
}

#[allow(dead_code)]
#[path = "../../../crates/arrow-device/src/async_stream/protocol/mod.rs"]
mod protocol;
mod scenarios;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

// Requirement: ASY-13, ASY-14, ASY-16, ASY-20, SAF-26, SAF-33
#[test]
fn no_schedule_breaks_the_protocol_and_each_rule_is_missed() {
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
