//! oneAPI devices: conformance, memory, events, contexts, and what is missing.
//!
//! The tests run on the simulated runtime of `testing/simulated-sycl`. Where
//! `ARROW_DEVICE_ONEAPI_LIBRARY` names dpctl's library, they run on the SYCL runtime behind it, as
//! far as they do not need what only the simulated one does.
#![allow(
    clippy::indexing_slicing,
    clippy::multiple_unsafe_ops_per_block,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod attacks;
mod contexts;
mod copies;
mod events;
mod failures;
mod faulty;
mod flush;
#[cfg(unix)]
mod fork;
mod kinds;
mod memory;
mod missing;
mod suite;
mod support;
mod tables;
