//! The bytes of the protocol's messages, as the specification lays them out.
//!
//! All numbers are unsigned and little-endian. What must stay true: the length of a message is
//! compared with what the message claims before memory is taken for the claim.

use arrow_device::Result;

use crate::problem::malformed;

/// How the body of a message travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BodyKind {
    /// 0: the message has the bytes of the body, as Arrow IPC packs them.
    Packed,
    /// 1: the message has a list of addresses where the buffers of the body lie.
    Addresses,
}

/// The tag of a message with a body.
///
/// ```
/// use arrow_device_dissociated::{BodyKind, BodyTag};
///
/// let tag = BodyTag { sequence: 7, kind: BodyKind::Addresses };
/// assert_eq!(tag.bits(), 0x0100_0000_0000_0007);
/// assert_eq!(BodyTag::from_bits(tag.bits())?, tag);
/// // Bits 32 to 55 are reserved.
/// assert!(BodyTag::from_bits(1 << 40).is_err());
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BodyTag {
    /// The number of the message that the body belongs to: bits 0 to 31.
    pub sequence: u32,
    /// Bits 56 to 63.
    pub kind: BodyKind,
}

impl BodyTag {
    /// The bits of a tag that have the sequence number.
    pub const SEQUENCE_MASK: u64 = 0xffff_ffff;

    /// Returns the tag as a number.
    pub fn bits(self) -> u64 {
        let kind = match self.kind {
            BodyKind::Packed => 0,
            BodyKind::Addresses => 1_u64,
        };
        kind << 56 | u64::from(self.sequence)
    }

    /// Reads a tag.
    ///
    /// # Errors
    /// [`Malformed`](arrow_device::ErrorKind::Malformed): a reserved bit is set, or no body is of
    /// the kind.
    pub fn from_bits(bits: u64) -> Result<Self> {
        let kind = match (bits >> 56, bits >> 32 & 0xff_ffff) {
            (0, 0) => BodyKind::Packed,
            (1, 0) => BodyKind::Addresses,
            (kind, 0) => return Err(malformed(format!("no body is of the kind {kind}"))),
            _ => return Err(malformed(format!("the tag {bits:#018x} has reserved bits"))),
        };
        Ok(Self { sequence: (bits & Self::SEQUENCE_MASK) as u32, kind })
    }
}

/// What a message without a tag is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Untagged<'a> {
    /// 0: the stream ends. The number is the one that the next message would have.
    End(u32),
    /// 1: the header of a message of Arrow IPC.
    Metadata(u32, &'a [u8]),
}

/// The bytes before a header.
const PREFIX: usize = 5;

pub(crate) fn metadata(sequence: u32, header: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PREFIX + header.len());
    bytes.push(1);
    bytes.extend(sequence.to_le_bytes());
    bytes.extend(header);
    bytes
}

pub(crate) fn end(sequence: u32) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend(sequence.to_le_bytes());
    bytes
}

pub(crate) fn untagged(bytes: &[u8]) -> Result<Untagged<'_>> {
    let Some(([kind, number @ ..], header)) = bytes.split_first_chunk::<PREFIX>() else {
        let len = bytes.len();
        return Err(malformed(format!("a message without a tag has {len} bytes, and not 5")));
    };
    let sequence = u32::from_le_bytes(*number);
    match (kind, header.len()) {
        (0, 0) => Ok(Untagged::End(sequence)),
        (0, more) => Err(malformed(format!("the end of the stream has {more} bytes too many"))),
        (1, 0) => Err(malformed(format!("message {sequence} has no header"))),
        (1, _) => Ok(Untagged::Metadata(sequence, header)),
        (kind, _) => Err(malformed(format!("message {sequence} is of the unknown kind {kind}"))),
    }
}

/// Where the buffers of a body lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AddressList {
    /// The address and the length of each buffer, in the order of the header.
    pub(crate) buffers: Vec<(u64, u64)>,
}

impl AddressList {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16 * (self.buffers.len() + 1));
        let mut add = |one: u64, other: u64| {
            bytes.extend(one.to_le_bytes());
            bytes.extend(other.to_le_bytes());
        };
        add(self.total(), self.buffers.len() as u64);
        self.buffers.iter().for_each(|(address, len)| add(*address, *len));
        bytes
    }

    /// Returns how many bytes all buffers have.
    pub(crate) fn total(&self) -> u64 {
        self.buffers.iter().fold(0, |total: u64, (_, len)| total.saturating_add(*len))
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        let (pairs, rest) = bytes.as_chunks::<16>();
        let ([first, pairs @ ..], []) = (pairs, rest) else {
            let len = bytes.len();
            return Err(malformed(format!("a list of addresses has {len} bytes")));
        };
        let (total, count) = pair(first);
        if count != pairs.len() as u64 {
            let there = pairs.len();
            return Err(malformed(format!("{count} buffers are announced, and {there} came")));
        }
        let list = Self { buffers: pairs.iter().map(pair).collect() };
        let sum = list.buffers.iter().try_fold(0_u64, |sum, (_, len)| sum.checked_add(*len));
        if sum != Some(total) {
            return Err(malformed(format!("the buffers of a list do not have {total} bytes")));
        }
        Ok(list)
    }
}

fn pair(bytes: &[u8; 16]) -> (u64, u64) {
    let both = u128::from_le_bytes(*bytes);
    (both as u64, (both >> 64) as u64)
}

/// The most addresses in one message that frees them. Linux queues a message of this length on a
/// Unix socket whole or not at all, also where the socket has the smallest buffer that there is: an
/// array that is dropped waits for nobody, and half a message would end the connection.
pub(crate) const MOST_FREED: usize = 256;

pub(crate) fn freed(addresses: &[u64]) -> Vec<u8> {
    addresses.iter().flat_map(|address| address.to_le_bytes()).collect()
}

pub(crate) fn read_freed(bytes: &[u8]) -> Result<impl Iterator<Item = u64>> {
    let (addresses, rest) = bytes.as_chunks::<8>();
    if addresses.is_empty() || !rest.is_empty() {
        let len = bytes.len();
        return Err(malformed(format!("a message that frees addresses has {len} bytes")));
    }
    Ok(addresses.iter().map(|address| u64::from_le_bytes(*address)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_specification() {
        assert_eq!(metadata(0x0102_0304, b"h"), [1, 4, 3, 2, 1, b'h']);
        assert_eq!(end(2), [0, 2, 0, 0, 0]);
        let list = AddressList { buffers: vec![(0x1000, 3), (0, 0)] };
        let mut expected = vec![0_u8; 48];
        (expected[0], expected[8], expected[17], expected[24]) = (3, 2, 0x10, 3);
        assert_eq!(list.to_bytes(), expected);
        assert_eq!(freed(&[1, 256]), [1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn what_is_written_is_read_again() {
        assert_eq!(untagged(&metadata(9, b"head")).unwrap(), Untagged::Metadata(9, b"head"));
        assert_eq!(untagged(&end(u32::MAX)).unwrap(), Untagged::End(u32::MAX));
        let list = AddressList { buffers: vec![(4096, 64), (0, 0), (8192, 1)] };
        assert_eq!(AddressList::read(&list.to_bytes()).unwrap(), list);
        let addresses = [3, u64::MAX];
        assert_eq!(read_freed(&freed(&addresses)).unwrap().collect::<Vec<_>>(), addresses);
    }

    #[test]
    fn what_breaks_the_layout_is_refused() {
        for bytes in [&b""[..], &[1, 0, 0, 0], &[1, 0, 0, 0, 0], &[0, 0, 0, 0, 0, 0], &[2; 9]] {
            assert!(untagged(bytes).is_err(), "{bytes:?}");
        }
        let list = AddressList { buffers: vec![(4096, 64)] }.to_bytes();
        assert!(AddressList::read(&list[..31]).is_err());
        assert!(AddressList::read(&list[..16]).is_err());
        assert!(AddressList::read(&[]).is_err());
        for at in [0, 8, 24] {
            let mut wrong = list.clone();
            wrong[at] += 1;
            assert!(AddressList::read(&wrong).is_err(), "{at}");
        }
        let two = AddressList { buffers: vec![(0, u64::MAX), (0, 2)] };
        assert!(AddressList::read(&two.to_bytes()).is_err(), "the sum overflows");
        assert!(read_freed(&[]).is_err() && read_freed(&[0; 12]).is_err());
    }

    #[test]
    fn tags_have_the_sequence_below_and_the_kind_above() {
        for kind in [BodyKind::Packed, BodyKind::Addresses] {
            for sequence in [0, 1, u32::MAX] {
                let tag = BodyTag { sequence, kind };
                assert_eq!(BodyTag::from_bits(tag.bits()).unwrap(), tag);
            }
        }
        for bit in 32..56 {
            assert!(BodyTag::from_bits(1 << bit).is_err(), "{bit}");
        }
        assert!(BodyTag::from_bits(2 << 56).is_err());
    }
}
