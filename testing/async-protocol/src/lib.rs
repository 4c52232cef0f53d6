//! The protocol of asynchronous streams, run under every schedule of a few threads and under many
//! random ones.
//!
//! The state machines are those of `arrow-device`, the same source, compiled here over the locks of
//! another library:
//!
//! * `tests/random.rs` runs them under shuttle, which picks the next thread at random, from a seed
//!   that it prints.
//! * `tests/every_schedule.rs` runs them under loom, which goes through all schedules up to a bound
//!   of preemptions. It is compiled with `--cfg loom` and for nobody else: see the tier `loom` of
//!   `cargo xtask test`.
//!
//! `tests/scenarios` has the interleavings that matter, each as a few threads, and with each the
//! rules that keep it in order. A rule that is taken away must be missed: there is a run in which
//! the scenario fails.
//!
//! This is a crate of its own because `--cfg loom` would change other dependencies of the library's
//! tests as well, and because the library itself needs neither of the two.
