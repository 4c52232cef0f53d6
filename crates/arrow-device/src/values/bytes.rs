//! Reading text and bytes, in all their layouts.

use std::fmt;

use super::native::NativeElement;
use super::rows::{Rows, asked};
use super::strings::INLINE;
use crate::array::{read_i32, read_i64};
use crate::{DataType, HostArray, HostBytes, Result};

impl HostArray {
    /// The values of an array of text. All of them are looked at first: an offset or a view that
    /// leads outside, and bytes that are not UTF-8, are
    /// [`InvalidData`](crate::ErrorKind::InvalidData).
    ///
    /// ```
    /// # use arrow_device::{Array, DataType};
    /// let names = Array::from_texts(DataType::Utf8, [Some("Ada"), None])?;
    /// let host = names.host()?;
    /// assert_eq!(host.texts()?.iter().collect::<Vec<_>>(), [Some("Ada"), None]);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn texts(&self) -> Result<Texts<'_>> {
        if !self.data_type().is_text() {
            return Err(asked(format!("{} is not read as text", self.data_type())));
        }
        let bytes = Bytes::of(self)?;
        bytes.check(self)?;
        for index in 0..bytes.len() {
            bytes.text(self, index)?;
        }
        Ok(Texts { bytes })
    }

    /// The values of an array of bytes, with or without a fixed size, or of text. All of them are
    /// looked at first, as by [`texts`](Self::texts).
    pub fn bytes(&self) -> Result<Bytes<'_>> {
        let bytes = Bytes::of(self)?;
        bytes.check(self)?;
        Ok(bytes)
    }
}

/// The values of an array of text: see [`HostArray::texts`].
pub struct Texts<'host> {
    bytes: Bytes<'host>,
}

impl Texts<'_> {
    /// How many there are, nulls counted in.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A value; `None` where it is null, and past the end.
    pub fn get(&self, index: usize) -> Option<&str> {
        // `texts` saw that all are UTF-8.
        self.bytes.get(index).and_then(|bytes| str::from_utf8(bytes).ok())
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Option<&str>> + ExactSizeIterator {
        (0..self.len()).map(|index| self.get(index))
    }
}

/// The values of an array of bytes: see [`HostArray::bytes`].
pub struct Bytes<'host> {
    rows: Rows<'host>,
    layout: BytesLayout<'host>,
}

enum BytesLayout<'host> {
    Offsets { offsets: HostBytes<'host>, wide: bool, data: HostBytes<'host> },
    Views { views: HostBytes<'host>, data: Vec<HostBytes<'host>> },
    FixedSize { width: usize, data: HostBytes<'host> },
}

impl<'host> Bytes<'host> {
    /// As they are: nothing but the lengths of the buffers was looked at yet.
    pub(super) fn of(host: &'host HostArray) -> Result<Self> {
        let rows = Rows::of(host)?;
        let layout = match host.data_type() {
            DataType::Binary | DataType::Utf8 | DataType::LargeBinary | DataType::LargeUtf8 => {
                let wide = matches!(host.data_type(), DataType::LargeBinary | DataType::LargeUtf8);
                let offsets = host.buffer(1)?;
                let elements = offsets.len() / if wide { 8 } else { 4 };
                rows.check_len(host, 1, elements.saturating_sub(1))?;
                BytesLayout::Offsets { offsets, wide, data: host.buffer(2)? }
            }
            DataType::BinaryView | DataType::Utf8View => {
                let views = host.buffer(1)?;
                rows.check_len(host, 1, views.len() / 16)?;
                let last = host.array().buffer_count().saturating_sub(1);
                let data = (2..last).map(|index| host.buffer(index)).collect::<Result<_>>()?;
                BytesLayout::Views { views, data }
            }
            DataType::FixedSizeBinary(size) => {
                let width = usize::try_from(*size).unwrap_or(0);
                let data = host.buffer(1)?;
                if let Some(elements) = data.len().checked_div(width) {
                    rows.check_len(host, 1, elements)?;
                }
                BytesLayout::FixedSize { width, data }
            }
            other => return Err(asked(format!("{other} is not read as bytes"))),
        };
        Ok(Self { rows, layout })
    }

    /// How many there are, nulls counted in.
    pub fn len(&self) -> usize {
        self.rows.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A value; `None` where it is null, and past the end.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        // `bytes` saw that all lie inside.
        if self.rows.is_present(index) { self.find(index).ok() } else { None }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Option<&[u8]>> + ExactSizeIterator {
        (0..self.len()).map(|index| self.get(index))
    }

    /// A value that may lead outside; `None` where it is null.
    pub(super) fn at(&self, host: &HostArray, index: usize) -> Result<Option<&[u8]>> {
        if !self.rows.is_present(index) {
            return Ok(None);
        }
        self.find(index)
            .map(Some)
            .map_err(|fault| host.invalid(format!("element {index}: {fault}")))
    }

    /// The same as text.
    pub(super) fn text(&self, host: &HostArray, index: usize) -> Result<Option<&str>> {
        let Some(bytes) = self.at(host, index)? else { return Ok(None) };
        let text = str::from_utf8(bytes)
            .map_err(|error| host.invalid(format!("element {index} is not UTF-8: {error}")))?;
        Ok(Some(text))
    }

    /// Looks at all of them. Offsets have to be in order even where an element is null.
    fn check(&self, host: &HostArray) -> Result<()> {
        for index in 0..self.len() {
            if matches!(self.layout, BytesLayout::Offsets { .. }) {
                self.find(index)
                    .map_err(|fault| host.invalid(format!("element {index}: {fault}")))?;
            } else {
                self.at(host, index)?;
            }
        }
        Ok(())
    }

    /// Where an element is, whether or not it is null.
    fn find(&self, index: usize) -> Result<&[u8], RangeFault> {
        let element = self.rows.offset + index;
        match &self.layout {
            BytesLayout::Offsets { offsets, wide, data } => {
                let start = offset_at(offsets, *wide, element)?;
                let end = offset_at(offsets, *wide, element + 1)?;
                part(data, start, end).ok_or(RangeFault::Offsets { start, end, len: data.len() })
            }
            BytesLayout::Views { views, data } => {
                let view =
                    element.checked_mul(16).and_then(|start| views.get(start..)?.first_chunk());
                find_view(view.ok_or(RangeFault::Missing)?, data)
            }
            BytesLayout::FixedSize { width: 0, .. } => Ok(&[]),
            BytesLayout::FixedSize { width, data } => {
                let start = element.checked_mul(*width).ok_or(RangeFault::Missing)?;
                data.get(start..).and_then(|rest| rest.get(..*width)).ok_or(RangeFault::Missing)
            }
        }
    }
}

fn find_view<'view>(
    view: &'view [u8; 16],
    data: &'view [HostBytes<'_>],
) -> Result<&'view [u8], RangeFault> {
    let [length, prefix, buffer, offset] =
        [0, 4, 8, 12].map(|start| view.get(start..).and_then(i32::read).unwrap_or(0));
    let inline =
        usize::try_from(length).map_err(|_| RangeFault::View { length, buffer, offset })?;
    if inline <= INLINE {
        return view.get(4..4 + inline).ok_or(RangeFault::Missing);
    }
    let bytes = usize::try_from(buffer)
        .ok()
        .and_then(|buffer| data.get(buffer))
        .and_then(|bytes| part(bytes, offset.into(), i64::from(offset) + i64::from(length)))
        .ok_or(RangeFault::View { length, buffer, offset })?;
    if i32::read(bytes) == Some(prefix) { Ok(bytes) } else { Err(RangeFault::Prefix) }
}

/// Reads an offset that need not be aligned.
pub(super) fn offset_at(offsets: &[u8], wide: bool, index: usize) -> Result<i64, RangeFault> {
    let offset =
        if wide { read_i64(offsets, index) } else { read_i32(offsets, index).map(i64::from) };
    offset.ok_or(RangeFault::Missing)
}

/// The bytes from `start` to `end`, if these are in order and inside.
fn part(bytes: &[u8], start: i64, end: i64) -> Option<&[u8]> {
    bytes.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
}

/// What is wrong with an element.
#[derive(Debug)]
pub(super) enum RangeFault {
    /// The buffer ends before it.
    Missing,
    Offsets {
        start: i64,
        end: i64,
        len: usize,
    },
    View {
        length: i32,
        buffer: i32,
        offset: i32,
    },
    Prefix,
}

impl fmt::Display for RangeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("its buffer ends before it"),
            Self::Offsets { start, end, len } => {
                write!(f, "its offsets are {start} and {end}, and there are {len}")
            }
            Self::View { length, buffer, offset } => {
                write!(
                    f,
                    "its view names {length} bytes at {offset} of data buffer {buffer}, which are not there"
                )
            }
            Self::Prefix => f.write_str("its view begins otherwise than the bytes it names"),
        }
    }
}

impl fmt::Debug for Texts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Texts({})", self.len())
    }
}

impl fmt::Debug for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bytes({})", self.len())
    }
}
