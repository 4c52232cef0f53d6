//! [`Node`]: an array that is written, on the host or on a device; [`Source`]: a buffer of such an
//! array.
//!
//! The bytes of a host array are read where they lie. The bytes of an array on a device pass
//! through host memory, in windows of half of
//! [`WriteOptions::staging`](crate::WriteOptions::staging).

use std::ops::Range;
use std::sync::Arc;

use arrow_device::copy::{BufferReader, ReadableBuffer};
use arrow_device::{Array, DataType, Error, ErrorKind, HostArray, Result};

use crate::problem::{gone, refused};

/// An array, and how its bytes are reached.
#[derive(Clone)]
pub(crate) enum Node {
    Host(HostArray),
    Device { array: Array, reader: Arc<Staged> },
}

/// Reads from a device, a window of bytes at a time.
pub(crate) struct Staged {
    pub(crate) reader: BufferReader,
    /// The most bytes of a window. Two windows are used in turn.
    pub(crate) window: u64,
}

impl Node {
    pub(crate) fn array(&self) -> &Array {
        match self {
            Self::Host(array) => array.array(),
            Self::Device { array, .. } => array,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.array().len()
    }

    pub(crate) fn offset(&self) -> usize {
        self.array().offset()
    }

    pub(crate) fn data_type(&self) -> &DataType {
        self.array().data_type()
    }

    pub(crate) fn child(&self, index: usize) -> Result<Self> {
        match self {
            Self::Host(array) => array.child(index).map(Self::Host),
            Self::Device { array, reader } => {
                Ok(Self::Device { array: array.child(index)?, reader: reader.clone() })
            }
        }
    }

    /// Returns a child, cut to some of its elements.
    pub(crate) fn part(&self, index: usize, offset: usize, len: usize) -> Result<Self> {
        let child = self.child(index)?;
        if offset == 0 && len == child.len() { Ok(child) } else { child.slice(offset, len) }
    }

    /// Returns the children of a struct, with its offset and length applied.
    pub(crate) fn columns(&self) -> Result<Vec<Self>> {
        let (offset, len) = (self.offset(), self.len());
        (0..self.array().child_count()).map(|index| self.part(index, offset, len)).collect()
    }

    pub(crate) fn slice(&self, offset: usize, len: usize) -> Result<Self> {
        match self {
            Self::Host(array) => array.slice(offset, len).map(Self::Host),
            Self::Device { array, reader } => {
                Ok(Self::Device { array: array.slice(offset, len)?, reader: reader.clone() })
            }
        }
    }

    /// Returns how many elements are null, by the bitmap, which has a bit for each.
    pub(crate) fn count_nulls(&self) -> Result<usize> {
        match self {
            Self::Host(array) => array.null_count(),
            Self::Device { array, reader } => {
                let bitmap = reader.reader.buffer(array, 0)?;
                let start = array.offset() as u64;
                let bits = start..start + array.len() as u64;
                let ones = reader.reader.count_ones(&bitmap, bits, reader.window)?;
                Ok(array.len().saturating_sub(usize::try_from(ones).unwrap_or(usize::MAX)))
            }
        }
    }

    /// Returns the dictionary, on whatever device it lies.
    pub(crate) fn dictionary(&self) -> Option<Array> {
        self.array().dictionary()
    }

    pub(crate) fn buffer(&self, index: usize) -> Result<Source> {
        match self {
            Self::Host(array) => {
                let len = array.buffer(index)?.len() as u64;
                Ok(Source { len, place: Place::Host { array: array.clone(), index } })
            }
            Self::Device { array, reader } => {
                let buffer = reader.reader.buffer(array, index)?;
                let len = buffer.len();
                Ok(Source { len, place: Place::Device { buffer, reader: reader.clone() } })
            }
        }
    }

    /// An error: a buffer has fewer bytes than its array needs.
    #[cold]
    pub(crate) fn short(&self, index: usize) -> Error {
        let (data_type, len) = (self.data_type(), self.len());
        let message = format!("buffer {index} is too short for {len} elements of {data_type}");
        refused(ErrorKind::InvalidData, message)
    }
}

/// A buffer whose length is known.
#[derive(Clone)]
pub(crate) struct Source {
    len: u64,
    place: Place,
}

#[derive(Clone)]
pub(crate) enum Place {
    Host { array: HostArray, index: usize },
    Device { buffer: ReadableBuffer, reader: Arc<Staged> },
}

fn short_range(range: &Range<u64>) -> Result<Range<usize>> {
    let start = usize::try_from(range.start).ok();
    let range = start.zip(usize::try_from(range.end).ok());
    range.map(|(start, end)| start..end).ok_or_else(gone)
}

impl Source {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Calls `look` with some bytes. From a device these are at most a window.
    pub(crate) fn show<T>(&self, range: Range<u64>, look: impl FnOnce(&[u8]) -> T) -> Result<T> {
        match &self.place {
            Place::Host { array, index } => {
                let bytes = array.buffer(*index)?;
                Ok(look(bytes.get(short_range(&range)?).ok_or_else(gone)?))
            }
            Place::Device { buffer, reader } => {
                let bytes = reader.reader.read(&[(buffer, range)])?.wait()?;
                Ok(look(&bytes))
            }
        }
    }
}

/// Elements of one buffer, or of two whose elements are looked at together.
pub(crate) struct Elements<'a> {
    pub(crate) first: (&'a Source, u64),
    /// The second buffer, if there is one, and the width of its elements.
    pub(crate) second: Option<(&'a Source, u64)>,
}

impl Elements<'_> {
    /// The most elements that one read gives: those that fit into a window of the device. `None` on
    /// the host, where one read gives all elements of a buffer.
    fn at_once(&self) -> Option<usize> {
        let (first, width) = self.first;
        let Place::Device { reader, .. } = first.place() else { return None };
        let both = width + self.second.map_or(0, |(_, width)| width);
        Some(usize::try_from(reader.window / both).unwrap_or(usize::MAX).max(1))
    }

    /// Leaves out elements at the beginning of the range that `is_before` is true of, and returns
    /// where the rest begins. On the host all such elements are left out. On a device some may
    /// stay, which the next window shows.
    ///
    /// In a sorted buffer, elements that `is_before` is true of come first. In another buffer the
    /// result is any place of the range. `None` where a buffer is too short for the range.
    pub(crate) fn skip_sorted(
        &self,
        elements: Range<usize>,
        is_before: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<usize>> {
        let (mut low, mut high) = (elements.start, elements.end);
        let near = self.at_once().unwrap_or(0);
        while high - low > near {
            let middle = low + (high - low) / 2;
            let mut goes_before = false;
            let seen = self.walk(middle..middle + 1, |_, first, _| {
                goes_before = is_before(first);
                Ok(true)
            })?;
            if seen.is_none() {
                return Ok(None);
            }
            if goes_before {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(Some(low))
    }

    /// Calls `look` with stretches of a range of elements, in order, until it returns `false`.
    /// `None` where a buffer is too short for the range.
    pub(crate) fn walk(
        &self,
        elements: Range<usize>,
        mut look: impl FnMut(Range<usize>, &[u8], &[u8]) -> Result<bool>,
    ) -> Result<Option<()>> {
        let (first, width) = self.first;
        let bytes_of = |width: u64, range: &Range<usize>| {
            let start = (range.start as u64).checked_mul(width)?;
            Some(start..(range.end as u64).checked_mul(width)?)
        };
        let is_there = |(source, width): (&Source, u64)| {
            bytes_of(width, &elements).is_some_and(|bytes| bytes.end <= source.len())
        };
        if elements.is_empty() {
            return Ok(Some(()));
        }
        if !is_there(self.first) || !self.second.is_none_or(is_there) {
            return Ok(None);
        }
        let mut start = elements.start;
        while start < elements.end {
            let count = (elements.end - start).min(self.at_once().unwrap_or(usize::MAX));
            let stretch = start..start + count;
            let range = bytes_of(width, &stretch).ok_or_else(gone)?;
            let goes_on = match (first.place(), self.second) {
                (_, None) => first.show(range, |bytes| look(stretch, bytes, &[]))??,
                (Place::Device { buffer, reader }, Some((second, width))) => {
                    let other = bytes_of(width, &stretch).ok_or_else(gone)?;
                    let Place::Device { buffer: second, .. } = second.place() else {
                        return Err(gone());
                    };
                    let split = usize::try_from(range.end - range.start).unwrap_or(0);
                    let parts = [(buffer, range), (second, other)];
                    let bytes = reader.reader.read(&parts)?.wait()?;
                    let (one, other) = bytes.split_at_checked(split).ok_or_else(gone)?;
                    look(stretch, one, other)?
                }
                (_, Some((second, width))) => {
                    let other = bytes_of(width, &stretch).ok_or_else(gone)?;
                    let shown = first
                        .show(range, |one| second.show(other, |other| look(stretch, one, other)));
                    shown???
                }
            };
            if !goes_on {
                break;
            }
            start += count;
        }
        Ok(Some(()))
    }
}
