//! Events and uses: data is used after its event, and memory goes back after its last use.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block
)]

mod deferred;
mod destructors;
mod events;
mod shortage;
