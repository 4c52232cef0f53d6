//! Flight on loopback, with arrow-flight and pyarrow on the other side.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod between;
mod broken;
mod calls;
mod foreign;
mod server;
mod sql;
mod support;
mod target;
#[cfg(target_os = "linux")]
mod ways;
