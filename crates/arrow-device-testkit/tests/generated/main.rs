//! What is generated of bytes: arrays, their values, and what holds for any of them.
#![allow(
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod corpus;
mod generator;
mod properties;
mod sequences;
