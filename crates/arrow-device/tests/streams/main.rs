//! Streams and asynchronous streams through the C structs, and peers that break their rules.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod async_consumer;
mod async_nesting;
#[cfg(panic = "unwind")]
mod async_panics;
mod async_producer;
mod async_wakers;
mod streams_errors;
mod streams_hostile;
mod streams_matrix;
mod streams_rules;
