//! Arrays that the host may read, and the bytes of their buffers.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::ptr::NonNull;

use super::{Array, Ready};
use crate::bits::count_ones;
use crate::device::driver::{HostAccess, Raw, Spot};
use crate::{BufferKind, DataType, Device, DeviceType, Error, ErrorKind, Extent, Queue, Result};

impl Array {
    /// Waits until the data is ready, and lets the host read it where it lies.
    ///
    /// Works for host memory, and for memory that an open device can show to the host, such as
    /// pinned memory. For other memory it is [`Unsupported`](ErrorKind::Unsupported): copy it.
    ///
    /// ```
    /// use arrow_device::{Array, DataType};
    ///
    /// let numbers = Array::builder(DataType::Int16)
    ///     .len(2)
    ///     .buffers([None, Some(vec![7_i16, 8].into())])
    ///     .finish_ready()?;
    /// assert_eq!(&numbers.host()?.buffer(1)?[..2], 7_i16.to_ne_bytes());
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn host(&self) -> Result<HostArray> {
        let device = if self.device().device_type == DeviceType::CPU {
            None
        } else {
            Some(self.open_device()?)
        };
        let access =
            device.as_ref().map_or(HostAccess::Mapped, |device| device.properties().host_access);
        if access == HostAccess::None {
            let message = "the host cannot read this memory; copy it to the host";
            return Err(Error::new(ErrorKind::Unsupported, message)
                .during("host")
                .on_device(self.device()));
        }
        self.wait()?;
        Ok(HostArray { array: self.clone(), device })
    }
}

impl Array {
    /// Counts the null elements by the bitmap of this array, where the count is not known and the
    /// array is ready and in host memory. Calls no driver and waits for nothing.
    pub(crate) fn count_nulls_on_host(&mut self) -> Result<()> {
        let is_known = self.null_count().is_some();
        let has_bitmap = self.buffer_kind(0) == Some(BufferKind::Validity);
        let is_here = self.device().device_type == DeviceType::CPU && self.ready() == Ready::Now;
        if is_known || !has_bitmap || !is_here {
            return Ok(());
        }
        let host = HostArray { array: self.clone(), device: None };
        self.window.null_count = host.null_count()? as i64;
        Ok(())
    }

    /// How many data buffers a view array has.
    pub(crate) fn data_buffer_count(&self) -> usize {
        if self.schema_node().layout.is_variadic() {
            self.buffer_count().saturating_sub(3)
        } else {
            0
        }
    }

    /// How long a data buffer of a view array is, by its sizes.
    pub(crate) fn data_buffer_len(&self, index: usize, queue: Option<&Queue>) -> Result<u64> {
        if let Extent::Exact(len) = self.extent(index) {
            return Ok(len);
        }
        let sizes = self.node().buffer(self.buffer_count().saturating_sub(1)).cast::<i64>();
        let number = index.checked_sub(2).filter(|number| *number < self.data_buffer_count());
        let Some(number) = number.filter(|_| !sizes.is_null()) else { return Ok(0) };
        let size = self.read_size(sizes.wrapping_add(number), queue)?;
        self.checked_size(number, size)
    }
}

/// An array that is ready and that the host may read.
///
/// The bytes are what the producer wrote: nothing here has looked at them yet.
#[derive(Clone)]
pub struct HostArray {
    array: Array,
    /// The device that shows its memory to the host. `None` for host memory.
    device: Option<Device>,
}

impl HostArray {
    /// The array.
    pub fn array(&self) -> &Array {
        &self.array
    }

    /// How many elements.
    pub fn len(&self) -> usize {
        self.array.len()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.array.is_empty()
    }

    /// The type.
    pub fn data_type(&self) -> &DataType {
        self.array.data_type()
    }

    /// How many elements are null. They are counted by the bitmap where the array does not know
    /// ([`Array::null_count`]). Bits that the bitmap does not have count as null elements.
    ///
    /// ```
    /// use arrow_device::{Array, Buffer, DataType};
    ///
    /// let numbers = Array::builder(DataType::Int8)
    ///     .len(3)
    ///     .buffers([Some(vec![0b101_u8].into()), Some(vec![1_i8, 2, 3].into())])
    ///     .finish_ready()?;
    /// assert_eq!((numbers.null_count(), numbers.host()?.null_count()?), (None, 1));
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn null_count(&self) -> Result<usize> {
        match self.array.null_count() {
            Some(known) => Ok(known),
            None if self.array.buffer_kind(0) != Some(BufferKind::Validity) => Ok(0),
            None => {
                let (offset, len) = (self.array.offset(), self.len());
                Ok(len - count_ones(&self.buffer(0)?, offset, len))
            }
        }
    }

    /// A part of the array: see [`Array::slice`].
    pub fn slice(&self, offset: usize, length: usize) -> Result<Self> {
        Ok(self.of(self.array.slice(offset, length)?))
    }

    /// A child, as [`Array::child`] gives it.
    pub fn child(&self, index: usize) -> Result<Self> {
        Ok(self.of(self.array.child(index)?))
    }

    /// The values of a dictionary-encoded array.
    pub fn dictionary(&self) -> Option<Self> {
        Some(self.of(self.array.dictionary()?))
    }

    /// A child in this tree, so that errors can name the child's place in the tree.
    pub(crate) fn node_child(&self, index: usize) -> Result<Self> {
        Ok(self.of(self.array.node_child(index)?))
    }

    /// The values of a dictionary-encoded array, with their place in this tree.
    pub(crate) fn node_dictionary(&self) -> Option<Self> {
        Some(self.of(self.array.node_dictionary()?))
    }

    /// Another array of the same data, which is ready and readable for the same reasons.
    pub(crate) fn of(&self, array: Array) -> Self {
        Self { array, device: self.device.clone() }
    }

    /// The bytes of a buffer, from its first byte to the last one that the elements of the array
    /// need. Empty where there is no buffer.
    ///
    /// The length of the data of strings and lists is read from the last offset. A last offset that
    /// is negative, or past the end of a buffer whose length is known, is
    /// [`InvalidData`](ErrorKind::InvalidData). Any other last offset is trusted, as
    /// [`Array::import`] says.
    pub fn buffer(&self, index: usize) -> Result<HostBytes<'_>> {
        let len = self.buffer_len(index)?;
        self.first_bytes(index, len)
    }

    fn first_bytes(&self, index: usize, len: u64) -> Result<HostBytes<'_>> {
        let base = self.array.node().buffer(index);
        let (Some(address), Ok(short)) =
            (NonNull::new(base.cast_mut().cast::<u8>()), usize::try_from(len))
        else {
            return Ok(HostBytes::empty());
        };
        if short == 0 {
            return Ok(HostBytes::empty());
        }
        // A slice has at most `isize::MAX` bytes. A length that was read from the data may be
        // larger.
        if isize::try_from(len).is_err() || address.addr().get().checked_add(short).is_none() {
            return Err(self.invalid(format!("buffer {index} cannot have {len} bytes")));
        }
        let Some(device) = &self.device else {
            return Ok(HostBytes { address, len: short, mapping: None, array: PhantomData });
        };
        // The sizes of the data buffers of views are in host memory, wherever the other buffers
        // are.
        if self.is_sizes(index) {
            return Ok(HostBytes { address, len: short, mapping: None, array: PhantomData });
        }
        let spot = Spot { base: Raw::from_ptr(base.cast_mut()), offset: 0 };
        let (array, device) = (self.array.clone(), device.clone());
        let mapping = Box::new(BytesMapping { _array: array, device, spot });
        // SAFETY: `host` waited until the data is complete; the buffer holds at least `len` bytes.
        let address = unsafe { mapping.device.driver().map(spot, len) }?;
        Ok(HostBytes { address, len: short, mapping: Some(mapping), array: PhantomData })
    }

    fn is_sizes(&self, index: usize) -> bool {
        self.array.schema_node().layout.is_variadic() && index + 1 == self.array.buffer_count()
    }

    /// How many bytes of this buffer the elements up to the end of the array need.
    fn buffer_len(&self, index: usize) -> Result<u64> {
        let array = &self.array;
        if array.node().buffer(index).is_null() {
            return Ok(0);
        }
        let elements = u64::try_from(array.window().end()).unwrap_or(0);
        match array.buffer_kind(index) {
            Some(BufferKind::VariableBytes) => self.variable_len(index),
            Some(_) if array.is_empty() => Ok(0),
            Some(kind) => Ok(kind.byte_len(elements).unwrap_or(0)),
            None if self.is_sizes(index) => Ok(8 * self.array.data_buffer_count() as u64),
            None => self.array.data_buffer_len(index, None),
        }
    }

    /// The last offset: the length of the buffer that the offsets point into.
    fn variable_len(&self, index: usize) -> Result<u64> {
        if self.array.is_empty() {
            return Ok(0);
        }
        let offsets = self.buffer(index - 1)?;
        let end = usize::try_from(self.array.window().end()).unwrap_or(0);
        let last = match self.array.buffer_kind(index - 1) {
            Some(BufferKind::Offsets64) => read_i64(&offsets, end),
            _ => read_i32(&offsets, end).map(i64::from),
        };
        let there = match self.array.extent(index) {
            Extent::Exact(len) => Some(len),
            _ => None,
        };
        check_last_offset(last.unwrap_or(0), there, index).map_err(|message| self.invalid(message))
    }

    pub(crate) fn invalid(&self, message: String) -> Error {
        let place = self.array.tree().schema.place(self.array.node_number());
        Error::new(ErrorKind::InvalidData, message).at(place).on_device(self.array.device())
    }
}

/// The length of the buffer behind the offsets, as the last offset says. The buffer has `there`
/// bytes where its length is known. A last offset is written by another party: it may be negative,
/// or larger than the buffer.
#[inline]
pub(crate) fn check_last_offset(
    last: i64,
    there: Option<u64>,
    index: usize,
) -> std::result::Result<u64, String> {
    match (u64::try_from(last), there) {
        (Err(_), _) => Err(format!("the last offset is {last}")),
        (Ok(last), Some(len)) if last > len => {
            Err(format!("the last offset is {last}, and buffer {index} has {len} bytes"))
        }
        // A slice has at most `isize::MAX` bytes.
        (Ok(_), _) if isize::try_from(last).is_err() => {
            Err(format!("the last offset is {last}, which no memory holds"))
        }
        (Ok(last), _) => Ok(last),
    }
}

/// Reads a number that need not be aligned.
pub(crate) fn read_i64(bytes: &[u8], index: usize) -> Option<i64> {
    let start = index.checked_mul(8)?;
    bytes.get(start..)?.first_chunk().map(|bytes| i64::from_ne_bytes(*bytes))
}

/// Reads a number that need not be aligned.
pub(crate) fn read_i32(bytes: &[u8], index: usize) -> Option<i32> {
    let start = index.checked_mul(4)?;
    bytes.get(start..)?.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes))
}

impl fmt::Debug for HostArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostArray({:?})", self.array)
    }
}

/// The bytes of a buffer, for the host to read.
pub struct HostBytes<'array> {
    address: NonNull<u8>,
    len: usize,
    mapping: Option<Box<BytesMapping>>,
    array: PhantomData<&'array HostArray>,
}

/// What the mapping of a device's memory needs until the mapping ends. Bytes that are forgotten
/// stay mapped for ever, and keep the memory and its device.
struct BytesMapping {
    _array: Array,
    device: Device,
    spot: Spot,
}

impl HostBytes<'_> {
    pub(crate) fn empty() -> Self {
        Self { address: NonNull::dangling(), len: 0, mapping: None, array: PhantomData }
    }

    /// The address of the first byte and the number of bytes. For bytes of which some may never
    /// have been written, and which are therefore no slice.
    pub(crate) fn place(&self) -> (*const u8, usize) {
        (self.address.as_ptr(), self.len)
    }

    /// Some of the bytes, where other bytes beside them may never have been written, as between the
    /// columns that a tensor lies over.
    pub(crate) fn part(&self, range: Range<usize>) -> Option<&[u8]> {
        let len = range.end.checked_sub(range.start).filter(|_| range.end <= self.len)?;
        let start = self.address.as_ptr().wrapping_add(range.start);
        // SAFETY: the address is that of `self.len` bytes that the array or the mapping keeps, and
        // the range lies inside. Those of its bytes that are read were written: the caller asks for
        // no gap between columns.
        Some(unsafe { std::slice::from_raw_parts(start, len) })
    }
}

// SAFETY: shared bytes that nobody writes to; a mapping can be ended on any thread (DRV-1).
unsafe impl Send for HostBytes<'_> {}
// SAFETY: shared bytes that nobody writes to, and members that do not change.
unsafe impl Sync for HostBytes<'_> {}

impl Deref for HostBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes lie at the address: for host memory `import`'s or `Buffer::foreign`'s
        // contract says so, for mapped memory the driver's. They are initialised, which is the same
        // contracts' or, for memory allocated here, that of `Memory::into_buffer`, whose extent
        // ends with what is written. They are not written to while the array lives ("both the
        // producer and the consumer SHOULD consider the exported data to be immutable", which the
        // same contracts make a promise).
        unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.len) }
    }
}

impl Drop for HostBytes<'_> {
    fn drop(&mut self) {
        if let Some(BytesMapping { device, spot, .. }) = self.mapping.as_deref() {
            // SAFETY: ends what `first_bytes` began, with the same place and length.
            unsafe { device.driver().unmap(*spot, self.len as u64, self.address) }
        }
    }
}

impl fmt::Debug for HostBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostBytes({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Array, DataType, ErrorKind};

    #[test]
    fn an_offset_past_the_end_of_a_known_buffer_is_not_followed() {
        let text = Array::builder(DataType::Utf8)
            .len(1)
            .buffers([None, Some(vec![0_i32, 1000].into()), Some(vec![b'a'; 3].into())])
            .finish_ready()
            .unwrap();
        let host = text.host().unwrap();
        assert_eq!(host.buffer(2).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
