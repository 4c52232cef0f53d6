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
    assert_eq!(text.lines().count(), output(&["demo"]).lines().count());
    for line in [
        "1. The producer built a record batch of 5 rows in 48 buffers on the host, and told a queue of the software device to",
        "   copy it there. It exported it as one ArrowSchema and one ArrowDeviceArray of device type 12.",
        "   The copy has not run yet: an event goes along.",
        "2. The consumer imported both: nothing copied, nothing read, nothing waited for.",
        "   The structs it took them from are released: true. The data is ready: false.",
        "4. It validated the structure of 18 columns and the data of all 90 values.",
        "root: struct, 5 elements from 0, 0 nulls",
        "  metadata {made by: arrow-device demo}",
        "  tags: list, 5 elements from 0, 1 null",
        "8. The producer imported them, found its own values, and released them.",
        "9. Everything was released once, on the host and on the device: nothing is left alive.",
    ] {
        assert!(text.lines().any(|found| found == line), "`{line}` is not in:\n{text}");
    }
    let last = "   The software device watched all of it and has nothing to report.";
    assert_eq!(text.lines().last(), Some(last));
}

#[test]
fn each_mistake_is_made_and_reported_with_the_line_that_makes_it() {
    let expected = [
        ("wait", "read without order"),
        ("release", "freed while in use"),
        ("write", "write to shared memory"),
    ];
    for (name, report) in expected {
        let text = output(&["--break", name]);
        assert!(text.lines().any(|line| line.starts_with(report)), "{text}");
        assert!(text.contains("mistakes.rs:"), "{text}");
        assert!(text.contains("1 found."), "{text}");
    }
    let refused = arrow_device(&["--break", "dance"]);
    assert_eq!(refused.status.code(), Some(2));
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
