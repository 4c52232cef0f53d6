//! The library on the software device.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod arrays;
mod async_streams;
mod awaits;
mod copies;
#[cfg(not(miri))]
mod dlpack;
mod executor;
mod exported_again;
mod failures;
#[cfg(all(unix, not(miri)))]
mod fork;
#[cfg(not(miri))]
mod held_back;
#[cfg(not(miri))]
mod moving_streams;
mod one_queue;
mod opening;
#[cfg(not(miri))]
mod polling;
mod pools;
mod reading_buffers;
mod runtimes;
mod streams;
#[path = "../support/mod.rs"]
mod support;
mod whole_units;
mod within;
