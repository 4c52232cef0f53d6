//! `cargo xtask gpu-bundle`: a folder for a machine that has a GPU and no Rust, and no network.
//!
//! It has the program that runs the checks on the machine's devices and measures copies, the wheel
//! of the Python package, the scripts that exchange data with the libraries that the machine's
//! Python has, nanoarrow's source package, which is compiled there, and a `run.sh` that runs all of
//! it and writes one JSON report. Nothing in it says that it ran anywhere.
//!
//! `cargo xtask gpu-bundle test` runs a copy of it on the simulated driver.

use std::path::{Path, PathBuf};

use crate::{peers, python, shell};

const PROGRAM: &str = "arrow-device-gpu-hardware";
/// What Python runs, and `run.sh`.
const SCRIPTS: &str = "python/hardware";
/// Where the folder is made.
const FOLDER: &str = "target/gpu-bundle";
/// The file that says what the folder was built from, for the report.
const COMMIT: &str = "COMMIT";
/// How large the folder may be.
const LARGEST: u64 = 60 << 20;

/// Builds it, anew.
pub(crate) fn bundle() -> Result<(), String> {
    shell::run(
        &[
            "cargo",
            "build",
            "--release",
            "--config=profile.release.strip=true",
            "--config=profile.release.debug=false",
            "--package=gpu-backends",
            "--bin=arrow-device-gpu-hardware",
        ],
        &[],
    )?;
    let wheel = PathBuf::from(python::build()?);
    let folder = shell::root().join(FOLDER);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| shell::said(&folder, &error))?;
    }
    std::fs::create_dir_all(&folder).map_err(|error| shell::said(&folder, &error))?;
    let mut size = copy(&target_folder().join("release").join(PROGRAM), &folder)?;
    size += copy(&wheel, &folder)?;
    for script in scripts()? {
        size += copy(&script, &folder)?;
    }
    size += copy(&peers::source_package("nanoarrow")?, &folder)?;
    let commit = folder.join(COMMIT);
    std::fs::write(&commit, commit_of_this()?).map_err(|error| shell::said(&commit, &error))?;
    if size > LARGEST {
        return Err(format!("{FOLDER} has {size} bytes, and may have {LARGEST}"));
    }
    println!("{FOLDER}: {} KiB; run.sh there writes report.json", size >> 10);
    Ok(())
}

/// Builds it and runs a copy. The tests print the line that counts them.
pub(crate) fn test() -> Result<(), String> {
    bundle()?;
    python::test_bundle(&shell::root().join(FOLDER).display().to_string())
}

/// The commit, and which files were changed since.
fn commit_of_this() -> Result<String, String> {
    let said = |words: &[&str]| {
        shell::output_of(words).ok_or_else(|| format!("`{}` failed", words.join(" ")))
    };
    let commit = said(&["git", "rev-parse", "HEAD"])?;
    let changed = said(&["git", "status", "--porcelain", "--untracked-files=no"])?;
    Ok(format!("{}\n{changed}", commit.trim()))
}

/// The files of the folder of scripts, as git has them, so that what Python leaves there stays
/// behind.
fn scripts() -> Result<Vec<PathBuf>, String> {
    let mut files = shell::project_files(&["py", "sh", "c", "h"])?;
    files.retain(|file| file.parent() == Some(Path::new(SCRIPTS)));
    Ok(files.into_iter().map(|file| shell::root().join(file)).collect())
}

/// Copies a file with its permissions; returns how long it is.
fn copy(file: &Path, folder: &Path) -> Result<u64, String> {
    let name = file.file_name().ok_or_else(|| format!("{} is no file", file.display()))?;
    std::fs::copy(file, folder.join(name)).map_err(|error| shell::said(file, &error))
}

fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| shell::root().join("target"), Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_are_there_and_can_be_run() {
        let found = scripts().unwrap();
        let names: Vec<_> = found.iter().filter_map(|path| path.file_name()).collect();
        for name in ["run.sh", "hardware.py", "sections.py", "exchange.py", "hazards.py"]
            .into_iter()
            .chain(["libraries.py", "columns.py", "compiled.py", "plots.py"])
            .chain(["gtest.h", "nanoarrow_cuda.c"])
        {
            assert!(names.contains(&std::ffi::OsStr::new(name)), "{name}: {names:?}");
        }
        #[cfg(unix)]
        for script in found.iter().filter(|path| path.extension().is_some_and(|end| end == "sh")) {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(script).unwrap().permissions().mode();
            assert_eq!(mode & 0o111, 0o111, "{}", script.display());
        }
    }
}
