//! The format strings of the C data interface, read and written.

use super::{DataType, Field, Text};
use crate::{Error, ErrorKind, Result};

/// No format string longer than this is read.
pub(crate) const MAX_FORMAT_BYTES: usize = 64 << 10;

/// Reads a format string
pub(crate) fn parse<C>(
    format: &[u8],
    children: C,
    dictionary: Option<Field>,
    flags: i64,
    timezone: &mut dyn FnMut(&str) -> Text,
) -> Result<DataType>
where
    C: IntoIterator<Item = Field, IntoIter: ExactSizeIterator>,
{
    Err(Error::new(ErrorKind::Unsupported, "not read yet"))
}

/// The format string of a type. For most types it is a part of the program and costs nothing.
pub(crate) fn write(data_type: &DataType) -> Text {
    Text::EMPTY
}
