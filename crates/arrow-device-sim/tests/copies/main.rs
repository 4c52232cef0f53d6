//! The copy engine on software devices of every kind: order, faults, and what it costs. That the values are right, on these
//! and all other devices and over every pair, is tested in `device-pairs`.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic
)]

mod costs;
mod faults;
mod order;
mod ownership;
mod words;
