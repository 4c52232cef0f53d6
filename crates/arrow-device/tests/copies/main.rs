//! Copies between devices, by a driver that is written here.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod allocators;
mod bound;
mod copies;
mod device;
mod null_counts;
mod polled;
mod runtimes;
mod staging;
