//! `cargo xtask oneapi`: runs the tests of the oneAPI devices on a real SYCL runtime, that of Intel
//! for processors, which is installed from wheels into `target/oneapi`; and the Python package
//! beside dpctl and dpnp there.

use std::fs;
use std::path::PathBuf;

use crate::{peers, python, shell};

/// dpctl, dpnp, the SYCL runtime, and a runtime of devices for processors.
const PACKAGES: &str = "testing/simulated-sycl/requirements.txt";
/// The library that holds queues back, and fills the table of functions by the header.
const SHIM: &str = "crates/arrow-device-oneapi/tests/device/shim.cpp";

fn environment() -> PathBuf {
    shell::root().join("target/oneapi")
}

/// Whether the packages are installed in the versions that are pinned.
pub(crate) fn has_packages() -> bool {
    peers::are_installed(&environment(), PACKAGES)
}

/// Installs the packages: three quarters of a gigabyte to load, and three on the disk.
pub(crate) fn install_packages() -> Result<(), String> {
    peers::install_into(&environment(), PACKAGES)
}

/// Builds the shim and runs the tests.
pub(crate) fn test() -> Result<(), String> {
    let packages = peers::packages_of(&environment());
    let named = |folder: &PathBuf| folder.join("dpctl/libDPCTLSyclInterface.so");
    let library = packages.iter().map(named).find(|library| library.is_file());
    let missing = || "dpctl is not in target/oneapi: `cargo xtask test --setup --everything`";
    let library = library.ok_or_else(missing)?.display().to_string();
    let [include, libraries] = ["include", "lib"].map(|name| environment().join(name));
    let libraries = libraries.display().to_string();

    // The wheel's own file names a folder of the machine that made the wheel.
    let vendors = environment().join("vendors");
    let write = || {
        fs::create_dir_all(&vendors)?;
        fs::write(vendors.join("intel.icd"), format!("{libraries}/libintelocl.so\n"))
    };
    write().map_err(|error| format!("{}: {error}", vendors.display()))?;

    let shim = environment().join("shim.so").display().to_string();
    let system = format!("-isystem{}", include.display());
    let found_at = format!("-Wl,-rpath,{libraries}");
    let search = format!("-L{libraries}");
    let compile = ["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"];
    let header = "-Icrates/arrow-device-oneapi/include";
    let rest = [&system, header, "-o", &shim, SHIM, &search, "-l:libsycl.so.9", &found_at];
    shell::run(&[&compile[..], &rest].concat(), &[])?;

    let vendors = vendors.display().to_string();
    let variables = [
        ("ARROW_DEVICE_ONEAPI_LIBRARY", library.as_str()),
        ("ARROW_DEVICE_ONEAPI_SHIM", &shim),
        ("ARROW_DEVICE_REQUIRE", "oneapi"),
        ("OCL_ICD_VENDORS", &vendors),
    ];
    let package = ["cargo", "test", "--package=arrow-device-oneapi", "--no-fail-fast", "--"];
    // Drivers with faults are run on the simulated runtime.
    shell::run(&[&package[..], &["--skip=faulty::"]].concat(), &variables)?;
    // Without the name of the library, which the package finds by itself.
    let variables = [("OCL_ICD_VENDORS", vendors.as_str())];
    python::test_in(&environment(), python::DPCTL_TESTS, &variables)
}
