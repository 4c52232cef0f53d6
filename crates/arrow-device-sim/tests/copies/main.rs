//! The copy engine on software devices of every kind: right values over every pair, order, faults, and what it costs.
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
mod places;
mod values;
