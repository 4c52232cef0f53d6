//! [`BufferReader`]: parts of buffers to the host, through host memory of a bounded size.
//!
//! 1. `buffer` finds the length of a buffer. Only where the last offset alone tells the length, a
//!    read of this offset is submitted and waited for.
//! 2. `read` takes a block of host memory that is kept for copies ([`Staging`]), orders the queue
//!    behind the data of each tree, and submits the copies of all parts at once. The parts lie in
//!    the block one behind the other.
//! 3. `wait` waits for one event behind all of these copies.
//!
//! What must stay true: until the event has passed, the block is kept, even where a [`Reading`] is
//! dropped.

use std::fmt;
use std::ops::{Deref, Range};

use super::run::in_flight::OnItsWay;
use super::run::staged::SMALLEST;
use super::source::{at_address, host_len};
use super::step;
use crate::array::{check_last_offset, read_i32, read_i64};
use crate::bits::count_ones;
use crate::device::ReadsTo;
use crate::device::driver::{Raw, Region, Spot};
use crate::device::staging::{Staging, StagingBlock};
use crate::pool::shared::Shared;
use crate::{Array, BufferKind, Error, ErrorKind, Extent, Queue, Result};

/// Reads parts of the buffers of arrays whose memory the host cannot read. The reader is for
/// programs that want all bytes of a large array one after the other, and never all of them in host
/// memory.
///
/// A copy ([`Array::copy_to`]) makes an array; a reader only shows bytes. The bytes go to memory
/// that is kept for copies to and from the device. This memory is pinned where the driver has
/// pinned memory, and counted as [`Held::staging`](crate::Held::staging). Each [`read`](Self::read)
/// is one submission, and waits for nothing. A program that submits the next read before it
/// [waits](Reading::wait) for the last one uses one part of the memory while the device fills the
/// other.
///
/// ```
/// use arrow_device::copy::BufferReader;
/// # fn main() -> arrow_device::Result<()> {
/// # let array = arrow_device::Array::from_values(arrow_device::DataType::Int8, [Some(1_i8)])?;
/// // A buffer of an array, a megabyte at a time. An array on a GPU is read by the same lines.
/// let reader = BufferReader::new(&array)?;
/// let buffer = reader.buffer(&array, 1)?;
/// for start in (0..buffer.len()).step_by(1 << 20) {
///     let end = buffer.len().min(start + (1 << 20));
///     let bytes = reader.read(&[(&buffer, start..end)])?.wait()?;
///     println!("{} bytes, the first of which is {}", bytes.len(), bytes[0]);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct BufferReader {
    queue: Queue,
}

/// A buffer of an array, of known length. It keeps the array.
#[derive(Clone)]
pub struct ReadableBuffer {
    array: Array,
    index: usize,
    len: u64,
}

/// Bytes on their way to the host. When a reading is dropped before they arrive, their memory is
/// kept until the queue has passed the copies.
#[must_use = "the bytes are there after `wait`"]
pub struct Reading {
    len: u64,
    /// The copies on their way. `None` where no byte was asked for.
    on_its_way: Option<OnItsWay<StagingBlock>>,
}

/// Bytes that a [`BufferReader`] read: the requested parts, one behind the other. Dropping them
/// gives the memory back.
pub struct ReadBytes {
    len: u64,
    block: Option<StagingBlock>,
}

impl BufferReader {
    /// Makes a reader for arrays on the device of this array, with a queue of its own.
    ///
    /// # Errors
    /// [`DeviceMissing`](ErrorKind::DeviceMissing): the device is not open here.
    pub fn new(array: &Array) -> Result<Self> {
        let device = array.open_device()?;
        let queue = device.open_queue().map_err(|error| error.at_step(step::OPEN))?;
        Ok(Self { queue })
    }

    /// Makes a reader on this queue, which has to reach the arrays.
    pub fn through(queue: &Queue) -> Self {
        Self { queue: queue.clone() }
    }

    /// The queue that reads.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// A buffer of an array. Its length is what the elements up to the end of the array need. The
    /// buffer is empty where the array has none with this number. A data buffer of views is as long
    /// as its producer says. The last buffer of an array of views, which has the sizes of the data
    /// buffers and lies in host memory, counts as empty.
    ///
    /// Where only the last offset tells the length of the bytes behind offsets, as in an array of
    /// another library, this reads the last offset and waits for it.
    ///
    /// # Errors
    /// [`InvalidData`](ErrorKind::InvalidData): the last offset leads outside.
    pub fn buffer(&self, array: &Array, index: usize) -> Result<ReadableBuffer> {
        let len = self.len_of(array, index)?;
        let base = array.node().buffer(index);
        // No address may wrap around, and no slice may be longer than `isize::MAX`.
        let fits = usize::try_from(len).ok().and_then(|len| base.addr().checked_add(len));
        if fits.is_none() || isize::try_from(len).is_err() {
            return Err(invalid(array, format!("buffer {index} cannot have {len} bytes")));
        }
        Ok(ReadableBuffer { array: array.clone(), index, len })
    }

    fn len_of(&self, array: &Array, index: usize) -> Result<u64> {
        let is_last = index.checked_add(1) == Some(array.buffer_count());
        let is_sizes = array.schema_node().layout.is_variadic() && is_last;
        if index >= array.buffer_count() || is_sizes || array.node().buffer(index).is_null() {
            return Ok(0);
        }
        let elements = u64::try_from(array.window().end()).unwrap_or(0);
        match array.buffer_kind(index) {
            _ if array.is_empty() => Ok(0),
            Some(BufferKind::VariableBytes) => self.variable_len(array, index),
            Some(kind) => Ok(kind.byte_len(elements).unwrap_or(0)),
            None => array.data_buffer_len(index, Some(&self.queue)),
        }
    }

    fn variable_len(&self, array: &Array, index: usize) -> Result<u64> {
        if let Extent::Exact(len) = array.extent(index) {
            return Ok(len);
        }
        let is_wide = array.buffer_kind(index - 1) == Some(BufferKind::Offsets64);
        let width = if is_wide { 8 } else { 4 };
        let offsets = self.buffer(array, index - 1)?;
        let start = offsets.len.checked_sub(width);
        let start = start.ok_or_else(|| invalid(array, "the offsets are missing".into()))?;
        let bytes = self.read(&[(&offsets, start..offsets.len)])?.wait()?;
        let narrow = || read_i32(&bytes, 0).map(i64::from);
        let last = if is_wide { read_i64(&bytes, 0) } else { narrow() }.unwrap_or(-1);
        let base = Raw::from_ptr(array.node().buffer(index).cast_mut());
        // SAFETY: UNS-22: a buffer of the array, which is alive.
        let found = unsafe { self.queue.device().driver().locate(base) }.ok().flatten();
        let there = found.map(|found| found.remaining);
        check_last_offset(last, there, index).map_err(|message| invalid(array, message))
    }

    /// Submits a read of these parts, into one block of host memory.
    ///
    /// # Errors
    /// * [`InvalidArgument`](ErrorKind::InvalidArgument): a part is not inside of its buffer.
    /// * [`NotReachable`](ErrorKind::NotReachable): the queue does not reach a buffer, or copies
    ///   [whole units](crate::driver::Properties::copy_unit) that its memory does not have.
    /// * [`OutOfMemory`](ErrorKind::OutOfMemory) of the host, and whatever the driver says.
    pub fn read(&self, parts: &[(&ReadableBuffer, Range<u64>)]) -> Result<Reading> {
        let mut total = 0_u64;
        for (buffer, part) in parts {
            let sum = part.end.checked_sub(part.start).filter(|_| part.end <= buffer.len);
            let sum = sum.and_then(|len| total.checked_add(len));
            total = sum.ok_or_else(|| {
                let (Range { start, end }, len) = (part, buffer.len);
                let message = format!("bytes {start} to {end} of a buffer of {len} bytes");
                Error::new(ErrorKind::InvalidArgument, message)
            })?;
        }
        if total == 0 {
            return Ok(Reading { len: 0, on_its_way: None });
        }
        // The size is rounded up so that reads of similar sizes reuse one block of memory.
        let room = total.checked_next_power_of_two().unwrap_or(total).max(SMALLEST);
        let block =
            Staging::take(self.queue.device(), room).map_err(|error| error.at_step(step::STAGE))?;
        let (mut regions, mut to) = (Vec::with_capacity(parts.len()), 0);
        // One view for each tree. The views order the queue behind the data, and keep the data.
        let mut views = Vec::new();
        let mut last: Option<&Array> = None;
        for (buffer, part) in parts.iter().filter(|(_, part)| !part.is_empty()) {
            let array = &buffer.array;
            if last.is_none_or(|last| !Shared::ptr_eq(last.tree(), array.tree())) {
                let holder = || array.tree().open_device();
                self.queue.require_units(array.device(), holder)?;
                views.push(array.on(&self.queue).map_err(|error| error.at_step(step::ORDER))?);
                last = Some(array);
            }
            let base = Raw::from_ptr(array.node().buffer(buffer.index).cast_mut());
            let from = Spot { base, offset: part.start };
            let len = part.end - part.start;
            let address = block.address().wrapping_add(host_len(to));
            regions.push(Region { from, to: at_address(address), len });
            to += len;
        }
        // SAFETY: UNS-21: each source lies inside of its buffer, which covers the elements of its
        // array (UNS-4, or the builder's check), and a view orders the queue behind the data and
        // keeps it; the block has room for all of them one behind the other, nobody else has it,
        // and it is kept with the copies.
        let submitted = unsafe { OnItsWay::submit(&self.queue, block, regions, ReadsTo::AndWait) };
        drop(views);
        let on_its_way = submitted.map_err(|error| error.at_step(step::READ))?;
        Ok(Reading { len: total, on_its_way: Some(on_its_way) })
    }

    /// Counts the set bits in a range of the bits of a buffer. The bytes pass through host memory,
    /// `window` bytes at a time: the bits of one window are counted while the device fills the next
    /// one. Waits for each window.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read) and of [`Reading::wait`].
    pub fn count_ones(
        &self,
        buffer: &ReadableBuffer,
        bits: Range<u64>,
        window: u64,
    ) -> Result<u64> {
        let (window, end) = (window.max(1), bits.end.div_ceil(8));
        let read = |start: u64| {
            let behind = start.saturating_add(window).min(end);
            (start < end).then(|| self.read(&[(buffer, start..behind)])).transpose()
        };
        let (mut start, mut ones) = (bits.start / 8, 0);
        let mut reading = if bits.is_empty() { None } else { read(start)? };
        while let Some(this) = reading {
            let behind = start.saturating_add(window).min(end);
            reading = read(behind)?;
            let first = bits.start.saturating_sub(start * 8);
            let last = bits.end.min(behind.saturating_mul(8)) - start * 8;
            ones += count_ones(&this.wait()?, host_len(first), host_len(last - first)) as u64;
            start = behind;
        }
        Ok(ones)
    }
}

fn invalid(array: &Array, message: String) -> Error {
    Error::new(ErrorKind::InvalidData, message).on_device(array.device())
}

impl ReadableBuffer {
    /// How many bytes may be read.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Reading {
    /// Waits until the bytes are there.
    pub fn wait(self) -> Result<ReadBytes> {
        let Some(on_its_way) = self.on_its_way else {
            return Ok(ReadBytes { len: 0, block: None });
        };
        let passed = on_its_way.event().synchronize();
        passed.map_err(|error| error.at_step(step::READ))?;
        // SAFETY: the event has passed.
        let block = unsafe { on_its_way.into_arrived() }?;
        Ok(ReadBytes { len: self.len, block: Some(block) })
    }
}

impl Deref for ReadBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let Some(block) = &self.block else { return &[] };
        // SAFETY: the block is at least as long, all of it is initialised, nothing writes to it any
        // more, and nobody else has it.
        unsafe { std::slice::from_raw_parts(block.address(), host_len(self.len)) }
    }
}

impl fmt::Debug for BufferReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufferReader({})", self.queue.device().id())
    }
}

impl fmt::Debug for ReadableBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadableBuffer({} of {:?}, {} bytes)", self.index, self.array, self.len)
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reading({} bytes)", self.len)
    }
}

impl fmt::Debug for ReadBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadBytes({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataType;

    #[test]
    fn a_number_that_names_no_buffer_gives_an_empty_one() {
        for data_type in [DataType::Utf8, DataType::Utf8View] {
            let array = Array::from_texts(data_type, [Some("one")]).unwrap();
            let reader = BufferReader::new(&array).unwrap();
            for number in [array.buffer_count(), usize::MAX] {
                assert!(reader.buffer(&array, number).unwrap().is_empty());
            }
        }
    }

    #[test]
    fn bits_are_counted_the_same_through_windows_of_all_sizes() {
        let bytes: Vec<u8> = (0..40_u8).map(|byte| byte.wrapping_mul(37) ^ 0x5a).collect();
        let array = Array::builder(DataType::UInt8).len(40);
        let array = array.buffers([None, Some(bytes.clone().into())]).finish_ready().unwrap();
        let reader = BufferReader::new(&array).unwrap();
        let buffer = reader.buffer(&array, 1).unwrap();
        for (start, end) in [(0, 320), (3, 311), (8, 16), (13, 14), (7, 9), (160, 160), (319, 320)]
        {
            let expected = count_ones(&bytes, start, end - start) as u64;
            for window in [0, 1, 2, 7, 39, 40, u64::MAX] {
                let bits = start as u64..end as u64;
                let found = reader.count_ones(&buffer, bits, window).unwrap();
                assert_eq!(found, expected, "{start}..{end} through {window}");
            }
        }
        let error = reader.count_ones(&buffer, 0..321, 8).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}
