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
//! * A free of plain, pinned or managed memory *may* wait for the device. It does with
//!   [`Builder::frees_wait`] and otherwise not; freeing what submitted work may still use is
//!   reported either way.
//! * Copies from ordinary host memory take the bytes before they return, copies to it wait (CUDA);
//!   both wait (HIP). The manuals say only that such copies *may* be synchronous:
//!   [`Builder::pageable_waits`] makes them go on after the call.
//! * A pool keeps what is freed until somebody waits, gives back what is beyond its threshold then,
//!   and not before; nobody else has what it keeps ([`Simulated::pool_growths`]).
//! * Handles are numbers of their own. [`Builder::reuses_handles`] gives them out again, and with
//!   [`Builder::crashes`] one that is used after its end ends the process.
//! * The range of an address is its allocation. With [`Builder::reservations`] it is what CUDA's
//!   attributes tell of memory that was mapped by hand: the whole reservation.
//! * Waiting for a stream needs a current context, and pinned memory has at least one byte. CUDA's
//!   manual permits both and promises neither, and nanoarrow's own tests rely on the contrary:
//!   [`Builder::lenient`].
//! * HIP writes four bytes for the size of a range, as its sources do and its manual does not say.
//! * HIP does not know the type of ordinary memory. Newer releases say that nobody registered it:
//!   [`Builder::unregistered`].
//! * Access to mapped memory can be for reading alone. [`Builder::read_only`] takes that away, and
//!   [`Builder::mapping`] all of mapping by hand.
//! * Ordinary memory, and memory of another loaded copy, are the host's.
//!
//! [`Builder::strict`] is all that is unkind at once.
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
//! | `CallAfterTheEnd` | the driver called after its own handler of the process's end has run |
//!
//! # What it does not do
//!
//! Where it deviates from the vendors' documents, and why:
//!
//! * Contexts that a program makes (`cuCtxCreate`) have streams and events of their own, and no
//!   memory, pools or default streams: this project's backends use the primary context only, and
//!   all that a caller can hand them of another one is a stream or an event. So a wait for such a
//!   context waits for its whole device, and memory is said to be of the primary context.
//! * Contexts with a part of a device's processors ("green") are not there. Streams of one are, for
//!   the manual, streams of the context that is made of it, which is one that a program makes.
//! * Copies on a stream of another device than the current one, or of another context, are made, as
//!   CUDA's programming guide says; the manual of the driver's functions does not say it. HIP's
//!   manual says nothing either. Kernels there, and events of another context, are refused.
//! * A context that was reset stays lost. On hardware it can be retained anew; no backend does
//!   that, because handles of the old one are everywhere.
//! * Work that fails is not simulated by itself: a test says which code a device is lost with
//!   ([`Simulated::lose`]), and every call that is about the device returns that code from then on.
//!   On hardware a failed assertion of a kernel (710) is such a loss for CUDA, of the context and
//!   so of the process; the manual calls its memory invalid, and which calls still return something
//!   else is not written down. HIP's header says of 710 that a kernel has called `assert`, and not
//!   what can be used afterwards: here the device is lost for HIP as well, which asks more of a
//!   backend. What a kernel prints before the assertion is not there.
//! * Freeing memory of a lost device frees it, and returns the code. On hardware nothing is known
//!   of such memory.
//! * Memory that is mapped by hand (`cuMemMap`) fills all of its reservation, so holes and several
//!   segments of one range are not made. Access is not taken away, but with the mapping. A
//!   descriptor of anything but such memory of the same vendor and device number is refused, which
//!   no document promises. What another process does with the memory is not seen here.
//! * Handles for other processes of what `cuMemAlloc` gave (`cuIpcGetMemHandle`) are not there.
//! * A pool's memory is there at once for another allocation when it is freed, whatever stream it
//!   was freed on, because it never has the same address: a use after the free is reported by its
//!   address. The settings for reuse between streams are not known, and only three attributes are.
//! * Pools are trimmed by every wait of the host for a stream, an event or a device, also by a copy
//!   that waits. The manuals name the functions that synchronise only.
//! * Access that was given to a pool or to a peer is not taken away, since nobody here takes it.
//! * A captured stream allocates nothing (801). On hardware an allocation becomes part of the
//!   graph.
//! * HIP keeps its last error until it is asked for. Older releases forget it with the next call
//!   that succeeds, which is kinder.
//! * A graph that is launched makes the copies of the driver's memory that were captured, one after
//!   the other. Fills, kernels, functions of the host, and copies of ordinary memory are counted
//!   while they are captured and not made: nobody promises that the host's part is still there.
//! * Kernels are closures that a test launches; `cuModuleLoadData` takes a list of names, and what
//!   they do is nothing.
//! * Handles after their end are told apart from others unless they are given out again, and calls
//!   with them return a code unless the process is to end: a test of a mistake has to go on.
//! * Nothing takes time, and no link has a rate: costs are counted and not measured.
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
mod graphs;
mod hip;
mod machine;
#[cfg(all(target_os = "linux", not(miri)))]
mod mapped;
mod memory;
mod peers;
mod pools;
mod record;
mod simulated;
mod streams;
mod teardown;
mod thread;
mod work;

pub use simulated::{Builder, Call, Kernel, Memory, Report, Simulated, Vendor};
