//! [`Shape`]: a field as IPC describes it. A dictionary has a number in IPC, and its values travel
//! under this number in messages of their own.

use std::sync::OnceLock;

use arrow_device::{DataType, ErrorKind, Field, Result, Schema};

use crate::problem::refused;

/// The most fields that a schema may stand for. A field counts once for itself and once for each
/// field around it, whose schema repeats it. Fields may share what is below them, so a few can
/// stand for any number.
pub(crate) const MOST_FIELDS: usize = 1 << 20;

/// A field with its children, or with the dictionary that its values are in.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    field: Field,
    /// The schema of an array of this field alone, made when it is first asked for. Most columns
    /// are read by the schema of the batch, and a thousand schemas take a while.
    schema: OnceLock<Schema>,
    pub(crate) kind: ShapeKind,
}

#[derive(Clone, Debug)]
pub(crate) enum ShapeKind {
    /// A column with these children.
    Plain(Vec<Shape>),
    /// Indices into the dictionary with the number `id`.
    Dictionary { id: i64, values: Box<Shape> },
}

impl Shape {
    pub(crate) fn plain(field: Field, children: Vec<Self>) -> Self {
        Self { field, schema: OnceLock::new(), kind: ShapeKind::Plain(children) }
    }

    pub(crate) fn dictionary(field: Field, id: i64, values: Self) -> Self {
        let kind = ShapeKind::Dictionary { id, values: Box::new(values) };
        Self { field, schema: OnceLock::new(), kind }
    }

    pub(crate) fn field(&self) -> &Field {
        &self.field
    }

    pub(crate) fn data_type(&self) -> &DataType {
        self.field.data_type()
    }

    /// Returns the schema of an array of this field alone. An error where no array can have such a
    /// field.
    pub(crate) fn schema(&self) -> Result<&Schema> {
        if let Some(schema) = self.schema.get() {
            return Ok(schema);
        }
        let schema = Schema::new(self.field.clone())?;
        Ok(self.schema.get_or_init(|| schema))
    }

    /// Returns how many nodes the header of a batch has for an array of this field. The values of a
    /// dictionary have none there.
    pub(crate) fn node_count(&self) -> usize {
        match &self.kind {
            ShapeKind::Plain(children) => 1 + children.iter().map(Self::node_count).sum::<usize>(),
            ShapeKind::Dictionary { .. } => 1,
        }
    }

    /// Returns the shapes of columns that are to be written. Gives dictionaries their numbers, to a
    /// dictionary inside of another one first.
    pub(crate) fn of_columns(columns: &[Field]) -> Result<Vec<Self>> {
        let mut left = MOST_FIELDS;
        if columns.iter().any(|column| take_fields(column, 1, &mut left).is_none()) {
            let message = format!(
                "the schema stands for more than {MOST_FIELDS} fields, which no reader here takes"
            );
            return Err(refused(ErrorKind::LimitExceeded, message));
        }
        let mut next_id = 0;
        Ok(columns.iter().map(|column| Self::of(column, &mut next_id)).collect())
    }

    fn of(field: &Field, next_id: &mut i64) -> Self {
        if let DataType::Dictionary { values, .. } = field.data_type() {
            let values = Self::of(values, next_id);
            let id = *next_id;
            *next_id += 1;
            return Self::dictionary(field.clone(), id, values);
        }
        let children = field.data_type().children().map(|child| Self::of(child, next_id));
        let children = children.collect();
        Self::plain(field.clone(), children)
    }

    /// Adds the dictionaries of this shape, a dictionary inside of another one first.
    pub(crate) fn dictionaries<'a>(&'a self, found: &mut Vec<(i64, &'a Shape)>) {
        match &self.kind {
            ShapeKind::Plain(children) => {
                children.iter().for_each(|child| child.dictionaries(found));
            }
            ShapeKind::Dictionary { id, values } => {
                values.dictionaries(found);
                found.push((*id, values));
            }
        }
    }
}

/// Counts a field on this level, and all that is below it, against the fields that are left. `None`
/// where too few are left. The outermost field has level 1.
fn take_fields(field: &Field, level: usize, left: &mut usize) -> Option<()> {
    *left = left.checked_sub(level)?;
    match field.data_type() {
        DataType::Dictionary { values, .. } => take_fields(values, level + 1, left),
        other => other.children().try_for_each(|child| take_fields(child, level + 1, left)),
    }
}
