//! Describes an array as plain bytes and numbers.

use std::ffi::CString;
use std::fmt;

use arrow_device::Memory;
use arrow_device::driver::Raw;

/// A node of an array together with its schema, and everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The format string.
    pub format: CString,
    /// The name; `None` is a null pointer.
    pub name: Option<CString>,
    /// The metadata as the interface encodes it: see [`metadata`].
    pub metadata: Option<Vec<u8>>,
    /// The flags of the schema.
    pub flags: i64,
    /// The length of the array.
    pub length: i64,
    /// The null count of the array.
    pub null_count: i64,
    /// The offset of the array.
    pub offset: i64,
    /// The buffers.
    pub buffers: Vec<Content>,
    /// The children.
    pub children: Vec<Plan>,
    /// The values of a dictionary.
    pub dictionary: Option<Box<Plan>>,
}

impl Plan {
    /// Returns how many of the buffers are on the array's device: all but the sizes of view data
    /// buffers, which are always in host memory.
    pub fn device_buffers(&self) -> usize {
        self.buffers.len() - usize::from(self.format.to_bytes().starts_with(b"v"))
    }
}

/// The target of a buffer pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A null pointer.
    Null,
    /// The address of memory with these bytes.
    Bytes(Vec<u8>),
    /// This address, whatever is there.
    At(usize),
    /// Memory of a device, which has another owner.
    On(Raw<Memory>),
}

/// The elements of the buffers that belong to an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// How many elements of the buffers come before the first one.
    pub offset: usize,
    /// How many elements the array has.
    pub length: usize,
    /// How many elements of the buffers come behind the last one.
    pub tail: usize,
    /// Whether all buffers are null pointers, as they may be in an array without elements.
    pub absent: bool,
}

impl Window {
    /// All elements of the buffers.
    pub const WHOLE: Self = Self { offset: 0, length: 5, tail: 0, absent: false };
    /// Some elements of the buffers, with others before and behind.
    pub const SLICED: Self = Self { offset: 3, length: 4, tail: 2, absent: false };
    /// No elements, with buffers that are there.
    pub const EMPTY: Self = Self { offset: 0, length: 0, tail: 0, absent: false };
    /// No elements, with buffers that are null pointers.
    pub const ABSENT: Self = Self { offset: 0, length: 0, tail: 0, absent: true };
    /// All four windows.
    pub const ALL: [Self; 4] = [Self::WHOLE, Self::SLICED, Self::EMPTY, Self::ABSENT];

    /// Returns how many elements the buffers have.
    pub fn capacity(self) -> usize {
        self.offset + self.length + self.tail
    }

    /// Returns the window of a child with `length` elements.
    pub fn below(self, length: usize) -> Self {
        let offset = usize::from(self.offset > 0);
        Self { offset, length, ..self }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, length, tail, absent } = self;
        match *self {
            Self::WHOLE => f.write_str("whole"),
            Self::SLICED => f.write_str("sliced"),
            Self::EMPTY => f.write_str("empty"),
            Self::ABSENT => f.write_str("empty without buffers"),
            _ => write!(f, "{length} after {offset} and before {tail}, absent: {absent}"),
        }
    }
}

/// What an array says about its nulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// There are no nulls, and no bitmap.
    None,
    /// There is a bitmap, and the null count is known.
    Counted,
    /// There is a bitmap, and the null count is not known.
    Unknown,
}

impl fmt::Display for Nulls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "no nulls",
            Self::Counted => "nulls",
            Self::Unknown => "nobody has counted",
        })
    }
}

impl Nulls {
    /// All three cases.
    pub const ALL: [Self; 3] = [Self::None, Self::Counted, Self::Unknown];

    /// Returns the bitmap and the null count.
    pub fn of(self, window: Window) -> (Content, i64) {
        if self == Self::None {
            return (Content::Null, 0);
        }
        let is_there = |index: usize| index % 3 != 1;
        let zeros =
            (window.offset..window.offset + window.length).filter(|i| !is_there(*i)).count();
        let count = if self == Self::Counted { zeros as i64 } else { -1 };
        (window.content(bits(window.capacity(), is_there)), count)
    }

    /// Returns the null count for a type that has no bitmap.
    pub fn without_bitmap(self, known: i64) -> i64 {
        if self == Self::Unknown { -1 } else { known }
    }
}

impl Window {
    /// Returns a buffer with these bytes, or a null pointer if buffers are absent.
    pub fn content(self, bytes: Vec<u8>) -> Content {
        if self.absent { Content::Null } else { Content::Bytes(bytes) }
    }
}

/// Returns the bytes of a bitmap.
pub fn bits(count: usize, is_set: impl Fn(usize) -> bool + Copy) -> Vec<u8> {
    let byte = |byte: usize| {
        (0..8)
            .filter(move |bit| byte * 8 + bit < count && is_set(byte * 8 + bit))
            .map(|bit| 1_u8 << bit)
    };
    (0..count.div_ceil(8)).map(|index| byte(index).sum()).collect()
}

/// Returns the bytes of integers of this width.
pub fn integers(width: usize, values: impl IntoIterator<Item = i64>) -> Vec<u8> {
    let bytes = |value: i64| match width {
        1 => (value as i8).to_ne_bytes().to_vec(),
        2 => (value as i16).to_ne_bytes().to_vec(),
        4 => (value as i32).to_ne_bytes().to_vec(),
        _ => value.to_ne_bytes().to_vec(),
    };
    values.into_iter().flat_map(bytes).collect()
}

/// Encodes key-value pairs as `ArrowSchema.metadata` does.
pub fn metadata(pairs: &[(&[u8], &[u8])]) -> Vec<u8> {
    let with_length = |bytes: &[u8]| [&(bytes.len() as i32).to_ne_bytes(), bytes].concat();
    let mut encoded = (pairs.len() as i32).to_ne_bytes().to_vec();
    for (key, value) in pairs {
        encoded.extend(with_length(key));
        encoded.extend(with_length(value));
    }
    encoded
}
