//! What a peer made up: frames of a Unix socket, addresses, memory.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::time::Duration;

use arrow_device::driver::MemoryHandle;
use arrow_device::{Array, Batch, Buffer, DataType, Device, DeviceId, DeviceType, ErrorKind};
use arrow_device_dissociated::{
    BodyKind, BodyTag, Client, LocalTransport, Location, Message, Received, Region, Server,
    ServerOptions, Transport, UnixTransport,
};
use arrow_device_ipc::{Decoded, Decoder, Encoder, ReadOptions, WriteOptions};
use arrow_device_sim::Sim;
use arrow_device_testkit::allocations::peak;
use arrow_device_testkit::process::{alone, descriptors};
use arrow_device_testkit::{OnDrop, release_until};

use crate::support::{batch, opening, unix_pair};

/// A frame with this header behind the magic number and these bytes.
fn frame(has_tag: u8, regions: u16, tag: u64, table: u32, len: u64, rest: &[u8]) -> Vec<u8> {
    let mut bytes = b"ADD1".to_vec();
    bytes.extend([has_tag, 0]);
    bytes.extend(regions.to_le_bytes());
    bytes.extend(tag.to_le_bytes());
    bytes.extend(table.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(len.to_le_bytes());
    bytes.extend(rest);
    bytes
}

/// What comes of bytes on a socket.
fn received(bytes: &[u8]) -> arrow_device::Result<Received> {
    let (mut peer, socket) = UnixStream::pair().unwrap();
    peer.write_all(bytes).unwrap();
    drop(peer);
    UnixTransport::new(socket).receive(1 << 20, None)
}

#[test]
fn frames_that_break_the_layout_are_refused_with_little_memory() {
    alone(|| {
        let good = frame(1, 0, 7, 0, 2, b"ab");
        let Received::Message(message) = received(&good).unwrap() else { panic!("no message") };
        assert_eq!((message.tag, &*message.bytes), (Some(7), &b"ab"[..]));
        let kind = |bytes: &[u8]| received(bytes).unwrap_err().kind();
        for at in [0, 3, 4, 5, 20, 23] {
            let mut wrong = good.clone();
            wrong[at] ^= 2;
            assert_eq!(kind(&wrong), ErrorKind::Malformed, "{at}");
        }
        assert_eq!(kind(&frame(0, 0, 7, 0, 0, b"")), ErrorKind::Malformed);
        assert_eq!(kind(&frame(1, 129, 7, 0, 0, b"")), ErrorKind::LimitExceeded);
        assert_eq!(kind(&frame(1, 0, 7, 1 << 20, 0, b"")), ErrorKind::LimitExceeded);
        assert_eq!(kind(&frame(1, 0, 7, 0, u64::MAX, b"")), ErrorKind::LimitExceeded);
        // A table that does not have the regions, or more, or a region without its descriptor.
        assert_eq!(kind(&frame(1, 1, 7, 0, 0, b"")), ErrorKind::Malformed);
        assert_eq!(kind(&frame(1, 0, 7, 1, 0, b"x")), ErrorKind::Malformed);
        assert_eq!(kind(&frame(1, 1, 7, 19, 0, &[1; 19])), ErrorKind::Malformed);
        for end in 1..good.len() {
            assert_eq!(kind(&good[..end]), ErrorKind::Peer, "{end}");
        }
        assert!(matches!(received(b"").unwrap(), Received::End));
        let claim = frame(1, 0, 7, 0, 1 << 40, b"a");
        let (mut peer, socket) = UnixStream::pair().unwrap();
        peer.write_all(&claim).unwrap();
        let transport = UnixTransport::new(socket);
        let (heap, came) = peak(|| transport.receive(u64::MAX, Some(Duration::ZERO)));
        assert!(matches!(came.unwrap(), Received::Nothing));
        assert!((1 << 18..4 << 20).contains(&heap), "{heap} bytes for a message of which one came");
    });
}

#[test]
fn a_message_that_comes_in_pieces_comes_whole_and_with_its_memory() {
    let (mut peer, socket) = UnixStream::pair().unwrap();
    let transport = UnixTransport::new(socket);
    for byte in frame(0, 0, 0, 0, 3, b"abc").chunks(1) {
        let nothing = transport.receive(100, Some(Duration::ZERO)).unwrap();
        assert!(matches!(nothing, Received::Nothing));
        peer.write_all(byte).unwrap();
    }
    let Received::Message(message) = transport.receive(100, None).unwrap() else { panic!() };
    assert_eq!((message.tag, &*message.bytes), (None, &b"abc"[..]));
    // A long one is written while it is read.
    let (one, other) = unix_pair();
    let long = Message::tagged(3, (0..3 << 20).map(|at: u32| at as u8).collect());
    std::thread::scope(|scope| {
        scope.spawn(|| one.send(&long, None).unwrap());
        let Received::Message(came) = other.receive(4 << 20, None).unwrap() else { panic!() };
        assert!(came.bytes == long.bytes);
    });
}

#[test]
fn a_peer_that_does_not_read_is_waited_for_no_longer_than_allowed() {
    let (one, other) = unix_pair();
    let message = Message::tagged(2, vec![0; 1000]);
    let error = loop {
        if let Err(error) = one.send(&message, Some(Duration::ZERO)) {
            break error;
        }
    };
    assert!(matches!(error.kind(), ErrorKind::NotReady | ErrorKind::Peer), "{error}");
    drop(other);
    assert_eq!(one.send(&message, None).unwrap_err().kind(), ErrorKind::Peer);
}

/// A client of a server that sends the schema and this body for the first batch.
fn came(
    location: &Location,
    tag: u64,
    body: Vec<u8>,
    regions: Vec<Region>,
) -> arrow_device::Result<Option<arrow_device::Batch>> {
    let (here, there) = LocalTransport::pair();
    let expected = batch(20);
    let mut encoder = Encoder::new(&expected.schema().unwrap(), WriteOptions::new()).unwrap();
    let header =
        |sequence: u8, header: &[u8]| Message::untagged([&[1, sequence, 0, 0, 0], header].concat());
    here.send(&header(0, &encoder.schema_message().unwrap()), None).unwrap();
    let message = encoder.encode_apart(&expected).unwrap().pop().unwrap();
    here.send(&header(1, message.header()), None).unwrap();
    here.send(&Message { tag: Some(tag), bytes: body, regions }, None).unwrap();
    let options = opening(&Device::host()).patience(Some(Duration::ZERO)).largest(1 << 16);
    Client::request(there, location, b"", options)?.next().transpose()
}

#[test]
fn addresses_and_memory_that_were_made_up_are_refused() {
    alone(|| {
        let location = Location::new("local:").sharing(&Device::host());
        let tag = BodyTag { sequence: 1, kind: BodyKind::Addresses }.bits();
        let list = |pairs: &[(u64, u64)]| -> Vec<u8> {
            let total: u64 = pairs.iter().map(|(_, len)| len).sum();
            let first = (total, pairs.len() as u64);
            let all = std::iter::once(&first).chain(pairs);
            all.flat_map(|(one, other)| [one.to_le_bytes(), other.to_le_bytes()].concat()).collect()
        };
        let before = descriptors();
        let kind = |location: &Location, body: Vec<u8>, regions: Vec<Region>| {
            came(location, tag, body, regions).unwrap_err().kind()
        };
        let region = |base, len| {
            let file: std::os::fd::OwnedFd = std::fs::File::open("/dev/zero").unwrap().into();
            Region { base, len, handle: MemoryHandle::from_descriptor(file) }
        };
        // No region has the address; a region is no memory; regions overlap, wrap, or are too long.
        assert_eq!(kind(&location, list(&[(4096, 8); 9]), vec![]), ErrorKind::Malformed);
        let wrong = vec![region(4096, 4096)];
        assert_eq!(kind(&location, list(&[(4096, 8); 9]), wrong), ErrorKind::Malformed);
        let wraps = vec![region(u64::MAX, 2)];
        assert_eq!(kind(&location, list(&[(4096, 8); 9]), wraps), ErrorKind::Malformed);
        let long = vec![region(4096, 1 << 17)];
        assert_eq!(kind(&location, list(&[(4096, 8); 9]), long), ErrorKind::LimitExceeded);
        let overlapping = vec![region(8192, 4096), region(4096, 4097)];
        let refused = came(&location, tag, list(&[(4096, 8); 9]), overlapping).unwrap_err();
        assert_eq!(refused.message(), "two regions have the same addresses");
        // Too few buffers for the header.
        assert_eq!(kind(&location, list(&[]), vec![]), ErrorKind::Malformed);
        // Buffers that are shorter than the header says.
        assert_eq!(kind(&location, list(&[(0, 0); 9]), vec![]), ErrorKind::Malformed);
        let mut private = location.clone();
        private.free_data = None;
        assert_eq!(kind(&private, list(&[(4096, 8); 9]), vec![]), ErrorKind::Malformed);
        assert_eq!(descriptors(), before);
    });
}

#[test]
fn buffers_that_came_apart_have_to_be_those_of_their_header() {
    let numbers = Array::from_values(DataType::Int64, [Some(1_i64), Some(2)]).unwrap();
    let batch = Batch::from_columns([("n", numbers)]).unwrap();
    let mut encoder = Encoder::new(&batch.schema().unwrap(), WriteOptions::new()).unwrap();
    let schema = encoder.schema_message().unwrap();
    let message = encoder.encode_apart(&batch).unwrap().pop().unwrap();
    let decoded_on = |buffers: Vec<Option<Vec<u8>>>, device| {
        let mut decoder = Decoder::new(ReadOptions::new());
        decoder.decode(&schema, Buffer::from(Vec::<u8>::new())).unwrap();
        let buffers = buffers.into_iter().map(|bytes| bytes.map(Buffer::from)).collect();
        decoder.decode_apart(message.header(), buffers, device)
    };
    let decoded = |buffers| decoded_on(buffers, DeviceId::CPU);
    let values = [1_i64, 2].map(i64::to_ne_bytes).concat();
    let Decoded::Batch { batch: again, .. } = decoded(vec![None, Some(values.clone())]).unwrap()
    else {
        panic!("no batch")
    };
    assert!(again.as_array().equals(batch.as_array()).unwrap());
    let kind = |buffers| decoded(buffers).unwrap_err().kind();
    assert_eq!(kind(vec![None, Some(values.clone()), None]), ErrorKind::Malformed);
    assert_eq!(kind(vec![Some(values.clone())]), ErrorKind::Malformed);
    assert_eq!(kind(vec![None, Some(values[..15].to_vec())]), ErrorKind::Malformed);
    assert_eq!(kind(vec![None, None]), ErrorKind::Malformed);
    // Nothing is wrong with the message here.
    let elsewhere = decoded_on(vec![None, Some(values)], DeviceId::new(DeviceType::CUDA, 0));
    let error = elsewhere.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(error.message(), "buffer 1 does not lie on cuda:0");
}

// Requirement: SAF-24
#[test]
fn nobody_is_served_in_a_release() {
    let sim = Sim::builder().backtraces(false).build();
    let queue = sim.device().open_queue().unwrap();
    let (tell, told) = mpsc::channel();
    queue.keep_until_done(OnDrop(move || {
        // The other end asks for nothing.
        let (one, _other) = LocalTransport::pair();
        let options = ServerOptions::new().patience(Some(Duration::from_secs(1)));
        let server = Server::new(one, &Location::new("local:"), options).unwrap();
        tell.send(server.serve(|_| unreachable!()).unwrap_err().kind()).unwrap();
    }));
    sim.run_until_idle();
    drop(queue);
    assert!(release_until(|| told.try_recv() == Ok(ErrorKind::InvalidArgument)));
    sim.finish();
}

#[test]
fn what_a_client_made_up_ends_its_stream_and_keeps_nothing() {
    alone(|| {
        let host = Device::host();
        let before = host.held().allocated;
        let location = Location::new("local:").sharing(&host);
        let nothing = || Message::tagged(2, 1_u64.to_le_bytes().to_vec());
        for message in [
            nothing(),
            Message::tagged(2, vec![0; 7]),
            Message::tagged(2, Vec::new()),
            Message::tagged(9, vec![0; 8]),
            Message::untagged(vec![0; 5]),
            Message::tagged(1, b"another ticket".to_vec()),
        ] {
            let (one, other) = LocalTransport::pair();
            other.send(&Message::tagged(1, b"ticket".to_vec()), None).unwrap();
            other.send(&message, None).unwrap();
            let server = Server::new(one, &location, ServerOptions::new().sharing(&host)).unwrap();
            let served = server.serve(|_| Ok(crate::support::stream_of(vec![batch(20)])));
            assert_eq!(served.unwrap_err().kind(), ErrorKind::Malformed, "{message:?}");
            assert_eq!(host.held().allocated, before);
        }
        let mut text = String::new();
        // A server whose client is something else.
        let (mut peer, socket) = UnixStream::pair().unwrap();
        peer.write_all(b"GET / HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n").unwrap();
        let transport = UnixTransport::new(socket);
        let server = Server::new(transport, &location, ServerOptions::new()).unwrap();
        let served = server.serve(|_| Ok(crate::support::stream_of(vec![batch(20)])));
        assert_eq!(served.unwrap_err().kind(), ErrorKind::Malformed);
        let _ = peer.read_to_string(&mut text);
        assert_eq!(text, "");
    });
}
