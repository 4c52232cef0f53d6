//! Sequences of safe calls that are short enough for Miri: `cargo xtask miri` runs them.

use arrow_device_testkit::process::alone;
use arrow_device_testkit::targets::{self, Target};

use crate::corpus::inputs;

/// So many bytes are a dozen calls, which take Miri a second.
const LONGEST: usize = 40;

#[test]
fn short_sequences_of_calls() {
    run("api", targets::api, 12);
}

#[test]
fn short_sequences_with_two_runtimes_of_one_id() {
    alone(|| run("twins", targets::twins, 4));
}

/// Runs the beginning of so many inputs of a corpus.
fn run(name: &str, target: Target, count: usize) {
    let inputs = inputs(name);
    for input in inputs.iter().step_by(inputs.len().div_ceil(count)) {
        println!("{name} {}", input.display());
        let bytes = std::fs::read(input).unwrap();
        target(&bytes[..bytes.len().min(LONGEST)]);
    }
}
