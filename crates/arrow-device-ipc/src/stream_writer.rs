//! [`Encoder`]: makes messages from batches. [`StreamWriter`]: the stream format.
//!
//! 1. A batch that the host cannot read is copied to the host if its live bytes fit into
//!    [`WriteOptions::staging`]. Otherwise it stays on its device, and is read in windows.
//! 2. Dictionaries are compared with what was written of them. One that is new or has changed gets
//!    a message, with all of its values or with those that were added.
//! 3. The columns are taken apart into pieces ([`Pieces`]), whose lengths give the places of the
//!    buffers for the header. Only where buffers are compressed are the bytes needed for that.
//! 4. The bytes of the pieces are read and written when the body of the message is written.
//!
//! What must stay true: the encoder notes dictionaries as written only once all messages of a batch
//! are made, because after an error the caller gets none of them.

use std::collections::HashMap;
use std::fmt;
use std::io::Write;
use std::sync::Arc;

use arrow_device::copy::{self, BufferReader};
use arrow_device::{Array, Batch, ErrorKind, Metadata, Queue, Result, Schema};
use arrow_ipc as fb;
use flatbuffers::FlatBufferBuilder;

use crate::apart::{BufferApart, MessageApart, Parts, PartsReader};
use crate::encode::Pieces;
use crate::options::{Compression, WriteOptions};
use crate::output::Output;
use crate::pieces::{Piece, write_pieces};
use crate::problem::refused;
use crate::schema_to;
use crate::shape::{Shape, ShapeKind};
use crate::source::{Node, Staged};

/// Makes messages from batches for a protocol that carries them by itself, such as Flight.
///
/// See [`Decoder`](crate::Decoder) for an example.
pub struct Encoder {
    columns: Vec<Shape>,
    schema: Schema,
    options: WriteOptions,
    /// The values that were written of each dictionary.
    written: HashMap<i64, Array>,
    /// Whether a dictionary may be replaced by other values.
    replaces: bool,
    /// Whether the dictionaries were written apart. Then they may lie on a device.
    wrote_apart: bool,
}

/// A message that was made and not yet sent. It keeps the arrays whose bytes it will write, on
/// whatever device they lie.
pub struct EncodedMessage {
    header: Vec<u8>,
    pieces: Vec<Piece>,
    alignment: u64,
    body_len: u64,
    is_dictionary: bool,
}

/// The dictionaries that have to be written before a batch: their messages, and all values by the
/// number of the dictionary. Each dictionary has one place in a schema, and so comes once.
#[derive(Default)]
struct NewDictionaries {
    messages: Vec<EncodedMessage>,
    values: Vec<(i64, Array)>,
}

/// The content of a message besides its pieces.
enum Content<'a> {
    Batch(&'a Metadata),
    Dictionary { id: i64, is_delta: bool },
}

impl Encoder {
    /// Returns an encoder for batches of this schema.
    ///
    /// # Errors
    /// * [`Unsupported`](ErrorKind::Unsupported): IPC has no place for something of the schema,
    ///   which is a dictionary of a dictionary, or metadata that is not text.
    /// * [`LimitExceeded`](ErrorKind::LimitExceeded): the schema has more than 1,048,576 fields,
    ///   where each field counts once for itself and once for each field around it.
    pub fn new(schema: &Schema, options: WriteOptions) -> Result<Self> {
        let columns = Shape::of_columns(schema.columns())?;
        let (schema, written) = (schema.clone(), HashMap::new());
        let encoder =
            Self { columns, schema, options, written, replaces: true, wrote_apart: false };
        encoder.schema_message()?;
        Ok(encoder)
    }

    /// Returns an encoder for a file, which has one dictionary for a column. That dictionary can
    /// only grow.
    pub(crate) fn for_file(schema: &Schema, options: WriteOptions) -> Result<Self> {
        Ok(Self { replaces: false, ..Self::new(schema, options.deltas(true))? })
    }

    /// Returns the header of the first message, which has no body.
    pub fn schema_message(&self) -> Result<Vec<u8>> {
        let mut builder = FlatBufferBuilder::new();
        let schema = self.write_schema(&mut builder)?;
        let args = fb::MessageArgs {
            version: fb::MetadataVersion::V5,
            header_type: fb::MessageHeader::Schema,
            header: Some(schema.as_union_value()),
            bodyLength: 0,
            custom_metadata: None,
        };
        let message = fb::Message::create(&mut builder, &args);
        builder.finish(message, None);
        Ok(builder.finished_data().to_vec())
    }

    pub(crate) fn write_schema<'a>(
        &self,
        builder: &mut FlatBufferBuilder<'a>,
    ) -> Result<flatbuffers::WIPOffset<fb::Schema<'a>>> {
        schema_to::schema(builder, &self.columns, self.schema.metadata())
    }

    /// Returns the messages of a batch: dictionaries that are new or have changed, then the batch.
    ///
    /// From a batch that the host cannot read, only live elements are copied. A batch that fits
    /// into [`WriteOptions::staging`] is copied to the host at once. A larger batch stays on its
    /// device: this call reads the few numbers that a header needs, and the bytes are read when a
    /// body is written, through no more host memory than `staging` allows. Two things are always in
    /// host memory as a whole: dictionaries, which are compared with those of later batches, and
    /// compressed buffers, because a header contains their length. This call waits for the device
    /// that it reads from.
    ///
    /// # Errors
    /// * [`SchemaMismatch`](ErrorKind::SchemaMismatch): the batch is of another type.
    /// * [`InvalidData`](ErrorKind::InvalidData): offsets lead outside of a buffer or a child.
    pub fn encode(&mut self, batch: &Batch) -> Result<Vec<EncodedMessage>> {
        self.encode_with_metadata(batch, &Metadata::EMPTY)
    }

    /// [`encode`](Self::encode) with custom metadata for the message of the batch.
    pub fn encode_with_metadata(
        &mut self,
        batch: &Batch,
        metadata: &Metadata,
    ) -> Result<Vec<EncodedMessage>> {
        self.begin(batch, false)?;
        let columns = self.nodes(batch)?;
        let mut new = NewDictionaries::default();
        for (shape, column) in self.columns.iter().zip(&columns) {
            self.write_dictionaries(shape, column, &mut new)?;
        }
        let mut pieces = Pieces::new(self.options.cuts_views);
        columns.iter().try_for_each(|column| pieces.add(column))?;
        let rows = batch.row_count();
        let NewDictionaries { mut messages, values } = new;
        messages.push(self.message(pieces, rows, &Content::Batch(metadata))?);
        // Not noted before all messages are made: after an error the caller gets none of them.
        self.written.extend(values);
        Ok(messages)
    }

    /// Returns the messages of a batch, as [`encode`](Self::encode) does, but with the buffers
    /// where they lie: for a protocol that moves them by itself. No byte of a buffer is copied.
    ///
    /// Where nobody knows how many elements of an array are null, its bitmap is read. Dictionaries
    /// are written whole, and again where the array of their values is another one than before.
    /// [`WriteOptions::compression`] does not apply.
    ///
    /// # Errors
    /// Those of [`encode`](Self::encode), and [`Unsupported`](ErrorKind::Unsupported) where an
    /// array does not begin with the first element of its buffers, as a slice does not. A
    /// [copy](Batch::copy_to) does.
    pub fn encode_apart(&mut self, batch: &Batch) -> Result<Vec<MessageApart>> {
        self.begin(batch, true)?;
        let reader = BufferReader::new(batch.as_array())?;
        let walk = PartsReader { reader: &reader, window: self.options.staging / 2 };
        let (mut messages, mut new) = (Vec::new(), Vec::new());
        let columns = batch.columns()?;
        for (shape, column) in self.columns.iter().zip(&columns) {
            self.write_dictionaries_apart(shape, column, walk, &mut messages, &mut new)?;
        }
        let mut parts = Parts::default();
        columns.iter().try_for_each(|column| parts.add(column, walk))?;
        let content = Content::Batch(&Metadata::EMPTY);
        messages.push(self.message_apart(parts, batch.row_count(), &content)?);
        self.written.extend(new);
        Ok(messages)
    }

    /// Checks the type of a batch. Forgets which dictionaries were written, where they were written
    /// in the other way: a reader then has them in other memory.
    fn begin(&mut self, batch: &Batch, apart: bool) -> Result<()> {
        let (expected, given) = (self.schema.data_type(), batch.as_array().data_type());
        if !expected.equals_ignoring_metadata(given) {
            let [given, expected] = given.told_apart(expected);
            let message = format!("a batch of {given}, and the schema is {expected}");
            return Err(refused(ErrorKind::SchemaMismatch, message));
        }
        if std::mem::replace(&mut self.wrote_apart, apart) != apart {
            self.written.clear();
        }
        Ok(())
    }

    fn write_dictionaries_apart(
        &self,
        shape: &Shape,
        array: &Array,
        walk: PartsReader<'_>,
        messages: &mut Vec<MessageApart>,
        new: &mut Vec<(i64, Array)>,
    ) -> Result<()> {
        let (id, values) = match &shape.kind {
            ShapeKind::Plain(children) => {
                return children.iter().enumerate().try_for_each(|(index, child)| {
                    let array = array.child(index)?;
                    self.write_dictionaries_apart(child, &array, walk, messages, new)
                });
            }
            ShapeKind::Dictionary { id, values } => (*id, values),
        };
        let Some(dictionary) = array.dictionary() else {
            return Err(refused(ErrorKind::SchemaMismatch, "the dictionary is missing"));
        };
        if self.written.get(&id).is_some_and(|before| before.is_same(&dictionary)) {
            return Ok(());
        }
        self.write_dictionaries_apart(values, &dictionary, walk, messages, new)?;
        let mut parts = Parts::default();
        parts.add(&dictionary, walk)?;
        let content = Content::Dictionary { id, is_delta: false };
        messages.push(self.message_apart(parts, dictionary.len(), &content)?);
        new.push((id, dictionary));
        Ok(())
    }

    fn message_apart(
        &self,
        parts: Parts,
        rows: usize,
        content: &Content<'_>,
    ) -> Result<MessageApart> {
        let Parts { nodes, buffers, variadic_counts } = parts;
        let lens = buffers.iter().map(|buffer| buffer.as_ref().map_or(0, BufferApart::len));
        let (header, _) = self.header((nodes, lens, &variadic_counts), None, rows, content)?;
        let is_dictionary = matches!(content, Content::Dictionary { .. });
        Ok(MessageApart::new(header, buffers, is_dictionary))
    }

    /// Returns the columns, each with the way in which its bytes are read.
    fn nodes(&self, batch: &Batch) -> Result<Vec<Node>> {
        match batch.as_array().host() {
            Ok(rows) => return Node::Host(rows).columns(),
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            Err(error) => return Err(error),
        }
        let plan = batch.plan_copy(&Queue::host(), &copy::Options::new())?;
        if plan.bytes() <= self.options.staging {
            return Node::Host(plan.run()?.host()?).columns();
        }
        drop(plan);
        let reader = BufferReader::new(batch.as_array())?;
        let reader = Arc::new(Staged { reader, window: self.options.staging / 2 });
        Node::Device { array: batch.as_array().clone(), reader }.columns()
    }

    /// Makes the messages of the dictionaries of a column and of all that is below it. Returns
    /// whether one of them was written whole, and not only extended.
    fn write_dictionaries(
        &self,
        shape: &Shape,
        array: &Node,
        new: &mut NewDictionaries,
    ) -> Result<bool> {
        let (id, values) = match &shape.kind {
            ShapeKind::Plain(children) => {
                let mut has_changed = false;
                for (index, child) in children.iter().enumerate() {
                    has_changed |= self.write_dictionaries(child, &array.child(index)?, new)?;
                }
                return Ok(has_changed);
            }
            ShapeKind::Dictionary { id, values } => (*id, values),
        };
        let Some(dictionary) = array.dictionary() else {
            return Err(refused(ErrorKind::SchemaMismatch, "the dictionary is missing"));
        };
        if self.written.get(&id).is_some_and(|before| before.is_same(&dictionary)) {
            return Ok(false);
        }
        let values_of = |array: &Array| match array.host() {
            Err(error) if error.kind() == ErrorKind::Unsupported => array.to_host()?.host(),
            other => other,
        };
        let here = values_of(&dictionary)?;
        // The values may point into dictionaries of their own, whose messages come first.
        let has_changed = self.write_dictionaries(values, &Node::Host(here.clone()), new)?;
        let before = self.written.get(&id);
        let mut start = 0;
        if let (Some(before), false) = (before, has_changed) {
            let (old, new) = (before.len(), here.len());
            if old <= new && here.array().slice(0, old)?.equals(before)? {
                start = old;
            }
            if start > 0 && start == new {
                return Ok(false);
            }
        }
        let is_delta = start > 0 && self.options.writes_deltas;
        if before.is_some() && !is_delta && !self.replaces {
            let message = "a dictionary has changed, and a file has one for each column, which only grows; write a stream";
            return Err(refused(ErrorKind::Unsupported, message));
        }
        let part = if is_delta { here.slice(start, here.len() - start)? } else { here.clone() };
        let mut pieces = Pieces::new(self.options.cuts_views);
        pieces.add(&Node::Host(part.clone()))?;
        let content = Content::Dictionary { id, is_delta };
        new.messages.push(self.message(pieces, part.len(), &content)?);
        new.values.push((id, here.array().clone()));
        Ok(!is_delta)
    }

    fn message(
        &self,
        pieces: Pieces,
        rows: usize,
        content: &Content<'_>,
    ) -> Result<EncodedMessage> {
        let Pieces { nodes, mut buffers, variadic_counts, .. } = pieces;
        if let Some(compression) = self.options.compression {
            for piece in &mut buffers {
                if piece.len() > 0 {
                    *piece = Piece::Own(piece.packed(compression)?);
                }
            }
        }
        let described = (nodes, buffers.iter().map(Piece::len), &*variadic_counts);
        let (header, body_len) = self.header(described, self.options.compression, rows, content)?;
        Ok(EncodedMessage {
            header,
            pieces: buffers,
            alignment: self.options.alignment,
            body_len,
            is_dictionary: matches!(content, Content::Dictionary { .. }),
        })
    }

    /// Returns a header with these nodes, lengths of buffers and counts of data buffers, and the
    /// length of the body in which the buffers lie one behind the other.
    fn header(
        &self,
        (nodes, lens, variadic_counts): (
            Vec<(i64, i64)>,
            impl ExactSizeIterator<Item = u64>,
            &[i64],
        ),
        compression: Option<Compression>,
        rows: usize,
        content: &Content<'_>,
    ) -> Result<(Vec<u8>, u64)> {
        let alignment = self.options.alignment;
        let mut places = Vec::with_capacity(lens.len());
        let mut body_len = 0_u64;
        for len in lens {
            places.push(fb::Buffer::new(body_len as i64, len as i64));
            body_len += len.next_multiple_of(alignment);
        }
        // A node or a buffer has 16 bytes in a header, and what else is there has some hundred.
        let room = 512 + 16 * (nodes.len() + places.len());
        let mut builder = FlatBufferBuilder::with_capacity(room);
        let nodes: Vec<fb::FieldNode> =
            nodes.into_iter().map(|(len, nulls)| fb::FieldNode::new(len, nulls)).collect();
        let (nodes, places) = (builder.create_vector(&nodes), builder.create_vector(&places));
        let counts = (!variadic_counts.is_empty()).then(|| builder.create_vector(variadic_counts));
        let compression = compression.map(|compression| {
            let args = fb::BodyCompressionArgs {
                codec: Compression::number(compression),
                method: fb::BodyCompressionMethod::BUFFER,
            };
            fb::BodyCompression::create(&mut builder, &args)
        });
        let args = fb::RecordBatchArgs {
            length: rows as i64,
            nodes: Some(nodes),
            buffers: Some(places),
            compression,
            variadicBufferCounts: counts,
        };
        let batch = fb::RecordBatch::create(&mut builder, &args);
        let (header_type, header, custom_metadata) = match content {
            Content::Batch(metadata) => {
                let pairs = schema_to::pairs(&mut builder, metadata)?;
                (fb::MessageHeader::RecordBatch, batch.as_union_value(), pairs)
            }
            Content::Dictionary { id, is_delta } => {
                let args =
                    fb::DictionaryBatchArgs { id: *id, data: Some(batch), isDelta: *is_delta };
                let dictionary = fb::DictionaryBatch::create(&mut builder, &args);
                (fb::MessageHeader::DictionaryBatch, dictionary.as_union_value(), None)
            }
        };
        let args = fb::MessageArgs {
            version: fb::MetadataVersion::V5,
            header_type,
            header: Some(header),
            bodyLength: body_len as i64,
            custom_metadata,
        };
        let message = fb::Message::create(&mut builder, &args);
        builder.finish(message, None);
        Ok((builder.finished_data().to_vec(), body_len))
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Encoder({})", self.schema)
    }
}

impl EncodedMessage {
    /// Returns the header in the form in which the reader verifies it.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// Returns how many bytes the body has.
    pub fn body_len(&self) -> u64 {
        self.body_len
    }

    /// Whether the message has values of a dictionary, and not a batch.
    pub fn is_dictionary(&self) -> bool {
        self.is_dictionary
    }

    /// Writes the body, buffer by buffer, from where the buffers lie. Bytes on a device pass
    /// through as much host memory as [`WriteOptions::staging`] allows.
    pub fn write_body(&self, to: &mut impl Write) -> Result<()> {
        write_pieces(&self.pieces, self.alignment, to)
    }

    /// Returns the body in one piece.
    pub fn body_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(usize::try_from(self.body_len).unwrap_or(0));
        self.write_body(&mut bytes)?;
        Ok(bytes)
    }
}

impl fmt::Debug for EncodedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncodedMessage({} + {} bytes)", self.header.len(), self.body_len)
    }
}

/// Writes the stream format.
///
/// ```
/// use arrow_device::{Array, Batch, DataType};
/// use arrow_device_ipc::{Compression, StreamWriter, WriteOptions};
///
/// let words = Array::from_texts(DataType::Utf8, [Some("words"), None])?;
/// let batch = Batch::from_columns([("w", words)])?;
/// let options = WriteOptions::new().compression(Some(Compression::Lz4));
/// let mut writer = StreamWriter::new(Vec::new(), &batch.schema()?, options)?;
/// writer.write(&batch)?;
/// let bytes = writer.finish()?;
/// assert!(bytes.ends_with(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]));
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[derive(Debug)]
pub struct StreamWriter<W: Write> {
    output: Output<W>,
    encoder: Encoder,
}

impl<W: Write> StreamWriter<W> {
    /// Writes the schema.
    pub fn new(output: W, schema: &Schema, options: WriteOptions) -> Result<Self> {
        let encoder = Encoder::new(schema, options)?;
        let mut output = Output::new(output, options.alignment);
        output.write_header(&encoder.schema_message()?)?;
        Ok(Self { output, encoder })
    }

    /// Writes a batch, on whatever device it lies. Waits for the bytes that come from a device.
    ///
    /// # Errors
    /// Those of [`Encoder::encode`], after which nothing of the batch was written. An error of the
    /// output, or of a device from which a large batch is written, breaks the stream: every later
    /// call is an error of the kind [`InvalidArgument`](ErrorKind::InvalidArgument).
    pub fn write(&mut self, batch: &Batch) -> Result<()> {
        self.write_with_metadata(batch, &Metadata::EMPTY)
    }

    /// [`write`](Self::write) with custom metadata for the message of the batch.
    pub fn write_with_metadata(&mut self, batch: &Batch, metadata: &Metadata) -> Result<()> {
        self.output.check()?;
        let messages = self.encoder.encode_with_metadata(batch, metadata)?;
        self.output.write_messages(messages, |_, _, _| {})
    }

    /// Writes the end of the stream, and returns the output.
    pub fn finish(mut self) -> Result<W> {
        self.output.check()?;
        self.output.write_end()?;
        self.output.finish()
    }
}
