//! Simulated drivers: a `libcuda.so.1` and a `libamdhip64.so.6` made of software, to run the CUDA
//! and ROCm backends without a GPU.
//!
//! The shared library that this crate builds exports the driver API of CUDA and the runtime API of
//! HIP, as far as this project's backends use them, over the engine of the software device. So the
//! mistakes that a GPU hides are reported: a missing wait, memory freed too early, an event used
//! after its end. Every call checks its arguments as the vendor's manual says. It is a test
//! artefact: nobody ships it as a driver.
//!
//! [`Simulated`] loads a private copy of that library, so that each test has a machine of its own:
//!
//! ```no_run
//! use simulated_gpu_drivers::{Simulated, Vendor};
//!
//! let sim = Simulated::builder(Vendor::Cuda).devices(2).seed(7).load();
//! println!("{}", sim.path().display());
//! // ... the code that is tested loads the library from there ...
//! assert_eq!(sim.count("cuMemAlloc_v2"), 1);
//! assert!(sim.finish().is_empty());
//! ```
//!
//! # What it decides where manuals leave a choice
//!
//! * Work runs when somebody waits for it, as late as its order allows, as the seed chooses. A
//!   question that was answered with "not ready" eight times lets the device make progress, so that
//!   loops that ask end.
//! * `cuMemFree` *may* wait for the device. It does not here, and freeing what submitted work may
//!   still use is reported.
//! * Copies from ordinary host memory take the bytes before they return, copies to it wait (CUDA);
//!   both wait (HIP).
//! * Ordinary memory, and memory of another loaded copy, are the host's.
//!
//! # Mistakes
//!
//! Most are those of the software device, by the names of [`arrow_device_sim::Mistake`]. The
//! drivers have their own beside:
//!
//! | kind | what was done |
//! |---|---|
//! | `NotInitialized` | a call before `cuInit` |
//! | `NoContext` | a call that needs a context, on a thread that has none |
//! | `WrongContext` | an event, a kernel or memory with a stream or context that is not its own |
//! | `UnknownHandle` | a number that the driver never gave |
//! | `StreamDestroyed`, `EventDestroyed` | a handle after its end |
//! | `WrongFree` | memory freed by the function for another kind |
//! | `HostAddressOnDevice`, `WrongDirection` | a copy whose addresses are not what its name says |
//! | `DefaultStream` | a batch of copies on the default stream |
//! | `CallInCallback` | the driver called by a function that a stream calls |
//! | `Capture` | what may not be done while a stream is captured |
//!
//! # What it does not do
//!
//! * Graphs are captured and never launched. Kernels are closures that a test launches;
//!   `cuModuleLoadData` takes a list of names, and what they do is nothing.
//! * There is one context for each device, the primary one.
//! * Reads of the host are not seen, unless a test says them ([`Simulated::host_reads`]). What a
//!   pending copy will write to memory that the host shares holds `0xd5` until it runs; what the
//!   host changed meanwhile is reported when it does.
#![allow(non_snake_case, reason = "the vendors' names")]

mod batch;
mod call;
mod capture;
mod code;
mod config;
mod control;
mod cuda;
mod events;
mod hip;
mod machine;
mod memory;
mod peers;
mod record;
mod simulated;
mod streams;
mod thread;
mod work;

pub use simulated::{Builder, Call, Kernel, Memory, Report, Simulated, Vendor};
