//! Compiles the C programs of `c/` as C11 and C++17, against `abi.h` and `dlpack_abi.h` alone, and
//! runs them: as they are, under AddressSanitizer, and under valgrind. They print what they check
//! and succeed only where all of it holds.
//!
//! Compilers are `$CC` and `$CXX` (`cc` and `c++` where unset), and clang. A tool that is missing
//! is skipped with a line that says so. Where `ARROW_DEVICE_REQUIRE` names `clang`, `valgrind` or
//! `asan`, or is `all`, or where `CI` is `true`, that tool has to be there.

#![cfg(all(unix, not(miri)))]
// The functions below are the tests' own.
#![allow(clippy::expect_used, clippy::panic)]

use std::env;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arrow_device_testkit::required::skip;

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");
const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/arrow-device-abi/include");
const SANITIZERS: &[&str] = &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

// Requirement: ABI-1, ABI-2, ABI-5, ABI-6, ARR-11, ARR-12, ARR-18
#[test]
fn a_producer_in_c_is_understood() {
    succeeds_everywhere("producer");
}

// Requirement: ABI-1, ABI-5, ABI-6, ARR-11, ARR-12, ARR-13
#[test]
fn a_consumer_in_c_understands() {
    succeeds_everywhere("consumer");
}

// Requirement: STR-1, STR-2, STR-3, STR-5, STR-7
#[test]
fn a_producer_of_streams_in_c_is_understood() {
    succeeds_everywhere("stream_producer");
}

// Requirement: STR-1, STR-3, STR-4, STR-5, STR-6, STR-7
#[test]
fn a_consumer_of_streams_in_c_understands() {
    succeeds_everywhere("stream_consumer");
}

// Requirement: ASY-1, ASY-4, ASY-9, ASY-12, ASY-14, ASY-20
#[test]
fn an_asynchronous_producer_in_c_is_understood() {
    succeeds_everywhere("async_producer");
}

// Requirement: ASY-9, ASY-14
#[test]
fn an_asynchronous_producer_runs_clean_under_address_sanitizer() {
    succeeds_under_address_sanitizer("async_producer");
}

// Requirement: ASY-9, ASY-14
#[test]
fn an_asynchronous_producer_runs_clean_under_valgrind() {
    succeeds_under_valgrind("async_producer");
}

// Requirement: SYS-2
#[test]
fn a_hostile_producer_in_c_is_refused() {
    succeeds_everywhere("hostile");
}

// Requirement: DLP-1, DLP-7, DLP-10, DLP-11
#[test]
fn tensors_from_c_and_for_c_are_understood() {
    succeeds_everywhere("dlpack_producer");
    succeeds_everywhere("dlpack_consumer");
}

// Requirement: DLP-1, DLP-10
#[test]
fn tensors_run_clean_under_address_sanitizer_and_valgrind() {
    for program in ["dlpack_producer", "dlpack_consumer"] {
        succeeds_under_address_sanitizer(program);
        succeeds_under_valgrind(program);
    }
}

// Requirement: ARR-13, ARR-18
#[test]
fn a_producer_and_a_consumer_run_clean_under_address_sanitizer() {
    succeeds_under_address_sanitizer("producer");
    succeeds_under_address_sanitizer("consumer");
}

// Requirement: SYS-2
#[test]
fn a_hostile_producer_does_no_harm_under_address_sanitizer() {
    succeeds_under_address_sanitizer("hostile");
}

// Requirement: ARR-13, ARR-18
#[test]
fn a_producer_and_a_consumer_run_clean_under_valgrind() {
    succeeds_under_valgrind("producer");
    succeeds_under_valgrind("consumer");
}

// Requirement: SYS-2
#[test]
fn a_hostile_producer_does_no_harm_under_valgrind() {
    succeeds_under_valgrind("hostile");
}

// Requirement: STR-6, STR-7
#[test]
fn streams_run_clean_under_address_sanitizer() {
    succeeds_under_address_sanitizer("stream_producer");
    succeeds_under_address_sanitizer("stream_consumer");
}

// Requirement: STR-6, STR-7
#[test]
fn streams_run_clean_under_valgrind() {
    succeeds_under_valgrind("stream_producer");
    succeeds_under_valgrind("stream_consumer");
}

#[test]
fn a_planted_leak_is_found() {
    for program in ["producer", "dlpack_consumer"] {
        fails_under_address_sanitizer(program, "-DPLANT_LEAK", "detected memory leaks");
    }
    fails_under_valgrind("-DPLANT_LEAK", "definitely lost");
}

#[test]
fn a_planted_double_release_is_found() {
    for program in ["producer", "dlpack_producer"] {
        fails_under_address_sanitizer(program, "-DPLANT_DOUBLE_RELEASE", "heap-use-after-free");
    }
    fails_under_valgrind("-DPLANT_DOUBLE_RELEASE", "Invalid read");
}

fn succeeds_everywhere(program: &str) {
    for compiler in compilers() {
        let path = compiler.compile(program, &[]);
        assert_succeeds(&format!("{compiler:?}"), &run(&mut Command::new(path)));
    }
}

fn succeeds_under_address_sanitizer(program: &str) {
    for compiler in compilers().iter().filter(|compiler| compiler.can_sanitize()) {
        let path = compiler.compile(program, SANITIZERS);
        assert_succeeds(&format!("{compiler:?}, sanitized"), &run(&mut Command::new(path)));
    }
}

fn succeeds_under_valgrind(program: &str) {
    let Some(mut valgrind) = valgrind() else { return };
    let output = run(valgrind.arg(c_compiler().compile(program, &[])));
    assert_succeeds("valgrind", &output);
}

fn fails_under_address_sanitizer(program: &str, plant: &str, report: &str) {
    for compiler in compilers().iter().filter(|compiler| compiler.can_sanitize()) {
        let path = compiler.compile(program, &[SANITIZERS, &[plant]].concat());
        assert_fails(&format!("{compiler:?}"), report, &run(&mut Command::new(path)));
    }
}

fn fails_under_valgrind(plant: &str, report: &str) {
    let Some(mut valgrind) = valgrind() else { return };
    let output = run(valgrind.arg(c_compiler().compile("producer", &[plant])));
    assert_fails("valgrind", report, &output);
}

fn assert_succeeds(how: &str, output: &Output) {
    let text = text(output);
    assert!(output.status.success(), "{how}: {}\n{text}", output.status);
    assert!(text.contains("\n0 checks do not hold\n"), "{how}: it did not reach its end:\n{text}");
}

fn assert_fails(how: &str, report: &str, output: &Output) {
    let text = text(output);
    assert!(!output.status.success(), "{how} finds nothing:\n{text}");
    assert!(text.contains(report), "{how} finds something else:\n{text}");
}

fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}\n{err}")
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

#[derive(Debug)]
struct Compiler {
    program: OsString,
    options: &'static [&'static str],
}

fn c(program: impl Into<OsString>) -> Compiler {
    Compiler { program: program.into(), options: &["-std=c11"] }
}

fn cpp(program: impl Into<OsString>) -> Compiler {
    Compiler { program: program.into(), options: &["-x", "c++", "-std=c++17"] }
}

fn c_compiler() -> Compiler {
    c(env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

fn compilers() -> Vec<Compiler> {
    let mut compilers = vec![c_compiler(), cpp(env::var_os("CXX").unwrap_or_else(|| "c++".into()))];
    for clang in [c("clang"), cpp("clang++")] {
        if is_installed(&clang.program) {
            compilers.push(clang);
        } else {
            skip("clang", &format!("{} not found", clang.program.display()));
        }
    }
    compilers
}

impl Compiler {
    /// Compiles a program and links it to the library. Nothing may be said about it.
    fn compile(&self, program: &str, options: &[&str]) -> PathBuf {
        let source = Path::new(FOLDER).join("c").join(program).with_extension("c");
        let path = fresh_path(program);
        let output = run(self
            .command(&path, options)
            .arg(source)
            .args(["-x", "none"])
            .arg(library())
            .arg(format!("-Wl,-rpath,{}", library_folder().display())));
        assert!(output.status.success(), "{self:?} refuses {program}:\n{}", text(&output));
        assert_eq!(text(&output), "\n", "{self:?} has something to say about {program}");
        path
    }

    /// Whether programs can be compiled with AddressSanitizer and start.
    fn can_sanitize(&self) -> bool {
        let (source, path) = (fresh_path("empty.c"), fresh_path("empty"));
        std::fs::write(&source, "int main(void) { return 0; }\n").expect("the folder is writable");
        let compiled = run(self.command(&path, SANITIZERS).arg(&source)).status.success();
        let can = compiled && run(&mut Command::new(&path)).status.success();
        if !can {
            skip("asan", &format!("{} has no AddressSanitizer", self.program.display()));
        }
        can
    }

    fn command(&self, path: &Path, options: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(self.options)
            .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", "-pthread"])
            .arg("-I")
            .arg(INCLUDE)
            .args(options)
            .arg("-o")
            .arg(path);
        command
    }
}

fn valgrind() -> Option<Command> {
    if !is_installed(&"valgrind".into()) {
        skip("valgrind", "valgrind not found");
        return None;
    }
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--leak-check=full", "--errors-for-leak-kinds=definite,possible"]);
    command.arg("--error-exitcode=9");
    Some(command)
}

fn is_installed(program: &OsString) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Where cargo puts this package's library: beside the tests that it builds it for.
fn library_folder() -> PathBuf {
    let test = env::current_exe().expect("a test has a path");
    test.parent().expect("a test is in a folder").to_owned()
}

fn library() -> PathBuf {
    library_folder().join(format!("{DLL_PREFIX}c_programs{DLL_SUFFIX}"))
}

/// A path that no other test uses.
fn fresh_path(name: &str) -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Relaxed);
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{number}-{name}"))
}
