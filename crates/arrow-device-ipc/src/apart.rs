//! [`MessageApart`]: a message whose buffers stay where they lie.
//!
//! An array is walked along its type, as the [encoder of bodies](crate::encode) does, but nothing
//! is cut: the header describes the buffers as they are. What must stay true: each array begins
//! with the first element of its buffers, because a header has no place for an offset.

use std::fmt;

use arrow_device::copy::BufferReader;
use arrow_device::{Array, BufferKind, DataType, ErrorKind, Layout, Result, UnionMode};

use crate::problem::refused;

/// A message that was made of arrays whose buffers something else moves. It keeps the arrays.
///
/// See [`Encoder::encode_apart`](crate::Encoder::encode_apart).
pub struct MessageApart {
    header: Vec<u8>,
    buffers: Vec<Option<BufferApart>>,
    is_dictionary: bool,
}

/// A buffer of an array, for a message.
#[derive(Clone, Debug)]
pub struct BufferApart {
    array: Array,
    index: usize,
    len: u64,
}

impl MessageApart {
    pub(crate) fn new(
        header: Vec<u8>,
        buffers: Vec<Option<BufferApart>>,
        is_dictionary: bool,
    ) -> Self {
        Self { header, buffers, is_dictionary }
    }

    /// Returns the header. Its places of buffers are those of a body in which the buffers lie one
    /// behind the other.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// Returns the buffers in the order in which the header lists them, `None` for one without
    /// bytes.
    pub fn buffers(&self) -> &[Option<BufferApart>] {
        &self.buffers
    }

    /// Whether the message has values of a dictionary, and not a batch.
    pub fn is_dictionary(&self) -> bool {
        self.is_dictionary
    }
}

impl fmt::Debug for MessageApart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageApart({} bytes, {} buffers)", self.header.len(), self.buffers.len())
    }
}

impl BufferApart {
    /// Returns the array that has the buffer.
    pub fn array(&self) -> &Array {
        &self.array
    }

    /// Returns the number of the buffer in its array.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns how many bytes of the buffer belong to the message. Never 0.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.len
    }
}

/// How the few numbers are read that a header needs.
#[derive(Clone, Copy)]
pub(crate) struct PartsReader<'a> {
    pub(crate) reader: &'a BufferReader,
    /// The most bytes of host memory for that.
    pub(crate) window: u64,
}

/// The nodes and buffers of a batch or of the values of a dictionary, in the order of the format.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) nodes: Vec<(i64, i64)>,
    pub(crate) buffers: Vec<Option<BufferApart>>,
    pub(crate) variadic_counts: Vec<i64>,
}

impl Parts {
    /// Adds an array and all below it.
    pub(crate) fn add(&mut self, array: &Array, walk: PartsReader<'_>) -> Result<()> {
        let (data_type, len) = (array.data_type(), array.len());
        if array.offset() != 0 {
            let message = format!("{data_type} begins at element {}: copy it", array.offset());
            return Err(refused(ErrorKind::Unsupported, message));
        }
        let layout = Layout::of(data_type);
        let nulls = match array.null_count() {
            _ if matches!(data_type, DataType::Null) => len,
            _ if !layout.has_validity() => 0,
            Some(nulls) => nulls,
            None => count_nulls(array, walk)?,
        };
        self.nodes.push((len as i64, nulls as i64));
        for (index, kind) in layout.buffers().iter().enumerate() {
            let is_needless = *kind == BufferKind::Validity && nulls == 0;
            let buffer = if is_needless { None } else { buffer(array, index, Some(*kind), walk)? };
            self.buffers.push(buffer);
        }
        if layout.is_variadic() {
            // The last buffer has the sizes of the data buffers, which the header has by itself.
            let fixed = layout.buffers().len();
            let behind = array.buffer_count().saturating_sub(1).max(fixed);
            self.variadic_counts.push((behind - fixed) as i64);
            for index in fixed..behind {
                self.buffers.push(buffer(array, index, None, walk)?);
            }
        }
        for index in 0..array.child_count() {
            let child = array.child(index)?;
            let child = match data_type {
                DataType::Struct(_) | DataType::Union { mode: UnionMode::Sparse, .. } => {
                    child.slice(0, len)?
                }
                DataType::FixedSizeList(_, size) => {
                    child.slice(0, len.saturating_mul(usize::try_from(*size).unwrap_or(0)))?
                }
                _ => child,
            };
            self.add(&child, walk)?;
        }
        Ok(())
    }
}

fn buffer(
    array: &Array,
    index: usize,
    kind: Option<BufferKind>,
    walk: PartsReader<'_>,
) -> Result<Option<BufferApart>> {
    let mut len = walk.reader.buffer(array, index)?.len();
    if array.is_empty() && kind.is_some_and(BufferKind::has_one_more) {
        // The one offset that an array without elements has. A message may leave it out.
        let one = kind.and_then(|kind| kind.byte_len(0)).unwrap_or(0);
        len = if array.extent(index).at_least() >= one { one } else { 0 };
    }
    Ok((len > 0).then(|| BufferApart { array: array.clone(), index, len }))
}

fn count_nulls(array: &Array, walk: PartsReader<'_>) -> Result<usize> {
    let bitmap = walk.reader.buffer(array, 0)?;
    if bitmap.is_empty() {
        return Ok(0);
    }
    let ones = walk.reader.count_ones(&bitmap, 0..array.len() as u64, walk.window)?;
    Ok(array.len().saturating_sub(usize::try_from(ones).unwrap_or(usize::MAX)))
}
