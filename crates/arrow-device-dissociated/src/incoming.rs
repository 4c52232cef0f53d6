//! [`Incoming`]: the client's side of the protocol as a state machine, without any input or output.
//!
//! Messages are given in any order. Each has a position in the stream, which its sequence number
//! tells together with the position that is awaited:
//!
//! 1. The distance of a number from the awaited one, modulo 2^32, is small for messages that are
//!    still to come, and large for messages that were taken before, which are repetitions.
//! 2. A header and a body with one position wait for each other in a slot.
//! 3. The slot of the awaited position is given out once it has all that belongs to it.
//!
//! What must stay true: slots take no more memory than the limits say, whatever comes; and a
//! repetition never takes the place of what came first.

use std::collections::BTreeMap;

use arrow_device::Result;
use arrow_device_ipc::Decoder;

use crate::problem::{limited, malformed};
use crate::transport::{Message, Region};
use crate::wire::{self, AddressList, BodyKind, BodyTag, Untagged};

/// What a client keeps at most of messages that came too early.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AheadLimits {
    /// How many positions ahead of the awaited one a message may be.
    pub(crate) messages: u32,
    /// How many bytes wait.
    pub(crate) bytes: u64,
}

/// How many regions wait at most. Each may have a descriptor, and a process has few of these.
const MOST_WAITING_REGIONS: usize = 2 * Message::MOST_REGIONS;

/// The messages of a stream that have come and were not given out.
#[derive(Debug)]
pub(crate) struct Incoming {
    limits: AheadLimits,
    /// The position that is awaited.
    next: u64,
    slots: BTreeMap<u64, Slot>,
    /// The position behind the last message, once it is known.
    end: Option<u64>,
    is_over: bool,
    waiting_bytes: u64,
    waiting_regions: usize,
    /// How many messages came again.
    pub(crate) repeated: u64,
}

#[derive(Debug, Default)]
struct Slot {
    header: Option<Vec<u8>>,
    /// Whether the header says that there is a body.
    has_body: bool,
    body: Option<Body>,
}

/// The body of a message.
#[derive(Debug)]
pub(crate) enum Body {
    Packed(Vec<u8>),
    Addresses(AddressList, Vec<Region>),
}

/// What comes next in the order of the stream.
#[derive(Debug)]
pub(crate) enum Next {
    Message { header: Vec<u8>, body: Option<Body> },
    End,
}

impl Incoming {
    pub(crate) fn new(limits: AheadLimits) -> Self {
        Self::awaiting(0, limits)
    }

    fn awaiting(next: u64, limits: AheadLimits) -> Self {
        Self {
            limits,
            next,
            slots: BTreeMap::new(),
            end: None,
            is_over: false,
            waiting_bytes: 0,
            waiting_regions: 0,
            repeated: 0,
        }
    }

    /// Returns the position of a sequence number, `None` where it was awaited before.
    fn position(&self, sequence: u32) -> Result<Option<u64>> {
        let distance = sequence.wrapping_sub(self.next as u32);
        if distance >= 1 << 31 {
            return Ok(None);
        }
        if distance > self.limits.messages {
            let (next, most) = (self.next as u32, self.limits.messages);
            let message = format!("message {sequence} comes more than {most} before {next}");
            return Err(limited(message));
        }
        Ok(Some(self.next + u64::from(distance)))
    }

    /// Takes a message.
    pub(crate) fn take(&mut self, message: Message) -> Result<()> {
        let Message { tag, bytes, regions } = message;
        let Some(tag) = tag else {
            if !regions.is_empty() {
                return Err(malformed("a message without a tag comes with memory"));
            }
            return match wire::untagged(&bytes)? {
                Untagged::End(sequence) => self.take_end(sequence),
                Untagged::Metadata(sequence, header) => self.take_header(sequence, header),
            };
        };
        let tag = BodyTag::from_bits(tag)?;
        let (len, count) = (bytes.len() as u64, regions.len());
        let body = match tag.kind {
            BodyKind::Packed if regions.is_empty() => Body::Packed(bytes),
            BodyKind::Packed => return Err(malformed("a packed body comes with memory")),
            BodyKind::Addresses => Body::Addresses(AddressList::read(&bytes)?, regions),
        };
        let Some(slot) = self.slot(tag.sequence, |slot| slot.body.is_some())? else {
            return Ok(());
        };
        if slot.header.is_some() && !slot.has_body {
            let sequence = tag.sequence;
            return Err(malformed(format!("message {sequence} has no body, and one came")));
        }
        slot.body = Some(body);
        self.wait_for(len, count)
    }

    fn take_header(&mut self, sequence: u32, header: &[u8]) -> Result<()> {
        let has_body = Decoder::has_body(header)?;
        let Some(slot) = self.slot(sequence, |slot| slot.header.is_some())? else {
            return Ok(());
        };
        if slot.body.is_some() && !has_body {
            return Err(malformed(format!("message {sequence} has no body, and one came")));
        }
        (slot.header, slot.has_body) = (Some(header.to_vec()), has_body);
        self.wait_for(header.len() as u64, 0)
    }

    fn take_end(&mut self, sequence: u32) -> Result<()> {
        let position = self.position(sequence)?;
        match (self.end, position) {
            (None, Some(position)) => {
                if self.slots.keys().any(|slot| *slot >= position) {
                    return Err(behind_the_end(sequence));
                }
                self.end = Some(position);
            }
            (Some(end), Some(position)) if end == position => self.repeated += 1,
            _ => {
                return Err(malformed(format!("the stream ends before message {sequence}, again")));
            }
        }
        Ok(())
    }

    /// Returns the slot for a part of a message, `None` where the part came before.
    fn slot(&mut self, sequence: u32, is_there: fn(&Slot) -> bool) -> Result<Option<&mut Slot>> {
        let Some(position) = self.position(sequence)? else {
            self.repeated += 1;
            return Ok(None);
        };
        if self.end.is_some_and(|end| position >= end) {
            return Err(behind_the_end(sequence));
        }
        let slot = self.slots.entry(position).or_default();
        if is_there(slot) {
            self.repeated += 1;
            return Ok(None);
        }
        Ok(Some(slot))
    }

    /// Counts bytes and regions that wait. The message that is awaited always has room.
    fn wait_for(&mut self, len: u64, regions: usize) -> Result<()> {
        self.waiting_bytes = self.waiting_bytes.saturating_add(len);
        self.waiting_regions += regions;
        let is_alone = self.slots.keys().all(|position| *position == self.next);
        if self.waiting_bytes > self.limits.bytes && !is_alone {
            let (waiting, most) = (self.waiting_bytes, self.limits.bytes);
            return Err(limited(format!("{waiting} bytes came too early, and {most} may wait")));
        }
        if self.waiting_regions > MOST_WAITING_REGIONS && !is_alone {
            let (waiting, most) = (self.waiting_regions, MOST_WAITING_REGIONS);
            return Err(limited(format!("{waiting} regions came too early, and {most} may wait")));
        }
        Ok(())
    }

    /// Returns what is next in the order of the stream. `None` where something is missing.
    pub(crate) fn next(&mut self) -> Option<Next> {
        if self.is_over {
            return Some(Next::End);
        }
        if self.end == Some(self.next) {
            self.is_over = true;
            return Some(Next::End);
        }
        let slot = self.slots.get(&self.next)?;
        if slot.header.is_none() || (slot.has_body && slot.body.is_none()) {
            return None;
        }
        let slot = self.slots.remove(&self.next)?;
        self.next += 1;
        let header = slot.header?;
        let (body_len, regions) = match &slot.body {
            None => (0, 0),
            Some(Body::Packed(bytes)) => (bytes.len() as u64, 0),
            Some(Body::Addresses(list, regions)) => {
                (16 * (list.buffers.len() as u64 + 1), regions.len())
            }
        };
        self.waiting_regions -= regions;
        self.waiting_bytes = self.waiting_bytes.saturating_sub(header.len() as u64 + body_len);
        Some(Next::Message { header, body: slot.body })
    }

    /// Says what is missing, for an error.
    pub(crate) fn missing(&self) -> String {
        let sequence = self.next as u32;
        let slot = self.slots.get(&self.next);
        let what = match slot {
            Some(slot) if slot.header.is_some() => "the body of message",
            Some(_) => "the header of message",
            None => "message",
        };
        let behind = self.slots.range(self.next + 1..).count();
        let end = if self.end.is_some() { ", and the end has come" } else { "" };
        match behind {
            0 => format!("{what} {sequence} has not come{end}"),
            _ => format!("{what} {sequence} has not come, and {behind} later ones have{end}"),
        }
    }
}

#[cold]
fn behind_the_end(sequence: u32) -> arrow_device::Error {
    malformed(format!("message {sequence} comes, and the stream ends before"))
}

#[cfg(test)]
mod tests {
    use arrow_device::{Array, Batch, DataType, ErrorKind};
    use arrow_device_ipc::{Encoder, WriteOptions};

    use super::*;

    const LIMITS: AheadLimits = AheadLimits { messages: 8, bytes: 4096 };

    /// The headers of a schema and of a batch.
    fn headers() -> [Vec<u8>; 2] {
        let numbers = Array::from_values(DataType::Int8, [Some(1_i8)]).unwrap();
        let batch = Batch::from_columns([("n", numbers)]).unwrap();
        let schema = batch.schema().unwrap();
        let mut encoder = Encoder::new(&schema, WriteOptions::new()).unwrap();
        let message = encoder.encode(&batch).unwrap().pop().unwrap();
        [encoder.schema_message().unwrap(), message.header().to_vec()]
    }

    fn body(sequence: u32, byte: u8) -> Message {
        Message::tagged(BodyTag { sequence, kind: BodyKind::Packed }.bits(), vec![byte; 4])
    }

    /// The messages of a stream of so many batches that begins with a number.
    fn stream(first: u32, batches: u32) -> Vec<Message> {
        let [schema, batch] = headers();
        let mut messages = vec![Message::untagged(wire::metadata(first, &schema))];
        for number in 1..=batches {
            let sequence = first.wrapping_add(number);
            messages.push(Message::untagged(wire::metadata(sequence, &batch)));
            messages.push(body(sequence, number as u8));
        }
        messages.push(Message::untagged(wire::end(first.wrapping_add(batches + 1))));
        messages
    }

    /// The first bytes of the bodies that come out, in order, and whether the end does.
    fn drained(incoming: &mut Incoming) -> (Vec<u8>, bool) {
        let mut bodies = Vec::new();
        loop {
            match incoming.next() {
                Some(Next::Message { body: Some(Body::Packed(bytes)), .. }) => {
                    bodies.push(bytes[0]);
                }
                Some(Next::Message { .. }) => {}
                Some(Next::End) => return (bodies, true),
                None => return (bodies, false),
            }
        }
    }

    /// Calls something with each order of so many things.
    fn for_each_order(count: usize, mut each: impl FnMut(&[usize])) {
        fn go(order: &mut Vec<usize>, from: usize, each: &mut impl FnMut(&[usize])) {
            if from == order.len() {
                return each(order);
            }
            for at in from..order.len() {
                order.swap(from, at);
                go(order, from + 1, each);
                order.swap(from, at);
            }
        }
        go(&mut (0..count).collect(), 0, &mut each);
    }

    #[test]
    fn every_order_of_the_messages_gives_the_stream_also_where_numbers_begin_anew() {
        for first in [0, u32::MAX - 1] {
            let messages = stream(first, 2);
            for_each_order(messages.len(), |order| {
                let mut incoming = Incoming::awaiting(first.into(), LIMITS);
                let mut found = Vec::new();
                let mut is_over = false;
                for at in order {
                    incoming.take(messages[*at].again()).unwrap();
                    let (bodies, end) = drained(&mut incoming);
                    found.extend(bodies);
                    is_over = end;
                }
                assert_eq!((found, is_over), (vec![1, 2], true), "{order:?}");
                assert_eq!((incoming.waiting_bytes, incoming.slots.len()), (0, 0));
            });
        }
    }

    #[test]
    fn every_message_that_is_lost_is_missed_and_named() {
        let messages = stream(0, 3);
        for lost in 0..messages.len() {
            let mut incoming = Incoming::new(LIMITS);
            for (at, message) in messages.iter().enumerate() {
                if at != lost {
                    incoming.take(message.again()).unwrap();
                }
            }
            let (bodies, is_over) = drained(&mut incoming);
            assert!(!is_over, "{lost}");
            assert_eq!(bodies.len(), lost.saturating_sub(1) / 2, "{lost}");
            let expected = match lost {
                7 => "message 4 has not come".into(),
                0 => "message 0 has not come, and 3 later ones have, and the end has come".into(),
                _ => {
                    let number = lost.div_ceil(2);
                    let part = if lost % 2 == 1 { "header" } else { "body" };
                    let what = format!("the {part} of message {number} has not come");
                    match 3 - number {
                        0 => format!("{what}, and the end has come"),
                        left => format!("{what}, and {left} later ones have, and the end has come"),
                    }
                }
            };
            assert_eq!(incoming.missing(), expected);
        }
    }

    #[test]
    fn messages_that_come_twice_count_once() {
        let messages = stream(0, 3);
        for twice in 0..messages.len() {
            for later in [false, true] {
                let mut incoming = Incoming::new(LIMITS);
                let mut found = Vec::new();
                for (at, message) in messages.iter().enumerate() {
                    incoming.take(message.again()).unwrap();
                    if at == twice && !later {
                        incoming.take(message.again()).unwrap();
                    }
                    found.extend(drained(&mut incoming).0);
                }
                if later {
                    incoming.take(messages[twice].again()).unwrap();
                }
                assert_eq!((found, incoming.repeated), (vec![1, 2, 3], 1), "{twice}");
            }
        }
    }

    #[test]
    fn what_comes_too_early_is_bounded() {
        let [_, batch] = headers();
        let mut incoming = Incoming::new(LIMITS);
        let far = Message::untagged(wire::metadata(9, &batch));
        assert_eq!(incoming.take(far).unwrap_err().kind(), ErrorKind::LimitExceeded);
        let long = |sequence| {
            let tag = BodyTag { sequence, kind: BodyKind::Packed };
            Message::tagged(tag.bits(), vec![0; 3000])
        };
        incoming.take(long(2)).unwrap();
        assert_eq!(incoming.take(long(3)).unwrap_err().kind(), ErrorKind::LimitExceeded);
        // The awaited message may be as long as it is.
        let mut incoming = Incoming::new(AheadLimits { bytes: 10, ..LIMITS });
        incoming.take(long(0)).unwrap();
    }

    #[test]
    fn what_contradicts_the_end_is_refused() {
        let [schema, batch] = headers();
        let refused = |messages: Vec<Message>| {
            let mut incoming = Incoming::new(LIMITS);
            let results: Vec<_> =
                messages.into_iter().map(|message| incoming.take(message)).collect();
            let last = results.len() - 1;
            assert!(results[..last].iter().all(Result::is_ok), "{results:?}");
            assert_eq!(results[last].as_ref().unwrap_err().kind(), ErrorKind::Malformed);
        };
        let end = |sequence| Message::untagged(wire::end(sequence));
        let header = |sequence, header: &[u8]| Message::untagged(wire::metadata(sequence, header));
        refused(vec![header(2, &batch), end(2)]);
        refused(vec![end(2), header(2, &batch)]);
        refused(vec![end(2), body(5, 0)]);
        refused(vec![end(2), end(3)]);
        refused(vec![header(0, &schema), body(0, 0)]);
        refused(vec![body(0, 0), header(0, &schema)]);
        refused(vec![Message::tagged(1 << 33, vec![0])]);
    }
}
