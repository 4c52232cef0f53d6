//! `cargo xtask gpu-bundle`: a folder for a machine that has a GPU and no Rust.
//!
//! It has the program that runs the checks on the machine's devices and measures copies, and a `run.sh` that writes one JSON
//! report. Nothing in it says that it ran anywhere.

use std::path::{Path, PathBuf};

use crate::shell;

const PROGRAM: &str = "arrow-device-gpu-hardware";
/// How large the folder may be.
const LARGEST: u64 = 60 << 20;

const RUN: &str = "\
#!/bin/sh
# Runs the checks on this machine's CUDA and ROCm devices and writes one report: report.json, or where told.
# The NVIDIA driver or ROCm has to be installed; nothing else has.
set -u
here=$(cd \"$(dirname \"$0\")\" && pwd)
report=${1:-$here/report.json}
exec \"$here/arrow-device-gpu-hardware\" \"$report\"
";

/// Builds it, in `target/gpu-bundle`.
pub(crate) fn bundle() -> Result<(), String> {
    shell::run(
        &[
            "cargo",
            "build",
            "--release",
            "--config=profile.release.strip=true",
            "--config=profile.release.debug=false",
            "--package=arrow-device-gpu-checks",
            "--bin=arrow-device-gpu-hardware",
        ],
        &[],
    )?;
    let folder = shell::root().join("target/gpu-bundle");
    let said = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(&folder).map_err(|error| said(&folder, error))?;
    let built = target_folder().join("release").join(PROGRAM);
    let program = folder.join(PROGRAM);
    let size = std::fs::copy(&built, &program).map_err(|error| said(&built, error))?;
    let script = folder.join("run.sh");
    std::fs::write(&script, RUN).map_err(|error| said(&script, error))?;
    make_executable(&script).map_err(|error| said(&script, error))?;
    if size > LARGEST {
        return Err(format!("the program has {size} bytes, and the folder may have {LARGEST}"));
    }
    println!("{}: {} KiB; run.sh there writes report.json", folder.display(), size >> 10);
    Ok(())
}

fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| shell::root().join("target"), Into::into)
}

#[cfg(unix)]
fn make_executable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_path: &Path) -> std::io::Result<()> {
    Ok(())
}
