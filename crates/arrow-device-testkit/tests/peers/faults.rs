//! The table of known faults names things that exist.

use std::fs;
use std::path::Path;

use arrow_device_testkit::suite::Check;
use arrow_device_testkit::{hostile, wrong};

/// The test files of this name in a folder, and in the folders of its test programs.
fn sources(folder: &Path, name: &str) -> Vec<String> {
    let programs = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let folders = programs.filter(|path| path.is_dir()).chain([folder.to_owned()]);
    let files = folders.map(|folder| folder.join(name).with_extension("rs"));
    files.filter_map(|file| fs::read_to_string(file).ok()).collect()
}

/// Whether a name in the table names something.
fn is_there(found_by: &str, hostile: &[String], wrong: &[&str]) -> bool {
    let Some((what, name)) = found_by.split_once(' ') else { return false };
    match what {
        "hostile" => hostile.iter().any(|known| known.starts_with(name)),
        "wrong" => wrong.iter().any(|known| known.starts_with(name)),
        "suite" => Check::ALL.iter().any(|check| check.name() == name),
        "test" => {
            let Some((file, function)) = name.split_once("::") else { return false };
            let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
            ["arrow-device/tests", "arrow-device-testkit/tests"].iter().any(|tests| {
                sources(&crates.join(tests), file)
                    .iter()
                    .any(|text| text.contains(&format!("#[test]\nfn {function}()")))
            })
        }
        _ => false,
    }
}

#[test]
fn whatever_finds_a_known_fault_exists() {
    let table = include_str!("../../src/faults.md");
    let hostile: Vec<String> = hostile::all().into_iter().map(|hostile| hostile.name).collect();
    let wrong: Vec<&str> = wrong::all().into_iter().map(|wrong| wrong.name).collect();
    let mut rows = 0;
    for row in table.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let found_by = row.trim_end_matches('|').rsplit_once('|').unwrap().1;
        let names: Vec<&str> = found_by.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "{row}");
        for name in names {
            assert!(is_there(name, &hostile, &wrong), "there is no `{name}`");
        }
        rows += 1;
    }
    assert_eq!(rows, 48);
    assert!(!is_there("hostile array of nobody", &hostile, &wrong));
    assert!(!is_there("test uses::nobody", &hostile, &wrong));
}
