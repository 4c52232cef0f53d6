//! The elements of a tensor in host memory, as a borrow with strides.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::dims::Dims;
use super::memory::ELEMENTS;
use super::{Element, HostTensor};
use crate::{Error, ErrorKind, HostBytes, Result};

/// The elements of a [`HostTensor`], where they lie and with their strides. Views of other
/// libraries are made of this without a copy.
///
/// Nobody writes to the elements, and the address is valid, as long as this value lives. The bytes
/// between elements that are not neighbours in memory may never have been written, and must not be
/// read.
///
/// The borrow ends with the host's tensor:
///
/// ```compile_fail,E0505
/// use arrow_device::dlpack::HostTensor;
///
/// fn end(host: HostTensor) -> arrow_device::Result<()> {
///     let elements = host.elements::<f32>()?;
///     drop(host);
///     println!("{:?}", elements.as_slice());
///     Ok(())
/// }
/// ```
pub struct HostElements<'tensor, T> {
    /// Keeps the memory readable for the host.
    bytes: HostBytes<'tensor>,
    /// The place of the first element in the bytes. Without elements the number means nothing.
    first: usize,
    dims: &'tensor Dims,
    elements: PhantomData<&'tensor [T]>,
}

impl HostTensor {
    /// The elements where they lie, for a library that reads elements with strides.
    ///
    /// ```
    /// use arrow_device::Buffer;
    /// use arrow_device::dlpack::{Dtype, Tensor};
    ///
    /// let rows =
    ///     Tensor::from_buffer(Buffer::from(vec![1_i32, 2, 3, 4, 5, 6]), Dtype::INT32, &[2, 3])?;
    /// let host = rows.host()?;
    /// assert_eq!(host.elements::<i32>()?.as_slice(), Some(&[1, 2, 3, 4, 5, 6][..]));
    ///
    /// let columns = rows.permuted(&[1, 0])?.host()?;
    /// let elements = columns.elements::<i32>()?;
    /// assert_eq!((elements.shape(), elements.strides()), (&[3, 2][..], &[1, 3][..]));
    /// assert_eq!(elements.get(&[2, 0]), Some(&3));
    /// assert_eq!(elements.as_slice(), None);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// * [`InvalidArgument`](ErrorKind::InvalidArgument): the elements are of another type.
    /// * [`Unsupported`](ErrorKind::Unsupported): the address of an element is no multiple of its
    ///   alignment. [`to_vec`](Self::to_vec) copies such elements.
    pub fn elements<T: Element>(&self) -> Result<HostElements<'_, T>> {
        let tensor = self.tensor();
        self.check_type::<T>()?;
        let (dims, elements) = (tensor.dims(), PhantomData);
        let Some((low, high)) = dims.reach() else {
            return Ok(HostElements { bytes: HostBytes::empty(), first: 0, dims, elements });
        };
        let bytes = self.memory().buffer(ELEMENTS)?;
        let outside = || {
            let message = "an element lies outside of the memory of the tensor";
            Error::new(ErrorKind::InvalidData, message).on_device(tensor.device())
        };
        let place = |place| tensor.start_of(place).and_then(|place| usize::try_from(place).ok());
        let (low, first, high) = (place(low), place(0), place(high));
        let end = high.and_then(|high| high.checked_add(size_of::<T>()));
        if low.is_none() || end.is_none_or(|end| end > bytes.place().1) {
            return Err(outside());
        }
        let first = first.ok_or_else(outside)?;
        // All elements are aligned as the first one is, because strides are whole elements.
        if !bytes.place().0.wrapping_add(first).cast::<T>().is_aligned() {
            let message = format!("the elements are not aligned to {} bytes", align_of::<T>());
            return Err(Error::new(ErrorKind::Unsupported, message).on_device(tensor.device()));
        }
        Ok(HostElements { bytes, first, dims, elements })
    }
}

impl<T: Element> HostElements<'_, T> {
    /// The length of each dimension.
    pub fn shape(&self) -> &[i64] {
        self.dims.shape()
    }

    /// How many elements lie between neighbours in each dimension. The number means nothing for a
    /// dimension with fewer than two elements.
    pub fn strides(&self) -> &[i64] {
        self.dims.strides()
    }

    /// How many elements.
    pub fn len(&self) -> usize {
        // All elements are in memory, so their number fits into a `usize`.
        self.dims.count() as usize
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.dims.count() == 0
    }

    /// The address of the first element, aligned and not null. Other elements may lie before it, if
    /// a stride is negative. Without elements the address must not be read.
    pub fn as_ptr(&self) -> *const T {
        if self.is_empty() {
            return NonNull::dangling().as_ptr();
        }
        self.bytes.place().0.wrapping_add(self.first).cast()
    }

    /// All elements as a slice, if they lie in row-major order without gaps.
    pub fn as_slice(&self) -> Option<&[T]> {
        if !self.dims.is_compact() {
            return None;
        }
        // SAFETY: the address is aligned, and a compact tensor has all its elements behind it,
        // without gaps: `elements` found the first and the last one inside the bytes. `T` has their
        // size (`Element` is sealed), any bytes are a value of `T` (`Plain`), and nobody writes to
        // them while the bytes are borrowed.
        Some(unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len()) })
    }

    /// The element at an index; `None` outside of the shape.
    pub fn get(&self, index: &[usize]) -> Option<&T> {
        let (shape, strides) = (self.shape(), self.strides());
        if index.len() != shape.len() {
            return None;
        }
        let mut place = 0_isize;
        for ((index, length), stride) in index.iter().zip(shape).zip(strides) {
            let index = i64::try_from(*index).ok().filter(|index| index < length)?;
            // No overflow: every place is inside the reach, which is inside the memory. Only the
            // stride of a dimension with one element can be any number.
            place = place.wrapping_add(index.wrapping_mul(*stride) as isize);
        }
        // SAFETY: the index is inside the shape, so that the element is one of those between the
        // lowest and the highest, which `elements` found inside the bytes. `T` has the size of an
        // element (`Element` is sealed). The address is aligned, any bytes are a value of `T`
        // (`Plain`), and nobody writes to them while the bytes are borrowed.
        Some(unsafe { &*self.as_ptr().wrapping_offset(place) })
    }
}

impl<T> fmt::Debug for HostElements<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shape, strides) = (self.dims.shape(), self.dims.strides());
        write!(f, "HostElements({shape:?} by {strides:?})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;
    use crate::dlpack::{Dtype, Tensor};

    fn numbers(shape: &[i64]) -> Tensor {
        let count = shape.iter().product::<i64>();
        let buffer = Buffer::from((0..count).collect::<Vec<i64>>());
        Tensor::from_buffer(buffer, Dtype::INT64, shape).unwrap()
    }

    /// All elements by their indices, in row-major order.
    fn all(elements: &HostElements<'_, i64>) -> Vec<i64> {
        let lengths = elements.shape().iter().map(|length| *length as usize);
        let indices = lengths.fold(vec![Vec::new()], |before, length| {
            let next = |start: &Vec<usize>| {
                let start = start.clone();
                (0..length).map(move |index| [start.as_slice(), &[index]].concat())
            };
            before.iter().flat_map(next).collect()
        });
        indices.iter().map(|index| *elements.get(index).unwrap()).collect()
    }

    #[test]
    fn elements_are_those_that_a_copy_has_at_any_strides() {
        let cube = numbers(&[2, 3, 4]);
        for tensor in [
            cube.clone(),
            cube.permuted(&[2, 0, 1]).unwrap(),
            cube.sliced(2, 3, 4, -1).unwrap(),
            cube.sliced(1, 2, 2, -2).unwrap().sliced(0, 1, 1, 1).unwrap(),
            cube.sliced(2, 1, 2, 2).unwrap(),
            numbers(&[]),
            numbers(&[3, 0]),
        ] {
            let host = tensor.host().unwrap();
            let copied = host.to_vec::<i64>().unwrap();
            let elements = host.elements::<i64>().unwrap();
            assert_eq!(all(&elements), copied, "{tensor:?}");
            assert_eq!(elements.len(), copied.len(), "{tensor:?}");
            let slice = elements.as_slice();
            assert_eq!(slice.is_some(), tensor.is_compact(), "{tensor:?}");
            assert!(slice.is_none_or(|slice| slice == copied), "{tensor:?}");
        }
    }

    #[test]
    fn elements_lie_where_the_buffer_is() {
        let values = vec![1.5_f64, 2.5, 3.5];
        let address = values.as_ptr();
        let row = Tensor::from_buffer(Buffer::from(values), Dtype::FLOAT64, &[3]).unwrap();
        let host = row.host().unwrap();
        assert_eq!(host.elements::<f64>().unwrap().as_ptr(), address);
        let last = row.sliced(0, 2, 3, -1).unwrap().host().unwrap();
        assert_eq!(last.elements::<f64>().unwrap().as_ptr(), address.wrapping_add(2));
    }

    #[test]
    fn an_index_outside_of_the_shape_is_nothing() {
        let host = numbers(&[2, 3]).host().unwrap();
        let elements = host.elements::<i64>().unwrap();
        assert_eq!(elements.get(&[1, 2]), Some(&5));
        for index in [&[2, 0][..], &[0, 3], &[0], &[0, 0, 0], &[usize::MAX, 0]] {
            assert_eq!(elements.get(index), None, "{index:?}");
        }
    }

    #[test]
    fn other_types_and_places_between_addresses_are_refused() {
        let row = numbers(&[3]);
        let error = row.host().unwrap().elements::<f64>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        let bytes = Buffer::from(vec![0_i64; 3]).slice(1, 16).unwrap();
        let odd = Tensor::from_buffer(bytes, Dtype::INT64, &[2]).unwrap();
        let error = odd.host().unwrap().elements::<i64>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert_eq!(odd.host().unwrap().to_vec::<i64>().unwrap(), [0, 0]);
    }
}
