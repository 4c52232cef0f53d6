//! The order in which the crates are published, as RELEASING.md lists it.
//!
//! A registry takes a crate when all crates are there that the crate's manifest names with a
//! version. In the manifests of this project these are the lines of dependencies that name the
//! workspace; a dependency with a path of its own has no version, and is left out of the package.

use super::readme;
use crate::shell;

/// The page with the list.
const PAGE: &str = "RELEASING.md";
/// How a line of the list begins, before the number.
const ROW: &str = "| ";

/// Fails where the list has not each crate once, or has a crate before one that the crate needs.
pub(super) fn check() -> Result<(), String> {
    let page = shell::read(PAGE)?;
    let mut crates = Vec::new();
    for name in readme::crates()? {
        let manifest = shell::read(format!("{}/{name}/Cargo.toml", readme::CRATES))?;
        crates.push((name, manifest));
    }
    shell::none_of(&problems(&page, &crates))
}

/// The names in the list, in order.
fn listed(page: &str) -> Vec<&str> {
    let rows = page.lines().filter_map(|line| line.strip_prefix(ROW)?.split_once(" | `"));
    let numbered = rows.filter(|(number, _)| number.parse::<u32>().is_ok());
    numbered.filter_map(|(_, rest)| rest.split_once('`').map(|(name, _)| name)).collect()
}

/// The crates of the project that a manifest names with a version.
fn needed(manifest: &str) -> Vec<&str> {
    let mut is_in_dependencies = false;
    let mut names = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_in_dependencies = line.trim_end().ends_with("dependencies]");
        }
        let Some((name, value)) = line.split_once('=').filter(|_| is_in_dependencies) else {
            continue;
        };
        let name = name.trim();
        let (name, is_versioned) = match name.strip_suffix(".workspace") {
            Some(name) => (name, true),
            None => (name, value.contains("workspace = true")),
        };
        if is_versioned && name.starts_with("arrow-device") {
            names.push(name);
        }
    }
    names
}

fn problems(page: &str, crates: &[(String, String)]) -> Vec<String> {
    let listed = listed(page);
    let place = |name: &str| listed.iter().position(|other| *other == name);
    let mut problems = Vec::new();
    for (name, manifest) in crates {
        let Some(own) = place(name) else {
            problems.push(format!("{PAGE}: the order of the crates has no {name}"));
            continue;
        };
        let late = needed(manifest).into_iter().filter(|needed| place(needed) >= Some(own));
        problems.extend(late.map(|needed| format!("{PAGE}: {name} stands before {needed}")));
    }
    if listed.len() != crates.len() {
        problems.push(format!("{PAGE}: {} rows for {} crates", listed.len(), crates.len()));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_page_is_one_in_which_crates_can_be_published() {
        check().unwrap();
    }

    #[test]
    fn a_crate_before_what_it_needs_and_one_that_is_missing_are_found() {
        let page =
            "| | crate |\n|---|---|\n| 1 | `arrow-device-b` | a |\n| 2 | `arrow-device-a` | |\n";
        let manifest = "[package]\nname = \"b\"\n[dependencies]\nlibc.workspace = true\n\
                        [target.'cfg(unix)'.dev-dependencies]\n\
                        arrow-device-a = { workspace = true, features = [\"c\"] }\n\
                        arrow-device-c = { path = \"../c\" }\n";
        let crates = |names: [&str; 2]| names.map(|name| (name.to_owned(), manifest.to_owned()));
        let found = problems(page, &crates(["arrow-device-b", "arrow-device-c"]));
        assert_eq!(
            found,
            [
                "RELEASING.md: arrow-device-b stands before arrow-device-a",
                "RELEASING.md: the order of the crates has no arrow-device-c",
            ]
        );
        let one = [("arrow-device-b".to_owned(), String::new())];
        assert_eq!(problems(page, &one), ["RELEASING.md: 2 rows for 1 crates"]);
    }
}
