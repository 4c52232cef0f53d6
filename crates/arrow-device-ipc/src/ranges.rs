//! [`Body`]: the body of a message, whole or only the parts that are needed.

use std::ops::Range;

use arrow_device::{Buffer, DeviceId, Error, Result};

use crate::problem::malformed;

/// Ranges whose distance is at most this many bytes are read together.
const GAP: u64 = 64 << 10;

/// The body of a message.
pub(crate) enum Body {
    Whole(Buffer),
    /// Parts of a body of `len` bytes, each with the place where it begins, in order.
    Parts {
        len: u64,
        parts: Vec<(u64, Buffer)>,
    },
    /// Each buffer by itself, in the order in which the header lists them, in memory of one device.
    Apart {
        buffers: Vec<Option<Buffer>>,
        device: DeviceId,
    },
}

impl Body {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Whole(buffer) => buffer.extent().at_least(),
            Self::Parts { len, .. } => *len,
            // The places in the header lead nowhere: each buffer is held against its own length.
            Self::Apart { .. } => u64::MAX,
        }
    }

    /// Returns how many bytes stay in memory as long as an array of this body is there.
    pub(crate) fn kept_bytes(&self) -> u64 {
        match self {
            Self::Whole(_) | Self::Parts { .. } => self.len(),
            Self::Apart { buffers, .. } => {
                let lengths = buffers.iter().flatten().map(|buffer| buffer.extent().at_least());
                lengths.fold(0, u64::saturating_add)
            }
        }
    }

    /// Returns the device that has the buffers, where that need not be the host.
    pub(crate) fn device(&self) -> Option<DeviceId> {
        match self {
            Self::Apart { device, .. } => Some(*device),
            Self::Whole(_) | Self::Parts { .. } => None,
        }
    }

    /// Returns the bytes of the buffer of this number without copying them. The header says where
    /// they lie.
    pub(crate) fn part(&self, number: usize, offset: u64, len: u64) -> Result<Buffer> {
        if let Self::Apart { buffers, .. } = self {
            let buffer = buffers.get(number).and_then(Option::as_ref);
            let there = buffer.map_or(0, |buffer| buffer.extent().at_least());
            let buffer = buffer.filter(|_| len <= there).ok_or_else(|| {
                malformed(format!("the header says {len} bytes, and {there} came"))
            })?;
            return buffer.slice(0, len);
        }
        let end = offset.checked_add(len).filter(|end| *end <= self.len());
        let outside = || outside(offset, len, self.len());
        let end = end.ok_or_else(outside)?;
        match self {
            Self::Whole(buffer) => buffer.slice(offset, len),
            Self::Parts { parts, .. } => {
                let after = parts.partition_point(|(start, _)| *start <= offset);
                let part = after.checked_sub(1).and_then(|index| parts.get(index));
                let (start, buffer) = part.ok_or_else(outside)?;
                if end - start > buffer.extent().at_least() {
                    return Err(outside());
                }
                buffer.slice(offset - start, len)
            }
            Self::Apart { .. } => Err(outside()),
        }
    }
}

/// The error for bytes that are not all in a body.
#[cold]
pub(crate) fn outside(offset: u64, len: u64, body: u64) -> Error {
    malformed(format!("{len} bytes from byte {offset} on, in a body of {body} bytes"))
}

/// Sorts ranges, and joins those that are near each other.
pub(crate) fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(GAP) => {
                last.end = last.end.max(range.end);
            }
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_where_they_are_near_and_found_in_their_parts() {
        let far = 10 * GAP;
        let ranges = joined(vec![far..far + 8, 8..16, 3..3, 0..4, 12..20]);
        assert_eq!(ranges, [0..20, far..far + 8]);
        let parts = ranges.iter().map(|range| {
            let bytes: Vec<u8> = (range.start..range.end).map(|byte| byte as u8).collect();
            (range.start, Buffer::from(bytes))
        });
        let body = Body::Parts { len: far + 8, parts: parts.collect() };
        assert_eq!(body.part(0, far + 2, 6).unwrap().extent().at_least(), 6);
        assert!(body.part(0, 16, 8).is_err() && body.part(0, far - 1, 2).is_err());
        assert!(body.part(0, far + 4, 5).is_err() && body.part(0, u64::MAX, 2).is_err());
    }
}
