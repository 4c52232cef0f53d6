//! OpenCL devices: conformance, memory, events, contexts, and what is missing.
#![allow(
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod contexts;
mod copies;
mod events;
mod examples;
mod faulty;
#[cfg(unix)]
mod fork;
mod memory;
mod missing;
#[cfg(target_os = "linux")]
mod sharing;
mod suite;
mod support;
mod svm;
