//! Other implementations of Arrow that tests are run against: Python packages with libraries,
//! headers or C sources in them.
//!
//! Versions are pinned in `testing/foreign-peers`. Everything lies in `target/peers`, or where
//! `ARROW_DEVICE_PEERS` says: `venv` holds installed wheels, `sources` unpacked source
//! distributions, `webgpu` and `dawn` libraries for WebGPU. Nothing is installed for the user or
//! the system.

use std::fs;
use std::path::{Path, PathBuf};

use crate::shell;

/// Packages whose wheels are installed.
const WHEELS: &str = "testing/foreign-peers/requirements.txt";
/// Packages whose wheels are installed for the vendors' headers in them.
const HEADERS: &str = "testing/simulated-gpu-drivers/headers.txt";
/// The package whose wheel has wgpu-native.
const WEBGPU: &str = "testing/foreign-peers/webgpu.txt";
/// The package of npm that has Dawn.
const DAWN: &str = "testing/foreign-peers/dawn.txt";
/// Packages whose sources are unpacked.
const SOURCES: &str = "testing/foreign-peers/sources.txt";

/// Whether all wheels are installed in the versions that are pinned.
pub(crate) fn has_wheels() -> bool {
    are_installed(&folder().join("venv"), WHEELS)
}

/// The same for the headers.
pub(crate) fn has_headers() -> bool {
    are_installed(&folder().join("venv"), HEADERS)
}

/// Whether an environment has all packages of a file of pins.
pub(crate) fn are_installed(environment: &Path, file: &str) -> bool {
    let packages = packages_of(environment);
    are_all(file, |name, version| {
        let about = format!("{}-{version}.dist-info", name.replace('-', "_"));
        packages.iter().any(|folder| folder.join(&about).is_dir())
    })
}

/// Whether wgpu-native is unpacked in the version that is pinned.
pub(crate) fn has_webgpu() -> bool {
    let unpacked = folder().join("webgpu");
    are_all(WEBGPU, |name, version| unpacked.join(format!("{name}-{version}.dist-info")).is_dir())
}

/// The same for Dawn.
pub(crate) fn has_dawn() -> bool {
    let package = fs::read_to_string(folder().join("dawn/package/package.json"));
    package.is_ok_and(|text| are_all(DAWN, |_, version| text.contains(&format!("\"{version}\""))))
}

/// Whether there is a command that downloads packages of npm.
pub(crate) fn has_npm() -> bool {
    shell::output_of(&["npm", "--version"]).is_some()
}

/// The folders of packages of an environment.
pub(crate) fn packages_of(environment: &Path) -> Vec<PathBuf> {
    let pythons = fs::read_dir(environment.join("lib")).into_iter().flatten().flatten();
    pythons.map(|python| python.path().join("site-packages")).collect()
}

/// Whether all sources are unpacked in the versions that are pinned.
pub(crate) fn has_sources() -> bool {
    let unpacked = folder().join("sources");
    are_all(SOURCES, |name, version| unpacked.join(format!("{name}-{version}")).is_dir())
}

/// Whether a Python environment can be made.
pub(crate) fn has_python() -> bool {
    shell::output_of(&["python3", "-c", "import ensurepip, venv"]).is_some()
}

/// The Python that has the wheels, if they are installed.
pub(crate) fn environment_python() -> PathBuf {
    folder().join("venv/bin/python")
}

/// Installs the wheels.
pub(crate) fn install_wheels() -> Result<(), String> {
    install_into(&folder().join("venv"), WHEELS)
}

/// Installs the headers.
pub(crate) fn install_headers() -> Result<(), String> {
    install_into(&folder().join("venv"), HEADERS)
}

/// Unpacks the wheel with wgpu-native. What its Python code needs is left out.
pub(crate) fn install_webgpu() -> Result<(), String> {
    let python = made(&folder().join("venv"))?;
    let target = folder().join("webgpu").display().to_string();
    let pip = [&python, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--no-deps"];
    shell::run(
        &[&pip[..], &["--upgrade", "--target", &target, "--requirement", WEBGPU]].concat(),
        &[],
    )
}

/// Unpacks the package with Dawn. Nothing of it is run.
pub(crate) fn install_dawn() -> Result<(), String> {
    let target = folder().join("dawn");
    fs::create_dir_all(&target).map_err(|error| format!("{}: {error}", target.display()))?;
    let target = target.display().to_string();
    for (name, version) in pins(DAWN)? {
        let pin = format!("{name}@{version}");
        shell::run(&["npm", "pack", "--silent", "--pack-destination", &target, &pin], &[])?;
        let archive = format!("{target}/{name}-{version}.tgz");
        shell::run(
            &["tar", "--extract", "--gzip", "--directory", &target, "--file", &archive],
            &[],
        )?;
    }
    Ok(())
}

/// Installs the packages of a file of pins into an environment.
pub(crate) fn install_into(environment: &Path, file: &str) -> Result<(), String> {
    let python = made(environment)?;
    let pip = [&python, "-m", "pip", "install", "--quiet", "--only-binary=:all:"];
    shell::run(&[&pip[..], &["--requirement", file]].concat(), &[])
}

/// The file that the sources of a package were unpacked from.
pub(crate) fn source_package(name: &str) -> Result<PathBuf, String> {
    let pinned = pins(SOURCES)?.into_iter().find(|(pinned, _)| pinned == name);
    let (_, version) = pinned.ok_or_else(|| format!("{SOURCES} has no {name}"))?;
    let file = folder().join("sources").join(format!("{name}-{version}.tar.gz"));
    let missing = format!("{} is not there: `cargo xtask test --setup` loads it", file.display());
    if file.is_file() { Ok(file) } else { Err(missing) }
}

/// Answers pip when it asks a source package what it is, so that nothing of it is built.
const ANSWERS: &str = "testing/foreign-peers/python";

/// Downloads the sources and unpacks them.
pub(crate) fn install_sources() -> Result<(), String> {
    let python = made(&folder().join("venv"))?;
    let sources = folder().join("sources").display().to_string();
    let answers = format!("PYTHONPATH={}", shell::root().join(ANSWERS).display());
    for (name, version) in pins(SOURCES)? {
        let pin = format!("{name}=={version}");
        let from_source = format!("--no-binary={name}");
        let download = ["env", &answers, &python, "-m", "pip", "download", "--quiet", "--no-deps"];
        let which = ["--no-build-isolation", &from_source, "--dest", &sources, &pin];
        shell::run(&[&download[..], &which[..]].concat(), &[])?;
        let archive = format!("{sources}/{name}-{version}.tar.gz");
        shell::run(
            &["tar", "--extract", "--gzip", "--directory", &sources, "--file", &archive],
            &[],
        )?;
    }
    Ok(())
}

/// Makes the environment where there is none; its Python. The program `pip` would go wrong where
/// the folder was moved since.
fn made(environment: &Path) -> Result<String, String> {
    let python = environment.join("bin/python").display().to_string();
    if shell::output_of(&[&python, "-m", "pip", "--version"]).is_none() {
        shell::run(&["python3", "-m", "venv", &environment.display().to_string()], &[])?;
    }
    Ok(python)
}

fn folder() -> PathBuf {
    std::env::var_os("ARROW_DEVICE_PEERS")
        .map_or_else(|| shell::root().join("target/peers"), PathBuf::from)
}

fn are_all(file: &str, is_there: impl Fn(&str, &str) -> bool) -> bool {
    pins(file).is_ok_and(|pins| pins.iter().all(|(name, version)| is_there(name, version)))
}

/// The names and versions in a file of pins.
pub(crate) fn pins(file: &str) -> Result<Vec<(String, String)>, String> {
    parsed(&shell::read(file)?).ok_or_else(|| format!("{file} has a line that pins no version"))
}

fn parsed(text: &str) -> Option<Vec<(String, String)>> {
    let lines = text.lines().map(str::trim);
    let pins = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    pins.map(|pin| pin.split_once("==").map(|(name, version)| (name.into(), version.into())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_pinned_to_one_version() {
        assert!(
            [WHEELS, HEADERS, SOURCES, WEBGPU, DAWN]
                .iter()
                .all(|file| !pins(file).unwrap().is_empty())
        );
        assert_eq!(parsed("# words\n\na==1.2\n"), Some(vec![("a".into(), "1.2".into())]));
        assert_eq!(parsed("a>=1"), None);
    }

    #[test]
    fn what_is_pinned_otherwise_is_missing() {
        assert!(are_all(WHEELS, |name, version| !name.is_empty() && !version.is_empty()));
        assert!(!are_all(WHEELS, |_, version| version == "no such version"));
        assert!(!are_all("no such file", |_, _| true));
    }
}
