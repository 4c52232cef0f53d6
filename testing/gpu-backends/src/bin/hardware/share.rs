//! Arrays in another process: this program is started again, opens the device for itself, and
//! compares what it receives.

use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use arrow_device::driver::{MemoryHandle, Raw};
use arrow_device::{Array, DataType, Device, ErrorKind, Memory, Result};
use arrow_device_share::{Receiver, Sender, to_shareable};
use gpu_backends::Kind;

use crate::report::{Report, Value};

/// What the second process is told to do.
pub(crate) const RECEIVE: &str = "--receive";
pub(crate) const TRY_OTHERS: &str = "--try-others";

/// How long the other process may take for what is done at once.
const SOON: Option<Duration> = Some(Duration::from_secs(60));

/// The pieces of a report on how fast something went.
type Figures = [(&'static str, Value); 4];

/// How many rows the arrays have that are sent.
const ROWS: [i64; 4] = [0, 1, 1000, 300_000];

fn numbers(rows: i64) -> Array {
    let values = (0..rows).map(|row| (row % 5 != 0).then_some(row * 7));
    Array::from_values(DataType::Int64, values).unwrap()
}

/// How many arrays are sent to measure it.
fn count(is_quick: bool) -> usize {
    if is_quick { 20 } else { 2000 }
}

fn device(is_cuda: bool, ordinal: usize) -> Result<Device> {
    match is_cuda {
        true => arrow_device_cuda::open_with(ordinal, Kind::Device),
        false => arrow_device_rocm::open_with(ordinal, Kind::Device),
    }
}

fn trusting_sender(socket: UnixStream) -> Sender {
    // SAFETY: UNS-38: the other process is this program, which writes to no memory that it is sent.
    unsafe { Sender::new(socket).trusting() }
}

/// The second process: receives until there is nothing more.
pub(crate) fn receive(path: &str, is_cuda: bool, ordinal: usize) {
    let device = device(is_cuda, ordinal).unwrap();
    let socket = UnixStream::connect(path).unwrap();
    // SAFETY: UNS-38: the other process is this program, which sends what its driver exported, and
    // writes no more to what it sent.
    let mut receiver = unsafe { Receiver::new(socket, [device.clone()]).trusting() };
    for rows in ROWS {
        let array = receiver.receive().unwrap().unwrap();
        assert_eq!(array.device(), device.id());
        assert!(array.to_host().unwrap().equals(&numbers(rows)).unwrap(), "{rows} rows");
        // The device reads the memory as well.
        let queue = device.open_queue().unwrap();
        let options = arrow_device::copy::Options::new().always(true);
        let copy = array.copy_with(&queue, &options).unwrap().to_host().unwrap();
        assert!(copy.equals(&numbers(rows)).unwrap(), "{rows} rows, copied on the device");
    }
    while let Some(array) = receiver.receive().unwrap() {
        drop(array);
    }
}

/// The second process of another kind: gives the driver descriptors that are of something else, and
/// says what the driver said.
pub(crate) fn try_others(is_cuda: bool, ordinal: usize) {
    let device = device(is_cuda, ordinal).unwrap();
    let (_memory, place) = shareable_memory(&device, 5000);
    // SAFETY: UNS-36: the memory is there, and nobody writes to it.
    let right = unsafe { device.export_shared(place, false) }.unwrap();
    let file = |path: &str| OwnedFd::from(std::fs::File::open(path).unwrap());
    let pipe = std::io::pipe().unwrap();
    for (name, descriptor) in [
        ("a pipe", pipe.0.into()),
        ("a device", file("/dev/zero")),
        ("a file", file("/proc/self/exe")),
    ] {
        let handle = MemoryHandle::from_descriptor(descriptor).with_note(right.note.clone());
        // SAFETY: UNS-37 is not kept, because the descriptor is of something else: what the driver
        // does then is the question, so a process of its own asks it. Nothing reads the memory.
        let said = match unsafe { device.open_shared(handle, 5000, ()) } {
            Ok(_) => "taken".to_owned(),
            Err(error) => format!("refused, {error}"),
        };
        println!("{name}: {said}");
    }
}

fn shareable_memory(device: &Device, len: u64) -> (Memory, Raw<Memory>) {
    let device = device.shareable().unwrap();
    let queue = device.open_queue().unwrap();
    let mut memory = device.allocate(len).unwrap();
    memory.write(&queue, &vec![7; len as usize]).unwrap();
    queue.synchronize().unwrap();
    let place = memory.spot(&queue).unwrap().base;
    let place = device.find_shared(place).unwrap().memory;
    (memory, place)
}

fn start(arguments: &[&str], is_cuda: bool, ordinal: usize) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let runtime = if is_cuda { "cuda" } else { "rocm" };
    command.args(arguments).args([runtime, &ordinal.to_string()]);
    command
}

/// A socket in the file system, which goes with this value.
struct Meeting {
    path: std::path::PathBuf,
    listener: UnixListener,
}

impl Meeting {
    fn new() -> Self {
        let name = format!("arrow-device-hardware-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        Self { path, listener }
    }

    /// Waits until the other process connects. A process that ends before is a panic.
    fn accept(&self, child: &mut Child) -> UnixStream {
        self.listener.set_nonblocking(true).unwrap();
        loop {
            if let Ok((socket, _)) = self.listener.accept() {
                socket.set_nonblocking(false).unwrap();
                return socket;
            }
            if let Some(status) = child.try_wait().unwrap() {
                panic!("the second process has ended: {status}");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Sends arrays to another process, which compares them, and then as many as it takes.
fn send(device: &Device, is_cuda: bool, ordinal: usize, is_quick: bool) -> Figures {
    let meeting = Meeting::new();
    let path = meeting.path.to_string_lossy().into_owned();
    let mut command = start(&[RECEIVE, &path], is_cuda, ordinal);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let sent = send_all(meeting.accept(&mut child), device, is_quick);
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "the second process: {}, {said}", ended.status);
    let (count, seconds) = sent.unwrap();
    [
        ("device", Value::Text(device.id().to_string())),
        ("way", Value::Text("arrays of 1 MiB sent, opened and released".into())),
        ("arrays", Value::Count(count as u64)),
        ("per_second", Value::Number(count as f64 / seconds)),
    ]
}

/// How many arrays were sent one after the other, and in how many seconds.
fn send_all(socket: UnixStream, device: &Device, is_quick: bool) -> Result<(usize, f64)> {
    let sender = trusting_sender(socket);
    for rows in ROWS {
        sender.send(&to_shareable(&numbers(rows), device)?)?;
        assert!(sender.wait_until_released(SOON)?, "{rows} rows were not released");
    }
    let (array, count) = (to_shareable(&numbers(1 << 17), device)?, count(is_quick));
    let start = Instant::now();
    for _ in 0..count {
        sender.send(&array)?;
    }
    assert!(sender.wait_until_released(SOON)?, "not released");
    Ok((count, start.elapsed().as_secs_f64()))
}

/// Exports memory and opens it again in this process.
fn export_and_open(device: &Device, is_quick: bool) -> Figures {
    let (_memory, place) = shareable_memory(device, 1 << 20);
    let (start, count) = (Instant::now(), count(is_quick));
    for _ in 0..count {
        // SAFETY: UNS-36: the memory is there, and nobody writes to it.
        let handle = unsafe { device.export_shared(place, false) }.unwrap();
        // SAFETY: UNS-37: the handle is that of the memory, which has this length, and nobody
        // writes to it.
        drop(unsafe { device.open_shared(handle, 1 << 20, ()) }.unwrap());
    }
    let seconds = start.elapsed().as_secs_f64();
    [
        ("device", Value::Text(device.id().to_string())),
        ("way", Value::Text("memory of 1 MiB exported, opened and closed".into())),
        ("arrays", Value::Count(count as u64)),
        ("per_second", Value::Number(count as f64 / seconds)),
    ]
}

/// A note that is not that of the memory is refused before the driver is asked; what the driver
/// says of other descriptors is noted.
fn others(device: &Device, is_cuda: bool, ordinal: usize) -> String {
    let (_memory, place) = shareable_memory(device, 5000);
    // SAFETY: UNS-36: the memory is there, and nobody writes to it.
    let handle = unsafe { device.export_shared(place, false) }.unwrap();
    // SAFETY: UNS-37 is not kept, because there is not as much memory: the library refuses it.
    let error = unsafe { device.open_shared(handle, 1 << 30, ()) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
    let asked = start(&[TRY_OTHERS], is_cuda, ordinal).output().unwrap();
    let said = String::from_utf8_lossy(&asked.stdout).replace('\n', "; ");
    format!("{said}the process that asked: {}", asked.status)
}

/// Shares the memory of each device, where it can be shared.
pub(crate) fn share(devices: &[Device], is_cuda: bool, is_quick: bool, report: &mut Report) {
    let mut rows = Vec::new();
    for (ordinal, device) in devices.iter().enumerate() {
        let id = device.id();
        if device.sharing_domain().is_none() {
            report.check(&format!("sharing of {id}"), || "the device shares no memory".into());
            continue;
        }
        report.check(&format!("arrays of {id} in another process"), || {
            rows.push(send(device, is_cuda, ordinal, is_quick));
            rows.push(export_and_open(device, is_quick));
            format!("{:?}", device.sharing_domain())
        });
        report.check(&format!("other descriptors for memory of {id}"), || {
            others(device, is_cuda, ordinal)
        });
    }
    gpu_backends::settle();
    rows.iter().for_each(|row| report.measured(row));
}
