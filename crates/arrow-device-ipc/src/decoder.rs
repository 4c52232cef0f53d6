//! [`Decoder`]: makes batches from messages, wherever the messages come from.

use std::ops::Range;

use arrow_device::{Array, Batch, Buffer, DeviceId, Error, ErrorKind, Metadata, Result, Schema};
use arrow_ipc as fb;

use crate::compression::Codec;
use crate::decode::{Bytes, Walk};
use crate::dictionaries::Dictionaries;
use crate::framing::{body_len, first_missing, verified};
use crate::options::ReadOptions;
use crate::problem::{in_what_came, malformed, unsupported, within};
use crate::ranges::Body;
use crate::schema_from;
use crate::shape::Shape;

/// Makes batches from the messages of a stream that another protocol carries, such as Flight.
///
/// The messages are given in the order in which they were written, each as its header and its body.
/// The first message has the schema. The body is host memory of any kind, at any address. The
/// arrays keep it.
///
/// ```
/// use arrow_device::{Array, Batch, Buffer, DataType};
/// use arrow_device_ipc::{Decoded, Decoder, Encoder, ReadOptions, WriteOptions};
///
/// let numbers = Array::from_values(DataType::Int64, [Some(1_i64), None])?;
/// let batch = Batch::from_columns([("n", numbers)])?;
/// let mut encoder = Encoder::new(&batch.schema()?, WriteOptions::new())?;
/// let mut decoder = Decoder::new(ReadOptions::new());
/// decoder.decode(&encoder.schema_message()?, Buffer::from(Vec::<u8>::new()))?;
/// for message in encoder.encode(&batch)? {
///     let body = Buffer::from(message.body_bytes()?);
///     if let Decoded::Batch { batch: again, .. } = decoder.decode(message.header(), body)? {
///         assert!(again.as_array().equals(batch.as_array())?);
///     }
/// }
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    options: ReadOptions,
    known: Option<Columns>,
    /// How many messages were given.
    count: u64,
    /// Whether values of a dictionary may be missing because their message was refused.
    is_broken: bool,
}

/// The content of a message.
#[derive(Debug)]
#[non_exhaustive]
pub enum Decoded {
    /// The schema, which [`Decoder::schema`] returns from now on.
    Schema,
    /// Values of a dictionary, for the batches that follow.
    Dictionary,
    /// A batch.
    Batch {
        /// The columns that were asked for.
        batch: Batch,
        /// The custom metadata of the message.
        metadata: Metadata,
    },
}

/// The columns of a stream.
#[derive(Debug)]
pub(crate) struct Columns {
    all: Vec<Shape>,
    /// The numbers of the columns that are asked for, `None` where all are.
    wanted: Option<Vec<usize>>,
    /// For each column, whether it is asked for.
    are_wanted: Vec<bool>,
    /// The schema of the batches that are returned.
    schema: Schema,
    dictionaries: Dictionaries,
    /// How many nodes the header of a batch has.
    node_count: usize,
}

impl Columns {
    pub(crate) fn of(schema: fb::Schema<'_>, options: &ReadOptions) -> Result<Self> {
        let (all, metadata) = schema_from::columns(schema)?;
        let wanted = options.columns.clone();
        let known = |number: &usize| {
            let missing = || {
                let message = format!("column {number} is asked for, and there are {}", all.len());
                Error::new(ErrorKind::InvalidArgument, message).during("read IPC")
            };
            all.get(*number).ok_or_else(missing)
        };
        let most = options.max_dictionaries;
        let (schema, dictionaries) = match &wanted {
            None => {
                (schema_from::batch_schema(&all, metadata)?, Dictionaries::of(&all, &all, most)?)
            }
            Some(wanted) => {
                let columns = wanted.iter().map(known).collect::<Result<Vec<_>>>()?;
                // The schema of the batches looks at the columns that are asked for.
                all.iter().try_for_each(|column| column.schema().map(drop))?;
                let schema = schema_from::batch_schema(columns.iter().copied(), metadata)?;
                (schema, Dictionaries::of(&all, columns, most)?)
            }
        };
        let mut are_wanted = vec![wanted.is_none(); all.len()];
        for number in wanted.iter().flatten() {
            if let Some(is_wanted) = are_wanted.get_mut(*number) {
                *is_wanted = true;
            }
        }
        let node_count = all.iter().map(Shape::node_count).sum();
        Ok(Self { all, wanted, are_wanted, schema, dictionaries, node_count })
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns where in the body the buffers lie that a batch of the asked columns needs. `None`
    /// where all of the body is needed.
    pub(crate) fn places(&self, message: &fb::Message<'_>) -> Result<Option<Vec<Range<u64>>>> {
        let (Some(batch), Some(_)) = (message.header_as_record_batch(), &self.wanted) else {
            return Ok(None);
        };
        let mut walk = Walk::new(batch, message.version())?;
        let mut places = Vec::new();
        for (column, is_wanted) in self.all.iter().zip(&self.are_wanted) {
            let mut places = is_wanted.then_some(&mut places);
            walk.skip(column, &mut places)?;
        }
        Ok(Some(places))
    }

    /// Puts together the dictionaries that came since the last call. Has to run before a batch is
    /// read.
    pub(crate) fn put_together(&mut self) -> Result<()> {
        self.dictionaries.put_together()
    }

    pub(crate) fn batch(
        &self,
        message: &fb::Message<'_>,
        body: &Body,
        options: &ReadOptions,
    ) -> Result<Batch> {
        let Some(batch) = message.header_as_record_batch() else {
            return Err(malformed("a record batch is not there"));
        };
        let rows = batch.length();
        let rows = usize::try_from(rows)
            .map_err(|_| malformed(format!("a record batch has {rows} rows")))?;
        let mut walk = Walk::new(batch, message.version())?;
        if let Body::Apart { buffers, .. } = body {
            walk.check_buffer_count(buffers.len())?;
        }
        let whole = match (Codec::of(batch)?, body) {
            (None, Body::Whole(body)) => self.of_one_body(&mut walk, rows, body),
            (codec, _) => {
                let bytes = Bytes::new(body, codec, options.max_unpacked, &self.dictionaries);
                self.of_several(&mut walk, rows, bytes)
            }
        };
        let whole = whole.map_err(|error| self.in_what_came(error, body, None))?;
        if options.validates {
            whole.validate()?;
        }
        Batch::try_from(whole)
    }

    /// An error of making an array of a message, a batch or dictionary `outer`: the message is
    /// wrong, or its caller mixes devices.
    #[cold]
    fn in_what_came(&self, error: Error, body: &Body, outer: Option<i64>) -> Error {
        let device = body.device().unwrap_or(DeviceId::CPU);
        match self.dictionaries.elsewhere(device, outer) {
            Some((id, other)) if error.kind() == ErrorKind::InvalidArgument => {
                let message =
                    format!("dictionary {id} lies on {other}, and what points into it on {device}");
                Error::new(ErrorKind::InvalidArgument, message).during("read IPC")
            }
            _ => in_what_came(error),
        }
    }

    /// Makes a batch whose buffers are parts of one body.
    fn of_one_body(&self, walk: &mut Walk<'_>, rows: usize, body: &Buffer) -> Result<Array> {
        // Before tables are made for all nodes.
        walk.check_node_count(self.node_count)?;
        let (len, dictionaries) = (body.extent().at_least(), &self.dictionaries);
        let mut builder = Array::builder_within(&self.schema, body.clone());
        builder.node(rows, 0, [None])?;
        let mut column = |walk: &mut Walk<'_>, shape| {
            let found = walk.nodes(shape, (len, dictionaries), &mut builder)?;
            check_rows(shape, found, rows)
        };
        let Some(wanted) = &self.wanted else {
            self.all.iter().try_for_each(|shape| column(walk, shape))?;
            walk.finish()?;
            return builder.finish_ready();
        };
        let mut begins = Vec::with_capacity(self.all.len());
        for shape in &self.all {
            begins.push(walk.stop());
            walk.skip(shape, &mut None)?;
        }
        walk.finish()?;
        for number in wanted {
            if let (Some(shape), Some(begin)) = (self.all.get(*number), begins.get(*number)) {
                walk.go_to(*begin);
                column(walk, shape)?;
            }
        }
        builder.finish_ready()
    }

    /// Makes a batch of columns that are arrays of their own.
    fn of_several(&self, walk: &mut Walk<'_>, rows: usize, mut bytes: Bytes<'_>) -> Result<Array> {
        let device = bytes.body.device();
        let mut columns = Vec::with_capacity(self.all.len());
        for (shape, is_wanted) in self.all.iter().zip(&self.are_wanted) {
            if *is_wanted {
                let column = walk.array(shape, &mut bytes)?;
                check_rows(shape, column.len(), rows)?;
                columns.push(Some(column));
            } else {
                walk.skip(shape, &mut None)?;
                columns.push(None);
            }
        }
        walk.finish()?;
        let columns = match &self.wanted {
            None => columns.into_iter().flatten().collect(),
            Some(wanted) => wanted
                .iter()
                .filter_map(|number| columns.get(*number).cloned().flatten())
                .collect::<Vec<_>>(),
        };
        let mut whole = Array::builder(&self.schema).len(rows).buffers([None]);
        if let Some(device) = device {
            whole = whole.device(device);
        }
        whole.children(columns).finish_ready()
    }

    pub(crate) fn take_dictionary(
        &mut self,
        message: &fb::Message<'_>,
        body: &Body,
        options: &ReadOptions,
    ) -> Result<()> {
        let dictionary = message.header_as_dictionary_batch();
        let batch = dictionary.and_then(|dictionary| dictionary.data());
        let (Some(dictionary), Some(batch)) = (dictionary, batch) else {
            return Err(malformed("the values of a dictionary are not there"));
        };
        let (id, is_delta) = (dictionary.id(), dictionary.isDelta());
        let below = self.dictionaries.put_together_below(id)?;
        let kept = body.kept_bytes();
        let room = self.dictionaries.admit(id, kept, is_delta)?;
        let Some(values) = self.dictionaries.wanted(id)? else { return Ok(()) };
        let mut walk = Walk::new(batch, message.version())?;
        if let Body::Apart { buffers, .. } = body {
            walk.check_buffer_count(buffers.len())?;
        }
        let (codec, most) = (Codec::of(batch)?, options.max_unpacked.min(room));
        let mut bytes = Bytes::new(body, codec, most, &self.dictionaries);
        let named = |error: Error| {
            let is_full = error.kind() == ErrorKind::LimitExceeded && room < options.max_unpacked;
            let room = format!(", where all dictionaries may have {room} bytes more");
            let error = self.in_what_came(error, body, Some(id));
            within(error, &format!("dictionary {id}{}", if is_full { &*room } else { "" }))
        };
        let array = walk.array(values, &mut bytes).map_err(named)?;
        walk.finish().map_err(named)?;
        let unpacked = most - bytes.left;
        if options.validates {
            array.validate().map_err(named)?;
        }
        self.dictionaries.put(id, array, is_delta, (kept.saturating_add(unpacked), below));
        Ok(())
    }

    /// Checks that there is room for the values of a dictionary, before `len` bytes are read that
    /// have them.
    pub(crate) fn admit_dictionary(&mut self, message: &fb::Message<'_>, len: u64) -> Result<()> {
        let Some(dictionary) = message.header_as_dictionary_batch() else { return Ok(()) };
        self.dictionaries.admit(dictionary.id(), len, dictionary.isDelta()).map(drop)
    }
}

fn check_rows(shape: &Shape, len: usize, rows: usize) -> Result<()> {
    if len == rows {
        return Ok(());
    }
    let name = shape.field().name();
    Err(malformed(format!("`{name}` has {len} rows, and the batch {rows}")))
}

impl Decoder {
    /// Returns a decoder that was given no message yet.
    pub fn new(options: ReadOptions) -> Self {
        Self { options, known: None, count: 0, is_broken: false }
    }

    /// Returns the schema of the batches: the columns that are asked for. `None` before the message
    /// of the schema was given.
    pub fn schema(&self) -> Option<&Schema> {
        self.known.as_ref().map(Columns::schema)
    }

    /// Decodes the next message.
    ///
    /// # Errors
    /// * [`Malformed`](arrow_device::ErrorKind::Malformed): the message breaks a rule of the
    ///   format, or the body is shorter than the header says.
    /// * [`LimitExceeded`](arrow_device::ErrorKind::LimitExceeded): the message is larger than the
    ///   options allow.
    /// * [`Unsupported`](arrow_device::ErrorKind::Unsupported): another version of the format, the
    ///   other byte order, an unknown compression, a tensor, a name with a NUL byte.
    ///
    /// A refused batch does not affect the batches that follow. Where the refused message may have
    /// had values of a dictionary, every later call is an error of the kind `Malformed`.
    pub fn decode(&mut self, header: &[u8], body: Buffer) -> Result<Decoded> {
        let decoded = self.decode_next(header, &Body::Whole(body));
        let decoded = decoded.map_err(|error| self.in_message(error));
        self.count_message();
        decoded
    }

    /// Decodes the next message, whose buffers came each by itself and not in one body.
    ///
    /// `buffers` are in the order in which the header lists them: the header's places are not used,
    /// only its lengths. All lie in memory of `device`. A buffer that is empty may be `None`.
    /// Dictionaries and the batches that use them have to be on one device. A compressed buffer has
    /// to be in host memory.
    ///
    /// # Errors
    /// The errors of [`decode`](Self::decode), and
    /// [`InvalidArgument`](arrow_device::ErrorKind::InvalidArgument) in two cases. Where a buffer
    /// lies on another device, the message was not looked at, and may be decoded again. Where a
    /// dictionary lies on another device than what points into it, the message is refused.
    pub fn decode_apart(
        &mut self,
        header: &[u8],
        buffers: Vec<Option<Buffer>>,
        device: DeviceId,
    ) -> Result<Decoded> {
        let lies_elsewhere = |buffer: &Option<Buffer>| {
            let buffer = buffer.as_ref().filter(|buffer| !buffer.is_null());
            buffer.is_some_and(|buffer| !buffer.device().is_same_device(device))
        };
        let elsewhere = buffers.iter().position(lies_elsewhere);
        if let Some(number) = elsewhere.filter(|_| !self.is_broken) {
            let message = format!("buffer {number} does not lie on {device}");
            return Err(Error::new(ErrorKind::InvalidArgument, message).during("read IPC"));
        }
        let decoded = self.decode_next(header, &Body::Apart { buffers, device });
        let decoded = decoded.map_err(|error| self.in_message(error));
        self.count_message();
        decoded
    }

    /// Whether a message with this header comes with a body: all but the one with the schema do.
    ///
    /// # Errors
    /// [`Malformed`](arrow_device::ErrorKind::Malformed): the header is broken.
    /// [`Unsupported`](arrow_device::ErrorKind::Unsupported): another version of the format.
    pub fn has_body(header: &[u8]) -> Result<bool> {
        Ok(verified(header)?.header_type() != fb::MessageHeader::Schema)
    }

    /// Returns how many bytes the body of a message has, for whoever reads the body behind its
    /// header from a stream of bytes.
    ///
    /// # Errors
    /// * [`Malformed`](arrow_device::ErrorKind::Malformed): the header is broken.
    /// * [`LimitExceeded`](arrow_device::ErrorKind::LimitExceeded): the body is larger than the
    ///   options allow.
    /// * [`Unsupported`](arrow_device::ErrorKind::Unsupported): another version of the format.
    pub fn body_len(&self, header: &[u8]) -> Result<u64> {
        body_len(&verified(header)?, &self.options).map_err(|error| self.in_message(error))
    }

    fn decode_next(&mut self, header: &[u8], body: &Body) -> Result<Decoded> {
        self.check_whole()?;
        self.is_broken = true;
        let message = verified(header)?;
        self.is_broken = false;
        self.decode_verified(&message, body)
    }

    fn check_whole(&self) -> Result<()> {
        if self.is_broken {
            let message =
                "a message before was refused, and the values of a dictionary may be missing";
            return Err(malformed(message));
        }
        Ok(())
    }

    /// Counts a message that was decoded or refused.
    pub(crate) fn count_message(&mut self) {
        self.count += 1;
    }

    /// Adds the number of the next message to an error.
    pub(crate) fn in_message(&self, error: Error) -> Error {
        within(error, &format!("message {}", self.count))
    }

    /// Decodes a message whose header was verified. The errors do not have the number of the
    /// message.
    pub(crate) fn decode_verified(
        &mut self,
        message: &fb::Message<'_>,
        body: &Body,
    ) -> Result<Decoded> {
        self.check_whole()?;
        self.is_broken = message.header_type() == fb::MessageHeader::DictionaryBatch;
        let decoded = self.decode_known(message, body)?;
        self.is_broken = false;
        Ok(decoded)
    }

    fn decode_known(&mut self, message: &fb::Message<'_>, body: &Body) -> Result<Decoded> {
        let len = body_len(message, &self.options)?;
        if body.len() < len {
            let there = body.len();
            let place = first_missing(message, there);
            return Err(malformed(format!("the body has {there} of its {len} bytes{place}")));
        }
        match (message.header_type(), &mut self.known) {
            (fb::MessageHeader::Schema, known @ None) => {
                let schema = message.header_as_schema();
                let schema = schema.ok_or_else(|| malformed("the schema is not there"))?;
                *known = Some(Columns::of(schema, &self.options)?);
                Ok(Decoded::Schema)
            }
            (fb::MessageHeader::Schema, Some(_)) => Err(malformed("a second schema")),
            (fb::MessageHeader::DictionaryBatch, Some(known)) => {
                known.take_dictionary(message, body, &self.options)?;
                Ok(Decoded::Dictionary)
            }
            (fb::MessageHeader::RecordBatch, Some(known)) => {
                known.put_together()?;
                let batch = known.batch(message, body, &self.options)?;
                let metadata = schema_from::metadata(message.custom_metadata())?;
                Ok(Decoded::Batch { batch, metadata })
            }
            (fb::MessageHeader::DictionaryBatch | fb::MessageHeader::RecordBatch, None) => {
                Err(malformed("data before the schema"))
            }
            (fb::MessageHeader::Tensor | fb::MessageHeader::SparseTensor, _) => {
                Err(unsupported("a tensor; only tables are read"))
            }
            (other, _) => Err(malformed(format!("a message of the unknown kind {}", other.0))),
        }
    }
}
