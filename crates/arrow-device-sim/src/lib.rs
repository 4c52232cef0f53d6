//! The software device: device code tested without a device.
//!
//! A queue that does not wait for an event, memory that is freed while a kernel still reads it, an
//! address read on the host: a GPU shows such mistakes by chance, on some machines, under load. The
//! software device shows them every time, at the call that makes them, in an ordinary test. It
//! implements [`Driver`](arrow_device::driver::Driver), so everything built on
//! [`Device`](arrow_device::Device), [`Queue`](arrow_device::Queue) and
//! [`Array`](arrow_device::Array) runs on it unchanged.
//!
//! # From a bug that only a GPU shows to a failing test
//!
//! Two queues share a buffer. The second forgets to wait for the first. On a GPU the sum is wrong
//! once in a thousand runs; here the test fails in every run and names both lines:
//!
//! ```should_panic
//! # fn main() -> arrow_device::Result<()> {
//! use arrow_device_sim::Sim;
//!
//! let sim = Sim::builder().build();
//! let (load, compute) = (sim.device().open_queue()?, sim.device().open_queue()?);
//! let mut memory = sim.device().allocate(1024)?;
//! let (filled, read) = (memory.spot(&load)?, memory.spot(&compute)?);
//! sim.fill(&load, filled, 1024, 1)?;
//! sim.kernel("sum").reads(read, 1024).launch(&compute, |memory| {
//!     assert_eq!(memory.input(0).iter().map(|byte| u32::from(*byte)).sum::<u32>(), 1024);
//! })?;
//! compute.synchronize()
//! # }
//! ```
//!
//! ```text
//! read without order: allocation 1, bytes 0..1024 of 1024
//!   allocated  at src/sum.rs:5
//!   first      written by fill, by queue 1, work 1
//!              at src/sum.rs:7
//!   then       read by kernel `sum`, by queue 2, work 1
//!              at src/sum.rs:8
//!   Nothing orders the two: a device may run either first, or both at once.
//!   Record an event on queue 1 behind the first and make the second's queue wait for it ...
//! ```
//!
//! With `compute.wait(&load.record()?)?` before the launch the test passes, on every seed.
//!
//! # How it works
//!
//! * **Memory** is address space that the host cannot read: a read through a leaked address ends
//!   the process at that line. The engine reaches the same bytes in another way. See [`Protection`]
//!   for other systems. Fresh memory holds garbage, and the destination of a copy holds bytes that
//!   look like no result until the copy has run.
//! * **Queues are virtual.** The order of work follows from what was submitted, so each access is
//!   judged when it is submitted. It carries a vector clock. An access that is not ordered behind
//!   the write it reads, or that races with another access, is reported at once, whether or not the
//!   bytes come out right. Host memory that copies read and write is judged in the same way. All
//!   threads of the host share one clock: races between them are left to other tools.
//! * **Work runs when somebody waits for it**, as late as the order allows, in an order that the
//!   seed chooses, or at once on an eager device: see [`Schedule`]. The same seed gives the same
//!   run; [`sweep`] runs many, with both schedules. Code that asks and never waits needs
//!   [`Sim::run_until_idle`], a [`pump`](Sim::pump), or a wait until all is released
//!   ([`wait_until_released`](arrow_device::deferred::wait_until_released)).
//! * **Places have owners.** The library tells when a view, or memory that is being filled, has
//!   told a place for a queue, and when that view or memory is gone. Work that is submitted later
//!   is reported, even where the memory still waits for earlier work.
//! * **Reports** are values: [`Sim::take_reports`]. A simulator that is dropped with reports that
//!   nobody took panics, and so does a simulator that finds arrays, views, memory, events or queues
//!   left behind. What stays because of a forgotten view or array is part of the report about that
//!   view or array. Reports print numbers and lines, never addresses. A function that submits work
//!   for others is named by the line of its caller if it is `#[track_caller]`.
//! * **Faults** come on demand: [`Sim::fail`], work that fails after it was accepted
//!   ([`Sim::fail_later`]), [`Builder::memory_limit`], [`Sim::lose_device`], a slow device
//!   ([`Builder::work_time`]); [`for_each_fault`] makes every call of a test fail in turn.
//! * **Kinds** stand for the shapes of real devices, including a device with a single queue in
//!   whose order everything is ready. See [`Kind`], [`Builder::devices`] and [`Builder::peers`].
//!
//! The [`catalogue`] has every mistake that is known, with an example that fails.
//!
//! # Many orders
//!
//! ```
//! use arrow_device_sim::{Kind, Sim, sweep};
//!
//! // Closures are tests: run one on a hundred seeds, and on a device that has handles instead of
//! // addresses.
//! let test = |sim: &Sim| {
//!     let queue = sim.device().open_queue().unwrap();
//!     let mut memory = sim.device().allocate(4).unwrap();
//!     memory.write(&queue, &[1, 2, 3, 4]).unwrap();
//!     let spot = memory.spot(&queue).unwrap();
//!     assert_eq!(sim.read(&queue, spot, 4).unwrap(), [1, 2, 3, 4]);
//! };
//! sweep(0..100, test);
//! Sim::builder().kind(Kind::Handles).sweep(0..100, test);
//! ```
//!
//! # Every call that can fail, failing
//!
//! ```
//! use arrow_device::Result;
//!
//! let upload = |sim: &arrow_device_sim::Sim| -> Result<()> {
//!     let queue = sim.device().open_queue()?;
//!     let mut memory = queue.allocate(4)?;
//!     memory.write(&queue, &[1, 2, 3, 4])
//! };
//! // Each run in turn: errors are values, nothing leaks, nothing is freed early.
//! arrow_device_sim::for_each_fault(|sim| {
//!     let _ = upload(sim);
//! });
//! ```
//!
//! # From other languages
//!
//! An array on this device has `device_type` 12 (`ARROW_DEVICE_EXT_DEV`) and a `sync_event` that
//! points to an [`EventTable`]: functions that any program can call without this library.
//! `include/arrow_device/sim.h` declares it for C.
//!
//! # What it does not do
//!
//! * It finds mistakes in the orders and lifetimes of the code that ran, not in paths that were not
//!   taken.
//! * A kernel gets only the bytes that it declares. Whether a real kernel keeps to its declaration
//!   has to be checked with the device's own tools.
//! * A place is followed only through the library. When a C program uses an exported struct, order
//!   and bounds are judged, but not how long the program holds the struct.
//! * Reads of host memory by the host are not seen. A pending copy to the host leaves `0xd5` in its
//!   destination, so that a result that was read too early looks wrong.

pub mod catalogue;

mod allocate;
mod allocation;
mod builder;
mod clock;
mod custody;
mod driver;
mod engine;
mod event_calls;
mod event_functions;
mod event_table;
mod events;
mod expect;
mod fault;
mod filling;
#[doc(hidden)]
pub mod hardware;
mod host_memory;
mod kernel;
mod kernel_work;
mod leaks;
mod marks;
mod memory;
mod notices;
mod parts;
mod pump;
mod queue;
mod queues;
mod random;
mod report;
mod run;
#[cfg(all(target_os = "linux", not(miri)))]
mod sharing;
mod sim;
mod site;
mod span;
mod submit;
mod table;
mod track;
mod transfer;

pub use builder::{Builder, Kind, Schedule, for_each_fault, sweep};
pub use driver::SimDriver;
pub use event_table::EventTable;
pub use fault::Call;
pub use kernel::Kernel;
pub use kernel_work::KernelMemory;
pub use memory::Protection;
pub use pump::Pump;
pub use queue::Step;
pub use report::{Action, Actor, Mistake, Report, Subject};
pub use sim::Sim;
pub use site::Site;
