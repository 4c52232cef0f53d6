//! Room on the disk of continuous integration: what a tier fills, and nobody reads after the tier.
//!
//! All that `cargo xtask test --all` builds takes more room than some machines have. On a machine
//! of a developer the folders stay, for the next run.

use crate::shell;

/// The folders below `target` that this tier fills or was the last to read: no tier behind the
/// tier in the table, and no step of `cargo xtask lint`, reads what is there.
fn folders(tier: &str) -> &'static [&'static str] {
    match tier {
        "panic abort" => &["panic-abort"],
        // The tier before fills the folder as well.
        "benchmarks" => &["counts"],
        "gpu bundle" => &["release", "gpu-bundle"],
        "platforms" => &[
            "aarch64-unknown-linux-gnu",
            "i686-unknown-linux-gnu",
            "wasm32-unknown-unknown",
            "wasm32-wasip1",
            "aarch64-apple-darwin",
            "aarch64-linux-android",
            "x86_64-pc-windows-msvc",
            "x86_64-unknown-freebsd",
            "platforms",
        ],
        "public interface" => &["public-interface"],
        "address sanitizer" => &["address-sanitizer"],
        "loom" => &["loom"],
        "miri" => &["miri"],
        _ => &[],
    }
}

/// Removes what the tier leaves, in continuous integration.
pub(super) fn give_back(tier: &str) {
    if !shell::in_ci() {
        return;
    }
    for name in folders(tier) {
        let folder = shell::root().join("target").join(name);
        if folder.exists() && std::fs::remove_dir_all(&folder).is_ok() {
            println!("removed target/{name}: nobody reads it any more");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::TIERS;
    use super::*;

    #[test]
    fn a_folder_goes_with_one_tier() {
        let mut folders: Vec<_> = TIERS.iter().flat_map(|tier| folders(tier.name)).collect();
        assert!(folders.len() > 10, "a tier has another name");
        folders.sort();
        assert!(folders.is_sorted_by(|one, next| one < next), "{folders:?}");
    }

    #[test]
    fn the_folder_that_a_tier_names_for_itself_goes_with_the_tier() {
        for tier in TIERS.iter().filter(|tier| tier.when <= crate::tiers::When::All) {
            for (name, folder) in tier.variables {
                if *name == "CARGO_TARGET_DIR" {
                    let own = folder.strip_prefix("target/").unwrap();
                    assert!(folders(tier.name).contains(&own), "{}: {own}", tier.name);
                }
            }
        }
    }
}
