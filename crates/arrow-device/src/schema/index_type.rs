//! [`IndexType`]: the types that the index of a dictionary may have.

use std::fmt;

use super::DataType;
use crate::{Error, ErrorKind};

/// The type of the indices of a dictionary: an integer.
///
/// ```
/// use arrow_device::{DataType, IndexType};
///
/// assert_eq!(DataType::from(IndexType::Int8), DataType::Int8);
/// assert_eq!(IndexType::try_from(&DataType::Int8)?, IndexType::Int8);
/// assert!(IndexType::try_from(&DataType::Utf8).is_err());
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexType {
    /// Signed integers of 8 bits.
    Int8,
    /// Signed integers of 16 bits.
    Int16,
    /// Signed integers of 32 bits.
    Int32,
    /// Signed integers of 64 bits.
    Int64,
    /// Unsigned integers of 8 bits.
    UInt8,
    /// Unsigned integers of 16 bits.
    UInt16,
    /// Unsigned integers of 32 bits.
    UInt32,
    /// Unsigned integers of 64 bits.
    UInt64,
}

impl IndexType {
    /// All index types.
    pub const ALL: [Self; 8] = [
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::UInt8,
        Self::UInt16,
        Self::UInt32,
        Self::UInt64,
    ];

    /// The type of an array of the indices alone.
    pub fn data_type(self) -> &'static DataType {
        match self {
            Self::Int8 => &DataType::Int8,
            Self::Int16 => &DataType::Int16,
            Self::Int32 => &DataType::Int32,
            Self::Int64 => &DataType::Int64,
            Self::UInt8 => &DataType::UInt8,
            Self::UInt16 => &DataType::UInt16,
            Self::UInt32 => &DataType::UInt32,
            Self::UInt64 => &DataType::UInt64,
        }
    }

    /// The index type of this type. `None` for a type that is no integer.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Int8 => Self::Int8,
            DataType::Int16 => Self::Int16,
            DataType::Int32 => Self::Int32,
            DataType::Int64 => Self::Int64,
            DataType::UInt8 => Self::UInt8,
            DataType::UInt16 => Self::UInt16,
            DataType::UInt32 => Self::UInt32,
            DataType::UInt64 => Self::UInt64,
            _ => return None,
        })
    }
}

impl From<IndexType> for DataType {
    fn from(index: IndexType) -> Self {
        index.data_type().clone()
    }
}

impl TryFrom<&DataType> for IndexType {
    type Error = Error;

    /// Fails with [`InvalidArgument`](ErrorKind::InvalidArgument) for a type that is no integer.
    fn try_from(data_type: &DataType) -> Result<Self, Error> {
        let message = || format!("the index of a dictionary is an integer, and not {data_type}");
        Self::of(data_type).ok_or_else(|| Error::new(ErrorKind::InvalidArgument, message()))
    }
}

impl fmt::Display for IndexType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.data_type().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::examples;
    use super::*;

    #[test]
    fn the_types_of_indices_are_the_integers() {
        for index in IndexType::ALL {
            assert_eq!(IndexType::try_from(&DataType::from(index)).unwrap(), index);
            assert_eq!(index.to_string(), index.data_type().to_string());
        }
        let indices = examples().iter().filter(|it| IndexType::of(&it.data_type).is_some()).count();
        assert_eq!(indices, IndexType::ALL.len());
        for example in examples() {
            let is_index = IndexType::of(&example.data_type).is_some();
            assert_eq!(is_index, example.data_type.is_integer(), "{}", example.data_type);
        }
    }

    #[test]
    fn another_type_is_no_index_and_the_error_names_it() {
        let error = IndexType::try_from(&DataType::Utf8).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("utf8"), "{error}");
    }
}
