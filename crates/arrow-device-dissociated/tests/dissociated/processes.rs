//! A server and a client in two processes: the second one is this program again, for one test.

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use arrow_device::{Batch, Device};
use arrow_device_dissociated::{Client, Location, Server, UnixTransport};
use arrow_device_sim::Sim;
use arrow_device_testkit::golden;
use arrow_device_testkit::process::alone;
use arrow_device_testkit::required::skip;

use crate::support::{opening, read_golden, require_same, sharing};

/// Tells the second process where the server is.
const LOCATION: &str = "ARROW_DEVICE_DISSOCIATED_TEST_LOCATION";

/// A socket in the file system, which goes with this value.
pub(crate) struct Meeting {
    path: PathBuf,
    listener: UnixListener,
}

impl Meeting {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("arrow-device-dissociated-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = UnixListener::bind(&path).unwrap();
        Self { path, listener }
    }

    pub(crate) fn location(&self, device: &Device) -> Location {
        Location::new(format!("unix://{}", self.path.display())).sharing(device)
    }

    pub(crate) fn accept(&self) -> UnixTransport {
        UnixTransport::new(self.listener.accept().unwrap().0)
    }

    /// Starts the second process for the test of this name.
    pub(crate) fn start(test: &str, location: &Location, more: &[(&str, String)]) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(LOCATION, location.to_string())
            .envs(more.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The location, in the second process.
pub(crate) fn told() -> Option<Location> {
    std::env::var(LOCATION).ok().map(|text| text.parse().unwrap())
}

/// Sends each golden stream from a device to a client in another process, which has the batches on
/// its device and holds them against the files.
fn golden_streams_cross(test: &str, device: &Device) {
    if let Some(location) = told() {
        for path in golden::streams() {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let expected: Vec<Batch> = read_golden(&path).map(Result::unwrap).collect();
            let transport = UnixTransport::connect(&location).unwrap();
            let mut client =
                Client::request(transport, &location, name.as_bytes(), opening(device)).unwrap();
            require_same(&mut client, device, &expected, &name);
            assert_eq!(client.counts().packed_bytes, 0, "{name}");
        }
        return;
    }
    let meeting = Meeting::new();
    let location = meeting.location(device);
    let queue = device.open_queue().unwrap();
    let mut child = Meeting::start(test, &location, &[]);
    for path in golden::streams() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let server = Server::new(meeting.accept(), &location, sharing(device)).unwrap();
        let counts = server.serve(|ticket| {
            assert_eq!(ticket, name.as_bytes());
            Ok(read_golden(&path).on(&queue))
        });
        let counts = counts.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(counts.packed_bytes, 0, "{name}");
    }
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn golden_streams_cross_in_memory_of_the_host() {
    let test = "processes::golden_streams_cross_in_memory_of_the_host";
    golden_streams_cross(test, &Device::host());
}

#[test]
fn golden_streams_cross_in_memory_of_the_software_device() {
    let test = "processes::golden_streams_cross_in_memory_of_the_software_device";
    let sim = Sim::builder().backtraces(false).build();
    golden_streams_cross(test, &sim.device());
}

#[test]
fn golden_streams_cross_in_memory_of_opencl() {
    let test = "processes::golden_streams_cross_in_memory_of_opencl";
    let run = || {
        if let Err(reason) = arrow_device_opencl::is_available() {
            return skip("opencl", &reason.to_string());
        }
        let device = arrow_device_opencl::open(0).unwrap();
        if device.sharing_domain().is_none() {
            return skip("opencl", "memory of the device cannot be shared");
        }
        golden_streams_cross(test, &device);
    };
    // The second process has one test, and is alone.
    if told().is_some() { run() } else { alone(run) }
}

#[test]
fn golden_streams_cross_in_memory_of_vulkan() {
    let test = "processes::golden_streams_cross_in_memory_of_vulkan";
    let run = || {
        if let Err(reason) = arrow_device_vulkan::is_available() {
            return skip("vulkan", &reason.to_string());
        }
        let device = arrow_device_vulkan::open(0).unwrap();
        if device.sharing_domain().is_none() {
            return skip("vulkan", "memory of the device cannot be shared");
        }
        golden_streams_cross(test, &device);
    };
    if told().is_some() { run() } else { alone(run) }
}
