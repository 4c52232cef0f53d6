//! Reads numbers and bits, and which elements are null.

use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::Range;

use super::native::{Native, native_name};
use crate::{DataType, Error, ErrorKind, HostArray, HostBytes, Plain, Result};

impl HostArray {
    /// The values of an array of any fixed-width type, or the keys of a dictionary-encoded array.
    /// [`Native`] lists the Rust type for each Arrow type.
    ///
    /// ```
    /// # use arrow_device::{Array, DataType};
    /// let numbers =
    ///     Array::from_values(DataType::Int32, [Some(7), None, Some(9)])?.slice(1, 2)?;
    /// let host = numbers.host()?;
    /// let values = host.values::<i32>()?;
    /// assert_eq!(values.iter().collect::<Vec<_>>(), [None, Some(9)]);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn values<T: Native>(&self) -> Result<Values<'_, T>> {
        let data_type = self.data_type();
        if native_name(data_type) != Some(T::NAME) {
            return Err(asked(format!("{data_type} is not read as {}", T::NAME)));
        }
        let rows = Rows::of(self)?;
        let bytes = self.buffer(1)?;
        rows.check_len(self, 1, bytes.len() / T::WIDTH)?;
        Ok(Values { rows, bytes, of: PhantomData })
    }

    /// The values of an array of booleans.
    pub fn bools(&self) -> Result<Bools<'_>> {
        if !matches!(self.data_type(), DataType::Boolean) {
            return Err(asked(format!("{} is not read as booleans", self.data_type())));
        }
        let rows = Rows::of(self)?;
        let bits = self.buffer(1)?;
        rows.check_len(self, 1, bits.len().saturating_mul(8))?;
        Ok(Bools { rows, bits })
    }
}

/// The values of a fixed-width array: see [`HostArray::values`].
///
/// The values stay in the memory of the array, so no iterator can be collected into this type.
/// [`Array::of`](crate::Array::of) and [`Array::from_values`](crate::Array::from_values) make an
/// array of an iterator of values.
pub struct Values<'host, T> {
    rows: Rows<'host>,
    bytes: HostBytes<'host>,
    of: PhantomData<T>,
}

impl<T: Native> Values<'_, T> {
    /// How many values there are, nulls included.
    pub fn len(&self) -> usize {
        self.rows.len
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at an index; `None` where it is null, and past the end.
    pub fn get(&self, index: usize) -> Option<T> {
        if !self.rows.is_present(index) {
            return None;
        }
        T::read(self.bytes.get((self.rows.offset + index) * T::WIDTH..)?)
    }

    /// All values in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Option<T>> + ExactSizeIterator {
        (0..self.len()).map(|index| self.get(index))
    }
}

/// An iterator over values, made by `for value in &values`.
pub struct ValuesIter<'values, 'host, T> {
    values: &'values Values<'host, T>,
    left: Range<usize>,
}

/// An iterator over values that owns them, made by `for value in values`.
pub struct IntoValues<'host, T> {
    values: Values<'host, T>,
    left: Range<usize>,
}

macro_rules! values_in_order {
    ($type:ident<$($lifetime:lifetime),*>) => {
        impl<T: Native> Iterator for $type<$($lifetime,)* T> {
            type Item = Option<T>;

            fn next(&mut self) -> Option<Option<T>> {
                self.left.next().map(|index| self.values.get(index))
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                self.left.size_hint()
            }
        }

        impl<T: Native> DoubleEndedIterator for $type<$($lifetime,)* T> {
            fn next_back(&mut self) -> Option<Option<T>> {
                self.left.next_back().map(|index| self.values.get(index))
            }
        }

        impl<T: Native> ExactSizeIterator for $type<$($lifetime,)* T> {}

        impl<T: Native> FusedIterator for $type<$($lifetime,)* T> {}

        impl<T> fmt::Debug for $type<$($lifetime,)* T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({} left)", stringify!($type), self.left.len())
            }
        }
    };
}
values_in_order!(ValuesIter<'_, '_>);
values_in_order!(IntoValues<'_>);

impl<'host, T: Native> IntoIterator for Values<'host, T> {
    type Item = Option<T>;
    type IntoIter = IntoValues<'host, T>;

    fn into_iter(self) -> IntoValues<'host, T> {
        let left = 0..self.len();
        IntoValues { values: self, left }
    }
}

impl<'values, 'host, T: Native> IntoIterator for &'values Values<'host, T> {
    type Item = Option<T>;
    type IntoIter = ValuesIter<'values, 'host, T>;

    fn into_iter(self) -> ValuesIter<'values, 'host, T> {
        ValuesIter { values: self, left: 0..self.len() }
    }
}

impl<T: Native + Plain> Values<'_, T> {
    /// All values as a slice, in which null elements have any value. `None` where the values are
    /// not aligned for this type.
    pub fn as_slice(&self) -> Option<&[T]> {
        if self.is_empty() {
            return Some(&[]);
        }
        // No overflow: `values` has checked that the buffer is long enough.
        let (start, end) =
            (self.rows.offset * T::WIDTH, (self.rows.offset + self.rows.len) * T::WIDTH);
        let bytes = self.bytes.get(start..end)?;
        // SAFETY: `Plain` promises that each pattern of bytes is a value, which is what `align_to`
        // asks for.
        let (before, values, after) = unsafe { bytes.align_to::<T>() };
        (before.is_empty() && after.is_empty()).then_some(values)
    }
}

/// The values of an array of booleans: see [`HostArray::bools`].
pub struct Bools<'host> {
    rows: Rows<'host>,
    bits: HostBytes<'host>,
}

impl Bools<'_> {
    /// How many values there are, nulls included.
    pub fn len(&self) -> usize {
        self.rows.len
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at an index; `None` where it is null, and past the end.
    pub fn get(&self, index: usize) -> Option<bool> {
        self.rows.is_present(index).then(|| bit(&self.bits, self.rows.offset + index)).flatten()
    }

    /// All values in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Option<bool>> + ExactSizeIterator {
        (0..self.len()).map(|index| self.get(index))
    }
}

/// Which elements of an array are not null, by the array's own bitmap.
pub(super) struct Rows<'host> {
    /// The bitmap. `None` where no element is null, or all are.
    validity: Option<HostBytes<'host>>,
    /// Whether all elements are null, because the type is the null type.
    is_null_type: bool,
    /// How many elements come before the first one, in every buffer.
    pub(super) offset: usize,
    pub(super) len: usize,
}

impl<'host> Rows<'host> {
    pub(super) fn of(host: &'host HostArray) -> Result<Self> {
        let array = host.array();
        let is_null_type = matches!(array.data_type(), DataType::Null);
        let mut rows =
            Self { validity: None, is_null_type, offset: array.offset(), len: array.len() };
        if array.schema_node().layout.has_validity() && !array.node().buffer(0).is_null() {
            let bitmap = host.buffer(0)?;
            rows.check_len(host, 0, bitmap.len().saturating_mul(8))?;
            rows.validity = Some(bitmap);
        }
        Ok(rows)
    }

    /// Checks that a buffer with this number of elements covers the array.
    pub(super) fn check_len(&self, host: &HostArray, buffer: usize, elements: usize) -> Result<()> {
        let end = self.offset.saturating_add(self.len);
        if self.len == 0 || elements >= end {
            return Ok(());
        }
        Err(host.invalid(format!("buffer {buffer} has {elements} elements and needs {end}")))
    }

    pub(super) fn has_bitmap(&self) -> bool {
        self.validity.is_some()
    }

    /// Whether there is such an element, and it is not null.
    pub(super) fn is_present(&self, index: usize) -> bool {
        index < self.len
            && !self.is_null_type
            && self
                .validity
                .as_ref()
                .is_none_or(|bitmap| bit(bitmap, self.offset + index).unwrap_or(false))
    }
}

fn bit(bytes: &[u8], index: usize) -> Option<bool> {
    Some(bytes.get(index / 8)? >> (index % 8) & 1 == 1)
}

/// The error where a caller asked for values that this array does not have.
pub(super) fn asked(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message).during("read")
}

/// The error for an index past the end.
pub(super) fn past_the_end(host: &HostArray, index: usize) -> Error {
    asked(format!("there is no element {index} in an array of {}", host.len()))
}

impl<T> fmt::Debug for Values<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Values({} of {})", self.rows.len, std::any::type_name::<T>())
    }
}

impl fmt::Debug for Bools<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bools({})", self.rows.len)
    }
}
