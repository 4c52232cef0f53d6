//! [`Outgoing`]: the server's side of the protocol as a state machine, without any input or output.
//!
//! Addresses are numbers of this connection and not of any memory: each region that is sent gets a
//! range of numbers of its own, and no number is given out twice. So a repeated `free_data` is
//! recognized, and never frees what was sent later.
//!
//! What must stay true: what lies at an address is kept from before the address is sent until all
//! addresses of its message were freed, or the connection has ended.

use std::collections::{BTreeMap, BTreeSet};

use arrow_device::driver::MemoryHandle;
use arrow_device::{Error, ErrorKind, Result};

use crate::problem::{limited, malformed};
use crate::transport::{Message, Region};
use crate::wire::{self, AddressList, BodyKind, BodyTag};

/// The messages that a server sends, and what it keeps for the client. `T` owns the memory of a
/// message.
#[derive(Debug)]
pub(crate) struct Outgoing<T> {
    want_data: u64,
    free_data: Option<u64>,
    most_ticket: usize,
    ticket: Option<Vec<u8>>,
    /// The number of the next message.
    next: u32,
    /// The first address that was not given out.
    next_address: u64,
    kept: BTreeMap<u32, KeptBody<T>>,
    /// The message that each address belongs to.
    owners: BTreeMap<u64, u32>,
    kept_bytes: u64,
    /// How many messages of the client came again.
    pub(crate) repeated: u64,
}

#[derive(Debug)]
struct KeptBody<T> {
    addresses: BTreeSet<u64>,
    bytes: u64,
    owner: T,
}

/// What a client said.
#[derive(Debug)]
pub(crate) enum Said<T> {
    /// It asks for the stream of this ticket.
    Request(Vec<u8>),
    /// It needs these no longer.
    Freed(Vec<T>),
    /// It said so before.
    Nothing,
}

/// A region of memory that is to be sent, and its length.
pub(crate) type Sendable = (MemoryHandle, u64);

/// Where a buffer lies: the number of the region, the offset there, and the length.
pub(crate) type Place = (usize, u64, u64);

/// Addresses begin here, so that 0 is none. Regions begin at multiples of this.
const STEP: u64 = 1 << 12;

impl<T> Outgoing<T> {
    pub(crate) fn new(want_data: u64, free_data: Option<u64>, most_ticket: usize) -> Self {
        Self {
            want_data,
            free_data,
            most_ticket,
            ticket: None,
            next: 0,
            next_address: STEP,
            kept: BTreeMap::new(),
            owners: BTreeMap::new(),
            kept_bytes: 0,
            repeated: 0,
        }
    }

    /// Takes a message of the client.
    pub(crate) fn take(&mut self, message: Message) -> Result<Said<T>> {
        let Message { tag, bytes, regions } = message;
        if !regions.is_empty() {
            return Err(malformed("a client sends no memory"));
        }
        match tag {
            Some(tag) if tag == self.want_data => self.take_request(bytes),
            Some(tag) if Some(tag) == self.free_data => self.take_freed(&bytes),
            Some(tag) => Err(malformed(format!("a client sends no message with the tag {tag:#x}"))),
            None => Err(malformed("a client sends no message without a tag")),
        }
    }

    fn take_request(&mut self, ticket: Vec<u8>) -> Result<Said<T>> {
        let (len, most) = (ticket.len(), self.most_ticket);
        if len > most {
            return Err(limited(format!("a ticket of {len} bytes, and {most} are the limit")));
        }
        match &self.ticket {
            None => {
                self.ticket = Some(ticket.clone());
                Ok(Said::Request(ticket))
            }
            Some(first) if *first == ticket => {
                self.repeated += 1;
                Ok(Said::Nothing)
            }
            Some(_) => Err(malformed("a second stream is asked for on one connection")),
        }
    }

    fn take_freed(&mut self, bytes: &[u8]) -> Result<Said<T>> {
        let mut freed = Vec::new();
        let mut is_new = false;
        for address in wire::read_freed(bytes)? {
            if address < STEP || address >= self.next_address {
                return Err(malformed(format!("address {address:#x} was never sent")));
            }
            let Some(number) = self.owners.remove(&address) else { continue };
            is_new = true;
            let Some(kept) = self.kept.get_mut(&number) else { continue };
            kept.addresses.remove(&address);
            if kept.addresses.is_empty()
                && let Some(kept) = self.kept.remove(&number)
            {
                self.kept_bytes -= kept.bytes;
                freed.push(kept.owner);
            }
        }
        if !is_new {
            self.repeated += 1;
        }
        Ok(if freed.is_empty() { Said::Nothing } else { Said::Freed(freed) })
    }

    /// Returns the next message without its body, and its number.
    pub(crate) fn metadata(&mut self, header: &[u8]) -> (u32, Message) {
        let sequence = self.next;
        self.next = sequence.wrapping_add(1);
        (sequence, Message::untagged(wire::metadata(sequence, header)))
    }

    pub(crate) fn packed(sequence: u32, body: Vec<u8>) -> Message {
        Message::tagged(BodyTag { sequence, kind: BodyKind::Packed }.bits(), body)
    }

    /// Returns the body of a message as addresses in these regions. The owner is kept until the
    /// client has freed all of them.
    pub(crate) fn addresses(
        &mut self,
        sequence: u32,
        regions: Vec<Sendable>,
        places: &[Option<Place>],
        owner: T,
    ) -> Result<Message> {
        let mut next = self.next_address;
        let mut message = Message::default();
        for (handle, len) in regions {
            let room = len.checked_next_multiple_of(STEP).and_then(|len| len.checked_add(STEP));
            let end = room.and_then(|room| next.checked_add(room));
            message.regions.push(Region { base: next, len, handle });
            next = end.ok_or_else(|| limited("the connection has no addresses left"))?;
        }
        let mut list = AddressList::default();
        let mut addresses = BTreeSet::new();
        for place in places {
            let Some((region, offset, len)) = *place else {
                list.buffers.push((0, 0));
                continue;
            };
            let region = message.regions.get(region);
            let inside = region.filter(|region| {
                offset.checked_add(len).is_some_and(|end| len > 0 && end <= region.len)
            });
            let region = inside.ok_or_else(|| {
                let message = "a buffer does not lie in its allocation";
                Error::new(ErrorKind::InvalidData, message).during("dissociated IPC")
            })?;
            let address = region.base + offset;
            list.buffers.push((address, len));
            addresses.insert(address);
        }
        self.next_address = next;
        message.tag = Some(BodyTag { sequence, kind: BodyKind::Addresses }.bits());
        message.bytes = list.to_bytes();
        // Without an address nothing is kept: the client has nothing to free.
        if !addresses.is_empty() {
            self.owners.extend(addresses.iter().map(|address| (*address, sequence)));
            let bytes = list.total();
            self.kept_bytes += bytes;
            self.kept.insert(sequence, KeptBody { addresses, bytes, owner });
        }
        Ok(message)
    }

    pub(crate) fn end(&self) -> Message {
        Message::untagged(wire::end(self.next))
    }

    /// How many bytes are kept for the client.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// How many bodies are kept for the client.
    pub(crate) fn kept(&self) -> usize {
        self.kept.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing() -> Outgoing<u8> {
        Outgoing::new(1, Some(2), 16)
    }

    fn send(outgoing: &mut Outgoing<u8>, owner: u8) -> Vec<u64> {
        let (sequence, _) = outgoing.metadata(b"header");
        let regions = vec![(MemoryHandle::default(), 5000), (MemoryHandle::default(), 64)];
        let places = [Some((0, 64, 10)), None, Some((1, 0, 64)), Some((0, 64, 20))];
        let message = outgoing.addresses(sequence, regions, &places, owner).unwrap();
        let list = AddressList::read(&message.bytes).unwrap();
        assert_eq!((list.buffers[1], list.total()), ((0, 0), 94));
        let at = |region: usize| message.regions[region].base;
        assert_eq!(list.buffers[0].0, at(0) + 64);
        assert!(at(1) >= at(0) + 5000);
        list.buffers.iter().map(|(address, _)| *address).filter(|address| *address > 0).collect()
    }

    fn free(outgoing: &mut Outgoing<u8>, addresses: &[u64]) -> Vec<u8> {
        match outgoing.take(Message::tagged(2, wire::freed(addresses))).unwrap() {
            Said::Freed(owners) => owners,
            Said::Nothing => Vec::new(),
            Said::Request(_) => panic!("no request was sent"),
        }
    }

    #[test]
    fn a_message_is_kept_until_its_last_address_is_freed() {
        let mut outgoing = outgoing();
        let (one, other) = (send(&mut outgoing, 1), send(&mut outgoing, 2));
        assert_eq!(one[0], one[2], "two buffers that begin at one place have one address");
        assert_eq!((outgoing.kept(), outgoing.kept_bytes()), (2, 188));
        assert_eq!(free(&mut outgoing, &one[..1]), []);
        assert_eq!(free(&mut outgoing, &[other[0], one[1]]), [1]);
        assert_eq!(free(&mut outgoing, &other), [2]);
        assert_eq!((outgoing.kept(), outgoing.kept_bytes()), (0, 0));
    }

    #[test]
    fn what_is_freed_twice_is_freed_once_and_frees_nothing_later() {
        let mut outgoing = outgoing();
        let one = send(&mut outgoing, 1);
        assert_eq!(free(&mut outgoing, &one), [1]);
        let other = send(&mut outgoing, 2);
        assert!(one.iter().all(|address| !other.contains(address)));
        assert_eq!(free(&mut outgoing, &one), []);
        assert_eq!((outgoing.kept(), outgoing.repeated), (1, 1));
    }

    #[test]
    fn addresses_that_were_never_sent_are_refused() {
        let mut outgoing = outgoing();
        send(&mut outgoing, 1);
        for address in [0, 1, outgoing.next_address, u64::MAX] {
            let message = Message::tagged(2, wire::freed(&[address]));
            assert_eq!(outgoing.take(message).unwrap_err().kind(), ErrorKind::Malformed);
        }
        assert_eq!(outgoing.kept(), 1);
    }

    #[test]
    fn a_stream_is_asked_for_once_by_a_short_ticket() {
        let mut outgoing = outgoing();
        let ask = |outgoing: &mut Outgoing<u8>, ticket: &[u8]| {
            outgoing.take(Message::tagged(1, ticket.to_vec()))
        };
        assert_eq!(ask(&mut outgoing, &[7; 17]).unwrap_err().kind(), ErrorKind::LimitExceeded);
        assert!(
            matches!(ask(&mut outgoing, b"a").unwrap(), Said::Request(ticket) if ticket == b"a")
        );
        assert!(matches!(ask(&mut outgoing, b"a").unwrap(), Said::Nothing));
        assert_eq!(ask(&mut outgoing, b"b").unwrap_err().kind(), ErrorKind::Malformed);
        assert!(outgoing.take(Message::untagged(vec![1])).is_err());
        assert!(outgoing.take(Message::tagged(3, vec![1])).is_err());
    }

    #[test]
    fn buffers_outside_of_their_region_are_not_sent() {
        let mut outgoing = outgoing();
        for place in [(0, 60, 5), (1, 0, 1), (0, u64::MAX, 2), (0, 0, 0)] {
            let regions = vec![(MemoryHandle::default(), 64)];
            assert!(outgoing.addresses(0, regions, &[Some(place)], 1).is_err(), "{place:?}");
        }
        assert_eq!((outgoing.kept(), outgoing.next_address), (0, STEP));
        let huge = vec![(MemoryHandle::default(), u64::MAX)];
        assert!(outgoing.addresses(0, huge, &[], 1).is_err());
    }
}
