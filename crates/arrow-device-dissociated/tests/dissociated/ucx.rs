//! Streams over UCX: in one process and in two, over TCP and over shared memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_device::{Device, ErrorKind};
use arrow_device_dissociated::{
    Client, ClientOptions, Location, Message, Received, Server, ServerOptions, Transport,
    UcxListener, UcxOptions, UcxTransport, ucx_version,
};
use arrow_device_sim::Sim;
use arrow_device_testkit::process::{alone, descriptors, forked};
use arrow_device_testkit::required::skip;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::exchange::{for_each_golden, sent};
use crate::faults::each_fault;
use crate::killed::{STEP, came_before_the_end, deadly};
use crate::processes::{CONNECTING, Meeting, receive_packed, serve_packed, told};
use crate::support::{batch, require_same, serving, some_batches, stream_of};

/// Tells the second process how bytes travel.
const WAY: &str = "ARROW_DEVICE_DISSOCIATED_TEST_WAY";

/// After so long a wait a peer has no room.
const STUCK: Duration = Duration::from_secs(1);

/// TCP, and all that UCX finds and chooses by itself.
const WAYS: [&str; 2] = ["tcp", "all"];

fn options(way: &str) -> UcxOptions {
    match way {
        "all" => UcxOptions::new(),
        _ => UcxOptions::new().transports(way),
    }
}

fn listen(way: &str) -> UcxListener {
    // SAFETY: UNS-39: the clients are those of this test.
    unsafe { UcxListener::bind("127.0.0.1:0", &options(way)) }.unwrap()
}

fn connect(location: &Location, way: &str) -> UcxTransport {
    // SAFETY: UNS-39: the server is that of this test.
    unsafe { UcxTransport::connect(location, &options(way)) }.unwrap()
}

/// The ends of a connection.
fn pair(way: &str) -> (UcxTransport, UcxTransport) {
    let listener = listen(way);
    let there = connect(&listener.location(), way);
    (listener.accept(None).unwrap(), there)
}

/// Runs a test in a process of its own where UCX is installed.
fn with_ucx(body: impl FnOnce()) {
    if let Err(error) = ucx_version() {
        assert!(error.message().contains("install it (Debian: libucx0)"), "{error}");
        return skip("ucx", &error.to_string());
    }
    // The second process has one test, and is alone.
    if told().is_some() { body() } else { alone(body) }
}

#[test]
fn a_library_that_is_missing_is_an_error_that_says_what_to_install() {
    let child = arrow_device_testkit::process::Child::of_this_test();
    if !arrow_device_testkit::process::is_child() {
        child.env("ARROW_DEVICE_UCX_LIBRARY", "/nowhere/libucp.so.0").run().expect_success();
        return;
    }
    let error = ucx_version().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DriverMissing);
    assert!(error.message().starts_with("UCX was not found: install it (Debian: libucx0) ("));
}

#[test]
fn golden_streams_come_over_ucx_as_they_were() {
    with_ucx(|| {
        let host = Device::host();
        let location = Location::new("local:");
        for way in WAYS {
            for_each_golden(|name, batches| {
                let options = (ServerOptions::new(), ClientOptions::new());
                let place = (&location, &host);
                let [here, there] = sent(pair(way), options, place, batches, name);
                assert_eq!((here, here.1), (there, 0), "{name}");
            });
        }
    });
}

/// Sends each golden stream from a device to a client in another process.
fn golden_streams_cross(test: &str, device: &Device) {
    if let Some(location) = told() {
        let way = std::env::var(WAY).unwrap();
        receive_packed(device, &location, || connect(&location, &way));
        return;
    }
    let way = WAYS[1];
    let listener = listen(way);
    let location = listener.location();
    let mut child = Meeting::start(test, &location, &[(WAY, way.into())]);
    serve_packed(device, &location, || listener.accept(Some(CONNECTING)).unwrap());
    let status = child.wait().unwrap();
    assert!(status.success(), "{way}: {status}");
}

#[test]
fn golden_streams_cross_over_ucx_between_software_devices() {
    let test = "ucx::golden_streams_cross_over_ucx_between_software_devices";
    with_ucx(|| golden_streams_cross(test, &Sim::builder().backtraces(false).build().device()));
}

#[test]
fn golden_streams_cross_over_ucx_between_devices_of_opencl() {
    let test = "ucx::golden_streams_cross_over_ucx_between_devices_of_opencl";
    with_ucx(|| {
        if let Err(reason) = arrow_device_opencl::is_available() {
            return skip("opencl", &reason.to_string());
        }
        golden_streams_cross(test, &arrow_device_opencl::open(0).unwrap());
    });
}

#[test]
fn golden_streams_cross_over_ucx_between_devices_of_vulkan() {
    let test = "ucx::golden_streams_cross_over_ucx_between_devices_of_vulkan";
    with_ucx(|| {
        if let Err(reason) = arrow_device_vulkan::is_available() {
            return skip("vulkan", &reason.to_string());
        }
        golden_streams_cross(test, &arrow_device_vulkan::open(0).unwrap());
    });
}

#[test]
fn over_ucx_too_every_message_may_come_twice_or_late_and_a_lost_one_is_named() {
    with_ucx(|| {
        let before = Device::host().held().allocated;
        each_fault(|| pair(WAYS[0]), &[false]);
        assert_eq!(Device::host().held().allocated, before);
    });
}

/// Runs one side here, with a second process that is killed at a step, until a second process lives
/// to its end. Returns how many were killed.
fn for_each_step(test: &str, mut side: impl FnMut(UcxTransport)) -> usize {
    let host = Device::host();
    for way in WAYS {
        // The first connection opens what UCX keeps for the process.
        drop(pair(way));
    }
    for step in 0..200 {
        let way = WAYS[step % 2];
        let before = (descriptors(), host.held().allocated);
        let listener = listen(way);
        let more = [(STEP, step.to_string()), (WAY, way.into())];
        let mut child = Meeting::start(test, &listener.location(), &more);
        // A process that is killed at one of its first steps may not have connected.
        let mut is_over = false;
        let transport = loop {
            let wait = Some(Duration::from_millis(100));
            match listener.accept(wait) {
                Err(_) if !is_over => is_over = child.try_wait().unwrap().is_some(),
                accepted => break accepted.ok(),
            }
        };
        assert!(transport.is_some() || step < 3, "step {step}");
        transport.into_iter().for_each(&mut side);
        drop(listener);
        let status = child.wait().unwrap();
        assert_eq!((descriptors(), host.held().allocated), before, "step {step}");
        if status.success() {
            return step;
        }
    }
    panic!("the second process does not end");
}

#[test]
fn a_server_over_ucx_ends_for_a_client_that_is_killed_at_any_step() {
    let test = "ucx::a_server_over_ucx_ends_for_a_client_that_is_killed_at_any_step";
    with_ucx(|| {
        if let Some(location) = told() {
            let transport = deadly(connect(&location, &std::env::var(WAY).unwrap()));
            let options = ClientOptions::new();
            let client = Client::request(transport, &location, b"", options).unwrap();
            assert_eq!(client.map(Result::unwrap).count(), 3);
            return;
        }
        let killed = for_each_step(test, |transport| {
            let location = Location::new("ucx://");
            let options = ServerOptions::new().patience(None);
            let server = Server::new(transport, &location, options).unwrap();
            if let Err(error) = server.serve(|_| Ok(stream_of(some_batches()))) {
                assert_eq!(error.kind(), ErrorKind::Peer, "{error}");
            }
        });
        // A request, and eight messages.
        assert!(killed >= 9, "{killed}");
    });
}

#[test]
fn a_client_over_ucx_ends_where_its_server_is_killed_at_any_step() {
    let test = "ucx::a_client_over_ucx_ends_where_its_server_is_killed_at_any_step";
    with_ucx(|| {
        if let Some(location) = told() {
            // The second process connects, and serves.
            let transport = deadly(connect(&location, &std::env::var(WAY).unwrap()));
            let server = Server::new(transport, &location, ServerOptions::new()).unwrap();
            server.serve(|_| Ok(stream_of(some_batches()))).unwrap();
            return;
        }
        let expected = some_batches();
        let mut most = 0;
        let killed = for_each_step(test, |transport| {
            let location = Location::new("ucx://");
            let options = ClientOptions::new().patience(None);
            let client = Client::request(transport, &location, b"", options);
            most = most.max(came_before_the_end(client, &expected));
        });
        assert!(killed >= 9, "{killed}");
        assert_eq!(most, 3);
    });
}

#[test]
fn messages_that_a_peer_made_up_end_the_stream_over_ucx_with_an_error() {
    with_ucx(|| {
        let location = Location::new("local:");
        for way in WAYS {
            // A client with a tag of nobody, a second ticket, a message without a tag.
            for message in [
                Message::tagged(u64::MAX, vec![7; 100]),
                Message::tagged(1, b"another".to_vec()),
                Message::tagged(2, vec![0; 8]),
                Message::untagged(vec![1; 5]),
            ] {
                let (one, other) = pair(way);
                other.send(&Message::tagged(1, Vec::new()), None).unwrap();
                other.send(&message, None).unwrap();
                other.flush(None).unwrap();
                let options = ServerOptions::new();
                let server = Server::new(one, &location, options).unwrap();
                // The message has come when the stream is asked for the second batch.
                let served = server.serve(|_| {
                    std::thread::sleep(Duration::from_millis(200));
                    Ok(stream_of(some_batches()))
                });
                assert_eq!(served.unwrap_err().kind(), ErrorKind::Malformed, "{message:?}");
            }
            // A server with bodies that nobody awaits, and with headers that are none.
            for message in [
                Message::tagged(0xff << 56, vec![0; 1 << 20]),
                Message::tagged(1 << 40, Vec::new()),
                Message::untagged(vec![1, 0, 0, 0, 0, 9, 9, 9]),
                Message::untagged(Vec::new()),
                Message::untagged(vec![2; 300_000]),
            ] {
                let (one, other) = pair(way);
                one.send(&message, None).unwrap();
                let error = Client::request(other, &location, b"", ClientOptions::new());
                assert_eq!(error.unwrap_err().kind(), ErrorKind::Malformed, "{message:?}");
            }
        }
    });
}

#[test]
fn a_message_over_ucx_that_is_too_long_is_refused_before_its_bytes_come() {
    with_ucx(|| {
        for way in WAYS {
            for message in
                [Message::tagged(7, vec![1; 8 << 20]), Message::untagged(vec![1; 8 << 20])]
            {
                let (one, other) = pair(way);
                one.send(&message, None).unwrap();
                let error = other.receive(1 << 20, None).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{way}");
                assert!(other.receive(1 << 30, Some(Duration::ZERO)).is_err());
            }
            // The longest one that is allowed comes, and one that is small and too long does not.
            let (one, other) = pair(way);
            one.send(&Message::tagged(7, vec![1; 1 << 20]), None).unwrap();
            let Received::Message(came) = other.receive(1 << 20, None).unwrap() else { panic!() };
            assert!(came.bytes.len() == 1 << 20 && came.bytes.iter().all(|byte| *byte == 1));
            one.send(&Message::tagged(7, vec![1; 11]), None).unwrap();
            let error = other.receive(10, None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::LimitExceeded);
        }
    });
}

#[test]
fn a_peer_over_ucx_that_does_not_read_is_waited_for_no_longer_than_allowed() {
    with_ucx(|| {
        for way in WAYS {
            let (one, other) = pair(way);
            let message = Message::tagged(2, vec![0; 1 << 20]);
            let mut sent = 0;
            let error = loop {
                match one.send(&message, Some(Duration::from_millis(20))) {
                    Ok(()) => sent += 1,
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), ErrorKind::NotReady, "{way}: {error}");
            assert_eq!(one.flush(Some(Duration::ZERO)).unwrap_err().kind(), ErrorKind::NotReady);
            // What was sent comes.
            for _ in 0..sent {
                let Received::Message(came) = other.receive(1 << 20, None).unwrap() else {
                    panic!("{way}")
                };
                assert_eq!(came.bytes.len(), 1 << 20);
            }
            one.flush(None).unwrap();
            // An end that is dropped is told, and what is sent to it fails.
            drop(other);
            assert!(matches!(one.receive(10, None).unwrap(), Received::End), "{way}");
            assert_eq!(one.send(&message, None).unwrap_err().kind(), ErrorKind::Peer);
        }
    });
}

#[test]
fn what_a_side_over_ucx_sends_lets_its_peer_send_no_more_than_there_is_room_for() {
    with_ucx(|| {
        let (one, other) = pair("tcp");
        // This side sends, and receives nothing. Its peer receives slowly, and sends without end.
        let long = Message::tagged(1, vec![0; 1 << 20]);
        let short = Message::tagged(2, vec![0; 4000]);
        let most = (64 << 20) / short.bytes.len();
        let goes_on = AtomicBool::new(true);
        let sent = std::thread::scope(|scope| {
            scope.spawn(|| {
                while goes_on.load(Ordering::Relaxed) && one.send(&long, Some(STUCK)).is_ok() {
                    std::thread::yield_now();
                }
            });
            scope.spawn(|| {
                while matches!(other.receive(1 << 20, Some(STUCK)), Ok(Received::Message(_))) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let sent = (0..most).take_while(|_| other.send(&short, Some(STUCK)).is_ok()).count();
            goes_on.store(false, Ordering::Relaxed);
            sent
        });
        assert!(sent < most, "{sent} messages were taken, and nobody has received one");
        // All that was sent comes. The other side goes on to receive: a long message that nobody
        // receives there would keep UCX from finishing what was sent.
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let _ = other.receive(1 << 20, Some(Duration::from_millis(10)));
                }
            });
            let came = (0..sent).take_while(|_| {
                let received = one.receive(4000, Some(Duration::from_secs(60)));
                matches!(received, Ok(Received::Message(_)))
            });
            let came = came.count();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(came, sent);
        });
    });
}

#[test]
fn messages_over_ucx_that_were_lost_make_every_later_flush_an_error() {
    with_ucx(|| {
        for way in WAYS {
            let (one, other) = pair(way);
            for tag in 0..3 {
                one.send(&Message::tagged(tag, vec![0; 1 << 20]), None).unwrap();
            }
            // Nobody has received them.
            drop(other);
            for _ in 0..2 {
                let error = one.flush(None).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Peer, "{way}");
                assert!(error.message().starts_with("the other side has gone: "), "{error}");
                // Until all that was to be sent is over.
                assert!(matches!(one.receive(10, None).unwrap(), Received::End), "{way}");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    });
}

/// Sets a limit of this process, and returns what the limit was.
fn limit(what: Resource, most: Option<u64>) -> Option<u64> {
    let before = getrlimit(what);
    setrlimit(what, Rlimit { current: most, maximum: before.maximum }).unwrap();
    before.current
}

#[test]
fn a_message_over_ucx_that_there_is_no_memory_for_ends_the_connection_and_its_thread() {
    with_ucx(|| {
        let (one, other) = pair("tcp");
        one.send(&Message::tagged(1, vec![0; 64 << 20]), None).unwrap();
        // The connection is there.
        other.send(&Message::tagged(2, vec![2]), None).unwrap();
        assert!(matches!(one.receive(10, None).unwrap(), Received::Message(_)));
        // A gigabyte is allowed, and memory for another 32 MiB is there.
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
        // SAFETY: the call takes a number and returns one.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = u64::try_from(page).unwrap();
        let before = limit(Resource::As, Some(pages * page + (32 << 20)));
        let error = other.receive(1 << 30, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Peer);
        // The thread ends once it is told to, and closes the connection.
        drop(other);
        let end = one.receive(10, Some(Duration::from_secs(20)));
        limit(Resource::As, before);
        assert!(matches!(end.unwrap(), Received::End));
        assert!(one.flush(None).is_err());
    });
}

#[test]
fn a_client_over_ucx_stays_where_the_server_has_no_descriptor_for_it() {
    with_ucx(|| {
        let listener = listen("tcp");
        let location = listener.location();
        let crowd: Vec<_> = (0..10).map(|_| connect(&location, "tcp")).collect();
        for there in &crowd {
            there.send(&Message::tagged(1, vec![1]), None).unwrap();
        }
        // Most clients have connected, and a call that takes in one of them takes in the others.
        std::thread::sleep(Duration::from_secs(1));
        let (mut accepted, mut is_short) = (Vec::new(), false);
        while accepted.len() + 1 < crowd.len() && !is_short {
            accepted.push(listener.accept(None).unwrap());
            let before = limit(Resource::Nofile, Some(0));
            let refused = listener.accept(Some(Duration::ZERO)).unwrap_err();
            limit(Resource::Nofile, before);
            is_short = refused.kind() != ErrorKind::TimedOut;
        }
        assert!(is_short);
        while accepted.len() < crowd.len() {
            accepted.push(listener.accept(Some(Duration::from_secs(20))).unwrap());
        }
        for here in &accepted {
            assert!(matches!(here.receive(10, None).unwrap(), Received::Message(_)));
        }
    });
}

#[test]
fn a_client_over_ucx_that_says_nothing_and_an_address_where_nobody_listens_are_errors() {
    with_ucx(|| {
        let location = Location::new("local:");
        for way in WAYS {
            let (one, other) = pair(way);
            let options = ServerOptions::new().patience(Some(Duration::from_millis(50)));
            let server = Server::new(one, &location, options).unwrap();
            let served = server.serve(|_| Ok(stream_of(some_batches())));
            assert_eq!(served.unwrap_err().kind(), ErrorKind::TimedOut);
            // The server has gone.
            assert!(matches!(other.receive(10, None).unwrap(), Received::End));
            // So has the listener.
            let listener = listen(way);
            let nobody = listener.location();
            let late = listener.accept(Some(Duration::ZERO)).unwrap_err();
            assert_eq!(late.kind(), ErrorKind::TimedOut);
            drop(listener);
            let there = connect(&nobody, way);
            let refused = Client::request(there, &location, b"", ClientOptions::new());
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Peer);
        }
        // SAFETY: UNS-39: nobody is connected to.
        let other = unsafe { UcxTransport::connect(&Location::new("unix:///x"), &options("tcp")) };
        assert_eq!(other.unwrap_err().kind(), ErrorKind::Unsupported);
    });
}

#[test]
fn a_child_of_fork_uses_no_connection_of_its_parent_and_disturbs_none() {
    with_ucx(|| {
        let listener = listen("tcp");
        let there = connect(&listener.location(), "tcp");
        let here = listener.accept(None).unwrap();
        here.send(&Message::tagged(1, vec![1]), None).unwrap();
        let mut ends = Some((listener, here, there));
        forked(|| {
            let (listener, here, there) = ends.take().ok_or("no ends")?;
            let refused = [
                here.send(&Message::tagged(1, vec![2]), None).is_err(),
                there.receive(10, None).is_err(),
                listener.accept(None).is_err(),
                ucx_version().is_err(),
            ];
            drop((here, there, listener));
            if refused == [true; 4] { Ok(()) } else { Err(format!("{refused:?}")) }
        });
        let (_, here, there) = ends.unwrap();
        let Received::Message(came) = there.receive(10, None).unwrap() else { panic!() };
        assert_eq!(came.bytes, [1]);
        there.send(&Message::tagged(3, vec![3]), None).unwrap();
        assert!(matches!(here.receive(10, None).unwrap(), Received::Message(_)));
    });
}

#[test]
fn clients_over_ucx_come_and_go_and_leave_nothing() {
    with_ucx(|| {
        drop(pair("tcp"));
        let before = (descriptors(), Device::host().held().allocated);
        let listener = listen("tcp");
        for number in 0..20 {
            let there = connect(&listener.location(), "tcp");
            let here = listener.accept(None).unwrap();
            let location = listener.location();
            let serving = serving(here, &location, ServerOptions::new(), vec![batch(number)]);
            let mut client = Client::request(there, &location, b"", ClientOptions::new()).unwrap();
            require_same(&mut client, &Device::host(), &[batch(number)], "one of many");
            drop(client);
            serving.join().unwrap().unwrap();
        }
        drop(listener);
        assert_eq!((descriptors(), Device::host().held().allocated), before);
    });
}

#[test]
fn clients_over_ucx_that_are_too_many_are_refused_and_the_others_are_served() {
    with_ucx(|| {
        let listener = listen("tcp");
        let location = listener.location();
        let crowd: Vec<_> = (0..80).map(|_| connect(&location, "tcp")).collect();
        let mut accepted = Vec::new();
        while let Ok(here) = listener.accept(Some(Duration::from_millis(500))) {
            accepted.push(here);
        }
        assert!(accepted.len() >= 64, "{}", accepted.len());
        drop((accepted, crowd));
        let there = connect(&location, "tcp");
        let here = listener.accept(None).unwrap();
        let serving = serving(here, &location, ServerOptions::new(), some_batches());
        let mut client = Client::request(there, &location, b"", ClientOptions::new()).unwrap();
        require_same(&mut client, &Device::host(), &some_batches(), "behind a crowd");
        serving.join().unwrap().unwrap();
    });
}

#[test]
fn strangers_that_say_nothing_at_the_port_of_a_listener_disturb_no_client() {
    with_ucx(|| {
        let listener = listen("tcp");
        let location = listener.location();
        let address = location.address.strip_prefix("ucx://").unwrap();
        let mut strangers = Vec::new();
        for _ in 0..5 {
            // One stays, and one goes at once. What a stranger says UCX believes (UNS-39).
            strangers.push(std::net::TcpStream::connect(address).unwrap());
            drop(std::net::TcpStream::connect(address).unwrap());
            assert!(listener.accept(Some(Duration::from_millis(20))).is_err());
        }
        let there = connect(&location, "tcp");
        let here = listener.accept(None).unwrap();
        let serving = serving(here, &location, ServerOptions::new(), some_batches());
        let mut client = Client::request(there, &location, b"", ClientOptions::new()).unwrap();
        require_same(&mut client, &Device::host(), &some_batches(), "among strangers");
        serving.join().unwrap().unwrap();
    });
}
