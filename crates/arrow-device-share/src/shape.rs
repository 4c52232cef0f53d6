//! [`Shape`]: a schema taken apart once, so that no type has to be looked at when an array of this
//! schema is built.

use arrow_device::{Field, Layout, Result, Schema};

/// A field, and those below it, each with a schema of its own.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) schema: Schema,
    pub(crate) layout: Layout,
    pub(crate) children: Vec<Shape>,
    pub(crate) dictionary: Option<Box<Shape>>,
}

impl Shape {
    pub(crate) fn new(schema: Schema) -> Result<Self> {
        let of = |field: &Field| Self::new(Schema::new(field.clone())?);
        let data_type = schema.data_type();
        let children = data_type.children().map(of).collect::<Result<_>>()?;
        let dictionary = data_type.dictionary_values().map(of).transpose()?.map(Box::new);
        let layout = Layout::of(data_type);
        Ok(Self { schema, layout, children, dictionary })
    }
}
