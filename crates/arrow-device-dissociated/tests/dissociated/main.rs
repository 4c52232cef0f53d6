//! Streams between a server and a client: in one process, in two, over each transport.
#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod attacks;
mod exchange;
mod faults;
mod hostile;
mod killed;
mod processes;
mod support;
mod target;
mod ucx;

use arrow_device_testkit::allocations::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
