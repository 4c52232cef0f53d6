//! Compares the public items of each published library with the listing in `docs/interface`.
//!
//! A listing has a line for each item that a program can name: its path and its type as rustdoc
//! knows them. Whoever changes a public item changes the listing in the same commit, so that a
//! review shows the change. `ARROW_DEVICE_BLESS=1` in the environment writes the listings.
//!
//! rustdoc describes a crate as JSON in nightly Rust alone. The JSON has a format that changes with
//! nightly Rust; `public_api` reads it.

#![allow(clippy::expect_used, clippy::panic, reason = "a test ends where its tools fail")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is not listed, each with the reason.
const UNLISTED: [(&str, &str); 3] = [
    ("arrow-device-capi", "its interface is the C header, which a test of its own compares"),
    ("arrow-device-cli", "a program"),
    (
        "arrow-device-datafusion",
        "nothing but the traits of DataFusion, which takes minutes to build",
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders up").to_owned()
}

/// The names of the published crates that have a listing, sorted.
fn listed() -> Vec<String> {
    let folders = fs::read_dir(root().join("crates")).expect("the folder of the published crates");
    let mut names: Vec<String> = folders
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| UNLISTED.iter().all(|(unlisted, _)| unlisted != name))
        .collect();
    names.sort();
    names
}

/// The public items of a crate with all its features, a line each.
fn items(name: &str) -> String {
    let target = root().join("target/public-interface");
    let status = Command::new("rustup")
        .args(["run", "nightly", "cargo", "rustdoc", "--quiet", "--lib", "--all-features"])
        .args(["--package", name, "--target-dir"])
        .arg(&target)
        .args(["--", "-Zunstable-options", "--output-format=json", "--cap-lints=allow"])
        .current_dir(root())
        // The compiler of the test is another one than the one that is asked for.
        .env_remove("RUSTC")
        .env_remove("RUSTDOC")
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO_TARGET_DIR")
        .status()
        .expect("rustup can be run");
    assert!(status.success(), "{name} cannot be documented: nightly Rust is needed");
    let json = target.join("doc").join(format!("{}.json", name.replace('-', "_")));
    let items = public_api::Builder::from_rustdoc_json(json)
        // What every type has, and what follows from its fields.
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .unwrap_or_else(|error| panic!("{name}: the JSON of rustdoc cannot be read: {error}"));
    items.to_string()
}

/// The first line in which two texts differ, as both have it.
fn difference<'text>(left: &'text str, right: &'text str) -> Option<(&'text str, &'text str)> {
    let (mut left, mut right) = (left.lines(), right.lines());
    loop {
        match (left.next(), right.next()) {
            (None, None) => return None,
            (one, other) if one == other => {}
            (one, other) => return Some((one.unwrap_or("the end"), other.unwrap_or("the end"))),
        }
    }
}

#[test]
fn the_public_items_of_each_crate_are_those_of_its_listing() {
    let writes = std::env::var_os("ARROW_DEVICE_BLESS").is_some_and(|value| value == "1");
    let mut changed = Vec::new();
    for name in listed() {
        let found = items(&name);
        let path = root().join("docs/interface").join(format!("{name}.txt"));
        if writes {
            fs::write(&path, &found).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        let listing = fs::read_to_string(&path).unwrap_or_default();
        if let Some((listed, found)) = difference(&listing, &found) {
            changed.push(format!("{name}: listed is\n  {listed}\nbut the crate has\n  {found}"));
        }
    }
    assert!(
        changed.is_empty(),
        "public items have changed; if that is meant, ARROW_DEVICE_BLESS=1 writes docs/interface:\n{}",
        changed.join("\n")
    );
}

#[test]
fn each_listing_is_of_a_crate_and_each_exception_is_a_crate() {
    let names = listed();
    for entry in fs::read_dir(root().join("docs/interface")).expect("the folder of the listings") {
        let path = entry.expect("an entry of the folder").path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let of = path.file_stem().expect("a name").to_string_lossy().into_owned();
            assert!(names.contains(&of), "{} is of no crate", path.display());
        }
    }
    for (name, _) in UNLISTED {
        assert!(root().join("crates").join(name).is_dir(), "{name} is no crate");
    }
}

#[test]
fn the_first_different_line_is_named() {
    assert_eq!(difference("a\nb\n", "a\nb\n"), None);
    assert_eq!(difference("a\nb\n", "a\nc\n"), Some(("b", "c")));
    assert_eq!(difference("a\n", "a\nc\n"), Some(("the end", "c")));
}
