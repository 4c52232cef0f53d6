//! Finds the Arrow project's golden files: streams that its implementations wrote, as a reference
//! for others.
//!
//! The files belong to that project and are not copied. `ARROW_DEVICE_GOLDEN` names the folder that
//! has them.

use std::path::{Path, PathBuf};

/// Returns the files with streams, in order of their names. Where there is no such folder, prints
/// the reason and returns none.
///
/// # Panics
/// Panics if the folder has no such file, or cannot be read.
pub fn streams() -> Vec<PathBuf> {
    let folder = std::env::var_os("ARROW_DEVICE_GOLDEN").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/golden"),
        PathBuf::from,
    );
    if !folder.is_dir() {
        println!("skipped: ARROW_DEVICE_GOLDEN does not name the folder of golden files");
        return Vec::new();
    }
    let entries = std::fs::read_dir(folder).unwrap();
    let mut streams: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    streams.retain(|path| path.extension().is_some_and(|extension| extension == "stream"));
    streams.sort();
    assert!(!streams.is_empty(), "there is no stream in the folder of golden files");
    streams
}
