//! Takes messages from a sequence of bytes.
//!
//! A message is four bytes that mark its beginning, four bytes with the length of its header, the
//! header, padding, and the body. A length of zero ends a stream, and so does the end of the input
//! before a message. Before version 0.15 a message began with the length, without a mark.
//!
//! Messages are read from a reader, where each body gets memory of its own, or found in memory,
//! where bodies stay in place. What must stay true: a header is verified before a number in it is
//! used, and memory is taken in steps as bytes arrive, so that a claimed length alone costs no more
//! than [`STEP`] bytes of memory.

use std::io::Read;

use arrow_device::{Array, Buffer, DataType, HostArray, Result};
use arrow_ipc as fb;

use crate::options::ReadOptions;
use crate::problem::{limited, malformed, no_memory, not_read, unsupported};
use crate::ranges::Body;

/// The mark that a message begins with.
pub(crate) const CONTINUATION: [u8; 4] = [0xff; 4];

/// The most bytes of memory that are taken at once because another party claims a length.
pub(crate) const STEP: u64 = 16 << 20;

/// What is done with a message: with its header, which was verified, and its body.
pub(crate) type Take<'a> = &'a mut dyn FnMut(&fb::Message<'_>, Body) -> Result<()>;

/// A source of the messages of a stream.
pub(crate) trait Messages {
    /// Gives the next message to `take`. Says whether there was one.
    fn next(&mut self, options: &ReadOptions, take: Take<'_>) -> Result<bool>;
}

/// The limits for verifying a header, or the table of a file, of `len` bytes. They allow for tables
/// that share what is below them, which the verifier looks at each time.
pub(crate) fn verifier_limits(len: usize) -> flatbuffers::VerifierOptions {
    flatbuffers::VerifierOptions {
        max_depth: 256,
        max_tables: 1 << 22,
        max_apparent_size: len.saturating_mul(4).max(1 << 28),
        ..flatbuffers::VerifierOptions::default()
    }
}

/// Verifies a header. No number in a header is used before.
pub(crate) fn verified(header: &[u8]) -> Result<fb::Message<'_>> {
    let message = fb::root_as_message_with_opts(&verifier_limits(header.len()), header)
        .map_err(|error| malformed(format!("the header of a message is broken: {error}")))?;
    match message.version() {
        fb::MetadataVersion::V4 | fb::MetadataVersion::V5 => Ok(message),
        other => {
            let number = i32::from(other.0) + 1;
            Err(unsupported(format!("version {number} of the format; 4 and 5 are known")))
        }
    }
}

/// Returns the length of the body that a header announces.
pub(crate) fn body_len(message: &fb::Message<'_>, options: &ReadOptions) -> Result<u64> {
    let len = message.bodyLength();
    let len = u64::try_from(len).map_err(|_| malformed(format!("a body of {len} bytes")))?;
    if len > options.max_message {
        let most = options.max_message;
        return Err(limited(format!("a body of {len} bytes, and {most} are allowed")));
    }
    Ok(len)
}

/// Says in words which buffer of a message is the first one that is missing, where its body ends
/// after `there` bytes. The words are put behind other words; they are empty where the message has
/// no buffers.
pub(crate) fn first_missing(message: &fb::Message<'_>, there: u64) -> String {
    let dictionary = message.header_as_dictionary_batch();
    let dictionary = dictionary.and_then(|dictionary| dictionary.data());
    let batch = message.header_as_record_batch().or(dictionary);
    let end_of = |buffer: &fb::Buffer| {
        let place = u64::try_from(buffer.offset()).ok().zip(u64::try_from(buffer.length()).ok());
        place.map_or(u64::MAX, |(start, len)| start.saturating_add(len))
    };
    let buffers = batch.and_then(|batch| batch.buffers()).into_iter().flatten();
    let missing =
        buffers.enumerate().find(|(_, buffer)| buffer.length() != 0 && end_of(buffer) > there);
    missing.map_or_else(String::new, |(number, buffer)| {
        let (offset, len) = (buffer.offset(), buffer.length());
        format!(": buffer {number} has {len} bytes from byte {offset} on")
    })
}

/// Returns the length of a header from the four bytes that contain it.
pub(crate) fn header_len(bytes: [u8; 4], options: &ReadOptions) -> Result<u64> {
    let len = i32::from_le_bytes(bytes);
    let len = u64::try_from(len).map_err(|_| malformed(format!("a header of {len} bytes")))?;
    if len > options.max_header {
        let most = options.max_header;
        return Err(limited(format!("a header of {len} bytes, and {most} are allowed")));
    }
    Ok(len)
}

/// Reads the length of the next header with `word`, which reads four bytes. `None` at the end of a
/// stream.
fn next_header(
    mut word: impl FnMut() -> Result<Option<[u8; 4]>>,
    options: &ReadOptions,
) -> Result<Option<u64>> {
    let Some(mut first) = word()? else { return Ok(None) };
    if first == CONTINUATION {
        let missing = || malformed("the input ends before the length of a header");
        first = word()?.ok_or_else(missing)?;
    }
    let len = header_len(first, options)?;
    Ok((len > 0).then_some(len))
}

/// Messages that are read one after the other. Each body gets memory of its own.
pub(crate) struct ReadMessages<R>(pub(crate) R);

impl<R: Read> ReadMessages<R> {
    /// Reads `len` bytes of `what`. Memory is taken as the bytes arrive. Where the input ends too
    /// early, `place` adds the place to the error.
    fn bytes(&mut self, len: u64, what: &str, place: impl Fn(u64) -> String) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < len {
            let there = bytes.len() as u64;
            // As many bytes as have arrived are believed to follow.
            let step = (len - there).min(STEP.max(there));
            let room = usize::try_from(step).map_err(|_| no_memory(len))?;
            bytes.try_reserve_exact(room).map_err(|_| no_memory(len))?;
            let read = self.0.by_ref().take(step).read_to_end(&mut bytes).map_err(not_read)?;
            if (read as u64) < step {
                let (there, place) = (bytes.len(), place(bytes.len() as u64));
                let message = format!("the input ends {there} bytes into {what} of {len} bytes");
                return Err(malformed(message + &place));
            }
        }
        Ok(bytes)
    }

    /// Reads four bytes, `None` at the end of the input.
    fn word(&mut self) -> Result<Option<[u8; 4]>> {
        let mut word = Vec::with_capacity(4);
        self.0.by_ref().take(4).read_to_end(&mut word).map_err(not_read)?;
        match *word {
            [] => Ok(None),
            [a, b, c, d] => Ok(Some([a, b, c, d])),
            _ => Err(malformed("the input ends in the middle of a length")),
        }
    }
}

impl<R: Read> Messages for ReadMessages<R> {
    fn next(&mut self, options: &ReadOptions, take: Take<'_>) -> Result<bool> {
        let Some(len) = next_header(|| self.word(), options)? else { return Ok(false) };
        let header = self.bytes(len, "a header", |_| String::new())?;
        let message = verified(&header)?;
        let body_len = body_len(&message, options)?;
        let body = self.bytes(body_len, "a body", |there| first_missing(&message, there))?;
        take(&message, Body::Whole(Buffer::from(body)))?;
        Ok(true)
    }
}

/// A buffer in host memory whose bytes can be looked at and sliced.
pub(crate) struct HostMemory {
    array: HostArray,
    buffer: Buffer,
}

impl HostMemory {
    pub(crate) fn new(buffer: Buffer) -> Result<Self> {
        let len = buffer.extent().at_least();
        let len = usize::try_from(len).map_err(|_| no_memory(len))?;
        let bytes = (len > 0).then(|| buffer.clone());
        let array = Array::builder(DataType::UInt8).len(len).device(buffer.device());
        let array = array.buffers([None, bytes]).finish_ready()?.host()?;
        Ok(Self { array, buffer })
    }

    pub(crate) fn len(&self) -> u64 {
        self.array.len() as u64
    }

    /// Calls `look` with some of the bytes.
    pub(crate) fn with<T>(
        &self,
        offset: u64,
        len: u64,
        look: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        let bytes = self.array.buffer(1)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = usize::try_from(offset.saturating_add(len)).unwrap_or(usize::MAX);
        Ok(bytes.get(start..end).map(look))
    }

    /// Returns a slice of the buffer.
    pub(crate) fn part(&self, offset: u64, len: u64) -> Result<Buffer> {
        self.buffer.slice(offset, len)
    }
}

/// Messages in memory, whose bodies stay where they are.
pub(crate) struct MessagesInMemory {
    pub(crate) memory: HostMemory,
    pub(crate) at: u64,
}

impl MessagesInMemory {
    fn word(&mut self) -> Result<Option<[u8; 4]>> {
        if self.at >= self.memory.len() {
            return Ok(None);
        }
        let word = self.memory.with(self.at, 4, |word| word.first_chunk().copied())?;
        let Some(Some(word)) = word else {
            return Err(malformed("the input ends in the middle of a length"));
        };
        self.at += 4;
        Ok(Some(word))
    }
}

impl Messages for MessagesInMemory {
    fn next(&mut self, options: &ReadOptions, take: Take<'_>) -> Result<bool> {
        let Some(len) = next_header(|| self.word(), options)? else { return Ok(false) };
        let header = self.memory.with(self.at, len, <[u8]>::to_vec)?;
        let Some(header) = header else {
            return Err(malformed(format!("the input ends within a header of {len} bytes")));
        };
        self.at += len;
        let message = verified(&header)?;
        let (body_len, there) = (body_len(&message, options)?, self.memory.len() - self.at);
        if body_len > there {
            let place = first_missing(&message, there);
            let message = format!("the input ends {there} bytes into a body of {body_len} bytes");
            return Err(malformed(message + &place));
        }
        let body = self.memory.part(self.at, body_len)?;
        self.at += body_len;
        take(&message, Body::Whole(body))?;
        Ok(true)
    }
}
