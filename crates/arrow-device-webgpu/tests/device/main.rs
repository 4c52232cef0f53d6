//! WebGPU devices: conformance, memory, events, the application's own devices, and what is missing.
#![allow(
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod suite;
mod support;
