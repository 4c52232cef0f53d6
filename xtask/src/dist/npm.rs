//! The package for JavaScript, as npm packs it: made from the copy of the sources, and used from
//! the packed file alone.
//!
//! The package is tried as its user has it: in a folder that has nothing else, `npm install` of the
//! file, the program of the page as it stands, and headless Chromium, which finds the packages by
//! an import map as a page does.

use std::fs;
use std::path::{Path, PathBuf};

use super::{contents, licences, rust};
use crate::shell;

/// The folder of the package.
const PACKAGE: &str = "js";

/// Builds the module and packs it.
pub(super) fn make(source: &Path, work: &Path, folder: &Path) -> Result<(), String> {
    shell::run(&["rustup", "target", "add", "wasm32-unknown-unknown"], &[])?;
    contents::write(source, work, folder, &contents::MODULE)?;
    licences::write_into(source, work, &contents::MODULE, PACKAGE)?;
    let package = source.join(PACKAGE).display().to_string();
    let target = work.join("target-js").display().to_string();
    let out = folder.display().to_string();
    // `prepack` builds.
    let pack = ["npm", "pack", "--silent", "--prefix", &package, "--pack-destination", &out];
    let flags = rust::without_paths(source, &rust::version(source)?);
    let variables = [("CARGO_TARGET_DIR", target.as_str()), ("RUSTFLAGS", flags.as_str())];
    shell::run(&[&pack[..], &[&package]].concat(), &variables)?;
    let packed = packed(folder)?;
    let list = shell::output_of(&["tar", "--list", "--gzip", "--file", &packed]);
    let list = list.ok_or_else(|| format!("{packed} cannot be listed"))?;
    let wanted =
        ["index.js", "index.d.ts", "arrow_device.wasm", "README.md", "LICENSE", licences::FILE];
    let is_there = |file: &&str| list.lines().any(|line| line == format!("package/{file}"));
    let missing = wanted.iter().filter(|file| !is_there(file));
    let problems: Vec<_> = missing.map(|file| format!("{packed} has no {file}")).collect();
    shell::none_of(&problems)
}

/// The package in a folder.
fn packed(folder: &Path) -> Result<String, String> {
    let mut files = super::files_ending(folder, "tgz")?;
    files.retain(|file| file.to_string_lossy().contains("/arrow-device-"));
    match files.as_slice() {
        [file] => Ok(file.display().to_string()),
        files => Err(format!("there are {} packages for npm, and not one", files.len())),
    }
}

/// Installs the package where there is nothing else, with what its page uses, and runs the program
/// of the page in a browser.
pub(super) fn prove(source: &Path, work: &Path, folder: &Path) -> Result<(), String> {
    let user: PathBuf = work.join("npm-user");
    super::empty(&user)?;
    let package = r#"{ "name": "user", "private": true, "type": "module" }"#;
    let manifest = user.join("package.json");
    fs::write(&manifest, package).map_err(|error| shell::said(&manifest, &error))?;
    let (prefix, packed) = (user.display().to_string(), packed(folder)?);
    let install = ["npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"];
    let versions = versions(source)?;
    shell::run(&[&install[..], &["--prefix", &prefix, &packed, &versions]].concat(), &[])?;
    let program = source.join(PACKAGE).join("tests/installed.mjs").display().to_string();
    shell::run(&["node", &program, &prefix], &[])
}

/// The package that the page uses besides, in the version that is tested.
fn versions(source: &Path) -> Result<String, String> {
    let manifest = source.join(PACKAGE).join("package.json");
    let text = fs::read_to_string(&manifest).map_err(|error| shell::said(&manifest, &error))?;
    let line = text.lines().find(|line| line.contains("\"apache-arrow\":"));
    let version = line.and_then(|line| line.rsplit('"').nth(1));
    let version = version.ok_or("js/package.json names no version of apache-arrow")?;
    Ok(format!("apache-arrow@{version}"))
}
