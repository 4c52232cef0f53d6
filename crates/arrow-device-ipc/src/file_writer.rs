//! [`FileWriter`]: the file format, which is a stream between two marks, with a table of its
//! messages at the end.

use std::io::Write;

use arrow_device::{Batch, ErrorKind, Metadata, Result, Schema};
use arrow_ipc as fb;
use flatbuffers::FlatBufferBuilder;

use crate::options::WriteOptions;
use crate::output::Output;
use crate::problem::refused;
use crate::schema_to;
use crate::stream_writer::Encoder;

/// The mark that a file begins and ends with.
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
    output: Output<W>,
    encoder: Encoder,
    dictionaries: Vec<fb::Block>,
    batches: Vec<fb::Block>,
    metadata: Metadata,
}

impl<W: Write> FileWriter<W> {
    /// Writes the mark and the schema.
    pub fn new(output: W, schema: &Schema, options: WriteOptions) -> Result<Self> {
        let encoder = Encoder::for_file(schema, options)?;
        let mut output = Output::new(output, options.alignment);
        output.write_bytes(MAGIC)?;
        output.write_bytes(&[0; 2])?;
        output.write_header(&encoder.schema_message()?)?;
        Ok(Self {
            output,
            encoder,
            dictionaries: Vec::new(),
            batches: Vec::new(),
            metadata: Metadata::EMPTY,
        })
    }

    /// Sets the custom metadata of the file, which is not part of the schema.
    pub fn set_metadata(&mut self, metadata: Metadata) {
        self.metadata = metadata;
    }

    /// Writes a batch, on whatever device it lies. Waits for the bytes that come from a device.
    ///
    /// # Errors
    /// Those of [`StreamWriter::write`](crate::StreamWriter::write), and
    /// [`Unsupported`](ErrorKind::Unsupported) where a dictionary differs from the one before in
    /// more than added values: a file has one dictionary for each column.
    pub fn write(&mut self, batch: &Batch) -> Result<()> {
        self.write_with_metadata(batch, &Metadata::EMPTY)
    }

    /// [`write`](Self::write) with custom metadata for the message of the batch.
    pub fn write_with_metadata(&mut self, batch: &Batch, metadata: &Metadata) -> Result<()> {
        self.output.check()?;
        let messages = self.encoder.encode_with_metadata(batch, metadata)?;
        self.output.write_messages(messages, |message, start, header| {
            let header = i32::try_from(header).unwrap_or(i32::MAX);
            let block = fb::Block::new(start as i64, header, message.body_len() as i64);
            if message.is_dictionary() {
                self.dictionaries.push(block);
            } else {
                self.batches.push(block);
            }
        })
    }

    /// Writes the table of messages and the closing mark, and returns the output.
    pub fn finish(mut self) -> Result<W> {
        self.output.check()?;
        self.output.write_end()?;
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
        self.output.write_bytes(footer)?;
        self.output.write_bytes(&len.to_le_bytes())?;
        self.output.write_bytes(MAGIC)?;
        self.output.finish()
    }
}
