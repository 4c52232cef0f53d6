//! What a compiled artefact is made of: each crate with its version and licence, as a CycloneDX
//! list beside the artefact, and in wheels.

use std::fs;
use std::path::{Path, PathBuf};

use crate::shell;

/// What writes the lists. Pinned, so that two runs make the same bytes.
const TOOL: (&str, &str) = ("cargo-cyclonedx", "0.5.9");
/// The name of each list until it is put beside its artefact.
const LIST: &str = "contents-of-artefact";

/// A compiled artefact: its package's folder, its features, the name of its list, and what it is
/// compiled for, if not for this machine.
pub(super) struct Artefact {
    pub(super) folder: &'static str,
    pub(super) features: &'static str,
    pub(super) list: &'static str,
    pub(super) target: Option<&'static str>,
}

pub(super) const LIBRARY: Artefact = Artefact {
    folder: "crates/arrow-device-capi",
    features: super::c::FEATURES,
    list: "arrow-device-c.cdx.json",
    target: None,
};
pub(super) const WHEEL: Artefact =
    Artefact { folder: "python", features: "", list: "arrow_device-python.cdx.json", target: None };
/// The command, which has the checker in it.
pub(super) const CHECKER: Artefact = Artefact {
    folder: "crates/arrow-device-cli",
    features: "check",
    list: "arrow_device_check-python.cdx.json",
    target: None,
};
/// The module of the package for JavaScript, which web pages load.
pub(super) const MODULE: Artefact = Artefact {
    folder: "js/module",
    features: "",
    list: "arrow-device-js.cdx.json",
    target: Some("wasm32-unknown-unknown"),
};

/// Installs a program of cargo's registry, and returns where the program is.
pub(super) fn tool(
    work: &Path,
    (name, version): (&str, &str),
    features: &[&str],
) -> Result<String, String> {
    let tools = work.join("cargo-tools");
    let root = tools.display().to_string();
    let install = ["cargo", "install", "--quiet", "--locked", "--root", &root, name];
    shell::run(&[&install[..], &["--version", version], features].concat(), &[])?;
    Ok(tools.join("bin").join(name).display().to_string())
}

/// Writes the list of an artefact into the folder of what is released, and returns the file.
pub(super) fn write(
    source: &Path,
    work: &Path,
    folder: &Path,
    artefact: &Artefact,
) -> Result<PathBuf, String> {
    let program = tool(work, TOOL, &[])?;
    let package = source.join(artefact.folder);
    let manifest = package.join("Cargo.toml").display().to_string();
    let words = [program.as_str(), "cyclonedx", "--manifest-path", &manifest, "--format", "json"];
    let which = ["--spec-version", "1.5", "--no-build-deps", "--override-filename", LIST];
    let features = ["--features", artefact.features];
    let target = artefact.target.map(|target| ["--target", target]);
    let variables = [("SOURCE_DATE_EPOCH", "0")];
    let target = target.as_ref().map_or(&[][..], |words| words);
    shell::run(&[&words[..], &which, &features, target].concat(), &variables)?;
    let written = package.join(format!("{LIST}.json"));
    let text = fs::read_to_string(&written).map_err(|error| shell::said(&written, &error))?;
    // The tool writes a list for each crate of a workspace, and packages of sources have all files.
    let lists = format!("{LIST}.json");
    let all = source.display().to_string();
    shell::run(&["find", &all, "-name", &lists, "-delete"], &[])?;
    // The tool names crates of a checkout by where the checkout lies.
    let here = format!("{}/", source.display());
    let text = text.replace(&format!("path+file://{here}"), "arrow-device/").replace(&here, "");
    if text.contains(&*source.to_string_lossy()) {
        return Err(format!("{} names a path of this machine", artefact.list));
    }
    if !text.contains("\"arrow-device-abi\"") {
        return Err(format!("{} has not all crates", artefact.list));
    }
    let to = folder.join(artefact.list);
    fs::write(&to, text).map_err(|error| shell::said(&to, &error))?;
    Ok(to)
}
