//! Peers that talk without end, send too many descriptors, and do not read; and children of `fork`.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use arrow_device::driver::MemoryHandle;
use arrow_device::{
    Array, ArrayStream, Batch, DataType, Device, DeviceType, Error, ErrorKind, Result,
};
use arrow_device_dissociated::{
    BodyKind, BodyTag, Client, ClientOptions, LocalTransport, Location, Message, Received, Region,
    Server, ServerOptions, Transport, UnixTransport,
};
use arrow_device_ipc::{Encoder, WriteOptions};
use arrow_device_testkit::process::{alone, descriptors, forked};

use crate::support::{batch, opening, serving, sharing, some_batches, stream_of, unix_pair};

/// A server as a transport: what it sends is made when it is received.
struct MadeUp<F>(AtomicU32, F);

impl<F> std::fmt::Debug for MadeUp<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MadeUp({:?})", self.0)
    }
}

impl<F: Fn(u32) -> Received + Send + Sync> Transport for MadeUp<F> {
    fn send(&self, _message: &Message, _timeout: Option<Duration>) -> Result<()> {
        Ok(())
    }

    fn receive(&self, _most: u64, _timeout: Option<Duration>) -> Result<Received> {
        Ok(self.1(self.0.fetch_add(1, Ordering::Relaxed)))
    }

    fn carries_memory(&self) -> bool {
        true
    }
}

/// The message with the schema of [`batch`].
fn schema_message() -> Message {
    let encoder = Encoder::new(&batch(1).schema().unwrap(), WriteOptions::new()).unwrap();
    Message::untagged([&[1, 0, 0, 0, 0], &*encoder.schema_message().unwrap()].concat())
}

#[test]
fn a_server_that_only_repeats_itself_is_waited_for_no_longer_than_allowed() {
    let server = MadeUp(AtomicU32::new(0), |number| match number {
        0..20_000 => Received::Message(schema_message()),
        _ => Received::End,
    });
    let options = ClientOptions::new().patience(Some(Duration::ZERO));
    let mut client = Client::request(server, &Location::new("made:"), b"", options).unwrap();
    assert_eq!(client.next().unwrap().unwrap_err().kind(), ErrorKind::TimedOut);
    assert!(client.counts().repeated > 1);
}

#[test]
fn a_client_that_repeats_itself_without_end_holds_no_server_back() {
    let client = MadeUp(AtomicU32::new(0), |number| match number {
        0..20_000 => Received::Message(Message::tagged(1, b"ticket".to_vec())),
        _ => Received::End,
    });
    let location = Location::new("made:");
    let server = Server::new(client, &location, ServerOptions::new()).unwrap();
    let counts = server.serve(|_| Ok(stream_of(some_batches()))).unwrap();
    assert!(counts.packed_bytes > 0 && counts.repeated > 0, "{counts:?}");
}

#[test]
fn descriptors_that_come_too_early_are_refused_before_there_are_many() {
    alone(|| {
        let before = descriptors();
        let server = MadeUp(AtomicU32::new(0), |number| {
            let sequence = number + 1;
            let region = |base| {
                let file: OwnedFd = File::open("/dev/zero").unwrap().into();
                Region { base, len: 1, handle: MemoryHandle::from_descriptor(file) }
            };
            match number {
                0 => Received::Message(schema_message()),
                // Bodies behind message 1, which does not come.
                1..=5 => Received::Message(Message {
                    tag: Some(BodyTag { sequence, kind: BodyKind::Addresses }.bits()),
                    bytes: vec![0; 16],
                    regions: (0..128).map(|number| region(number * 4096)).collect(),
                }),
                _ => Received::Nothing,
            }
        });
        let location = Location::new("made:").sharing(&Device::host());
        let mut client = Client::request(server, &location, b"", opening(&Device::host())).unwrap();
        let error = client.next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        drop(client);
        assert_eq!(descriptors(), before);
    });
}

#[test]
fn a_server_that_does_not_read_loses_no_client_that_frees_much() {
    let location = Location::new("pair:").sharing(&Device::host());
    let (here, there) = UnixStream::pair().unwrap();
    let least: libc::c_int = 1;
    // SAFETY: `least` is readable, and has the length that is named.
    let set = unsafe {
        libc::setsockopt(
            there.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDBUF,
            (&raw const least).cast(),
            size_of_val(&least) as libc::socklen_t,
        )
    };
    assert_eq!(set, 0);
    let columns = (0..1200_i64).map(|number| {
        let numbers = Array::from_values(DataType::Int64, [Some(number)]).unwrap();
        (format!("n{number}"), numbers)
    });
    let wide = Batch::from_columns(columns).unwrap();
    let (go, wait) = mpsc::channel::<()>();
    let sent = wide.clone();
    let host = Device::host();
    let server = Server::new(UnixTransport::new(here), &location, sharing(&host)).unwrap();
    let serving = std::thread::spawn(move || {
        server.serve(|_| {
            let schema = sent.schema()?;
            let batches = (0..2).map(move |number| {
                if number > 0 {
                    let _ = wait.recv();
                }
                Ok(sent.clone())
            });
            Ok(ArrayStream::new(schema, DeviceType::CPU, batches))
        })
    });
    let there = UnixTransport::new(there);
    let mut client = Client::request(there, &location, b"", opening(&host)).unwrap();
    // The server reads nothing while it waits for its second batch.
    drop(client.next().unwrap().unwrap());
    go.send(()).unwrap();
    let again = client.next().unwrap().unwrap();
    assert!(again.as_array().equals(wide.as_array()).unwrap());
    drop(again);
    assert!(client.next().is_none());
    drop(client);
    assert_eq!(serving.join().unwrap().unwrap().packed_bytes, 0);
}

#[test]
fn a_child_of_fork_reads_nothing_of_its_parents_stream() {
    alone(|| {
        let host = Device::host();
        let location = Location::new("pair:").sharing(&host);
        let (here, there) = unix_pair();
        let serving = serving(here, &location, sharing(&host), some_batches());
        let mut client = Client::request(there, &location, b"", opening(&host)).unwrap();
        let first = client.next().unwrap().unwrap();
        forked(|| match client.next() {
            Some(Err(error)) if error.kind() == ErrorKind::Unsupported => Ok(()),
            other => Err(format!("{other:?}")),
        });
        let came: Vec<_> = std::iter::once(first).chain(client.map(Result::unwrap)).collect();
        assert_eq!(came.len(), 3);
        for (came, expected) in came.iter().zip(some_batches()) {
            assert!(came.as_array().equals(expected.as_array()).unwrap());
        }
        drop(came);
        serving.join().unwrap().unwrap();
    });
}

#[test]
fn forks_are_noticed_by_a_client_of_a_program_that_has_used_no_device() {
    alone(|| {
        let location = Location::new("pair:");
        let (here, there) = unix_pair();
        let serving = serving(here, &location, ServerOptions::new(), some_batches());
        let mut client = Client::request(there, &location, b"", ClientOptions::new()).unwrap();
        forked(|| match client.next() {
            Some(Err(error)) if error.kind() == ErrorKind::Unsupported => Ok(()),
            other => Err(format!("{other:?}")),
        });
        for expected in some_batches() {
            let came = client.next().unwrap().unwrap();
            assert!(came.as_array().equals(expected.as_array()).unwrap());
        }
        assert!(client.next().is_none());
        drop(client);
        serving.join().unwrap().unwrap();
    });
}

/// A transport without room for the first message that frees memory. Tells when it is asked to wait
/// for a message, once this is wanted.
#[derive(Debug)]
struct Full {
    inner: LocalTransport,
    is_full: AtomicBool,
    is_wanted: Arc<AtomicBool>,
    waits: mpsc::Sender<()>,
}

impl Transport for Full {
    fn send(&self, message: &Message, timeout: Option<Duration>) -> Result<()> {
        if message.tag == Some(2) && self.is_full.swap(false, Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::NotReady, "no room"));
        }
        self.inner.send(message, timeout)
    }

    fn receive(&self, most: u64, timeout: Option<Duration>) -> Result<Received> {
        if self.is_wanted.load(Ordering::SeqCst) {
            let _ = self.waits.send(());
        }
        self.inner.receive(most, timeout)
    }

    fn carries_memory(&self) -> bool {
        true
    }
}

#[test]
fn memory_that_another_thread_frees_while_the_client_waits_is_told_once_there_is_room() {
    let host = Device::host();
    let location = Location::new("local:").sharing(&host);
    let (here, there) = LocalTransport::pair();
    let options = sharing(&host).most_kept(0);
    let serving = serving(here, &location, options, vec![batch(20), batch(30)]);
    let (waits, waiting) = mpsc::channel();
    let is_wanted = Arc::new(AtomicBool::new(false));
    let is_full = AtomicBool::new(true);
    let there = Full { inner: there, is_full, is_wanted: is_wanted.clone(), waits };
    let options = opening(&host).patience(Some(Duration::from_secs(10)));
    let mut client = Client::request(there, &location, b"", options).unwrap();
    let first = client.next().unwrap().unwrap();
    is_wanted.store(true, Ordering::SeqCst);
    let dropping = std::thread::spawn(move || {
        waiting.recv().unwrap();
        drop(first);
    });
    // The server waits for the first batch to be freed.
    assert_eq!(client.next().unwrap().unwrap().row_count(), 30);
    assert!(client.next().is_none());
    dropping.join().unwrap();
    drop(client);
    serving.join().unwrap().unwrap();
}
