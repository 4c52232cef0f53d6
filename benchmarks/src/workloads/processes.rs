//! A batch for another process, which tells when it has finished with it: by handle, and as Arrow
//! IPC over a socket.
//!
//! The other process is this program again. It reads batch after batch from the socket that is its
//! input, looks at the number of rows, drops the batch, and tells. One turn is the way there and
//! back. Both sides keep their connection, their schema and the memory of the batch.

use std::io::{BufReader, BufWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use arrow_array_60::RecordBatch;
use arrow_device::{Batch, Device};
use arrow_device_arrow::v60::ToArrow;
use arrow_device_ipc::{ReadOptions, StreamReader, StreamWriter, WriteOptions};
use arrow_device_share::{Receiver, Sender, to_shareable};
use arrow_ipc::reader::StreamReader as RsReader;
use arrow_ipc::writer::StreamWriter as RsWriter;

use super::copies::integers;
use crate::case::{Case, Peer, WorkloadKey};
use crate::meter::{ALLOCATIONS, Counted, Meter};

/// The option by which this program is the other process, and how that reads.
pub const RECEIVE: &str = "--receive";

pub(super) const COUNTED: &[Counted] = &[Counted {
    name: "send to another process/int64 batch of 16 rows/1000",
    promised: &[(ALLOCATIONS, 26)],
    run: sent_counted,
}];

pub(super) fn cases() -> Vec<Case> {
    [(10, 100), (8, 1 << 17), (1000, 1 << 17)].into_iter().flat_map(to_another_process).collect()
}

fn to_another_process((columns, rows): (usize, usize)) -> Vec<Case> {
    let shape = if rows == 100 { "int64 batch of 100 rows" } else { "int64 batch of 1 MiB" };
    let what: WorkloadKey = ("to another process", shape, columns as u64);
    let moved = (columns * rows * 8) as u64;
    let batch = integers(columns, rows);
    let theirs = batch.to_arrow().unwrap();
    vec![
        Case::whole(what, Peer::ArrowDevice, by_handle(&batch)),
        Case::whole(what, Peer::ArrowDeviceFrom("as IPC"), as_ipc(batch)).moving(moved),
        Case::whole(what, Peer::ArrowRs, as_ipc_of_arrow_rs(theirs)).moving(moved),
    ]
}

fn by_handle(batch: &Batch) -> impl FnMut() + 'static {
    let shared = to_shareable(batch.as_array(), &Device::host()).unwrap();
    let (other, socket) = Other::start("handles");
    let sender = Sender::new(socket);
    move || {
        sender.send(&shared).unwrap();
        assert!(sender.wait_until_released(None).unwrap());
        let _ = &other;
    }
}

fn as_ipc(batch: Batch) -> impl FnMut() + 'static {
    let (other, mut back) = Other::start("ipc");
    let schema = batch.schema().unwrap();
    let socket = back.try_clone().unwrap();
    let mut writer = StreamWriter::new(socket, &schema, WriteOptions::new()).unwrap();
    move || {
        writer.write(&batch).unwrap();
        wait_for(&other, &mut back);
    }
}

fn as_ipc_of_arrow_rs(batch: RecordBatch) -> impl FnMut() + 'static {
    let (other, mut back) = Other::start("arrow-rs");
    let socket = BufWriter::new(back.try_clone().unwrap());
    let mut writer = RsWriter::try_new(socket, &batch.schema()).unwrap();
    move || {
        writer.write(&batch).unwrap();
        writer.flush().unwrap();
        wait_for(&other, &mut back);
    }
}

/// Waits until the other process has finished with a batch.
fn wait_for(_other: &Other, back: &mut UnixStream) {
    back.read_exact(&mut [0]).unwrap();
}

/// The other process, which ends with its connection.
struct Other(Child);

impl Other {
    fn start(how: &str) -> (Self, UnixStream) {
        let (here, there) = UnixStream::pair().unwrap();
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new(program);
        command.args([RECEIVE, how]).stdin(Stdio::from(OwnedFd::from(there)));
        (Self(command.spawn().unwrap()), here)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // The connection is closed after this value: the process would wait for more.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the other process does: receives what comes at its input, until the end of the connection.
///
/// # Errors
/// Where something cannot be received.
pub fn receive(how: &str) -> Result<(), String> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from);
    let mut socket = socket.map_err(|error| error.to_string())?;
    let read = socket.try_clone().map_err(|error| error.to_string())?;
    let mut done = |rows: usize| {
        assert!(rows > 0);
        socket.write_all(&[1]).unwrap();
    };
    match how {
        "handles" => {
            let mut receiver = Receiver::new(read, [Device::host()]);
            while let Some(array) = receiver.receive().map_err(|error| error.to_string())? {
                assert!(!array.is_empty());
            }
        }
        "ipc" => {
            let batches = StreamReader::new(read, ReadOptions::new());
            for batch in batches.map_err(|error| error.to_string())? {
                done(batch.map_err(|error| error.to_string())?.row_count());
            }
        }
        "arrow-rs" => {
            let batches = RsReader::try_new(BufReader::new(read), None);
            for batch in batches.map_err(|error| error.to_string())? {
                done(batch.map_err(|error| error.to_string())?.num_rows());
            }
        }
        other => return Err(format!("nothing is received as `{other}`")),
    }
    Ok(())
}

fn sent_counted(meter: &mut Meter) {
    let shared = to_shareable(integers(1000, 16).as_array(), &Device::host()).unwrap();
    let (one, other) = UnixStream::pair().unwrap();
    let (sender, mut receiver) = (Sender::new(one), Receiver::new(other, [Device::host()]));
    for _ in 0..3 {
        sender.send(&shared).unwrap();
        drop(receiver.receive().unwrap());
    }
    meter.measure(|| sender.send(&shared).unwrap());
    drop(receiver.receive().unwrap());
}
