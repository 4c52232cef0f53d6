//! The public interface of the crates, compared with that of the last release by
//! cargo-semver-checks.
//!
//! The last release is the newest tag `v1.2.3`. A tag with more behind the numbers is no release.
//! The tool is built when there is a release to compare with, and not before: building the tool
//! takes longer than comparing.

use std::path::Path;

use super::{readme, rust};
use crate::shell;

/// The tool, and the version that is used.
const TOOL: (&str, &str) = ("cargo-semver-checks", "0.51.0");
/// The programs, whose interfaces are no items of Rust.
const PROGRAMS: [&str; 1] = ["arrow-device-cli"];

/// Compares each published library that the last release has. Fails where a change needs another
/// kind of version than the new one is.
pub(super) fn prove(source: &Path, work: &Path) -> Result<(), String> {
    let tags = shell::output_of(&["git", "tag", "--list", "v*"]).ok_or("`git tag` failed")?;
    let Some((numbers, tag)) = newest(&tags) else {
        println!("no release yet: there is no interface to compare with");
        return Ok(());
    };
    if numbers_of(&rust::version(source)?) == Some(numbers) {
        println!("the version is still that of {tag}: it is compared once the version has changed");
        return Ok(());
    }
    let root = work.join("cargo-tools");
    let (name, version) = TOOL;
    let to = root.display().to_string();
    let install = ["cargo", "install", "--quiet", "--locked", "--root", &to];
    shell::run(&[&install[..], &[name, "--version", version]].concat(), &[])?;
    let program = root.join("bin").join(name).display().to_string();
    let manifest = format!("--manifest-path={}", shell::root().join("Cargo.toml").display());
    let mut words = vec![program.as_str(), "semver-checks", &manifest, "--all-features"];
    words.extend(["--baseline-rev", tag]);
    let has = |name: &String| {
        let file = format!("{tag}:{}/{name}/Cargo.toml", readme::CRATES);
        let is_library = !PROGRAMS.contains(&name.as_str());
        is_library && shell::output_of(&["git", "cat-file", "-e", &file]).is_some()
    };
    let names: Vec<String> = readme::crates()?.into_iter().filter(has).collect();
    words.extend(names.iter().flat_map(|name| ["--package", name.as_str()]));
    shell::run(&words, &[])?;
    println!("test result: ok. 1 passed; 0 failed; 0 ignored");
    Ok(())
}

/// The newest release of a list of tags.
fn newest(tags: &str) -> Option<([u32; 3], &str)> {
    tags.lines().filter_map(|tag| Some((numbers_of(tag.strip_prefix('v')?)?, tag))).max()
}

/// The three numbers of a version that has nothing else.
fn numbers_of(version: &str) -> Option<[u32; 3]> {
    let numbers: Result<Vec<u32>, _> = version.split('.').map(str::parse).collect();
    numbers.ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_release_is_the_tag_with_the_greatest_numbers() {
        let tags = "v0.1.0\nv0.10.0\nv0.11.0-rc.1\nv0.9.12\nvision\n";
        assert_eq!(newest(tags), Some(([0, 10, 0], "v0.10.0")));
        assert_eq!(newest(""), None);
        assert_eq!(newest("v1.0\nv1.0.0.0\nv-1.0.0"), None);
    }
}
