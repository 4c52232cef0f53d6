//! Peers for tests: producers, consumers and devices that are written by hand and share no code with the library.
//!
//! * [`plan`] and [`kinds`] say what an array consists of, as plain bytes and numbers, for every type of the format.
//! * [`generate`] makes arbitrary plans from a string of bytes, and [`oracle`] reads a plan's values, the naive way.
//! * [`producer`] makes C structs of a plan, one allocation for each part, and [`ledger`] counts what is alive.
//! * [`consumer`] reads C structs, moves and releases them.
//! * [`relay`] is a whole peer that imports and exports again, with a fault to order, to see that a check fails.
//! * [`manual`] is a device whose work is complete when a test says so.
//! * [`recipe`] has arrays of every type as bytes to be changed, which the library builds.
//!
//! Nobody here owns anything after its ledger is settled.
//!
//! # What it trusts
//!
//! This is for tests. What reads or releases C structs believes them, as a peer in C would, and what is wrong with a
//! test panics. Nothing of it belongs into a program that is not a test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "it is run by tests, and a test that goes wrong ends there"
)]
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::missing_safety_doc,
    clippy::not_unsafe_ptr_arg_deref,
    reason = "these peers are as programs in C are: they trust what they are shown"
)]

pub mod consumer;
pub mod generate;
pub mod kinds;
pub mod ledger;
pub mod manual;
pub mod oracle;
pub mod plan;
pub mod producer;
pub mod recipe;
pub mod relay;
pub mod shape;

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
