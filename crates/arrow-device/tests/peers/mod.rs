//! Peers for the tests: producers, consumers and devices that are written by hand and share no code with the
//! library.
//!
//! * [`plan`] and [`kinds`] say what an array consists of, as plain bytes and numbers, for every type of the format.
//! * [`producer`] makes C structs of a plan, one allocation for each part, and [`ledger`] counts what is alive.
//! * [`consumer`] reads C structs, moves and releases them.
//! * [`relay`] is a whole peer that imports and exports again, with a fault to order, to see that a check fails.
//! * [`manual`] is a device whose work is complete when a test says so.
//!
//! Nobody here owns anything after its ledger is settled. Each test binary uses a part of this.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::missing_safety_doc
)]

pub mod consumer;
pub mod kinds;
pub mod ledger;
pub mod manual;
pub mod plan;
pub mod producer;
pub mod relay;

/// What a check has against what it was shown; nothing is good.
pub type Verdict = Result<(), String>;

/// A complaint, unless the condition holds.
pub fn require(holds: bool, complaint: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(complaint()) }
}

/// That a check failed, and with this complaint.
#[track_caller]
pub fn assert_complaint(verdict: Verdict, expected: &str) {
    let complaint = verdict.expect_err(&format!("nobody complained that `{expected}`"));
    assert!(complaint.contains(expected), "`{complaint}` does not say `{expected}`");
}

/// Has what is not used any more released until something is so; whether it came to be so.
///
/// One look at the list of what waits for its last use is not enough: it is one for all tests of a program, and another
/// test's thread may be the one that releases.
pub fn reclaim_until(is_so: impl Fn() -> bool) -> bool {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(3);
    while !is_so() {
        if std::time::Instant::now() > patience {
            return false;
        }
        arrow_device::reclaim();
        std::thread::yield_now();
    }
    true
}
