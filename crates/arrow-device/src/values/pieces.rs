//! Parts of arrays that are being built: bits, offsets and aligned bytes.

use crate::{Array, ArrayBuilder, Buffer, DataType, Error, ErrorKind, Plain, Result};

/// A bitmap that is being built.
#[derive(Debug, Default)]
pub(super) struct Bits {
    bytes: Vec<u8>,
    len: usize,
    zeros: usize,
}

impl Bits {
    pub(super) fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(bit) << (self.len % 8);
        }
        self.len += 1;
        self.zeros += usize::from(!bit);
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn into_buffer(self) -> Result<Buffer> {
        aligned(&self.bytes)
    }

    /// An array with these bits as its validity, and with these buffers behind the bitmap. The
    /// bitmap is left out if no element is null.
    pub(super) fn array(
        self,
        data_type: DataType,
        buffers: impl IntoIterator<Item = Buffer>,
    ) -> Result<ArrayBuilder> {
        let Self { bytes, len, zeros } = self;
        let bitmap = if zeros == 0 { None } else { Some(aligned(&bytes)?) };
        let buffers = buffers.into_iter().map(Some);
        let all = std::iter::once(bitmap).chain(buffers);
        Ok(Array::builder(data_type).len(len).null_count(zeros).buffers(all))
    }
}

impl Extend<bool> for Bits {
    fn extend<I: IntoIterator<Item = bool>>(&mut self, bits: I) {
        bits.into_iter().for_each(|bit| self.push(bit));
    }
}

/// Offsets, or the starts and sizes of list views, of 32 or 64 bits.
#[derive(Debug)]
pub(super) struct Offsets {
    bytes: Vec<u8>,
    wide: bool,
}

impl Offsets {
    pub(super) fn new(wide: bool) -> Self {
        Self { bytes: Vec::new(), wide }
    }

    pub(super) fn push(&mut self, offset: usize) -> Result<()> {
        if self.wide {
            let offset = i64::try_from(offset).map_err(|_| too_large(offset, 64))?;
            self.bytes.extend(offset.to_ne_bytes());
        } else {
            let offset = i32::try_from(offset).map_err(|_| too_large(offset, 32))?;
            self.bytes.extend(offset.to_ne_bytes());
        }
        Ok(())
    }

    pub(super) fn into_buffer(self) -> Result<Buffer> {
        aligned(&self.bytes)
    }
}

fn too_large(offset: usize, bits: u8) -> Error {
    let message =
        format!("an offset of {bits} bits cannot be {offset}; take a type with larger ones");
    Error::new(ErrorKind::LimitExceeded, message).during("build")
}

/// 64 bytes with the alignment that the Arrow format recommends.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

// SAFETY: 64 bytes in a type of size 64 leave no room for padding, and each pattern of bytes is a
// `[u8; 64]`.
unsafe impl Plain for Line {}

/// A buffer of these bytes, aligned and padded to 64 bytes.
pub(super) fn aligned(bytes: &[u8]) -> Result<Buffer> {
    let lines: Vec<Line> = bytes
        .chunks(64)
        .map(|chunk| {
            let mut line = Line([0; 64]);
            line.0.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            line
        })
        .collect();
    Buffer::from(lines).slice(0, bytes.len() as u64)
}

/// The error for an argument that does not fit.
pub(super) fn refused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message.into()).during("build")
}
