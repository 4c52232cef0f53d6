//! [`Shape`]: a schema taken apart once, so that no type has to be looked at when an array of this
//! schema is built.

use arrow_device::{DataType, Field, Layout, Result, Schema};

/// A schema, and what its arrays consist of.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) schema: Schema,
    pub(crate) root: Node,
}

/// A field, and those below it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) data_type: DataType,
    pub(crate) layout: Layout,
    pub(crate) children: Vec<Node>,
    /// The values of a dictionary, which are an array of their own.
    pub(crate) dictionary: Option<Box<Shape>>,
}

impl Shape {
    pub(crate) fn new(schema: Schema) -> Result<Self> {
        Ok(Self { root: Node::new(schema.data_type())?, schema })
    }
}

impl Node {
    fn new(data_type: &DataType) -> Result<Self> {
        let shape = |values: &Field| Shape::new(Schema::new(values.clone())?).map(Box::new);
        let children = data_type.children().map(|child| Self::new(child.data_type()));
        Ok(Self {
            data_type: data_type.clone(),
            layout: Layout::of(data_type),
            children: children.collect::<Result<_>>()?,
            dictionary: data_type.dictionary_values().map(shape).transpose()?,
        })
    }
}
