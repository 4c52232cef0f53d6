//! Arrays of numbers, bits and nulls from Rust values.

use super::native::{Native, native_name};
use super::pieces::{Bits, aligned, refused};
use crate::{Array, DataType, Result};

/// Arrays from Rust values. `None` is a null. There is a validity bitmap only if there are nulls.
impl Array {
    /// An array of any fixed-width type. [`Native`] lists the Rust type for each Arrow type.
    ///
    /// ```
    /// use arrow_device::{Array, DataType};
    ///
    /// let days = Array::from_values(DataType::Date32, [Some(19_000), None])?;
    /// assert_eq!((days.len(), days.null_count()), (2, Some(1)));
    /// assert_eq!(days.host()?.value(0)?.to_string(), "2022-01-08");
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    ///
    /// A Rust type that does not belong to the Arrow type is an
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument).
    pub fn from_values<T: Native>(
        data_type: DataType,
        values: impl IntoIterator<Item = Option<T>>,
    ) -> Result<Self> {
        let is_dictionary = matches!(data_type, DataType::Dictionary { .. });
        if is_dictionary || native_name(&data_type) != Some(T::NAME) {
            return Err(refused(format!("an array of {data_type} is not made from {}", T::NAME)));
        }
        let mut present = Bits::default();
        let mut bytes = Vec::new();
        for value in values {
            present.push(value.is_some());
            match value {
                Some(value) => value.write(&mut bytes),
                None => bytes.resize(bytes.len() + T::WIDTH, 0),
            }
        }
        present.array(data_type, [aligned(&bytes)?])?.finish_ready()
    }

    /// An array of booleans.
    ///
    /// ```
    /// # use arrow_device::Array;
    /// let answers = Array::from_bools([Some(true), None])?;
    /// assert_eq!(answers.host()?.bools()?.iter().collect::<Vec<_>>(), [Some(true), None]);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn from_bools(values: impl IntoIterator<Item = Option<bool>>) -> Result<Self> {
        let mut present = Bits::default();
        let mut bits = Bits::default();
        for value in values {
            present.push(value.is_some());
            bits.push(value.unwrap_or(false));
        }
        present.array(DataType::Boolean, [bits.into_buffer()?])?.finish_ready()
    }

    /// An array of `len` nulls, of the null type.
    pub fn nulls(len: usize) -> Result<Self> {
        Self::builder(DataType::Null).len(len).finish_ready()
    }
}
