//! Conversion between `arrow-device` and arrow-rs, without copying.
#![allow(clippy::duplicate_mod, reason = "the majors of arrow-rs share one source")]

#[cfg(any(feature = "arrow-58", feature = "arrow-59", feature = "arrow-60"))]
mod block;

/// The most levels that a schema has, asked before a type is followed down.
#[cfg(any(feature = "arrow-58", feature = "arrow-59", feature = "arrow-60"))]
const MAX_DEPTH: usize = 64;

#[cfg(feature = "arrow-58")]
pub mod v58;
#[cfg(feature = "arrow-59")]
pub mod v59;
#[cfg(feature = "arrow-60")]
pub mod v60;
