//! The fuzz target `flight`: any messages of Flight from the other side.
//!
//! The first byte says how they are read: validated or not, all columns or two of them, from plain
//! messages or packed ones, and how large the messages are that are made of what came. Then come
//! messages, each of a byte that says which kind it is, and what the kind needs. Most kinds change
//! a message of a good stream, whose dictionary grows and is then replaced.
//!
//! Whatever comes ends with batches or with an error. What validation accepts is made messages
//! again, in parts, and is the same when they are read. A part is larger than was asked for only
//! where two parts would be larger than one, and the parts are together at most twice as large as
//! the batch.
//!
//! The sources that are included here are those of the crate which need neither gRPC nor a major of
//! arrow-flight.

#[path = "../../src/body.rs"]
mod body;
#[path = "../../src/cut.rs"]
mod cut;
#[path = "../../src/incoming.rs"]
mod incoming;

use std::sync::OnceLock;

use arrow_device::{Batch, Schema};
use arrow_device_ipc::{Compression, Encoder, ReadOptions, WriteOptions};
use arrow_device_testkit::samples::mixed_batch;
use bytes::Bytes;

use cut::{Cutter, Step};
use incoming::Incoming;

/// No input has more messages that are worth reading.
const MOST_MESSAGES: usize = 40;
/// A batch of more rows is not divided.
const MOST_ROWS: usize = 1000;

/// A message of Flight, without what only gRPC looks at.
#[derive(Clone, Debug, Default)]
struct Message {
    header: Vec<u8>,
    app_metadata: Vec<u8>,
    body: Vec<u8>,
    /// How many bytes come before the body in its memory.
    behind: usize,
}

/// The messages of a good sender, plain and packed.
fn good_messages(packed: bool) -> &'static [Message] {
    static MESSAGES: OnceLock<[Vec<Message>; 2]> = OnceLock::new();
    let [plain, of_packed] = MESSAGES.get_or_init(|| {
        [None, Some(Compression::Lz4)].map(|compression| {
            let dictionaries = [
                &[Some("low"), Some("high")][..],
                &[Some("low"), Some("high"), Some("more")],
                &[Some("other"), None],
            ];
            let batches = dictionaries.map(mixed_batch);
            let options = WriteOptions::new().alignment(8).compression(compression).deltas(true);
            let mut encoder = Encoder::new(&batches[0].schema().unwrap(), options).unwrap();
            let header = encoder.schema_message().unwrap();
            let mut messages =
                vec![Message { header, app_metadata: b"note".to_vec(), ..Message::default() }];
            for batch in batches {
                for message in encoder.encode(&batch).unwrap() {
                    let header = message.header().to_vec();
                    let body = message.body_bytes().unwrap();
                    messages.push(Message { header, body, ..Message::default() });
                }
            }
            messages
        })
    });
    if packed { of_packed } else { plain }
}

/// An input that has the messages of a good sender.
#[cfg(test)]
fn good(how: u8) -> Vec<u8> {
    let mut input = vec![how];
    for number in 0..good_messages(how & PACKED != 0).len() {
        input.extend([BENT_HEADER, number as u8, 0, 0, 0]);
    }
    input
}

const VALIDATED: u8 = 1;
const TWO_COLUMNS: u8 = 2;
const PACKED: u8 = 4;
/// Whether what came is packed when it is made messages again.
const PACKS: u8 = 8;

const RAW: u8 = 0;
const BENT_HEADER: u8 = 1;
const BENT_BODY: u8 = 2;
const CUT_BODY: u8 = 3;
const MIXED: u8 = 4;
const METADATA: u8 = 5;
/// Whether the body lies at an odd address.
const IS_ODD: u8 = 8;

/// Reads bytes from the front, 0 at the end.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *byte
    }

    fn number(&mut self) -> usize {
        usize::from(u16::from_le_bytes([self.byte(), self.byte()]))
    }

    fn bytes(&mut self) -> Vec<u8> {
        let len = self.number().min(self.0.len());
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        bytes.to_vec()
    }
}

fn message(choices: &mut Choices<'_>, good: &[Message]) -> Message {
    let kind = choices.byte();
    let of_good = |choices: &mut Choices<'_>| {
        let number = usize::from(choices.byte());
        good[number % good.len()].clone()
    };
    let mut message = match kind & 7 {
        RAW => {
            let (header, body) = (choices.bytes(), choices.bytes());
            Message { header, body, ..Message::default() }
        }
        CUT_BODY => {
            let mut message = of_good(choices);
            message.body.resize(choices.number(), choices.byte());
            message
        }
        MIXED => {
            let (message, other) = (of_good(choices), of_good(choices));
            Message { body: other.body, ..message }
        }
        METADATA => Message { app_metadata: choices.bytes(), ..Message::default() },
        kind => {
            let mut message = of_good(choices);
            let (at, change) = (choices.number(), choices.byte());
            let bytes = if kind == BENT_BODY { &mut message.body } else { &mut message.header };
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= change;
            }
            message
        }
    };
    message.behind = usize::from(kind & IS_ODD != 0);
    message
}

fn take(incoming: &mut Incoming, message: Message) -> arrow_device::Result<Option<Batch>> {
    let Message { header, app_metadata, body, behind } = message;
    let body = Bytes::from([&vec![0; behind][..], &body].concat()).slice(behind..);
    let app_metadata = Bytes::from(app_metadata);
    let Some(taken) = incoming.take(&header, app_metadata.clone(), body)? else { return Ok(None) };
    assert_eq!(taken.app_metadata, app_metadata);
    assert!(taken.batch.is_some() || taken.metadata.is_empty());
    Ok(taken.batch)
}

/// Reads the messages, and panics where a promise is broken. Returns how many batches came.
pub(crate) fn flight_target(input: &[u8]) -> usize {
    let mut choices = Choices(input);
    let how = choices.byte();
    let options = ReadOptions::new().max_unpacked(1 << 22).max_dictionaries(1 << 22);
    let options = options.validate(how & VALIDATED != 0);
    let options = if how & TWO_COLUMNS != 0 { options.columns([1, 0]) } else { options };
    let good = good_messages(how & PACKED != 0);
    let mut incoming = Incoming::new(options);
    let mut came = Vec::new();
    for _ in 0..MOST_MESSAGES {
        if choices.0.is_empty() {
            break;
        }
        match take(&mut incoming, message(&mut choices, good)) {
            Ok(batch) => came.extend(batch),
            // A reader asks for nothing more.
            Err(_) => break,
        }
    }
    let Some(schema) = incoming.schema().cloned() else {
        assert!(came.is_empty(), "a batch came before its schema");
        return 0;
    };
    let _ = incoming.app_metadata().len();
    drop(incoming);
    let max_body = 64 << (how >> 4);
    let packing = (how & PACKS != 0).then_some(Compression::Lz4);
    for batch in &came {
        if batch.as_array().validate().is_ok() {
            comes_back(&schema, batch, packing, max_body);
        }
    }
    came.len()
}

/// Made messages in parts, and read again.
fn comes_back(schema: &Schema, batch: &Batch, packing: Option<Compression>, max_body: u64) {
    // A column of a struct that has no column says nothing of its length.
    if batch.column_count() == 0 || batch.row_count() > MOST_ROWS {
        return;
    }
    let options = WriteOptions::new().compression(packing);
    let mut cutter = Cutter::new(schema, options).unwrap();
    cutter.set_max_body(max_body);
    cutter.cut(batch.clone()).unwrap();
    let mut incoming = Incoming::new(ReadOptions::new());
    incoming.take(&cutter.schema_message().unwrap(), Bytes::new(), Bytes::new()).unwrap();
    let of_rows = |rows: &Batch| {
        let mut encoder = Encoder::new(schema, options.cut_views(true)).unwrap();
        encoder.encode(rows).unwrap().pop().unwrap()
    };
    let whole = of_rows(batch);
    let whole = (whole.header().len() + whole.body_bytes().unwrap().len()) as u64;
    let (mut at, mut sent) = (0, 0);
    loop {
        let message = match cutter.step().unwrap() {
            Step::Made(message) => message,
            Step::Divided => continue,
            Step::Done => break,
        };
        let header = message.header().len();
        let body = message.body_bytes().unwrap();
        let (len, is_dictionary) = (body.len() as u64, message.is_dictionary());
        let taken = incoming.take(message.header(), Bytes::new(), body.into()).unwrap();
        let Some(again) = taken.and_then(|taken| taken.batch) else {
            assert!(is_dictionary, "a batch is not there");
            continue;
        };
        let rows = again.row_count();
        let part = batch.slice(at, rows).unwrap();
        // What a large header has is counted too, and is not looked at here.
        if len > max_body && rows > 1 && header < 4096 {
            let half = rows.div_ceil(2);
            let halves = [part.slice(0, half).unwrap(), part.slice(half, rows - half).unwrap()];
            let halves: u64 = halves.iter().map(|half| of_rows(half).body_len()).sum();
            assert!(halves > len, "{rows} rows in {len} bytes, and in {halves} as two parts");
        }
        sent += len;
        assert!(again.as_array().equals(part.as_array()).unwrap_or(true), "{again:?}");
        at += rows;
    }
    assert_eq!(at, batch.row_count(), "rows are lost");
    assert!(sent <= 2 * whole, "{whole} bytes became {sent}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fuzz_target_passes_its_corpus() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/flight");
        let mut count = 0;
        for entry in std::fs::read_dir(corpus).unwrap() {
            flight_target(&std::fs::read(entry.unwrap().path()).unwrap());
            count += 1;
        }
        assert!(count > 10, "{count}");
    }

    #[test]
    fn good_inputs_are_received_and_no_change_of_a_byte_breaks_a_promise() {
        let ways = [0, VALIDATED, PACKED, VALIDATED | PACKED | PACKS];
        for (way, how) in ways.into_iter().enumerate() {
            assert_eq!(flight_target(&good(how)), 3);
            let messages = good_messages(how & PACKED != 0).iter().enumerate();
            for (number, Message { header, body, .. }) in messages {
                // Each byte in one of the four ways, since all in all of them take long.
                for at in (way..header.len()).step_by(4) {
                    flight_target(&bent(how, number, BENT_HEADER, at));
                }
                for at in (way..body.len()).step_by(4) {
                    flight_target(&bent(how, number, BENT_BODY, at));
                }
            }
        }
    }

    /// A good input with one byte changed, in a body at an odd address.
    fn bent(how: u8, number: usize, kind: u8, at: usize) -> Vec<u8> {
        let mut input = good(how);
        let [low, high] = (at as u16).to_le_bytes();
        let place = 1 + number * 5;
        input[place..place + 5].copy_from_slice(&[kind | IS_ODD, number as u8, low, high, 0x81]);
        input
    }
}
