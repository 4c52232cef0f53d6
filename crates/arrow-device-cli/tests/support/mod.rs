//! What the tests share: running the command, folders that go away, and what may be missing.
#![allow(dead_code)]

#[cfg(feature = "files")]
pub(crate) mod files;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) use arrow_device_testkit::required::skip;

pub(crate) fn arrow_device() -> Command {
    Command::new(env!("CARGO_BIN_EXE_arrow-device"))
}

pub(crate) fn run(arguments: &[&str]) -> Output {
    arrow_device().args(arguments).output().unwrap()
}

/// What it prints, where it succeeds without a complaint.
pub(crate) fn output(arguments: &[&str]) -> String {
    let output = run(arguments);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && complaint.is_empty(), "{arguments:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

/// What it complains of, which is one line, where it fails with this code.
pub(crate) fn complaint(arguments: &[&str], code: i32) -> String {
    let output = run(arguments);
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {complaint}");
    assert!(complaint.starts_with("arrow-device: "), "{complaint}");
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    assert!(output.stdout.is_empty());
    complaint
}

/// The names of all devices that are here. Without OpenCL, Vulkan or a simulator that is said, or a
/// failure where it is required.
pub(crate) fn devices() -> Vec<String> {
    let table = output(&["devices"]);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
    let mut devices = Vec::new();
    for line in table.lines().map(words) {
        match line.as_slice() {
            [name, here, ..] if here == "yes" => devices.push(name.clone()),
            [name, here, why @ ..]
                if ["opencl", "vpi", "vulkan"].contains(&name.as_str()) && here == "no" =>
            {
                skip(name, &why.join(" "));
            }
            _ => {}
        }
    }
    assert!(devices.len() >= 2, "{table}");
    devices
}

/// A folder of the test's own, which is removed at its end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("arrow-device-cli-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The names of all that is in it.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
