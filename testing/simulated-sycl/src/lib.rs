//! A simulated SYCL runtime: a `libDPCTLSyclInterface.so` made of software, to run the oneAPI
//! backend where neither dpctl nor a SYCL runtime is installed.
//!
//! The shared library that this crate builds exports the functions of dpctl's C interface that the
//! backend calls, by dpctl's names. It is a test artefact: nobody ships it. [`path`] says where
//! cargo has left the library. Where SYCL leaves a choice to the runtime, this runtime chooses what
//! shows mistakes of the caller:
//!
//! * Work is done late, by a thread of the runtime's own, when somebody asks about an event. Bytes
//!   are copied when the work ends. Of all work that may run, the newest runs first, so an order
//!   that nobody asked for is wrong.
//! * On a queue that is out of order, a barrier comes after earlier work, and nothing else is in
//!   order: later work comes after a barrier only where the work names the barrier's event. DPC++
//!   2026.2 behaves like this if the barrier waits for a task of the host.
//! * The memory of a device has addresses that the host can neither read nor write.
//! * Device 0 is a processor. Device 1 is a GPU that is driven by OpenCL: its queues start nothing
//!   before somebody flushes them, and a queue is flushed when another queue waits for its work.
//!   Device 2 has no USM. On device 2 the allocation of memory on the host ends the process, as an
//!   exception does that leaves dpctl. With `SIMULATED_SYCL=none` in the environment there are no
//!   devices.
//! * A copy refuses memory of another context, and places behind the end of an allocation.
//! * Objects that are used after their end, and memory that is freed while work uses it, are
//!   counted as mistakes and printed.
//!
//! Beside dpctl's functions there are some for tests: `simulated_sycl_gate` and
//! `simulated_sycl_open` hold a queue back. `simulated_sycl_fail_next` has the next copy fail with
//! all that is behind it, and `simulated_sycl_fail_next_alone` has it fail alone.
//! `simulated_sycl_live` counts objects, `simulated_sycl_barriers` counts barriers, and
//! `simulated_sycl_mistakes` counts mistakes.
//!
//! What is not simulated: kernels, profiling, several platforms, and parts of devices, of which
//! only the refusal of an id can be seen (`simulated_sycl_part_of_device`).

#![allow(non_snake_case, reason = "dpctl's names")]

mod control;
mod devices;
mod memory;
mod objects;
mod queues;
mod work;

use std::path::PathBuf;

/// Where cargo has left the shared library: beside the test, or one folder up.
///
/// # Panics
/// Panics where the library is not there.
#[allow(clippy::panic, reason = "there is no test without the library")]
pub fn path() -> PathBuf {
    const BUILT: &str = "libsimulated_sycl.so";
    let test = std::env::current_exe().unwrap_or_default();
    let places = test
        .ancestors()
        .skip(1)
        .take(2)
        .flat_map(|folder| [folder.join(BUILT), folder.join("deps").join(BUILT)]);
    let found = places.into_iter().find(|place| place.is_file());
    found.unwrap_or_else(|| panic!("{BUILT} is not beside {}", test.display()))
}
