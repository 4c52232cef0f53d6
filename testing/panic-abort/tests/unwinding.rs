//! The program as it is built with the tests, where panics unwind. `cargo xtask test` runs it where
//! they do not.

#![cfg(not(miri))]

use std::process::Command;

// Requirement: SYS-2
#[test]
fn the_program_runs_where_panics_unwind() {
    let program = env!("CARGO_BIN_EXE_panic-abort");
    let output = Command::new(program).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(printed.contains("where panics unwind\n"), "{printed}");
    assert!(printed.contains("\ntest result: ok. 10 passed; 0 failed; 0 ignored\n"), "{printed}");
}
