//! The package `arrow-device-check` of Python: the checker and the command `arrow-device`, as
//! wheels of programs, so that neither needs Rust to be installed.
//!
//! A wheel has two programs, which pip puts where the programs of the environment are, and the
//! library that functions in Python are checked with, which pip puts into the folder `lib` of the
//! environment: the checker looks there. cargo-zigbuild links all three against old versions of
//! glibc, and against musl.

use std::fs;
use std::path::{Path, PathBuf};

use super::addresses::Addresses;
use super::python::{self, System};
use super::{contents, licences, readme, rust};
use crate::shell;

/// The package of Python.
const NAME: &str = "arrow-device-check";
/// The programs, with the crates that they are in.
const PROGRAMS: [&str; 2] = ["arrow-device", "arrow-device-check"];
const CRATES: [&str; 2] = ["arrow-device-cli", NAME];
/// What functions in Python are checked with.
const LIBRARY: &str = "libarrow_device_check.so";
/// What the command can do, in addition to what it can do by default. Files of Parquet are left
/// out, whose crates are larger than all else.
const FEATURES: &str = "arrow-device-cli/check";
/// What the registry shows.
const PAGE: &str = "packaging/checker/README.md";
/// The newest version of glibc whose symbols the files may need: that of manylinux2014.
const GLIBC: (u32, u32) = (2, 17);
/// What packs a wheel.
const PACK: &str = include_str!("wheel.py");

/// Builds a wheel for each system.
pub(super) fn make(
    source: &Path,
    work: &Path,
    folder: &Path,
    addresses: &Addresses,
) -> Result<(), String> {
    let tools = python::tools(work)?;
    let script = work.join("wheel.py");
    fs::write(&script, PACK).map_err(|error| shell::said(&script, &error))?;
    let version = rust::version(source)?;
    let urls = addresses.of_packages().map(|(name, value)| format!("\"{name}\": \"{value}\""));
    let urls = urls.collect::<Vec<_>>().join(", ");
    let contents = contents::write(source, work, folder, &contents::CHECKER)?;
    let licences = licences::write(source, work, &contents::CHECKER)?;
    for system in python::SYSTEMS {
        let programs = build(source, work, &tools, system, &version)?;
        let wish = description(
            source,
            folder,
            &programs,
            [&licences, &contents],
            system,
            (&version, &urls),
        )?;
        let file = work.join("wheel.json");
        fs::write(&file, wish).map_err(|error| shell::said(&file, &error))?;
        let words = ["python3", &script.display().to_string(), &file.display().to_string()];
        shell::run(&words, &[])?;
    }
    let made = wheels(folder)?.len();
    if made == python::SYSTEMS.len() {
        Ok(())
    } else {
        Err(format!("there are {made} wheels of {NAME} for {} systems", python::SYSTEMS.len()))
    }
}

/// Compiles for a system; the folder with the programs and the library.
fn build(
    source: &Path,
    work: &Path,
    tools: &python::Tools,
    system: &System,
    version: &str,
) -> Result<PathBuf, String> {
    shell::run(&["rustup", "target", "add", system.target], &[])?;
    let zigbuild = tools.bin.join("cargo-zigbuild").display().to_string();
    let manifest = format!("--manifest-path={}", source.join("Cargo.toml").display());
    let target_folder = work.join("target-checker");
    let in_folder = format!("--target-dir={}", target_folder.display());
    let is_musl = system.target.ends_with("musl");
    let (major, minor) = GLIBC;
    let target = match is_musl {
        true => format!("--target={}", system.target),
        false => format!("--target={}.{major}.{minor}", system.target),
    };
    let mut flags = rust::without_paths(source, version);
    // A program that loads libraries must be linked to musl as to a shared library.
    if is_musl {
        flags += " -Ctarget-feature=-crt-static";
    }
    let build = [&zigbuild, "zigbuild", "--release", "--locked", "--quiet", &manifest, &in_folder];
    let features = format!("--features={FEATURES}");
    let packages = CRATES.map(|name| format!("--package={name}"));
    let what = [&target, &features, &packages[0], &packages[1]].map(String::as_str);
    let variables = [
        ("PATH", tools.path.as_str()),
        ("RUSTFLAGS", flags.as_str()),
        // Tables for debuggers are most of the bytes, and those of zig name the folder of zig.
        ("CARGO_PROFILE_RELEASE_STRIP", "debuginfo"),
    ];
    shell::run(&[&build[..], &what].concat(), &variables)?;
    let built = target_folder.join(system.target).join("release");
    if !is_musl {
        for file in PROGRAMS.iter().chain([&LIBRARY]) {
            look_at_symbols(&built.join(file))?;
        }
    }
    Ok(built)
}

/// Fails where a file needs a newer glibc than manylinux2014 promises, or a function that glibc did
/// not have then: a linker gives the name of such a function no version, and lets a shared library
/// pass.
pub(super) fn look_at_symbols(file: &Path) -> Result<(), String> {
    let path = file.display().to_string();
    let newest = glibc_of(&path)?;
    if newest > GLIBC {
        return Err(format!("{path} needs glibc {}.{}", newest.0, newest.1));
    }
    let symbols = shell::output_of(&["readelf", "--dyn-syms", "--wide", &path]);
    let symbols = symbols.ok_or_else(|| format!("`readelf` cannot read {path}"))?;
    match unversioned(&symbols).as_slice() {
        [] => Ok(()),
        names => Err(format!("{path} needs what glibc 2.17 has not: {}", names.join(", "))),
    }
}

/// The symbols of a list by `readelf` that must come from elsewhere and have no version, but for
/// those of Python.
fn unversioned(symbols: &str) -> Vec<&str> {
    let names = symbols.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(4);
        let (binding, section) = (words.next()?, words.nth(1)?);
        let name = words.next()?;
        (binding == "GLOBAL" && section == "UND").then_some(name)
    });
    names
        .filter(|name| !name.contains('@') && !name.trim_start_matches('_').starts_with("Py"))
        .collect()
}

/// The newest version of glibc whose symbols a file needs.
pub(super) fn glibc_of(file: &str) -> Result<(u32, u32), String> {
    let needs = shell::output_of(&["readelf", "--version-info", "--wide", file]);
    let needs = needs.ok_or_else(|| format!("`readelf` cannot read {file}"))?;
    newest_glibc(&needs).ok_or_else(|| format!("{file} needs no glibc"))
}

/// The newest version of glibc that a list of versions by `readelf` names.
fn newest_glibc(needs: &str) -> Option<(u32, u32)> {
    let names = needs.split("GLIBC_").skip(1);
    let versions = names.filter_map(|rest| {
        let version = rest.split(|c: char| c != '.' && !c.is_ascii_digit()).next()?;
        let (major, minor) = version.split_once('.')?;
        let minor = minor.split('.').next()?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    versions.max()
}

/// What `wheel.py` is to do. None of the texts has a character that JSON writes in another way.
fn description(
    source: &Path,
    folder: &Path,
    programs: &Path,
    [licences, contents]: [&Path; 2],
    system: &System,
    (version, urls): (&str, &str),
) -> Result<String, String> {
    let package = source.join(readme::CRATES).join(NAME);
    let manifest = shell::read(package.join("Cargo.toml"))?;
    let summary = readme::member(&manifest, "description").unwrap_or_default();
    let processor = system.target.split('-').next().unwrap_or_default();
    let platforms = match system.tag {
        // The old name of the same, which older installers know.
        "manylinux2014" => {
            format!("[\"manylinux_2_17_{processor}\", \"manylinux2014_{processor}\"]")
        }
        tag => format!("[\"{tag}_{processor}\"]"),
    };
    let data = format!("{}-{version}.data", NAME.replace('-', "_"));
    let mut files: Vec<String> = PROGRAMS
        .iter()
        .map(|name| format!("\"{data}/scripts/{name}\": \"{}\"", programs.join(name).display()))
        .collect();
    let library = programs.join(LIBRARY);
    files.push(format!("\"{data}/data/lib/{LIBRARY}\": \"{}\"", library.display()));
    Ok(format!(
        "{{\"folder\": \"{}\", \"name\": \"{NAME}\", \"version\": \"{version}\", \"summary\": \"{summary}\",\n\
         \"readme\": \"{}\", \"licences\": {{\"LICENSE\": \"{}\", \"{}\": \"{}\"}}, \"lists\": {{\"{}\": \"{}\"}}, \"urls\": {{{urls}}}, \"platforms\": {platforms},\n\"files\": {{{}}}}}\n",
        folder.display(),
        source.join(PAGE).display(),
        source.join("LICENSE").display(),
        licences::FILE,
        licences.display(),
        contents::CHECKER.list,
        contents.display(),
        files.join(", ")
    ))
}

/// The wheels of this package.
fn wheels(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut wheels = super::files_ending(folder, "whl")?;
    wheels.retain(|file| python::is_of(file, NAME));
    Ok(wheels)
}

/// Functions in Python that need no package: one that hands
/// on what it is given and one that makes no data.
const FUNCTIONS: &str = "\
def hand_on(data):
    return data

def make():
    return 3
";

/// Installs the wheel of this machine into an environment that has nothing else, and runs both
/// programs with nothing but that environment.
pub(super) fn prove(work: &Path, folder: &Path) -> Result<(), String> {
    let all = wheels(folder)?;
    let Some(wheel) = python::wheel_of_this_machine(&all)? else {
        println!("skipped: no wheel of {NAME} is for this machine");
        return Ok(());
    };
    let environment = work.join("checker-env");
    let python = python::fresh(&environment)?;
    let install = [python.as_str(), "-m", "pip", "install", "--quiet", "--no-index"];
    shell::run(&[&install[..], &[&wheel.display().to_string()]].concat(), &[])?;
    let folder = work.join("checker-functions");
    super::empty(&folder)?;
    let module = folder.join("functions.py");
    fs::write(&module, FUNCTIONS).map_err(|error| shell::said(&module, &error))?;
    let (bin, modules) = (environment.join("bin"), folder.display().to_string());
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let variables = [("PATH", path.as_str()), ("PYTHONPATH", modules.as_str())];
    let [command, checker] = PROGRAMS.map(|name| bin.join(name).display().to_string());
    let hand_on = ["--python", "functions:hand_on", "--as", "relay"];
    shell::run(&[&command, "devices"], &variables)?;
    shell::run(&[&command, "demo"], &variables)?;
    // The report must have this line. What hands on the same object breaks rules of a relay.
    let finds = |line: &str, words: &[&str]| {
        let script = format!("\"$0\" \"$@\" | grep '{line}'");
        shell::run(&[&["sh", "-c", &script][..], words].concat(), &variables)
    };
    finds("^pass: ABI-1 ABI-2", &[&[checker.as_str()][..], &hand_on].concat())?;
    finds("^pass: ABI-1 ABI-2", &[&[command.as_str(), "check"][..], &hand_on].concat())?;
    finds("^FAIL PEER", &[&checker, "--python", "functions:make"])?;
    println!("test result: ok. 5 passed; 0 failed; 0 ignored");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_glibc_is_found_by_number_and_not_by_letter() {
        let needs =
            "Name: GLIBC_2.2.5  Flags: none\n Name: GLIBC_2.17\n Name: GLIBC_2.9 Name: GCC_3.0";
        assert_eq!(newest_glibc(needs), Some((2, 17)));
        assert_eq!(newest_glibc("Name: GLIBC_2.34\n"), Some((2, 34)));
        assert_eq!(newest_glibc("Name: GLIBC_PRIVATE"), None);
    }

    #[test]
    fn a_function_that_old_glibc_has_not_is_found_and_those_of_python_are_none() {
        let symbols = "\
   Num:    Value          Size Type    Bind   Vis      Ndx Name
     1: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND memfd_create
     2: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND malloc@GLIBC_2.2.5 (2)
     3: 0000000000000000     0 NOTYPE  WEAK   DEFAULT  UND gettid
     4: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND PyErr_Print
     5: 0000000000000000     0 OBJECT  GLOBAL DEFAULT  UND _Py_NoneStruct
     6: 0000000000001000     9 FUNC    GLOBAL DEFAULT   12 PyInit__native
";
        assert_eq!(unversioned(symbols), ["memfd_create"]);
    }
}
