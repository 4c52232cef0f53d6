//! The same tests for each major of arrow-rs, and what crosses from one to another.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::duplicate_mod,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    unreachable_pub
)]

mod between;
mod v58;
mod v59;
mod v60;
