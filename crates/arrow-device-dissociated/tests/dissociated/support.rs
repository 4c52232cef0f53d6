//! What the tests share.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::JoinHandle;

use arrow_device::{Array, ArrayStream, Batch, DataType, Device, DeviceType, Result};
use arrow_device_dissociated::{
    Client, ClientOptions, Counts, Location, Server, ServerOptions, Transport, UnixTransport,
};
use arrow_device_ipc::{ReadOptions, StreamReader};

/// A batch of several types with so many rows, the same in every process.
pub(crate) fn batch(rows: i64) -> Batch {
    let numbers = (0..rows).map(|row| (row % 7 != 0).then_some(row * 3));
    let texts = (0..rows).map(|row| Some(format!("row {row} has a text of some length")));
    let numbers = Array::from_values(DataType::Int64, numbers).unwrap();
    let views = Array::from_texts(DataType::Utf8View, texts.clone()).unwrap();
    let texts = Array::from_texts(DataType::Utf8, texts).unwrap();
    Batch::from_columns([("n", numbers), ("t", texts), ("v", views)]).unwrap()
}

/// A stream of batches in host memory.
pub(crate) fn stream_of(batches: Vec<Batch>) -> ArrayStream {
    let schema = batches[0].schema().unwrap();
    ArrayStream::new(schema, DeviceType::CPU, batches.into_iter().map(Ok))
}

/// The stream that the tests send where nothing else is said: batches with these rows.
pub(crate) const ROWS: [i64; 3] = [100, 0, 1000];

pub(crate) fn some_batches() -> Vec<Batch> {
    ROWS.map(batch).to_vec()
}

pub(crate) fn read_golden(path: &Path) -> StreamReader {
    StreamReader::new(File::open(path).unwrap(), ReadOptions::new()).unwrap()
}

/// The ends of a connected Unix socket.
pub(crate) fn unix_pair() -> (UnixTransport, UnixTransport) {
    let (one, other) = UnixStream::pair().unwrap();
    (UnixTransport::new(one), UnixTransport::new(other))
}

/// Options of a server that shares this device, and trusts its clients if the device asks for it.
pub(crate) fn sharing(device: &Device) -> ServerOptions {
    let options = ServerOptions::new().sharing(device);
    match device.sharing_needs_trust() {
        // SAFETY: UNS-38: the clients are those of tests, which write to no memory.
        true => unsafe { options.trusting() },
        false => options,
    }
}

/// Options of a client that opens memory by this device, and trusts its server if it has to.
pub(crate) fn opening(device: &Device) -> ClientOptions {
    let options = ClientOptions::new().devices([device.clone()]);
    match device.sharing_needs_trust() {
        // SAFETY: UNS-38: the servers are those of tests, which write to no memory that they sent,
        // and send what their runtime exported.
        true => unsafe { options.trusting() },
        false => options,
    }
}

/// A server that sends batches on another thread.
pub(crate) fn serving(
    transport: impl Transport + 'static,
    location: &Location,
    options: ServerOptions,
    batches: Vec<Batch>,
) -> JoinHandle<Result<Counts>> {
    let server = Server::new(transport, location, options).unwrap();
    std::thread::spawn(move || server.serve(|_| Ok(stream_of(batches))))
}

/// Whether all batches of the client are these ones, on the device, and valid.
pub(crate) fn require_same(client: &mut Client, device: &Device, expected: &[Batch], name: &str) {
    let mut came = Vec::new();
    for (number, expected) in expected.iter().enumerate() {
        let batch = client.next().unwrap_or_else(|| panic!("{name}: batch {number} is missing"));
        let batch = batch.unwrap_or_else(|error| panic!("{name}, batch {number}: {error}"));
        assert_eq!(batch.device(), device.id(), "{name}");
        let here = batch.to_host().unwrap();
        here.as_array().validate().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(here.as_array().equals(expected.as_array()).unwrap(), "{name}, batch {number}");
        // Some batches are used while later ones come.
        came.push(batch);
        if came.len() > 2 {
            came.remove(0);
        }
    }
    assert!(client.next().is_none(), "{name}");
}
