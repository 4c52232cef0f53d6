//! Peers in C, in shared libraries: those who are right pass, and each mistake is found under its
//! id. The program is run as users run it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The library of a source in `peers/`; `None`, with a reason printed, where there is no compiler.
pub(crate) fn library(name: &str) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    if Command::new(&compiler).arg("--version").output().is_err() {
        let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!is_ci, "a C compiler is required");
        println!("skipped: there is no C compiler");
        return None;
    }
    // Tests compile at the same time.
    let name_here = format!("{name}-{}-{:?}.so", std::process::id(), std::thread::current().id());
    let name_here = name_here.replace(['(', ')'], "");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name_here);
    let compiled = Command::new(&compiler)
        .args([
            "-std=c11",
            "-D_POSIX_C_SOURCE=200809L",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-g",
            "-fPIC",
            "-shared",
            "-pthread",
            "-I",
        ])
        .arg(here.join("include"))
        .arg("-I")
        .arg(here.join("../arrow-device-abi/include"))
        .arg(here.join(format!("tests/peers/{name}.c")))
        .arg("-o")
        .arg(&library)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Some(library)
}

pub(crate) fn run(library: &Path, side: &str, function: &str, more: &[&str]) -> Output {
    let peer = format!("{}:{function}", library.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_arrow-device-check"));
    command.arg(format!("--{side}")).arg(peer).args(more);
    if !more.contains(&"--limit") {
        command.args(["--limit", "120"]);
    }
    command.output().unwrap()
}

/// The ids that the JSON names with this verdict.
pub(crate) fn ids(output: &Output, verdict: &str) -> Vec<String> {
    let json = String::from_utf8_lossy(&output.stdout);
    let with = format!("\", \"verdict\": \"{verdict}\"");
    let lines = json.lines().filter(|line| line.contains(&with));
    lines.map(|line| line.split('"').nth(3).unwrap().to_owned()).collect()
}

#[test]
fn those_who_are_right_pass() {
    let Some(library) = library("right") else { return };
    for (side, function, kind) in [
        ("producer", "produce", "array"),
        ("consumer", "consume", "array"),
        ("producer", "produce_stream", "stream"),
        ("producer", "produce_tensor", "dlpack"),
    ] {
        let output = run(&library, side, function, &["--kind", kind]);
        let text = String::from_utf8_lossy(&output.stdout);
        let is_right = function == "consume" || output.status.success();
        assert!(is_right, "{function}: {text}\n{}", String::from_utf8_lossy(&output.stderr));
        println!("{text}");
    }
}

/// This consumer knows numbers alone, and says so of a batch: what it is shown first.
#[test]
fn a_consumer_that_knows_few_types_is_told_so_and_nothing_else() {
    let Some(library) = library("right") else { return };
    let output = run(&library, "consumer", "consume", &["--json", "-"]);
    assert_eq!(ids(&output, "fail"), ["SYS-1"]);
    let output = run(&library, "consumer", "consume", &["--allow", "SYS-1"]);
    assert!(output.status.success());
}

/// What goes wrong with some data alone is told apart from what goes wrong with all.
#[test]
fn mistakes_with_some_data_on_a_device_are_found_with_that_alone() {
    let Some(library) = library("wrong") else { return };
    let numbers = "a batch of numbers on a device";
    for (function, name) in [
        ("counts_nulls", "a batch on a device whose nulls nobody has counted"),
        ("reads_offsets_early", "a batch on a device"),
    ] {
        for (name, is_found) in [(name, true), (numbers, false)] {
            let options = ["--json", "-", "--scenario", name];
            let output = run(&library, "consumer", function, &options);
            let failed = ids(&output, "fail");
            let found = failed.iter().any(|id| id == "ARR-2");
            assert_eq!(found, is_found, "{function}, {name}: {failed:?}");
        }
    }
}

#[test]
fn a_peer_that_hangs_is_stopped_and_told() {
    let Some(library) = library("wrong") else { return };
    let output = run(&library, "producer", "hangs", &["--limit", "1"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("FAIL PEER") && text.contains("stopped after 1 seconds"), "{text}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_peer_that_writes_without_end_is_stopped_before_its_time_is_over() {
    let Some(library) = library("wrong") else { return };
    let output = run(&library, "producer", "writes_without_end", &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("FAIL PEER") && text.contains("written more than 64 MiB"), "{text}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn limits_without_an_end_are_limits() {
    let Some(library) = library("right") else { return };
    let most = u64::MAX.to_string();
    let output = run(&library, "producer", "produce", &["--limit", &most, "--patience", &most]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn reports_are_readable_by_programs() {
    let Some(library) = library("wrong") else { return };
    let output = run(&library, "producer", "aborts", &["--junit", "-"]);
    let junit = String::from_utf8(output.stdout).unwrap();
    assert!(junit.contains("assertion failed: somewhere") && junit.contains("SIGABRT"), "{junit}");
    let output = run(&library, "producer", "aborts", &["--json", "-"]);
    let json = String::from_utf8(output.stdout).unwrap();
    // Other programs read them, where there are such.
    for (program, code, text) in [
        ("python3", "import json, sys; json.load(sys.stdin)['rules'][0]['id']", &json),
        ("python3", "import sys, xml.dom.minidom as d; d.parse(sys.stdin.buffer)", &junit),
    ] {
        use std::io::Write;
        let mut command = Command::new(program);
        command.args(["-c", code]).stdin(std::process::Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            println!("skipped: there is no {program}");
            return;
        };
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{text}");
    }
}

#[test]
fn what_is_not_there_is_told_and_so_is_what_cannot_be() {
    let Some(library) = library("right") else { return };
    let output = run(&library, "producer", "nothing_of_this_name", &[]);
    let text = String::from_utf8_lossy(&output.stderr);
    let told = format!("{}: the library has no function `nothing_of_this_name`", library.display());
    assert!(text.contains(&told) && text.contains("name another ("), "{text}");
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty() && text.lines().count() == 1, "{text}");
    let output = run(&library, "relay", "produce", &["--kind", "dlpack"]);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let nobody = Command::new(env!("CARGO_BIN_EXE_arrow-device-check")).output().unwrap();
    let usage = String::from_utf8_lossy(&nobody.stderr);
    assert!(usage.contains("--python <MODULE:FUNCTION>"), "{usage}");
    assert_eq!(nobody.status.code(), Some(2));
    let text = told;
    assert!(text.contains("there are no relays of kind `dlpack`"), "{text}");
}

#[test]
fn what_cannot_be_done_is_told_in_one_line_that_says_what_to_do() {
    let Some(library) = library("right") else { return };
    let mine = format!("{}:produce", library.display());
    let mine = ["--producer", mine.as_str()];
    let python = ["--python", "python_peers:numbers"];
    let folder = env!("CARGO_TARGET_TMPDIR");
    let python_path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers");
    let no_library = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml:f").to_owned();
    for (peer, more, words) in [
        (
            mine,
            ["--json", "/nowhere/r.json"],
            ["/nowhere/r.json", "there is no folder /nowhere", "name a file"],
        ),
        (
            mine,
            ["--junit", "/proc/r.xml"],
            ["cannot be written to /proc/r.xml", ": ", "name a file"],
        ),
        (mine, ["--json", folder], [folder, "it is a folder", "name a file"]),
        (mine, ["--scenario", "tea"], ["`tea`", "name one of", "an array on a device"]),
        (mine, ["--allow", "ARR-999"], ["`ARR-999` is no rule", "docs/check.md", ""]),
        (["--producer", "./nowhere.so:f"], ["--kind", "array"], ["./nowhere.so", "build it", ""]),
        (
            ["--producer", "nowhere.so:f"],
            ["--kind", "array"],
            ["the library nowhere.so cannot be loaded", "build it", "where it is ("],
        ),
        (
            ["--producer", no_library.as_str()],
            ["--kind", "array"],
            ["Cargo.toml cannot be loaded", "build it for this machine", "("],
        ),
        (
            ["--python", "no.such.module:f"],
            ["--kind", "array"],
            ["finds no module `no`", "PYTHONPATH", "--python-program"],
        ),
        (
            ["--python", "json:no_such_function"],
            ["--kind", "array"],
            ["the module `json` has no `no_such_function`", "name a function", "("],
        ),
        (
            ["--python", "json:__name__"],
            ["--kind", "array"],
            ["`__name__` of the module `json` is a str", "name a function", ""],
        ),
        // A module whose import fails is not there either.
        (
            ["--python", "python_broken:f"],
            ["--kind", "stream"],
            ["`python_broken` cannot be imported", "mend that", "ZeroDivisionError"],
        ),
        (
            python,
            ["--python-program", "true"],
            ["`true` tried nothing", "the process ended with code 0", "install Python 3"],
        ),
        (
            ["--producer", "nowhere"],
            ["--kind", "array"],
            ["`nowhere`", "`library.so:function`", ""],
        ),
        (
            python,
            ["--python-program", "nopython"],
            ["`nopython` cannot be started", "install Python 3", "--python-program"],
        ),
        (python, ["--as", "nobody"], ["`nobody`", "producer, consumer nor relay", ""]),
        (python, ["--kind", "async"], ["Python has no asynchronous streams", "--kind", ""]),
        (
            python,
            ["--check-library", "/proc/nowhere"],
            ["--check-library names /proc/nowhere", "which is not there", "name its lib"],
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_arrow-device-check"));
        let output = command.args(peer).args(more).env("PYTHONPATH", python_path).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{more:?}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(words.iter().all(|words| told.contains(words)), "{words:?}: {told}");
        assert!(output.stdout.is_empty(), "{more:?}");
        print!("{told}");
    }
    for (variable, words) in [
        ("TMPDIR", ["/proc/nowhere/arrow-device-check-", "set TMPDIR to a folder"]),
        ("ARROW_DEVICE_CHECK_LIBRARY", ["names /proc/nowhere", "which is not there"]),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_arrow-device-check"));
        let output = command.args(python).env(variable, "/proc/nowhere").output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{variable}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(words.iter().all(|words| told.contains(words)), "{words:?}: {told}");
        print!("{told}");
    }
}

#[test]
fn the_page_shows_the_example_as_it_is_and_what_is_said_of_it() {
    let page = include_str!("../../../../docs/check.md");
    assert!(page.contains(include_str!("../peers/example.c")));
    let Some(library) = library("example") else { return };
    let output = run(&library, "producer", "my_produce", &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    let told = text.lines().filter(|line| line.starts_with("FAIL") || line.starts_with("  do:"));
    for line in told {
        assert!(page.contains(line), "{line}");
    }
    assert!(text.contains("FAIL ABI-5"), "{text}");
}

#[test]
fn the_lines_for_other_peoples_ci_do_what_the_page_says() {
    let page = include_str!("../../../../docs/check.md");
    let (_, part) = page.split_once("## In your CI\n").unwrap();
    let (_, lines) = part.split_once("```sh\n").unwrap();
    let lines = lines.split_once("```").unwrap().0;
    assert_eq!(lines.lines().count(), 5);
    // Nothing is downloaded here: the program and the headers are there.
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lines: Vec<&str> = lines.lines().filter(|line| !line.contains("git.example")).collect();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("their-ci");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(here.join("tests/peers/example.c"), folder.join("mine.c")).unwrap();
    for header in ["abi.h", "dlpack_abi.h"] {
        let from = here.join("../arrow-device-abi/include/arrow_device").join(header);
        std::fs::copy(from, folder.join(header)).unwrap();
    }
    std::fs::copy(here.join("include/arrow_device/check.h"), folder.join("check.h")).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_arrow-device-check")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-ec", &lines.join("\n")]).current_dir(&folder).env("PATH", path);
    let output = command.output().unwrap();
    // The example breaks a rule.
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let junit = std::fs::read_to_string(folder.join("check.xml")).unwrap();
    assert!(junit.contains("<failure message") && junit.contains("ABI-5"), "{junit}");
}
