//! The functions of the header: what they refuse, who releases what when, and
//! programs in C and C++ that are built with them.
#![cfg(not(miri))]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

#[cfg(target_os = "linux")]
mod abi;
mod answers;
#[cfg(target_os = "linux")]
mod book;
#[cfg(target_os = "linux")]
mod builds;
mod conformance;
#[cfg(target_os = "linux")]
mod cpp;
mod custom_device;
#[cfg(target_os = "linux")]
mod examples;
mod exchange;
#[cfg(unix)]
mod fork;
#[cfg(target_os = "linux")]
mod header;
mod hostile;
#[cfg(target_os = "linux")]
mod install;
#[cfg(target_os = "linux")]
mod nulls;
#[cfg(target_os = "linux")]
mod share;
mod sizes;
#[path = "../support/mod.rs"]
mod support;
mod turns;
mod values;
