//! Sides that go on, stop or leave where nobody expects that: what they were given is let go, and
//! nobody waits for them.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use arrow_device::{
    Allocator, Array, ArrayStream, Batch, DataType, Device, DeviceType, ErrorKind, Field, Recycler,
    Schema,
};
use arrow_device_share::{Receiver, Sender, open, share, to_shareable};
use arrow_device_sim::{Schedule, Sim};
use arrow_device_testkit::process::{alone, forked};
use arrow_device_testkit::{OnDrop, release_until};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::process::{Resource, Rlimit};

use crate::peer::{frame, sent, taken_apart};
use crate::support::{batch, connected, may_have, shareable, software};

// Requirement: SAF-42
#[test]
fn a_sender_that_only_sends_lets_go_of_what_was_released() {
    alone(|| {
        let (sender, mut receiver) = connected([Device::host()]);
        let before = Device::host().held().allocated;
        for _ in 0..100 {
            sender.send(&shareable(10)).unwrap();
            drop(receiver.receive().unwrap().unwrap());
        }
        // The last one was released after it was sent.
        let one = shareable(10);
        let with_one = Device::host().held().allocated;
        drop(one);
        let of_one = with_one - Device::host().held().allocated;
        assert!(Device::host().held().allocated <= before + of_one);
    });
}

// Requirement: SAF-42
#[test]
fn nothing_is_sent_to_a_receiver_that_closed_its_way_back() {
    let (one, other) = UnixStream::pair().unwrap();
    let sender = Sender::new(one);
    sender.send(&shareable(3)).unwrap();
    other.shutdown(Shutdown::Write).unwrap();
    assert_eq!(sender.held().unwrap(), 0);
    let error = sender.send(&shareable(4)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Peer, "{error}");
    assert_eq!(sender.held().unwrap(), 0);
    drop(other);
}

// Requirement: SAF-24
#[test]
fn a_sender_is_not_waited_for_in_a_release() {
    let sim = Sim::builder().schedule(Schedule::Late).backtraces(false).build();
    let queue = sim.device().open_queue().unwrap();
    let (sender, mut receiver) = connected([Device::host()]);
    let sender = Arc::new(sender);
    sender.send(&shareable(3)).unwrap();
    let received = receiver.receive().unwrap().unwrap();
    let late = shareable(1).copy_to(&queue).unwrap();
    let schema = late.schema().unwrap();
    let (tell, told) = mpsc::channel();
    let waiting = sender.clone();
    queue.keep_until_done(OnDrop(move || {
        let none = std::iter::empty::<arrow_device::Result<Array>>();
        let errors = [
            waiting.wait_until_released(None).map(drop),
            waiting.wait_until_released(Some(Duration::from_secs(60))).map(drop),
            waiting.serve(ArrayStream::new(schema.clone(), DeviceType::CPU, none)),
        ];
        let errors = errors.map(|result| result.unwrap_err().kind());
        tell.send((errors, waiting.wait_until_released(Some(Duration::ZERO)).unwrap())).unwrap();
    }));
    // What the destructor waits for is released behind it.
    queue.keep_until_done(received);
    sim.run_until_idle();
    drop((late, queue));
    assert!(release_until(|| sender.held().unwrap() == 0));
    assert_eq!(told.recv().unwrap(), ([ErrorKind::InvalidArgument; 3], false));
    // Outside of a release there is nothing left to wait for.
    assert!(sender.wait_until_released(None).unwrap());
    sim.finish();
}

#[test]
fn nothing_follows_a_message_that_was_sent_in_part() {
    let (one, other) = UnixStream::pair().unwrap();
    rustix::net::sockopt::set_socket_send_buffer_size(&one, 4096).unwrap();
    let sender = Sender::new(one).with_patience(Duration::ZERO);
    let array = {
        let column = batch(1).column(0).unwrap();
        let columns = (0..300).map(|number| (format!("column {number}"), column.clone()));
        let wide = arrow_device::Batch::from_columns(columns).unwrap();
        to_shareable(wide.as_array(), &Device::host()).unwrap()
    };
    let mut sent = 0;
    let error = loop {
        match sender.send(&array) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");
    let (bytes, _descriptors) = taken_apart(&other.as_fd().try_clone_to_owned().unwrap());
    println!("{sent} sent, {} bytes", bytes.len());
    let error = sender.send(&array).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Peer, "{error}");
    assert_eq!(sender.held().unwrap(), sent);
}

/// Threads that write the same frames, many megabytes of them, whole ones with each call.
fn flood(to: &UnixStream, frame: &[u8]) -> (Arc<AtomicBool>, Vec<std::thread::JoinHandle<()>>) {
    let has_ended = Arc::new(AtomicBool::new(false));
    let thread = || {
        let (mut to, ended) = (to.try_clone().unwrap(), has_ended.clone());
        let many = frame.repeat((16 << 10) / frame.len());
        std::thread::spawn(move || {
            for _ in 0..2000 {
                if to.write_all(&many).is_err() {
                    return;
                }
            }
            ended.store(true, Ordering::SeqCst);
        })
    };
    (has_ended.clone(), (0..3).map(|_| thread()).collect())
}

#[test]
fn a_look_at_a_receiver_that_talks_without_end_has_an_end() {
    let (one, other) = UnixStream::pair().unwrap();
    let sender = Sender::new(one);
    sender.send(&shareable(3)).unwrap();
    let (has_ended, threads) = flood(&other, &frame(6, &[0; 4]));
    for _ in 0..3 {
        assert_eq!(sender.held().unwrap(), 1);
        assert!(!sender.wait_until_released(Some(Duration::from_millis(2))).unwrap());
    }
    assert!(!has_ended.load(Ordering::SeqCst));
    other.shutdown(Shutdown::Both).unwrap();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_sender_that_tells_schemas_without_end_is_waited_for_as_long_as_was_said() {
    let (ticket, sender) = share(&shareable(3)).unwrap();
    let (bytes, _descriptors) = taken_apart(&ticket);
    drop(sender);
    let len = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
    let schema = &bytes[..16 + len];
    let (one, other) = UnixStream::pair().unwrap();
    let mut receiver = Receiver::new(other, [Device::host()]);
    let (has_ended, threads) = flood(&one, schema);
    let error = receiver.receive_within(Duration::from_millis(5)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert!(!has_ended.load(Ordering::SeqCst));
    drop(receiver);
    threads.into_iter().for_each(|thread| thread.join().unwrap());

    let (one, other) = UnixStream::pair().unwrap();
    let (has_ended, threads) = flood(&one, schema);
    let error = open(other.into(), [Device::host()]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(!has_ended.load(Ordering::SeqCst));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

// Requirement: SAF-42
#[test]
fn what_a_receiver_leaves_unread_is_released() {
    let (sender, mut receiver) = connected([Device::host()]);
    for rows in 1..6 {
        sender.send(&shareable(rows)).unwrap();
    }
    let first = receiver.receive().unwrap().unwrap();
    drop(receiver);
    assert_eq!(sender.held().unwrap(), 1);
    let error = sender.send(&shareable(6)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Peer, "{error}");
    assert_eq!(sender.held().unwrap(), 1);
    drop(first);
    assert_eq!(sender.held().unwrap(), 0);
}

#[test]
fn a_stream_after_a_stream_without_arrays_comes_whole() {
    let (sender, mut receiver) = connected([Device::host()]);
    let thread = std::thread::spawn(move || {
        let schema = batch(1).schema().unwrap();
        let none = std::iter::empty::<arrow_device::Result<Array>>();
        sender.serve(ArrayStream::new(schema.clone(), DeviceType::CPU, none))?;
        sender.serve(ArrayStream::new(schema, DeviceType::CPU, [Ok(shareable(7))]))
    });
    assert!(receiver.receive().unwrap().is_none());
    let stream = receiver.into_stream(1).unwrap();
    assert_eq!(stream.map(|array| array.unwrap().len()).collect::<Vec<_>>(), [7]);
    thread.join().unwrap().unwrap();
}

#[test]
fn a_stream_of_a_receiver_that_had_an_error_is_an_error() {
    let (mut one, other) = UnixStream::pair().unwrap();
    let mut receiver = Receiver::new(other, [Device::host()]);
    one.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(receiver.receive().unwrap_err().kind(), ErrorKind::Malformed);
    // What follows would be a stream.
    let (ticket, sender) = share(&shareable(3)).unwrap();
    let (bytes, _descriptors) = taken_apart(&ticket);
    drop(sender);
    let len = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
    let _ = one.write_all(&bytes[..16 + len]);
    assert!(receiver.into_stream(1).is_err());
}

#[test]
fn a_device_that_is_made_shareable_many_times_is_as_one_that_is_made_so_once() {
    let recycler = Recycler::new(1 << 20);
    for device in [Device::host(), Device::host().with_allocator(recycler.clone())] {
        let mut device = device.shareable().unwrap();
        for _ in 0..100_000 {
            device = device.shareable().unwrap();
        }
        let queue = device.open_queue().unwrap();
        let mut memory = device.allocate(4096).unwrap();
        memory.write(&queue, &[7; 4096]).unwrap();
        let buffers = [None, Some(memory.into_buffer())];
        let array =
            Array::builder(DataType::UInt8).len(4096).buffers(buffers).finish_ready().unwrap();
        assert!(share(&array).is_ok());
    }
    assert!(release_until(|| recycler.kept() >= 4096));
}

// Requirement: SAF-42
#[test]
fn a_recycler_gives_memory_that_can_be_fixed_out_once() {
    let once = Device::host().shareable().unwrap();
    let queue = once.open_queue().unwrap();
    let recycler = Recycler::new(1 << 20);
    for value in 1..4_u8 {
        let mut memory = recycler.allocate(&once, 4096, None).unwrap();
        memory.write(&queue, &[value; 4096]).unwrap();
        let buffers = [None, Some(memory.into_buffer())];
        let array =
            Array::builder(DataType::UInt8).len(4096).buffers(buffers).finish_ready().unwrap();
        let (ticket, _sender) = share(&array).unwrap();
        let opened = open(ticket, [Device::host()]).unwrap();
        assert!(opened.equals(&array).unwrap());
    }
    assert_eq!(recycler.kept(), 0);
}

// Requirement: SAF-41
#[test]
fn memory_without_pages_is_refused() {
    let (bytes, _right) = taken_apart(&share(&shareable(20)).unwrap().0);
    for huge in [MemfdFlags::empty(), MemfdFlags::HUGETLB] {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | huge;
        let Ok(memory) = rustix::fs::memfd_create(c"without pages", flags) else { continue };
        rustix::fs::ftruncate(&memory, 4 << 20).unwrap();
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
        rustix::fs::fcntl_add_seals(&memory, seals).unwrap();
        let error = open(sent(&bytes, &[memory]).into(), [Device::host()]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{huge:?}: {error}");
    }
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error() {
    alone(|| {
        let (one, other) = UnixStream::pair().unwrap();
        let limit = Rlimit { current: Some(4096), maximum: Some(4096) };
        rustix::process::setrlimit(Resource::Fsize, limit).unwrap();
        let host = Device::host().shareable().unwrap();
        assert!(host.allocate(4096).is_ok());
        assert_eq!(host.allocate(4097).unwrap_err().kind(), ErrorKind::OutOfMemory);
        let (_sim, device) = software();
        let device = device.shareable().unwrap();
        assert_eq!(device.allocate(1 << 20).unwrap_err().kind(), ErrorKind::OutOfMemory);
        // A schema that lies in memory of its own.
        let field = Field::new("x".repeat(1 << 16), DataType::Null, true);
        let array = Array::builder(Schema::new(field).unwrap()).finish_ready().unwrap();
        let error = Sender::new(one).send(&array).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        drop(other);
    });
}

#[test]
fn memory_that_a_child_can_write_to_is_not_fixed_and_the_error_says_why() {
    alone(|| {
        let array = shareable(10);
        let (mut begun, mut begins) = UnixStream::pair().unwrap();
        let (mut ends, mut end) = UnixStream::pair().unwrap();
        // The child ends also where this test fails.
        ends.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let child = std::thread::spawn(move || {
            forked(move || {
                begins.write_all(&[1]).map_err(|error| error.to_string())?;
                ends.read_exact(&mut [0]).map_err(|error| error.to_string())
            });
        });
        begun.read_exact(&mut [0]).unwrap();
        let error = share(&array).unwrap_err();
        assert!(error.to_string().contains("a child of `fork`"), "{error}");
        assert!(error.to_string().contains("share a copy of the array"), "{error}");
        let copy = to_shareable(&array, &Device::host()).unwrap();
        let (ticket, _sender) = share(&copy).unwrap();
        assert!(open(ticket, [Device::host()]).unwrap().equals(&array).unwrap());
        end.write_all(&[1]).unwrap();
        child.join().unwrap();
        let (ticket, _sender) = share(&array).unwrap();
        assert!(open(ticket, [Device::host()]).unwrap().equals(&array).unwrap());
    });
}

// Requirement: SAF-42
#[test]
fn a_sender_that_is_dropped_where_no_descriptor_is_left_lets_go_too() {
    alone(|| {
        let before = Device::host().held().allocated;
        let shared = shareable(10);
        let (ticket, sender) = share(&shared).unwrap();
        let opened = open(ticket, [Device::host()]).unwrap();
        let limit = rustix::process::getrlimit(Resource::Nofile);
        let none = Rlimit { current: Some(3), maximum: limit.maximum };
        rustix::process::setrlimit(Resource::Nofile, none).unwrap();
        assert_eq!(share(&shared).unwrap_err().kind(), ErrorKind::LimitExceeded);
        let made = Device::host().shareable().unwrap().allocate(1);
        assert_eq!(made.unwrap_err().kind(), ErrorKind::LimitExceeded);
        drop((sender, shared));
        drop(opened);
        while Device::host().held().allocated > before {
            std::thread::yield_now();
        }
        rustix::process::setrlimit(Resource::Nofile, limit).unwrap();
    });
}

#[test]
fn no_more_is_sent_than_is_wanted_where_several_threads_serve() {
    let (sender, receiver) = connected([Device::host()]);
    let (sender, array) = (&sender, shareable(3));
    std::thread::scope(|scope| {
        let serve = || {
            let arrays = std::iter::repeat_with(|| Ok(array.clone()));
            let arrays: Vec<_> = arrays.take(30_000).collect();
            let schema = batch(1).schema().unwrap();
            sender.serve(ArrayStream::new(schema, DeviceType::CPU, arrays))
        };
        let threads = [scope.spawn(serve), scope.spawn(serve), scope.spawn(serve)];
        let mut stream = receiver.into_stream(1).unwrap();
        for _ in 0..20_000 {
            drop(stream.next().unwrap().unwrap());
            assert!(sender.held().unwrap() <= 2);
        }
        // The receiver leaves before the end.
        drop(stream);
        for thread in threads {
            assert_eq!(thread.join().unwrap().unwrap_err().kind(), ErrorKind::Peer);
        }
    });
}

/// A batch of so many columns of no more than one number, each in an allocation of its own.
fn of_allocations(count: usize) -> Array {
    let host = Device::host();
    let one = || Array::from_values(DataType::Int8, [Some(1_i8)]).unwrap();
    let columns = (0..count).map(|at| (at.to_string(), to_shareable(&one(), &host).unwrap()));
    Batch::from_columns(columns.collect::<Vec<_>>()).unwrap().as_array().clone()
}

#[test]
fn as_many_allocations_are_sent_as_a_message_has_room_for_and_one_more_is_refused_before() {
    alone(|| {
        if !may_have(5000) {
            return println!("skipped: the process may not have 5,000 descriptors");
        }
        let (one, mut other) = UnixStream::pair().unwrap();
        let sender = Sender::new(one);
        let array = of_allocations(2001);
        let error = sender.send(&array).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
        let said = error.to_string();
        assert!(said.contains("2001 allocations") && said.contains("to_shareable"), "{said}");
        other.set_nonblocking(true).unwrap();
        let nothing = other.read(&mut [0]).unwrap_err();
        assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock, "the schema was sent");
        other.set_nonblocking(false).unwrap();
        let mut receiver = Receiver::new(other, [Device::host()]);
        for array in [to_shareable(&array, &Device::host()).unwrap(), of_allocations(2000)] {
            sender.send(&array).unwrap();
            assert!(receiver.receive().unwrap().unwrap().equals(&array).unwrap());
        }
    });
}

#[test]
fn a_receiver_that_may_not_have_so_many_descriptors_says_so() {
    alone(|| {
        let array = of_allocations(100);
        let (sender, mut receiver) = connected([Device::host()]);
        sender.send(&array).unwrap();
        let limit = rustix::process::getrlimit(Resource::Nofile);
        let few = Rlimit { current: Some(150), maximum: limit.maximum };
        rustix::process::setrlimit(Resource::Nofile, few).unwrap();
        let error = receiver.receive().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
        assert!(error.to_string().contains("descriptors were lost"), "{error}");
    });
}

// Requirement: SAF-12
#[test]
fn arrays_of_two_runtimes_that_are_open_by_one_id_are_sent_over_one_connection() {
    alone(|| {
        let (first, one) = software();
        let second = Sim::builder().backtraces(false).ids_of(&first).build();
        let other = second.device();
        assert_eq!(one.id(), other.id());
        let (_third, there) = software();
        let (sender, mut receiver) = connected([there]);
        for (rows, device) in [(3, &one), (4, &other), (5, &one), (6, &other)] {
            let array = to_shareable(batch(rows).as_array(), device).unwrap();
            sender.send(&array).unwrap();
            let came = receiver.receive().unwrap().unwrap().to_host().unwrap();
            assert!(came.equals(batch(rows).as_array()).unwrap());
        }
    });
}
