//! The places of the version, which RELEASING.md lists: each has that of the workspace.

use super::{readme, rust};
use crate::shell;

/// Each place: the file, and what stands there once for each time it is listed. `{whole}` is the
/// version, `{major}` and `{minor}` are its first two numbers.
const PLACES: [(&str, &str); 15] = [
    ("js/package.json", "\n  \"version\": \"{whole}\","),
    ("js/package-lock.json", "\n  \"version\": \"{whole}\","),
    ("js/package-lock.json", "\n      \"version\": \"{whole}\","),
    ("js/README.md", "./arrow-device-{whole}.tgz"),
    ("python/Cargo.toml", "\nversion = \"{whole}\"\n"),
    (HEADER, "#define ARDEV_VERSION_MAJOR {major}\n"),
    (HEADER, "#define ARDEV_VERSION_MINOR {minor}\n"),
    ("crates/arrow-device-capi/src/lib.rs", "ARDEV_VERSION_MAJOR: u32 = {major};"),
    ("crates/arrow-device-capi/src/lib.rs", "ARDEV_VERSION_MINOR: u32 = {minor};"),
    ("crates/arrow-device-capi/build.rs", "libarrow_device.so.{major}"),
    ("crates/arrow-device-capi/examples/CMakeLists.txt", "(arrow_device {major}.{minor} REQUIRED)"),
    ("meson.build", "version: '{whole}'"),
    ("docs/c.md", "(arrow_device {major}.{minor} REQUIRED)"),
    ("docs/c.md", "`arrow-device/{whole}`"),
    ("docs/c.md", "`libarrow-device{major}`"),
];
const HEADER: &str = "crates/arrow-device-capi/include/arrow_device/arrow_device.h";

/// Fails where a place has another version than the workspace.
pub(super) fn check() -> Result<(), String> {
    let version = rust::version(&shell::root())?;
    let mut problems = Vec::new();
    for (file, text) in PLACES {
        problems.extend(problem(file, text, &shell::read(file)?, &version));
    }
    let manifest = shell::read("Cargo.toml")?;
    for name in readme::crates()? {
        let begin = format!("{name} = {{ path = ");
        let named = manifest.lines().filter(|line| line.starts_with(&begin));
        let version = format!("version = \"{version}\"");
        let wrong = named.filter(|line| !line.contains(&version));
        problems.extend(wrong.map(|line| format!("Cargo.toml: `{line}` has not {version}")));
    }
    shell::none_of(&problems)
}

fn problem(file: &str, text: &str, content: &str, version: &str) -> Option<String> {
    let mut numbers = version.split('.');
    let (major, minor) = (numbers.next()?, numbers.next()?);
    let text = text.replace("{whole}", version).replace("{major}", major);
    let text = text.replace("{minor}", minor);
    (!content.contains(&text)).then(|| format!("{file}: has no `{}`", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_has_the_version_of_the_workspace() {
        check().unwrap();
    }

    #[test]
    fn a_place_with_another_version_is_found() {
        let find = |content| problem("a", "so.{major}, {minor}, {whole}", content, "1.2.3");
        assert_eq!(find("so.1, 2, 1.2.3"), None);
        for content in ["so.0, 2, 1.2.3", "so.1, 3, 1.2.3", "so.1, 2, 1.2.4"] {
            assert_eq!(find(content).unwrap(), "a: has no `so.1, 2, 1.2.3`", "{content}");
        }
    }
}
