//! `cargo xtask python`: builds the wheel of the Python package, installs it beside the libraries
//! that it is tested against, and runs its tests there.
//!
//! The environment is `target/python/env`, or `target/python/ray` for the tests with Ray and Dask.
//! The versions of the libraries are pinned in `python/tests`.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};

use crate::{peers, shell};

/// The libraries that all tests but those of tensor libraries use, and the tools.
const PACKAGES: &str = "python/tests/requirements.txt";
/// Libraries that take long to install.
const TENSOR_LIBRARIES: &str = "python/tests/requirements-tensors.txt";
/// The tests that only those use.
const TENSOR_TESTS: &str = "python/tests/test_tensor_libraries.py";
/// Ray and Dask, and what their tests use.
const RAY_LIBRARIES: &str = "python/tests/requirements-ray.txt";
/// The tests with Ray and Dask.
const RAY_TESTS: [&str; 3] =
    ["python/tests/test_clusters.py", "python/tests/test_dask.py", "python/tests/test_ray.py"];
/// The tests with dpctl and dpnp, which `cargo xtask oneapi` runs.
pub(crate) const DPCTL_TESTS: &str = "python/tests/test_dpctl.py";
/// The tests of the scripts for a machine with a GPU.
const HARDWARE_TESTS: &str = "python/tests/test_hardware.py";
/// Where the wheel is put.
const WHEELS: &str = "target/python/wheels";

/// Which tests are run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Part {
    /// All but the other parts.
    Package,
    /// Those with PyTorch and JAX.
    Tensors,
    /// Those with Ray and Dask.
    Ray,
}

impl Part {
    /// The environment in which they run.
    fn environment(self) -> PathBuf {
        match self {
            Self::Package | Self::Tensors => environment(),
            Self::Ray => shell::root().join("target/python/ray"),
        }
    }
}

/// Whether the libraries are installed in the versions that are pinned.
pub(crate) fn has_packages() -> bool {
    peers::are_installed(&environment(), PACKAGES)
}

/// The same for JAX.
pub(crate) fn has_jax() -> bool {
    peers::are_installed(&environment(), TENSOR_LIBRARIES)
}

/// The same for Ray and Dask.
pub(crate) fn has_ray() -> bool {
    peers::are_installed(&Part::Ray.environment(), RAY_LIBRARIES)
}

/// Whether PyTorch is installed, in whatever version.
pub(crate) fn has_torch() -> bool {
    peers::packages_of(&environment()).iter().any(|folder| folder.join("torch").is_dir())
}

/// Installs the libraries.
pub(crate) fn install_packages() -> Result<(), String> {
    peers::install_into(&environment(), PACKAGES)
}

/// Installs JAX.
pub(crate) fn install_jax() -> Result<(), String> {
    peers::install_into(&environment(), TENSOR_LIBRARIES)
}

/// Installs Ray and Dask.
pub(crate) fn install_ray() -> Result<(), String> {
    peers::install_into(&Part::Ray.environment(), RAY_LIBRARIES)
}

/// Builds, installs and tests. The tests print the line that counts them.
pub(crate) fn test(part: Part) -> Result<(), String> {
    let python = installed_into(&part.environment())?;
    let pytest = [&python, "-m", "pytest", "--quiet", "--config-file=python/pyproject.toml"];
    let others = [&[TENSOR_TESTS, DPCTL_TESTS], &RAY_TESTS[..]].concat();
    let ignored: Vec<_> = others.iter().map(|file| format!("--ignore={file}")).collect();
    let which: Vec<&str> = match part {
        Part::Package => {
            std::iter::once("python/tests").chain(ignored.iter().map(String::as_str)).collect()
        }
        Part::Tensors => vec![TENSOR_TESTS],
        Part::Ray => RAY_TESTS.to_vec(),
    };
    let driver = build_simulated_driver()?;
    let runtime = build_simulated("simulated-sycl")?;
    let variables = [
        ("ARROW_DEVICE_SIMULATED_DRIVER", driver.as_str()),
        ("ARROW_DEVICE_SIMULATED_SYCL", &runtime),
    ];
    shell::run(&[&pytest[..], &which].concat(), &variables)
}

/// Builds the wheel and runs tests in another environment, where it is installed first.
pub(crate) fn test_in(
    environment: &Path,
    tests: &str,
    variables: &[(&str, &str)],
) -> Result<(), String> {
    let python = installed_into(environment)?;
    let pytest = ["-m", "pytest", "--quiet", "--config-file=python/pyproject.toml", tests];
    shell::run(&[&[python.as_str()][..], &pytest].concat(), variables)
}

/// Builds the wheel and installs it into an environment; the Python there.
fn installed_into(environment: &Path) -> Result<String, String> {
    let wheel = build()?;
    let python = environment.join("bin/python").display().to_string();
    let install = ["-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", &wheel];
    shell::run(&[&[python.as_str()][..], &install].concat(), &[])?;
    Ok(python)
}

/// A library that stands for the drivers of CUDA and HIP.
fn build_simulated_driver() -> Result<String, String> {
    build_simulated("simulated-gpu-drivers")
}

/// The library of a package that stands for a runtime.
fn build_simulated(package: &str) -> Result<String, String> {
    let target = ("CARGO_TARGET_DIR", "target");
    shell::run(&["cargo", "build", "--quiet", "--package", package], &[target])?;
    let name = format!("{DLL_PREFIX}{}{DLL_SUFFIX}", package.replace('-', "_"));
    Ok(shell::root().join("target/debug").join(name).display().to_string())
}

/// Runs the tests of the scripts for hardware on a folder that has all that such a machine gets.
pub(crate) fn test_bundle(folder: &str) -> Result<(), String> {
    let driver = build_simulated_driver()?;
    let variables =
        [("ARROW_DEVICE_SIMULATED_DRIVER", driver.as_str()), ("ARROW_DEVICE_BUNDLE", folder)];
    let only = format!("{HARDWARE_TESTS}::test_the_folder_runs_wherever_it_is_copied");
    let pytest = ["-m", "pytest", "--quiet", "--config-file=python/pyproject.toml", &only];
    shell::run(&[&[program("python").as_str()][..], &pytest].concat(), &variables)
}

/// Tells maturin that the package's backend, which is no file of maturin's, calls maturin.
pub(crate) const MATURIN_IS_BEHIND: (&str, &str) =
    ("MATURIN_NO_MISSING_BUILD_BACKEND_WARNING", "1");

/// The wheel, which is the only one in its folder then.
pub(crate) fn build() -> Result<String, String> {
    let folder = shell::root().join(WHEELS);
    for old in wheels(&folder) {
        std::fs::remove_file(&old).map_err(|error| format!("{}: {error}", old.display()))?;
    }
    let maturin = program("maturin");
    let words = [&maturin, "build", "--release", "--locked", "--quiet", "--out", WHEELS];
    let variables = [("CARGO_TARGET_DIR", "target/python/build"), MATURIN_IS_BEHIND];
    shell::run(&[&words[..], &["--manifest-path=python/Cargo.toml"]].concat(), &variables)?;
    let built = wheels(&folder).into_iter().next().ok_or("maturin built no wheel")?;
    let wheel = built.display().to_string();
    add_module(&program("python"), "python", "target/python/build", &wheel)?;
    Ok(wheel)
}

/// Puts what a Verilog simulator loads into a wheel, by the backend in the folder of the package,
/// which does so where pip calls it.
pub(crate) fn add_module(
    python: &str,
    package: &str,
    target: &str,
    wheel: &str,
) -> Result<(), String> {
    shell::run(&[python, &format!("{package}/build_backend.py"), target, wheel], &[])
}

/// What a script prints that describes the installed package; `None` where the package is not
/// installed.
pub(crate) fn reference(script: &str) -> Option<String> {
    shell::output_of(&[&program("python"), script])
}

fn wheels(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "whl");
    entries.map(|entry| entry.path()).filter(is_wheel).collect()
}

fn environment() -> PathBuf {
    shell::root().join("target/python/env")
}

fn program(name: &str) -> String {
    environment().join("bin").join(name).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_library_is_pinned_and_every_test_file_is_there() {
        for file in [PACKAGES, TENSOR_LIBRARIES, RAY_LIBRARIES] {
            assert!(!peers::pins(file).unwrap().is_empty(), "{file}");
        }
        for file in [&[TENSOR_TESTS, HARDWARE_TESTS, DPCTL_TESTS], &RAY_TESTS[..]].concat() {
            assert!(shell::root().join(file).is_file(), "{file}");
        }
    }
}
