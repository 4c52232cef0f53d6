//! The command as somebody at a terminal meets it.
#![allow(clippy::unwrap_used, missing_docs)]

use std::process::{Command, Output};

fn arrow_device(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_arrow-device")).args(arguments).output().unwrap()
}

fn output(arguments: &[&str]) -> String {
    let output = arrow_device(arguments);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && complaint.is_empty(), "{arguments:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_demonstration_tells_every_step_and_leaves_nothing_alive() {
    let text = output(&[]);
    assert_eq!(text, output(&["demo"]));
    for line in [
        "1. The producer built a record batch of 5 rows in 48 buffers of its own and exported it as one ArrowSchema and one \
         ArrowDeviceArray on device type 1.",
        "2. The consumer imported both without a copy; the structs it took them from are released: true.",
        "3. It validated the structure of 18 columns and the data of all 90 values.",
        "root: struct, 5 elements from 0, 0 nulls",
        "  metadata {made by: arrow-device demo}",
        "  tags: list, 5 elements from 0, 1 null",
        "7. The producer imported them, found its own values from element 1 on in its own memory, and released them.",
    ] {
        assert!(text.lines().any(|found| found == line), "`{line}` is not in:\n{text}");
    }
    let last = "8. Everything was released once: nothing is left alive.";
    assert_eq!(text.lines().last(), Some(last));
}

#[test]
fn the_table_shows_every_type_as_people_read_it() {
    let text = output(&[]);
    for cell in [
        "timestamp[us, Europe/Zurich]",
        "2024-02-29T00:00:00.000000Z[Europe/Zuri… |",
        "Grace Brewster Murray Hopper",
        "-0.05",
        "2024-02-29",
        "1 month 2 days",
        "[\"red\", \"round\"]",
        "{x: 1.5, y: 1.5}",
        "{\"a\": 1, \"b\": 2}",
        "remark: \"broken\"",
        "[5, 6, 7, 8, 9]",
    ] {
        assert!(text.contains(cell), "`{cell}` is not in:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 200), "{text}");
}

#[test]
fn devices_lists_all_fourteen_types() {
    let text = output(&["devices"]);
    for line in [" 1  cpu", " 2  cuda", "12  ext_dev", "16  hexagon", "14 types of device"] {
        assert!(text.lines().any(|found| found == line), "`{line}` is not in:\n{text}");
    }
    assert_eq!(text.lines().filter(|line| line.starts_with("  sync_event")).count(), 14);
}

#[test]
fn help_and_version_are_printed() {
    assert_eq!(output(&["--version"]), format!("arrow-device {}\n", env!("CARGO_PKG_VERSION")));
    let help = output(&["--help"]);
    assert_eq!(help, output(&["-h"]));
    assert!(help.contains("Usage: arrow-device") && help.contains("devices"), "{help}");
}

#[test]
fn what_is_no_command_is_refused_in_one_line() {
    for arguments in [&["frobnicate"][..], &["devices", "x\ny"], &["--what"], &[""]] {
        let output = arrow_device(arguments);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{complaint}");
        assert!(
            complaint.starts_with("arrow-device: `") && complaint.ends_with("them\n"),
            "{complaint}"
        );
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
        assert!(output.stdout.is_empty());
    }
}
