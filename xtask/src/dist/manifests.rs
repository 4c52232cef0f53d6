//! What the manifests of the crates promise: that a crate compiles with any of its features, and
//! with the oldest versions of other crates that its manifest allows.
//!
//! 1. The sources are copied, and only what a user's build reads is left in the manifests: the
//!    published crates are the members, and no crate has dependencies for its tests.
//! 2. Nightly cargo chooses the oldest version that a manifest allows for each dependency that the
//!    manifest names, and all crates are checked with those versions.
//! 3. cargo-hack checks each crate with each single feature, each two features, all features and
//!    none. A crate that forgets to ask for a feature of a dependency fails there, because no other
//!    crate asks for the feature at the same time. This takes the longest, and comes last.
//!
//! The crate for DataFusion is left out. It has the features of one release of DataFusion each, and
//! a release asks for newer versions of arrow-rs than `arrow-device-arrow` does.

use std::fs;
use std::path::Path;

use super::readme;
use crate::shell;

/// The tool, and the version that is tried.
const HACK: (&str, &str) = ("cargo-hack", "0.6.46");
/// The crate that is left out.
const LEFT_OUT: &str = "arrow-device-datafusion";

/// Checks the manifests of a copy of the sources.
pub(super) fn prove(work: &Path) -> Result<(), String> {
    let source = work.join("manifests");
    super::copy_of_sources(&source)?;
    strip(&source)?;
    let manifest = format!("--manifest-path={}", source.join("Cargo.toml").display());
    let target = format!("--target-dir={}", work.join("target").display());
    let lock = source.join("Cargo.lock");
    let newest = fs::read(&lock).map_err(|error| shell::said(&lock, &error))?;
    oldest(&lock, &manifest, &target)?;
    fs::write(&lock, newest).map_err(|error| shell::said(&lock, &error))?;
    features(work, &manifest, &target)?;
    println!("test result: ok. 2 passed; 0 failed; 0 ignored");
    Ok(())
}

/// Leaves in the manifests what the build of a user reads.
fn strip(source: &Path) -> Result<(), String> {
    rewrite(&source.join("Cargo.toml"), workspace_of_published_crates)?;
    for name in readme::crates()? {
        let manifest = source.join(readme::CRATES).join(name).join("Cargo.toml");
        rewrite(&manifest, without_dependencies_of_tests)?;
    }
    Ok(())
}

fn rewrite(path: &Path, change: fn(&str) -> String) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| shell::said(path, &error))?;
    fs::write(path, change(&text)).map_err(|error| shell::said(path, &error))
}

/// The manifest of the workspace without the packages that are not published.
fn workspace_of_published_crates(manifest: &str) -> String {
    let left_out = format!("\"{}/{LEFT_OUT}\"", readme::CRATES);
    let is_kept = |line: &&str| {
        let line = line.trim();
        let is_folder = line.starts_with('"') && line.ends_with("\",");
        let is_published = line.starts_with(&format!("\"{}/", readme::CRATES));
        let names_test = line.contains("path = \"testing/");
        !(is_folder && (!is_published || line.starts_with(&left_out)) || names_test)
    };
    let kept: Vec<&str> = manifest.lines().filter(is_kept).collect();
    let excluded = format!("[workspace]\nexclude = [{left_out}]");
    format!("{}\n", kept.join("\n").replacen("[workspace]", &excluded, 1))
}

/// The manifest of a crate without the tables of what its tests need.
fn without_dependencies_of_tests(manifest: &str) -> String {
    let mut is_in_tests = false;
    let mut text = String::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_in_tests = line.contains("dev-dependencies");
        }
        if !is_in_tests {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

fn oldest(lock: &Path, manifest: &str, target: &str) -> Result<(), String> {
    fs::remove_file(lock).map_err(|error| shell::said(lock, &error))?;
    let nightly = ["rustup", "run", "nightly", "cargo", "generate-lockfile"];
    shell::run(&[&nightly[..], &["-Zdirect-minimal-versions", manifest]].concat(), &[])?;
    let check = ["cargo", "check", "--quiet", "--locked", "--workspace", "--lib", "--bins"];
    shell::run(&[&check[..], &["--all-features", manifest, target]].concat(), &[])
}

fn features(work: &Path, manifest: &str, target: &str) -> Result<(), String> {
    let root = work.join("cargo-tools");
    let (name, version) = HACK;
    let to = root.display().to_string();
    let install = ["cargo", "install", "--quiet", "--locked", "--root", &to];
    shell::run(&[&install[..], &[name, "--version", version]].concat(), &[])?;
    let program = root.join("bin").join(name).display().to_string();
    let check = [&program, "hack", "check", "--quiet", "--workspace", manifest, target];
    shell::run(&[&check[..], &["--feature-powerset", "--depth=2"]].concat(), &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_published_crates_are_left_in_the_workspace() {
        let manifest = "[workspace]\nmembers = [\n    \"crates/arrow-device\",\n    \
                        \"crates/arrow-device-datafusion\",\n    \"testing/wasm\",\n    \"xtask\",\n]\n\
                        [workspace.dependencies]\nsim-c = { path = \"testing/sim-c\" }\nlibc = \"0.2\"\n";
        assert_eq!(
            workspace_of_published_crates(manifest),
            "[workspace]\nexclude = [\"crates/arrow-device-datafusion\"]\nmembers = [\n    \
             \"crates/arrow-device\",\n]\n[workspace.dependencies]\nlibc = \"0.2\"\n"
        );
    }

    #[test]
    fn dependencies_of_tests_leave_a_manifest() {
        let manifest = "[dependencies]\na = \"1\"\n[target.'cfg(unix)'.dev-dependencies]\nb = \"1\"\n\
                        [dev-dependencies]\nc = \"1\"\n[lints]\nworkspace = true\n";
        assert_eq!(
            without_dependencies_of_tests(manifest),
            "[dependencies]\na = \"1\"\n[lints]\nworkspace = true\n"
        );
    }
}
