//! The fuzz target `share`: any bytes and descriptors from the other side of a connection.
//!
//! The first byte says who reads the rest: a receiver of the host's or of the software device's
//! memory, with or without the trust in its sender, that takes arrays one by one or as a stream,
//! and takes those that come before their data or not, or a sender that has sent two arrays. The
//! second byte says which descriptors come beside the bytes, and the third one whether the rest is
//! what the socket carries, or frames whose headers are made here: then each frame begins with its
//! kind and with the length of its body in two bytes.
//!
//! Whatever comes ends with arrays or with an error. Each array that came is released once, what
//! validation accepts is read whole, and no descriptor is left.

use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::time::Duration;

use arrow_device::{Array, Batch, DataType, Device};
use arrow_device_share::{Receiver, Sender, share, to_shareable};
use arrow_device_sim::Sim;
use arrow_device_testkit::process::descriptors;
use rustix::fs::SealFlags;

use crate::peer::{connection_after, frame, memory, taken_apart};

/// No input has more arrays that are worth receiving.
const MOST_ARRAYS: usize = 20;

/// The messages of a ticket for a batch, and the descriptors beside them.
pub(crate) type Ticket = (Vec<u8>, Vec<OwnedFd>);

/// What every run needs and none changes.
struct Lasting {
    software: Device,
    _sim: Sim,
    /// Of the host, and of the software device.
    tickets: [Ticket; 2],
    array: Array,
}

fn lasting() -> &'static Lasting {
    static LASTING: OnceLock<Lasting> = OnceLock::new();
    LASTING.get_or_init(|| {
        let sim = Sim::builder().backtraces(false).build();
        let software = sim.device();
        let tickets = [&Device::host(), &software].map(|device| {
            let (ticket, sender) = share(&array(device)).unwrap();
            let parts = taken_apart(&ticket);
            drop((ticket, sender));
            parts
        });
        Lasting { software, _sim: sim, tickets, array: array(&Device::host()) }
    })
}

/// A batch with columns of several layouts, in memory that can be shared.
fn array(device: &Device) -> Array {
    let numbers = Array::from_values(DataType::Int32, [Some(1), None, Some(3)]).unwrap();
    let texts = || [Some("one"), Some("two, which is longer than twelve bytes"), None];
    let views = Array::from_texts(DataType::Utf8View, texts()).unwrap();
    let texts = Array::from_texts(DataType::Utf8, texts()).unwrap();
    let batch = Batch::from_columns([("n", numbers), ("t", texts), ("v", views)]).unwrap();
    to_shareable(batch.as_array(), device).unwrap()
}

/// An input that has the messages of a good ticket: whole as the socket carries them, or in frames.
pub(crate) fn good(who: u8, in_frames: bool) -> Vec<u8> {
    let (bytes, _) = &lasting().tickets[usize::from(who & 1)];
    let is_early = who & 16 != 0;
    // The descriptor of the event comes before that of the memory.
    let mut input = vec![who, if is_early { 7 | 1 << 3 } else { 0 }, u8::from(in_frames)];
    if !in_frames {
        input.extend(bytes);
        return input;
    }
    let mut rest = &bytes[..];
    while let Some((header, after)) = rest.split_at_checked(16) {
        let len = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
        let (body, after) = after.split_at(len);
        input.push(if is_early && header[4] == 2 { 7 } else { header[4] });
        input.extend((len as u16).to_le_bytes());
        input.extend(body);
        rest = after;
    }
    input
}

/// Receives the bytes, and panics where a promise is broken. Returns how many arrays came.
pub(crate) fn share_target(input: &[u8]) -> usize {
    let Some(([who, which, form], bytes)) = input.split_first_chunk() else { return 0 };
    let lasting = lasting();
    let before = descriptors();
    let bytes = if form & 1 == 0 { bytes.to_vec() } else { framed(bytes, form & 2 != 0) };
    let came = if who & 8 == 0 {
        let beside = beside(*which, &lasting.tickets[usize::from(who & 1)]);
        received(*who, &bytes, &beside)
    } else {
        told(&bytes, &lasting.array);
        0
    };
    assert_eq!(descriptors(), before, "a descriptor is left");
    came
}

/// Puts a header before each frame, which announces as many descriptors as a frame of its kind has,
/// or as the input says.
fn framed(mut bytes: &[u8], announces: bool) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(([kind, low, high], rest)) = bytes.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (body, rest) = rest.split_at(len);
        let start = all.len();
        all.extend(frame(*kind & 15, body));
        all[start + 6] = match kind & 15 {
            _ if announces => kind >> 4,
            2 => 1,
            7 => 2,
            _ => 0,
        };
        bytes = rest;
    }
    all
}

/// Up to three descriptors: the right one first, or others.
fn beside(which: u8, (_, right): &Ticket) -> Vec<OwnedFd> {
    let fixed = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    let one = |choice: u8| -> Option<OwnedFd> {
        Some(match choice {
            0 => right.first()?.try_clone().unwrap(),
            1 => memory(100, fixed),
            2 => memory(1 << 16, SealFlags::GROW),
            3 => memory(1 << 16, fixed),
            4 => File::open("/dev/zero").unwrap().into(),
            5 => UnixStream::pair().unwrap().0.into(),
            6 => memory(0, fixed),
            7 => {
                let (mut peer, event) = UnixStream::pair().unwrap();
                peer.write_all(&[1]).unwrap();
                event.into()
            }
            _ => return None,
        })
    };
    [which & 7, (which >> 3 & 7).wrapping_sub(1), (which >> 6).wrapping_sub(1)]
        .into_iter()
        .filter_map(one)
        .collect()
}

/// A receiver of the bytes, to its end. Returns how many arrays came.
fn received(who: u8, bytes: &[u8], beside: &[OwnedFd]) -> usize {
    let device = if who & 1 == 0 { Device::host() } else { lasting().software.clone() };
    let (mut peer, socket) = connection_after(bytes, beside);
    peer.shutdown(Shutdown::Write).unwrap();
    let receiver = Receiver::new(socket, [device]).largest_allocation(1 << 22);
    let mut receiver = match who & 2 != 0 {
        // SAFETY: UNS-38: nobody else has a descriptor of the memory, and only this target writes
        // to the socket. The memory of both devices is opened whatever the descriptor is of.
        true => unsafe { receiver.trusting() },
        false => receiver,
    };
    if who & 16 != 0 {
        receiver = receiver.taking_early(Duration::ZERO);
    }
    let mut arrays = Vec::new();
    if who & 4 == 0 {
        while arrays.len() < MOST_ARRAYS
            && let Ok(Some(array)) = receiver.receive_within(Duration::ZERO)
        {
            arrays.push(array);
        }
        drop(receiver);
    } else if let Ok(stream) = receiver.into_stream(3) {
        arrays.extend(stream.take(MOST_ARRAYS).map_while(Result::ok));
    }
    for array in &arrays {
        // The data of an early array may never come.
        if array.validate().is_ok() {
            let there = array.to_host().unwrap();
            assert!(there.equals(&there).unwrap_or(true), "{there:?}");
        }
        let _ = array.schema().unwrap();
    }
    let came = arrays.len();
    drop(arrays);
    let mut back = Vec::new();
    // A receiver that closed the socket with something unread resets the connection.
    let _ = peer.set_nonblocking(true).and_then(|()| peer.read_to_end(&mut back));
    released_once(&back, bytes, came);
    came
}

/// As many numbers are released as arrays came, and as many more as arrays were refused.
fn released_once(mut back: &[u8], sent: &[u8], came: usize) {
    let mut count = 0;
    while let Some((header, rest)) = back.split_at_checked(16) {
        let len = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
        assert!(matches!(header[4], 5 | 6), "a receiver tells {}", header[4]);
        if header[4] == 5 {
            count += len / 8;
        }
        back = &rest[len..];
    }
    assert!(back.is_empty(), "a receiver has told a part of a message");
    let most = sent.windows(4).filter(|four| *four == b"ADS1").count();
    assert!((came..=most).contains(&count), "{count} releases of {came} arrays, {most} messages");
}

/// A sender whose receiver tells the bytes.
fn told(bytes: &[u8], array: &Array) {
    let (one, mut other) = UnixStream::pair().unwrap();
    let sender = Sender::new(one).with_patience(Duration::ZERO);
    sender.send(array).unwrap();
    sender.send(array).unwrap();
    other.set_nonblocking(true).unwrap();
    let _ = other.write(bytes);
    let held = sender.held();
    assert!(held.as_ref().is_ok_and(|held| *held <= 2) || held.is_err());
    let again = sender.send(array);
    assert!(held.is_ok() || again.is_err(), "a connection that was ended goes on");
    drop(other);
    assert_eq!(sender.held().unwrap_or(0), 0, "something is held for nobody");
}

#[cfg(test)]
mod tests {
    use arrow_device_testkit::process::alone;

    use super::*;

    /// Inputs of the fuzz target `share`.
    #[test]
    fn the_fuzz_target_passes_its_corpus() {
        alone(|| {
            let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/share");
            let mut count = 0;
            for entry in std::fs::read_dir(corpus).unwrap() {
                share_target(&std::fs::read(entry.unwrap().path()).unwrap());
                count += 1;
            }
            assert!(count > 100, "{count}");
        });
    }

    #[test]
    fn good_inputs_are_received() {
        alone(|| {
            for who in 0..8 {
                for in_frames in [false, true] {
                    assert_eq!(share_target(&good(who, in_frames)), 1, "{who} {in_frames}");
                }
                assert_eq!(share_target(&good(16 | who, true)), 1, "{who}");
            }
        });
    }
}
