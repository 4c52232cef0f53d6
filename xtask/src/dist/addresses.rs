//! The addresses that packages name: one file for all of them.
//!
//! They stand in `addresses.toml` and nowhere else. A manifest cannot name an address that is not
//! known, so the copy of the sources that packages are made of gets those that are.

use std::path::Path;

use super::change;
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
/// The manifest of the package for JavaScript, and the beginning of the line before which the lines
/// with addresses stand.
const OF_NPM: &str = "js/package.json";
const BEHIND_ADDRESSES: &str = "  \"license\": ";

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

    /// The address of this name, where it is known.
    fn known(&self, name: &str) -> Option<&str> {
        let known = self.0.iter().find(|(of, value)| *of == name && !value.is_empty());
        known.map(|(_, value)| value.as_str())
    }

    /// The addresses that packages name and that are known, with their names, in the order of the
    /// file.
    pub(super) fn of_packages(&self) -> impl Iterator<Item = (&'static str, &str)> {
        OF_CRATES.into_iter().filter_map(|name| Some((name, self.known(name)?)))
    }

    /// The address that a package names where it can name one alone.
    pub(super) fn of_project(&self) -> Option<&str> {
        self.known("homepage").or_else(|| self.known("repository"))
    }

    /// Adds to the manifests of the crates and of the packages for Python and JavaScript what is
    /// known.
    pub(super) fn write_into(&self, source: &Path) -> Result<(), String> {
        let known = self.of_packages().map(|(name, value)| format!("{name} = \"{value}\"\n"));
        let lines: String = known.collect();
        for name in readme::crates()? {
            let manifest = source.join(CRATES).join(name).join("Cargo.toml");
            let package = format!("[package]\n{lines}");
            change(&manifest, |text| text.replacen("[package]\n", &package, 1))?;
        }
        change(&source.join(OF_NPM), |text| self.of_npm(text))?;
        let lines = if lines.is_empty() { lines } else { format!("[project.urls]\n{lines}\n") };
        let urls = format!("{lines}{BEHIND_URLS}");
        change(&source.join(OF_PYTHON), |text| text.replacen(BEHIND_URLS, &urls, 1))
    }

    /// The manifest of the package for JavaScript with what it can name.
    fn of_npm(&self, manifest: &str) -> String {
        let home = self.known("homepage").map(|of| format!("  \"homepage\": \"{of}\",\n"));
        let sources = self.known("repository").map(|of| {
            format!("  \"repository\": {{ \"type\": \"git\", \"url\": \"git+{of}\" }},\n")
        });
        let (home, sources) = (home.unwrap_or_default(), sources.unwrap_or_default());
        manifest.replacen(BEHIND_ADDRESSES, &format!("{home}{sources}{BEHIND_ADDRESSES}"), 1)
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

    #[test]
    fn the_manifest_for_javascript_names_what_is_known_and_nothing_else() {
        let manifest = shell::read(OF_NPM).unwrap();
        let address = |name, value: &str| (name, value.to_owned());
        let none = Addresses(vec![address("repository", ""), address("homepage", "")]);
        assert_eq!(none.of_npm(&manifest), manifest);
        let both = Addresses(vec![
            address("repository", "https://a.b/c.git"),
            address("homepage", "https://a.b"),
        ]);
        let lines = "\n  \"homepage\": \"https://a.b\",\n  \"repository\": \
                     { \"type\": \"git\", \"url\": \"git+https://a.b/c.git\" },\n  \"license\": ";
        assert!(both.of_npm(&manifest).contains(lines), "{}", both.of_npm(&manifest));
        assert_eq!(both.of_project(), Some("https://a.b"));
    }
}
