//! Reads text and bytes, in all their layouts: behind offsets, as views, and of a fixed size.
//!
//! 1. [`BytePlaces`] finds where an element lies. When such a value is made, only the lengths of
//!    buffers are checked.
//! 2. [`Bytes`] has the data buffers as well. [`HostArray::bytes`] checks all elements, and
//!    [`HostArray::texts`] also checks that they are UTF-8, so later reads cannot fail.
//! 3. A reader of one element (`with_element`), or of many arrays one after the other
//!    ([`BytesPart`]), checks each element that it reads.
//!
//! Places and data are apart, because an array of views may have more data buffers than elements:
//! to load all of them for one element would take too long.
//!
//! What must stay true: no offset, length or number of a buffer is believed. An element that leads
//! outside its buffer is an error that names the element.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use super::native::NativeElement;
use super::rows::{Rows, asked};
use super::strings::INLINE;
use crate::array::{read_i32, read_i64};
use crate::utf8::{Utf8Check, distinct_bytes};
use crate::{DataType, Error, HostArray, HostBytes, Result};

impl HostArray {
    /// The values of an array of text. All of them are checked first: an offset or a view that
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
        // Short texts lie in their views.
        let views = bytes.len().saturating_mul(16);
        let room = distinct_bytes(bytes.data.iter().map(|data| &**data)).saturating_add(views);
        let (mut utf8, mut wrong) = (Utf8Check::within(room), None);
        for index in 0..bytes.len() {
            let text = bytes.at(self, index)?.unwrap_or_default();
            if !utf8.admits(index, text) {
                wrong = Some((index, text));
                break;
            }
        }
        // The texts that were kept have smaller numbers than the one that ended the loop.
        if let Some((index, text)) = utf8.first_wrong().or(wrong) {
            text_of(self, index, text)?;
        }
        Ok(Texts { bytes })
    }

    /// The values of an array of bytes, with or without a fixed size, or of text. All of them are
    /// checked first, as in [`texts`](Self::texts).
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
    /// How many values there are, nulls included.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at an index; `None` where it is null, and past the end.
    pub fn get(&self, index: usize) -> Option<&str> {
        // `texts` has checked that all values are UTF-8.
        self.bytes.get(index).and_then(|bytes| str::from_utf8(bytes).ok())
    }

    /// All values in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Option<&str>> + ExactSizeIterator {
        (0..self.len()).map(|index| self.get(index))
    }
}

/// The values of an array of bytes: see [`HostArray::bytes`].
pub struct Bytes<'host> {
    places: BytePlaces<'host>,
    data: Vec<HostBytes<'host>>,
}

/// The places of the values of an array of bytes. [`Bytes`] has the data too. Without it, the data
/// of one element is loaded at a time, because an array may have as many data buffers as elements.
pub(super) struct BytePlaces<'host> {
    rows: Rows<'host>,
    layout: BytesLayout<'host>,
}

enum BytesLayout<'host> {
    Offsets { offsets: HostBytes<'host>, wide: bool },
    Views { views: HostBytes<'host> },
    FixedSize { width: usize },
}

impl<'host> BytePlaces<'host> {
    /// The places in an array, of which only the lengths of the buffers were checked.
    pub(super) fn of(host: &'host HostArray) -> Result<Self> {
        let rows = Rows::of(host)?;
        let layout = match host.data_type() {
            DataType::Binary | DataType::Utf8 | DataType::LargeBinary | DataType::LargeUtf8 => {
                let wide = matches!(host.data_type(), DataType::LargeBinary | DataType::LargeUtf8);
                let offsets = host.buffer(1)?;
                let elements = offsets.len() / if wide { 8 } else { 4 };
                rows.check_len(host, 1, elements.saturating_sub(1))?;
                BytesLayout::Offsets { offsets, wide }
            }
            DataType::BinaryView | DataType::Utf8View => {
                let views = host.buffer(1)?;
                rows.check_len(host, 1, views.len() / 16)?;
                BytesLayout::Views { views }
            }
            DataType::FixedSizeBinary(size) => {
                BytesLayout::FixedSize { width: usize::try_from(*size).unwrap_or(0) }
            }
            other => return Err(asked(format!("{other} is not read as bytes"))),
        };
        Ok(Self { rows, layout })
    }

    /// The numbers of the buffers that hold data.
    fn data_buffers(&self, host: &HostArray) -> Range<usize> {
        match self.layout {
            BytesLayout::Offsets { .. } => 2..3,
            BytesLayout::Views { .. } => 2..host.array().buffer_count().saturating_sub(1).max(2),
            BytesLayout::FixedSize { .. } => 1..2,
        }
    }

    /// The position of an element's data buffer among the data buffers. Such a buffer may not
    /// exist, and the element may need none.
    fn data_number(&self, index: usize) -> usize {
        match &self.layout {
            BytesLayout::Views { views } => view_at(views, self.rows.offset + index)
                .and_then(|view| view.get(8..).and_then(i32::read))
                .and_then(|number| usize::try_from(number).ok())
                .unwrap_or(usize::MAX),
            _ => 0,
        }
    }

    /// The number of the buffer that holds an element, and that buffer. The buffer is empty where
    /// the view of the element names one that does not exist.
    pub(super) fn data_of(
        &self,
        host: &'host HostArray,
        index: usize,
    ) -> Result<(usize, Option<HostBytes<'host>>)> {
        let buffers = self.data_buffers(host);
        let number = buffers.start.saturating_add(self.data_number(index));
        let data = buffers.contains(&number).then(|| host.buffer(number)).transpose()?;
        Ok((number, data))
    }

    /// Checks that the buffer of elements of a fixed size covers the array.
    fn check_width(&self, host: &HostArray, data: Option<&[u8]>) -> Result<()> {
        match (&self.layout, data) {
            (BytesLayout::FixedSize { width }, Some(data)) if *width > 0 => {
                self.rows.check_len(host, 1, data.len() / width)
            }
            _ => Ok(()),
        }
    }

    /// The length of an element in bytes, as the array says; 0 for an impossible length, and for a
    /// null, but for one of a fixed size, which has bytes as well.
    fn length(&self, index: usize) -> usize {
        if let BytesLayout::FixedSize { width } = &self.layout {
            return *width;
        }
        if !self.rows.is_present(index) {
            return 0;
        }
        let element = self.rows.offset + index;
        let length = match &self.layout {
            BytesLayout::Offsets { offsets, wide } => {
                let offset = |element| offset_at(offsets, *wide, element).unwrap_or(0);
                offset(element + 1).saturating_sub(offset(element))
            }
            BytesLayout::Views { views } => {
                view_at(views, element).and_then(|view| i32::read(view)).unwrap_or(0).into()
            }
            BytesLayout::FixedSize { .. } => 0,
        };
        usize::try_from(length).unwrap_or(0)
    }

    /// An element, which may lead outside the buffer from [`data_of`](Self::data_of).
    pub(super) fn find_in<'a>(
        &'a self,
        host: &HostArray,
        index: usize,
        data: &'a [u8],
    ) -> Result<&'a [u8]> {
        self.find(index, data).map_err(|fault| explain(host, index, &fault))
    }

    /// The bytes of an element, whether or not it is null.
    fn find<'a>(&'a self, index: usize, data: &'a [u8]) -> Result<&'a [u8], RangeFault> {
        let element = self.rows.offset + index;
        match &self.layout {
            BytesLayout::Offsets { offsets, wide } => {
                let start = offset_at(offsets, *wide, element)?;
                let end = offset_at(offsets, *wide, element + 1)?;
                part(data, start, end).ok_or(RangeFault::Offsets { start, end, len: data.len() })
            }
            BytesLayout::Views { views } => {
                find_view(view_at(views, element).ok_or(RangeFault::Missing)?, data)
            }
            BytesLayout::FixedSize { width: 0 } => Ok(&[]),
            BytesLayout::FixedSize { width } => {
                let start = element.checked_mul(*width).ok_or(RangeFault::Missing)?;
                data.get(start..).and_then(|rest| rest.get(..*width)).ok_or(RangeFault::Missing)
            }
        }
    }
}

/// Reads one element, and loads only that element's data buffer: an array of views may have any
/// number of data buffers.
pub(super) fn with_element<R>(
    host: &HostArray,
    index: usize,
    read: impl FnOnce(Option<&[u8]>) -> Result<R>,
) -> Result<R> {
    let places = BytePlaces::of(host)?;
    if !places.rows.is_present(index) {
        return read(None);
    }
    let (_, data) = places.data_of(host, index)?;
    places.check_width(host, data.as_deref())?;
    read(Some(places.find_in(host, index, data.as_deref().unwrap_or_default())?))
}

/// One of many arrays of bytes that are read one after the other. The data buffers of an array are
/// loaded together if there are no more of them than elements, and otherwise for each element. All
/// arrays together then never load more buffers than there are elements.
pub(super) enum BytesPart<'host> {
    /// With all data buffers.
    Whole(Bytes<'host>),
    /// Without data buffers.
    Single(BytePlaces<'host>),
}

impl<'host> BytesPart<'host> {
    /// An array of which only the lengths of the buffers were checked.
    pub(super) fn of(host: &'host HostArray) -> Result<Self> {
        let places = BytePlaces::of(host)?;
        if places.data_buffers(host).len() > host.len() {
            return Ok(Self::Single(places));
        }
        Bytes::load(places, host).map(Self::Whole)
    }

    /// Checks all elements.
    pub(super) fn check(&self, host: &HostArray) -> Result<()> {
        match self {
            Self::Whole(bytes) => bytes.check(host),
            // Each element is checked when it is read.
            Self::Single(_) => Ok(()),
        }
    }

    /// An element, which may lead outside; `None` where it is null.
    pub(super) fn at(&self, host: &'host HostArray, index: usize) -> Result<Option<Cow<'_, [u8]>>> {
        match self {
            Self::Whole(bytes) => Ok(bytes.at(host, index)?.map(Cow::Borrowed)),
            Self::Single(places) if !places.rows.is_present(index) => Ok(None),
            Self::Single(places) => {
                let (_, data) = places.data_of(host, index)?;
                places.check_width(host, data.as_deref())?;
                let data = data.as_deref().unwrap_or_default();
                Ok(Some(Cow::Owned(places.find_in(host, index, data)?.to_owned())))
            }
        }
    }

    /// The lengths of the elements in bytes, as the array says. The length of a null is 0, but for
    /// one of a fixed size.
    pub(super) fn lengths(&self) -> impl Iterator<Item = usize> {
        let places = match self {
            Self::Whole(bytes) => &bytes.places,
            Self::Single(places) => places,
        };
        (0..places.rows.len).map(|index| places.length(index))
    }
}

impl<'host> Bytes<'host> {
    /// The values of an array of which only the lengths of the buffers were checked.
    pub(super) fn of(host: &'host HostArray) -> Result<Self> {
        Self::load(BytePlaces::of(host)?, host)
    }

    fn load(places: BytePlaces<'host>, host: &'host HostArray) -> Result<Self> {
        let data: Vec<HostBytes<'_>> =
            places.data_buffers(host).map(|number| host.buffer(number)).collect::<Result<_>>()?;
        places.check_width(host, data.first().map(|data| &**data))?;
        Ok(Self { places, data })
    }

    /// How many values there are, nulls included.
    pub fn len(&self) -> usize {
        self.places.rows.len
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at an index; `None` where it is null, and past the end.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        // `bytes` has checked that all values lie inside.
        if self.places.rows.is_present(index) { self.find(index).ok() } else { None }
    }

    /// All values in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Option<&[u8]>> + ExactSizeIterator {
        (0..self.len()).map(|index| self.get(index))
    }

    /// A value, which may lead outside; `None` where it is null.
    pub(super) fn at(&self, host: &HostArray, index: usize) -> Result<Option<&[u8]>> {
        if !self.places.rows.is_present(index) {
            return Ok(None);
        }
        self.find(index).map(Some).map_err(|fault| explain(host, index, &fault))
    }

    /// Checks all values. Offsets have to be in order even where an element is null.
    fn check(&self, host: &HostArray) -> Result<()> {
        // Elements of one size are all inside if the last one is. There may be very many without
        // bytes, so there is no loop.
        let last = self.len().checked_sub(1);
        if matches!(self.places.layout, BytesLayout::FixedSize { .. })
            && last.is_none_or(|last| self.find(last).is_ok())
        {
            return Ok(());
        }
        for index in 0..self.len() {
            if matches!(self.places.layout, BytesLayout::Offsets { .. }) {
                self.find(index).map_err(|fault| explain(host, index, &fault))?;
            } else {
                self.at(host, index)?;
            }
        }
        Ok(())
    }

    /// The bytes of an element, whether or not it is null.
    fn find(&self, index: usize) -> Result<&[u8], RangeFault> {
        let data = self.data.get(self.places.data_number(index));
        self.places.find(index, data.map_or(&[], |data| data))
    }
}

/// The bytes of an element as text.
pub(super) fn text_of<'a>(host: &HostArray, index: usize, bytes: &'a [u8]) -> Result<&'a str> {
    str::from_utf8(bytes)
        .map_err(|error| host.invalid(format!("element {index} is not UTF-8: {error}")))
}

fn explain(host: &HostArray, index: usize, fault: &RangeFault) -> Error {
    host.invalid(format!("element {index}: {fault}"))
}

fn view_at(views: &[u8], element: usize) -> Option<&[u8; 16]> {
    element.checked_mul(16).and_then(|start| views.get(start..)?.first_chunk())
}

/// The bytes that a view holds itself, or those in `data`, the buffer that it names.
fn find_view<'view>(view: &'view [u8; 16], data: &'view [u8]) -> Result<&'view [u8], RangeFault> {
    let [length, prefix, buffer, offset] =
        [0, 4, 8, 12].map(|start| view.get(start..).and_then(i32::read).unwrap_or(0));
    let inline =
        usize::try_from(length).map_err(|_| RangeFault::View { length, buffer, offset })?;
    if inline <= INLINE {
        return view.get(4..4 + inline).ok_or(RangeFault::Missing);
    }
    let bytes = part(data, offset.into(), i64::from(offset) + i64::from(length))
        .ok_or(RangeFault::View { length, buffer, offset })?;
    if i32::read(bytes) == Some(prefix) { Ok(bytes) } else { Err(RangeFault::Prefix) }
}

/// Reads an offset, which need not be aligned.
pub(super) fn offset_at(offsets: &[u8], wide: bool, index: usize) -> Result<i64, RangeFault> {
    let offset =
        if wide { read_i64(offsets, index) } else { read_i32(offsets, index).map(i64::from) };
    offset.ok_or(RangeFault::Missing)
}

/// The bytes from `start` to `end`, if the two are in order and inside.
fn part(bytes: &[u8], start: i64, end: i64) -> Option<&[u8]> {
    bytes.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
}

/// What is wrong with the place of an element.
#[derive(Debug)]
pub(super) enum RangeFault {
    /// The buffer ends before the element.
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
            Self::Prefix => f.write_str("the prefix in its view is not how its bytes begin"),
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
