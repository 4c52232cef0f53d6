//! Metal devices, on a stand-in for Metal: conformance, memory, events, queues of the application,
//! peers, and what is missing.
#![cfg(target_os = "linux")]
#![allow(
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod application;
mod attacks;
mod copies;
mod events;
mod examples;
mod failures;
mod faulty;
mod fork;
mod lanes;
mod memory;
mod missing;
mod peers;
mod suite;
mod support;
mod tensors;
