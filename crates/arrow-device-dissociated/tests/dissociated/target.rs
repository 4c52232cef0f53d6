//! The fuzz target `dissociated`: any messages from the other side.
//!
//! The first byte says who reads them: a client that opens memory of the host, or a server that has
//! sent a stream of two batches. Then come messages: a byte that says which tag the message has and
//! which memory comes beside it, the length in two bytes, and the bytes. One of the choices stands
//! for a message of a good stream, changed in one byte.
//!
//! Whatever comes ends with batches or with an error, what validation accepts is read whole, and no
//! descriptor is left.

use std::sync::OnceLock;
use std::time::Duration;

use arrow_device::driver::MemoryHandle;
use arrow_device::{Array, ArrayStream, Batch, DataType, Device, DeviceType};
use arrow_device_dissociated::{
    Client, ClientOptions, LocalTransport, Location, Message, Received, Region, Server,
    ServerOptions, Transport,
};
use arrow_device_testkit::process::descriptors;

const SOON: Option<Duration> = Some(Duration::ZERO);

/// No input has more messages that are worth reading.
const MOST_MESSAGES: usize = 40;

fn batch() -> Batch {
    let numbers = Array::from_values(DataType::Int32, [Some(1), None, Some(3)]).unwrap();
    let texts = || [Some("one"), Some("two, which is longer than twelve bytes"), None];
    let views = Array::from_texts(DataType::Utf8View, texts()).unwrap();
    let texts = Array::from_texts(DataType::Utf8, texts()).unwrap();
    Batch::from_columns([("n", numbers), ("t", texts), ("v", views)]).unwrap()
}

fn stream() -> ArrayStream {
    let schema = batch().schema().unwrap();
    ArrayStream::new(schema, DeviceType::CPU, [Ok(batch()), Ok(batch())])
}

fn location() -> Location {
    Location::new("local:").sharing(&Device::host())
}

/// The messages of a good server.
fn good_messages() -> &'static [Message] {
    static MESSAGES: OnceLock<Vec<Message>> = OnceLock::new();
    MESSAGES.get_or_init(|| {
        let (here, there) = LocalTransport::pair();
        there.send(&Message::tagged(1, Vec::new()), None).unwrap();
        let options = ServerOptions::new().sharing(&Device::host()).linger(SOON);
        let server = Server::new(here, &location(), options).unwrap();
        assert!(server.serve(|_| Ok(stream())).is_err(), "nothing is freed");
        let mut messages = Vec::new();
        while let Received::Message(message) = there.receive(u64::MAX, None).unwrap() {
            messages.push(message);
        }
        messages
    })
}

/// An input that has the messages of a good server.
pub(crate) fn good() -> Vec<u8> {
    let mut input = vec![0];
    for number in 0..good_messages().len() {
        input.extend([7, 4, 0, number as u8, 0, 0, 0]);
    }
    input
}

fn messages(mut bytes: &[u8]) -> Vec<Message> {
    let mut messages = Vec::new();
    while messages.len() < MOST_MESSAGES
        && let Some(([kind, low, high], rest)) = bytes.split_first_chunk()
    {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (body, rest) = rest.split_at(len);
        bytes = rest;
        messages.push(message(*kind, body));
    }
    messages
}

fn message(kind: u8, body: &[u8]) -> Message {
    let good = good_messages();
    let of_good = |number: u8| good[usize::from(number) % good.len()].again();
    match (kind & 7, body) {
        (0, _) => Message::untagged(body.to_vec()),
        (1 | 2, _) => Message::tagged(u64::from(kind & 7), body.to_vec()),
        (3, [sequence, rest @ ..]) => Message::tagged(u64::from(*sequence), rest.to_vec()),
        (4, [sequence, number, rest @ ..]) => {
            let mut message = of_good(*number);
            message.tag = Some(1 << 56 | u64::from(*sequence));
            message.bytes = rest.to_vec();
            message
        }
        (5, [number, base, len, rest @ ..]) => {
            let mut message = of_good(*number);
            let handle = MemoryHandle::default().with_note(rest);
            let (base, len) = (u64::from(*base) << 10, u64::from(*len) << 8);
            message.regions.push(Region { base, len, handle });
            message
        }
        (6, [tag @ .., last]) => {
            let mut bits = [0; 8];
            bits.iter_mut().zip(tag).for_each(|(to, from)| *to = *from);
            Message::tagged(u64::from_le_bytes(bits), vec![*last])
        }
        (_, [number, low, high, change]) => {
            let mut message = of_good(*number);
            let at = usize::from(u16::from_le_bytes([*low, *high]));
            if let Some(byte) = message.bytes.get_mut(at) {
                *byte ^= change;
            }
            message
        }
        _ => Message::untagged(body.to_vec()),
    }
}

/// Reads the messages, and panics where a promise is broken. Returns how many batches came.
pub(crate) fn dissociated_target(input: &[u8]) -> usize {
    let Some(([who], bytes)) = input.split_first_chunk() else { return 0 };
    let messages = messages(bytes);
    let before = descriptors();
    let came = if who & 1 == 0 { read(&messages) } else { serve(&messages) };
    assert_eq!(descriptors(), before, "a descriptor is left");
    came
}

fn read(messages: &[Message]) -> usize {
    let (here, there) = LocalTransport::pair();
    messages.iter().for_each(|message| here.send(message, None).unwrap());
    let options = ClientOptions::new().patience(SOON).largest(1 << 20).ahead(16, 1 << 16);
    let mut came = Vec::new();
    if let Ok(client) = Client::request(there, &location(), b"ticket", options) {
        came.extend(client.map_while(Result::ok));
    }
    for batch in &came {
        if batch.as_array().validate().is_ok() {
            let again = batch.to_host().unwrap();
            assert!(again.as_array().equals(&again.as_array().clone()).unwrap_or(true));
        }
    }
    let count = came.len();
    drop(came);
    // Each message of the client is well-formed.
    while let Ok(Received::Message(message)) = here.receive(u64::MAX, SOON) {
        match message.tag {
            Some(1) => assert_eq!(message.bytes, b"ticket"),
            Some(2) => assert!(message.bytes.len() % 8 == 0 && !message.bytes.is_empty()),
            tag => panic!("a client sends a message with the tag {tag:?}"),
        }
        assert!(message.regions.is_empty());
    }
    count
}

fn serve(messages: &[Message]) -> usize {
    let host = Device::host();
    let before = host.held().allocated;
    let (here, there) = LocalTransport::pair();
    messages.iter().for_each(|message| there.send(message, None).unwrap());
    let options = ServerOptions::new().sharing(&host).patience(SOON).linger(SOON);
    let server = Server::new(here, &location(), options).unwrap();
    let served = server.serve(|_| Ok(stream()));
    let count = served.map_or(0, |counts| counts.freed);
    drop(there);
    assert_eq!(host.held().allocated, before, "memory is kept for nobody");
    usize::try_from(count).unwrap()
}

#[cfg(test)]
mod tests {
    use arrow_device_testkit::process::alone;

    use super::*;

    #[test]
    fn the_fuzz_target_passes_its_corpus() {
        alone(|| {
            let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/dissociated");
            let mut count = 0;
            for entry in std::fs::read_dir(corpus).unwrap() {
                dissociated_target(&std::fs::read(entry.unwrap().path()).unwrap());
                count += 1;
            }
            assert!(count > 10, "{count}");
        });
    }

    #[test]
    fn good_inputs_are_received_and_no_change_of_a_byte_breaks_a_promise() {
        alone(|| {
            assert_eq!(dissociated_target(&good()), 2);
            for number in 0..good_messages().len() {
                for at in 0..good_messages()[number].bytes.len().min(400) {
                    let mut input = good();
                    let place = 1 + number * 7 + 4;
                    input[place] = at as u8;
                    input[place + 1] = (at >> 8) as u8;
                    input[place + 2] = 0x81;
                    dissociated_target(&input);
                }
            }
        });
    }
}
