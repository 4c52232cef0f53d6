//! `cargo xtask browser`: builds the package for JavaScript, and runs its tests in headless
//! Chromium.
//!
//! The packages of npm that the tests use are in `js/node_modules`, in the versions of
//! `js/package-lock.json`.

use crate::{peers, shell};

/// The folder of the package.
const FOLDER: &str = "js";

/// Whether what the tests use was installed after the list of its versions was changed last.
pub(crate) fn has_packages() -> bool {
    let changed = |file: &str| {
        let data = std::fs::metadata(shell::root().join(FOLDER).join(file));
        data.and_then(|data| data.modified()).ok()
    };
    let installed = changed("node_modules/.package-lock.json");
    installed.is_some() && installed >= changed("package-lock.json")
}

/// Installs it: 38 MB.
pub(crate) fn install_packages() -> Result<(), String> {
    shell::run(&["npm", "ci", "--prefix", FOLDER, "--silent", "--ignore-scripts"], &[])
}

/// Builds the module and runs the tests.
pub(crate) fn test() -> Result<(), String> {
    let target = "--target=wasm32-unknown-unknown";
    let clippy = ["cargo", "clippy", "--package=js-module", target, "--", "--deny=warnings"];
    shell::run(&clippy, &[])?;
    shell::run(&["node", "js/build.mjs"], &[])?;
    let python = peers::environment_python().display().to_string();
    shell::run(&["node", "js/tests/run.mjs"], &[("ARROW_DEVICE_PYTHON", &python)])
}
