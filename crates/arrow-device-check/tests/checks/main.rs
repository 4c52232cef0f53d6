//! Peers of this test program, checked in children that are this test program; peers in shared
//! libraries and in Python, checked by the program as users run it; the table of pairs; and the
//! page about the checker.
#![allow(
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

#[cfg(all(unix, not(miri)))]
mod arrow_cpp;
#[cfg(all(unix, not(miri)))]
mod arrow_cpp_devices;
#[cfg(all(target_os = "linux", not(miri)))]
mod libraries;
#[cfg(all(unix, not(miri)))]
mod ours;
mod page;
#[cfg(all(target_os = "linux", not(miri)))]
mod pairs;
#[cfg(all(target_os = "linux", not(miri)))]
mod python;
#[cfg(all(unix, not(miri)))]
mod support;
#[cfg(all(target_os = "linux", not(miri)))]
mod twins;
#[cfg(all(unix, not(miri)))]
mod wrong_arrays;
#[cfg(all(unix, not(miri)))]
mod wrong_streams;
#[cfg(all(unix, not(miri)))]
mod wrong_tensors;
