//! Whatever is sent from any device to any other one has the values that it had.
#![allow(
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod golden;
mod ipc;
mod streams;
mod values;
mod ways;
