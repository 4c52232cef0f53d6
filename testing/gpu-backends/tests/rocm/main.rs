//! The ROCm devices on a simulated driver. A process has one driver: what needs another one runs in
//! a process of its own.
#![allow(clippy::panic, clippy::unwrap_used)]

mod awaits;
mod everything;
mod first;
mod lost;
mod none;
mod options;
mod plain;
mod polled;
mod pools;
#[cfg(unix)]
mod process_end;
#[cfg(target_os = "linux")]
mod share;
mod strict;
mod suite;
