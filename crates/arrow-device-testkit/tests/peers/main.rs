//! The peers of this crate, the judges of peers, the suite, and processes of their own.
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod faults;
mod faulty;
mod hostile;
mod peers_tell;
mod process;
mod suite;
mod suite_fails;
mod wrong;
