//! Arrays of one process in another one.
#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod adverse;
mod devices;
mod early;
mod exchange;
mod forks;
mod gpu;
mod hostile;
mod makers;
mod opencl;
mod passing_on;
mod peer;
mod processes;
mod steps;
mod streams;
mod support;
mod system_calls;
mod target;
mod tensors;
mod users;
mod vulkan;
