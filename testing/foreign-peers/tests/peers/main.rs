//! The other peers: arrow-rs, nanoarrow and dlpark; and the page of them all.
#![allow(
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

#[cfg(not(miri))]
mod arrow_rs;
mod dlpark;
#[cfg(all(unix, not(miri)))]
mod nanoarrow;
mod page;
