//! Messages that are lost, come twice or in another order, each of them once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_device::{Device, ErrorKind, Result};
use arrow_device_dissociated::{
    Client, LocalTransport, Location, Message, Received, ServerOptions, Transport,
};
use arrow_device_testkit::process::{alone, descriptors};

use crate::support::{opening, serving, sharing, some_batches, unix_pair};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    Lost,
    Twice,
    /// Sent behind the next message.
    Late,
}

/// A transport that does something to the message of one number that is sent.
#[derive(Debug)]
struct Faulty<T> {
    inner: T,
    fault: Fault,
    at: usize,
    sent: Arc<AtomicUsize>,
    late: Mutex<Option<Message>>,
}

impl<T: Transport> Faulty<T> {
    fn new(inner: T, fault: Fault, at: usize) -> Self {
        Self { inner, fault, at, sent: Arc::default(), late: Mutex::default() }
    }

    fn repeats_the_last(&self) -> bool {
        self.fault == Fault::Twice && self.sent.load(Ordering::Relaxed) == self.at + 1
    }

    fn send_late(&self) -> Result<()> {
        let late = self.late.lock().unwrap().take();
        late.map_or(Ok(()), |late| self.inner.send(&late, None))
    }
}

impl<T: Transport> Transport for Faulty<T> {
    fn send(&self, message: &Message, timeout: Option<Duration>) -> Result<()> {
        let is_it = self.sent.fetch_add(1, Ordering::Relaxed) == self.at;
        match self.fault {
            Fault::Lost if is_it => return Ok(()),
            Fault::Twice if is_it => {
                self.inner.send(message, timeout)?;
                // The other side may have all that it needs, and be gone: a network would not tell.
                let _ = self.inner.send(message, timeout);
                return Ok(());
            }
            Fault::Late if is_it => {
                *self.late.lock().unwrap() = Some(message.again());
                return Ok(());
            }
            _ => {}
        }
        self.inner.send(message, timeout)?;
        self.send_late()
    }

    fn receive(&self, most: u64, timeout: Option<Duration>) -> Result<Received> {
        // Nothing is sent behind the message.
        self.send_late()?;
        self.inner.receive(most, timeout)
    }

    fn flush(&self, timeout: Option<Duration>) -> Result<()> {
        self.send_late()?;
        match self.inner.flush(timeout) {
            // The last message came, and what was lost is its repetition.
            Err(error) if error.kind() == ErrorKind::Peer && self.repeats_the_last() => Ok(()),
            flushed => flushed,
        }
    }

    fn carries_memory(&self) -> bool {
        self.inner.carries_memory()
    }
}

/// A stream over the two ends of a connection, where one message of the server or of the client has
/// a fault. Returns what the client found, and how many messages each side has sent.
fn run_over(
    (one, other): (impl Transport + 'static, impl Transport + 'static),
    fault: Fault,
    at: usize,
    of_server: bool,
    shares: bool,
) -> (Result<usize>, [usize; 2]) {
    let host = Device::host();
    let location = Location::new("local:");
    let (location, options) = match shares {
        true => (location.sharing(&host), sharing(&host)),
        false => (location, ServerOptions::new()),
    };
    let of = |is_it: bool| if is_it { fault } else { Fault::None };
    let (one, other) =
        (Faulty::new(one, of(of_server), at), Faulty::new(other, of(!of_server), at));
    let sent = [one.sent.clone(), other.sent.clone()];
    let serving = serving(one, &location, options.patience(None), some_batches());
    // Where nothing is lost, nothing is waited for that does not come.
    let is_missed = fault == Fault::Lost && (of_server || at == 0);
    let patience = if is_missed { 100 } else { 60_000 };
    let options = opening(&host).patience(Some(Duration::from_millis(patience)));
    let expected = some_batches();
    let found = Client::request(other, &location, b"ticket", options).and_then(|client| {
        let mut count = 0;
        for batch in client {
            assert!(batch?.as_array().equals(expected[count].as_array()).unwrap());
            count += 1;
        }
        Ok(count)
    });
    let served = serving.join().unwrap();
    match &found {
        Ok(_) => assert!(served.is_ok(), "{served:?}"),
        Err(error) => {
            let kinds = [ErrorKind::TimedOut, ErrorKind::Peer];
            assert!(kinds.contains(&error.kind()), "{error:?}");
            assert!(error.message().contains("has not come"), "{error:?}");
        }
    }
    (found, sent.map(|sent| sent.load(Ordering::Relaxed)))
}

/// Gives each message of a stream, of either side, each fault once, over connections of one kind:
/// with bodies in shared memory, packed, or both.
pub(crate) fn each_fault<A: Transport + 'static, B: Transport + 'static>(
    pair: impl Fn() -> (A, B),
    kinds: &[bool],
) {
    for &shares in kinds {
        let (found, count) = run_over(pair(), Fault::None, 0, true, shares);
        assert_eq!(found.unwrap(), 3);
        assert_eq!(count[0], 8, "a schema, three batches with bodies, the end");
        // The batch without rows has nothing to free, but for its offsets.
        assert!(count[1] >= if shares { 3 } else { 1 }, "{count:?}");
        for of_server in [true, false] {
            let count = if of_server { count[0] } else { count[1] };
            for at in 0..count {
                for fault in [Fault::Twice, Fault::Late] {
                    let found = run_over(pair(), fault, at, of_server, shares).0;
                    let found = found.unwrap_or_else(|error| {
                        panic!("{fault:?} {at} of the server: {of_server}: {error}")
                    });
                    assert_eq!(found, 3, "{fault:?} {at}");
                }
                let found = run_over(pair(), Fault::Lost, at, of_server, shares).0;
                // Only messages that free something may be lost.
                assert_eq!(found.is_ok(), !of_server && at > 0, "{at}");
            }
        }
    }
}

#[test]
fn every_message_may_come_twice_or_late_and_a_lost_one_is_named() {
    alone(|| {
        let before = (descriptors(), Device::host().held().allocated);
        each_fault(LocalTransport::pair, &[true, false]);
        assert_eq!((descriptors(), Device::host().held().allocated), before);
    });
}

#[test]
fn over_a_unix_socket_too_every_message_may_come_twice_or_late_and_a_lost_one_is_named() {
    alone(|| {
        let before = (descriptors(), Device::host().held().allocated);
        each_fault(unix_pair, &[true, false]);
        assert_eq!((descriptors(), Device::host().held().allocated), before);
    });
}

#[test]
fn memory_whose_release_is_lost_is_kept_until_the_server_has_lingered() {
    alone(|| {
        let host = Device::host();
        let before = (descriptors(), host.held().allocated);
        let location = Location::new("local:").sharing(&host);
        let (one, other) = LocalTransport::pair();
        let options = sharing(&host).linger(Some(Duration::from_millis(50)));
        let serving = serving(one, &location, options, some_batches());
        // The first message asks for the stream, and the second one frees the first batch.
        let other = Faulty::new(other, Fault::Lost, 1);
        let mut client = Client::request(other, &location, b"", opening(&host)).unwrap();
        for batch in &mut client {
            drop(batch.unwrap());
        }
        let error = serving.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(error.message().starts_with("the client has not freed "), "{error}");
        drop(client);
        assert_eq!((descriptors(), host.held().allocated), before);
    });
}

#[test]
fn a_client_that_frees_nothing_makes_its_server_keep_no_more_than_its_limit() {
    let host = Device::host();
    let location = Location::new("local:").sharing(&host);
    let (one, other) = LocalTransport::pair();
    let options = sharing(&host).most_kept(1000).linger(Some(Duration::from_millis(50)));
    let serving = serving(one, &location, options, some_batches());
    let mut client = Client::request(other, &location, b"", opening(&host)).unwrap();
    let kept = client.next().unwrap().unwrap();
    let error = serving.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(client.next().unwrap().unwrap_err().kind(), ErrorKind::Peer);
    assert_eq!(kept.row_count(), 100);
}
