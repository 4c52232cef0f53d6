//! Devices, queues, events and memory of the application's, through the functions of the header.
#![cfg(all(target_os = "linux", not(miri)))]
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "oneapi")]
mod oneapi;
#[cfg(feature = "opencl")]
mod opencl;
#[cfg(any(feature = "cuda", feature = "rocm", feature = "vulkan"))]
mod processes;
#[cfg(feature = "rocm")]
mod rocm;
#[cfg(any(feature = "cuda", feature = "rocm"))]
mod streams;
#[path = "../support/mod.rs"]
mod support;
#[cfg(feature = "vulkan")]
mod vulkan;
#[cfg(feature = "webgpu")]
mod webgpu;
