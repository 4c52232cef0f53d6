//! Checks whether a producer or a consumer of Arrow data on devices keeps to the interface.
//!
//! A peer is a function in a shared library (`include/arrow_device/check.h` declares the kinds of
//! function) or in Python. The checker calls the function on the host and on the software device,
//! each scenario in a process of its own, so that a crash is a finding like any other. The report
//! says for each rule whether the peer keeps it: see [`rules::ALL`].
//!
//! * The program `arrow-device-check` is this crate's binary. `docs/check.md` in the repository
//!   says how to build and use it, with examples in C and Python.
//! * [`Options`] and [`run`] are the same as a subcommand for a program of your own.
//! * [`check`] is for tests, also for tests with peers that are written in Rust: see
//!   [`child_with`].
//!
//! # Starting itself again
//!
//! The checker starts the calling program again for each scenario. So the `main` of a program that
//! calls [`run`] or [`check`] begins like this:
//!
//! ```no_run
//! # use std::process::ExitCode;
//! fn main() -> ExitCode {
//!     if let Some(code) = arrow_device_check::child_if_asked() {
//!         return code;
//!     }
//!     // The program.
//! #   ExitCode::SUCCESS
//! }
//! ```
//!
//! # What it does not do
//!
//! The checker sees what shows in structs, in calls, in the statistics of glibc's allocator and on
//! the software device. It does not see memory that a peer leaks from an allocator of its own, or
//! with another C library than glibc, and it does not see what a real device would do.

mod bench;
#[cfg(unix)]
mod capsules;
mod child;
mod ffi;
mod judge;
mod notes;
mod options;
mod parent;
mod patience;
mod peer;
mod python;
mod report;
pub mod rules;
mod shape;
mod under;

use std::process::ExitCode;

pub use bench::{Bench, Context, Opened, Where};
pub use options::{Failure, Options, run};
pub use parent::{Launcher, Limits, check, check_some};
pub use peer::{
    Advance, Entry, Kind, OpenBench, Opener, Peer, Protocol, Side, Subject, usual_places,
};
pub use report::{Finding, Report, Seen, Verdict};
pub use shape::Shape;
pub use under::Under;

/// Runs the scenario that this process was started for, if the checker started this process. The
/// process should then end with the returned code.
pub fn child_if_asked() -> Option<ExitCode> {
    child_with(|_| None).then_some(ExitCode::SUCCESS)
}

/// Does what [`child_if_asked`] does, with peers that are written in Rust: `known` returns the peer
/// of a name. A name for which `known` returns none is looked for in a library. Returns whether the
/// checker started this process.
pub fn child_with(known: impl FnOnce(&str) -> Option<Peer>) -> bool {
    let Some(task) = child::Task::of_this_process() else { return false };
    task.run(|task| match known(&task.peer) {
        Some(peer) => Ok(peer),
        None => peer::load(&task.peer, task.kind, task.side),
    });
    true
}
