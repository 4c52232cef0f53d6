//! The addresses that packages name: one file for all of them.
//!
//! They stand in `addresses.toml` and nowhere else. A manifest cannot name an address that is not
//! known, so the copy of the sources that packages are made of gets those that are.

use std::fs;
use std::path::Path;

use super::readme::{self, CRATES};
use crate::shell;

const FILE: &str = "addresses.toml";
/// What cargo knows of them, by cargo's names.
const OF_CRATES: [&str; 3] = ["repository", "homepage", "documentation"];
/// All of them.
const ALL: [&str; 4] = [OF_CRATES[0], OF_CRATES[1], OF_CRATES[2], "contact"];

/// The manifest of the Python package, and the table that the one with addresses stands before.
const OF_PYTHON: &str = "python/pyproject.toml";
const BEHIND_URLS: &str = "[tool.maturin]\n";

/// What the file says.
pub(super) struct Addresses(Vec<(&'static str, String)>);

impl Addresses {
    pub(super) fn read() -> Result<Self, String> {
        let text = shell::read(FILE)?;
        let of = |name| readme::member(&text, name).map(|value| (name, value.to_owned()));
        let all: Option<Vec<_>> = ALL.iter().map(|name| of(name)).collect();
        all.map(Self).ok_or_else(|| format!("{FILE} has no line for one of {}", ALL.join(", ")))
    }

    /// Those that are empty.
    pub(super) fn missing(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, value)| value.is_empty()).map(|(name, _)| *name)
    }

    /// Adds to the manifests of the crates and of the Python package what is known.
    pub(super) fn write_into(&self, source: &Path) -> Result<(), String> {
        let known =
            self.0.iter().filter(|(name, value)| OF_CRATES.contains(name) && !value.is_empty());
        let lines: String = known.map(|(name, value)| format!("{name} = \"{value}\"\n")).collect();
        for name in readme::crates()? {
            let path = source.join(CRATES).join(name).join("Cargo.toml");
            let text = fs::read_to_string(&path).map_err(|error| shell::said(&path, &error))?;
            let text = text.replacen("[package]\n", &format!("[package]\n{lines}"), 1);
            fs::write(&path, text).map_err(|error| shell::said(&path, &error))?;
        }
        let path = source.join(OF_PYTHON);
        let text = fs::read_to_string(&path).map_err(|error| shell::said(&path, &error))?;
        let lines = if lines.is_empty() { lines } else { format!("[project.urls]\n{lines}\n") };
        let text = text.replacen(BEHIND_URLS, &format!("{lines}{BEHIND_URLS}"), 1);
        fs::write(&path, text).map_err(|error| shell::said(&path, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_every_address_and_says_which_are_missing() {
        let addresses = Addresses::read().unwrap();
        assert_eq!(addresses.0.len(), ALL.len());
        let few = Addresses(vec![("repository", "https://a.b".into()), ("contact", String::new())]);
        assert_eq!(few.missing().collect::<Vec<_>>(), ["contact"]);
    }
}
