//! The crates: packed, looked through, and used by a program that has nothing but the packages.

use std::fs;
use std::path::{Path, PathBuf};

use super::readme;
use crate::shell;

/// What every package contains.
const CONTAINS: [&str; 4] = ["Cargo.toml", "LICENSE", "README.md", "src/"];
/// What every manifest in a package says: to the registry, and to docs.rs.
const SAYS: [&str; 6] = [
    "categories = [",
    "description = \"",
    "keywords = [",
    "license = \"",
    "rust-version = \"",
    "[package.metadata.docs.rs]",
];
/// The program that uses the packed crates: the library, the software device, and IPC.
const PROGRAM: &str = r#"
use arrow_device::{Array, Batch, DataType};
use arrow_device_ipc::{ReadOptions, StreamReader, StreamWriter, WriteOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sim = arrow_device_sim::Sim::builder().build();
    let queue = sim.device().open_queue()?;
    let numbers = Array::from_values(DataType::Int64, [Some(1_i64), None, Some(3)])?;
    let batch = Batch::from_columns([("n", numbers)])?;
    let there = batch.copy_to(&queue)?;
    assert_eq!(there.device(), sim.device().id());
    let back = there.to_host()?;
    let mut writer = StreamWriter::new(Vec::new(), &back.schema()?, WriteOptions::new())?;
    writer.write(&back)?;
    let bytes = writer.finish()?;
    let mut reader = StreamReader::new(std::io::Cursor::new(bytes), ReadOptions::new())?;
    let again = reader.next().transpose()?.ok_or("no batch")?;
    assert!(again.as_array().equals(batch.as_array())?);
    drop((there, back, again));
    sim.finish();
    println!("the packed crates work");
    Ok(())
}
"#;

/// Packs all crates, each built from its package, with the others as they are packed.
pub(super) fn make(source: &Path, work: &Path, folder: &Path) -> Result<(), String> {
    let manifest = format!("--manifest-path={}", source.join("Cargo.toml").display());
    let target = work.join("target");
    let target = format!("--target-dir={}", target.display());
    let names = readme::crates()?;
    forget(&super::cargo_home(), &work.join("target"), &names)?;
    let packages: Vec<String> = names.iter().map(|name| format!("--package={name}")).collect();
    let mut words = vec!["cargo", "package", "--quiet", &manifest, &target];
    words.extend(packages.iter().map(String::as_str));
    shell::run(&words, &[])?;
    let version = version(source)?;
    for name in &names {
        let file = format!("{name}-{version}.crate");
        let packed = work.join("target/package").join(&file);
        let to = folder.join(&file);
        fs::copy(&packed, &to).map_err(|error| shell::said(&packed, &error))?;
        look_through(name, &names, &to)?;
    }
    Ok(())
}

/// Removes what cargo has unpacked and built of packages of earlier runs.
///
/// Cargo builds each package with the others from a registry, which is a folder that cargo fills
/// with them. A package of a registry never changes, so cargo looks no second time at one that it
/// has unpacked or built under the same name and version, whatever the file now holds. The times of
/// the files in a package never change either. Without this, a run would prove the new packages
/// with those of the first run in the same folder.
fn forget(cargo: &Path, target: &Path, names: &[String]) -> Result<(), String> {
    // The folder of a registry with an address has a name that begins with the address.
    let unpacked = folders(&cargo.join("registry/src"), |name| name.starts_with('-'));
    let is_ours = |folder: &str| {
        let name = folder.rsplit_once('-').map_or(folder, |(name, _)| name);
        names.iter().any(|of| of == name)
    };
    let mut stale: Vec<_> =
        unpacked.iter().flat_map(|registry| folders(registry, is_ours)).collect();
    for profile in ["debug", "release"] {
        stale.extend(folders(&target.join(profile).join(".fingerprint"), is_ours));
    }
    for folder in stale {
        fs::remove_dir_all(&folder).map_err(|error| shell::said(&folder, &error))?;
    }
    Ok(())
}

/// The folders in a folder, if there is one, whose names are as asked.
fn folders(folder: &Path, is_meant: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let meant = entries.filter(|entry| entry.file_name().to_str().is_some_and(&is_meant));
    meant.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// The version of the workspace.
pub(super) fn version(source: &Path) -> Result<String, String> {
    let path = source.join("Cargo.toml");
    let manifest = fs::read_to_string(&path).map_err(|error| shell::said(&path, &error))?;
    let version = readme::member(&manifest, "version").map(str::to_owned);
    version.ok_or_else(|| format!("{} has no version", path.display()))
}

/// The flags with which rustc leaves no path of this machine in what it compiles of these sources.
/// A panic and a report of the software device name the files and lines where they arose.
pub(super) fn without_paths(source: &Path, version: &str) -> String {
    format!(
        "--remap-path-prefix={}=/arrow-device-{version} --remap-path-prefix={}=/cargo",
        source.display(),
        super::cargo_home().display()
    )
}

/// Fails where a package has not what everybody expects, or has tests or examples that cannot be
/// built from it.
fn look_through(name: &str, crates: &[String], file: &Path) -> Result<(), String> {
    let file = file.display().to_string();
    let list = shell::output_of(&["tar", "--list", "--file", &file]);
    let list = list.ok_or_else(|| format!("`tar` cannot list {file}"))?;
    let manifest = ["--to-stdout", "--wildcards", "*/Cargo.toml"];
    let manifest = [&["tar", "--extract", "--file", &file][..], &manifest].concat();
    let manifest = shell::output_of(&manifest);
    let manifest = manifest.ok_or_else(|| format!("{file} has no manifest"))?;
    let mut problems = faults_of(name, &list);
    let silent = SAYS.iter().filter(|line| !manifest.lines().any(|of| of.starts_with(**line)));
    problems.extend(silent.map(|line| format!("the manifest of {name} has no `{line}`")));
    let examples = ["--to-stdout", "--wildcards", "*/examples/*.rs"];
    let examples = [&["tar", "--extract", "--file", &file][..], &examples].concat();
    // `tar` fails where there are none.
    let examples = shell::output_of(&examples).unwrap_or_default();
    let lacks = unnamed(name, &examples, &manifest, crates);
    problems.extend(
        lacks
            .iter()
            .map(|of| format!("an example of {name} needs {of}, which its manifest does not name")),
    );
    shell::none_of(&problems)
}

/// The crates of the project that programs of a package use and that the manifest in the package
/// does not name: packing leaves out a dependency of tests that has no version.
fn unnamed<'a>(name: &str, programs: &str, manifest: &str, crates: &'a [String]) -> Vec<&'a str> {
    let is_used = |of: &&str| programs.contains(&format!("{}::", of.replace('-', "_")));
    let is_named = |of: &str| manifest.contains(&format!("dependencies.{of}]"));
    let others = crates.iter().map(String::as_str).filter(|of| *of != name);
    others.filter(is_used).filter(|of| !is_named(of)).collect()
}

fn faults_of(name: &str, list: &str) -> Vec<String> {
    let inside = list.lines().filter_map(|line| line.split_once('/')).map(|(_, path)| path);
    let inside: Vec<&str> = inside.collect();
    let lacks =
        CONTAINS.iter().filter(|wanted| !inside.iter().any(|path| path.starts_with(**wanted)));
    let lacks = lacks.map(|wanted| format!("the package of {name} has no {wanted}"));
    let tests = inside.iter().filter(|path| path.starts_with("tests/"));
    let tests = tests.map(|path| format!("the package of {name} has {path}"));
    lacks.chain(tests).collect()
}

/// Builds and runs a new program that depends on the crates, as the packages have them, and
/// installs the library for C from its package.
pub(super) fn prove(work: &Path, folder: &Path) -> Result<(), String> {
    let (crates, program) = (work.join("crates"), work.join("program"));
    super::empty(&crates)?;
    super::empty(&program)?;
    let mut patches = String::from("\n[patch.crates-io]\n");
    for file in super::files_ending(folder, "crate")? {
        let (packed, to) = (file.display().to_string(), crates.display().to_string());
        shell::run(&["tar", "--extract", "--file", &packed, "--directory", &to], &[])?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = stem.rsplit_once('-').map_or(stem.as_str(), |(name, _)| name);
        patches.push_str(&format!("{name} = {{ path = \"{}\" }}\n", crates.join(&stem).display()));
    }
    let write = |name: &str, text: &str| {
        let path = program.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|error| shell::said(parent, &error))?;
        }
        fs::write(&path, text).map_err(|error| shell::said(&path, &error))
    };
    let configuration = crates.join(".cargo/config.toml");
    fs::create_dir_all(crates.join(".cargo"))
        .and_then(|()| fs::write(&configuration, &patches))
        .map_err(|error| shell::said(&configuration, &error))?;
    let version = version(&shell::root())?;
    let manifest = format!(
        "[package]\nname = \"program\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n\
         arrow-device = \"{version}\"\narrow-device-ipc = \"{version}\"\narrow-device-sim = \"{version}\"\n"
    );
    write("Cargo.toml", &format!("{manifest}{patches}"))?;
    write("src/main.rs", PROGRAM)?;
    let manifest = format!("--manifest-path={}", program.join("Cargo.toml").display());
    let target = format!("--target-dir={}", work.join("target").display());
    shell::run(&["cargo", "run", "--quiet", &manifest, &target], &[])?;
    println!("test result: ok. 1 passed; 0 failed; 0 ignored");
    super::c::prove_packed_installer(&crates, work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_an_earlier_run_are_forgotten_and_those_of_others_are_not() {
        let place = std::env::temp_dir().join(format!("forget-{}", std::process::id()));
        let (cargo, target) = (place.join("cargo"), place.join("target"));
        let forgotten = [
            cargo.join("registry/src/-0a1b/arrow-device-0.1.0"),
            target.join("debug/.fingerprint/arrow-device-0123456789abcdef"),
            target.join("release/.fingerprint/arrow-device-0123456789abcdef"),
        ];
        let kept = [
            cargo.join("registry/src/-0a1b/arrow-device-others-0.1.0"),
            cargo.join("registry/src/index-0a1b/arrow-device-0.1.0"),
            target.join("debug/.fingerprint/libc-0123456789abcdef"),
        ];
        for folder in forgotten.iter().chain(&kept) {
            fs::create_dir_all(folder).unwrap();
        }
        forget(&cargo, &target, &["arrow-device".to_owned()]).unwrap();
        let left: Vec<_> = forgotten.iter().filter(|folder| folder.exists()).collect();
        let is_kept = kept.iter().all(|folder| folder.exists());
        fs::remove_dir_all(&place).unwrap();
        assert!(left.is_empty() && is_kept, "{left:?} is left");
        // Where nothing was ever packed.
        forget(&cargo, &target, &[]).unwrap();
    }

    #[test]
    fn an_example_that_needs_what_the_packed_manifest_leaves_out_is_found() {
        let crates = ["arrow-device", "arrow-device-sim", "arrow-device-testkit"].map(String::from);
        let manifest = "[dependencies.arrow-device]\n[dev-dependencies.arrow-device-sim]\n";
        let program = "use arrow_device_sim::Sim;\nuse arrow_device_testkit::suite::Suite;\n";
        let find = |name, manifest| unnamed(name, program, manifest, &crates);
        assert_eq!(find("arrow-device-vpi", manifest), ["arrow-device-testkit"]);
        assert_eq!(find("arrow-device-vpi", ""), ["arrow-device-sim", "arrow-device-testkit"]);
        assert!(find("arrow-device-testkit", manifest).is_empty());
    }

    #[test]
    fn a_package_without_a_licence_or_with_tests_is_refused() {
        let good = "a-0.1.0/Cargo.toml\na-0.1.0/LICENSE\na-0.1.0/README.md\na-0.1.0/src/lib.rs\n";
        assert!(faults_of("a", good).is_empty());
        let bad = "a-0.1.0/Cargo.toml\na-0.1.0/README.md\na-0.1.0/src/lib.rs\na-0.1.0/tests/b.rs\n";
        let faults = faults_of("a", bad);
        assert_eq!(faults, ["the package of a has no LICENSE", "the package of a has tests/b.rs"]);
    }
}
