//! Arrays that come before their data: the receiver learns when the data is there, that the work on
//! it has failed, or that the process that does the work has ended.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::time::Duration;

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::async_stream::block_on;
use arrow_device::{
    Array, ArrayStream, Batch, Buffer, DataType, Device, ErrorKind, IndexType, Queue, Ready, Result,
};
use arrow_device_share::{Receiver, Sender, to_shareable};
use arrow_device_sim::Sim;
use arrow_device_testkit::process::{alone, descriptors, forked};
use arrow_device_testkit::release_until;

use crate::peer::{sent, taken_apart};
use crate::processes::{Meeting, for_each_golden, rounds, second};
use crate::support::{
    self, SOON, batch, connected, connected_with, said, trusting_receiver, trusting_sender,
};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);

/// A software device that waits at its end until threads of the library have closed their queues on
/// it.
pub(crate) struct Settling(Sim);

impl std::ops::Deref for Settling {
    type Target = Sim;

    fn deref(&self) -> &Sim {
        &self.0
    }
}

impl Drop for Settling {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.run_until_idle();
            release_until(|| self.0.leaks().is_empty());
        }
    }
}

/// A software device whose work runs when the test says so, and never because somebody waits.
pub(crate) fn held_up() -> (Settling, Device) {
    let sim = Sim::builder().backtraces(false).may_wait(false).build();
    let device = sim.device();
    (Settling(sim), device)
}

pub(crate) fn software() -> (Settling, Device) {
    let (sim, device) = support::software();
    (Settling(sim), device)
}

/// Runs all work, and waits until nothing keeps memory of the device any more. Threads of the
/// library may be letting go of it.
pub(crate) fn finish(sim: &Sim) {
    sim.run_until_idle();
    assert!(release_until(|| sim.allocated() == 0), "{} bytes", sim.allocated());
}

/// How many descriptors are open, once the devices have theirs.
fn descriptors_beside(devices: &[&Device]) -> usize {
    for device in devices {
        drop(device.shareable().unwrap().allocate(1).unwrap());
    }
    descriptors()
}

/// A sender that sends early, and a receiver that takes such arrays.
fn early(device: &Device) -> (Sender, Receiver) {
    let (sender, receiver) = connected_with(device);
    (sender.early(), receiver.taking_early(LONG))
}

pub(crate) fn shareable_on(device: &Device, rows: i64) -> Array {
    to_shareable(batch(rows).as_array(), device).unwrap()
}

/// An array of which nothing is there yet, as it came.
fn unready(here: &Device, there: &Device) -> (Sender, Array) {
    let (sender, mut receiver) = early(there);
    let array = shareable_on(here, 20);
    assert!(!array.is_ready().unwrap());
    sender.send(&array).unwrap();
    let came = receiver.receive().unwrap().unwrap();
    assert_eq!(came.ready(), Ready::AfterEvent);
    assert!(!came.is_ready().unwrap());
    (sender, came)
}

/// What is said where an array is waited for whose data never comes.
pub(crate) fn failure(array: &Array) -> String {
    let error = array.wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WorkFailed, "{error}");
    // Whoever asks is told the same, and ever after.
    assert_eq!(array.is_ready().unwrap_err().kind(), ErrorKind::WorkFailed);
    assert_eq!(array.to_host().unwrap_err().kind(), ErrorKind::WorkFailed);
    error.to_string()
}

// Requirement: SAF-43
#[test]
fn an_array_comes_before_its_data_and_is_ready_with_it() {
    alone(|| {
        let (here_sim, here) = held_up();
        let (_there_sim, there) = software();
        let before = descriptors_beside(&[&here, &there]);
        for _ in 0..50 {
            let (sender, came) = unready(&here, &there);
            here_sim.run_until_idle();
            came.wait().unwrap();
            assert!(came.is_ready().unwrap());
            assert!(came.to_host().unwrap().equals(batch(20).as_array()).unwrap());
            assert_eq!(sender.held().unwrap(), 1);
            drop(came);
            assert!(sender.wait_until_released(SOON).unwrap());
        }
        finish(&here_sim);
        assert!(release_until(|| descriptors() == before), "{before}, {}", descriptors());
    });
}

/// Each way to use data, by which bytes of it are seen.
type Use = fn(&Array, &Queue) -> Result<Array>;

#[test]
fn whoever_uses_the_data_waits_for_it() {
    let uses: [(&str, Use); 5] = [
        ("a copy to the host", |array, _| array.to_host()),
        ("a copy on the device", |array, queue| {
            let always = arrow_device::copy::Options::new().always(true);
            array.copy_with(queue, &always)?.to_host()
        }),
        ("a queue", |array, queue| {
            drop(array.on(queue)?);
            assert!(array.is_ready()?, "the host has waited for the queue");
            array.to_host()
        }),
        ("a task", |array, _| {
            block_on(array.until_ready())?;
            assert!(array.is_ready()?);
            array.to_host()
        }),
        ("an export", |array, queue| {
            let mut c_array = ArrowDeviceArray::empty();
            let error = array.export(&mut c_array).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");
            array.export_on(queue, &mut c_array)?;
            // SAFETY: the struct was exported just now, and is imported once.
            unsafe { Array::import(&mut c_array, &array.schema()?) }?.to_host()
        }),
    ];
    for (name, uses) in uses {
        let (here_sim, here) = held_up();
        let (_there_sim, there) = software();
        let (sender, came) = unready(&here, &there);
        let queue = there.open_queue().unwrap();
        let used = std::thread::scope(|scope| {
            let user = scope.spawn(|| uses(&came, &queue));
            here_sim.run_until_idle();
            user.join().unwrap()
        });
        assert!(used.unwrap().equals(batch(20).as_array()).unwrap(), "{name}");
        drop((sender, came, queue));
        finish(&here_sim);
    }
}

#[test]
fn data_that_is_there_already_comes_as_always() {
    let (_here_sim, here) = software();
    let (_there_sim, there) = software();
    let (sender, receiver) = connected([there]);
    let sender = sender.early();
    let array = shareable_on(&here, 20);
    array.wait().unwrap();
    sender.send(&array).unwrap();
    // Of a receiver that takes no early arrays, too.
    let mut receiver = receiver;
    assert_eq!(receiver.receive().unwrap().unwrap().ready(), Ready::Now);
}

#[test]
fn a_receiver_that_was_not_told_of_early_arrays_refuses_and_releases_them() {
    let (here_sim, here) = held_up();
    let (_there_sim, there) = software();
    let (sender, mut receiver) = connected([there]);
    let sender = sender.early();
    sender.send(&shareable_on(&here, 20)).unwrap();
    let error = receiver.receive().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("`taking_early`"), "{error}");
    assert_eq!(sender.held().unwrap(), 0);
    finish(&here_sim);
}

#[test]
fn a_failure_of_the_senders_work_is_one_of_the_receivers_data() {
    let (here_sim, here) = held_up();
    let (_there_sim, there) = software();
    here_sim.fail_later(1);
    let (sender, came) = unready(&here, &there);
    here_sim.run_until_idle();
    let said = failure(&came);
    assert!(said.contains("the sender says of the data"), "{said}");
    drop((sender, came));
    finish(&here_sim);
}

// Requirement: SAF-43
#[test]
fn data_that_does_not_come_in_time_counts_as_failed() {
    let (here_sim, here) = held_up();
    let (_there_sim, there) = software();
    let (sender, receiver) = connected([there]);
    let (sender, mut receiver) = (sender.early(), receiver.taking_early(Duration::ZERO));
    sender.send(&shareable_on(&here, 20)).unwrap();
    let came = receiver.receive().unwrap().unwrap();
    let said = failure(&came);
    assert!(said.contains("did not come in the time"), "{said}");
    here_sim.run_until_idle();
    assert!(came.is_ready().is_err(), "what failed stays failed");
    drop(came);
    assert!(sender.wait_until_released(SOON).unwrap());
    finish(&here_sim);
}

/// The sender's process still writes there.
#[test]
fn what_is_dropped_before_its_data_is_there_is_kept_until_then() {
    let (here_sim, here) = held_up();
    let (_there_sim, there) = software();
    let (sender, came) = unready(&here, &there);
    drop(came);
    arrow_device::deferred::release_finished();
    assert_eq!(sender.held().unwrap(), 1);
    here_sim.run_until_idle();
    assert!(release_until(|| sender.held().unwrap() == 0));
    finish(&here_sim);
}

#[test]
fn a_stream_runs_ahead_of_its_data() {
    let (here_sim, here) = held_up();
    let (_there_sim, there) = software();
    let (sender, receiver) = early(&there);
    let schema = batch(1).schema().unwrap();
    let device_type = here.id().device_type;
    let arrays: Vec<Array> = (0..6).map(|rows| shareable_on(&here, rows)).collect();
    let thread = std::thread::spawn(move || {
        sender.serve(ArrayStream::new(schema, device_type, arrays.into_iter().map(Ok)))
    });
    let came: Vec<Array> = receiver.into_stream(10).unwrap().map(Result::unwrap).collect();
    // Rows are data of the device: without any there is nothing to wait for.
    let ready = came.iter().filter(|array| array.is_ready().unwrap()).count();
    assert!(ready <= 1, "{ready}");
    here_sim.run_until_idle();
    for (rows, array) in (0..).zip(&came) {
        assert!(array.to_host().unwrap().equals(batch(rows).as_array()).unwrap());
    }
    drop(came);
    thread.join().unwrap().unwrap();
    finish(&here_sim);
}

/// Numbers in memory of the host that can be shared, ready after work on this queue.
fn numbers_after(sim: &Sim, queue: &Queue) -> Array {
    let mut memory = Device::host().shareable().unwrap().allocate(80).unwrap();
    memory.write(&Queue::host(), &[7; 80]).unwrap();
    sim.kernel("work").launch(queue, |_| {}).unwrap();
    let event = queue.record().unwrap();
    let numbers =
        Array::builder(DataType::Int64).len(10).buffers([None, Some(memory.into_buffer())]);
    // SAFETY: UNS-32: nothing writes to the memory any more.
    unsafe { numbers.finish_after(event) }.unwrap()
}

#[test]
fn memory_that_is_to_be_fixed_is_waited_for() {
    let (sim, device) = software();
    let queue = device.open_queue().unwrap();
    let numbers = numbers_after(&sim, &queue);
    let (sender, mut receiver) = connected([Device::host()]);
    let sender = sender.early();
    assert!(!numbers.is_ready().unwrap());
    sender.send(&numbers).unwrap();
    assert!(numbers.is_ready().unwrap());
    assert_eq!(receiver.receive().unwrap().unwrap().ready(), Ready::Now);
}

/// What an early sender sent: the bytes, the descriptor of the event, and that of the memory.
pub(crate) fn message(device: &Device) -> (Vec<u8>, OwnedFd, OwnedFd) {
    let (one, other) = UnixStream::pair().unwrap();
    let sender = trusting_sender(Sender::new(one).early(), device);
    sender.send(&shareable_on(device, 20)).unwrap();
    let (bytes, descriptors) = taken_apart(&other.into());
    let [event, memory] = <[OwnedFd; 2]>::try_from(descriptors).unwrap();
    (bytes, event, memory)
}

/// What comes of the message with these descriptors.
pub(crate) fn received(
    bytes: &[u8],
    beside: &[OwnedFd],
    device: &Device,
    limit: Duration,
) -> Result<Array> {
    let mut receiver = Receiver::new(sent(bytes, beside), [device.clone()]).taking_early(limit);
    receiver.receive().map(|came| came.unwrap())
}

// Requirement: SAF-43
#[test]
fn descriptors_of_other_things_are_refused_in_the_place_of_an_event() {
    alone(|| {
        let (here_sim, here) = held_up();
        let (_there_sim, there) = software();
        let before = descriptors_beside(&[&here, &there]) + 2;
        let (bytes, event, memory) = message(&here);
        finish(&here_sim);
        assert!(release_until(|| descriptors() == before), "{before}, {}", descriptors());
        let file = |path: &str| OwnedFd::from(std::fs::File::open(path).unwrap());
        let (read, write) = std::io::pipe().unwrap();
        let wrong: [(&str, OwnedFd); 8] = [
            ("a device", file("/dev/zero")),
            ("a file", file("/proc/self/exe")),
            ("a folder", file("/")),
            ("a pipe", read.into()),
            ("a pipe's other end", write.into()),
            ("a socket of datagrams", UnixDatagram::pair().unwrap().0.into()),
            ("a socket of the network", TcpListener::bind("127.0.0.1:0").unwrap().into()),
            ("the memory", memory.try_clone().unwrap()),
        ];
        for (name, wrong) in wrong {
            let beside = [wrong, memory.try_clone().unwrap()];
            let error = received(&bytes, &beside, &there, LONG).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed, "{name}: {error}");
        }
        for beside in [&[][..], std::slice::from_ref(&event)] {
            let error = received(&bytes, beside, &there, LONG).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
        }
        assert_eq!(descriptors(), before);
    });
}

/// A socket on which the peer told this, and which the peer then closed.
fn told(bytes: &[u8]) -> OwnedFd {
    let (mut peer, event) = UnixStream::pair().unwrap();
    peer.write_all(bytes).unwrap();
    event.into()
}

// Requirement: SAF-43
#[test]
fn a_peer_that_tells_nothing_or_nonsense_is_not_waited_for_for_ever() {
    let (here_sim, here) = held_up();
    let (_there_sim, there) = software();
    let (bytes, _event, memory) = message(&here);
    finish(&here_sim);
    let (silent, open) = UnixStream::pair().unwrap();
    let path = std::env::temp_dir().join(format!("arrow-device-event-{}", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let long = [&[2][..], "é".repeat(5000).as_bytes()].concat();
    let sockets: [(&str, OwnedFd, &str); 7] = [
        ("closed", told(&[]), "has ended before"),
        ("nonsense", told(&[77, 1]), "told 77"),
        ("a failure", told(b"\x02no such thing"), "the sender says of the data: no such thing"),
        ("no text", told(b"\x02\xff\xfe"), "the sender says of the data: "),
        ("a long text", told(&long), "ééé"),
        ("a socket that nobody can connect to", listener.into(), "has ended before"),
        ("a silent peer", open.into(), "did not come in the time"),
    ];
    for (name, socket, expected) in sockets {
        let limit = if name == "a silent peer" { Duration::from_millis(20) } else { LONG };
        let beside = [socket, memory.try_clone().unwrap()];
        let said = failure(&received(&bytes, &beside, &there, limit).unwrap());
        assert!(said.contains(expected), "{name}: {said}");
        assert!(said.chars().count() < 2200, "{name}: {}", said.len());
    }
    drop(silent);
}

/// The peer may have the receiver's end of the socket, too.
// Requirement: SAF-43
#[test]
fn what_was_told_once_stays_whatever_the_peer_takes_out() {
    let (here_sim, here) = held_up();
    let (_there_sim, there) = software();
    let (bytes, _event, memory) = message(&here);
    finish(&here_sim);
    let (mut peer, event) = UnixStream::pair().unwrap();
    let mut theirs = event.try_clone().unwrap();
    let array = received(&bytes, &[event.into(), memory], &there, LONG).unwrap();
    assert!(!array.is_ready().unwrap());
    // A blocking socket does not block a look.
    theirs.set_nonblocking(false).unwrap();
    assert!(!array.is_ready().unwrap());
    peer.write_all(&[1]).unwrap();
    assert!(array.is_ready().unwrap());
    drop(peer);
    theirs.read_exact(&mut [0]).unwrap();
    drop(theirs);
    assert!(array.is_ready().unwrap());
    array.wait().unwrap();
}

// Requirement: SAF-27
#[test]
fn a_child_of_fork_does_not_wait_for_what_its_parent_awaits() {
    alone(|| {
        let (here_sim, here) = held_up();
        let (there_sim, there) = software();
        let (sender, came) = unready(&here, &there);
        forked(|| match came.wait() {
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
            other => Err(format!("{other:?}")),
        });
        here_sim.run_until_idle();
        assert!(came.to_host().unwrap().equals(batch(20).as_array()).unwrap());
        drop((sender, came));
        finish(&here_sim);
        finish(&there_sim);
    });
}

/// The values of a dictionary are an array of their own, which comes with the rest.
// Requirement: SAF-43
#[test]
fn the_values_of_a_dictionary_wait_for_their_data_as_well() {
    let (here_sim, here) = held_up();
    let (there_sim, there) = software();
    let (sender, mut receiver) = early(&there);
    let data_type = DataType::dictionary(IndexType::Int32, DataType::Utf8);
    let values = Array::from_texts(DataType::Utf8, [Some("low"), Some("high")]).unwrap();
    let numbers = Buffer::from(vec![1_i32, 0, 1]);
    let coded = Array::builder(data_type).len(3).buffers([None, Some(numbers)]).dictionary(values);
    let batch = Batch::from_columns([("coded", coded.finish_ready().unwrap())]).unwrap();
    sender.send(&to_shareable(batch.as_array(), &here).unwrap()).unwrap();
    let came = receiver.receive().unwrap().unwrap();
    let values = came.child(0).unwrap().dictionary().unwrap();
    assert_eq!(values.ready(), Ready::AfterEvent);
    assert!(!values.is_ready().unwrap());
    here_sim.run_until_idle();
    let texts = Array::from_texts(DataType::Utf8, [Some("low"), Some("high")]).unwrap();
    assert!(values.to_host().unwrap().equals(&texts).unwrap());
    assert!(came.to_host().unwrap().equals(batch.as_array()).unwrap());
    drop((sender, receiver, came, values));
    finish(&here_sim);
    finish(&there_sim);
}

// Requirement: SAF-43
#[test]
fn data_whose_maker_is_killed_is_an_error_and_not_a_wait() {
    let test = "early::data_whose_maker_is_killed_is_an_error_and_not_a_wait";
    if let Some(socket) = second() {
        let (_sim, device) = held_up();
        let sender = Sender::new(socket).early();
        for rows in 1..4 {
            sender.send(&shareable_on(&device, rows)).unwrap();
        }
        std::thread::sleep(LONG);
        return;
    }
    alone(|| {
        let meeting = Meeting::new("early-killed");
        let (_sim, device) = software();
        let before = descriptors_beside(&[&device]);
        let mut child = meeting.start(test);
        let mut receiver = Receiver::new(meeting.accept(), [device.clone()]).taking_early(LONG);
        let came: Vec<Array> = (1..4).map(|_| receiver.receive().unwrap().unwrap()).collect();
        assert!(came.iter().all(|array| !array.is_ready().unwrap()));
        std::thread::scope(|scope| {
            // One waits when the process ends, and the others ask afterwards.
            let waits = scope.spawn(|| failure(&came[0]));
            child.kill().unwrap();
            child.wait().unwrap();
            let said = waits.join().unwrap();
            assert!(said.contains("has ended before the data was there"), "{said}");
        });
        assert!(came.iter().all(|array| failure(array).contains("has ended before")));
        drop((came, receiver));
        assert!(release_until(|| descriptors() == before), "{before}, {}", descriptors());
    });
}

/// How many times one side is killed, unless somebody asks for more.
const ROUNDS: u64 = 20;

// Requirement: SAF-42
#[test]
fn a_receiver_of_early_arrays_that_is_killed_leaves_nothing_behind() {
    let test = "early::a_receiver_of_early_arrays_that_is_killed_leaves_nothing_behind";
    if let Some(socket) = second() {
        let (_sim, device) = software();
        let receiver = Receiver::new(socket, [device]).taking_early(LONG);
        return crate::support::receive_and_keep_few(receiver);
    }
    alone(|| {
        let meeting = Meeting::new("early-receiver");
        let (sim, device) = held_up();
        let before = descriptors_beside(&[&device]);
        for round in 0..rounds(ROUNDS) {
            let mut child = meeting.start(test);
            let sender = Sender::new(meeting.accept()).early();
            let killer = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_micros(337 * (round % ROUNDS)));
                child.kill().unwrap();
                child.wait().unwrap();
            });
            let mut rows = 0;
            while sender.send(&shareable_on(&device, rows % 50)).is_ok() {
                rows += 1;
                if rows % 7 == 0 {
                    sim.run_until_idle();
                }
            }
            killer.join().unwrap();
            assert!(sender.wait_until_released(SOON).unwrap());
        }
        finish(&sim);
        assert!(release_until(|| descriptors() == before), "{before}, {}", descriptors());
    });
}

#[test]
fn golden_batches_come_early_to_another_process() {
    let test = "early::golden_batches_come_early_to_another_process";
    let (_sim, device) = software();
    if let Some(socket) = second() {
        let mut receiver = Receiver::new(socket, [device]).taking_early(LONG);
        return for_each_golden(|name, expected| {
            let array = receiver.receive().unwrap().unwrap().to_host().unwrap();
            array.validate().unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(array.equals(expected).unwrap(), "{name}");
        });
    }
    let meeting = Meeting::new("early-golden");
    let mut child = meeting.start(test);
    let sender = Sender::new(meeting.accept()).early();
    for_each_golden(|name, array| {
        let array = to_shareable(array, &device).unwrap();
        sender.send(&array).unwrap_or_else(|error| panic!("{name}: {error}"));
    });
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    assert!(sender.wait_until_released(SOON).unwrap());
}

/// Arrays of a device that is no software, whose work is under way when they are sent or is not.
pub(crate) fn arrays_come_early(here: &Device, there: &Device) {
    let (sender, receiver) = connected([there.clone()]);
    let sender = trusting_sender(sender, here).early();
    let mut receiver = trusting_receiver(receiver, there).taking_early(LONG);
    for rows in 0..40 {
        let array = shareable_on(here, 50 * rows);
        sender.send(&array).map_err(said).unwrap();
        let came = receiver.receive().unwrap().unwrap();
        assert!(came.to_host().unwrap().equals(batch(50 * rows).as_array()).unwrap(), "{rows}");
    }
    assert!(sender.wait_until_released(SOON).unwrap());
}
