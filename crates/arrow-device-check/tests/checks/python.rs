//! Peers in Python: what the released wheels of pyarrow and nanoarrow make and take, and objects
//! with one thing wrong.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use arrow_device_testkit::required::skip;
use foreign_peers::arrow_cpp::arrow_cpp;
use foreign_peers::build;

/// The Python that has the wheel.
pub(crate) fn python(wheel: &str) -> Option<PathBuf> {
    if build::wheel(wheel).is_none() {
        let setup = "`cargo xtask test --setup` installs it";
        skip(wheel, &format!("the wheel of {wheel} is not there: {setup}"));
        return None;
    }
    Some(build::folder().join("venv/bin/python"))
}

fn run(python: &Path, function: &str, side: &str, kind: &str) -> Output {
    run_some(python, function, side, kind, "")
}

/// What has this in its name.
fn run_some(python: &Path, function: &str, side: &str, kind: &str, scenario: &str) -> Output {
    let peer = format!("python_peers:{function}");
    command(python, &peer, side, kind, scenario).output().unwrap()
}

pub(crate) fn command(
    python: &Path,
    peer: &str,
    side: &str,
    kind: &str,
    scenario: &str,
) -> Command {
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers");
    let mut command = Command::new(env!("CARGO_BIN_EXE_arrow-device-check"));
    command
        .args(["--python", peer, "--as", side, "--kind", kind, "--json", "-", "--limit", "120"])
        .args(["--scenario", scenario])
        .arg("--python-program")
        .arg(python)
        .env("PYTHONPATH", peers)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // The allocator of the C library, whose books are looked at.
        .env("ARROW_DEFAULT_MEMORY_POOL", "system");
    command
}

#[test]
fn the_library_that_a_flag_names_is_the_one_that_is_loaded() {
    let Some(python) = python("pyarrow") else { return };
    let name = format!("{DLL_PREFIX}arrow_device_check{DLL_SUFFIX}");
    let program = Path::new(env!("CARGO_BIN_EXE_arrow-device-check"));
    let places = ["", "deps"].map(|folder| program.with_file_name(folder).join(&name));
    let library = places.iter().find(|path| path.exists()).unwrap();
    let tried = |flag: &[&str]| {
        let mut command = command(&python, "python_peers:numbers", "producer", "array", "");
        command.env("ARROW_DEVICE_CHECK_LIBRARY", "/proc/nowhere").args(flag).output().unwrap()
    };
    let output = tried(&["--check-library", library.to_str().unwrap()]);
    assert_eq!(ids(&output, "fail"), ["ABI-5"]);
    assert_eq!(tried(&[]).status.code(), Some(2), "the variable names nothing");
}

/// The ids that the JSON names with this verdict.
fn ids(output: &Output, verdict: &str) -> Vec<String> {
    let json = String::from_utf8_lossy(&output.stdout);
    assert!(json.starts_with('{'), "{json}{}", String::from_utf8_lossy(&output.stderr));
    let with = format!("\", \"verdict\": \"{verdict}\"");
    let lines = json.lines().filter(|line| line.contains(&with));
    lines.map(|line| line.split('"').nth(3).unwrap().to_owned()).collect()
}

#[track_caller]
fn assert_fails(python: &Path, function: &str, side: &str, kind: &str, expected: &[&str]) {
    let output = run(python, function, side, kind);
    let failed = ids(&output, "fail");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(failed, expected, "{function}: {text}");
    println!("{function}: {failed:?}");
}

#[test]
fn what_pyarrow_makes_is_right_but_for_the_members_that_it_does_not_write() {
    let Some(python) = python("pyarrow") else { return };
    // It leaves `reserved` as it finds it. Memory that the checker has filled shows that each time.
    for function in ["numbers", "batch", "slice_with_nulls"] {
        assert_fails(&python, function, "producer", "array", &["ABI-5"]);
    }
    assert_fails(&python, "reader", "producer", "stream", &[]);
    assert_fails(&python, "chunked", "producer", "stream", &[]);
    assert_fails(&python, "tensor", "producer", "dlpack", &[]);
    assert_fails(&python, "tensor", "producer", "dlpack-legacy", &[]);
}

#[test]
fn the_known_faults_of_the_pyarrow_wheel_are_found() {
    let Some(python) = python("pyarrow") else { return };
    let output = run(&python, "relay_array", "relay", "array");
    println!("{}", String::from_utf8_lossy(&output.stdout));
    let failed = ids(&output, "fail");
    for expected in ["ABI-5", "SYS-2"] {
        assert!(failed.iter().any(|id| id == expected), "{failed:?} has no {expected}");
    }
    for (function, is_found) in [("take_as_int32", true), ("take_and_cast", false)] {
        let output = run_some(&python, function, "consumer", "array", "protocol");
        let text = String::from_utf8_lossy(&output.stdout);
        let failed = ids(&output, "fail");
        assert_eq!(failed.iter().any(|id| id == "PYC-5"), is_found, "{function}: {text}");
        let is_told = text.contains("AttributeError") && text.contains("cast");
        assert_eq!(is_told, is_found, "{function}: {text}");
    }
}

#[test]
fn that_the_pyarrow_wheel_crashes_over_tensors_is_found() {
    let Some(python) = python("pyarrow") else { return };
    for name in ["a tensor of no dimensions", "a tensor without rows"] {
        let output = run_some(&python, "take_tensor", "consumer", "dlpack", name);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(ids(&output, "fail"), ["DLP-7"], "{text}");
        assert!(text.contains(&format!("ended the process while given {name}")), "{text}");
    }
}

#[test]
fn the_known_faults_of_the_pyarrow_wheel_on_a_device_are_found() {
    let Some(python) = python("pyarrow") else { return };
    let Some(library) = arrow_cpp().map(|cpp| cpp.path().to_owned()) else { return };
    let numbers = "a batch of numbers on a device";
    for (function, scenario, id, words) in [
        ("relay_array", numbers, "ARR-5", "the event is lost"),
        ("relay_batch", numbers, "ARR-5", "the event is lost"),
        ("relay_array", "a batch on a device", "ARR-5", "read without order"),
        ("relay_array", "nulls nobody has counted", "ARR-2", "ended the process while handing on"),
        (
            "relay_array",
            "some of whose buffers are null",
            "SYS-1",
            "because they have no bytes, was refused",
        ),
    ] {
        let peer = format!("python_devices:{function}");
        let mut command = command(&python, &peer, "relay", "array", scenario);
        let output = command.env("ARROW_DEVICE_CHECK_TEST_LIBRARY", &library).output().unwrap();
        let (text, failed) = (String::from_utf8_lossy(&output.stdout), ids(&output, "fail"));
        assert!(
            failed.iter().any(|found| found == id) && text.contains(words),
            "{function}: {text}"
        );
        println!("{function}: {failed:?}");
    }
}

/// As `take_batch` of pyarrow has it, which is no mistake.
#[test]
fn who_takes_record_batches_alone_is_found_out_and_not_blamed() {
    let Some(python) = python("pyarrow") else { return };
    for name in ["the protocol of the language", "a batch on the host", "arrays of every type"] {
        let output = run_some(&python, "take_batch", "consumer", "array", name);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(ids(&output, "fail"), Vec::<String>::new(), "{name}: {text}");
    }
    // Whoever says that it takes any array is held to it.
    let peer = "python_peers:take_batch";
    let mut command = command(&python, peer, "consumer", "array", "the protocol of the language");
    let output = command.args(["--shape", "any"]).output().unwrap();
    assert_eq!(ids(&output, "fail"), ["PYC-6"]);
    // The name and the flags of a batch are nobody's; it does not write `reserved`.
    let output = run_some(&python, "relay_batch", "relay", "array", "a batch on the host that is");
    assert_eq!(ids(&output, "fail"), ["ABI-5"], "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn an_exception_is_in_the_report_with_the_lines_that_it_came_through() {
    let Some(python) = python("pyarrow") else { return };
    let output = run_some(&python, "raises_far_below", "producer", "array", "an array on the host");
    assert_eq!(ids(&output, "fail"), ["PEER"]);
    let text = String::from_utf8_lossy(&output.stdout);
    for words in ["in raises_far_below", "in deep", "RuntimeError: the pump is dry"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("in put_array"), "{text}");
}

#[test]
fn numpy_is_not_blamed_for_what_it_may_do() {
    let Some(python) = python("numpy") else { return };
    // Read-only data is not for the older form, which cannot say so.
    assert_fails(&python, "read_only_tensor", "producer", "dlpack", &[]);
    // Its refusal is on its way when the capsule dies, whose deleter is the checker's to call.
    for name in ["a tensor of a major version to come", "a negative number of dimensions"] {
        let output = run_some(&python, "take_with_numpy", "consumer", "dlpack", name);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(ids(&output, "fail"), Vec::<String>::new(), "{name}: {text}");
    }
}

#[test]
fn the_known_faults_of_the_nanoarrow_wheel_are_found() {
    let Some(python) = python("nanoarrow") else { return };
    let output = run_some(&python, "nanoarrow_array", "producer", "array", "protocol");
    println!("{}", String::from_utf8_lossy(&output.stdout));
    let failed = ids(&output, "fail");
    for expected in ["PYC-3", "PYC-5"] {
        assert!(failed.iter().any(|id| id == expected), "{failed:?} has no {expected}");
    }
    let output = run_some(&python, "nanoarrow_resolves_metal", "producer", "array", "on the host");
    assert_eq!(ids(&output, "fail"), ["PEER"]);
    let every = "arrays of every type of device";
    let output = run_some(&python, "nanoarrow_take", "consumer", "array", every);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("while consuming an array of type of device 8,"), "{text}");
    assert_eq!(ids(&output, "fail"), ["ABI-2"], "{text}");
}

#[test]
fn a_tensor_of_numpys_with_an_element_too_many_is_found_under_valgrind() {
    let Some(python) = python("numpy") else { return };
    if Command::new("valgrind").arg("--version").output().is_err() {
        return skip("valgrind", "there is no valgrind");
    }
    for (function, expected) in [("OneTooMany", &["DLP-10"][..]), ("AsManyAsThereAre", &[])] {
        let peer = format!("python_peers:{function}");
        let mut command = command(&python, &peer, "producer", "dlpack", "a tensor on the host");
        let output = command.args(["--under", "valgrind"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(ids(&output, "fail"), expected, "{text}");
        assert_eq!(text.contains("after a block of size"), !expected.is_empty(), "{text}");
    }
}
