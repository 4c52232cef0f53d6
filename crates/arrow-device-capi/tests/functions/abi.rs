//! The binary interface: what was compiled against an older header goes on to work.
//!
//! `tests/abi/0.1` holds the header of version 0.1 as it was, a program that uses each struct that
//! can grow, and the names that the library exported.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::interface::Interface;
use crate::support::{
    self, ROOT, SANITIZERS, assert_success, c_compiler, fresh_path, header_in, installed, run,
    text, without_drivers,
};

fn frozen() -> PathBuf {
    Path::new(ROOT).join("tests/abi/0.1")
}

/// Compiles the program of version 0.1 with the header of version 0.1, against a library.
fn program(library: &Path, options: &[&str]) -> PathBuf {
    let path = fresh_path("program-0.1");
    let mut command = Command::new(c_compiler().program);
    command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-g", "-I"]).arg(frozen());
    // The structs of the specification, which are of no version.
    command.arg("-I").arg(Path::new(ROOT).join("../arrow-device-abi/include/arrow_device"));
    command.args(options).arg("-o").arg(&path).arg(frozen().join("program.c")).arg(library);
    command.arg(format!("-Wl,-rpath,{}", library.parent().unwrap().display()));
    assert_success("program.c", &run(&mut command));
    path
}

fn assert_works(library: &Path, options: &[&str]) {
    let output = run(without_drivers(&mut Command::new(program(library, options))));
    assert_success("program.c", &output);
    assert!(text(&output).contains("all is well"), "{}", text(&output));
}

/// The library in which every struct with a `struct_size` is longer than the header says.
fn grown() -> PathBuf {
    // Cargo leaves it beside the tests that need it.
    env::current_exe().unwrap().parent().unwrap().join("libgrown_capi.so")
}

#[test]
fn a_program_of_version_0_1_runs_with_this_library() {
    assert_works(&installed().join("lib/libarrow_device.so"), &[]);
}

#[test]
fn a_program_of_version_0_1_runs_with_a_library_whose_structs_have_grown() {
    assert_works(&grown(), &[]);
    if c_compiler().can_sanitize() {
        assert_works(&grown(), SANITIZERS);
    }
}

#[test]
fn what_version_0_1_declared_is_declared_as_it_was() {
    let (before, now) = (Interface::of_header(&header_in(&frozen())), support::header());
    let now = Interface::of_header(&now);
    for (name, function) in &before.functions {
        assert_eq!(now.functions.get(name), Some(function), "{name}");
    }
    for (name, value) in &before.constants {
        assert_eq!(now.constants.get(name), Some(value), "{name}");
    }
    for (name, members) in &before.structs {
        let Some(found) = now.structs.get(name) else { panic!("{name} is gone") };
        let kept = found.get(..members.len()).unwrap_or_default();
        assert_eq!(kept, members, "{name} begins as it did");
        assert!(found.len() == members.len() || before.has_size(name), "{name} may not grow");
    }
}

#[test]
fn structs_either_begin_with_their_size_or_never_grow() {
    // Which these are is a promise of docs/c.md.
    let never = ["error", "place", "spot", "region", "bytes", "pair"];
    let never: BTreeSet<String> = never.iter().map(|name| format!("struct ardev_{name}")).collect();
    let header = Interface::of_header(&support::header());
    let without_size: BTreeSet<String> =
        header.structs.keys().filter(|name| !header.has_size(name)).cloned().collect();
    assert_eq!(without_size, never);
    let page = fs::read_to_string(Path::new(ROOT).join("../../docs/c.md")).unwrap();
    for name in never {
        assert!(page.contains(&format!("`{}`", &name["struct ".len()..])), "{name}");
    }
    // The program of the test above uses each of the others.
    let program = fs::read_to_string(frozen().join("program.c")).unwrap();
    for name in header.structs.keys().filter(|name| header.has_size(name)) {
        let name = &name["struct ".len()..];
        let is_used = program.contains(&format!("GUARDED({name})"))
            || program.contains(&format!("struct {name} "));
        assert!(is_used, "{name}");
    }
}

#[test]
fn every_name_that_version_0_1_exported_is_exported() {
    if !support::has("nm") {
        return;
    }
    let library = installed().join("lib/libarrow_device.so");
    let output = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let exported = text(&output);
    let exported: BTreeSet<&str> =
        exported.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let before = fs::read_to_string(frozen().join("symbols.txt")).unwrap();
    let missing: Vec<&str> = before.lines().filter(|name| !exported.contains(name)).collect();
    assert_eq!(missing, Vec::<&str>::new());
    // The table is complete: it has what the header of that version declares.
    let declared = Interface::of_header(&header_in(&frozen()));
    let declared: Vec<&str> = declared.functions.keys().map(String::as_str).collect();
    assert_eq!(before.lines().collect::<Vec<_>>(), declared);
}

/// What the compiler says of a program in C.
fn said(body: &str, options: &[&str]) -> String {
    let source = fresh_path("unchecked.c");
    fs::write(&source, body).unwrap();
    let mut command = c_compiler().command();
    text(&run(command.args(options).args(["-c", "-o"]).arg(fresh_path("unchecked.o")).arg(&source)))
}

#[test]
fn a_status_that_nobody_looks_at_is_a_warning_unless_the_program_says_so() {
    let body = "#include <arrow_device/arrow_device.h>\n\
                void wait(const struct ardev_array* array);\n\
                void wait(const struct ardev_array* array) { ardev_array_wait(array, NULL); }\n";
    assert!(said(body, &[]).contains("warn_unused_result"), "{}", said(body, &[]));
    assert_eq!(said(body, &["-DARDEV_CHECK="]), "\n");
    let every = Interface::of_header(&support::header());
    let statuses = every.functions.values().filter(|(returned, _)| returned == "int").count();
    assert_eq!(support::header().matches("\nARDEV_CHECK int ardev_").count(), statuses);
}
