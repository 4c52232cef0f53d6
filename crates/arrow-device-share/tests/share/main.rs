//! Arrays of one process in another one.
#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod exchange;
mod hostile;
mod processes;
mod streams;
mod support;
