//! The other implementations that `cargo xtask test --setup` installs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::required::skip;

/// The folder of the other implementations: the one that `ARROW_DEVICE_PEERS` names, or
/// `target/peers` of the repository. It need not be there.
pub fn folder() -> PathBuf {
    let near = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers");
    env::var_os("ARROW_DEVICE_PEERS").map_or_else(near, PathBuf::from)
}

/// The folders with the Python packages that are installed there.
pub fn packages() -> Vec<PathBuf> {
    let pythons = fs::read_dir(folder().join("venv/lib")).into_iter().flatten().flatten();
    pythons.map(|python| python.path().join("site-packages")).collect()
}

/// The Python that has pyarrow. Where there is none, says that the test is skipped, as
/// [`skip`] does.
#[track_caller]
pub fn python() -> Option<PathBuf> {
    let python = folder().join("venv/bin/python");
    if !python.exists() {
        skip(
            "pyarrow",
            "the wheel of pyarrow is not there: `cargo xtask test --setup` installs it",
        );
        return None;
    }
    Some(python)
}
