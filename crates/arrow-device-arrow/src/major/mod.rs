//! The conversion for one major of arrow-rs. `lib.rs` includes this source once for each major;
//! `super::arrow` is the major.
//!
//! `types` converts types and schemas. `parts` takes arrays of arrow-rs apart, `source` writes them
//! as C structs, and `data` makes `ArrayData` of this library's arrays. `reader` has synchronous
//! streams, `async_arrays` and `async_reader` have asynchronous ones, and `errors` converts errors.

use std::sync::Arc;

use arrow_device::abi::ArrowArray;
use arrow_device::{Array, Batch, DataType, Error, ErrorKind, Field, Result, Schema};

use super::arrow;
use super::arrow::array::{Array as _, ArrayRef, RecordBatch};
use super::arrow::schema as rs;
use crate::block::{Needs, Room, TreeBlock};

mod async_arrays;
mod async_reader;
mod data;
mod errors;
mod parts;
mod reader;
mod source;
mod types;

pub use async_arrays::AsyncArrays;
pub use async_reader::AsyncReader;
pub use errors::ErrorExt;
pub use reader::Reader;

/// A type of `arrow-device` that can be made from a type of arrow-rs.
///
/// | of | made |
/// |---|---|
/// | `&DataType` | [`DataType`] |
/// | `&Field` | [`Field`] |
/// | `&Schema` | [`Schema`], whose root is a struct |
/// | `ArrayRef` | [`Array`], nullable, without name and metadata |
/// | `(&Field, ArrayRef)` | [`Array`], with the field's name, nullability and metadata |
/// | `RecordBatch` | [`Batch`] |
/// | a `RecordBatchReader` | [`ArrayStream`](arrow_device::ArrayStream) |
/// | `(SchemaRef, S)` with a stream `S` of results of `RecordBatch`es | [`AsyncArrays`] |
/// | `(&Schema, RecordBatch)` with a [`Schema`] of ours | [`Batch`]: for many batches of one schema, which is then converted once |
///
/// Arrays keep their memory. The kind of an error says what is wrong.
/// [`InvalidArgument`](ErrorKind::InvalidArgument): C cannot carry the type (a name with a NUL
/// byte, an empty time zone). [`LimitExceeded`](ErrorKind::LimitExceeded): the type is nested too
/// deep. [`SchemaMismatch`](ErrorKind::SchemaMismatch): an array is of another type than its field
/// or schema, or a name differs.
///
/// Where an array or a batch comes with a field or a schema, the names of columns, of fields of
/// structs and of members of unions have to be those of the field or schema, in the same order. The
/// error of another name says which column has the name. The fields inside of lists, maps and runs,
/// whose names libraries choose, get the names of the field or schema, and all fields get its
/// metadata.
pub trait FromArrow<T>: Sized {
    /// Makes the value of `arrow-device`.
    fn from_arrow(value: T) -> Result<Self>;
}

/// A type of `arrow-device` that can become a type of arrow-rs.
///
/// [`DataType`], [`Field`] and [`Schema`] become those of arrow-rs, an [`Array`] an `ArrayRef`, a
/// [`Batch`] a `RecordBatch`. (A stream is used up by its reader: see [`Reader`] and
/// [`AsyncReader`].)
///
/// An array has to lie in host memory. Its event is waited for. All of its data is checked, at the
/// cost of [`Array::validate`], because arrow-rs relies on valid data.
pub trait ToArrow {
    /// The type of the value in arrow-rs.
    type Arrow;

    /// Makes the value of arrow-rs.
    ///
    /// # Errors
    /// * [`Unsupported`](ErrorKind::Unsupported): arrow-rs has no place for something of the type,
    ///   or the array is on a device.
    /// * [`InvalidData`](ErrorKind::InvalidData): the data is wrong. The message says where.
    fn to_arrow(&self) -> Result<Self::Arrow>;
}

/// A type of `arrow-device` that can become a type of arrow-rs without a check of the data.
pub trait ToArrowUnchecked: ToArrow {
    /// [`to_arrow`](ToArrow::to_arrow) for data that is known to be valid.
    ///
    /// # Safety
    /// [`Array::validate`] would find nothing, and text and views are valid in elements that are
    /// null, too (UNS-28).
    unsafe fn to_arrow_unchecked(&self) -> Result<Self::Arrow>;
}

impl FromArrow<&rs::DataType> for DataType {
    fn from_arrow(value: &rs::DataType) -> Result<Self> {
        types::data_type_from(value)
    }
}

impl FromArrow<&rs::Field> for Field {
    fn from_arrow(value: &rs::Field) -> Result<Self> {
        types::field_from(value)
    }
}

impl FromArrow<&rs::Schema> for Schema {
    fn from_arrow(value: &rs::Schema) -> Result<Self> {
        types::schema_from(value)
    }
}

impl FromArrow<ArrayRef> for Array {
    fn from_arrow(value: ArrayRef) -> Result<Self> {
        let schema = Schema::try_from(types::data_type_from(value.data_type())?)?;
        take(&schema, value)
    }
}

impl FromArrow<(&rs::Field, ArrayRef)> for Array {
    fn from_arrow((field, array): (&rs::Field, ArrayRef)) -> Result<Self> {
        let schema = Schema::new(types::field_from(field)?)?;
        if let Some(other) = types::other_name(schema.data_type(), array.data_type()) {
            return Err(other.refusal_from_arrow());
        }
        take(&schema, array)
    }
}

impl FromArrow<RecordBatch> for Batch {
    fn from_arrow(value: RecordBatch) -> Result<Self> {
        let schema = types::schema_from(value.schema_ref())?;
        Self::try_from(take(&schema, value)?)
    }
}

impl FromArrow<(&Schema, RecordBatch)> for Batch {
    fn from_arrow((schema, batch): (&Schema, RecordBatch)) -> Result<Self> {
        let fields = batch.schema_ref().fields();
        if schema.columns().len() != fields.len()
            || !matches!(schema.data_type(), DataType::Struct(_))
        {
            let message = format!("{} columns do not fit {schema}", fields.len());
            return Err(Error::new(ErrorKind::SchemaMismatch, message).during("from_arrow"));
        }
        Self::try_from(take(schema, batch)?)
    }
}

/// An array or a batch of arrow-rs that can be written as C structs. It then becomes the owner of
/// their memory.
trait Tree: Send + Sync + 'static {
    /// Adds the structs, pointers and sizes that the C structs need.
    fn count(&self, schema: &Schema, needs: &mut Needs) -> Result<()>;

    /// Writes the structs below the base structure, and returns the base structure.
    fn write(&self, schema: &Schema, room: &mut Room<'_>) -> Result<ArrowArray>;
}

impl Tree for ArrayRef {
    fn count(&self, schema: &Schema, needs: &mut Needs) -> Result<()> {
        source::count_array(schema.data_type(), &**self, needs)
    }

    fn write(&self, schema: &Schema, room: &mut Room<'_>) -> Result<ArrowArray> {
        source::write_array(schema.data_type(), &**self, room)
    }
}

impl Tree for RecordBatch {
    fn count(&self, schema: &Schema, needs: &mut Needs) -> Result<()> {
        source::count_batch(schema.columns(), self, needs)
    }

    fn write(&self, schema: &Schema, room: &mut Room<'_>) -> Result<ArrowArray> {
        source::write_batch(schema.columns(), self, room)
    }
}

/// Writes an array or a batch of arrow-rs as C structs, and imports them. Refuses one that is not
/// of the schema's type.
fn take<T: Tree>(schema: &Schema, owner: T) -> Result<Array> {
    let mut needs = Needs::default();
    owner.count(schema, &mut needs)?;
    let mut block = TreeBlock::<T>::new(needs)?;
    let mut room = block.room();
    let base = owner.write(schema, &mut room)?;
    let is_plain = room.is_plain;
    let mut c_array = block.own(base, owner);
    let imported = if is_plain {
        // SAFETY: UNS-1, UNS-3, UNS-6 and UNS-7: the structs were written just now, for arrays of
        // this schema's type, with tables as long as they say; arrow-rs upholds that its buffers
        // cover their elements and are not written to, and the owner keeps them until the release,
        // which may run on any thread because all of it is `Send + Sync`. UNS-8: the columns are
        // plain, and arrow-rs upholds that their lengths are those of the batch and fit into
        // memory, that no more elements are null than there are, and that there are buffers, which
        // are not null.
        unsafe { Array::import_host_unchecked(&raw mut c_array, schema) }
    } else {
        // SAFETY: UNS-1, UNS-3, UNS-6 and UNS-7: the structs were written just now, for arrays of
        // this schema's type, with tables as long as they say; arrow-rs upholds that its buffers
        // cover their elements and are not written to, and the owner keeps them until the release,
        // which may run on any thread because all of it is `Send + Sync`.
        unsafe { Array::import_host(&raw mut c_array, schema) }
    };
    imported.map_err(|error| error.during("from_arrow"))
}

fn mismatch(ours: &DataType, theirs: &rs::DataType) -> Error {
    let message = format!("the type is {theirs}, not {ours}");
    Error::new(ErrorKind::SchemaMismatch, message).during("from_arrow")
}

impl ToArrow for DataType {
    type Arrow = rs::DataType;

    fn to_arrow(&self) -> Result<rs::DataType> {
        // A schema cannot be made of what is no type, and arrow-rs would panic.
        Schema::try_from(self.clone())?;
        types::data_type_to(self)
    }
}

impl ToArrow for Field {
    type Arrow = rs::Field;

    fn to_arrow(&self) -> Result<rs::Field> {
        Schema::new(self.clone())?;
        types::field_to(self)
    }
}

impl ToArrow for Schema {
    type Arrow = rs::SchemaRef;

    fn to_arrow(&self) -> Result<rs::SchemaRef> {
        types::schema_to(self).map(Arc::new)
    }
}

impl ToArrow for Array {
    type Arrow = ArrayRef;

    fn to_arrow(&self) -> Result<ArrayRef> {
        let host = data::readable(self)?;
        self.validate().map_err(|error| error.during("to_arrow"))?;
        // SAFETY: all of it was checked just now.
        unsafe { data::array(&host, data::Trust::Checked) }
    }
}

impl ToArrowUnchecked for Array {
    unsafe fn to_arrow_unchecked(&self) -> Result<ArrayRef> {
        let host = data::readable(self)?;
        // SAFETY: UNS-28, which the caller keeps.
        unsafe { data::array(&host, data::Trust::Promised) }
    }
}

impl ToArrow for Batch {
    type Arrow = RecordBatch;

    fn to_arrow(&self) -> Result<RecordBatch> {
        data::readable(self.as_array())?;
        let schema = self.schema()?.to_arrow()?;
        self.as_array().validate().map_err(|error| error.during("to_arrow"))?;
        // SAFETY: all of it was checked just now.
        unsafe { record_batch(self, schema, data::Trust::Checked) }
    }
}

impl ToArrowUnchecked for Batch {
    unsafe fn to_arrow_unchecked(&self) -> Result<RecordBatch> {
        let schema = self.schema()?.to_arrow()?;
        // SAFETY: UNS-28, which the caller keeps, of each column.
        unsafe { record_batch(self, schema, data::Trust::Promised) }
    }
}

/// # Safety
/// Each column is valid, as [`Trust`] says (UNS-28).
unsafe fn record_batch(
    batch: &Batch,
    schema: rs::SchemaRef,
    trust: data::Trust,
) -> Result<RecordBatch> {
    let columns = batch.columns()?.into_iter().map(|column| {
        let host = data::readable(&column)?;
        // SAFETY: UNS-28, which the caller promises.
        unsafe { data::array(&host, trust) }
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.row_count()));
    RecordBatch::try_new_with_options(schema, columns, &options)
        .map_err(|error| Error::new(ErrorKind::InvalidData, error.to_string()).during("to_arrow"))
}
