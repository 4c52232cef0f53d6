//! With the newest major of arrow-rs: the streams of others, allocations, the example.
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod allocations;
#[cfg(feature = "arrow-58")]
mod examples;
mod golden;
