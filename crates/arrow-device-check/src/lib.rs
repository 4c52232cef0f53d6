//! Check whether somebody's producer or consumer of Arrow data on devices keeps to the interface.
//!
//! A peer is a function in a shared library (`include/arrow_device/check.h` declares the kinds
//! there are) or in Python. It is tried on the host and on the software device, each time in a
//! process of its own, so that a crash is a finding like any other. What is found is told rule by
//! rule: see [`rules::ALL`].
//!
//! * [`Options`] and [`run`] are the command, for whoever has one.
//! * [`check`] is the same for programs, and for tests with peers that are written in Rust: see
//!   [`child_with`].
//!
//! `docs/check.md` has an example in C.
//!
//! # Starting itself again
//!
//! The processes are the calling program once more. So `main` begins like this:
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
//! It sees what shows in structs, in calls, in the allocator's books and on the software device.
//! Memory that a peer leaks from an allocator of its own is not seen, nor with another C library
//! than glibc, nor is what a real device would do.

mod bench;
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

use std::process::ExitCode;

pub use bench::{Bench, Context, Opened, Where};
pub use options::{Failure, Options, run};
pub use parent::{Launcher, Limits, check, check_some};
pub use peer::{
    Advance, Entry, Kind, OpenBench, Opener, Peer, Protocol, Side, Subject, usual_places,
};
pub use report::{Finding, Report, Seen, Verdict};

/// Does what this process was started for, if it was started to try something. Then it should end.
pub fn child_if_asked() -> Option<ExitCode> {
    child_with(|_| None).then_some(ExitCode::SUCCESS)
}

/// The same with peers of one's own: `known` gives the peer of a name, and what it does not know is
/// looked for in a library. Whether this process was started to try something.
pub fn child_with(known: impl FnOnce(&str) -> Option<Peer>) -> bool {
    let Some(task) = child::Task::of_this_process() else { return false };
    task.run(|task| match known(&task.peer) {
        Some(peer) => Ok(peer),
        None => peer::load(&task.peer, task.kind, task.side),
    });
    true
}
