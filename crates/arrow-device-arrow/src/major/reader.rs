//! Streams: arrow-rs's `RecordBatchReader` as our [`ArrayStream`], and ours as one of those.

use std::fmt;

use arrow_device::{ArrayStream, Batch, DeviceType, Error, ErrorKind, Result, Schema};

use super::arrow::array::{RecordBatch, RecordBatchReader};
use super::arrow::schema::{ArrowError, SchemaRef};
use super::data::Trust;
use super::{FromArrow, ToArrow, record_batch, types};

/// An error of the reader becomes [`Error::other`], with its causes.
impl<R: RecordBatchReader + Send + 'static> FromArrow<R> for ArrayStream {
    fn from_arrow(reader: R) -> Result<Self> {
        let schema = types::schema_from(&reader.schema())?;
        let of_batches = schema.clone();
        let batches =
            reader.map(move |batch| Batch::from_arrow((&of_batches, batch.map_err(Error::other)?)));
        Ok(Self::new(schema, DeviceType::CPU, batches))
    }
}

/// An [`ArrayStream`] of record batches, as a `RecordBatchReader`.
///
/// Each batch is converted as by [`to_arrow`](ToArrow::to_arrow), and so all of its data is
/// checked. An error is an `ArrowError::ExternalError` with our [`Error`] in it; after the first
/// one there is nothing more.
pub struct Reader {
    schema: SchemaRef,
    ours: Schema,
    /// Nothing any more after the end.
    batches: Option<ArrayStream>,
    trust: Trust,
}

impl Reader {
    /// The batches of a stream of structs in host memory.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): arrow-rs has no place for something of the type, or
    /// the arrays are on a device. [`SchemaMismatch`](ErrorKind::SchemaMismatch): they are no
    /// structs.
    pub fn new(stream: ArrayStream) -> Result<Self> {
        Self::with_trust(stream, Trust::Checked)
    }

    /// The same, without a look at the data.
    ///
    /// # Safety
    /// Each batch is valid, as
    /// [`to_arrow_unchecked`](super::ToArrowUnchecked::to_arrow_unchecked) says (UNS-28).
    pub unsafe fn new_unchecked(stream: ArrayStream) -> Result<Self> {
        Self::with_trust(stream, Trust::Promised)
    }

    fn with_trust(stream: ArrayStream, trust: Trust) -> Result<Self> {
        if stream.device_type() != DeviceType::CPU {
            let message = format!(
                "arrow-rs reads host memory only, and these arrays lie on {}; copy them with `to_host` first",
                stream.device_type()
            );
            return Err(Error::new(ErrorKind::Unsupported, message).during("to_arrow"));
        }
        let ours = stream.schema().clone();
        Ok(Self { schema: ours.to_arrow()?, ours, batches: Some(stream), trust })
    }

    fn read(&mut self) -> Option<Result<RecordBatch>> {
        let array = self.batches.as_mut()?.next()?;
        Some(array.and_then(Batch::try_from).and_then(|batch| {
            if self.trust == Trust::Checked {
                batch.as_array().validate().map_err(|error| error.during("to_arrow"))?;
            }
            // SAFETY: all of it was checked just now, or is promised by the caller of
            // `new_unchecked`.
            unsafe { record_batch(&batch, self.schema.clone(), self.trust) }
        }))
    }
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.read();
        if !matches!(next, Some(Ok(_))) {
            self.batches = None;
        }
        next.map(|batch| batch.map_err(|error| ArrowError::ExternalError(Box::new(error))))
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader({})", self.ours)
    }
}
