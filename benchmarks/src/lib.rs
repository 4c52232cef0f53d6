//! What exchanges and copies cost, beside other implementations of the same.
//!
//! Two things are measured, by two programs:
//!
//! * **Times** (`arrow-device-times`, [`case`], [`clock`]): each workload is run by every peer over
//!   the same buffers, in one process, in rotating order. Times vary from machine to machine and
//!   run to run; the ratios of one run are evidence.
//! * **Counts** (`arrow-device-counts`, [`meter`]): allocator calls, bytes, instructions, driver
//!   calls, waits. They do not vary, and are held to what was promised and to what they were
//!   before.
//!
//! [`report`] makes a page and pictures of the times, and says which aims are reached; [`gate`]
//! holds the counts against a file.
//!
//! [`workloads`] has a module for each family of workloads, with its cases and its counts. A new
//! workload is a new function there and a line in its family's table.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a benchmark that goes wrong ends there"
)]

pub mod case;
pub mod clock;
pub mod gate;
pub mod meter;
pub mod report;
pub mod workloads;
