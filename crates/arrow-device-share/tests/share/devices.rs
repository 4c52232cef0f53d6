//! What holds for memory of every real device, said once: arrays come as they were, without a byte
//! being moved, and nothing that a peer does ends the other process.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_device::{Array, Batch, DataType, Device, ErrorKind, Result};
use arrow_device_share::{Receiver, Sender, to_shareable};
use arrow_device_testkit::consumer::require_buffers_of;
use arrow_device_testkit::generate::{self, for_each};
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::process::{alone, descriptors};
use arrow_device_testkit::tally::watch;
use arrow_device_testkit::{Verdict, oracle, release_until, require};
use rustix::fs::SealFlags;

use crate::hostile::{changed, randomly};
use crate::peer::{memory, sent, taken_apart};
use crate::processes::{Meeting, for_each_golden, rounds, second};
use crate::support::{
    SOON, batch, connected_with, receive_and_keep_few, said, trusting_receiver, trusting_sender,
};

fn goes_through(generated: &generate::Generated, here: &Device, there: &Device) -> Verdict {
    let array = generate::build(&generated.plan, &Ledger::new()).map_err(said)?;
    let array = to_shareable(&array, here).map_err(said)?;
    let (sender, mut receiver) = connected_with(there);
    sender.send(&array).map_err(said)?;
    let opened = receiver.receive().map_err(said)?.ok_or("nothing came")?;
    require(opened.device() == there.id(), || format!("{}", opened.device()))?;
    require(opened.field() == array.field(), || format!("{:?}", opened.field()))?;
    require_buffers_of(&opened)?;
    let back = opened.to_host().map_err(said)?;
    back.validate().map_err(said)?;
    oracle::require_equal(&generated.plan, &oracle::plan_of(&back)?)?;
    // And by a copy that the device makes.
    let queue = there.open_queue().map_err(said)?;
    let copy = opened.copy_with(&queue, &arrow_device::copy::Options::new().always(true));
    let copy = copy.and_then(|copy| copy.to_host()).map_err(said)?;
    oracle::require_equal(&generated.plan, &oracle::plan_of(&copy)?)?;
    drop((opened, back, copy, queue));
    // What the queue used is released by whoever looks, and without elements nobody has looked.
    require(release_until(|| sender.held().is_ok_and(|held| held == 0)), || "not released".into())
}

pub(crate) fn arrays_of_all_types_come_as_they_were(here: &Device, there: &Device, seed: u64) {
    let count = if cfg!(debug_assertions) { 120 } else { 1000 };
    for_each(count, seed, |generated| goes_through(generated, here, there));
}

/// A batch of a thousand columns.
fn wide() -> Array {
    let column = Array::from_values(DataType::Int32, (0..100).map(Some)).unwrap();
    let columns = (0..1000).map(|number| (format!("column {number}"), column.clone()));
    Batch::from_columns(columns).unwrap().as_array().clone()
}

/// Calls this in a process of its own.
pub(crate) fn a_thousand_columns_are_one_descriptor_and_no_byte_moves(
    here: &Device,
    there: &Device,
) {
    let (there, tally) = watch(there);
    let wide = wide();
    let array = to_shareable(&wide, here).unwrap();
    let (sender, mut receiver) = connected_with(&there);
    let queue = there.open_queue().unwrap();
    sender.send(&array).unwrap();
    let before = descriptors();
    tally.clear();
    let opened = receiver.receive().unwrap().unwrap();
    // A runtime keeps the descriptor or closes it.
    assert!(descriptors() <= before + 1, "{before} descriptors, {}", descriptors());
    let view = opened.on(&queue).unwrap();
    let last = view.root().child(999).unwrap().buffer(1).location();
    assert!(!last.is_null());
    assert_eq!(tally.moved.load(Ordering::Relaxed), 0, "bytes");
    assert_eq!(tally.copies.load(Ordering::Relaxed), 0, "copies");
    assert_eq!(tally.allocations.load(Ordering::Relaxed), 0, "allocations");
    assert!(opened.to_host().unwrap().equals(&wide).unwrap());
    drop((view, opened));
    queue.synchronize().unwrap();
    arrow_device::deferred::release_finished();
    assert!(sender.wait_until_released(SOON).unwrap());
}

/// What a sender sent: the bytes and the descriptors.
fn message(array: &Array, device: &Device) -> (Vec<u8>, Vec<OwnedFd>) {
    let (one, other) = UnixStream::pair().unwrap();
    let sender = trusting_sender(Sender::new(one), device);
    sender.send(array).unwrap();
    taken_apart(&other.into())
}

fn received(bytes: &[u8], descriptors: &[OwnedFd], device: &Device) -> Result<Array> {
    let receiver = Receiver::new(sent(bytes, descriptors), [device.clone()]);
    let mut receiver = trusting_receiver(receiver, device);
    match receiver.receive() {
        Ok(Some(array)) => Ok(array),
        Ok(None) => Err(arrow_device::Error::new(ErrorKind::Peer, "nothing came")),
        Err(error) => Err(error),
    }
}

/// Calls this in a process of its own.
pub(crate) fn descriptors_of_other_things_are_refused(here: &Device, there: &Device) {
    let array = to_shareable(batch(20).as_array(), here).unwrap();
    let (bytes, right) = message(&array, here);
    assert_eq!(right.len(), 1);
    let before = descriptors();
    let (read, write) = std::io::pipe().unwrap();
    let file = |path: &str| OwnedFd::from(std::fs::File::open(path).unwrap());
    let mut wrong: Vec<(&str, OwnedFd)> = vec![
        ("a device", file("/dev/zero")),
        ("a file", file("/proc/self/exe")),
        ("a folder", file("/")),
        ("a pipe", read.into()),
        ("a pipe's other end", write.into()),
        ("a socket", UnixStream::pair().unwrap().0.into()),
        ("memory that is too short", memory(100, SealFlags::SHRINK)),
    ];
    // SwiftShader's own memory can shrink.
    if rustix::fs::fcntl_get_seals(&right[0]).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
        wrong.push(("memory that can shrink", memory(1 << 20, SealFlags::GROW)));
    }
    for (name, descriptor) in wrong {
        let error = received(&bytes, &[descriptor], there).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{name}: {error}");
    }
    let none = received(&bytes, &[], there).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::Malformed, "{none}");
    assert_eq!(descriptors(), before);
    // Another allocation of the same device is memory, whose bytes are other ones, or too little.
    let other = to_shareable(batch(40).as_array(), here).unwrap();
    let (_, other) = message(&other, here);
    if let Ok(other) = received(&bytes, &other, there) {
        let _ = other.to_host().map(|other| other.validate());
    }
    let opened = received(&bytes, &right, there).unwrap();
    assert!(opened.to_host().unwrap().equals(batch(20).as_array()).unwrap());
}

pub(crate) fn any_bytes_are_an_array_or_an_error(here: &Device, there: &Device) {
    let array = to_shareable(batch(20).as_array(), here).unwrap();
    let (bytes, right) = message(&array, here);
    let (mut well, mut next) = (0, randomly());
    for _ in 0..if cfg!(debug_assertions) { 3000 } else { 30_000 } {
        if let Ok(array) = received(&changed(&bytes, &mut next), &right, there) {
            well += 1;
            // Whatever the bytes are, looking at the data is an error at worst.
            let host = array.to_host().and_then(|host| host.validate().map(|()| host));
            let _ = host.map(|host| host.equals(&host));
        }
    }
    assert!(well > 20, "{well}");
}

/// A meeting whose path is short, as the system wants it, and no other test's of this process.
fn meeting(what: &str) -> Meeting {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    Meeting::new(&format!("{what}-{}", NUMBER.fetch_add(1, Ordering::Relaxed)))
}

/// The golden batches from one process in another one, on a device that each opens for itself.
/// `test` is the name of the test that calls this.
pub(crate) fn golden_batches_cross(test: &str, device: &Device) {
    if let Some(socket) = second() {
        let receiver = Receiver::new(socket, [device.clone()]);
        let mut receiver = trusting_receiver(receiver, device);
        return for_each_golden(|name, expected| {
            let array = receiver.receive().unwrap().unwrap();
            assert_eq!(array.device(), device.id(), "{name}");
            let array = array.to_host().unwrap();
            array.validate().unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(array.field(), expected.field(), "{name}");
            assert!(array.equals(expected).unwrap(), "{name}");
        });
    }
    let place = meeting("golden");
    let mut child = place.start(test);
    let sender = trusting_sender(Sender::new(place.accept()), device);
    for_each_golden(|name, array| {
        let array = to_shareable(array, device).unwrap();
        sender.send(&array).unwrap_or_else(|error| panic!("{name}: {error}"));
    });
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
    assert!(sender.wait_until_released(SOON).unwrap());
}

/// How often a file is mapped in this process.
fn mappings_of(inode: u64) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let inode = inode.to_string();
    maps.lines().filter(|line| line.split_whitespace().nth(4) == Some(&*inode)).count()
}

/// The pages that the sender has are those that the receiver maps. Calls this in a process of its
/// own, for devices whose memory is a file of memory.
pub(crate) fn both_sides_have_the_same_pages(here: &Device, there: &Device) {
    let array = to_shareable(batch(20).as_array(), here).unwrap();
    let (bytes, descriptors) = message(&array, here);
    let inode = rustix::fs::fstat(&descriptors[0]).unwrap().st_ino;
    let before = mappings_of(inode);
    assert!(before > 0, "the sender has no such pages");
    let opened = received(&bytes, &descriptors, there).unwrap();
    assert!(mappings_of(inode) > before, "the receiver has other pages");
    assert!(opened.to_host().unwrap().equals(batch(20).as_array()).unwrap());
}

/// How many times one side is killed, unless somebody asks for more.
const ROUNDS: u64 = 8;

fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The device is opened in the second process, and in the one of the test that runs alone.
pub(crate) fn a_receiver_that_is_killed_leaves_nothing_behind(
    test: &str,
    device: impl Fn() -> Option<Device>,
) {
    if let Some(socket) = second() {
        let Some(device) = device() else { return };
        let receiver = Receiver::new(socket, [device.clone()]);
        return receive_and_keep_few(trusting_receiver(receiver, &device));
    }
    alone(|| {
        let Some(device) = device() else { return };
        let place = meeting("killed-receiver");
        let send = |sender: &Sender, number: i64| {
            sender.send(&to_shareable(batch(number % 50).as_array(), &device).unwrap())
        };
        // What a runtime keeps from its first use on.
        drop(to_shareable(batch(1).as_array(), &device).unwrap());
        assert!(release_until(|| device.held().allocated == 0));
        let before = descriptors();
        for round in 0..rounds(ROUNDS) {
            let mut child = place.start(test);
            let sender = trusting_sender(Sender::new(place.accept()), &device);
            // So many arrays were received, and more are on their way.
            let mut number = 0;
            while number < 5 * (round % ROUNDS) as i64 {
                send(&sender, number).unwrap();
                number += 1;
            }
            let killer = std::thread::spawn(move || kill(&mut child));
            while send(&sender, number).is_ok() {
                number += 1;
            }
            killer.join().unwrap();
            assert!(sender.wait_until_released(SOON).unwrap());
            assert_eq!(sender.held().unwrap(), 0);
        }
        let now = || (descriptors(), device.held().allocated);
        assert!(release_until(|| now() == (before, 0)), "{before}, {:?}", now());
    });
}

pub(crate) fn what_came_from_a_sender_that_was_killed_stays_usable(
    test: &str,
    device: impl Fn() -> Option<Device>,
) {
    if let Some(socket) = second() {
        let Some(device) = device() else { return };
        let sender = trusting_sender(Sender::new(socket), &device);
        for rows in 0_i64.. {
            let array = to_shareable(batch(rows % 50).as_array(), &device).unwrap();
            if sender.send(&array).is_err() {
                return;
            }
        }
    }
    alone(|| {
        let Some(device) = device() else { return };
        let place = meeting("killed-sender");
        for round in 0..rounds(ROUNDS) {
            let mut child = place.start(test);
            let receiver = Receiver::new(place.accept(), [device.clone()]);
            let mut receiver = trusting_receiver(receiver, &device);
            let mut came = Vec::new();
            for _ in 0..5 * (round % ROUNDS) {
                came.push(receiver.receive().unwrap().unwrap());
            }
            kill(&mut child);
            // What was on its way still comes. The end may be in the middle of a message.
            while let Ok(Some(array)) = receiver.receive() {
                came.push(array);
            }
            for (rows, array) in (0..).zip(&came) {
                let array = array.to_host().unwrap();
                assert!(array.equals(batch(rows % 50).as_array()).unwrap());
            }
        }
    });
}
