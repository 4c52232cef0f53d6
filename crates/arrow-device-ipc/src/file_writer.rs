//! [`FileWriter`]: the file format, a stream between two marks with a table of its messages.

use std::io::Write;

use arrow_device::{Batch, ErrorKind, Metadata, Result, Schema};
use arrow_ipc as fb;
use flatbuffers::FlatBufferBuilder;

use crate::options::WriteOptions;
use crate::problem::{not_written, refused};
use crate::schema_to;
use crate::stream_writer::{Encoder, check_output, write_end, write_header};

/// What a file begins and ends with.
pub(crate) const MAGIC: &[u8; 6] = b"ARROW1";

/// Writes the file format.
///
/// ```
/// use arrow_device::{Array, Batch, Buffer, DataType};
/// use arrow_device_ipc::{FileReader, FileWriter, ReadOptions, WriteOptions};
///
/// let numbers = Array::from_values(DataType::Int64, (0..10_i64).map(Some))?;
/// let batch = Batch::from_columns([("n", numbers)])?;
/// let mut writer = FileWriter::new(Vec::new(), &batch.schema()?, WriteOptions::new())?;
/// writer.write(&batch)?;
/// writer.write(&batch.slice(2, 3)?)?;
/// let bytes = writer.finish()?;
///
/// let file = FileReader::in_memory(Buffer::from(bytes), ReadOptions::new())?;
/// assert_eq!(file.batch_count(), 2);
/// assert!(file.batch(1)?.as_array().equals(batch.slice(2, 3)?.as_array())?);
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[derive(Debug)]
pub struct FileWriter<W: Write> {
    output: W,
    encoder: Encoder,
    alignment: u64,
    at: u64,
    /// Whether the output failed in the middle of a message.
    is_broken: bool,
    dictionaries: Vec<fb::Block>,
    batches: Vec<fb::Block>,
    metadata: Metadata,
}

impl<W: Write> FileWriter<W> {
    /// Writes the beginning and the schema.
    pub fn new(mut output: W, schema: &Schema, options: WriteOptions) -> Result<Self> {
        let encoder = Encoder::for_file(schema, options)?;
        output.write_all(MAGIC).map_err(not_written)?;
        output.write_all(&[0; 2]).map_err(not_written)?;
        let alignment = options.alignment;
        let at = 8 + write_header(&mut output, 8, &encoder.schema_message()?, alignment)?;
        Ok(Self {
            output,
            encoder,
            alignment,
            at,
            is_broken: false,
            dictionaries: Vec::new(),
            batches: Vec::new(),
            metadata: Metadata::EMPTY,
        })
    }

    /// What the file says of itself, besides the schema.
    pub fn set_metadata(&mut self, metadata: Metadata) {
        self.metadata = metadata;
    }

    /// Writes a batch, wherever it lies.
    ///
    /// # Errors
    /// As of [`StreamWriter::write`](crate::StreamWriter::write), and
    /// [`Unsupported`](ErrorKind::Unsupported) where a dictionary is another one than before and
    /// not only longer: a file has one for each column.
    pub fn write(&mut self, batch: &Batch) -> Result<()> {
        self.write_with_metadata(batch, &Metadata::EMPTY)
    }

    /// [`write`](Self::write), and what the message of the batch says besides.
    pub fn write_with_metadata(&mut self, batch: &Batch, metadata: &Metadata) -> Result<()> {
        check_output(self.is_broken)?;
        let messages = self.encoder.encode_with_metadata(batch, metadata)?;
        // Until all is written: an output may fail, or panic.
        self.is_broken = true;
        for message in messages {
            let start = self.at;
            let len = write_header(&mut self.output, start, message.header(), self.alignment)?;
            message.write_body(&mut self.output)?;
            self.at += len + message.body_len();
            let header = i32::try_from(len).unwrap_or(i32::MAX);
            let block = fb::Block::new(start as i64, header, message.body_len() as i64);
            if message.is_dictionary() {
                self.dictionaries.push(block);
            } else {
                self.batches.push(block);
            }
        }
        self.is_broken = false;
        Ok(())
    }

    /// Writes the table of messages and the end, and gives the output back.
    pub fn finish(mut self) -> Result<W> {
        check_output(self.is_broken)?;
        write_end(&mut self.output)?;
        let mut builder = FlatBufferBuilder::new();
        let schema = self.encoder.write_schema(&mut builder)?;
        let dictionaries = builder.create_vector(&self.dictionaries);
        let batches = builder.create_vector(&self.batches);
        let custom_metadata = schema_to::pairs(&mut builder, &self.metadata)?;
        let args = fb::FooterArgs {
            version: fb::MetadataVersion::V5,
            schema: Some(schema),
            dictionaries: Some(dictionaries),
            recordBatches: Some(batches),
            custom_metadata,
        };
        let footer = fb::Footer::create(&mut builder, &args);
        builder.finish(footer, None);
        let footer = builder.finished_data();
        let len = i32::try_from(footer.len()).map_err(|_| {
            refused(ErrorKind::LimitExceeded, "more batches than the table of a file has room for")
        })?;
        self.output.write_all(footer).map_err(not_written)?;
        self.output.write_all(&len.to_le_bytes()).map_err(not_written)?;
        self.output.write_all(MAGIC).map_err(not_written)?;
        self.output.flush().map_err(not_written)?;
        Ok(self.output)
    }
}
