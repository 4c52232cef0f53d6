//! The simulator: what it does, what it reports, and what it never reports.
#![allow(
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

#[cfg(all(unix, not(miri)))]
mod c_event;
mod devices;
mod fillings;
#[cfg(all(target_os = "linux", not(miri)))]
mod guard;
mod host_memory;
mod leaks;
mod lost;
mod mistakes;
mod model;
mod names;
mod order;
mod out_of_memory;
mod places;
mod reports;
#[path = "../support/mod.rs"]
mod support;
mod units;
