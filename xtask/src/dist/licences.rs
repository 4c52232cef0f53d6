//! The texts of the licences of all crates that are compiled into an artefact, as a file that lies
//! in each package beside the project's own licence.

use std::fs;
use std::path::{Path, PathBuf};

use super::contents::{self, Artefact};
use super::python;
use crate::shell;

/// The name of the file in each package.
pub(super) const FILE: &str = "THIRD-PARTY-LICENSES.txt";
/// What writes the file. Pinned, so that two runs make the same bytes.
const TOOL: (&str, &str) = ("cargo-about", "0.9.3");
/// Which licences are welcome, for `cargo deny`.
const WELCOME: &str = "deny.toml";
const TEMPLATE: &str = include_str!("licences.hbs");

/// Writes the texts for an artefact, and returns the file. Fails where a crate has a licence that
/// is not welcome.
pub(super) fn write(source: &Path, work: &Path, artefact: &Artefact) -> Result<PathBuf, String> {
    let folder = work.join("licences").join(artefact.list);
    super::empty(&folder)?;
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| shell::said(&path, &error))?;
        Ok::<_, String>(path.display().to_string())
    };
    let configuration = write("about.toml", &configuration(&shell::read(WELCOME)?)?)?;
    let template = write("licences.hbs", TEMPLATE)?;
    let program = contents::tool(work, TOOL, &["--features", "cli"])?;
    let manifest = source.join(artefact.folder).join("Cargo.toml").display().to_string();
    let file = folder.join(FILE);
    let to = file.display().to_string();
    let mut words = vec![program.as_str(), "generate", "--offline", "--locked", "--fail"];
    words.extend(["--config", &configuration, "--manifest-path", &manifest]);
    words.extend(["--features", artefact.features, "--output-file", &to]);
    let targets = match artefact.target {
        Some(target) => vec![target],
        None => python::SYSTEMS.iter().map(|system| system.target).collect(),
    };
    words.extend(targets.iter().flat_map(|target| ["--target", target]));
    words.push(&template);
    shell::run(&words, &[])?;
    let text = fs::read_to_string(&file).map_err(|error| shell::said(&file, &error))?;
    if text.contains(" arrow-device-abi ") { Ok(file) } else { Err(format!("{to} lacks crates")) }
}

/// Writes the texts for an artefact into a folder of the copy of the sources.
pub(super) fn write_into(
    source: &Path,
    work: &Path,
    artefact: &Artefact,
    folder: &str,
) -> Result<(), String> {
    let (from, to) = (write(source, work, artefact)?, source.join(folder).join(FILE));
    fs::copy(&from, &to).map(|_| ()).map_err(|error| shell::said(&to, &error))
}

/// The tool's configuration: the licences that are welcome, and no crates that only builds and
/// tests need.
fn configuration(welcome: &str) -> Result<String, String> {
    let list = welcome.split_once("\nallow = [").and_then(|(_, rest)| rest.split_once(']'));
    let (list, _) = list.ok_or_else(|| format!("{WELCOME} has no list of welcome licences"))?;
    Ok(format!(
        "accepted = [{list}]\nignore-build-dependencies = true\nignore-dev-dependencies = true\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_licences_that_are_welcome_are_read() {
        let text = configuration(&shell::read(WELCOME).unwrap()).unwrap();
        assert!(text.starts_with("accepted = [\n    \"Apache-2.0\",\n"), "{text}");
        assert!(text.contains("\"Zlib\",\n]\nignore-build"), "{text}");
        assert!(configuration("[licenses]\n").is_err());
    }
}
