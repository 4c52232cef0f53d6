//! Streams between two threads.

use std::time::Duration;

use arrow_device::{Array, ArrayStream, Batch, DataType, Device, DeviceType, ErrorKind, IndexType};
use arrow_device_dissociated::{
    Client, ClientOptions, LocalTransport, Location, Message, Received, Server, ServerOptions,
    Transport,
};
use arrow_device_ipc::{Compression, ReadOptions, WriteOptions};
use arrow_device_sim::{Kind, Sim};
use arrow_device_testkit::golden;
use arrow_device_testkit::process::{alone, descriptors};
use arrow_device_testkit::samples::growing_dictionaries;

use crate::support::{
    batch, opening, read_golden, require_same, serving, sharing, some_batches, unix_pair,
};

/// Sends a stream over a connection, and returns how many bytes were packed and shared on both
/// sides.
pub(crate) fn sent(
    ends: (impl Transport + 'static, impl Transport + 'static),
    (server, client): (ServerOptions, ClientOptions),
    (location, device): (&Location, &Device),
    batches: &[Batch],
    name: &str,
) -> [(u64, u64); 2] {
    let serving = serving(ends.0, location, server, batches.to_vec());
    let mut client = Client::request(ends.1, location, b"ticket", client).unwrap();
    assert_eq!(*client.schema(), batches[0].schema().unwrap(), "{name}");
    require_same(&mut client, device, batches, name);
    let there = client.counts();
    drop(client);
    let here = serving.join().unwrap().unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!((here.messages, here.header_bytes), (there.messages, there.header_bytes), "{name}");
    assert_eq!((here.repeated, there.repeated), (0, 0), "{name}");
    [here, there].map(|counts| (counts.packed_bytes, counts.shared_bytes))
}

/// Calls something with the batches of each golden stream that has some.
pub(crate) fn for_each_golden(mut each: impl FnMut(&str, &[Batch])) {
    for path in golden::streams() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let batches: Vec<Batch> = read_golden(&path).map(Result::unwrap).collect();
        if !batches.is_empty() {
            each(&name, &batches);
        }
    }
    each("generated", &some_batches());
}

#[test]
fn golden_streams_come_as_they_were_and_no_byte_of_a_body_is_in_a_message() {
    let host = Device::host();
    let location = Location::new("local:").sharing(&host);
    for_each_golden(|name, batches| {
        let options = || (sharing(&host), opening(&host));
        let place = (&location, &host);
        let [here, there] = sent(LocalTransport::pair(), options(), place, batches, name);
        assert_eq!(here, there, "{name}");
        assert_eq!(here.0, 0, "{name}");
        let over_unix = sent(unix_pair(), options(), place, batches, name);
        assert_eq!(over_unix, [here, there], "{name}");
    });
}

#[test]
fn golden_streams_come_packed_where_nothing_is_shared() {
    let host = Device::host();
    let location = Location::new("local:");
    for_each_golden(|name, batches| {
        for compression in [None, Some(Compression::Lz4)] {
            let write = WriteOptions::new().compression(compression);
            let options = (ServerOptions::new().write(write), ClientOptions::new());
            let place = (&location, &host);
            let [here, there] = sent(unix_pair(), options, place, batches, name);
            assert_eq!((here, here.1), (there, 0), "{name}");
        }
    });
}

#[test]
fn golden_streams_stay_on_the_software_device() {
    for kind in [Kind::Discrete, Kind::Handles] {
        let sim = Sim::builder().kind(kind).backtraces(false).build();
        let device = sim.device();
        let queue = device.open_queue().unwrap();
        let location = Location::new("local:").sharing(&device);
        if location.remote_handle.is_none() {
            println!("memory of {kind:?} cannot be shared");
            continue;
        }
        for_each_golden(|name, batches| {
            let there: Vec<Batch> =
                batches.iter().map(|batch| batch.copy_to(&queue).unwrap()).collect();
            let schema = there[0].schema().unwrap();
            let (one, other) = unix_pair();
            let server = Server::new(one, &location, sharing(&device)).unwrap();
            let device_type = device.id().device_type;
            let stream = ArrayStream::new(schema, device_type, there.into_iter().map(Ok));
            let serving = std::thread::spawn(move || server.serve(|_| Ok(stream)));
            let mut client = Client::request(other, &location, b"", opening(&device)).unwrap();
            require_same(&mut client, &device, batches, name);
            assert_eq!(client.counts().packed_bytes, 0, "{name}");
            drop(client);
            assert_eq!(serving.join().unwrap().unwrap().packed_bytes, 0, "{name}");
        });
        drop(queue);
        let reports = sim.finish();
        assert!(reports.is_empty(), "{reports:?}");
    }
}

#[test]
fn memory_is_kept_until_the_last_array_of_a_batch_is_dropped_and_no_longer() {
    alone(|| {
        let host = Device::host();
        let before = (descriptors(), host.held().allocated);
        let location = Location::new("local:").sharing(&host);
        let (one, other) = unix_pair();
        // Each batch waits until the one before was freed.
        let options = sharing(&host).most_kept(0).linger(Some(Duration::from_secs(60)));
        let serving = serving(one, &location, options, some_batches());
        let mut client = Client::request(other, &location, b"", opening(&host)).unwrap();
        let first = client.next().unwrap().unwrap();
        let column = first.column(1).unwrap();
        drop(first);
        // The column keeps the first batch, so that no other one comes.
        assert!(column.equals(&batch(100).column(1).unwrap()).unwrap());
        assert!(!serving.is_finished());
        drop(column);
        for rows in [0, 1000] {
            let next = client.next().unwrap().unwrap();
            assert!(next.as_array().equals(batch(rows).as_array()).unwrap());
        }
        assert!(client.next().is_none());
        let counts = serving.join().unwrap().unwrap();
        assert!(counts.freed >= 2, "{counts:?}");
        // The client told all of it, and its connection is still there.
        drop(client);
        assert_eq!((descriptors(), host.held().allocated), before);
    });
}

#[test]
fn arrays_outlive_their_client_and_hold_the_connection() {
    let host = Device::host();
    let location = Location::new("local:").sharing(&host);
    let (one, other) = LocalTransport::pair();
    let serving = serving(one, &location, sharing(&host), vec![batch(50)]);
    let mut client = Client::request(other, &location, b"", opening(&host)).unwrap();
    let kept = client.next().unwrap().unwrap();
    assert!(client.next().is_none());
    drop(client);
    assert!(!serving.is_finished());
    assert!(kept.as_array().equals(batch(50).as_array()).unwrap());
    drop(kept);
    assert_eq!(serving.join().unwrap().unwrap().freed, 1);
}

#[test]
fn a_slice_and_a_batch_on_another_device_are_copied_into_shared_memory() {
    let host = Device::host();
    let sim = Sim::builder().backtraces(false).build();
    let queue = sim.device().open_queue().unwrap();
    let location = Location::new("local:").sharing(&sim.device());
    let sent = |slice: &Batch| {
        let (one, other) = LocalTransport::pair();
        let serving = serving(one, &location, sharing(&sim.device()), vec![slice.clone()]);
        let client = Client::request(other, &location, b"", opening(&sim.device())).unwrap();
        let came: Vec<_> = client.on(&queue).into_batches().map(Result::unwrap).collect();
        assert!(came[0].to_host().unwrap().as_array().equals(slice.as_array()).unwrap());
        drop(came);
        let counts = serving.join().unwrap().unwrap();
        (counts.packed_bytes > 0, counts.freed)
    };
    // A copy of a slice begins within a byte of its bitmaps, as the slice does, and then no header
    // describes it.
    assert_eq!(sent(&batch(100).slice(3, 40).unwrap()), (true, 0));
    let slice = batch(100).slice(16, 40).unwrap();
    assert_eq!(sent(&slice), (false, 1));
    // A client that cannot open the memory says so.
    let (one, other) = LocalTransport::pair();
    let serving = self::serving(one, &location, sharing(&sim.device()), vec![slice]);
    let mut client = Client::request(other, &location, b"", opening(&host)).unwrap();
    assert_eq!(client.next().unwrap().unwrap_err().kind(), ErrorKind::DeviceMissing);
    assert!(client.next().is_none());
    drop(client);
    let _ = serving.join().unwrap();
}

#[test]
fn dictionaries_come_before_the_batches_that_use_them() {
    let host = Device::host();
    let values = |texts: [&str; 2]| Array::from_texts(DataType::Utf8, texts.map(Some)).unwrap();
    let batch = |texts: [&str; 2]| {
        let words = Array::builder(DataType::dictionary(IndexType::Int32, DataType::Utf8))
            .len(3)
            .buffers([None, Some(vec![1_i32, 0, 1].into())])
            .dictionary(values(texts));
        let words = words.finish_ready().unwrap();
        Batch::from_columns([("w", words)]).unwrap()
    };
    let batches = [batch(["a", "b"]), batch(["a", "b"]), batch(["c", "d"])];
    for location in [Location::new("local:").sharing(&host), Location::new("local:")] {
        let options = (sharing(&host), opening(&host));
        sent(LocalTransport::pair(), options, (&location, &host), &batches, "dictionaries");
    }
}

#[test]
fn a_server_that_fails_ends_the_stream_with_an_error() {
    let host = Device::host();
    let location = Location::new("local:").sharing(&host);
    let (one, other) = unix_pair();
    let server = Server::new(one, &location, sharing(&host)).unwrap();
    let serving = std::thread::spawn(move || {
        server.serve(|_| {
            let failed = Err(arrow_device::Error::new(ErrorKind::Driver, "the disk is full"));
            let batch = batch(3);
            let schema = batch.schema()?;
            Ok(ArrayStream::new(schema, DeviceType::CPU, [Ok(batch), failed]))
        })
    });
    let mut client = Client::request(other, &location, b"", opening(&host)).unwrap();
    let first = client.next().unwrap().unwrap();
    let error = client.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Peer);
    assert!(client.next().is_none());
    assert!(first.as_array().equals(batch(3).as_array()).unwrap(), "what came stays usable");
    assert_eq!(serving.join().unwrap().unwrap_err().message(), "the disk is full");
    // A ticket that the server does not know.
    let (one, other) = unix_pair();
    let server = Server::new(one, &location, sharing(&host)).unwrap();
    let serving = std::thread::spawn(move || {
        server.serve(|_| Err(arrow_device::Error::new(ErrorKind::InvalidArgument, "no such thing")))
    });
    let refused = Client::request(other, &location, b"?", opening(&host)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Peer);
    assert!(serving.join().unwrap().is_err());
}

/// The bytes of `docs/dissociated.md`.
#[test]
fn the_example_of_the_page_is_what_a_server_and_a_client_send() {
    let host = Device::host();
    let location = Location::new("local:").sharing(&host);
    let numbers = Array::from_values(DataType::Int64, [Some(1_i64), None, Some(3)]).unwrap();
    let batch = Batch::from_columns([("n", numbers)]).unwrap();
    let (one, other) = LocalTransport::pair();
    let serving = serving(one, &location, sharing(&host), vec![batch]);
    other.send(&Message::tagged(1, b"numbers".to_vec()), None).unwrap();
    let mut said: Vec<Message> = Vec::new();
    while said.len() < 4 {
        let Received::Message(message) = other.receive(1 << 20, None).unwrap() else { panic!() };
        said.push(message);
    }
    let tags: Vec<Option<u64>> = said.iter().map(|message| message.tag).collect();
    assert_eq!(tags, [None, None, Some(0x0100_0000_0000_0001), None]);
    assert_eq!(
        (&said[0].bytes[..5], &said[1].bytes[..5]),
        (&[1, 0, 0, 0, 0][..], &[1, 1, 0, 0, 0][..])
    );
    let list: Vec<u8> = [0x19_u64, 2, 0x1000, 1, 0x1040, 24].map(u64::to_le_bytes).concat();
    assert_eq!(said[2].bytes, list);
    assert_eq!(said[2].regions.len(), 1);
    assert_eq!(said[3].bytes, [0, 2, 0, 0, 0]);
    let freed = [0x1000_u64, 0x1040].map(u64::to_le_bytes).concat();
    other.send(&Message::tagged(2, freed), None).unwrap();
    assert_eq!(serving.join().unwrap().unwrap().freed, 1);
}

#[test]
fn a_dictionary_that_grows_beyond_the_bound_of_a_client_is_an_error_at_its_message() {
    let (batches, host) = (growing_dictionaries(), Device::host());
    for (location, server) in [
        (Location::new("local:"), ServerOptions::new()),
        (Location::new("local:").sharing(&host), sharing(&host)),
    ] {
        let read = |most| {
            let (one, other) = LocalTransport::pair();
            let serving = serving(one, &location, server.clone(), batches.clone());
            let read = ReadOptions::new().max_dictionaries(most);
            let client = opening(&host).read(read);
            let mut client = Client::request(other, &location, b"ticket", client).unwrap();
            let came = client.by_ref().collect::<Result<Vec<_>, _>>().map(|came| came.len());
            drop(client);
            // A client that has gone is no failure, or one.
            let _ = serving.join().unwrap();
            came
        };
        assert_eq!(read(1 << 20).unwrap(), 20);
        let error = read(8 << 10).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        let told = error.to_string();
        assert!(told.contains("message ") && told.contains(": dictionary 0: "), "{told}");
    }
}
