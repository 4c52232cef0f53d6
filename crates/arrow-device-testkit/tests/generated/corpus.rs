//! The targets of the folder `fuzz`, without a fuzzer: their corpus, and bytes that proptest draws.

use std::path::PathBuf;

use arrow_device_testkit::targets::TARGETS;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Whatever was found once, and what reaches most of the code.
#[test]
fn every_target_passes_its_corpus() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, target) in TARGETS {
        let mut entries: Vec<PathBuf> =
            folder.join(name).read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        assert!(!entries.is_empty(), "{name} has no corpus");
        for entry in &entries {
            println!("{name} {}", entry.display());
            target(&std::fs::read(entry).unwrap());
        }
    }
}

#[test]
fn every_target_passes_on_bytes_that_nobody_chose() {
    for (name, target) in TARGETS {
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
}
