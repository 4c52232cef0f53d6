//! The simulated drivers, called as C calls them, and held against the headers of the vendors.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod basics;
mod capture;
mod codes;
mod headers;
mod hip;
#[cfg(target_os = "linux")]
mod mapped;
mod memory;
mod mistakes;
mod order;
mod pools;
mod record;
#[cfg(unix)]
mod strict;
mod support;
