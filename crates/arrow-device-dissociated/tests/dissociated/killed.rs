//! One side is killed at each step of the protocol: the other one leaks nothing.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use arrow_device::{Batch, Device, ErrorKind, Result};
use arrow_device_dissociated::{Client, Message, Received, Server, Transport, UnixTransport};
use arrow_device_testkit::process::{alone, descriptors};

use crate::processes::{Meeting, told};
use crate::support::{opening, sharing, some_batches, stream_of};

/// Tells the second process at which step it is killed.
pub(crate) const STEP: &str = "ARROW_DEVICE_DISSOCIATED_TEST_STEP";

/// A transport whose process is killed before it sends or receives for the n-th time. A receive
/// for which nothing comes in its time does not count: how many there are depends on the machine.
#[derive(Debug)]
pub(crate) struct Deadly<T> {
    inner: T,
    left: AtomicI64,
}

impl<T> Deadly<T> {
    fn step(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            // SAFETY: ends this process, as a kill from outside would.
            unsafe { libc::raise(libc::SIGKILL) };
        }
    }

    fn take_step_back(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }
}

impl<T: Transport> Transport for Deadly<T> {
    fn send(&self, message: &Message, timeout: Option<Duration>) -> Result<()> {
        self.step();
        self.inner.send(message, timeout)
    }

    fn receive(&self, most: u64, timeout: Option<Duration>) -> Result<Received> {
        self.step();
        let received = self.inner.receive(most, timeout);
        if matches!(received, Ok(Received::Nothing)) {
            self.take_step_back();
        }
        received
    }

    fn flush(&self, timeout: Option<Duration>) -> Result<()> {
        self.step();
        self.inner.flush(timeout)
    }

    fn carries_memory(&self) -> bool {
        self.inner.carries_memory()
    }
}

/// The transport of the second process.
pub(crate) fn deadly<T>(inner: T) -> Deadly<T> {
    let left = std::env::var(STEP).unwrap().parse().unwrap();
    Deadly { inner, left: AtomicI64::new(left) }
}

/// Runs one side here, with a second process that is killed at a step, until a second process lives
/// to its end. Returns how many were killed.
fn for_each_step(test: &str, mut side: impl FnMut(&Meeting)) -> usize {
    let host = Device::host();
    let meeting = Meeting::new();
    let before = (descriptors(), host.held().allocated);
    for step in 0..200 {
        let location = meeting.location(&host);
        let mut child = Meeting::start(test, &location, &[(STEP, step.to_string())]);
        side(&meeting);
        let status = child.wait().unwrap();
        assert_eq!((descriptors(), host.held().allocated), before, "step {step}");
        if status.success() {
            return step;
        }
    }
    panic!("the second process does not end");
}

#[test]
fn a_server_lets_go_of_all_that_it_kept_for_a_client_that_is_killed_at_any_step() {
    if let Some(location) = told() {
        let transport = deadly(UnixTransport::connect(&location).unwrap());
        let client = Client::request(transport, &location, b"", opening(&Device::host())).unwrap();
        let batches: Vec<_> = client.map(Result::unwrap).collect();
        assert_eq!(batches.len(), 3);
        return;
    }
    alone(|| {
        let test =
            "killed::a_server_lets_go_of_all_that_it_kept_for_a_client_that_is_killed_at_any_step";
        let mut endings = Vec::new();
        let killed = for_each_step(test, |meeting| {
            let host = Device::host();
            let location = meeting.location(&host);
            let options = sharing(&host).patience(None);
            let server = Server::new(meeting.accept(), &location, options).unwrap();
            let served = server.serve(|_| Ok(stream_of(some_batches())));
            if let Err(error) = &served {
                assert_eq!(error.kind(), ErrorKind::Peer, "{error}");
            }
            endings.push(served.is_ok());
        });
        // A request, eight messages, and what frees.
        assert!(killed >= 9, "{killed}");
        assert_eq!(endings.first(), Some(&false));
        assert_eq!(endings.last(), Some(&true));
    });
}

/// Reads what a client gets of a server that may be killed, and returns how many batches came. They
/// are the first of those that were expected, and where one is missing the server is said to be
/// gone.
pub(crate) fn came_before_the_end(client: Result<Client>, expected: &[Batch]) -> usize {
    let mut came = Vec::new();
    let mut error = client.as_ref().err().map(arrow_device::Error::kind);
    for batch in client.into_iter().flatten() {
        match batch {
            Ok(batch) => came.push(batch),
            Err(wrong) => error = Some(wrong.kind()),
        }
    }
    assert!(came.len() == expected.len() || error == Some(ErrorKind::Peer), "{error:?}");
    for (batch, expected) in came.iter().zip(expected) {
        assert!(batch.as_array().equals(expected.as_array()).unwrap());
    }
    came.len()
}

#[test]
fn what_a_client_has_stays_usable_where_its_server_is_killed_at_any_step() {
    if let Some(location) = told() {
        let transport = deadly(UnixTransport::connect(&location).unwrap());
        let server = Server::new(transport, &location, sharing(&Device::host())).unwrap();
        server.serve(|_| Ok(stream_of(some_batches()))).unwrap();
        return;
    }
    alone(|| {
        let test = "killed::what_a_client_has_stays_usable_where_its_server_is_killed_at_any_step";
        let expected = some_batches();
        let mut most = 0;
        let killed = for_each_step(test, |meeting| {
            let host = Device::host();
            let location = meeting.location(&host);
            let transport = meeting.accept();
            let options = opening(&host).patience(None);
            let client = Client::request(transport, &location, b"", options);
            most = most.max(came_before_the_end(client, &expected));
        });
        assert!(killed >= 9, "{killed}");
        assert_eq!(most, 3);
    });
}
