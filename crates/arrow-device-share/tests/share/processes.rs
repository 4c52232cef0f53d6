//! Two real processes: the second one is this program again, for one test, and is told a path.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use arrow_device::{Array, Device};
use arrow_device_ipc::{ReadOptions, StreamReader};
use arrow_device_share::{Receiver, Sender, to_shareable};
use arrow_device_testkit::golden;
use arrow_device_testkit::process::{alone, descriptors};

use crate::support::{batch, receive_and_keep_few, shareable, software};

/// Tells the second process which socket to connect to.
pub(crate) const PATH: &str = "ARROW_DEVICE_SHARE_TEST_SOCKET";

/// A socket in the file system, which goes with this value.
pub(crate) struct Meeting {
    path: PathBuf,
    listener: UnixListener,
}

impl Meeting {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("arrow-device-share-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = UnixListener::bind(&path).unwrap();
        Self { path, listener }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Starts the second process for the test of this name.
    pub(crate) fn start(&self, test: &str) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(PATH, &self.path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    pub(crate) fn accept(&self) -> UnixStream {
        self.listener.accept().unwrap().0
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether this is the second process.
pub(crate) fn is_second() -> bool {
    std::env::var_os(PATH).is_some()
}

/// The connection of the second process. `None` in the first one.
pub(crate) fn second() -> Option<UnixStream> {
    std::env::var_os(PATH).map(|path| UnixStream::connect(path).unwrap())
}

/// Calls something with a batch of each golden stream, in the same order in each process.
pub(crate) fn for_each_golden(mut each: impl FnMut(&str, &Array)) {
    for path in golden::streams() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let file = std::fs::File::open(&path).unwrap();
        for batch in StreamReader::new(file, ReadOptions::new()).unwrap() {
            each(&name, batch.unwrap().as_array());
        }
    }
    for rows in [0, 1, 1000] {
        each("generated", batch(rows).as_array());
    }
}

/// Sends all golden batches from a device, and has the second process compare them.
fn all_golden_batches_cross(test: &str, here: &Device, socket: UnixStream, child: &mut Child) {
    let sender = Sender::new(socket);
    for_each_golden(|name, array| {
        let array = to_shareable(array, here).unwrap();
        sender.send(&array).unwrap_or_else(|error| panic!("{test}, {name}: {error}"));
    });
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    assert!(sender.wait_until_released(Some(Duration::from_secs(60))).unwrap());
}

fn compare_golden_batches(there: &Device, socket: UnixStream) {
    let mut receiver = Receiver::new(socket, [there.clone()]);
    for_each_golden(|name, expected| {
        let array = receiver.receive().unwrap().unwrap();
        assert_eq!(array.device().device_type, there.id().device_type, "{name}");
        let array = array.to_host().unwrap();
        array.validate().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(array.field(), expected.field(), "{name}");
        assert!(array.equals(expected).unwrap(), "{name}");
    });
}

#[test]
fn golden_batches_cross_in_host_memory() {
    if let Some(socket) = second() {
        return compare_golden_batches(&Device::host(), socket);
    }
    let meeting = Meeting::new("golden-host");
    let test = "processes::golden_batches_cross_in_host_memory";
    let mut child = meeting.start(test);
    all_golden_batches_cross(test, &Device::host(), meeting.accept(), &mut child);
}

#[test]
fn golden_batches_cross_in_memory_of_the_software_device() {
    let (_sim, device) = software();
    if let Some(socket) = second() {
        return compare_golden_batches(&device, socket);
    }
    let meeting = Meeting::new("golden-software");
    let test = "processes::golden_batches_cross_in_memory_of_the_software_device";
    let mut child = meeting.start(test);
    all_golden_batches_cross(test, &device, meeting.accept(), &mut child);
}

/// How many times one side is killed, unless somebody asks for more.
const ROUNDS: u64 = 40;

/// How many times one side is killed in this run.
pub(crate) fn rounds(usual: u64) -> u64 {
    std::env::var("ARROW_DEVICE_SHARE_KILLS").map_or(usual, |rounds| rounds.parse().unwrap())
}

// Requirement: SAF-42
#[test]
fn a_receiver_that_is_killed_at_any_moment_leaves_nothing_behind() {
    if let Some(socket) = second() {
        return receive_and_keep_few(Receiver::new(socket, [Device::host()]));
    }
    alone(|| {
        let meeting = Meeting::new("killed-receiver");
        let test = "processes::a_receiver_that_is_killed_at_any_moment_leaves_nothing_behind";
        let before = (descriptors(), Device::host().held().allocated);
        for round in 0..rounds(ROUNDS) {
            let mut child = meeting.start(test);
            let sender = Sender::new(meeting.accept());
            let mut number = 0;
            let killer = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_micros(137 * (round % ROUNDS)));
                child.kill().unwrap();
                child.wait().unwrap();
            });
            // Until the other side is gone, or no longer reads.
            while sender.send(&shareable(number % 50)).is_ok() {
                number += 1;
            }
            killer.join().unwrap();
            assert!(sender.wait_until_released(Some(Duration::from_secs(60))).unwrap());
            assert_eq!(sender.held().unwrap(), 0);
        }
        assert_eq!((descriptors(), Device::host().held().allocated), before);
    });
}

#[test]
fn what_came_from_a_sender_that_was_killed_stays_usable() {
    if let Some(socket) = second() {
        let sender = Sender::new(socket);
        for rows in 0_i64.. {
            if sender.send(&shareable(rows % 50)).is_err() {
                return;
            }
        }
    }
    alone(|| {
        let meeting = Meeting::new("killed-sender");
        let test = "processes::what_came_from_a_sender_that_was_killed_stays_usable";
        let before = descriptors();
        for round in 0..rounds(ROUNDS) {
            let mut child = meeting.start(test);
            let mut receiver = Receiver::new(meeting.accept(), [Device::host()]);
            let mut came = Vec::new();
            for _ in 0..round % ROUNDS {
                came.push(receiver.receive().unwrap().unwrap());
            }
            child.kill().unwrap();
            child.wait().unwrap();
            // What was on its way still comes. The end may be in the middle of a message.
            while let Ok(Some(array)) = receiver.receive() {
                came.push(array);
            }
            for (rows, array) in (0..).zip(&came) {
                assert!(array.equals(batch(rows % 50).as_array()).unwrap());
            }
            drop(came);
            drop(receiver);
        }
        assert_eq!(descriptors(), before);
    });
}
