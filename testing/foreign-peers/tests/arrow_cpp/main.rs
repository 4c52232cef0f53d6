//! Arrow C++: what is exchanged with it, and what it does wrong.
#![cfg(all(unix, not(miri)))]
#![allow(
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod array_faults;
mod arrays;
mod stream_faults;
mod streams;
