//! What the library does where no driver may be called any more, in a child of `fork` and after the
//! end of the process has begun, and where foreign code panics.
// Miri has no processes, and would report what is abandoned as leaked.
#![cfg(not(miri))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block
)]

#[cfg(unix)]
mod exit;
#[cfg(unix)]
mod exit_awaits;
#[cfg(unix)]
mod fork;
#[cfg(unix)]
mod fork_cells;
#[cfg(unix)]
mod fork_locks;
#[cfg(unix)]
mod fork_releases;
#[cfg(unix)]
mod fork_streams;
#[cfg(panic = "unwind")]
mod owners;
#[cfg(panic = "unwind")]
mod panics;
mod trap;
