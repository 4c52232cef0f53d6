//! A C program is compiled, linked with the library, and run.
#![cfg(all(target_os = "linux", not(miri)))]
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

#[test]
fn a_c_program_runs_on_the_software_device() {
    let test = std::env::current_exe().unwrap();
    // Cargo leaves the library beside the test.
    let beside = test.parent().unwrap();
    let library = beside.join("libsim_c.so");
    assert!(library.exists(), "{}", library.display());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("program");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(root.join("../../crates/arrow-device-sim/include"))
        .arg("-I")
        .arg(root.join("include"))
        .arg(root.join("tests/program.c"))
        .arg(&library)
        .arg(format!("-Wl,-rpath,{}", beside.display()))
        .arg("-o")
        .arg(&program)
        .status();
    assert!(compiled.unwrap().success());
    let output = Command::new(&program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
