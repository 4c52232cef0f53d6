//! The targets of the folder `fuzz`, without a fuzzer: their corpus, and bytes that proptest draws.
//!
//! The target `twins` has a process of its own, because the library asks from then on whose memory
//! is whose, and the others run where it does not ask.

use std::ffi::OsString;
use std::path::PathBuf;

use arrow_device_testkit::process::alone;
use arrow_device_testkit::targets::{TARGETS, Target};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// The name of the target that has a process of its own.
const TWINS: &str = "twins";

/// Runs targets that have this property.
fn each_target(wanted: impl Fn(&str) -> bool, run: fn(&str, Target)) {
    let wanted: Vec<_> = TARGETS.iter().filter(|(name, _)| wanted(name)).collect();
    assert!(!wanted.is_empty());
    wanted.into_iter().for_each(|(name, target)| run(name, *target));
}

/// Whatever was found once, and what reaches most of the code.
#[test]
fn every_target_passes_its_corpus() {
    each_target(|name| name != TWINS, pass_corpus);
}

#[test]
fn two_runtimes_of_one_id_pass_their_corpus() {
    alone(|| each_target(|name| name == TWINS, pass_corpus));
}

#[test]
fn every_target_passes_on_bytes_that_nobody_chose() {
    each_target(|name| name != TWINS, pass_bytes);
}

#[test]
fn two_runtimes_of_one_id_pass_on_bytes_that_nobody_chose() {
    alone(|| each_target(|name| name == TWINS, pass_bytes));
}

fn pass_corpus(name: &str, target: Target) {
    for input in inputs(name) {
        println!("{name} {}", input.display());
        target(&std::fs::read(input).unwrap());
    }
}

/// The files of a target's corpus.
pub(crate) fn inputs(name: &str) -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let folder = folder.join(name);
    let entries = folder.read_dir().unwrap();
    // Names and no paths, whose comparisons take Miri half a minute.
    let mut names: Vec<OsString> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert!(!names.is_empty(), "{name} has no corpus");
    names.into_iter().map(|name| folder.join(name)).collect()
}

fn pass_bytes(name: &str, target: Target) {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    // Of all targets this one has the most to choose from.
    let cases = if name == "data" { 6000 } else { 500 };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let bytes = proptest::collection::vec(proptest::num::u8::ANY, 0..200);
    let outcome = runner.run(&bytes, |bytes| {
        target(&bytes);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
}
