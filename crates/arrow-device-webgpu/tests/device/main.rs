//! WebGPU devices: conformance, memory, events, the application's own devices, and what is missing.
#![allow(
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod application;
mod copies;
mod ends;
mod examples;
mod faulty;
#[cfg(unix)]
mod fork;
mod hooks;
mod memory;
mod missing;
mod suite;
mod support;
