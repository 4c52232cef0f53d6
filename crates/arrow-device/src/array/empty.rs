//! [`Array::empty`].

use crate::{Array, Error, Field, Result, Schema};

impl Array {
    /// An array of no elements in host memory, such as the result of a query that finds nothing.
    ///
    /// For a [`Batch`](crate::Batch) of no rows, pass the [batch's schema](Schema::batch) and make
    /// the array a batch.
    ///
    /// ```
    /// use arrow_device::{Array, Batch, DataType, Field, Schema};
    ///
    /// let schema = Schema::batch([Field::new("id", DataType::Int64, false)])?;
    /// let nothing = Batch::try_from(Array::empty(&schema)?)?;
    /// assert_eq!((nothing.row_count(), nothing.schema()?), (0, schema));
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn empty<S>(schema: S) -> Result<Self>
    where
        S: TryInto<Schema>,
        Error: From<S::Error>,
    {
        schema.try_into().map_err(Error::from).and_then(of_schema)
    }
}

fn of_schema(schema: Schema) -> Result<Array> {
    // The recursion ends: a schema has at most 64 levels, and the schema of a child has one level
    // less.
    let of_field = |field: &Field| of_schema(Schema::new(field.clone())?);
    let data_type = schema.data_type();
    let children: Vec<_> = data_type.children().map(of_field).collect::<Result<_>>()?;
    let values = data_type.dictionary_values().map(of_field).transpose()?;
    // The builder supplies the one offset that consumers read of an array without elements.
    let buffers = vec![None; schema.root().layout.buffers().len()];
    let builder = Array::builder(schema).len(0).null_count(0).buffers(buffers).children(children);
    match values {
        Some(values) => builder.dictionary(values).finish_ready(),
        None => builder.finish_ready(),
    }
}
