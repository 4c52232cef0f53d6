//! Hexagon DSPs on a stand-in: conformance, the application's ring, memory, a DSP that dies, and
//! what is missing.
#![cfg(target_os = "linux")]
#![allow(
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod commands;
mod copies;
mod ends;
mod examples;
mod faulty;
mod fork;
mod library;
mod limits;
mod memory;
mod storms;
mod suite;
mod support;
