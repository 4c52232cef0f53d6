//! Arrays of text and bytes from Rust values.

use super::pieces::{Bits, Offsets, aligned, refused};
use crate::{Array, DataType, Result};

impl Array {
    /// An array of text, in any of its three layouts.
    ///
    /// ```
    /// # use arrow_device::{Array, DataType};
    /// let names = Array::from_texts(
    ///     DataType::Utf8View,
    ///     [Some("Ada"), None, Some("Grace Brewster Hopper")],
    /// )?;
    /// assert_eq!(names.host()?.texts()?.get(2), Some("Grace Brewster Hopper"));
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn from_texts<S: AsRef<str>>(
        data_type: DataType,
        values: impl IntoIterator<Item = Option<S>>,
    ) -> Result<Self> {
        if !data_type.is_text() {
            return Err(refused(format!("an array of {data_type} is not made from text")));
        }
        strings(data_type, values, |text| text.as_ref().as_bytes())
    }

    /// An array of bytes, with or without a fixed size.
    ///
    /// ```
    /// # use arrow_device::{Array, DataType};
    /// let keys = Array::from_bytes(DataType::FixedSizeBinary(2), [Some(b"ab"), Some(b"cd")])?;
    /// assert_eq!(keys.host()?.bytes()?.get(1), Some(&b"cd"[..]));
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn from_bytes<S: AsRef<[u8]>>(
        data_type: DataType,
        values: impl IntoIterator<Item = Option<S>>,
    ) -> Result<Self> {
        match data_type {
            DataType::FixedSizeBinary(size) => fixed_size(size, values),
            _ if data_type.is_binary() => strings(data_type, values, AsRef::as_ref),
            _ => Err(refused(format!("an array of {data_type} is not made from bytes"))),
        }
    }
}

fn strings<S>(
    data_type: DataType,
    values: impl IntoIterator<Item = Option<S>>,
    bytes: impl Fn(&S) -> &[u8],
) -> Result<Array> {
    match data_type {
        DataType::BinaryView | DataType::Utf8View => views(data_type, values, bytes),
        _ => with_offsets(data_type, values, bytes),
    }
}

fn with_offsets<S>(
    data_type: DataType,
    values: impl IntoIterator<Item = Option<S>>,
    bytes: impl Fn(&S) -> &[u8],
) -> Result<Array> {
    let wide = matches!(data_type, DataType::LargeBinary | DataType::LargeUtf8);
    let (mut present, mut data, mut offsets) = (Bits::default(), Vec::new(), Offsets::new(wide));
    offsets.push(0)?;
    for value in values {
        present.push(value.is_some());
        data.extend_from_slice(value.as_ref().map_or(&[], &bytes));
        offsets.push(data.len())?;
    }
    present.array(data_type, [offsets.into_buffer()?, aligned(&data)?])?.finish_ready()
}

/// The longest string that lies in the view itself.
pub(super) const INLINE: usize = 12;

fn views<S>(
    data_type: DataType,
    values: impl IntoIterator<Item = Option<S>>,
    bytes: impl Fn(&S) -> &[u8],
) -> Result<Array> {
    let (mut present, mut views, mut data) = (Bits::default(), Vec::new(), Data::default());
    for value in values {
        present.push(value.is_some());
        views.extend(data.view(value.as_ref().map_or(&[], &bytes))?);
    }
    let mut buffers = vec![aligned(&views)?];
    for bytes in data.buffers.iter().filter(|bytes| !bytes.is_empty()) {
        buffers.push(aligned(bytes)?);
    }
    present.array(data_type, buffers)?.finish_ready()
}

/// The data buffers of views. A new one begins where a place in the last one would not fit into an
/// `i32`.
#[derive(Default)]
struct Data {
    buffers: Vec<Vec<u8>>,
}

impl Data {
    /// Stores these bytes, and returns their view: the length, the first bytes, the number of the
    /// data buffer, and the place in it.
    fn view(&mut self, bytes: &[u8]) -> Result<[u8; 16]> {
        let length = i32::try_from(bytes.len())
            .map_err(|_| refused(format!("{} bytes are too long for a view", bytes.len())))?;
        if bytes.len() <= INLINE {
            return Ok(view(length, bytes));
        }
        let fits = |last: &Vec<u8>| i32::try_from(last.len() + bytes.len()).is_ok();
        if !self.buffers.last().is_some_and(fits) {
            self.buffers.push(Vec::new());
        }
        let index = self.buffers.len().saturating_sub(1);
        let place = self.buffers.last().map_or(0, Vec::len);
        if let Some(last) = self.buffers.last_mut() {
            last.extend_from_slice(bytes);
        }
        // Both numbers fit: `2^31` buffers of `2^31` bytes would be more than all memory.
        let rest = [index as i32, place as i32].map(i32::to_ne_bytes);
        let prefix = bytes.first_chunk::<4>().copied().unwrap_or_default();
        Ok(view(length, &[prefix, rest[0], rest[1]].concat()))
    }
}

fn view(length: i32, rest: &[u8]) -> [u8; 16] {
    let mut view = [0; 16];
    let bytes = length.to_ne_bytes().into_iter().chain(rest.iter().copied());
    view.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    view
}

fn fixed_size<S: AsRef<[u8]>>(
    size: i32,
    values: impl IntoIterator<Item = Option<S>>,
) -> Result<Array> {
    let width = usize::try_from(size).unwrap_or(0);
    let (mut present, mut data) = (Bits::default(), Vec::new());
    for value in values {
        present.push(value.is_some());
        match value.as_ref().map(AsRef::as_ref) {
            None => data.resize(data.len() + width, 0),
            Some(bytes) if bytes.len() == width => data.extend_from_slice(bytes),
            Some(bytes) => {
                return Err(refused(format!("{} bytes are not {size}", bytes.len())));
            }
        }
    }
    present.array(DataType::FixedSizeBinary(size), [aligned(&data)?])?.finish_ready()
}
