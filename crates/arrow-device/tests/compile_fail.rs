//! An address cannot be reached without naming a queue or waiting, and not kept for longer than
//! that: programs that try do not compile.
//!
//! Each file of `tests/compile_fail/` has a twin of the same name in `tests/compile_pass/` that
//! does what it tries to do as it is meant, compiles and runs. The compiler's texts beside the
//! former differ from release to release, so one release is compared with. To write them anew:
//! `TRYBUILD=overwrite cargo test --test compile_fail`.

#![cfg(not(miri))]
// The functions below are the tests' own.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

/// The release whose texts these are.
const RELEASE: &str = "rustc 1.95.0 (";

// Requirement: SAF-3, SAF-6
#[test]
fn misuse_does_not_compile() {
    let version = compiler_version();
    if !version.starts_with(RELEASE) {
        println!(
            "skipped: the texts are those of `{RELEASE}..)`, and this is `{}`",
            version.trim()
        );
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
    cases.pass("tests/compile_pass/*.rs");
}

#[test]
fn each_misuse_has_a_twin_that_compiles() {
    let names = |folder: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let sources = entries.filter(|path| path.extension().is_some_and(|end| end == "rs"));
        let mut names: Vec<_> = sources.map(|path| path.file_name().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names("compile_fail"), names("compile_pass"));
    assert!(!names("compile_fail").is_empty());
}

fn compiler_version() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}
