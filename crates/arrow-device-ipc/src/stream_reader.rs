//! [`StreamReader`]: the stream format.

use std::fmt;
use std::io::Read;

use arrow_device::{ArrayStream, Batch, Buffer, DeviceType, Metadata, Queue, Result, Schema};

use crate::decoder::{Decoded, Decoder};
use crate::framing::{HostMemory, Messages, MessagesInMemory, ReadMessages};
use crate::options::ReadOptions;
use crate::problem::malformed;

/// Reads the stream format: an iterator of batches.
///
/// The buffers of a batch lie in the body of its message, in host memory, and keep that body alive.
/// An error ends the stream.
///
/// ```no_run
/// use std::fs::File;
/// use std::io::BufReader;
///
/// use arrow_device::Queue;
/// use arrow_device_ipc::{ReadOptions, StreamReader};
///
/// let input = BufReader::new(File::open("taxi.arrows").map_err(arrow_device::Error::other)?);
/// let reader = StreamReader::new(input, ReadOptions::new().columns([0, 3]))?;
/// // For a copy to a GPU, name a queue of the GPU.
/// let queue = Queue::host();
/// for batch in reader.on(&queue).into_batches() {
///     println!("{} rows on {}", batch?.row_count(), queue.device().id());
/// }
/// # Ok::<(), arrow_device::Error>(())
/// ```
pub struct StreamReader {
    messages: Box<dyn Messages + Send>,
    decoder: Decoder,
    options: ReadOptions,
    schema: Schema,
    metadata: Metadata,
    is_at_end: bool,
}

impl StreamReader {
    /// Reads the schema. Each body is read into memory of its own.
    pub fn new(input: impl Read + Send + 'static, options: ReadOptions) -> Result<Self> {
        Self::of(Box::new(ReadMessages(input)), options)
    }

    /// Reads a stream that lies in host memory, for example a mapped file or a packet. Nothing is
    /// copied. The memory is kept as long as an array that uses it.
    ///
    /// Whoever maps a file promises that no process makes the file shorter as long as the buffer is
    /// used (UNS-17): reading bytes that the file has lost ends the process.
    pub fn in_memory(bytes: Buffer, options: ReadOptions) -> Result<Self> {
        Self::of(Box::new(MessagesInMemory { memory: HostMemory::new(bytes)?, at: 0 }), options)
    }

    fn of(mut messages: Box<dyn Messages + Send>, options: ReadOptions) -> Result<Self> {
        let mut decoder = Decoder::new(options.clone());
        let Some(first) = next_decoded(&mut *messages, &mut decoder, &options)? else {
            return Err(malformed("there is no schema: the stream is empty"));
        };
        let (Decoded::Schema, Some(schema)) = (first, decoder.schema().cloned()) else {
            return Err(malformed("a stream begins with its schema"));
        };
        let metadata = Metadata::EMPTY;
        Ok(Self { messages, decoder, options, schema, metadata, is_at_end: false })
    }

    /// Returns the schema of the batches.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the custom metadata of the latest batch's message.
    pub fn batch_metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the batches as a stream in host memory.
    pub fn into_stream(self) -> ArrayStream {
        ArrayStream::new(self.schema.clone(), DeviceType::CPU, self)
    }

    /// Returns the batches as a stream on the device of this queue. Each batch is copied when it is
    /// asked for, straight from the body, in one allocation and one submission.
    pub fn on(self, queue: &Queue) -> ArrayStream {
        let (schema, queue) = (self.schema.clone(), queue.clone());
        let device_type = queue.device().id().device_type;
        let batches = self.map(move |batch| batch?.copy_to(&queue));
        ArrayStream::new(schema, device_type, batches)
    }

    fn read(&mut self) -> Result<Option<Batch>> {
        loop {
            let next = next_decoded(&mut *self.messages, &mut self.decoder, &self.options)?;
            let Some(decoded) = next else { return Ok(None) };
            match decoded {
                Decoded::Batch { batch, metadata } => {
                    self.metadata = metadata;
                    return Ok(Some(batch));
                }
                Decoded::Schema | Decoded::Dictionary => {}
            }
        }
    }
}

/// Decodes the next message, `None` at the end.
fn next_decoded(
    messages: &mut dyn Messages,
    decoder: &mut Decoder,
    options: &ReadOptions,
) -> Result<Option<Decoded>> {
    let mut decoded = None;
    let next = messages.next(options, &mut |message, body| {
        decoded = Some(decoder.decode_verified(message, &body)?);
        Ok(())
    });
    next.map_err(|error| decoder.in_message(error))?;
    decoder.count_message();
    Ok(decoded)
}

impl Iterator for StreamReader {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        // Ended until the input has answered: an input that panics has read only a part of a
        // message.
        if std::mem::replace(&mut self.is_at_end, true) {
            return None;
        }
        let next = self.read().transpose();
        self.is_at_end = !matches!(next, Some(Ok(_)));
        next
    }
}

impl std::iter::FusedIterator for StreamReader {}

impl fmt::Debug for StreamReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamReader({})", self.schema)
    }
}
