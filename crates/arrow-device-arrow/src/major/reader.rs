//! Converts streams: `RecordBatchReader` of arrow-rs to [`ArrayStream`], and back.

use std::fmt;

use arrow_device::{
    Array, ArrayStream, Batch, DataType, DeviceType, Error, ErrorKind, Field, Result, Schema,
};

use super::arrow::array::{RecordBatch, RecordBatchReader};
use super::arrow::schema::{ArrowError, SchemaRef};
use super::data::Trust;
use super::{ErrorExt as _, FromArrow, ToArrow, record_batch, types};

/// No batch is read before the first array is asked for. An error of the reader becomes one of this
/// library by [`ErrorExt::from_arrow_error`](super::ErrorExt::from_arrow_error).
impl<R: RecordBatchReader + Send + 'static> FromArrow<R> for ArrayStream {
    fn from_arrow(reader: R) -> Result<Self> {
        let schema = types::schema_from(&reader.schema())?;
        let of_batches = schema.clone();
        let batches = reader.map(move |batch| {
            Batch::from_arrow((&of_batches, batch.map_err(Error::from_arrow_error)?))
        });
        Ok(Self::new(schema, DeviceType::CPU, batches))
    }
}

/// An [`ArrayStream`] of record batches, as a `RecordBatchReader`.
///
/// Each batch is converted as by [`to_arrow`](ToArrow::to_arrow), so all of its data is checked. An
/// error is an `ArrowError::ExternalError` that contains the [`Error`] of this library. After the
/// first error nothing more comes. A stream of arrays on a device is read with
/// `Reader::new(stream.to_host())`.
pub struct Reader {
    target: Target,
    /// `None` after the end.
    batches: Option<ArrayStream>,
}

/// How the batches of a stream are converted.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) schema: SchemaRef,
    ours: Schema,
    trust: Trust,
}

impl Target {
    pub(super) fn new(ours: Schema, trust: Trust) -> Result<Self> {
        Ok(Self { schema: ours.to_arrow()?, ours, trust })
    }

    /// Makes a record batch from an array on the host. Waits where the data is not ready yet.
    ///
    /// # Safety
    /// With [`Trust::Promised`] the array is valid (UNS-28).
    pub(super) unsafe fn batch(&self, array: Array) -> Result<RecordBatch> {
        let batch = Batch::try_from(array)?;
        if self.trust == Trust::Checked {
            batch.as_array().validate().map_err(|error| error.during("to_arrow"))?;
        }
        // arrow-rs compares types, and not names.
        if !are_named_as(batch.as_array().data_type(), &self.ours) {
            return Err(self.mismatch(&batch));
        }
        // SAFETY: all of it was checked just now, or is promised by the caller.
        let converted = unsafe { record_batch(&batch, self.schema.clone(), self.trust) };
        converted.or_else(|error| {
            // SAFETY: all of it was checked above, or is promised by the caller.
            unsafe { self.of_other_type(&batch, error) }
        })
    }

    /// Makes a record batch where the first attempt failed. The reason is mostly that the type of
    /// the array is not that of the schema. Where only the metadata of inner fields differs, which
    /// arrow-rs compares, the record batch gets the metadata of the schema.
    ///
    /// # Safety
    /// Each column is valid, as [`Trust`] says (UNS-28).
    #[cold]
    unsafe fn of_other_type(&self, batch: &Batch, error: Error) -> Result<RecordBatch> {
        let (ours, given) = (self.ours.data_type(), batch.as_array().data_type());
        if ours == given {
            return Err(error);
        }
        if !ours.equals_ignoring_metadata(given) {
            return Err(self.mismatch(batch));
        }
        let batch = Batch::new(self.ours.clone(), batch.columns()?)?;
        // SAFETY: UNS-28, which the caller promises of these columns.
        unsafe { record_batch(&batch, self.schema.clone(), self.trust) }
    }

    #[cold]
    fn mismatch(&self, batch: &Batch) -> Error {
        let [given, ours] = batch.as_array().data_type().told_apart(self.ours.data_type());
        let message = format!("a batch of the stream has the type {given}, not {ours}");
        Error::new(ErrorKind::SchemaMismatch, message).during("to_arrow")
    }
}

/// Whether a type has the columns of a schema, by their names and in their order.
fn are_named_as(given: &DataType, schema: &Schema) -> bool {
    let DataType::Struct(given) = given else { return false };
    let names = schema.columns().iter().map(Field::name);
    std::ptr::eq(&raw const **given, schema.columns()) || given.iter().map(Field::name).eq(names)
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.ours, f)
    }
}

impl Reader {
    /// Reads a stream of structs in host memory as batches.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): arrow-rs has no place for something of the type, or
    /// the arrays are on a device. [`SchemaMismatch`](ErrorKind::SchemaMismatch): the arrays are
    /// not structs.
    pub fn new(stream: ArrayStream) -> Result<Self> {
        Self::with_trust(stream, Trust::Checked)
    }

    /// Reads a stream of structs as [`new`](Self::new) does, without a check of the data.
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
        let target = Target::new(stream.schema().clone(), trust)?;
        Ok(Self { target, batches: Some(stream) })
    }

    fn read(&mut self) -> Option<Result<RecordBatch>> {
        let array = self.batches.as_mut()?.next()?;
        // SAFETY: UNS-28, which the caller of `new_unchecked` promises where nothing is checked.
        Some(array.and_then(|array| unsafe { self.target.batch(array) }))
    }
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.read();
        if !matches!(next, Some(Ok(_))) {
            self.batches = None;
        }
        next.map(|batch| batch.map_err(Error::into_arrow_error))
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        self.target.schema.clone()
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reader({:?})", self.target)
    }
}
