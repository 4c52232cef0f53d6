//! Peers of this test program, checked in children that are this test program.
#![cfg(all(unix, not(miri)))]
#![allow(
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod arrow_cpp;
mod arrow_cpp_devices;
mod ours;
mod support;
mod wrong_arrays;
mod wrong_streams;
mod wrong_tensors;
