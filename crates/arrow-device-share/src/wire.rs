//! Numbers and texts of a message: little-endian, without padding.

use arrow_device::Result;

use crate::problem::malformed;

/// Appends to a message.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    /// The beginning of a node: three numbers and the count of its buffers. These bytes are
    /// appended at once, because there may be thousands of nodes; likewise those of
    /// [`place`](Self::place).
    pub(crate) fn node(&mut self, numbers: [i64; 3], buffers: u32) {
        let mut bytes = [0; 3 * 8 + 4];
        let (first, last) = bytes.split_at_mut(3 * 8);
        for (bytes, number) in first.as_chunks_mut().0.iter_mut().zip(numbers) {
            *bytes = number.to_le_bytes();
        }
        last.copy_from_slice(&buffers.to_le_bytes());
        self.0.extend_from_slice(&bytes);
    }

    /// Where a buffer lies: the number of the allocation, the place there and the length.
    pub(crate) fn place(&mut self, allocation: u32, [offset, len]: [u64; 2]) {
        let mut bytes = [0; 4 + 2 * 8];
        bytes[..4].copy_from_slice(&allocation.to_le_bytes());
        bytes[4..12].copy_from_slice(&offset.to_le_bytes());
        bytes[12..].copy_from_slice(&len.to_le_bytes());
        self.0.extend_from_slice(&bytes);
    }

    /// Bytes with their length before them, which fits: everything that is written comes from a
    /// schema, and a schema has less than 4 GiB of text.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.raw(bytes);
    }
}

/// Reads a message from its beginning to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// How many bytes are left.
    pub(crate) fn left(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn raw(&mut self, len: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.0.split_at_checked(len) else {
            let left = self.left();
            return Err(malformed(format!("{len} bytes are announced, and {left} are left")));
        };
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.raw(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// A number of elements. An array has no more elements than a `usize` can count.
    pub(crate) fn count(&mut self) -> Result<usize> {
        let value = self.i64()?;
        usize::try_from(value).map_err(|_| malformed(format!("{value} is no number of elements")))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.u32()?;
        self.raw(usize::try_from(len).unwrap_or(usize::MAX))
    }

    pub(crate) fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| malformed("a text is not UTF-8"))
    }

    /// The end of the message.
    pub(crate) fn finish(self) -> Result<()> {
        match self.left() {
            0 => Ok(()),
            left => Err(malformed(format!("a message has {left} bytes more than it says"))),
        }
    }
}
