//! The README of each published crate: what the crate's page begins with.
//!
//! A registry shows the README, and docs.rs the documentation at the top of `src/lib.rs`. So that
//! both say one thing, the README is made of the documentation: all that stands before the first
//! heading, without what only rustdoc understands. `cargo xtask lint` compares, and writes the
//! files where `ARROW_DEVICE_BLESS=1` is in the environment.

use std::path::Path;

use crate::shell;

/// Where the published crates are.
pub(crate) const CRATES: &str = "crates";

/// The name and the description in a manifest, which has each on a line of its own.
pub(crate) fn member<'text>(manifest: &'text str, name: &str) -> Option<&'text str> {
    let line = manifest.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""))?;
    line.strip_suffix('"')
}

/// The folders of the published crates, by the names of the crates.
pub(crate) fn crates() -> Result<Vec<String>, String> {
    let manifests = shell::project_files(&["toml"])?;
    let of_crates = manifests.iter().filter_map(|file| {
        let folder = file.parent().filter(|_| file.ends_with("Cargo.toml"))?;
        (folder.parent() == Some(Path::new(CRATES))).then(|| folder.file_name()).flatten()
    });
    Ok(of_crates.map(|name| name.to_string_lossy().into_owned()).collect())
}

/// Fails where a README is not what the documentation says, or the licence is not there.
pub(crate) fn check() -> Result<(), String> {
    let writes = std::env::var_os("ARROW_DEVICE_BLESS").is_some_and(|value| value == "1");
    let mut problems = Vec::new();
    let licence = shell::read("LICENSE")?;
    for name in crates()? {
        let folder = Path::new(CRATES).join(&name);
        let manifest = shell::read(folder.join("Cargo.toml"))?;
        let page = ["src/lib.rs", "src/main.rs"]
            .iter()
            .find_map(|file| shell::read(folder.join(file)).ok());
        let (Some(_), Some(page)) = (member(&manifest, "description"), page) else {
            problems.push(format!("{name}: no description, or no page"));
            continue;
        };
        let expected = readme(&name, &page);
        let file = folder.join("README.md");
        if writes {
            let path = shell::root().join(&file);
            std::fs::write(&path, &expected).map_err(|error| format!("{name}: {error}"))?;
        }
        if shell::read(&file).ok().as_deref() != Some(expected.as_str()) {
            problems.push(format!(
                "{}: is not what the crate's page begins with; ARROW_DEVICE_BLESS=1 cargo xtask lint readmes writes it",
                file.display()
            ));
        }
        if shell::read(folder.join("LICENSE")).ok().as_deref() != Some(licence.as_str()) {
            problems.push(format!("{name}: LICENSE is not that of the project"));
        }
    }
    shell::none_of(&problems)
}

/// The README of a crate, given the crate's name and its main source file.
fn readme(name: &str, page: &str) -> String {
    let mut text = format!("# {name}\n\n");
    let body = beginning(page);
    text.push_str(body.trim());
    text.push_str("\n\n## About this crate\n\n");
    text.push_str(
        "This crate is a part of arrow-device: Arrow data on devices, shared between libraries that do not know each\n\
         other, without copying it. All crates of arrow-device are released together, with one version. The documentation\n\
         of the crate says the rest. The tests are in the project's repository, and run there.\n\n\
         The licence is Apache-2.0; its text is in the package.\n",
    );
    text
}

/// What stands before the first heading of the documentation, as plain Markdown.
fn beginning(page: &str) -> String {
    let mut text = Vec::new();
    let mut is_code = false;
    for line in documentation(page) {
        if let Some(attributes) = line.strip_prefix("```") {
            let is_rust = matches!(attributes, "" | "no_run" | "ignore" | "compile_fail");
            let opens_rust = !is_code && is_rust;
            text.push(if opens_rust { "```rust".to_owned() } else { line.to_owned() });
            is_code = !is_code;
        } else if is_code {
            // Lines that rustdoc compiles and does not show.
            if line != "#" && !line.starts_with("# ") {
                text.push(line.to_owned());
            }
        } else if line.starts_with("# ") {
            break;
        } else {
            text.push(without_links(line));
        }
    }
    text.join("\n")
}

/// The lines of the documentation at the top of a file. Of several lines that features choose from,
/// the first.
fn documentation(page: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut is_choice = false;
    for line in page.lines() {
        let chosen = line.strip_prefix("#![cfg_attr(").and_then(|rest| rest.split_once("doc = \""));
        if let Some(line) = line.strip_prefix("//!") {
            lines.push(line.strip_prefix(' ').unwrap_or(line));
        } else if let Some((_, rest)) = chosen {
            if !is_choice {
                lines.push(rest.trim_end_matches("\")]"));
            }
        } else {
            break;
        }
        is_choice = chosen.is_some();
    }
    lines
}

/// A line without the links that rustdoc alone can follow: those to items and to parts of the page.
fn without_links(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('[') {
        text.push_str(before);
        let Some((shown, behind)) = after.split_once(']') else {
            text.push('[');
            rest = after;
            continue;
        };
        let target = behind.strip_prefix('(').and_then(|behind| behind.split_once(')'));
        let (target, behind) = target.map_or((None, behind), |(to, behind)| (Some(to), behind));
        // `buffers[i]` in code is no link.
        let is_code = before.matches('`').count() % 2 == 1;
        match target {
            Some(to) if to.contains("://") => text.push_str(&format!("[{shown}]({to})")),
            Some(_) => text.push_str(shown),
            None if shown.starts_with('`') && !is_code => text.push_str(shown),
            None => text.push_str(&format!("[{shown}]")),
        }
        rest = behind;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
//! First words, see [`Thing`](crate::Thing) and [`other`], a [page](https://a.b/c), `buffers[i]`.
//!
#![cfg_attr(feature = \"a\", doc = \"```\")]
#![cfg_attr(not(feature = \"a\"), doc = \"```ignore\")]
//! # hidden();
//! shown()[0];
//! ```
//!
//! ```text
//! drawn
//! ```
//! Last words.
//!
//! # A heading
//!
//! Not this.
";

    #[test]
    fn a_readme_is_the_beginning_of_the_page_in_plain_markdown() {
        let expected = "\
First words, see `Thing` and `other`, a [page](https://a.b/c), `buffers[i]`.

```rust
shown()[0];
```

```text
drawn
```
Last words.
";
        assert_eq!(beginning(PAGE), expected);
        let whole = readme("a-crate", PAGE);
        assert!(whole.starts_with("# a-crate\n\nFirst words"), "{whole}");
    }

    #[test]
    fn the_members_of_a_manifest_are_found() {
        let manifest = "[package]\nname = \"a\"\ndescription = \"For b\"\n";
        assert_eq!(member(manifest, "name"), Some("a"));
        assert_eq!(member(manifest, "description"), Some("For b"));
        assert_eq!(member(manifest, "licence"), None);
    }

    #[test]
    fn the_crates_are_those_in_their_folder() {
        let crates = crates().unwrap();
        assert!(crates.contains(&"arrow-device-abi".to_owned()) && crates.len() > 14, "{crates:?}");
    }
}
