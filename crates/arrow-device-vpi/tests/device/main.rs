//! VPI devices: conformance, memory, events, jobs of the design, and simulators that are missing,
//! die or lie.
#![cfg(unix)]
#![allow(
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod copies;
mod design;
mod ends;
mod events;
mod examples;
mod exit;
mod faulty;
mod fork;
mod hostile;
mod listening;
mod missing;
mod suite;
mod support;
