//! `arrow-device share`, and `arrow-device inspect` of what it shares: two processes.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::files::{batch, write_file};
use crate::support::{Folder, arrow_device, complaint, output, text};

/// The command that shares, which is ended with this value.
struct Sharing {
    child: Child,
    /// What it printed before others could connect.
    told: String,
}

impl Sharing {
    /// Returns once others can connect.
    fn start(input: &Path, socket: &Path, options: &[&str]) -> Self {
        let mut command: Command = arrow_device();
        command.arg("share").arg(input).arg("--socket").arg(socket).args(options);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut told = String::new();
        let mut printed = BufReader::new(child.stdout.take().unwrap());
        printed.read_line(&mut told).unwrap();
        // An object has more lines.
        while told.starts_with('{') && !told.ends_with("\n}\n") {
            assert!(printed.read_line(&mut told).unwrap() > 0, "{told}");
        }
        Self { child, told }
    }

    /// The exit code, and the complaint.
    fn end(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        let complaint = std::io::read_to_string(self.child.stderr.take().unwrap()).unwrap();
        (status.code(), complaint)
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn file(folder: &Folder) -> PathBuf {
    let path = folder.path("data.arrow");
    write_file(&path, &[batch(0, 100), batch(100, 50)]);
    path
}

#[test]
fn what_one_process_shares_another_one_shows_as_it_lies_there() {
    let folder = Folder::new();
    let (input, socket) = (file(&folder), folder.path("socket"));
    let sharing = Sharing::start(&input, &socket, &["--connections", "3"]);
    assert!(sharing.told.contains(": 2 batches, 150 rows, "), "{}", sharing.told);
    assert!(sharing.told.ends_with(" on cpu\n"), "{}", sharing.told);
    let found = std::fs::metadata(&socket).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    assert_eq!(folder.names(), ["data.arrow", "socket"]);

    let values = |source: &[&str]| {
        let shown = output(&[&["inspect"], source, &["--batches", "2", "--head", "60"]].concat());
        let at = shown.find("\nbatch 0, the first").unwrap();
        shown[at..].to_owned()
    };
    assert_eq!(values(&["--socket", text(&socket)]), values(&[text(&input)]));
    // Whoever goes before the end does not end the others.
    drop(UnixStream::connect(&socket).unwrap());
    let json = output(&["inspect", "--socket", text(&socket), "--json"]);
    assert!(json.contains("\"device\": \"cpu"), "{json}");
    assert_eq!(sharing.end(), (Some(0), String::new()));
    assert_eq!(folder.names(), ["data.arrow"]);
}

#[test]
fn memory_of_the_software_device_is_shared_and_nothing_is_reported() {
    let folder = Folder::new();
    let (input, socket) = (file(&folder), folder.path("socket"));
    let options = ["--device", "ext_dev", "--connections", "2", "--json"];
    let sharing = Sharing::start(&input, &socket, &options);
    for part in ["\"rows\": 150", "\"batches\": 2", "\"device\": \"ext_dev:0\""] {
        assert!(sharing.told.contains(part), "{}", sharing.told);
    }
    let shown = output(&["inspect", "--socket", text(&socket), "--device", "ext_dev"]);
    assert!(shown.contains("batch 0 on ext_dev (software): 100 rows"), "{shown}");
    // Without the device, its memory cannot be opened.
    let refused = complaint(&["inspect", "--socket", text(&socket)], 1);
    assert!(refused.contains("none of the receiver's devices can open the memory"), "{refused}");
    assert_eq!(sharing.end(), (Some(0), String::new()));
}

/// Whoever has memory of Vulkan can write to it, so both commands ask for trust.
#[cfg(feature = "vulkan")]
#[test]
fn memory_of_vulkan_is_shared_between_those_who_trust() {
    let is_there = output(&["devices"]).lines().any(|line| line.starts_with("vulkan:0"));
    if !is_there {
        arrow_device_testkit::required::skip("vulkan", "no Vulkan device is listed");
        return;
    }
    let folder = Folder::new();
    let (input, socket) = (file(&folder), folder.path("socket"));
    let device = ["--device", "vulkan:0"];
    let shares = [&["share", text(&input), "--socket", text(&socket)], &device[..]].concat();
    let refused = complaint(&shares, 1);
    assert!(refused.contains("`--trust`"), "{refused}");
    assert_eq!(folder.names(), ["data.arrow"]);

    let options = [&device[..], &["--connections", "2", "--trust"]].concat();
    let sharing = Sharing::start(&input, &socket, &options);
    assert!(sharing.told.ends_with(" on vulkan:0\n"), "{}", sharing.told);
    let inspects = [&["inspect", "--socket", text(&socket)], &device[..]].concat();
    let refused = complaint(&inspects, 1);
    assert!(refused.contains("a receiver that trusts its sender"), "{refused}");
    let shown = output(&[&inspects[..], &["--trust", "--head", "2"]].concat());
    // The number of a Vulkan device is the address of its handle.
    assert!(shown.contains("batch 0 on vulkan:"), "{shown}");
    assert!(shown.contains("\n1       x\n"), "{shown}");
    assert_eq!(sharing.end(), (Some(0), String::new()));
}

#[test]
fn a_signal_ends_it_and_removes_the_socket() {
    let folder = Folder::new();
    let (input, socket) = (file(&folder), folder.path("socket"));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let sharing = Sharing::start(&input, &socket, &[]);
        // In the middle of a connection, too.
        let _connected = UnixStream::connect(&socket).unwrap();
        let child = libc::pid_t::try_from(sharing.child.id()).unwrap();
        // SAFETY: kill(2): a signal to the child, which was not waited for.
        assert_eq!(unsafe { libc::kill(child, signal) }, 0);
        let (code, complaint) = sharing.end();
        assert_eq!(code, Some(130), "{complaint}");
        assert!(complaint.contains("interrupted") && complaint.lines().count() == 1, "{complaint}");
        assert_eq!(folder.names(), ["data.arrow"]);
    }
}

#[test]
fn what_is_at_the_path_already_stays() {
    let folder = Folder::new();
    let input = file(&folder);
    let before = std::fs::read(&input).unwrap();
    let refused = complaint(&["share", text(&input), "--socket", text(&input)], 1);
    assert!(refused.contains("there is something of that name"), "{refused}");
    assert_eq!(std::fs::read(&input).unwrap(), before);
    assert_eq!(folder.names(), ["data.arrow"]);
    let refused = complaint(&["inspect", "--socket", text(&folder.path("none"))], 1);
    assert!(refused.contains("none: "), "{refused}");
    complaint(&["share", text(&input)], 2);
    complaint(&["share", text(&input), "--socket", "x", "--connections", "0"], 2);
    complaint(&["inspect", text(&input), "--socket", "x"], 2);
}
