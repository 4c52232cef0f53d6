//! [`Batch`]: a struct array, seen as columns of one length.

use std::fmt;

use super::Array;
use crate::abi::ArrowDeviceArray;
use crate::numbered::numbered;
use crate::schema::Schema;
use crate::{DataType, DeviceId, Error, ErrorKind, Field, Queue, Result};

/// A record batch: columns of one length on one device.
///
/// In C a batch is a struct array. Where the struct array has an offset, every column is given with
/// that offset applied. A struct array with null rows is not a record batch, and is refused.
///
/// A batch is made of any iterator of columns: with their names, by
/// [`from_columns`](Self::from_columns), or with their fields, by [`from_fields`](Self::from_fields),
/// which takes what the iterator of a batch gives. Both can fail, because columns may differ in
/// their lengths; a `collect` could not say so, and there is no `FromIterator`.
///
/// ```
/// use arrow_device::{Array, Batch, DataType};
///
/// let batch = Batch::from_columns([(
///     "id",
///     Array::builder(DataType::Int64)
///         .len(2)
///         .buffers([None, Some(vec![1_i64, 2].into())])
///         .finish_ready()?,
/// )])?;
/// assert_eq!((batch.row_count(), batch.column_count()), (2, 1));
/// assert_eq!(batch.column_by_name("id")?.null_count(), Some(0));
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[derive(Clone)]
pub struct Batch {
    rows: Array,
}

/// The columns, each with its field.
impl IntoIterator for &Batch {
    type Item = (Field, Array);
    type IntoIter = std::vec::IntoIter<(Field, Array)>;

    /// ```
    /// use arrow_device::types::Int64;
    /// use arrow_device::{Array, Batch};
    ///
    /// let batch = Batch::from_columns([("id", Array::of::<Int64>([Some(1)])?)])?;
    /// for (field, column) in &batch {
    ///     assert_eq!((field.name(), column.len()), ("id", 1));
    /// }
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    fn into_iter(self) -> Self::IntoIter {
        // The constructor checked that each field has a column with at least as many rows as the
        // batch.
        let column = |(number, field)| (field, numbered(self.column(number).ok()));
        let columns: Vec<_> = self.fields().iter().cloned().enumerate().map(column).collect();
        columns.into_iter()
    }
}

impl IntoIterator for Batch {
    type Item = (Field, Array);
    type IntoIter = std::vec::IntoIter<(Field, Array)>;

    fn into_iter(self) -> Self::IntoIter {
        (&self).into_iter()
    }
}

impl Batch {
    /// A batch of columns with names. All columns are nullable.
    pub fn from_columns<N: AsRef<str>>(
        columns: impl IntoIterator<Item = (N, Array)>,
    ) -> Result<Self> {
        let (fields, arrays): (Vec<_>, Vec<_>) = columns
            .into_iter()
            .map(|(name, array)| {
                (array.field().clone().with_name(name.as_ref()).with_nullable(true), array)
            })
            .unzip();
        Self::new(Schema::batch(fields)?, arrays)
    }

    /// A batch of columns with their fields, as the iterator of a batch gives them. The batch has
    /// no metadata. Without columns the batch has no rows.
    ///
    /// ```
    /// use arrow_device::types::Int64;
    /// use arrow_device::{Array, Batch};
    ///
    /// let ids = Array::of::<Int64>([Some(1), Some(2)])?;
    /// let batch = Batch::from_columns([("id", ids.clone()), ("secret", ids)])?;
    /// let columns = batch.into_iter().filter(|(field, _)| field.name() != "secret");
    /// let kept = Batch::from_fields(columns)?;
    /// assert_eq!((kept.row_count(), kept.column_count()), (2, 1));
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn from_fields(columns: impl IntoIterator<Item = (Field, Array)>) -> Result<Self> {
        let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        Self::new(Schema::batch(fields)?, arrays)
    }

    /// A batch of columns for this schema.
    pub fn new(schema: Schema, columns: impl IntoIterator<Item = Array>) -> Result<Self> {
        let columns: Vec<Array> = columns.into_iter().collect();
        let rows = columns.first().map_or(0, Array::len);
        if let Some((index, other)) =
            columns.iter().enumerate().find(|(_, column)| column.len() != rows)
        {
            let message =
                format!("column {index} has {} rows, and the first one {rows}", other.len());
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let rows =
            Array::builder(&schema).len(rows).buffers([None]).children(columns).finish_ready()?;
        Self::try_from(rows)
    }

    /// Takes a batch over from the producer that filled the struct, as [`Array::import`] does, and
    /// makes the array a batch.
    ///
    /// # Safety
    /// UNS-1 and UNS-3 to UNS-6, as [`Array::import`] has them.
    pub unsafe fn import(array: *mut ArrowDeviceArray, schema: &Schema) -> Result<Self> {
        // SAFETY: UNS-1 and UNS-3 to UNS-6, which the caller promises.
        Self::try_from(unsafe { Array::import(array, schema) }?)
    }

    /// Hands the batch to a consumer: see [`Array::export`].
    ///
    /// The exported struct has no offset, because shipped consumers refuse a batch with one. The
    /// columns of a [slice](Self::slice) have the offset and the length of the slice instead, in a
    /// stream of batches too.
    pub fn export(&self, out: &mut ArrowDeviceArray) -> Result<()> {
        self.rows.export(out)
    }

    /// Hands the batch to a consumer, with the events of its columns joined: see
    /// [`Array::export_on`].
    pub fn export_on(&self, queue: &Queue, out: &mut ArrowDeviceArray) -> Result<()> {
        self.rows.export_on(queue, out)
    }

    /// How many rows.
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// How many columns.
    pub fn column_count(&self) -> usize {
        self.rows.child_count()
    }

    /// The device that all columns are on.
    pub fn device(&self) -> DeviceId {
        self.rows.device()
    }

    /// The columns' fields, in order.
    pub fn fields(&self) -> &[Field] {
        match self.rows.data_type() {
            DataType::Struct(fields) => fields,
            _ => &[],
        }
    }

    /// The schema, whose metadata is that of the batch.
    pub fn schema(&self) -> Result<Schema> {
        self.rows.schema()
    }

    /// A column, with the offset and length of the batch applied.
    pub fn column(&self, index: usize) -> Result<Array> {
        self.rows.child(index)?.slice(self.rows.offset(), self.rows.len())
    }

    /// The first column of this name.
    pub fn column_by_name(&self, name: &str) -> Result<Array> {
        let index = self.fields().iter().position(|field| field.name() == name);
        let index = index.ok_or_else(|| {
            Error::new(ErrorKind::InvalidArgument, format!("there is no column `{name}`"))
        })?;
        self.column(index)
    }

    /// All columns, as [`column`](Self::column) gives them.
    pub fn columns(&self) -> Result<Vec<Array>> {
        (0..self.column_count()).map(|index| self.column(index)).collect()
    }

    /// A part of the batch: `length` rows from `offset` on.
    pub fn slice(&self, offset: usize, length: usize) -> Result<Self> {
        Ok(Self { rows: self.rows.slice(offset, length)? })
    }

    /// The batch as a struct array, which is still exported as a batch.
    pub fn as_array(&self) -> &Array {
        &self.rows
    }
}

impl TryFrom<Array> for Batch {
    type Error = Error;

    /// Makes a batch of a struct array without null rows. A null count that is not known is counted
    /// where the array is ready and in host memory. On a device the rows are not counted: such an
    /// array is refused, because its rows could be null.
    fn try_from(mut rows: Array) -> Result<Self> {
        if !matches!(rows.data_type(), DataType::Struct(_)) {
            let message = format!("a record batch is a struct, and not {}", rows.data_type());
            return Err(Error::new(ErrorKind::SchemaMismatch, message));
        }
        rows.count_nulls_on_host()?;
        match rows.null_count() {
            Some(0) => Ok(Self { rows: rows.into_rows() }),
            Some(nulls) => {
                let message =
                    format!("{nulls} rows are null as a whole, which a record batch cannot say");
                Err(Error::new(ErrorKind::Unsupported, message).on_device(rows.device()))
            }
            None => {
                let message = "there is a validity bitmap for the rows and nobody has counted it: some may be null as a \
                               whole, which a record batch cannot say";
                Err(Error::new(ErrorKind::Unsupported, message).on_device(rows.device()))
            }
        }
    }
}

/// The struct array of a batch, which is still exported as [a batch is](Batch::export).
impl From<Batch> for Array {
    fn from(batch: Batch) -> Self {
        batch.rows
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Batch({} rows of {} on {})",
            self.row_count(),
            self.rows.data_type(),
            self.device()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbered::tests::is_a_bug_of_ours;
    use crate::pool::shared::Shared;

    #[test]
    fn a_column_lies_where_it_came_from_and_is_called_what_the_batch_calls_it() {
        let inner =
            Batch::from_columns([("x", Array::from_values(DataType::Int32, [Some(1)]).unwrap())])
                .unwrap();
        let batch = Batch::from_columns([("outer", inner.as_array().clone())]).unwrap();
        let column = batch.column(0).unwrap();
        assert!(Shared::ptr_eq(column.tree(), inner.as_array().tree()));
        assert_eq!(column.field().name(), "outer");
        assert_eq!(column.schema().unwrap().field().name(), "outer");
        let leaf = column.child(0).unwrap();
        assert_eq!(leaf.field().name(), "x");
        assert!(Shared::ptr_eq(leaf.tree(), inner.column(0).unwrap().tree()));
    }

    #[test]
    fn what_the_iterator_of_a_batch_gives_becomes_a_batch_again() {
        let numbers = Array::from_values(DataType::Int32, [Some(1), Some(2)]).unwrap();
        let metadata = crate::Metadata::from_pairs([("unit", "EUR")]).unwrap();
        let price = Field::new("price", DataType::Int32, false);
        let schema = Schema::batch([price.with_metadata(metadata)]).unwrap();
        let batch = Batch::new(schema, [numbers.clone()]).unwrap();
        let again = Batch::from_fields(&batch).unwrap();
        assert_eq!(again.fields(), batch.fields());
        assert!(again.as_array().equals(batch.as_array()).unwrap());
        // Columns that no batch could give.
        let short = numbers.slice(0, 1).unwrap();
        let mut columns: Vec<_> = batch.clone().into_iter().collect();
        columns.push((Field::new("short", DataType::Int32, true), short));
        let error = Batch::from_fields(columns).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        let error =
            Batch::from_fields([(Field::new("x", DataType::Int64, true), numbers)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
        assert_eq!(Batch::from_fields([]).unwrap().row_count(), 0);
    }

    #[test]
    fn no_column_is_left_out_of_the_iterator_of_a_batch() {
        let mut batch = rows(0..4);
        assert_eq!((&batch).into_iter().count(), 2);
        // As no batch is: its columns have fewer rows.
        batch.rows.window.length = 5;
        assert!(is_a_bug_of_ours(|| batch.clone().into_iter().count()));
    }

    fn rows(range: std::ops::Range<i32>) -> Batch {
        let numbers = Array::from_values(DataType::Int32, range.clone().map(Some)).unwrap();
        let words =
            Array::from_texts(DataType::Utf8, range.map(|row| (row % 3 > 0).then_some("x")));
        Batch::from_columns([("number", numbers), ("word", words.unwrap())]).unwrap()
    }

    /// The struct, and offset, length and null count of its columns.
    fn exported(array: &Array) -> (ArrowDeviceArray, Vec<(i64, i64, i64)>) {
        let mut out = ArrowDeviceArray::empty();
        array.export(&mut out).unwrap();
        let columns = (0..2).map(|index| {
            // SAFETY: two children, of an array that was just exported.
            let child = unsafe { out.array.children.wrapping_add(index).read() };
            // SAFETY: each child of an array that was just exported is a struct that stays until
            // the release.
            let child = unsafe { &*child };
            (child.offset, child.length, child.null_count)
        });
        let columns = columns.collect();
        (out, columns)
    }

    fn imported(mut array: ArrowDeviceArray, like: &Batch) -> Batch {
        // SAFETY: the library's own export.
        unsafe { Batch::import(&mut array, &like.schema().unwrap()) }.unwrap()
    }

    #[test]
    fn a_slice_of_a_batch_is_exported_without_an_offset_and_with_columns_of_its_length() {
        let batch = rows(0..10);
        for (from, len) in [(0, 10), (0, 4), (3, 5), (10, 0)] {
            let slice = batch.slice(from, len).unwrap();
            let (array, columns) = exported(slice.as_array());
            let (offset, length) = (from as i64, len as i64);
            assert_eq!((array.array.offset, array.array.length), (0, length));
            let nulls = if len == 10 { 4 } else { -i64::from(len > 0) };
            assert_eq!(columns, [(offset, length, 0), (offset, length, nulls)]);
            let again = imported(array, &batch);
            assert!(again.as_array().equals(slice.as_array()).unwrap());
            // A slice of what was imported, and of its slice.
            let part = again.slice(0, len).unwrap().slice(len / 2, len - len / 2).unwrap();
            let (array, _) = exported(&part.clone().into());
            assert_eq!(array.array.offset, 0);
            assert!(imported(array, &batch).as_array().equals(part.as_array()).unwrap());
        }
    }

    #[test]
    fn a_bitmap_of_rows_that_are_all_there_does_not_move_to_other_rows() {
        let children = rows(0..8).columns().unwrap();
        let schema = rows(0..0).schema().unwrap();
        // The first four are null, and before the batch.
        let bitmap = Some(vec![0xf0_u8].into());
        let builder = Array::builder(&schema).offset(4).len(4).null_count(0).buffers([bitmap]);
        let all = builder.children(children).finish_ready().unwrap();
        let batch = Batch::try_from(all.clone()).unwrap();
        let (array, columns) = exported(batch.as_array());
        assert_eq!((array.array.offset, columns[0].0), (0, 4));
        let again = imported(array, &batch);
        assert!(again.as_array().equals(batch.as_array()).unwrap());
        // An array that nobody called a batch stays as it is.
        let (array, columns) = exported(&all.slice(1, 3).unwrap());
        assert_eq!((array.array.offset, columns[0]), (5, (0, 8, 0)));
        drop(imported_array(array, &all));
    }

    #[test]
    fn rows_that_nobody_has_counted_are_counted_in_host_memory() {
        let schema = rows(0..0).schema().unwrap();
        let of = |bitmap: u8, offset: usize, len: usize| {
            let children = rows(0..8).columns().unwrap();
            let builder = Array::builder(&schema).len(8).buffers([Some(vec![bitmap].into())]);
            let all = builder.children(children).finish_ready().unwrap();
            assert_eq!(all.null_count(), None);
            Batch::try_from(all.slice(offset, len).unwrap())
        };
        // The nulls are outside of the slice.
        let batch = of(0b0111_1110, 1, 6).unwrap();
        assert_eq!(batch.as_array().null_count(), Some(0));
        let (array, columns) = exported(batch.as_array());
        assert_eq!((array.array.offset, array.array.null_count), (0, 0));
        assert_eq!((columns[0].0, columns[0].1), (1, 6));
        assert!(imported(array, &batch).as_array().equals(batch.as_array()).unwrap());
        assert!(of(0xff, 0, 8).is_ok());
        for (bitmap, offset, len, nulls) in
            [(0b0111_1110, 0, 7, 1), (0b0111_1110, 1, 7, 1), (0, 3, 4, 4)]
        {
            let error = of(bitmap, offset, len).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains(&format!("{nulls} rows are null")), "{error}");
        }
    }

    fn imported_array(mut array: ArrowDeviceArray, like: &Array) -> Array {
        // SAFETY: the library's own export.
        unsafe { Array::import(&mut array, &like.schema().unwrap()) }.unwrap()
    }

    #[test]
    fn a_column_that_was_a_batch_is_no_batch() {
        let inner = Array::from(rows(0..6).slice(2, 4).unwrap());
        let outer = Batch::from_columns([("inner", inner)]).unwrap();
        let (array, columns) = exported(&outer.column(0).unwrap());
        assert_eq!((array.array.offset, columns[0]), (2, (0, 6, 0)));
        let again = imported_array(array, &outer.column(0).unwrap());
        assert!(again.equals(&outer.column(0).unwrap()).unwrap());
    }
}
