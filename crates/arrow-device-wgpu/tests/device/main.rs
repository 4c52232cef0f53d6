//! Devices of wgpu: conformance, copies, the application's shaders and buffers, and lost devices.
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
mod memory;
mod suite;
mod support;
