//! Vulkan devices: conformance, memory, events, failures, and what is missing.
#![allow(
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod copies;
mod events;
mod examples;
mod faults;
mod faulty;
#[cfg(unix)]
mod fork;
mod hooks;
mod memory;
mod missing;
#[path = "../../examples/shader/main.rs"]
mod shader;
#[cfg(target_os = "linux")]
mod sharing;
mod suite;
mod support;
