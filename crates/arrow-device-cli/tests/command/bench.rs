//! `arrow-device bench`, as somebody at a terminal meets it.

use crate::support::{Folder, complaint, devices, output, text};

#[test]
fn every_pair_of_devices_is_measured_and_drawn() {
    let mut devices = devices();
    // Simulated hardware is measured on request alone.
    devices.retain(|device| !device.starts_with("vpi"));
    let folder = Folder::new();
    let picture = folder.path("bandwidth.svg");
    let table =
        output(&["bench", "--milliseconds", "0", "--sizes", "64,64KiB", "--svg", text(&picture)]);
    let svg = std::fs::read_to_string(&picture).unwrap();
    for from in &devices {
        for to in &devices {
            let is_row = |line: &str| {
                let words: Vec<&str> = line.split_whitespace().collect();
                words.first() == Some(&from.as_str())
                    && words.get(1) == Some(&to.as_str())
                    && line.ends_with("B/s")
            };
            assert!(table.lines().any(is_row), "{from} to {to} is not in:\n{table}");
            assert!(svg.contains(&format!("<title>{from} → {to}</title>")), "{svg}");
        }
    }
    assert!(table.starts_with("FROM") && table.contains("64 KiB"), "{table}");
    let pairs = devices.len() * devices.len();
    assert_eq!(svg.matches("<polyline").count(), pairs);
    assert_eq!(svg.matches("<circle").count(), 2 * pairs);
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

#[test]
fn the_pairs_of_chosen_devices_are_also_json() {
    let json = output(&[
        "bench",
        "--devices",
        "cpu,ext_dev",
        "--milliseconds",
        "0",
        "--sizes",
        "1KiB",
        "--json",
    ]);
    assert_eq!(json.matches("\"from\":").count(), 4);
    assert_eq!(json.matches("\"bytes\": 1024").count(), 4);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    complaint(&["bench", "--sizes", "4kb"], 2);
    complaint(&["bench", "--devices", "cpu,metal"], 1);
    let unwritable = complaint(
        &[
            "bench",
            "--devices",
            "cpu",
            "--milliseconds",
            "0",
            "--sizes",
            "64",
            "--svg",
            "/nowhere/b.svg",
        ],
        1,
    );
    assert!(unwritable.contains("/nowhere/b.svg"), "{unwritable}");
}
