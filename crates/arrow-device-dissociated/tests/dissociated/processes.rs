//! A server and a client in two processes: the second one is this program again, for one test.

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use arrow_device::{Batch, Device};
use arrow_device_dissociated::{
    Client, ClientOptions, Location, Server, ServerOptions, Transport, UnixTransport,
};
use arrow_device_sim::Sim;
use arrow_device_testkit::golden;
use arrow_device_testkit::process::alone;
use arrow_device_testkit::required::skip;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::support::{opening, read_golden, require_same, sharing};

/// Tells the second process where the server is.
const LOCATION: &str = "ARROW_DEVICE_DISSOCIATED_TEST_LOCATION";

/// How long a process may take to connect. One that has failed never does.
pub(crate) const CONNECTING: Duration = Duration::from_secs(120);

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
        Location::new(self.address()).sharing(device)
    }

    fn address(&self) -> String {
        format!("unix://{}", self.path.display())
    }

    /// Waits for the second process to connect.
    pub(crate) fn accept(&self) -> UnixTransport {
        let wait = Timespec::try_from(CONNECTING).unwrap();
        let mut polled = [PollFd::new(&self.listener, PollFlags::IN)];
        let ready = rustix::event::poll(&mut polled, Some(&wait)).unwrap();
        assert!(ready > 0, "the second process does not connect");
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

/// The golden streams, with their names.
fn golden_streams() -> impl Iterator<Item = (PathBuf, String)> {
    golden::streams().into_iter().map(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (path, name)
    })
}

/// Asks for each golden stream over a connection of its own, as packed bodies, and holds what comes
/// onto the device against the files.
pub(crate) fn receive_packed<T: Transport + 'static>(
    device: &Device,
    location: &Location,
    connect: impl Fn() -> T,
) {
    let queue = device.open_queue().unwrap();
    for (path, name) in golden_streams() {
        let expected: Vec<Batch> = read_golden(&path).map(Result::unwrap).collect();
        let options = ClientOptions::new();
        let client = Client::request(connect(), location, name.as_bytes(), options).unwrap();
        let came: Vec<_> = client.on(&queue).into_batches().map(Result::unwrap).collect();
        assert_eq!(came.len(), expected.len(), "{name}");
        for (came, expected) in came.iter().zip(&expected) {
            assert_eq!(came.device(), device.id(), "{name}");
            let here = came.to_host().unwrap();
            assert!(here.as_array().equals(expected.as_array()).unwrap(), "{name}");
        }
    }
}

/// Sends each golden stream from a device, over a connection of its own, to a client that
/// [receives packed bodies](receive_packed).
pub(crate) fn serve_packed<T: Transport + 'static>(
    device: &Device,
    location: &Location,
    accept: impl Fn() -> T,
) {
    let queue = device.open_queue().unwrap();
    let (mut packed, mut count) = (0, 0);
    for (path, name) in golden_streams() {
        let server = Server::new(accept(), location, ServerOptions::new()).unwrap();
        let counts = server.serve(|ticket| {
            assert_eq!(ticket, name.as_bytes());
            Ok(read_golden(&path).on(&queue))
        });
        let counts = counts.unwrap_or_else(|error| panic!("{name}: {error}"));
        // All bytes of bodies have passed the host.
        assert_eq!((counts.shared_bytes, counts.freed), (0, 0), "{name}");
        packed += counts.packed_bytes;
        count += 1;
    }
    assert!(packed > 0 || count == 0);
}

/// Sends each golden stream from a device to a client in another process, in messages over a Unix
/// socket.
fn golden_streams_cross_packed(test: &str, device: &Device) {
    if let Some(location) = told() {
        receive_packed(device, &location, || UnixTransport::connect(&location).unwrap());
        return;
    }
    let meeting = Meeting::new();
    let location = Location::new(meeting.address());
    let mut child = Meeting::start(test, &location, &[]);
    serve_packed(device, &location, || meeting.accept());
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
}

/// Sends each golden stream from a device to a client in another process, which has the batches on
/// its device and holds them against the files.
fn golden_streams_cross(test: &str, device: &Device) {
    if let Some(location) = told() {
        for (path, name) in golden_streams() {
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
    for (path, name) in golden_streams() {
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

/// Runs a test with the device of OpenCL, in a process of its own.
pub(crate) fn with_opencl(body: impl FnOnce(&Device)) {
    let run = || match arrow_device_opencl::is_available() {
        Ok(()) => body(&arrow_device_opencl::open(0).unwrap()),
        Err(reason) => skip("opencl", &reason.to_string()),
    };
    // The second process has one test, and is alone.
    if told().is_some() { run() } else { alone(run) }
}

/// Runs a test with the device of Vulkan, in a process of its own.
pub(crate) fn with_vulkan(body: impl FnOnce(&Device)) {
    let run = || match arrow_device_vulkan::is_available() {
        Ok(()) => body(&arrow_device_vulkan::open(0).unwrap()),
        Err(reason) => skip("vulkan", &reason.to_string()),
    };
    if told().is_some() { run() } else { alone(run) }
}

#[test]
fn golden_streams_cross_in_memory_of_opencl() {
    with_opencl(|device| match device.sharing_domain() {
        Some(_) => {
            golden_streams_cross("processes::golden_streams_cross_in_memory_of_opencl", device);
        }
        None => skip("opencl", "memory of the device cannot be shared"),
    });
}

#[test]
fn golden_streams_cross_in_memory_of_vulkan() {
    with_vulkan(|device| match device.sharing_domain() {
        Some(_) => {
            golden_streams_cross("processes::golden_streams_cross_in_memory_of_vulkan", device);
        }
        None => skip("vulkan", "memory of the device cannot be shared"),
    });
}

#[test]
fn golden_streams_cross_packed_over_a_unix_socket_between_software_devices() {
    let test = "processes::golden_streams_cross_packed_over_a_unix_socket_between_software_devices";
    let sim = Sim::builder().backtraces(false).build();
    golden_streams_cross_packed(test, &sim.device());
}

#[test]
fn golden_streams_cross_packed_over_a_unix_socket_between_devices_of_opencl() {
    let test =
        "processes::golden_streams_cross_packed_over_a_unix_socket_between_devices_of_opencl";
    with_opencl(|device| golden_streams_cross_packed(test, device));
}

#[test]
fn golden_streams_cross_packed_over_a_unix_socket_between_devices_of_vulkan() {
    let test =
        "processes::golden_streams_cross_packed_over_a_unix_socket_between_devices_of_vulkan";
    with_vulkan(|device| golden_streams_cross_packed(test, device));
}
