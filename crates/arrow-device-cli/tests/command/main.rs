//! The command, as somebody at a terminal meets it.
#![allow(missing_docs, clippy::indexing_slicing, clippy::unwrap_used)]

mod bench;
#[cfg(all(feature = "check", target_os = "linux"))]
mod check;
#[cfg(feature = "files")]
mod copy;
#[cfg(all(feature = "flight", unix))]
mod flight;
#[cfg(all(feature = "flight", unix))]
mod flight_refusals;
#[cfg(all(feature = "cuda", feature = "rocm", target_os = "linux"))]
mod gpu;
#[cfg(feature = "files")]
mod inspect;
#[cfg(all(feature = "files", unix))]
mod outputs;
#[cfg(feature = "files")]
mod page;
#[cfg(all(feature = "files", target_os = "linux"))]
mod share;
#[path = "../support/mod.rs"]
mod support;
mod usage;
