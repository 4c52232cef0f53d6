//! Twins in C, for the table of pairs: for each mistake a function that makes it, and one that is
//! the same without it. And what the program says of them on a terminal and under valgrind.

use std::process::Command;

use arrow_device_testkit::required::skip;

use crate::libraries::{ids, library, run};

/// The side, the kind, the function, the rule that it breaks, and what is tried: all that there is
/// where it is empty.
pub(crate) const TWINS: &[[&str; 5]] = &[
    ["producer", "array", "children_go_with_parent", "ARR-12", ""],
    ["producer", "array", "nulls_in_a_field_without", "ARR-17", ""],
    ["producer", "array", "reuses_its_buffer", "ARR-15", ""],
    ["producer", "array", "needs_its_thread", "ARR-13", ""],
    ["producer", "array", "frees_without_waiting", "ARR-10", ""],
    ["producer", "array", "wrong_offsets", "ARR-17", ""],
    ["producer", "array", "wrong_counts", "ARR-17", ""],
    ["producer", "array", "wrong_views", "ARR-17", ""],
    ["producer", "array", "wrong_run_ends", "ARR-17", ""],
    ["producer", "stream", "leaves_the_end_untold", "STR-4", ""],
    ["producer", "stream", "reuses_its_buffer_in_a_stream", "ARR-15", "on the host"],
    ["producer", "stream", "data_goes_with_the_stream", "STR-6", "on the host"],
    ["consumer", "array", "reads_after_the_release", "ARR-18", "goes when it is released"],
    ["consumer", "array", "reads_behind_the_end", "ARR-14", "goes when it is released"],
    ["consumer", "dlpack", "never_deletes", "DLP-6", "a tensor without strides"],
    ["producer", "dlpack", "strides_of_null", "DLP-7", ""],
    ["producer", "dlpack", "constants_that_look_writable", "DLP-12", ""],
    ["producer", "dlpack", "dangling_data", "DLP-10", ""],
    ["producer", "dlpack", "a_copy_that_is_none", "DLP-12", ""],
    ["producer", "dlpack", "an_offset_past_the_end", "DLP-10", ""],
    ["producer", "dlpack", "strides_past_the_end", "DLP-10", ""],
    ["consumer", "async", "leaks_its_handler", "ASY-21", ""],
    ["consumer", "async", "never_releases_its_arrays", "ASY-9", ""],
];

/// The same under valgrind, without which nothing of this is seen.
pub(crate) const UNDER_VALGRIND: &[[&str; 5]] = &[
    ["producer", "dlpack", "an_element_behind_the_allocation", "DLP-10", "a tensor on the host"],
    ["producer", "array", "a_buffer_that_is_too_short", "ARR-17", "one child in two moved out"],
    ["consumer", "array", "reads_a_little_too_far", "ARR-14", "a batch on the host"],
    ["consumer", "dlpack", "reads_a_tensor_that_is_deleted", "DLP-6", "a tensor without strides"],
];

#[test]
fn what_never_comes_is_waited_for_a_minute_at_most() {
    let Some(library) = library("twins") else { return };
    let began = std::time::Instant::now();
    let options = ["--kind", "dlpack", "--json", "-", "--patience", "2"];
    let failed = ids(&run(&library, "consumer", "never_deletes", &options), "fail");
    assert!(failed.iter().any(|id| id == "DLP-6"), "{failed:?}");
    // With the usual patience it is five times as much.
    assert!(began.elapsed().as_secs() < 15, "{:?}", began.elapsed());
}

#[test]
fn on_a_terminal_there_is_progress() {
    let Some(library) = library("twins") else { return };
    let check = env!("CARGO_BIN_EXE_arrow-device-check");
    let line = format!("{check} --producer {}:needs_its_thread_right", library.display());
    let mut command = std::process::Command::new("script");
    let Ok(output) = command.args(["-qec", &line, "/dev/null"]).output() else {
        return skip("script", "there is no `script`");
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("] two arrays at a time"), "{text}");
    // Elsewhere there is none.
    let output = run(&library, "producer", "needs_its_thread_right", &[]);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Whether valgrind is here.
pub(crate) fn has_valgrind() -> bool {
    let has = Command::new("valgrind").arg("--version").output().is_ok();
    if !has {
        skip("valgrind", "there is no valgrind");
    }
    has
}

/// What one finding of valgrind's says: the access, what was going on, where, and whose memory.
#[test]
fn what_valgrind_saw_is_told_with_the_function_and_the_allocation() {
    let (Some(library), true) = (library("twins"), has_valgrind()) else { return };
    let options = ["--kind", "dlpack", "--under", "valgrind"];
    let output = run(&library, "producer", "an_element_behind_the_allocation", &options);
    let text = String::from_utf8_lossy(&output.stdout);
    for words in [
        "FAIL DLP-10",
        "valgrind saw an invalid read of size ",
        "while reading the data twice",
        "0 bytes after a block of size 20 alloc'd by `tensor_on_heap` (twins",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // The same is not seen without.
    let output = run(&library, "producer", "an_element_behind_the_allocation", &options[..2]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn that_there_is_no_valgrind_is_told_with_what_to_do() {
    let Some(library) = library("twins") else { return };
    let peer = format!("{}:leaks_its_handler", library.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_arrow-device-check"));
    command.args(["--producer", &peer, "--under", "valgrind"]);
    let output = command.env("PATH", "/nowhere").output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    let words = ["`valgrind` cannot be started", "install valgrind", "leave out --under"];
    assert!(words.iter().all(|words| told.contains(words)), "{told}");
}
