//! The page `docs/peers.md` has no line that no test writes.

use std::fs;
use std::path::{Path, PathBuf};

use foreign_peers::{arrow_rs, build, table};

/// What is in a folder.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path())
}

#[test]
fn every_line_of_the_page_names_a_test_that_there_is() {
    let tests: Vec<String> = entries(&build::here("tests"))
        .flat_map(|program| entries(&program))
        .map(|file| fs::read_to_string(file).unwrap())
        .collect();
    let named = table::tests_named();
    assert!(named.len() > 10, "the page is nearly empty");
    for name in named {
        let head = format!("fn {name}()");
        assert!(tests.iter().any(|test| test.contains(&head)), "no test is called {name}");
    }
}

#[test]
fn the_page_names_the_versions_that_are_pinned() {
    let page = fs::read_to_string(build::here("../../docs/peers.md")).unwrap();
    let pinned = [("Arrow C++", "pyarrow"), ("nanoarrow", "nanoarrow")]
        .map(|(name, package)| (name, format!("{name} {}", build::version(package))));
    for (name, version) in pinned.into_iter().chain([("arrow-rs", arrow_rs::name())]) {
        let (good, other) = (format!("| {version} |"), format!("| {name} "));
        let mut lines = page.lines().filter(|line| line.starts_with(&other));
        assert!(lines.all(|line| line.starts_with(&good)), "another version of {name}");
    }
}
