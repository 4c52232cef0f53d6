//! What an array consists of, as plain bytes and numbers.

use std::ffi::CString;
use std::fmt;

use arrow_device::Memory;
use arrow_device::driver::Raw;

/// A node of an array together with its schema, and everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The format string.
    pub format: CString,
    /// The name; nothing is a null pointer.
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
    /// What each buffer pointer is.
    pub buffers: Vec<Content>,
    /// The children.
    pub children: Vec<Plan>,
    /// The values of a dictionary.
    pub dictionary: Option<Box<Plan>>,
}

impl Plan {
    /// Which of its buffers are on the device that the array is on: all but the sizes behind views,
    /// which are always in host memory.
    pub fn device_buffers(&self) -> usize {
        self.buffers.len() - usize::from(self.format.to_bytes().starts_with(b"v"))
    }
}

/// What a buffer pointer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A null pointer.
    Null,
    /// The address of memory with these bytes.
    Bytes(Vec<u8>),
    /// This address, whatever is there.
    At(usize),
    /// Memory of a device, which somebody else owns.
    On(Raw<Memory>),
}

/// Which elements of its buffers an array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Elements of the buffers before the first one.
    pub offset: usize,
    /// Elements.
    pub length: usize,
    /// Elements of the buffers behind the last one.
    pub tail: usize,
    /// All buffers are null, as they may be where there is no element.
    pub absent: bool,
}

impl Window {
    /// All elements of the buffers.
    pub const WHOLE: Self = Self { offset: 0, length: 5, tail: 0, absent: false };
    /// Some of them, with others before and behind.
    pub const SLICED: Self = Self { offset: 3, length: 4, tail: 2, absent: false };
    /// None, with buffers that are there.
    pub const EMPTY: Self = Self { offset: 0, length: 0, tail: 0, absent: false };
    /// None, with buffers that are null.
    pub const ABSENT: Self = Self { offset: 0, length: 0, tail: 0, absent: true };
    /// All four.
    pub const ALL: [Self; 4] = [Self::WHOLE, Self::SLICED, Self::EMPTY, Self::ABSENT];

    /// Elements in the buffers.
    pub fn capacity(self) -> usize {
        self.offset + self.length + self.tail
    }

    /// The window of a child with so many elements.
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

/// What is known of the nulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// There are none, and no bitmap.
    None,
    /// There is a bitmap, and they are counted.
    Counted,
    /// There is a bitmap, and nobody has counted.
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
    /// All three.
    pub const ALL: [Self; 3] = [Self::None, Self::Counted, Self::Unknown];

    /// The bitmap and the null count.
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

    /// The null count of a type that has no bitmap.
    pub fn without_bitmap(self, known: i64) -> i64 {
        if self == Self::Unknown { -1 } else { known }
    }
}

impl Window {
    /// These bytes, unless nothing is there.
    pub fn content(self, bytes: Vec<u8>) -> Content {
        if self.absent { Content::Null } else { Content::Bytes(bytes) }
    }
}

/// A bitmap.
pub fn bits(count: usize, is_set: impl Fn(usize) -> bool + Copy) -> Vec<u8> {
    let byte = |byte: usize| {
        (0..8)
            .filter(move |bit| byte * 8 + bit < count && is_set(byte * 8 + bit))
            .map(|bit| 1_u8 << bit)
    };
    (0..count.div_ceil(8)).map(|index| byte(index).sum()).collect()
}

/// Integers of so many bytes.
pub fn integers(width: usize, values: impl IntoIterator<Item = i64>) -> Vec<u8> {
    let bytes = |value: i64| match width {
        1 => (value as i8).to_ne_bytes().to_vec(),
        2 => (value as i16).to_ne_bytes().to_vec(),
        4 => (value as i32).to_ne_bytes().to_vec(),
        _ => value.to_ne_bytes().to_vec(),
    };
    values.into_iter().flat_map(bytes).collect()
}

/// Key-value pairs as `ArrowSchema.metadata` has them.
pub fn metadata(pairs: &[(&[u8], &[u8])]) -> Vec<u8> {
    let with_length = |bytes: &[u8]| [&(bytes.len() as i32).to_ne_bytes(), bytes].concat();
    let mut encoded = (pairs.len() as i32).to_ne_bytes().to_vec();
    for (key, value) in pairs {
        encoded.extend(with_length(key));
        encoded.extend(with_length(value));
    }
    encoded
}
