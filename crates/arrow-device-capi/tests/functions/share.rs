//! Arrays of one process in another one: a C program that starts itself again.

use std::path::Path;
use std::process::Command;

use crate::support::{self, ROOT, SANITIZERS, assert_success, run, text, without_drivers};

fn assert_all_is_well(command: &mut Command) {
    let output = run(without_drivers(command));
    assert_success("processes.c", &output);
    assert!(text(&output).contains("all is well"), "{}", text(&output));
}

#[test]
fn two_programs_in_c_share_arrays_and_leave_nothing_behind() {
    let source = Path::new(ROOT).join("tests/c/processes.c");
    for compiler in support::compilers() {
        assert_all_is_well(&mut Command::new(compiler.build(&source, &[])));
        if compiler.can_sanitize() {
            assert_all_is_well(&mut Command::new(compiler.build(&source, SANITIZERS)));
        }
    }
}
