//! Converts streams: `RecordBatchReader` of arrow-rs to [`ArrayStream`], and back.

use std::fmt;

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::{
    Array, ArrayStream, Batch, DataType, DeviceType, Error, ErrorKind, Result, Schema,
};

use super::arrow::array::{RecordBatch, RecordBatchReader};
use super::arrow::schema::{self as rs, ArrowError, SchemaRef};
use super::data::Trust;
use super::types::OtherName;
use super::{ErrorExt as _, FromArrow, ToArrow, record_batch, types};

/// No batch is read before the first array is asked for. Each batch is converted by the one schema,
/// as by `Batch::from_arrow` with a schema: a batch of other types, or whose columns or fields of
/// structs have other names, is an error of the kind [`SchemaMismatch`](ErrorKind::SchemaMismatch).
/// An error of the reader becomes one of this library by
/// [`ErrorExt::from_arrow_error`](super::ErrorExt::from_arrow_error).
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
/// `Reader::new(stream.to_host())`. The [`ArrayStream`] itself compares types and the names of all
/// fields with its schema: any other type or name is an error of the kind
/// [`SchemaMismatch`](ErrorKind::SchemaMismatch).
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
        // arrow-rs compares the types of columns, and not their names.
        if let Some(other) = self.other_name(batch.as_array().data_type()) {
            return Err(other.refusal_to_arrow());
        }
        // SAFETY: all of it was checked just now, or is promised by the caller.
        let converted = unsafe { record_batch(&batch, self.schema.clone(), self.trust) };
        converted.or_else(|error| {
            // SAFETY: all of it was checked above, or is promised by the caller.
            unsafe { self.of_other_type(&batch, error) }
        })
    }

    /// Makes a record batch where the first attempt failed. The reason is mostly that the type of
    /// the array is not that of the schema. Where only metadata of inner fields differs, or a name
    /// inside of a list, a map or runs, which arrow-rs compares, the record batch gets the metadata
    /// and the names of the schema.
    ///
    /// # Safety
    /// Each column is valid, as [`Trust`] says (UNS-28).
    #[cold]
    unsafe fn of_other_type(&self, batch: &Batch, error: Error) -> Result<RecordBatch> {
        let (ours, given) = (self.ours.data_type(), batch.as_array().data_type());
        if ours == given {
            return Err(error);
        }
        let expected = rs::DataType::Struct(self.schema.fields().clone());
        if !types::is_laid_out_as(given, &expected) || !types::have_same_flags(given, ours) {
            return Err(self.mismatch(batch));
        }
        let mut c_array = ArrowDeviceArray::empty();
        batch.export(&mut c_array)?;
        // SAFETY: UNS-1 and UNS-3 to UNS-6: the library wrote the struct just now, of a batch whose
        // type is laid out as the schema says and has the same flags.
        let batch = unsafe { Batch::import(&raw mut c_array, &self.ours) }?;
        // SAFETY: UNS-28, which the caller promises of these columns. The columns have other names
        // and metadata now, and what is valid depends on neither.
        unsafe { record_batch(&batch, self.schema.clone(), self.trust) }
    }

    #[cold]
    fn mismatch(&self, batch: &Batch) -> Error {
        let [given, ours] = batch.as_array().data_type().told_apart(self.ours.data_type());
        let message = format!("a batch of the stream has the type {given}, not {ours}");
        Error::new(ErrorKind::SchemaMismatch, message).during("to_arrow")
    }

    /// Finds the first name of a batch that is not that of the schema.
    fn other_name<'t>(&'t self, given: &'t DataType) -> Option<OtherName<'t>> {
        let DataType::Struct(given) = given else { return None };
        if std::ptr::eq(&raw const **given, self.ours.columns()) {
            return None;
        }
        types::other_column(given, self.schema.fields())
    }
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
