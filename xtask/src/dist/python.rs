//! The Python package: wheels for two processors and two C libraries, and the sources; each looked
//! through, and those of this machine installed and used.
//!
//! The wheels are linked by zig, which knows the symbols of old versions of glibc, and of musl. One
//! wheel is for every Python from 3.11 on.

use std::fs;
use std::path::{Path, PathBuf};

use super::{contents, licences, rust};
use crate::python::MATURIN_IS_BEHIND;
use crate::{peers, shell};

/// A system that gets a wheel.
pub(super) struct System {
    /// Rust's name of the target.
    pub(super) target: &'static str,
    /// Which C library, as the wheel's name says.
    pub(super) tag: &'static str,
    /// Whether the wheel runs on this machine.
    is_here: bool,
}

const fn system(target: &'static str, tag: &'static str, is_here: bool) -> System {
    System { target, tag, is_here }
}

pub(super) const SYSTEMS: &[System] = &[
    system("x86_64-unknown-linux-gnu", "manylinux2014", cfg!(target_arch = "x86_64")),
    system("aarch64-unknown-linux-gnu", "manylinux2014", cfg!(target_arch = "aarch64")),
    system("x86_64-unknown-linux-musl", "musllinux_1_2", false),
    system("aarch64-unknown-linux-musl", "musllinux_1_2", false),
];

/// What builds the wheels; pinned, so that two runs make the same bytes.
const TOOLS: &str = "xtask/dist-requirements.txt";

/// What the name of a wheel for every Python has.
const EVERY_PYTHON: &str = "abi3";
/// Pythons without a lock, and what the name of a wheel for each has. Such a wheel is for one
/// version, and is made where the interpreter is.
const FREE_THREADED: [(&str, &str); 2] = [("python3.13t", "cp313t"), ("python3.14t", "cp314t")];
/// The name of the package.
const NAME: &str = "arrow-device";

/// Where the tools are, and what `PATH` is for them.
pub(super) struct Tools {
    pub(super) bin: PathBuf,
    pub(super) path: String,
}

/// Installs what builds wheels.
pub(super) fn tools(work: &Path) -> Result<Tools, String> {
    let tools = work.join("python-tools");
    peers::install_into(&tools, TOOLS)?;
    let bin = tools.join("bin");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", bin.display());
    Ok(Tools { bin, path })
}

/// Builds all wheels and the package of sources.
pub(super) fn make(source: &Path, work: &Path, folder: &Path) -> Result<(), String> {
    let list = contents::write(source, work, folder, &contents::WHEEL)?.display().to_string();
    licences::write_into(source, work, &contents::WHEEL, "python")?;
    name_licences(source)?;
    let tools = tools(work)?;
    let maturin = tools.bin.join("maturin").display().to_string();
    let target = work.join("target-python").display().to_string();
    let flags = rust::without_paths(source, &rust::version(source)?);
    let variables = [
        ("PATH", tools.path.as_str()),
        ("CARGO_TARGET_DIR", target.as_str()),
        ("RUSTFLAGS", flags.as_str()),
        MATURIN_IS_BEHIND,
    ];
    let manifest = format!("--manifest-path={}", source.join("python/Cargo.toml").display());
    let out = folder.display().to_string();
    let built = |system: &System, which: &[&str], of: &str| {
        let build = [&maturin, "build", "--release", "--locked", "--quiet", "--zig", &manifest];
        let contents = ["--sbom-include", &list];
        let what = ["--target", system.target, "--compatibility", system.tag, "--out", &out];
        shell::run(&[&build[..], &what, &contents, which].concat(), &variables)?;
        let wheel = wheel_of(folder, system, of)?;
        add_module(source, &Path::new(&target).join(system.target), &wheel)?;
        look_through(&wheel, work)
    };
    for system in SYSTEMS {
        shell::run(&["rustup", "target", "add", system.target], &[])?;
        built(system, &[], EVERY_PYTHON)?;
    }
    shell::run(&[&maturin, "sdist", &manifest, "--out", &out], &variables)?;
    let wheels = wheels(folder)?;
    if wheels.len() != SYSTEMS.len() {
        return Err(format!("there are {} wheels for {} systems", wheels.len(), SYSTEMS.len()));
    }
    let here = SYSTEMS.iter().find(|system| system.is_here);
    for (python, tag) in FREE_THREADED {
        let (Some(here), Some(_)) = (here, shell::output_of(&[python, "--version"])) else {
            println!("left out: a wheel for {python}, which is not there");
            continue;
        };
        built(here, &["--interpreter", python, "--no-default-features"], tag)?;
    }
    Ok(())
}

/// Has the manifest of the copy name the licences of others, which are in no checkout.
fn name_licences(source: &Path) -> Result<(), String> {
    let all = format!("license-files = [\"LICENSE\", \"{}\"]", licences::FILE);
    super::change(&source.join("python/pyproject.toml"), |text| {
        text.replacen("license-files = [\"LICENSE\"]", &all, 1)
    })
}

/// The wheel for a system and a kind of Python, of which there is one.
fn wheel_of(folder: &Path, system: &System, of: &str) -> Result<PathBuf, String> {
    let wheels = super::files_ending(folder, "whl")?;
    let found = wheels.into_iter().find(|file| is_wheel_for(file, system, of));
    found.ok_or_else(|| format!("there is no wheel {of} for {}", system.target))
}

/// Whether a file's name says that it is the package's wheel for a system and a kind of Python.
fn is_wheel_for(file: &Path, system: &System, of: &str) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let processor = system.target.split('-').next().unwrap_or_default();
    let platform = format!("{}_{processor}", system.tag);
    is_of(file, NAME) && name.contains(&format!("-{of}-")) && name.contains(&platform)
}

/// Puts what a Verilog simulator loads into a wheel, which was built in this folder of cargo's.
fn add_module(source: &Path, target: &Path, wheel: &Path) -> Result<(), String> {
    let [package, target, wheel] =
        [&source.join("python"), target, wheel].map(|path| path.display().to_string());
    crate::python::add_module("python3", &package, &target, &wheel)
}

/// The wheels for every Python.
fn wheels(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut wheels = super::files_ending(folder, "whl")?;
    wheels.retain(|file| is_of(file, NAME) && file.to_string_lossy().contains("-abi3-"));
    Ok(wheels)
}

/// Whether a file is of the package with this name, as its own name says.
pub(super) fn is_of(file: &Path, package: &str) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.strip_prefix(&package.replace('-', "_")).is_some_and(|rest| rest.starts_with('-'))
}

/// The wheel that runs here, if there may be one.
pub(super) fn wheel_of_this_machine(wheels: &[PathBuf]) -> Result<Option<&PathBuf>, String> {
    let Some(here) = SYSTEMS.iter().find(|system| system.is_here) else {
        return Ok(None);
    };
    let processor = here.target.split('-').next().unwrap_or_default();
    let is_for = |wheel: &&PathBuf| {
        let name = wheel.file_name().unwrap_or_default().to_string_lossy();
        name.contains(processor) && name.contains("manylinux")
    };
    let wheel = wheels.iter().find(is_for);
    wheel.map(Some).ok_or_else(|| "there is no wheel for this machine".to_owned())
}

/// Fails where a wheel has not what everybody expects.
fn look_through(wheel: &Path, work: &Path) -> Result<(), String> {
    let path = wheel.display().to_string();
    let list = shell::output_of(&["python3", "-m", "zipfile", "--list", &path]);
    let list = list.ok_or_else(|| format!("{path} cannot be listed"))?;
    let wanted = [
        "arrow_device/libarrow_device_vpi_module.so",
        "arrow_device/py.typed",
        "arrow_device/_native.pyi",
        "licenses/LICENSE",
        licences::FILE,
        contents::WHEEL.list,
    ];
    let missing = wanted.iter().filter(|file| !list.contains(**file));
    let problems: Vec<_> = missing.map(|file| format!("{path} has no {file}")).collect();
    shell::none_of(&problems)?;
    let library = library_of(&list).ok_or_else(|| format!("{path} has no library"))?;
    if !path.contains("manylinux") {
        return Ok(());
    }
    let unpacked = work.join("unpacked-wheel");
    super::empty(&unpacked)?;
    let to = unpacked.display().to_string();
    shell::run(&["python3", "-m", "zipfile", "--extract", &path, &to], &[])?;
    super::checker::look_at_symbols(&unpacked.join(library))
}

/// The compiled module of the package in a list of a wheel's files. Its name says for which Pythons
/// the module is.
fn library_of(list: &str) -> Option<&str> {
    let mut files = list.lines().filter_map(|line| line.split_whitespace().next());
    files.find(|file| file.starts_with("arrow_device/_native.") && file.ends_with(".so"))
}

/// Uses the wheel of this machine, and the package of sources as pip builds it.
pub(super) fn prove(work: &Path, folder: &Path) -> Result<(), String> {
    prove_wheel(work, folder)?;
    let mut sources = super::files_ending(folder, "gz")?;
    sources.retain(|file| is_of(file, NAME));
    let [sources] = sources.as_slice() else {
        return Err(format!("there are {} packages of sources, and not one", sources.len()));
    };
    let python = fresh(&work.join("python-sources"))?;
    let target = work.join("target-python").display().to_string();
    let pip = [python.as_str(), "-m", "pip", "install", "--quiet", &sources.display().to_string()];
    shell::run(&pip, &[("CARGO_TARGET_DIR", target.as_str())])?;
    use_alone(&python)
}

/// An environment that has nothing in it; its Python.
pub(super) fn fresh(environment: &Path) -> Result<String, String> {
    super::empty(environment)?;
    shell::run(&["python3", "-m", "venv", &environment.display().to_string()], &[])?;
    Ok(environment.join("bin/python").display().to_string())
}

/// Uses the package where there is no other.
fn use_alone(python: &str) -> Result<(), String> {
    let program = "import arrow_device as ad; assert ad.array([1, None]).to_pylist() == [1, None]";
    shell::run(&[python, "-c", program], &[])?;
    println!("test result: ok. 1 passed; 0 failed; 0 ignored");
    Ok(())
}

/// Installs the wheel of this machine into an environment that has nothing else, and then what the
/// page uses, and runs the page's snippets.
fn prove_wheel(work: &Path, folder: &Path) -> Result<(), String> {
    let all = wheels(folder)?;
    let Some(wheel) = wheel_of_this_machine(&all)? else {
        println!("skipped: no wheel is for this machine");
        return Ok(());
    };
    let python = fresh(&work.join("python-env"))?;
    let pip = [python.as_str(), "-m", "pip", "install", "--quiet"];
    shell::run(&[&pip[..], &[&wheel.display().to_string()]].concat(), &[])?;
    use_alone(&python)?;
    shell::run(&[&pip[..], &["duckdb", "numpy", "polars", "pyarrow"]].concat(), &[])?;
    let snippets = work.join("snippets.py");
    fs::write(&snippets, SNIPPETS).map_err(|error| shell::said(&snippets, &error))?;
    let page = shell::root().join("python/README.md").display().to_string();
    shell::run(&[&python, &snippets.display().to_string(), &page], &[])
}

/// Runs each block of Python of a page, and prints the line that counts them. What needs a library
/// or a device that is not there is left out.
const SNIPPETS: &str = r#"
import re, sys
import arrow_device as ad
text = open(sys.argv[1]).read()
blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
passed, ignored = 0, 0
for block in blocks:
    try:
        exec(compile(block, sys.argv[1], "exec"), {})
        passed += 1
    except (ModuleNotFoundError, ad.DeviceError) as error:
        print(f"left out: {error}")
        ignored += 1
assert passed, "no block of Python ran"
print(f"test result: ok. {passed} passed; 0 failed; {ignored} ignored")
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wheels_of_two_packages_are_told_apart() {
        let file = Path::new("/a/arrow_device_check-0.1.0-py3-none-musllinux_1_2_x86_64.whl");
        assert!(is_of(file, "arrow-device-check") && !is_of(file, NAME));
        let file = Path::new("/a/arrow_device-0.1.0.tar.gz");
        assert!(is_of(file, NAME) && !is_of(file, "arrow-device-check"));
    }

    #[test]
    fn a_wheel_without_a_lock_is_told_from_the_one_for_every_python() {
        let name = |of: &str, platforms: &str| {
            PathBuf::from(format!("/a/arrow_device-0.1.0-{of}-{platforms}.whl"))
        };
        let old = "manylinux_2_17_x86_64.manylinux2014_x86_64";
        let [x86, aarch64, musl, ..] = SYSTEMS else { panic!("there are four systems") };
        let (every, free) = (name("cp311-abi3", old), name("cp313-cp313t", old));
        assert!(is_wheel_for(&every, x86, EVERY_PYTHON) && is_wheel_for(&free, x86, "cp313t"));
        assert!(!is_wheel_for(&free, x86, EVERY_PYTHON) && !is_wheel_for(&every, x86, "cp313t"));
        assert!(!is_wheel_for(&free, aarch64, "cp313t") && !is_wheel_for(&free, musl, "cp313t"));
        let of_musl = name("cp311-abi3", "musllinux_1_2_x86_64");
        assert!(is_wheel_for(&of_musl, musl, EVERY_PYTHON));
        assert!(!is_wheel_for(&of_musl, x86, EVERY_PYTHON));
    }

    #[test]
    fn the_library_of_a_wheel_is_no_description_of_its_types() {
        let list = "File Name   Modified   Size\narrow_device/_native.pyi  1980 5\n\
                    arrow_device/_native.cpython-313t-x86_64-linux-gnu.so  1980 7\n";
        let library = "arrow_device/_native.cpython-313t-x86_64-linux-gnu.so";
        assert_eq!(library_of(list), Some(library));
        assert_eq!(library_of("arrow_device/_native.pyi  1980 5\n"), None);
    }
}
