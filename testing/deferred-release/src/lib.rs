//! Timelines, by which the library knows when what is held back may be released, run under every
//! schedule of a few threads and under many random ones.
//!
//! The source is that of `arrow-device`, compiled here over the locks of another library:
//!
//! * `tests/random.rs` runs it under shuttle, which picks the next thread at random, from a seed
//!   that it prints.
//! * `tests/every_schedule.rs` runs it under loom, which goes through all schedules. It is compiled
//!   with `--cfg loom` and for nobody else: see the tier `loom` of `cargo xtask test`.
//!
//! `tests/scenarios` has the interleavings that matter, each as a few threads, and with each the
//! rules that keep it in order. A rule that is taken away must be missed: there is a run in which
//! the scenario fails.
