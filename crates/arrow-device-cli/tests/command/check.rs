//! `arrow-device check`, as somebody with a library in C meets it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Folder, complaint, run, skip, text};

/// The library of one of the checker's own peers; `None`, with a reason printed, where there is no
/// compiler.
fn library(folder: &Folder, name: &str) -> Option<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    if Command::new(&compiler).arg("--version").output().is_err() {
        skip("cc", "there is no C compiler");
        return None;
    }
    let library = folder.path(&format!("lib{name}.so"));
    let compiled = Command::new(&compiler)
        .args(["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-fPIC", "-shared", "-I"])
        .arg(crates.join("arrow-device-check/include"))
        .arg("-I")
        .arg(crates.join("arrow-device-abi/include"))
        .arg(crates.join(format!("arrow-device-check/tests/peers/{name}.c")))
        .arg("-o")
        .arg(&library)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Some(library)
}

/// The exit code and the report.
fn check(library: &Path, function: &str) -> (Option<i32>, String) {
    let peer = format!("{}:{function}", text(library));
    let output = run(&["check", "--producer", &peer, "--limit", "120"]);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(complaint.is_empty(), "{complaint}");
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_producer_that_is_right_passes() {
    let folder = Folder::new();
    let Some(library) = library(&folder, "right") else { return };
    let (code, report) = check(&library, "produce");
    assert_eq!(code, Some(0), "{report}");
    assert!(report.contains(" rules passed, 0 failed, "), "{report}");
}

#[test]
fn a_producer_that_is_wrong_is_told_the_rule() {
    let folder = Folder::new();
    let Some(library) = library(&folder, "wrong") else { return };
    for (function, rule) in [("forgets_memory", "FAIL ARR-10"), ("crashes", "FAIL PEER")] {
        let (code, report) = check(&library, function);
        assert_eq!(code, Some(1), "{report}");
        assert!(report.lines().any(|line| line.starts_with(rule)), "{function}: {report}");
    }
}

#[test]
fn what_cannot_be_checked_is_refused_in_one_line() {
    let refused = complaint(&["check"], 2);
    assert!(refused.contains("--producer"), "{refused}");
    let refused = complaint(&["check", "--producer", "./libmine.so"], 2);
    assert!(refused.contains("libmine.so"), "{refused}");
    let refused = complaint(&["check", "--producer", "a.so:b", "--allow", "ARR-999"], 2);
    assert!(refused.contains("`ARR-999` is no rule"), "{refused}");
    let refused = complaint(&["check", "--producer", "a.so:b", "--json", "/nowhere/report"], 2);
    assert!(refused.contains("/nowhere/report") && refused.contains("name a file"), "{refused}");
}
