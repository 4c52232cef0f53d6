//! Finds out whether a device, a producer or a consumer of Arrow data keeps to the rules, before
//! its users do.
//!
//! The Arrow C device data interface is a struct, an event and a callback. A test that hands one
//! array over and reads it does not show what can go wrong: an event that is lost, a child that
//! dies with its parent, a slice whose offset is forgotten, a length that nobody checks. This crate
//! has the means to see such mistakes: hand-written peers that keep books, a suite of every type in
//! every shape, a wrong peer for each rule, and structs with anything wrong.
//!
//! # I have written a backend
//!
//! Five lines run everything on it. What the device cannot do, by its own
//! [`Properties`](arrow_device::driver::Properties), is skipped, and the report says why.
//!
//! ```
//! use arrow_device_testkit::suite::Suite;
//!
//! # let sim = arrow_device_sim::Sim::builder().backtraces(false).build();
//! # let open = || sim.device();
//! # use arrow_device_testkit::kinds::{Kind, cases_of};
//! # let few = cases_of([Kind::Text("u", 4)]);
//! let device = open();
//! let report = Suite::new(&device)
//! #     .over(few)
//!     .run();
//! println!("{report}");
//! report.assert();
//! ```
//!
//! ```text
//! software device 1 (ext_dev:4707186630593609729): 1598 arrays
//!   waits                    15 cases
//!   bytes                     6 cases
//!   memory                    8 cases
//!   mappings             skipped: the device does nothing of the kind
//!   import                 1598 cases
//!   export                 1598 cases
//!   export again           1598 cases
//!   move children          1598 cases
//!   copy there and back    1598 cases
//!   order                  1598 cases
//!   deferred release       1598 cases
//!   read in place        skipped: the host cannot read its memory
//!   another device       skipped: no other device was named
//!   all                   11215 cases, 0 failed
//! ```
//!
//! The first four look at the driver itself: does a queue wait, does a call that is not to wait
//! come back, does a copy leave its neighbours alone, is memory given back, does a mapping show
//! what work wrote. The others look at arrays of all types in all shapes (whole, sliced, empty,
//! empty without buffers; no nulls, nulls, nulls that nobody has counted), and at one in eleven of
//! the arrays of types inside types; [`everything`](suite::Suite::everything) takes all. The
//! device's queues are busy before each check whose outcome depends on order, with a copy that
//! takes a tenth of a millisecond or with what [`slow`](suite::Suite::slow) says.
//!
//! Further options give the suite a second device ([`beside`](suite::Suite::beside)), something
//! that watches the first device ([`watched_by`](suite::Suite::watched_by), as the software device
//! does), work that goes on until it is told to end ([`holding`](suite::Suite::holding)), or your
//! own wrapper of the library ([`through`](suite::Suite::through)). A device for which the host may
//! not wait is [turned](suite::Suite::turned_by). [`Faulty`](faulty::Faulty) devices have one fault
//! of a driver each, to see that your tests would notice. [`faulty::table`] prints the suite's
//! report on every such fault on your device.
//!
//! # I have written a producer or a consumer of the C structs
//!
//! The producer or consumer may be in any language: a [`judge`] takes a function that fills the
//! structs, or a function that takes them over.
//!
//! ```
//! use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
//! use arrow_device_testkit::judge::{self, Stage};
//! # use arrow_device_testkit::wrong::{self, Producer};
//!
//! let producer =
//!     |stage: &Stage, schema: *mut ArrowSchema, array: *mut ArrowDeviceArray| {
//!         // Submit the work that makes the data to `stage.queue`, and fill both.
//! #   Producer::RIGHT.produce(stage, schema, array);
//!     };
//! assert_eq!(judge::producer(&producer), Ok(()));
//!
//! let consumer =
//!     |stage: &Stage, schema: &mut ArrowSchema, array: &mut ArrowDeviceArray| {
//!         // Use the data on `stage.queue`, and release both.
//! #   wrong::right_consumer(stage, schema, array);
//!     };
//! assert_eq!(judge::consumer(&consumer), Ok(()));
//! ```
//!
//! The device of the stage does nothing until it is told to. A peer that does not wait, records too
//! early or releases too soon is seen every time, and the [`Verdict`] says which mistake it was.
//!
//! # I take structs from strangers
//!
//! [`hostile::all`] returns more than two thousand such structs. Each has one mistake, and says
//! what is owed to it: an error of a certain kind at a certain place of the tree, and one release.
//! [`hostile::random`] makes any number of further structs. Implement [`hostile::Importer`] for the
//! function that takes the structs over:
//!
//! ```
//! use arrow_device_testkit::hostile::{self, Ours};
//!
//! # let some = || hostile::all().into_iter().step_by(101);
//! # let all = some;
//! for hostile in all().into_iter().chain((0..100).map(hostile::random)) {
//!     assert_eq!(hostile.check(&Ours), Ok(()), "{}", hostile.name);
//! }
//! ```
//!
//! # I have written a checker of my own
//!
//! A checker has to find the peers of [`wrong::all`]. For each rule that a peer can break, there is
//! a peer that breaks only that rule, with the requirement's id, a description, and the complaint
//! that is owed. [`faults`] lists the mistakes that shipped implementations have had, each with
//! what would have found it.
//!
//! # I copy, slice or convert arrays
//!
//! [`generate`] makes any array from a string of bytes, and [`oracle`] reads its values without the
//! library. Together they test whatever has to keep values unchanged. A failure shows the simplest
//! array that still fails.
//!
//! ```
//! use arrow_device_testkit::{generate, ledger::Ledger, oracle};
//!
//! # let device = arrow_device::Device::host();
//! let queue = device.open_queue()?;
//! generate::for_each(20, 1, |generated| {
//!     let array = generate::build(&generated.plan, &Ledger::new())
//!         .map_err(|error| error.to_string())?;
//!     let there = array.copy_to(&queue).map_err(|error| error.to_string())?;
//!     let back = there.to_host().map_err(|error| error.to_string())?;
//!     oracle::require_equal(&generated.plan, &oracle::plan_of(&back)?)
//! });
//! # Ok::<(), arrow_device::Error>(())
//! ```
//!
//! # Where things are
//!
//! | module | has |
//! |---|---|
//! | [`suite`] | every type, in every shape, exchanged in every way, on one device |
//! | [`judge`], [`wrong`] | what a peer is held to, and a peer for each rule that it does not keep |
//! | [`hostile`], [`faults`] | structs with anything wrong; the faults that are known of others |
//! | [`plan`], [`kinds`] | what an array consists of, as plain bytes and numbers, for every type of the format |
//! | [`producer`], [`ledger`] | C structs of a plan, one allocation for each part, all of them counted |
//! | [`deposit`] | the same with buffers on a device, by raw calls of its driver |
//! | [`consumer`] | reading C structs, moving and releasing them in any order |
//! | [`relay`] | whole peers that hand on what they get, with a fault to order |
//! | [`tally`] | counts of what a driver is asked for |
//! | [`stream`] | a producer and a consumer of streams, with faults to order, and the checks that find them |
//! | [`pushed`] | the same for asynchronous streams, moved on step by step |
//! | [`allocations`] | counting how often the allocator is asked |
//! | `application` | what a program does itself with OpenCL, Vulkan, WebGPU or the crate wgpu, behind the features `opencl`, `vulkan`, `webgpu` and `wgpu` |
//! | [`manual`] | a device whose work is done when a test says so |
//! | [`faulty`] | real devices whose drivers have one fault, and whether the suite finds it |
//! | [`generate`] | arbitrary schemas and arrays from a string of bytes, for property tests and fuzzing |
//! | [`process`] | tests in processes of their own |
//! | `system_calls` | counting what a thread asks the system for, on Linux |
//! | [`golden`], [`peers`] | where the Arrow project's own reference files are, and other implementations that are installed |
//! | [`trips`] | building what is sent somewhere, and looking at what came back |
//! | [`oracle`], [`shape`] | the values of an array, read the naive way, and whether two arrays are equal |
//! | [`targets`] | the functions that are fuzzed |
//! | [`tensors`] | DLPack: producers with any field wrong, a consumer that checks, tensors of every type in every layout |
//! | [`recipe`], [`samples`] | arrays of every type as bytes to be changed, which the library builds; a batch with a bit of everything |
//!
//! # What it trusts
//!
//! This crate is for tests. Functions that read or release C structs trust them, as a peer in C
//! would, without being `unsafe`: pass them structs that keep to the interface, or those of this
//! crate. Mistakes of a test panic. Wrong peers leak. Do not use this crate in a program that is
//! not a test.
//!
//! # What it does not do
//!
//! * It finds mistakes that show in the structs, in the order of calls and in the bytes. Races
//!   inside a driver are left to that driver's own tools, and `arrow-device-sim` sees the order of
//!   work itself.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "it is run by tests, and a test that goes wrong ends there"
)]

pub mod allocations;
#[cfg(any(feature = "opencl", feature = "vulkan", feature = "webgpu", feature = "wgpu"))]
pub mod application;
pub mod consumer;
pub mod deposit;
pub mod faults;
pub mod faulty;
#[cfg(unix)]
pub mod forks;
pub mod generate;
pub mod golden;
pub mod hostile;
pub mod judge;
pub mod kinds;
pub mod ledger;
pub mod manual;
pub mod oracle;
pub mod peers;
pub mod plan;
pub mod process;
pub mod producer;
pub mod pushed;
pub mod recipe;
pub mod relay;
pub mod required;
pub mod samples;
pub mod shape;
#[cfg(target_os = "linux")]
pub mod shared_memory;
pub mod stream;
pub mod suite;
#[cfg(target_os = "linux")]
pub mod system_calls;
pub mod tally;
pub mod targets;
pub mod tensors;
pub mod trips;
pub mod wrong;

use std::time::{Duration, Instant};

use arrow_device::deferred;

/// The result of a check: a complaint, or nothing.
pub type Verdict = Result<(), String>;

/// Complains unless the condition holds.
pub fn require(holds: bool, complaint: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(complaint()) }
}

/// Asserts that a check failed with this complaint.
#[track_caller]
pub fn assert_complaint(verdict: Verdict, expected: &str) {
    let complaint = verdict.expect_err(&format!("nobody complained that `{expected}`"));
    assert!(complaint.contains(expected), "`{complaint}` does not say `{expected}`");
}

/// Calls a function when it is dropped.
#[derive(Debug)]
pub struct OnDrop<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Releases everything whose last use has passed, and waits up to 20 seconds for other threads that
/// are releasing some of it.
///
/// Deferred releases are shared by all tests of a program, so a thread of another test may release
/// them.
pub fn release_what_has_passed() {
    let patience = Instant::now() + Duration::from_secs(20);
    deferred::release_finished();
    while deferred::held_back().being_released > 0 && Instant::now() < patience {
        std::thread::yield_now();
    }
}

/// Releases what is not used any more until a condition holds. Returns whether it came to hold.
pub fn release_until(is_so: impl Fn() -> bool) -> bool {
    let patience = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        if Instant::now() > patience {
            return false;
        }
        release_what_has_passed();
        std::thread::yield_now();
    }
    true
}
