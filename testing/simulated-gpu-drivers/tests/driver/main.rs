//! The simulated drivers, called as C calls them.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod basics;
mod capture;
mod codes;
mod hip;
mod memory;
mod mistakes;
mod order;
mod record;
mod support;
