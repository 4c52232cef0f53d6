//! A peer that sends anything: wrong bytes, wrong descriptors, wrong sizes, too much, too often.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_device::{Array, Device, ErrorKind, Result};
use arrow_device_share::{Receiver, Sender, open, share};
use arrow_device_testkit::process::{alone, descriptors};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};

use crate::peer::{connection_after, frame, memory, sent, taken_apart};
use crate::support::{may_have, shareable, software};

/// Opens what a peer sent as a ticket of these bytes and descriptors.
fn opened(bytes: &[u8], descriptors: &[OwnedFd], devices: Vec<Device>) -> Result<Array> {
    open(sent(bytes, descriptors).into(), devices)
}

fn host() -> Vec<Device> {
    vec![Device::host()]
}

/// A ticket of a batch, taken apart.
fn ticket() -> (Vec<u8>, Vec<OwnedFd>) {
    let (ticket, sender) = share(&shareable(20)).unwrap();
    let parts = taken_apart(&ticket);
    drop(sender);
    parts
}

#[test]
fn what_was_taken_apart_and_put_together_is_opened() {
    let (bytes, descriptors) = ticket();
    assert_eq!(descriptors.len(), 1);
    let array = opened(&bytes, &descriptors, host()).unwrap();
    assert!(array.equals(&shareable(20)).unwrap());
}

/// Numbers below a bound, the same in every run.
pub(crate) fn randomly() -> impl FnMut(usize) -> usize {
    let mut random = 0x1234_5678_9abc_def1_u64;
    move |below| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    }
}

/// These bytes with some changes.
pub(crate) fn changed(bytes: &[u8], next: &mut impl FnMut(usize) -> usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + next(4) {
        let at = next(bytes.len());
        bytes[at] = match next(5) {
            0 => 0,
            1 => 0xff,
            2 => 0x80,
            3 => bytes[at] ^ (1 << next(8)),
            _ => next(256) as u8,
        };
    }
    if next(8) == 0 {
        bytes.truncate(next(bytes.len()));
    }
    bytes
}

// Requirement: SAF-41
#[test]
fn any_bytes_are_an_array_or_an_error() {
    let (bytes, descriptors) = ticket();
    let mut well = 0;
    let mut next = randomly();
    for _ in 0..if cfg!(debug_assertions) { 20_000 } else { 200_000 } {
        let bytes = changed(&bytes, &mut next);
        if let Ok(array) = opened(&bytes, &descriptors, host()) {
            well += 1;
            // Whatever the bytes are, looking at the data is an error at worst.
            let _ = array.validate();
            let _ = array.to_host().map(|array| array.equals(&array));
        }
    }
    assert!(well > 100, "{well}");
}

#[test]
fn a_message_that_is_cut_anywhere_is_an_error() {
    let (bytes, descriptors) = ticket();
    for len in 0..bytes.len() {
        assert!(opened(&bytes[..len], &descriptors, host()).is_err(), "{len}");
    }
}

// Requirement: SAF-41
#[test]
fn descriptors_of_other_things_are_refused() {
    let (bytes, _right) = ticket();
    let fixed = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    let (read, write) = std::io::pipe().unwrap();
    let wrong: [(&str, OwnedFd); 9] = [
        ("a device", File::open("/dev/zero").unwrap().into()),
        ("a file", File::open("/proc/self/exe").unwrap().into()),
        ("a folder", File::open("/").unwrap().into()),
        ("a pipe", read.into()),
        ("a pipe's other end", write.into()),
        ("a socket", UnixStream::pair().unwrap().0.into()),
        ("memory that can shrink", memory(1 << 20, SealFlags::GROW | SealFlags::WRITE)),
        ("memory that is too short", memory(100, fixed)),
        ("memory that can be written", memory(1 << 20, SealFlags::SHRINK)),
    ];
    for (name, descriptor) in wrong {
        let error = opened(&bytes, &[descriptor], host()).unwrap_err();
        let expected = [ErrorKind::Malformed, ErrorKind::Unsupported];
        assert!(expected.contains(&error.kind()), "{name}: {error}");
    }
    // Long enough and fixed, but other bytes: an array, whose data is wrong or not.
    let array = opened(&bytes, &[memory(1 << 20, fixed)], host()).unwrap();
    assert!(!array.equals(&shareable(20)).unwrap());
}

/// Where the first hole of a file of memory is: its length where there is none.
fn first_hole(memory: &OwnedFd) -> u64 {
    rustix::fs::seek(memory, rustix::fs::SeekFrom::Hole(0)).unwrap()
}

// Requirement: SAF-41
#[test]
fn pages_that_lie_elsewhere_do_not_stand_for_those_that_are_missing() {
    let (bytes, _right) = ticket();
    let len = 1 << 20;
    let fixed = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    for (name, keeps, is_longer) in [
        ("behind what was announced", FallocateFlags::empty(), true),
        ("behind the end of the file", FallocateFlags::KEEP_SIZE, false),
    ] {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = rustix::fs::memfd_create(c"hostile", flags).unwrap();
        rustix::fs::ftruncate(&memory, len).unwrap();
        rustix::fs::fallocate(&memory, keeps, len, len).unwrap();
        let whole = rustix::fs::fstat(&memory).unwrap();
        assert_eq!(whole.st_size as u64, if is_longer { 2 * len } else { len });
        assert_eq!(whole.st_blocks as u64 * 512, len);
        rustix::fs::fcntl_add_seals(&memory, fixed).unwrap();
        assert_eq!(first_hole(&memory), 0);
        let error = opened(&bytes, &[memory], host()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{name}: {error}");
    }
}

// Requirement: SAF-41
#[test]
fn memory_that_gets_holes_while_it_is_opened_is_refused() {
    let (bytes, _right) = ticket();
    let len = 1 << 20;
    for turn in 0..1000_u32 {
        let sealed = SealFlags::SHRINK | SealFlags::GROW;
        let memory = memory(len, sealed);
        let theirs = memory.try_clone().unwrap();
        let (ready, go) = (AtomicBool::new(false), AtomicBool::new(false));
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                ready.store(true, Ordering::SeqCst);
                while !go.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
                for _ in 0..turn * 4 {
                    std::hint::spin_loop();
                }
                let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(&theirs, punch, 0, len).unwrap();
                rustix::fs::fcntl_add_seals(&theirs, SealFlags::WRITE).unwrap();
            });
            while !ready.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
            go.store(true, Ordering::SeqCst);
            opened(&bytes, &[memory], host())
        });
        assert!(result.is_err(), "turn {turn}: memory without pages was mapped");
    }
}

#[test]
fn the_number_of_descriptors_is_as_announced() {
    let (bytes, right) = ticket();
    assert_eq!(opened(&bytes, &[], host()).unwrap_err().kind(), ErrorKind::Malformed);
    let two = [right[0].try_clone().unwrap(), right[0].try_clone().unwrap()];
    // The second one belongs to no message. It is closed with the connection.
    alone(|| {
        let before = descriptors();
        let array = opened(&bytes, &two, host()).unwrap();
        drop(array);
        assert_eq!(descriptors(), before);
    });
}

/// Where the message about the array begins, behind that about its schema.
fn array_of(bytes: &[u8]) -> &[u8] {
    let len = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
    &bytes[16 + len..]
}

/// A message that comes again has the same number, whose second release is no release of anything
/// that the sender holds.
// Requirement: SAF-41, SAF-42
#[test]
fn a_message_that_comes_again_is_one_more_array_and_its_release_ends_the_connection() {
    let (ticket, sender) = share(&shareable(20)).unwrap();
    let (bytes, descriptors) = taken_apart(&ticket);
    let again = [&bytes[..], array_of(&bytes)].concat();
    let two = [&descriptors[0], &descriptors[0]].map(|memory| memory.try_clone().unwrap());
    let (peer, socket) = connection_after(&again, &two);
    let mut receiver = Receiver::new(socket, host());
    let came = [(); 2].map(|()| receiver.receive().unwrap().unwrap());
    assert!(came.iter().all(|array| array.equals(&shareable(20)).unwrap()));
    // Somebody stands between the two, and repeats what each of them says.
    drop((came, receiver));
    let (told, _) = taken_apart(&peer.into());
    assert_eq!(sender.held().unwrap(), 1);
    UnixStream::from(ticket).write_all(&told).unwrap();
    assert_eq!(sender.held().unwrap_err().kind(), ErrorKind::Malformed);
    assert_eq!(sender.held().unwrap(), 0);
}

#[test]
fn memory_of_the_software_device_is_no_memory_of_the_host() {
    let (bytes, descriptors) = ticket();
    let (_sim, device) = software();
    let error = opened(&bytes, &descriptors, vec![device]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceMissing, "{error}");
}

#[test]
fn a_limit_on_allocations_is_kept() {
    let (one, other) = UnixStream::pair().unwrap();
    let mut receiver = Receiver::new(other, host()).largest_allocation(4096);
    let sender = Sender::new(one);
    sender.send(&shareable(10_000)).unwrap();
    assert_eq!(receiver.receive().unwrap_err().kind(), ErrorKind::LimitExceeded);
    assert_eq!(sender.held().unwrap(), 0);
    assert!(receiver.receive().unwrap().is_none(), "after an error nothing more comes");
}

#[test]
fn a_receiver_that_breaks_the_protocol_is_let_go() {
    let number = |number: u64| number.to_le_bytes();
    let wrong: [(&str, Vec<u8>); 6] = [
        ("an array that is not there", frame(5, &number(7))),
        ("a release that was told before", [frame(5, &number(0)), frame(5, &number(0))].concat()),
        ("half a number", frame(5, &[0; 4])),
        ("a message of a sender", frame(2, &number(0))),
        ("no message", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        ("a long message", frame(5, &vec![0; 1 << 17])[..16].to_vec()),
    ];
    for (name, bytes) in wrong {
        let (one, mut other) = UnixStream::pair().unwrap();
        let sender = Sender::new(one);
        sender.send(&shareable(3)).unwrap();
        sender.send(&shareable(4)).unwrap();
        other.write_all(&bytes).unwrap();
        let error = sender.held().unwrap_err();
        let expected = [ErrorKind::Malformed, ErrorKind::LimitExceeded];
        assert!(expected.contains(&error.kind()), "{name}: {error}");
        assert_eq!(sender.held().unwrap(), 0, "{name}");
        assert!(sender.send(&shareable(5)).is_err(), "{name}");
    }
}

#[test]
fn a_thousand_half_open_connections_cost_their_sockets_and_no_more() {
    alone(|| {
        if !may_have(3000) {
            return println!("skipped: the process may not have 3,000 descriptors");
        }
        let before = descriptors();
        let array = shareable(10);
        let halves: Vec<_> = (0..1000)
            .map(|_| {
                let (one, other) = UnixStream::pair().unwrap();
                let sender = Sender::new(one);
                sender.send(&array).unwrap();
                (sender, other)
            })
            .collect();
        // The sockets, and the memory of the array.
        assert_eq!(descriptors(), before + 2 * 1000 + 1);
        assert!(halves.iter().all(|(sender, _)| sender.held().unwrap() == 1));
        let senders: Vec<Sender> = halves.into_iter().map(|(sender, _)| sender).collect();
        assert!(senders.iter().all(|sender| sender.held().unwrap() == 0));
        drop((senders, array));
        assert_eq!(descriptors(), before);
    });
}

#[test]
fn a_receiver_waits_no_longer_than_it_is_told() {
    let (_one, other) = UnixStream::pair().unwrap();
    let mut receiver = Receiver::new(other, host());
    let error = receiver.receive_within(Duration::from_millis(5)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let error = receiver.receive_within(Duration::ZERO).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "the connection goes on");
}

/// A field of a schema, as the protocol has it.
fn field_of(format: &[u8], name: &[u8], children: u32) -> Vec<u8> {
    let text = |bytes: &[u8]| [&(bytes.len() as u32).to_le_bytes(), bytes].concat();
    let mut field = [text(format), text(name), text(&[])].concat();
    field.extend(0_i64.to_le_bytes());
    field.extend(children.to_le_bytes());
    field.push(0);
    field
}

/// A text that a peer chose is not repeated without end in an error.
#[test]
fn the_text_of_an_error_is_bounded_whatever_a_peer_says() {
    const LONG: usize = 30_000;
    let domain = [&[1, 0, 0, 0][..], &[0; 4], &[0; 16]].concat();
    let schema = |field: &[u8]| frame(1, &[&domain, field].concat());
    let long = [b'x'; LONG];
    let zone = [b"tss:", &long[..]].concat();
    let bad_zone = [b"tss:", &[0xff; LONG][..]].concat();
    let map = [field_of(b"+m", &long, 1), field_of(b"i", &long, 0)].concat();
    let frames = [
        ("a format", schema(&field_of(&long, b"n", 0))),
        ("a name", schema(&field_of(b"+l", &long, 0))),
        ("a map", schema(&map)),
        ("a time zone", schema(&field_of(&zone, b"n", 3))),
        ("a time zone that is no text", schema(&field_of(&bad_zone, b"n", 0))),
        ("the sender's own words", frame(4, &long)),
    ];
    for (name, bytes) in frames {
        let mut receiver = Receiver::new(sent(&bytes, &[]), [Device::host()]);
        let error = receiver.receive().unwrap_err();
        let said = error.to_string();
        assert!(said.len() < 4096, "{name}: {} bytes", said.len());
        assert!(format!("{error:?}").len() < 4096, "{name}, for programmers");
    }
}
